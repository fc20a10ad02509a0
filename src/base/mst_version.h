
/*
 * The version of module and program: the topmost entry of CHANGES.
 */

#ifndef MST_VERSION_H
#define MST_VERSION_H


#define MST_VERSION  "0.1.0"


#endif /* MST_VERSION_H */


/*
 * Who hears every reason why a model would not run: one line for each.
 */

#ifndef MST_FAULTS_H
#define MST_FAULTS_H

#include <string.h>

#include "model/mst_fault.h"


typedef struct {
    mst_faults_t  faults;
    char          text[8192];      /* one line for each */
} told_t;


static inline void
told_one(void *data, const mst_err_t *why)
{
    told_t  *t = data;

    (void) strcat(strcat(t->text, why->text), "\n");
}


static inline mst_faults_t *
told_init(told_t *t)
{
    t->faults.tell = told_one;
    t->faults.data = t;
    t->faults.n = 0;
    t->text[0] = '\0';

    return &t->faults;
}


#endif /* MST_FAULTS_H */

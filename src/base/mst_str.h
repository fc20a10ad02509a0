
/*
 * A string with a length: text may hold NUL, so nothing that came from a
 * client or a file is ever measured with strlen().
 */

#ifndef MST_STR_H
#define MST_STR_H

#include <stddef.h>
#include <string.h>


typedef struct {
    size_t       len;          /* bytes */
    const char  *data;         /* not NUL-terminated; owned elsewhere */
} mst_str_t;


#define mst_string(lit)  { sizeof(lit) - 1, lit }


static inline mst_str_t
mst_str(const char *data, size_t len)
{
    mst_str_t  s;

    s.len = len;
    s.data = data;

    return s;
}


static inline int
mst_str_eq(mst_str_t s, const char *z)
{
    return strlen(z) == s.len && memcmp(z, s.data, s.len) == 0;
}


#endif /* MST_STR_H */


/*
 * A byte buffer that grows.  A failed append leaves the buffer as it was,
 * sets "failed", and every later append fails too: a writer may check once
 * at its end.  One thread at a time.
 */

#ifndef MST_BUF_H
#define MST_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_str.h"


typedef struct {
    char    *data;             /* owned; NULL while size is 0 */
    size_t   len;              /* bytes used */
    size_t   size;             /* bytes allocated */
    int      failed;           /* out of memory happened */
} mst_buf_t;


void mst_buf_init(mst_buf_t *b);
void mst_buf_fini(mst_buf_t *b);               /* may be called twice */

static inline void
mst_buf_reset(mst_buf_t *b)
{
    b->len = 0;
    b->failed = 0;
}

/* all return MST_OK or MST_ERROR */
int mst_buf_reserve(mst_buf_t *b, size_t n);   /* room for n more bytes */
int mst_buf_uint(mst_buf_t *b, uint64_t n);    /* decimal */
int mst_buf_printf(mst_buf_t *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));


/* here, since a literal's copy is then a few moves: five make a chunk */

static inline int
mst_buf_append(mst_buf_t *b, const void *data, size_t n)
{
    if ((b->failed || n > b->size - b->len)
        && mst_buf_reserve(b, n) != MST_OK)
    {
        return MST_ERROR;
    }

    if (n) {
        memcpy(b->data + b->len, data, n);
        b->len += n;
    }

    return MST_OK;
}


static inline int
mst_buf_str(mst_buf_t *b, mst_str_t s)
{
    return mst_buf_append(b, s.data, s.len);
}


static inline int
mst_buf_text(mst_buf_t *b, const char *z)
{
    return mst_buf_append(b, z, strlen(z));
}


static inline int
mst_buf_char(mst_buf_t *b, char c)
{
    return mst_buf_append(b, &c, 1);
}


#endif /* MST_BUF_H */


/*
 * The growing byte buffer: see mst_buf.h.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_buf.h"
#include "base/mst_mem.h"


void
mst_buf_init(mst_buf_t *b)
{
    memset(b, 0, sizeof(mst_buf_t));
}


void
mst_buf_fini(mst_buf_t *b)
{
    mst_free(b->data);
    mst_buf_init(b);
}


int
mst_buf_reserve(mst_buf_t *b, size_t n)
{
    char    *p;
    size_t   need, size;

    if (b->failed) {
        return MST_ERROR;
    }

    if (n <= b->size - b->len) {
        return MST_OK;
    }

    if (__builtin_add_overflow(b->len, n, &need) || need > SIZE_MAX / 2) {
        b->failed = 1;
        return MST_ERROR;
    }

    for (size = b->size ? b->size : 256; size < need; size *= 2) {
        /* void */
    }

    p = mst_realloc(b->data, size, 1);
    if (p == NULL) {
        b->failed = 1;
        return MST_ERROR;
    }

    b->data = p;
    b->size = size;

    return MST_OK;
}


int
mst_buf_uint(mst_buf_t *b, uint64_t n)
{
    char  *p, digits[20];

    p = digits + sizeof(digits);

    do {
        *--p = (char) ('0' + n % 10);
        n /= 10;
    } while (n);

    return mst_buf_append(b, p, (size_t) (digits + sizeof(digits) - p));
}


int
mst_buf_printf(mst_buf_t *b, const char *fmt, ...)
{
    int      n;
    va_list  args, again;

    va_start(args, fmt);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);

    if (n < 0 || mst_buf_reserve(b, (size_t) n + 1) != MST_OK) {
        va_end(again);
        b->failed = 1;
        return MST_ERROR;
    }

    (void) vsnprintf(b->data + b->len, (size_t) n + 1, fmt, again);
    va_end(again);

    b->len += (size_t) n;

    return MST_OK;
}


/*
 * The error sentence: see mst_err.h.
 */

#include <stdio.h>
#include <string.h>

#include "base/mst_err.h"


int
mst_err_set(mst_err_t *err, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) mst_err_vset(err, NULL, fmt, args);
    va_end(args);

    return MST_ERROR;
}


int
mst_err_vset(mst_err_t *err, const char *where, const char *fmt, va_list args)
{
    if (err == NULL || err->text[0] != '\0') {
        return MST_ERROR;
    }

    (void) vsnprintf(err->text, sizeof(err->text), fmt, args);

    return where ? mst_err_prefix(err, where) : MST_ERROR;
}


int
mst_err_errno(mst_err_t *err, int errnum, const char *fmt, ...)
{
    size_t   len;
    va_list  args;

    if (err == NULL || err->text[0] != '\0') {
        return MST_ERROR;
    }

    va_start(args, fmt);
    (void) mst_err_vset(err, NULL, fmt, args);
    va_end(args);

    len = strlen(err->text);

    (void) snprintf(err->text + len, sizeof(err->text) - len, ": %s",
                    strerror(errnum));

    return MST_ERROR;
}


int
mst_err_prefix(mst_err_t *err, const char *prefix)
{
    size_t     n;
    mst_err_t  copy;

    if (err == NULL) {
        return MST_ERROR;
    }

    n = strlen(prefix);

    if (n > sizeof(err->text) / 2) {
        prefix += n - sizeof(err->text) / 2;
    }

    copy = *err;

    n = (size_t) snprintf(err->text, sizeof(err->text), "%s: ", prefix);
    (void) snprintf(err->text + n, sizeof(err->text) - n, "%s", copy.text);

    return MST_ERROR;
}


/*
 * Return codes and the one error sentence.
 *
 * A function that can fail returns one of the codes below, or NULL.  One
 * that fails for a reason an operator must read takes a mst_err_t last and
 * sets the text once, where the cause is known, with the value, the limit
 * and the place; callers pass it up unchanged.  Only a host (nginx, the
 * program) prints it.  Any process, any thread; a mst_err_t belongs to its
 * caller.
 */

#ifndef MST_ERR_H
#define MST_ERR_H

#include <stdarg.h>


/* the numbers equal NGX_OK .. NGX_DECLINED */

#define MST_OK         0
#define MST_ERROR     -1
#define MST_AGAIN     -2       /* nothing now, try later */
#define MST_BUSY      -3       /* full */
#define MST_DONE      -4       /* nothing more will come */
#define MST_DECLINED  -5       /* not mine: unknown format, unsupported */


typedef struct {
    char  text[512];           /* one sentence, no newline, "" = none yet */
} mst_err_t;


/*
 * Formats the sentence unless one stands there already: the first cause
 * wins.  "err" may be NULL.  Returns MST_ERROR, so that callers can write
 * "return mst_err_set(...)".
 */
int mst_err_set(mst_err_t *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* the same with "where: " before it, for who has a sentence of its own to begin
   with; where may be NULL */
int mst_err_vset(mst_err_t *err, const char *where, const char *fmt,
    va_list args) __attribute__((format(printf, 3, 0)));

/* puts "prefix: " before the text, once: a loader adds the file's name */
int mst_err_prefix(mst_err_t *err, const char *prefix);

/* mst_err_set() with ": <strerror(errnum)>" at the end */
int mst_err_errno(mst_err_t *err, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));


#endif /* MST_ERR_H */

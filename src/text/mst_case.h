
/*
 * Upper and lower case of texts, by Unicode's simple mapping (glibc's
 * tables) and the few letters that become two.
 *
 * mst_case_open() is called once, when a configuration is read; without it, or
 * on a system without the locale C.UTF-8, only ASCII has case.  Any thread
 * afterwards, each with its own mst_work_t.
 */

#ifndef MST_CASE_H
#define MST_CASE_H

#include "text/mst_text.h"


typedef enum {
    MST_CASE_UPPER,
    MST_CASE_LOWER,
    MST_CASE_CAPITALIZE,       /* the first upper, the rest lower */
    MST_CASE_TITLE,            /* each run of letters capitalised */
    MST_CASE_SWAP
} mst_case_t;

typedef enum {
    MST_CASE_IS_ALPHA,
    MST_CASE_IS_ALNUM,
    MST_CASE_IS_DIGIT,
    MST_CASE_IS_SPACE,
    MST_CASE_IS_LOWER,
    MST_CASE_IS_UPPER
} mst_case_is_t;


void mst_case_open(void);

/* t is flat; NULL: failed */
mst_text_t *mst_case(mst_work_t *w, const mst_text_t *t, mst_case_t how);

/* as Python's str.isalpha() and the like: none of an empty text */
int mst_case_is(const mst_text_t *t, mst_case_is_t what);


#endif /* MST_CASE_H */


/*
 * Strings that know where each byte comes from.
 *
 * A prompt's control tokens may come from the template's own text only, so
 * every byte that a template handles is marked: written in the template, or
 * a value (of the last message's, when it is to be continued, apart).  All
 * that cuts or joins strings keeps the marks; all that computes new bytes
 * (JSON, numbers) yields values.
 *
 * Texts are UTF-8 and immutable.  A sum of two is kept as such until its
 * bytes are asked for, so that "head + message + tail" copies no message.
 * Memory is a mst_work_t's, functions return NULL when that is at its end.
 */

#ifndef MST_TEXT_H
#define MST_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_str.h"
#include "text/mst_work.h"


typedef enum {
    MST_TEXT_VALUE,            /* from a message, a tool, a setting */
    MST_TEXT_TEMPLATE,         /* from the template's own text */
    MST_TEXT_FINAL,            /* a value: of the message that goes on */
    MST_TEXT_MIXED
} mst_text_from_t;


typedef struct mst_text_s  mst_text_t;

struct mst_text_s {
    size_t                len;     /* bytes */
    const char           *data;    /* NULL: the sum of left and right */
    const unsigned char  *mark;    /* [len] of mst_text_from_t where from is
                                      MST_TEXT_MIXED */
    mst_text_t           *left;
    mst_text_t           *right;
    unsigned char         from;
    unsigned char         depth;   /* of sums on the right of sums */
    unsigned char         markup;  /* called safe: what is added is escaped */
};


/* bytes that live longer than w */
mst_text_t *mst_text_of(mst_work_t *w, const char *data, size_t len,
    mst_text_from_t from);
mst_text_t *mst_text_copy(mst_work_t *w, const char *data, size_t len,
    mst_text_from_t from);
mst_text_t *mst_text_sum(mst_work_t *w, mst_text_t *a, mst_text_t *b);

/* the same text, called safe or not */
mst_text_t *mst_text_markup(mst_work_t *w, mst_text_t *t, int is);

/* t with its bytes in one place; fails for memory only */
int mst_text_flat(mst_work_t *w, mst_text_t *t);

/* t must be flat for all that follows */

mst_text_t *mst_text_part(mst_work_t *w, const mst_text_t *t, size_t off,
    size_t len);

/* code points */
size_t mst_text_chars(const mst_text_t *t);

/* byte offset of the n-th code point, len at most */
size_t mst_text_offset(const mst_text_t *t, size_t n);

/* bytes of the character at "off" */
size_t mst_text_char(const mst_text_t *t, size_t off);

/* offset of the first or last s at or behind "off", or -1 */
int64_t mst_text_find(const mst_text_t *t, mst_str_t s, size_t off);
int64_t mst_text_rfind(const mst_text_t *t, mst_str_t s);

/* without the characters of "set" (NULL: white space) at its sides */
mst_text_t *mst_text_strip(mst_work_t *w, mst_text_t *t,
    const mst_text_t *set, int left, int right);

/* Python's str.isspace() of one code point */
int mst_text_is_space(uint32_t cp);

/* the code point at p < end; its bytes in *n */
uint32_t mst_text_decode(const char *p, const char *end, size_t *n);
void mst_text_encode(uint32_t cp, char *p, size_t *n);

static inline mst_str_t
mst_text_str(const mst_text_t *t)
{
    return mst_str(t->data, t->len);
}


/* where a template's output grows */

typedef struct {
    size_t         end;        /* of the bytes that have this origin */
    unsigned char  from;
} mst_text_run_t;

typedef struct {
    mst_buf_t        buf;
    mst_text_run_t  *runs;     /* [n], owned; neighbours differ */
    size_t           n;
    size_t           size;
} mst_text_out_t;


void mst_text_out_init(mst_text_out_t *o);
void mst_text_out_fini(mst_text_out_t *o);

int mst_text_out_add(mst_text_out_t *o, mst_work_t *w, mst_text_t *t);
int mst_text_out_bytes(mst_text_out_t *o, mst_work_t *w, const char *data,
    size_t len, mst_text_from_t from);

/* a text of its own memory */
mst_text_t *mst_text_out_take(const mst_text_out_t *o, mst_work_t *w);


#endif /* MST_TEXT_H */

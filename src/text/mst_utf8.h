
/*
 * UTF-8: an incremental decoder that replaces what is invalid (one U+FFFD
 * per maximal invalid part, as WHATWG and Python do, or one per byte, as
 * SentencePiece does), and a validator.
 */

#ifndef MST_UTF8_H
#define MST_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"


typedef struct {
    unsigned char  held[4];    /* a valid beginning of one code point */
    uint32_t       n;          /* bytes in held: 0 .. 3 */
    int            each;       /* one U+FFFD per byte */
} mst_utf8_t;


void mst_utf8_init(mst_utf8_t *u);

/* appends complete, valid UTF-8 only; MST_OK or MST_ERROR (memory) */
int mst_utf8_push(mst_utf8_t *u, const void *data, size_t len,
    mst_buf_t *out);
int mst_utf8_finish(mst_utf8_t *u, mst_buf_t *out);

/* offset of the first sequence that is invalid or unfinished, or len: no
   surrogates, no overlong forms, nothing above U+10FFFF */
size_t mst_utf8_check(const void *data, size_t len);

/*
 * Decodes one code point of text that was checked or not: returns its length
 * 1 .. 4; an invalid byte has length 1 and *cp = 0xFFFD.  len > 0.
 */
size_t mst_utf8_decode(const void *data, size_t len, uint32_t *cp);


#endif /* MST_UTF8_H */

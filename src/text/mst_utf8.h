
/*
 * UTF-8: an incremental decoder that replaces what is invalid (one U+FFFD
 * per maximal invalid part, as WHATWG and Python do, or one per byte, as
 * SentencePiece does), and a validator.
 *
 * Keeps nothing but what is given: any thread.
 */

#ifndef MST_UTF8_H
#define MST_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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


/* the code point of two or three bytes at p, of "len" there: their number, or
   0: there is none such; several times as fast as the above */

static inline size_t
mst_utf8_short(const unsigned char *p, size_t len, uint32_t *cp)
{
    uint32_t  w;

    if (len >= sizeof(uint32_t)) {
        memcpy(&w, p, sizeof(uint32_t));           /* little-endian */

    } else {
        w = p[0] | (len > 1 ? p[1] << 8 : 0) | (len > 2 ? p[2] << 16 : 0);
    }

    if ((w & 0xc0e0) == 0x80c0) {
        *cp = (w & 0x1f) << 6 | (w >> 8 & 0x3f);
        return *cp < 0x80 ? 0 : 2;
    }

    if ((w & 0xc0c0f0) != 0x8080e0) {
        return 0;
    }

    *cp = (w & 0xf) << 12 | (w >> 2 & 0xfc0) | (w >> 16 & 0x3f);

    return *cp < 0x800 || (*cp & 0xf800) == 0xd800 ? 0 : 3;
}


#endif /* MST_UTF8_H */

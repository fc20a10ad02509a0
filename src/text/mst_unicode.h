
/*
 * What a code point is to a pre-tokenizer: general categories and White_Space
 * of Unicode 16, which the reference implementations' regular expressions
 * use, plus the 13 numbers that Unicode 17 added, which one digit splitter
 * knows already.
 *
 * Tables that nobody changes: any thread.
 */

#ifndef MST_UNICODE_H
#define MST_UNICODE_H

#include <stdint.h>


/* bits */
#define MST_UNICODE_L      1       /* L* */
#define MST_UNICODE_N      2       /* N* */
#define MST_UNICODE_UPPER  4       /* Lu, Lt, Lm, Lo, M* */
#define MST_UNICODE_LOWER  8       /* Ll, Lm, Lo, M* */
#define MST_UNICODE_S      16      /* White_Space */
#define MST_UNICODE_N17    32      /* N* since Unicode 17 */

/* one class each: letter, number (with those of Unicode 17), white space */
#define MST_UNICODE_OTHER   0
#define MST_UNICODE_LETTER  1
#define MST_UNICODE_NUMBER  2
#define MST_UNICODE_SPACE   3


extern const unsigned char  mst_unicode_ascii[128];        /* bits */
extern const unsigned char  mst_unicode_classes[64];       /* by bits */

/* any code point; above U+10FFFF: 0 */
uint32_t mst_unicode_bits(uint32_t cp);


/* bits[65536] of the code points below: the same, sooner */
void mst_unicode_fill(unsigned char *bits);


static inline uint32_t
mst_unicode_class(uint32_t cp)
{
    return mst_unicode_classes[mst_unicode_bits(cp)];
}


#endif /* MST_UNICODE_H */

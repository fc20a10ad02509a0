
/*
 * What a code point is to a pre-tokenizer: letter (general category L*),
 * number (N*), white space (property White_Space) or none of them.
 *
 * The classes are those of Unicode 16, which the reference implementation's
 * regular expressions use, plus the 13 numbers that Unicode 17 added, which
 * its digit splitter knows already.
 */

#ifndef MST_UNICODE_H
#define MST_UNICODE_H

#include <stdint.h>


#define MST_UNICODE_OTHER   0
#define MST_UNICODE_LETTER  1
#define MST_UNICODE_NUMBER  2
#define MST_UNICODE_SPACE   3


extern const unsigned char  mst_unicode_ascii[128];

/* any code point; above U+10FFFF: other */
uint32_t mst_unicode_class(uint32_t cp);


#endif /* MST_UNICODE_H */


/*
 * Classes of code points: see mst_unicode.h.
 *
 * A search by halves in the table of runs (mst_unicode_runs.c), which begins
 * with the runs of 128 code points where these lie in the first two planes.
 */

#include "text/mst_unicode_runs.h"


const unsigned char  mst_unicode_ascii[128] = {
     0,  0,  0,  0,  0,  0,  0,  0,  0, 16, 16, 16, 16, 16,  0,  0,
     0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    16,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
     2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  0,  0,  0,  0,  0,  0,
     0,  5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  5,
     5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  5,  0,  0,  0,  0,  0,
     0,  9,  9,  9,  9,  9,  9,  9,  9,  9,  9,  9,  9,  9,  9,  9,
     9,  9,  9,  9,  9,  9,  9,  9,  9,  9,  9,  0,  0,  0,  0,  0
};


const unsigned char  mst_unicode_classes[64] = {
    0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1,
    3, 1, 2, 1, 3, 1, 2, 1, 3, 1, 2, 1, 3, 1, 2, 1,
    2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1,
    2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1
};


uint32_t
mst_unicode_bits(uint32_t cp)
{
    size_t           n, half, block;
    const uint32_t  *r;

    if (cp < 128) {
        return mst_unicode_ascii[cp];
    }

    if (cp > 0x10ffff) {
        return 0;
    }

    r = mst_unicode_runs;
    n = MST_UNICODE_RUNS;
    block = cp >> MST_UNICODE_BLOCK;

    if (block < MST_UNICODE_BLOCKS) {
        r += mst_unicode_first[block];
        n = (size_t) mst_unicode_first[block + 1]
            - mst_unicode_first[block] + 1;
    }

    /* the last run that begins at or before cp; the first begins at 80 */

    while (n > 1) {
        half = n / 2;
        r += (r[half] & 0xffffff) <= cp ? half : 0;
        n -= half;
    }

    return *r >> 24;
}


void
mst_unicode_fill(unsigned char *bits)
{
    uint32_t  cp;

    for (cp = 0; cp < 65536; cp++) {
        bits[cp] = (unsigned char) mst_unicode_bits(cp);
    }
}


/*
 * Weights of 4 and 8 bits: how they come from a file and how they lie for the
 * decode GEMM.  Plain arithmetic, the same for nvcc and gcc
 * (t/unit/mst_k_quant_map_test.c).
 *
 * A weight is code * scale + min, with a scale and a min for each group of a
 * row's neighbours: scale and min are f16.  What files have comes to one of
 * four forms:
 *
 *     W4_32   Q4_0, Q4_1, Q4_K      codes 0 .. 15,     scale and min
 *     W4_128  int4 made at load     codes 0 .. 15,     scale and min
 *     W8_32   Q8_0                  codes -128 .. 127, scale
 *     W8_16   Q6_K                  codes -32 .. 31,   scale
 *
 * Codes are the file's.  A scale or min that is a product in the file (Q4_K,
 * Q6_K) is rounded to f16 once.
 *
 * Tiles: 16 rows in the order of mst_k_gemm_map.h are a unit, 128 of the
 * width a block, the width padded with zeros to whole blocks; blocks make
 * chunks of 16 KB of codes, which one bulk copy fetches with their scales:
 *
 *     [unit][chunk]{ [block][part][lane's 16 bytes] [group][row] }
 *
 * A lane of the tensor cores (m16n8k32 of bytes) has rows g and g + 8
 * (g = lane / 4) and of each 32 of the width those 4 from 4 * (lane % 4) on
 * and the 4 that are 16 further: 16 bytes.  A part of 4 bits has 64 of the
 * width, of which the upper half stands in the bytes' upper bits, a part of 8
 * bits 32.  Scales of rows g and g + 8 are neighbours.
 */

#ifndef MST_K_QUANT_MAP_H
#define MST_K_QUANT_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mst_hd.h"
#include "kernels/mst_k_gemm_map.h"

#define MST_K_QUANT_BLOCK  128     /* of the width */
#define MST_K_QUANT_CODES  16384   /* bytes of codes of a chunk */

/* the numbers are GGUF's tensor types (file/mst_quant.h) */
#define MST_K_QUANT_Q4_0   2
#define MST_K_QUANT_Q4_1   3
#define MST_K_QUANT_Q8_0   8
#define MST_K_QUANT_Q4_K   12
#define MST_K_QUANT_Q6_K   14
#define MST_K_QUANT_BF16   30      /* made W4_128 */


typedef enum {
    MST_K_QUANT_W4_32,
    MST_K_QUANT_W4_128,
    MST_K_QUANT_W8_32,
    MST_K_QUANT_W8_16,
    MST_K_QUANT_FORMS
} mst_k_quant_form_t;


/* where an element lies in its unit */
typedef struct {
    uint32_t  byte;                /* of its codes' word, a multiple of 4 */
    uint32_t  shift;               /* in this word */
    uint32_t  scale;               /* byte of its scale (and min) */
} mst_k_quant_at_t;


/* form of a type; MST_K_QUANT_FORMS: it has none */

MST_K_FN mst_k_quant_form_t
mst_k_quant_form(uint32_t type)
{
    switch (type) {

    case MST_K_QUANT_Q4_0:
    case MST_K_QUANT_Q4_1:
    case MST_K_QUANT_Q4_K:
        return MST_K_QUANT_W4_32;

    case MST_K_QUANT_BF16:
        return MST_K_QUANT_W4_128;

    case MST_K_QUANT_Q8_0:
        return MST_K_QUANT_W8_32;

    case MST_K_QUANT_Q6_K:
        return MST_K_QUANT_W8_16;

    default:
        return MST_K_QUANT_FORMS;
    }
}


MST_K_FN uint32_t
mst_k_quant_bits(mst_k_quant_form_t form)
{
    return form == MST_K_QUANT_W4_32 || form == MST_K_QUANT_W4_128 ? 4 : 8;
}


MST_K_FN uint32_t
mst_k_quant_group(mst_k_quant_form_t form)
{
    return form == MST_K_QUANT_W4_128 ? 128
           : form == MST_K_QUANT_W8_16 ? 16 : 32;
}


/* bytes of a row's scale, and min, of a group */

MST_K_FN uint32_t
mst_k_quant_scale_size(mst_k_quant_form_t form)
{
    return mst_k_quant_bits(form) == 4 ? 4 : 2;
}


/* bytes of a block of 16 rows: codes, then codes with scales */

MST_K_FN uint32_t
mst_k_quant_code_size(mst_k_quant_form_t form)
{
    return 16 * MST_K_QUANT_BLOCK * mst_k_quant_bits(form) / 8;
}


MST_K_FN uint32_t
mst_k_quant_block_size(mst_k_quant_form_t form)
{
    return mst_k_quant_code_size(form)
           + 16 * MST_K_QUANT_BLOCK * mst_k_quant_scale_size(form)
             / mst_k_quant_group(form);
}


/* blocks of a chunk that is full */

MST_K_FN uint32_t
mst_k_quant_chunk(mst_k_quant_form_t form)
{
    return MST_K_QUANT_CODES / mst_k_quant_code_size(form);
}


/* blocks of a width */

MST_K_FN uint32_t
mst_k_quant_blocks(uint32_t width)
{
    return (width + MST_K_QUANT_BLOCK - 1) / MST_K_QUANT_BLOCK;
}


MST_K_FN size_t
mst_k_quant_unit_size(mst_k_quant_form_t form, uint32_t width)
{
    return (size_t) mst_k_quant_blocks(width) * mst_k_quant_block_size(form);
}


MST_K_FN size_t
mst_k_quant_size(mst_k_quant_form_t form, uint32_t rows, uint32_t width)
{
    return mst_k_gemm_units(rows) * mst_k_quant_unit_size(form, width);
}


/* row r of a unit (of 16), column k */

MST_K_FN mst_k_quant_at_t
mst_k_quant_at(mst_k_quant_form_t form, uint32_t width, uint32_t r,
    uint32_t k)
{
    uint32_t          block, chunk, lane, n, word;
    mst_k_quant_at_t  at;

    block = k / MST_K_QUANT_BLOCK;
    chunk = block / mst_k_quant_chunk(form);
    block -= chunk * mst_k_quant_chunk(form);

    n = mst_k_quant_blocks(width) - chunk * mst_k_quant_chunk(form);
    n = n < mst_k_quant_chunk(form) ? n : mst_k_quant_chunk(form);

    at.byte = chunk * mst_k_quant_chunk(form) * mst_k_quant_block_size(form);
    at.scale = at.byte + n * mst_k_quant_code_size(form)
               + ((block * MST_K_QUANT_BLOCK + k % MST_K_QUANT_BLOCK)
                  / mst_k_quant_group(form) * 16 + (r & 7) * 2 + (r >> 3))
                 * mst_k_quant_scale_size(form);

    k %= MST_K_QUANT_BLOCK;
    lane = (r & 7) * 4 + k / 4 % 4;
    word = (k >> 4 & 1) * 2 + (r >> 3);

    at.byte += block * mst_k_quant_code_size(form) + lane * 16 + word * 4;
    at.shift = k % 4 * 8;

    if (mst_k_quant_bits(form) == 4) {
        at.byte += k / 64 * 512;
        at.shift += k / 32 % 2 * 4;

    } else {
        at.byte += k / 32 * 512;
    }

    return at;
}


/* f16, exact; infinities and NaN, too */

MST_K_FN float
mst_k_quant_f16(const uint8_t *p)
{
    float     f;
    uint32_t  h, u;

    h = p[0] | (uint32_t) p[1] << 8;
    u = (h & 0x7fff) << 13;

    memcpy(&f, &u, sizeof(float));
    f *= 0x1p112f;

    if ((h & 0x7c00) == 0x7c00) {
        u |= 0x7f800000u;
        memcpy(&f, &u, sizeof(float));
    }

    return h & 0x8000 ? -f : f;
}


/* bytes of so many elements of a row in a file */

MST_K_FN size_t
mst_k_quant_file_size(uint32_t type, size_t n)
{
    switch (type) {

    case MST_K_QUANT_Q4_0:
        return n / 32 * 18;

    case MST_K_QUANT_Q4_1:
        return n / 32 * 20;

    case MST_K_QUANT_Q8_0:
        return n / 32 * 34;

    case MST_K_QUANT_Q4_K:
        return n / 256 * 144;

    case MST_K_QUANT_Q6_K:
        return n / 256 * 210;

    default:
        return n * 2;
    }
}


/* code of element k of a row of a file */

MST_K_FN int
mst_k_quant_code(uint32_t type, const uint8_t *row, uint32_t k)
{
    uint32_t        i;
    const uint8_t  *p;

    switch (type) {

    case MST_K_QUANT_Q4_0:
        p = row + k / 32 * 18 + 2;
        return p[k % 16] >> (k / 16 % 2 * 4) & 15;

    case MST_K_QUANT_Q4_1:
        p = row + k / 32 * 20 + 4;
        return p[k % 16] >> (k / 16 % 2 * 4) & 15;

    case MST_K_QUANT_Q8_0:
        p = row + k / 32 * 34 + 2;
        return (int8_t) p[k % 32];

    case MST_K_QUANT_Q4_K:
        p = row + k / 256 * 144 + 16;
        return p[k / 64 % 4 * 32 + k % 32] >> (k / 32 % 2 * 4) & 15;

    default:                                       /* Q6_K */
        p = row + k / 256 * 210;
        i = k % 128;

        return (p[k / 128 % 2 * 64 + i % 64] >> (i / 64 * 4) & 15)
               + ((p[128 + k / 128 % 2 * 32 + i % 32] >> (i / 32 * 2) & 3)
                  << 4)
               - 32;
    }
}


/* 6 bits of scale (min = 0) or min (min = 1) of sub-block i of a Q4_K */

MST_K_FN uint32_t
mst_k_quant_six(const uint8_t *p, uint32_t i, int min)
{
    p += 4;

    if (i < 4) {
        return p[i + (min ? 4 : 0)] & 63;
    }

    return (p[i + 4] >> (min ? 4 : 0) & 15)
           | (uint32_t) (p[i - (min ? 0 : 4)] >> 6) << 4;
}


MST_K_FN float
mst_k_quant_scale(uint32_t type, const uint8_t *row, uint32_t k)
{
    const uint8_t  *p;

    switch (type) {

    case MST_K_QUANT_Q4_0:
        return mst_k_quant_f16(row + k / 32 * 18);

    case MST_K_QUANT_Q4_1:
        return mst_k_quant_f16(row + k / 32 * 20);

    case MST_K_QUANT_Q8_0:
        return mst_k_quant_f16(row + k / 32 * 34);

    case MST_K_QUANT_Q4_K:
        p = row + k / 256 * 144;
        return mst_k_quant_f16(p)
               * (float) mst_k_quant_six(p, k / 32 % 8, 0);

    default:                                       /* Q6_K */
        p = row + k / 256 * 210;
        return mst_k_quant_f16(p + 208)
               * (float) (int8_t) p[192 + k / 16 % 16];
    }
}


MST_K_FN float
mst_k_quant_min(uint32_t type, const uint8_t *row, uint32_t k)
{
    const uint8_t  *p;

    switch (type) {

    case MST_K_QUANT_Q4_0:
        return -8 * mst_k_quant_f16(row + k / 32 * 18);

    case MST_K_QUANT_Q4_1:
        return mst_k_quant_f16(row + k / 32 * 20 + 2);

    case MST_K_QUANT_Q4_K:
        p = row + k / 256 * 144;
        return -mst_k_quant_f16(p + 2)
               * (float) mst_k_quant_six(p, k / 32 % 8, 1);

    default:
        return 0;
    }
}


#endif /* MST_K_QUANT_MAP_H */

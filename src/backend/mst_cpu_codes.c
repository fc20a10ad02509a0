
/*
 * Tiles of the types whose codes have five or six bits, or stand in
 * super-blocks of 256: from the file's layouts to those of mst_cpu_isa.h and
 * to floats.  Nothing is rounded on the way, and nothing grows by more than
 * the padding of scales to bytes.
 *
 * Called by whoever packs or reads a row; no state.
 */

#include <string.h>

#include "file/mst_quant.h"
#include "backend/mst_cpu.h"

#define MST_CPU_CODES_SUPER  8     /* blocks of a super-block */


/* 32 inputs of a row */
typedef struct {
    uint8_t   code[MST_CPU_BLOCK];
    uint16_t  d;                   /* f16 */
    uint16_t  m;                   /* f16; of super-blocks it is subtracted */
    uint8_t   scale[2];            /* of Q6_K for 16 inputs each, signed; else
                                      of d and of m */
} mst_cpu_codes_t;


typedef void (*mst_cpu_codes_pt)(const uint8_t *src, uint32_t block,
    mst_cpu_codes_t *c);


static void mst_cpu_codes_five(const uint8_t *src, uint32_t block,
    mst_cpu_codes_t *c);
static void mst_cpu_codes_five_min(const uint8_t *src, uint32_t block,
    mst_cpu_codes_t *c);
static void mst_cpu_codes_q4_k(const uint8_t *src, uint32_t block,
    mst_cpu_codes_t *c);
static void mst_cpu_codes_q5_k(const uint8_t *src, uint32_t block,
    mst_cpu_codes_t *c);
static void mst_cpu_codes_q6_k(const uint8_t *src, uint32_t block,
    mst_cpu_codes_t *c);


static const struct {
    uint32_t          bits;
    uint32_t          size;        /* of a block in a tile */
    uint32_t          before;      /* bytes there, before */
    uint32_t          blocks;      /* so many blocks */
    uint32_t          file;        /* bytes of so many blocks in a file */
    mst_cpu_codes_pt  get;         /* block 0 .. blocks - 1 of a file's */
} mst_cpu_codes_types[MST_CPU_TYPES] = {
    [MST_CPU_Q5_0] = { 5, 352, 0, 1, 22, mst_cpu_codes_five },
    [MST_CPU_Q5_1] = { 5, 384, 0, 1, 24, mst_cpu_codes_five_min },
    [MST_CPU_Q4_K] = { 4, 288, 64, MST_CPU_CODES_SUPER, 144,
                       mst_cpu_codes_q4_k },
    [MST_CPU_Q5_K] = { 5, 352, 64, MST_CPU_CODES_SUPER, 176,
                       mst_cpu_codes_q5_k },
    [MST_CPU_Q6_K] = { 6, MST_CPU_Q6_K_SIZE, 32, MST_CPU_CODES_SUPER, 210,
                       mst_cpu_codes_q6_k }
};


static void
mst_cpu_codes_nibbles(const uint8_t *low, const uint8_t *high, uint8_t *code)
{
    uint32_t  i;

    for (i = 0; i < 16; i++) {
        code[i] = (uint8_t) ((low[i] & 15) | (high[i / 8] >> i % 8 & 1) << 4);
        code[16 + i] = (uint8_t) (low[i] >> 4
                                  | (high[2 + i / 8] >> i % 8 & 1) << 4);
    }
}


static void
mst_cpu_codes_five(const uint8_t *src, uint32_t block, mst_cpu_codes_t *c)
{
    (void) block;

    memcpy(&c->d, src, 2);
    mst_cpu_codes_nibbles(src + 6, src + 2, c->code);
}


static void
mst_cpu_codes_five_min(const uint8_t *src, uint32_t block,
    mst_cpu_codes_t *c)
{
    (void) block;

    memcpy(&c->d, src, 2);
    memcpy(&c->m, src + 2, 2);
    mst_cpu_codes_nibbles(src + 8, src + 4, c->code);
}


/* mst_quant.c describes the layouts */

static void
mst_cpu_codes_q4_k(const uint8_t *src, uint32_t block, mst_cpu_codes_t *c)
{
    int             min, scale;
    uint32_t        i;
    const uint8_t  *p;

    memcpy(&c->d, src, 2);
    memcpy(&c->m, src + 2, 2);
    mst_quant_k_scales(src + 4, (int) block, &scale, &min);
    c->scale[0] = (uint8_t) scale;
    c->scale[1] = (uint8_t) min;
    p = src + 16 + block / 2 * 32;

    for (i = 0; i < MST_CPU_BLOCK; i++) {
        c->code[i] = block % 2 ? p[i] >> 4 : p[i] & 15;
    }
}


static void
mst_cpu_codes_q5_k(const uint8_t *src, uint32_t block, mst_cpu_codes_t *c)
{
    uint32_t        i;
    const uint8_t  *p;

    mst_cpu_codes_q4_k(src, block, c);
    p = src + 48 + block / 2 * 32;

    for (i = 0; i < MST_CPU_BLOCK; i++) {
        c->code[i] = (uint8_t) ((block % 2 ? p[i] >> 4 : p[i] & 15)
                                | (src[16 + i] >> block & 1) << 4);
    }
}


static void
mst_cpu_codes_q6_k(const uint8_t *src, uint32_t block, mst_cpu_codes_t *c)
{
    uint32_t        half, i, part;
    const uint8_t  *high, *low;

    half = block / 4;
    part = block % 4;
    low = src + 64 * half + part % 2 * 32;
    high = src + 128 + 32 * half;
    memcpy(&c->d, src + 208, 2);
    memcpy(c->scale, src + 192 + 2 * block, 2);

    for (i = 0; i < MST_CPU_BLOCK; i++) {
        c->code[i] = (uint8_t) ((low[i] >> part / 2 * 4 & 15)
                                | (high[i] >> part * 2 & 3) << 4);
    }
}


/* bytes of a tile's block before its scales */

static uint32_t
mst_cpu_codes_bytes(uint32_t bits)
{
    return bits * 64;
}


static void
mst_cpu_codes_put(const mst_cpu_codes_t *c, uint32_t bits, uint8_t *t,
    uint32_t lane)
{
    uint32_t  at, i;

    for (i = 0; i < 16; i++) {
        at = 4 * lane + i % 4;
        t[64 * (i / 4) + at] = (uint8_t) ((c->code[i] & 15)
                                          | (c->code[16 + i] & 15) << 4);
    }

    for (i = 0; bits > 4 && i < MST_CPU_BLOCK; i++) {
        at = 256 + 4 * lane + i % 4;

        if (bits == 5) {
            t[at] |= (uint8_t) (c->code[i] >> 4 << i / 4);

        } else {
            t[at + 64 * (i / 16)] |= (uint8_t) (c->code[i] >> 4
                                                << i % 16 / 4 * 2);
        }
    }
}


static void
mst_cpu_codes_get(mst_cpu_codes_t *c, uint32_t bits, const uint8_t *t,
    uint32_t lane)
{
    uint32_t  at, i;

    for (i = 0; i < MST_CPU_BLOCK; i++) {
        at = 4 * lane + i % 4;
        c->code[i] = t[64 * (i % 16 / 4) + at] >> i / 16 * 4 & 15;
        at += 256;

        if (bits == 5) {
            c->code[i] |= (uint8_t) ((t[at] >> i / 4 & 1) << 4);

        } else if (bits == 6) {
            c->code[i] |= (uint8_t) ((t[at + 64 * (i / 16)]
                                      >> i % 16 / 4 * 2 & 3) << 4);
        }
    }
}


/* where a tile has a block's codes, and what belongs to those of a lane; NULL:
   nowhere */

typedef struct {
    uint8_t  *code;
    uint8_t  *d;
    uint8_t  *m;
    uint8_t  *scale[2];
} mst_cpu_codes_place_t;


static void
mst_cpu_codes_find(mst_cpu_type_t type, const uint8_t *tile, uint32_t lane,
    uint32_t block, mst_cpu_codes_place_t *p)
{
    uint8_t   *behind, *super;
    uint32_t   n;

    n = mst_cpu_codes_types[type].blocks;
    super = (uint8_t *) tile
            + (size_t) (block / n) * (mst_cpu_codes_types[type].before
                                      + n * mst_cpu_codes_types[type].size);

    memset(p, 0, sizeof(mst_cpu_codes_place_t));
    p->code = super + mst_cpu_codes_types[type].before
              + (size_t) (block % n) * mst_cpu_codes_types[type].size;
    behind = p->code + mst_cpu_codes_bytes(mst_cpu_codes_types[type].bits);

    if (mst_cpu_codes_types[type].before == 0) {
        p->d = behind + 2 * lane;
        p->m = type == MST_CPU_Q5_1 ? behind + 32 + 2 * lane : NULL;
        return;
    }

    p->d = super + 2 * lane;
    p->m = type == MST_CPU_Q6_K ? NULL : super + 32 + 2 * lane;
    p->scale[0] = behind + lane;
    p->scale[1] = behind + 16 + lane;
}


size_t
mst_cpu_codes_size(mst_cpu_type_t type, uint32_t width)
{
    size_t  blocks;

    blocks = width / MST_CPU_BLOCK;

    return mst_cpu_codes_types[type].size * blocks
           + mst_cpu_codes_types[type].before
             * (blocks / mst_cpu_codes_types[type].blocks);
}


void
mst_cpu_codes_pack(mst_cpu_type_t type, const uint8_t *src, uint8_t *tile,
    uint32_t lane, uint32_t width)
{
    uint32_t               b, n;
    mst_cpu_codes_t        c;
    mst_cpu_codes_place_t  p;

    n = mst_cpu_codes_types[type].blocks;

    for (b = 0; b < width / MST_CPU_BLOCK; b++) {
        mst_cpu_codes_types[type].get(src, b % n, &c);
        mst_cpu_codes_find(type, tile, lane, b, &p);
        mst_cpu_codes_put(&c, mst_cpu_codes_types[type].bits, p.code, lane);
        memcpy(p.d, &c.d, 2);

        if (p.m) {
            memcpy(p.m, &c.m, 2);
        }

        if (p.scale[0]) {
            *p.scale[0] = c.scale[0];
            *p.scale[1] = c.scale[1];
        }

        src += b % n == n - 1 ? mst_cpu_codes_types[type].file : 0;
    }
}


/* one block to floats, as mst_quant_decode() does it */

static void
mst_cpu_codes_floats(mst_cpu_type_t type, const mst_cpu_codes_t *c, float *y)
{
    int       q;
    float     d, m;
    uint32_t  i;

    d = mst_f16_to_f32(c->d);
    m = mst_f16_to_f32(c->m);

    for (i = 0; i < MST_CPU_BLOCK; i++) {
        q = c->code[i];

        switch (type) {

        case MST_CPU_Q5_0:
            y[i] = (float) (q - 16) * d;
            break;

        case MST_CPU_Q5_1:
            y[i] = (float) q * d + m;
            break;

        case MST_CPU_Q6_K:
            y[i] = (float) (q - 32)
                   * (d * (float) (int8_t) c->scale[i / 16]);
            break;

        default:
            y[i] = (float) q * (d * (float) c->scale[0])
                   - m * (float) c->scale[1];
        }
    }
}


void
mst_cpu_codes_row(mst_cpu_type_t type, const uint8_t *tile, uint32_t lane,
    uint32_t width, float *y)
{
    uint32_t               b;
    mst_cpu_codes_t        c = { { 0 }, 0, 0, { 0, 0 } };
    mst_cpu_codes_place_t  p;

    for (b = 0; b < width / MST_CPU_BLOCK; b++) {
        mst_cpu_codes_find(type, tile, lane, b, &p);
        mst_cpu_codes_get(&c, mst_cpu_codes_types[type].bits, p.code, lane);
        memcpy(&c.d, p.d, 2);

        if (p.m) {
            memcpy(&c.m, p.m, 2);
        }

        if (p.scale[0]) {
            c.scale[0] = *p.scale[0];
            c.scale[1] = *p.scale[1];
        }

        mst_cpu_codes_floats(type, &c, y + (size_t) MST_CPU_BLOCK * b);
    }
}

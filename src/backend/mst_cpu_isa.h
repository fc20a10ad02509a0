
/*
 * The kernels of the CPU backend that exist once per instruction set, and
 * the layouts that they share with the rest of the backend.
 *
 * All instruction sets give the same bits.  Products of quantised weights
 * and digits are integers, exact in any order; what is left in f32 is one
 * chain of sums per output, over blocks in rising order: of fused multiply-adds
 * for Q8_0, Q6_K and floats, of products rounded before they are added for the
 * others, since machines without the former take ten times as long for one.
 * Everything else is written once over 16 lanes (mst_cpu_kernel.h), each
 * operation being exactly rounded.
 *
 * A tile is 16 rows (outputs) of a matrix, one per lane.  By type, for n
 * blocks of 32 inputs or k inputs:
 *
 *   Q4_1  n * { 4 * 64 bytes of nibbles, 16 f16 d, 16 f16 m }
 *   Q4_0  n * { 4 * 64 bytes of nibbles, 16 f16 d }
 *   Q5_1  n * { 4 * 64 bytes of nibbles, 64 bytes of fifth bits, 16 f16 d,
 *         16 f16 m }
 *   Q5_0  n * { the same without m }
 *   Q4_K, Q5_K  n / 8 * { 16 f16 d, 16 f16 m, 8 * { 4 * 64 bytes of nibbles, of
 *         Q5_K 64 bytes of fifth bits, 16 bytes of scales of d, 16 of m } }
 *   Q6_K  n / 8 * { 16 f16 d, 8 * { 4 * 64 bytes of nibbles, 2 * 64 bytes of
 *         the bits above them, 2 * 16 signed bytes of scales } }
 *   Q8_0  n * { 8 * 64 bytes of weight + 128, 16 f16 d }
 *   F32, F16, BF16   k * 16 elements
 *
 * All that a block needs stands together: with the scales behind the tile,
 * where the next one's stream is torn, one row was measured to read memory at
 * less than half the speed.
 *
 * In 64 bytes lane r has bytes 4r .. 4r + 3: four inputs.  The low nibbles
 * of vector i are inputs 4i .. 4i + 3 of the block, the high ones 16 more.  Of
 * fifth bits, bit i of a byte belongs to inputs 4i .. 4i + 3; of Q6_K, bits 2i
 * and 2i + 1 of the first 64 bytes do, and those of the others to 16 more.
 *
 * An activation block of 32 inputs of one row is scale * q, q an integer of
 * 22 bits in three signed digits of base 128: 32 bytes of high digits, 32 of
 * middle ones, 32 of low ones.  Or, coarser, of 16 bits in two of base 256,
 * the low one at least -127, since the products of Q8_0 turn its sign.  Rows
 * of a step stand in panels of 8 columns, [panel][block][column][32 bytes of
 * each digit]; the last panel may have fewer columns.
 * The scales are [panel][block][column], plain floats [panel][input][column].
 *
 * Keys of a KV block and KV head are [head_dim][32 tokens], values [32
 * tokens][stride], as floats, as f16, or (q8) as bytes with bf16 scales, one
 * for 16 dimensions of a token: [stride / 16][32] of the keys, [32][stride /
 * 16] of the values.
 */

#ifndef MST_CPU_ISA_H
#define MST_CPU_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "backend/mst_kv.h"

#define MST_CPU_LANES    16        /* rows of a tile */
#define MST_CPU_COLS     8         /* columns of a panel */
#define MST_CPU_BLOCK    32        /* inputs of a block */
#define MST_CPU_DIGITS   3         /* of an activation at most */
#define MST_CPU_KV       32        /* tokens of a KV block */

#define MST_CPU_PEAK     512       /* multiply-adds */

#define MST_CPU_Q4_1_SIZE  320     /* bytes of a tile's block */
#define MST_CPU_Q4_0_SIZE  288
#define MST_CPU_Q5_0_SIZE  352
#define MST_CPU_Q8_0_SIZE  544
#define MST_CPU_Q6_K_SIZE  416


typedef enum {
    MST_CPU_Q4_1,
    MST_CPU_Q4_0,
    MST_CPU_Q8_0,
    MST_CPU_Q5_1,
    MST_CPU_Q5_0,
    MST_CPU_Q4_K,
    MST_CPU_Q5_K,
    MST_CPU_Q6_K,
    MST_CPU_F32,                   /* from here on inputs are floats */
    MST_CPU_F16,
    MST_CPU_BF16,
    MST_CPU_TYPES
} mst_cpu_type_t;


typedef struct {
    float    d;                    /* scale */
    float    s;                    /* scale * sum of q */
    int32_t  high;                 /* sum of the high and middle digits, the
                                      high ones counting 128 */
    int32_t  low;                  /* sum of the low digits; the sum of q is
                                      128 * high + low.  Of two digits: the
                                      sum of q, and high is 0 */
} mst_cpu_scale_t;


/* one panel: the inputs of up to 8 rows */
typedef struct {
    const int8_t           *q;
    const mst_cpu_scale_t  *s;
    const float            *f;
    uint32_t                cols;
    uint32_t                width;     /* inputs */
    uint32_t                digits;    /* 2, 3; 1 of a coarse tile */
} mst_cpu_panel_t;


/* one KV block of one KV head against queries that share it */
typedef struct {
    mst_kv_type_t   type;          /* f32, f16 or q8 */
    const void     *k;             /* [head_dim][32] */
    const void     *v;             /* [32][stride] */
    const uint16_t *k_scale;       /* of q8 */
    const uint16_t *v_scale;
    const float    *q;             /* [n][head_dim], scaled */
    float          *state;         /* [n][32 + stride]: maximum, 15 unused,
                                      16 partial sums, output */
    const uint32_t *limit;         /* [n] a query sees the tokens below this,
                                      1 .. 32, not falling ... */
    const uint32_t *first;         /* [n] ... from this one on, below limit;
                                      NULL = from 0 */
    uint32_t        n;
    uint32_t        head_dim;
    uint32_t        stride;        /* head_dim rounded up to lanes */
} mst_cpu_attend_t;

#define MST_CPU_STATE  32          /* floats before the output */


/* y[cols][16] = tile * panel */
typedef void (*mst_cpu_tile_pt)(const uint8_t *tile,
    const mst_cpu_panel_t *x, float *y);


/* how far the sums of a coarse tile may lie below those of the head */
typedef struct {
    const float      *size;        /* [block][column] norm of the inputs */
    const float      *slack;       /* [column] for a row of norm 1 */
    uint32_t          cols;
    uint32_t          width;       /* inputs */
} mst_cpu_bound_t;


/* of one column of a coarse tile */
typedef struct {
    float             sum;         /* the largest */
    float             logit;       /* what none of the head exceeds */
} mst_cpu_most_t;


typedef struct {
    const char         *name;
    int               (*supported)(void);
    mst_cpu_tile_pt     tile[MST_CPU_TYPES];

    /* of Q5_0 with inputs of one digit; "digits" of the panel is 1 */
    mst_cpu_tile_pt     coarse;

    /* most[cols] by the sums y[cols][16] of a coarse tile and t, which stands
       behind it (mst_cpu_coarse.c) */
    void              (*bound)(const uint8_t *t, const mst_cpu_bound_t *x,
        const float *y, mst_cpu_most_t *most);

    /* n times MST_CPU_PEAK multiply-adds of floats in registers: what the
       kernels are measured against; y[16] */
    void            (*peak)(uint32_t n, float *y);

    /* the same of bytes, of which a quantised weight takes one for each digit;
       NULL: there is no such instruction */
    void            (*peak_bytes)(uint32_t n, float *y);

    /* y = x / rms(x) * w; n counts the inputs, the arrays are padded with
       zeros to whole lanes */
    void            (*norm)(const float *x, const float *w, uint32_t n,
        float eps, float *y);

    /* two or three digits of blocks 0 .. n - 1 of x; step: blocks from one to
       the next in q and s */
    void            (*digits)(const float *x, uint32_t n, uint32_t digits,
        int8_t *q, mst_cpu_scale_t *s, uint32_t step);

    /* 16 lanes: pairs turned and scaled, y[i] = (y[i] * cs[i]
       + y[i ^ 1] * sn[i]) * scale */
    void            (*rope)(float *y, const float *cs, const float *sn,
        float scale);

    /* y = silu(g) * u, n a multiple of 16 */
    void            (*silu)(const float *g, const float *u, float *y,
        uint32_t n);

    /* 16 keys or values as they are kept */
    void            (*kv_f16)(const float *y, uint16_t *h);
    void            (*kv_q8)(const float *y, int8_t *q, uint16_t *scale);

    void            (*attend)(const mst_cpu_attend_t *a);

    /* y[head_dim] = output / sum of one query's state; y is padded */
    void            (*attend_end)(const float *state, float *y,
        uint32_t head_dim);
} mst_cpu_isa_t;


#if defined(__x86_64__)
extern const mst_cpu_isa_t  mst_cpu_avx512;
extern const mst_cpu_isa_t  mst_cpu_avx2;
#endif

extern const mst_cpu_isa_t  mst_cpu_c;         /* any machine */


#endif /* MST_CPU_ISA_H */

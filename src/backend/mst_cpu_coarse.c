
/*
 * The coarse copy of a head: see mst_cpu_coarse.h.  mst_cpu_top.c reads it in
 * the head's place, two thirds of the bytes.
 *
 * A block of Q8_0, d * q, becomes 8 d * h with h = q / 8 rounded, -16 .. 15;
 * where some q is above 123, which would be 16, the block's sign is turned,
 * -8 d * -h.  So what is left, d * (q - 8 h), is known as integers.  A tile
 * of the copy is one of Q5_0 (mst_cpu_isa.h), and behind it
 *
 *   16 norms     f32, of the row's weights or its coarse ones, at least
 *   16 scales    f32
 *   n * 16       bytes: times the scale at least the norm of what is left of
 *                the row in this block
 *
 * all rounded upwards, in whole cache lines.  It follows from the head's tile
 * alone, whatever the instruction set.
 */

#include <math.h>
#include <string.h>

#include "file/mst_quant.h"
#include "backend/mst_cpu.h"

#define MST_CPU_COARSE_UP     (1 + 1e-6)       /* more than a float loses */
#define MST_CPU_COARSE_MOST   127
#define MST_CPU_COARSE_FOURS  4                /* of lanes */


/* what four lanes have in 64 bytes, in a register of any machine */
typedef uint8_t   mst_cpu_coarse_bytes_t __attribute__((vector_size(16)));
typedef uint16_t  mst_cpu_coarse_words_t __attribute__((vector_size(16)));
typedef uint32_t  mst_cpu_coarse_lanes_t __attribute__((vector_size(16)));


/* what is summed up over the blocks of a tile, by lane */
typedef struct {
    double  size[MST_CPU_LANES];       /* squared norm of the weights */
    double  left[MST_CPU_LANES];       /* the same of what is left */
    float   most[MST_CPU_LANES];       /* largest norm of what is left of one
                                          block */
} mst_cpu_coarse_sums_t;


uint64_t
mst_cpu_coarse_bytes(uint32_t type, uint64_t rows, uint64_t width)
{
    return type == MST_TYPE_Q8_0
           ? (rows + MST_CPU_LANES - 1) / MST_CPU_LANES
             * mst_cpu_coarse_size((uint32_t) width)
           : 0;
}


size_t
mst_cpu_coarse_size(uint32_t width)
{
    return ((size_t) width / MST_CPU_BLOCK
            * (MST_CPU_Q5_0_SIZE + MST_CPU_LANES)
            + 2 * MST_CPU_LANES * sizeof(float) + 63) / 64 * 64;
}


/* lanes with a weight that would round to 16, one of at least 252 and no other:
   all ones in their bytes */

static void
mst_cpu_coarse_turned(const uint8_t *from, mst_cpu_coarse_words_t *turn)
{
    uint32_t                i, r;
    mst_cpu_coarse_bytes_t  any, v;

    for (r = 0; r < MST_CPU_COARSE_FOURS; r++) {
        any = (mst_cpu_coarse_bytes_t) { 0 };

        for (i = 0; i < 8; i++) {
            memcpy(&v, from + 64 * i + 16 * r, sizeof(v));
            any |= (mst_cpu_coarse_bytes_t) ((v & 252) == 252);
        }

        turn[r] = (mst_cpu_coarse_words_t)
                  ((mst_cpu_coarse_lanes_t) any != 0);
    }
}


/* w, of two bytes of each lane, to 8 h, and sums of q^2 and (q - 8 h)^2;
   returns h + 16 */

static inline mst_cpu_coarse_words_t
mst_cpu_coarse_code(mst_cpu_coarse_words_t w, mst_cpu_coarse_words_t *size,
    mst_cpu_coarse_words_t *left)
{
    mst_cpu_coarse_words_t  h, e;

    h = (w + 4) >> 3;
    h -= h >> 5;                               /* 32, of 252 .. 256 */
    e = w - (h << 3);
    *left += e * e;
    w -= 128;
    *size += w * w;

    return h;
}


/* codes of four lanes of a block, and the sums of q^2 and of (q - 8 h)^2 */

static void
mst_cpu_coarse_four(const uint8_t *from, mst_cpu_coarse_words_t turn,
    uint8_t *to, uint32_t *size, uint32_t *left)
{
    uint32_t                i;
    mst_cpu_coarse_lanes_t  all;
    mst_cpu_coarse_words_t  code[8], fifth, lost, odd, square, turned, v;

    all = (mst_cpu_coarse_lanes_t) { 0 };
    lost = (mst_cpu_coarse_words_t) { 0 };
    fifth = lost;
    turned = turn & 256;

    for (i = 0; i < 8; i++) {
        memcpy(&v, from + 64 * i, sizeof(v));

        /* 256 - v where it is turned; four squares in 16 bits each, then two
           in 32 */

        odd = ((v >> 8) ^ turn) - turn + turned;
        v = ((v & 255) ^ turn) - turn + turned;
        square = (mst_cpu_coarse_words_t) { 0 };
        v = mst_cpu_coarse_code(v, &square, &lost);
        v |= mst_cpu_coarse_code(odd, &square, &lost) << 8;
        all += ((mst_cpu_coarse_lanes_t) square & 65535)
               + ((mst_cpu_coarse_lanes_t) square >> 16);
        fifth |= ((v >> 4) & 0x0101) << (uint16_t) i;
        code[i] = v & 0x0f0f;
    }

    for (i = 0; i < 4; i++) {
        v = code[i] | code[4 + i] << 4;
        memcpy(to + 64 * i, &v, sizeof(v));
    }

    memcpy(to + 256, &fifth, sizeof(fifth));
    memcpy(size, &all, sizeof(all));
    all = ((mst_cpu_coarse_lanes_t) lost & 65535)
          + ((mst_cpu_coarse_lanes_t) lost >> 16);
    memcpy(left, &all, sizeof(all));
}


/* norms of what is left of the block, by lane */

static void
mst_cpu_coarse_block(const uint8_t *from, uint8_t *to, float *norms,
    mst_cpu_coarse_sums_t *s)
{
    float      d, eight;
    double     norm;
    uint16_t   h;
    uint32_t   lane, left[MST_CPU_LANES], size[MST_CPU_LANES];

    mst_cpu_coarse_words_t  turn[MST_CPU_COARSE_FOURS];

    mst_cpu_coarse_turned(from, turn);

    for (lane = 0; lane < MST_CPU_LANES; lane += 4) {
        mst_cpu_coarse_four(from + 4 * lane, turn[lane / 4], to + 4 * lane,
                            size + lane, left + lane);
    }

    for (lane = 0; lane < MST_CPU_LANES; lane++) {
        memcpy(&h, from + 512 + 2 * lane, 2);
        d = mst_f16_to_f32(h);
        h = mst_f32_to_f16(turn[lane / 4][lane % 4 * 2] ? -8 * d : 8 * d);
        memcpy(to + 320 + 2 * lane, &h, 2);
        eight = mst_f16_to_f32(h);

        /* exact, unless it is too large for f16: then no bound holds */

        if (!isfinite(eight)) {
            s->size[lane] = INFINITY;
            d = 0;
        }

        norm = fabs((double) d) * sqrt(left[lane]);
        norms[lane] = (float) (norm * MST_CPU_COARSE_UP);
        s->size[lane] += (double) d * (double) d * size[lane];
        s->left[lane] += norm * norm;
        s->most[lane] = norms[lane] > s->most[lane] ? norms[lane]
                                                    : s->most[lane];
    }
}


void
mst_cpu_coarse_tile(const uint8_t *tile, uint8_t *to, uint32_t width,
    float *norms)
{
    float                   f[2][MST_CPU_LANES];
    double                  scale;
    uint8_t                *bytes;
    uint32_t                b, blocks, i, lane;
    mst_cpu_coarse_sums_t   s;

    memset(&s, 0, sizeof(s));
    blocks = width / MST_CPU_BLOCK;

    for (b = 0; b < blocks; b++) {
        mst_cpu_coarse_block(tile + (size_t) MST_CPU_Q8_0_SIZE * b, to,
                             norms + MST_CPU_LANES * b, &s);
        to += MST_CPU_Q5_0_SIZE;
    }

    for (lane = 0; lane < MST_CPU_LANES; lane++) {
        f[0][lane] = (float) ((sqrt(s.size[lane]) + sqrt(s.left[lane]))
                              * MST_CPU_COARSE_UP);
        f[1][lane] = (float) ((double) s.most[lane] / MST_CPU_COARSE_MOST
                              * MST_CPU_COARSE_UP);
    }

    memcpy(to, f, sizeof(f));
    bytes = to + sizeof(f);

    /* rounded upwards */

    for (i = 0; i < blocks * MST_CPU_LANES; i++) {
        scale = (double) f[1][i % MST_CPU_LANES];
        scale = scale > 0 ? (double) norms[i] / scale : 0;
        bytes[i] = (uint8_t) scale;
        bytes[i] = (uint8_t) (bytes[i] + (scale > bytes[i]));
    }
}

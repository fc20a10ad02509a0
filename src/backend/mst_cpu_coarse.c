
/*
 * The coarse copy of a head: its weights in five bits, and bounds of what that
 * leaves out.  mst_cpu_top.c reads it in the head's place, two thirds of the
 * bytes.
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
#define MST_CPU_COARSE_TURN   251              /* weight + 128, above it */
#define MST_CPU_COARSE_MOST   127


/* what is summed up over the blocks of a tile, by lane */
typedef struct {
    double  size[MST_CPU_LANES];       /* squared norm of the weights */
    double  left[MST_CPU_LANES];       /* the same of what is left */
    float   most[MST_CPU_LANES];       /* largest norm of what is left of one
                                          block */
} mst_cpu_coarse_sums_t;


size_t
mst_cpu_coarse_size(uint32_t width)
{
    return ((size_t) width / MST_CPU_BLOCK
            * (MST_CPU_Q5_0_SIZE + MST_CPU_LANES)
            + 2 * MST_CPU_LANES * sizeof(float) + 63) / 64 * 64;
}


/* lanes with a weight that would round to 16: all ones in their bytes */

static void
mst_cpu_coarse_turned(const uint8_t *from, uint8_t *turn)
{
    uint8_t   most[64];
    uint32_t  i, k;

    memcpy(most, from, sizeof(most));

    for (i = 1; i < 8; i++) {
        for (k = 0; k < 64; k++) {
            most[k] = most[k] > from[64 * i + k] ? most[k] : from[64 * i + k];
        }
    }

    for (k = 0; k < 64; k += 4) {
        for (i = 1; i < 4; i++) {
            most[k] = most[k] > most[k + i] ? most[k] : most[k + i];
        }

        memset(turn + k, most[k] > MST_CPU_COARSE_TURN ? 255 : 0, 4);
    }
}


/* codes of one block, and by lane the sums of q^2 and of (q - 8 h)^2 */

static void
mst_cpu_coarse_codes(const uint8_t *from, const uint8_t *turn, uint8_t *to,
    uint32_t *size, uint32_t *left)
{
    int16_t    e, h, v;
    uint8_t    code[8][64];
    uint16_t   lost[64];
    uint32_t   all[64], i, k;

    memset(lost, 0, sizeof(lost));
    memset(all, 0, sizeof(all));

    for (i = 0; i < 8; i++) {
        for (k = 0; k < 64; k++) {
            v = turn[k] ? (int16_t) (256 - from[64 * i + k])
                        : (int16_t) from[64 * i + k];
            h = (int16_t) ((v + 4) >> 3);
            h = h > 31 ? 31 : h;
            e = (int16_t) (v - 8 * h);
            lost[k] = (uint16_t) (lost[k] + e * e);
            all[k] += (uint32_t) ((v - 128) * (v - 128));
            code[i][k] = (uint8_t) h;
        }
    }

    memset(to, 0, 320);

    for (i = 0; i < 8; i++) {
        for (k = 0; k < 64; k++) {
            to[64 * (i % 4) + k] |= (uint8_t) ((code[i][k] & 15) << i / 4 * 4);
            to[256 + k] |= (uint8_t) (code[i][k] >> 4 << i);
        }
    }

    for (i = 0; i < MST_CPU_LANES; i++) {
        size[i] = all[4 * i] + all[4 * i + 1] + all[4 * i + 2]
                  + all[4 * i + 3];
        left[i] = (uint32_t) lost[4 * i] + lost[4 * i + 1] + lost[4 * i + 2]
                  + lost[4 * i + 3];
    }
}


/* norms of what is left of the block, by lane */

static void
mst_cpu_coarse_block(const uint8_t *from, uint8_t *to, float *norms,
    mst_cpu_coarse_sums_t *s)
{
    float      d, eight;
    double     norm;
    uint8_t    turn[64];
    uint16_t   h;
    uint32_t   lane, left[MST_CPU_LANES], size[MST_CPU_LANES];

    mst_cpu_coarse_turned(from, turn);
    mst_cpu_coarse_codes(from, turn, to, size, left);

    for (lane = 0; lane < MST_CPU_LANES; lane++) {
        memcpy(&h, from + 512 + 2 * lane, 2);
        d = mst_f16_to_f32(h);
        h = mst_f32_to_f16(turn[4 * lane] ? -8 * d : 8 * d);
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
        s->most[lane] = fmaxf(s->most[lane], norms[lane]);
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

    for (i = 0; i < blocks * MST_CPU_LANES; i++) {
        scale = (double) f[1][i % MST_CPU_LANES];
        bytes[i] = scale > 0 ? (uint8_t) ceil((double) norms[i] / scale) : 0;
    }
}

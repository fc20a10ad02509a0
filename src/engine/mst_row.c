
/*
 * A row of logits: see mst_row.h.
 */

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mst_err.h"
#include "engine/mst_row.h"

#define MST_ROW_LANES  4           /* doubles of a vector */
#define MST_ROW_STEP   (2 * MST_ROW_LANES)
#define MST_ROW_LEAST  -1000.0     /* exponent of 2; less is nothing */
#define MST_ROW_ROUND  0x1.8p52    /* added, the lowest bits are an integer */

#define mst_row_inline  static inline __attribute__((always_inline))
#define mst_row_avx2    __attribute__((target("avx2"))) static


typedef float     mst_row_floats_t __attribute__((vector_size(16)));
typedef uint32_t  mst_row_mask_t __attribute__((vector_size(16)));
typedef double    mst_row_four_t __attribute__((vector_size(32)));
typedef uint64_t  mst_row_bits_t __attribute__((vector_size(32)));


/* n is a multiple of 4; *broken gets bits of what is NaN or +inf */

static float
mst_row_group_max(const float *x, uint32_t n, uint32_t *broken)
{
    float             max;
    uint32_t          i;
    mst_row_mask_t    more, good;
    mst_row_floats_t  four, most;

    memcpy(&most, x, sizeof(most));
    good = (mst_row_mask_t) (most <= FLT_MAX);

    for (i = 4; i < n; i += 4) {
        memcpy(&four, x + i, sizeof(four));
        good &= (mst_row_mask_t) (four <= FLT_MAX);
        more = (mst_row_mask_t) (four > most);
        most = (mst_row_floats_t) (((mst_row_mask_t) four & more)
                                   | ((mst_row_mask_t) most & ~more));
    }

    max = most[0];

    for (i = 1; i < 4; i++) {
        max = most[i] > max ? most[i] : max;
    }

    *broken |= ~(good[0] & good[1] & good[2] & good[3]);

    return max;
}


int
mst_row_max(const float *x, uint32_t n, float *tops, uint32_t *at)
{
    float     last[MST_ROW_GROUP], max;
    uint32_t  broken, g, i, k;

    broken = 0;
    max = -INFINITY;
    *at = 0;

    for (g = 0, i = 0; i < n; g++, i += MST_ROW_GROUP) {

        if (n - i >= MST_ROW_GROUP) {
            tops[g] = mst_row_group_max(x + i, MST_ROW_GROUP, &broken);

        } else {
            for (k = 0; k < MST_ROW_GROUP; k++) {
                last[k] = i + k < n ? x[i + k] : -INFINITY;
            }

            tops[g] = mst_row_group_max(last, MST_ROW_GROUP, &broken);
        }

        if (tops[g] > max) {
            max = tops[g];
            *at = i;
        }
    }

    if (broken || max == -INFINITY) {
        return MST_ERROR;
    }

    while (x[*at] != max) {
        (*at)++;
    }

    return MST_OK;
}


uint32_t
mst_row_above(const float *x, uint32_t n, const float *tops, float least,
    uint32_t *ids)
{
    uint32_t  end, g, i, m;

    m = 0;

    for (g = 0; g < mst_row_groups(n); g++) {

        if (!(tops[g] >= least)) {
            continue;
        }

        i = g * MST_ROW_GROUP;
        end = n - i < MST_ROW_GROUP ? n : i + MST_ROW_GROUP;

        for ( /* void */ ; i < end; i++) {
            ids[m] = i;
            m += x[i] >= least && x[i] > -INFINITY;
        }
    }

    return m;
}


/* polynomial of the best approximation for -0.5 .. 0.5 with 1 at 0: within
   8e-16 of 2^f */

mst_row_inline void
mst_row_weigh_four(const float *x, double max, double factor, double *w)
{
    mst_row_four_t  even, f, g, n, odd, y, z;
    mst_row_bits_t  bits;

    z = (mst_row_four_t) { (double) x[0], (double) x[1], (double) x[2],
                           (double) x[3] };
    z = (z - max) * factor;
    n = z + MST_ROW_ROUND;
    f = z - (n - MST_ROW_ROUND);

    g = f * f;

    even = g * 7.0709790660301070e-09 + 1.3215451627331001e-06;
    odd = g * 1.0205905466888847e-07 + 1.5252672924608948e-05;
    even = even * g + 1.5403530424786164e-04;
    odd = odd * g + 1.3333558200794916e-03;
    even = even * g + 9.6181291076186600e-03;
    odd = odd * g + 5.5504108664651670e-02;
    even = even * g + 2.4022650695910075e-01;
    odd = odd * g + 6.9314718055994620e-01;
    y = even * g + odd * f + 1.0;

    /* the exponent's place; what is out of range, NaN too, becomes 0 */

    bits = (mst_row_bits_t) y + ((mst_row_bits_t) n << 52);
    bits &= (mst_row_bits_t) (z > MST_ROW_LEAST);

    memcpy(w, &bits, sizeof(bits));
}


/* n is a multiple of 8 */

mst_row_inline double
mst_row_weigh_block(const float *x, uint32_t n, double max, double factor,
    double *w)
{
    uint32_t        i;
    mst_row_four_t  y, sum[2] = { { 0 }, { 0 } };

    for (i = 0; i < n; i += MST_ROW_STEP) {
        mst_row_weigh_four(x + i, max, factor, w + i);
        mst_row_weigh_four(x + i + MST_ROW_LANES, max, factor,
                           w + i + MST_ROW_LANES);

        memcpy(&y, w + i, sizeof(y));
        sum[0] += y;
        memcpy(&y, w + i + MST_ROW_LANES, sizeof(y));
        sum[1] += y;
    }

    sum[0] += sum[1];

    return (sum[0][0] + sum[0][1]) + (sum[0][2] + sum[0][3]);
}


mst_row_inline double
mst_row_weigh_all(const float *x, uint32_t n, double max, double factor,
    double *w, double *sums)
{
    float     last[MST_ROW_STEP];
    double    rest[MST_ROW_STEP], sum;
    uint32_t  b, i, k, m, size;

    sum = 0;

    for (b = 0, i = 0; i < n; b++, i += MST_ROW_BLOCK) {
        size = n - i < MST_ROW_BLOCK ? n - i : MST_ROW_BLOCK;
        m = size % MST_ROW_STEP;
        sums[b] = mst_row_weigh_block(x + i, size - m, max, factor, w + i);

        if (m) {
            for (k = 0; k < MST_ROW_STEP; k++) {
                last[k] = k < m ? x[n - m + k] : -INFINITY;
            }

            sums[b] += mst_row_weigh_block(last, MST_ROW_STEP, max, factor,
                                           rest);
            memcpy(w + n - m, rest, m * sizeof(double));
        }

        sum += sums[b];
    }

    return sum;
}


double
mst_row_weigh_any(const float *x, uint32_t n, float max, double factor,
    double *w, double *sums)
{
    return mst_row_weigh_all(x, n, (double) max, factor, w, sums);
}


#if defined(__x86_64__)

mst_row_avx2 double
mst_row_weigh_avx2(const float *x, uint32_t n, float max, double factor,
    double *w, double *sums)
{
    return mst_row_weigh_all(x, n, (double) max, factor, w, sums);
}

#endif


double
mst_row_weigh(const float *x, uint32_t n, float max, double factor,
    double *w, double *sums)
{
#if defined(__x86_64__)

    if (__builtin_cpu_supports("avx2")) {
        return mst_row_weigh_avx2(x, n, max, factor, w, sums);
    }

#endif

    return mst_row_weigh_any(x, n, max, factor, w, sums);
}


/*
 * A row of logits in the hands of one CTA: passes over it, sums and scans
 * over the CTA's threads, and the cut that finds the best of it: see
 * mst_k_sample.cu.
 */

#ifndef MST_K_SAMPLE_ROW_CUH
#define MST_K_SAMPLE_ROW_CUH

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "kernels/mst_k_sample.h"

#define MST_K_SAMPLE_BIN_BITS  11
#define MST_K_SAMPLE_BINS      (1 << MST_K_SAMPLE_BIN_BITS)
#define MST_K_SAMPLE_LIST      1024        /* ranked against each other */
#define MST_K_SAMPLE_COUNTS    8192        /* ids whose history is counted at
                                              a time */
#define MST_K_SAMPLE_PARTS     2048        /* sums of 128 ids */
#define MST_K_SAMPLE_BATCH     2           /* loads in flight of a thread */


typedef unsigned long long  mst_k_u64_t;


typedef struct {
    union {
        uint32_t         counts[MST_K_SAMPLE_COUNTS];
        mst_k_u64_t      parts[MST_K_SAMPLE_PARTS];
        struct {
            uint32_t     low[MST_K_SAMPLE_BINS];
            uint32_t     high[MST_K_SAMPLE_BINS];
            mst_k_u64_t  ranks[MST_K_SAMPLE_LIST];
            mst_k_u64_t  weights[MST_K_SAMPLE_LIST];
        };
    };

    mst_k_u64_t          fold[2][32];      /* of a reduction, by warp */
    mst_k_u64_t          above;            /* weight of better bins */
    mst_k_u64_t          least;            /* result of a cut */
    uint32_t             found;            /* bin or part; ~0 = none */
    uint32_t             n;                /* of the list */
    uint32_t             id;
} mst_k_sample_shared_t;


/* what the passes over a row have in common */
typedef struct {
    mst_k_sample_shared_t  *sm;
    const float            *row;
    uint32_t                n_vocab;
    float                   max;
    float                   min;           /* the least above -inf */
    int                     bits;
    int                     whole;         /* its address allows float4 */
} mst_k_sample_row_t;


/* which of a row's logits a cut looks at, and what each weighs */
typedef struct {
    mst_k_u64_t  least;                    /* lower ranks are out */
    mst_k_u64_t  greatest;                 /* higher ones, too */
    double       factor;                   /* 0: each weighs 1 */
    float        scale;                    /* bins per logit */
    int          shift;                    /* >= 0: bins of 2^shift ranks
                                              below the greatest */
} mst_k_sample_cut_t;


/* f(id, x) with 4 logits from id on; all threads come equally often, what is
   behind the end is -inf */

template <int NT, int BATCH, class F>
static __device__ __forceinline__ void
mst_k_sample_each(const mst_k_sample_row_t &r, F f)
{
    int       u;
    float4    v[BATCH];
    uint32_t  id, from;

    for (from = 0; from < r.n_vocab; from += BATCH * NT * 4) {
        #pragma unroll
        for (u = 0; u < BATCH; u++) {
            id = from + (u * NT + threadIdx.x) * 4;
            v[u] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);

            if (id + 3 < r.n_vocab && r.whole) {
                v[u] = __ldcg((const float4 *) (r.row + id));
                continue;
            }

            v[u].x = id < r.n_vocab ? __ldcg(r.row + id) : -INFINITY;
            v[u].y = id + 1 < r.n_vocab ? __ldcg(r.row + id + 1) : -INFINITY;
            v[u].z = id + 2 < r.n_vocab ? __ldcg(r.row + id + 2) : -INFINITY;
            v[u].w = id + 3 < r.n_vocab ? __ldcg(r.row + id + 3) : -INFINITY;
        }

        #pragma unroll
        for (u = 0; u < BATCH; u++) {
            id = from + (u * NT + threadIdx.x) * 4;
            f(id, v[u]);
        }
    }
}


/* the same, one by one */

template <int NT, int BATCH = MST_K_SAMPLE_BATCH, class F>
static __device__ __forceinline__ void
mst_k_sample_all(const mst_k_sample_row_t &r, F f)
{
    mst_k_sample_each<NT, BATCH>(r, [&](uint32_t id, const float4 &v) {
        f(id, v.x);
        f(id + 1, v.y);
        f(id + 2, v.z);
        f(id + 3, v.w);
    });
}


static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_larger(mst_k_u64_t a, mst_k_u64_t b)
{
    return a > b ? a : b;
}


/* the greatest of all threads, to all; slot: two follow each other without
   a barrier between them */

template <int NT>
static __device__ mst_k_u64_t
mst_k_sample_max(mst_k_sample_shared_t *sm, int slot, mst_k_u64_t v)
{
    int  i;

    for (i = 16; i; i >>= 1) {
        v = mst_k_sample_larger(v, __shfl_xor_sync(~0u, v, i));
    }

    if (threadIdx.x % 32 == 0) {
        sm->fold[slot][threadIdx.x / 32] = v;
    }

    __syncthreads();

    v = sm->fold[slot][threadIdx.x % 32 % (NT / 32)];

    for (i = 16; i; i >>= 1) {
        v = mst_k_sample_larger(v, __shfl_xor_sync(~0u, v, i));
    }

    return v;
}


/* the sum of the threads before this one; *total of all */

template <int NT>
static __device__ mst_k_u64_t
mst_k_sample_scan(mst_k_sample_shared_t *sm, mst_k_u64_t v,
    mst_k_u64_t *total)
{
    int          i, lane, warp;
    mst_k_u64_t  own, sum, up;

    lane = threadIdx.x % 32;
    warp = threadIdx.x / 32;
    own = v;

    for (i = 1; i < 32; i <<= 1) {
        up = __shfl_up_sync(~0u, v, i);
        v += lane >= i ? up : 0;
    }

    __syncthreads();

    if (lane == 31) {
        sm->fold[0][warp] = v;
    }

    __syncthreads();

    sum = lane < NT / 32 ? sm->fold[0][lane] : 0;

    for (i = 1; i < 32; i <<= 1) {
        up = __shfl_up_sync(~0u, sum, i);
        sum += lane >= i ? up : 0;
    }

    *total = __shfl_sync(~0u, sum, 31);
    up = __shfl_sync(~0u, sum, warp ? warp - 1 : 0);

    return v - own + (warp ? up : 0);
}


static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_mass(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    float x)
{
    if (c.factor == 0) {
        return 1;
    }

    return mst_k_sample_fixed(mst_k_sample_weight(x, r.max, c.factor),
                              r.bits);
}


static __device__ __forceinline__ void
mst_k_sample_put(mst_k_sample_shared_t *sm, uint32_t bin, mst_k_u64_t mass)
{
    uint32_t  high, low, old;

    low = (uint32_t) mass;
    high = (uint32_t) (mass >> 32);

    /* 64 bits in two halves, which the hardware adds by itself */

    old = atomicAdd(&sm->low[bin], low);
    high += old + low < old;

    if (high) {
        atomicAdd(&sm->high[bin], high);
    }
}


template <int NT>
static __device__ __forceinline__ void
mst_k_sample_clear(mst_k_sample_shared_t *sm)
{
    uint32_t  i;

    __syncthreads();

    for (i = threadIdx.x; i < MST_K_SAMPLE_BINS; i += NT) {
        sm->low[i] = 0;
        sm->high[i] = 0;
    }

    if (threadIdx.x == 0) {
        sm->found = ~0u;
        sm->n = 0;
    }

    __syncthreads();
}


/* sm->found: the bin at which the sum reaches what is needed, and sm->above
   before it.  share > 0: of the sum of all, which is then needed */

template <int NT>
static __device__ mst_k_u64_t
mst_k_sample_find(mst_k_sample_shared_t *sm, mst_k_u64_t need, double share)
{
    int          i, per;
    uint32_t     at;
    mst_k_u64_t  before, sum, total;

    per = MST_K_SAMPLE_BINS / NT;
    at = threadIdx.x * per;

    __syncthreads();

    for (sum = 0, i = 0; i < per; i++) {
        sum += sm->low[at + i] + ((mst_k_u64_t) sm->high[at + i] << 32);
    }

    before = mst_k_sample_scan<NT>(sm, sum, &total);

    if (share > 0) {
        need = (mst_k_u64_t) ceil(share * (double) total);
    }

    for (i = 0; i < per && before < need; i++) {
        sum = sm->low[at + i] + ((mst_k_u64_t) sm->high[at + i] << 32);

        if (before + sum >= need) {
            sm->found = at + i;
            sm->above = before;
        }

        before += sum;
    }

    __syncthreads();

    return need;
}


/* f(bin, id, x) of what the cut looks at */

template <int NT, class F>
static __device__ __forceinline__ void
mst_k_sample_bins(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    F f)
{
    if (c.shift < 0 && c.least == 0) {
        mst_k_sample_all<NT>(r, [&](uint32_t id, float x) {
            if (x > -INFINITY) {
                f(mst_k_sample_bin(r.max, x, c.scale, MST_K_SAMPLE_BINS), id,
                  x);
            }
        });

        return;
    }

    mst_k_sample_all<NT, 1>(r, [&](uint32_t id, float x) {
        uint32_t     bin;
        mst_k_u64_t  rank;

        rank = mst_k_sample_rank(x, id);

        if (!(x > -INFINITY) || rank < c.least || rank > c.greatest) {
            return;
        }

        if (c.shift < 0) {
            bin = mst_k_sample_bin(r.max, x, c.scale, MST_K_SAMPLE_BINS);

        } else {
            bin = (uint32_t) ((c.greatest - rank) >> c.shift);
        }

        f(bin, id, x);
    });
}


/* what is in the bin that was found, as far as there is room; the next cut
   would be between the least and the greatest of it */

template <int NT>
static __device__ __forceinline__ uint32_t
mst_k_sample_list(const mst_k_sample_row_t &r, mst_k_sample_cut_t *c)
{
    uint32_t                found;
    mst_k_u64_t             high, low;
    mst_k_sample_shared_t  *sm;

    sm = r.sm;
    found = sm->found;
    high = 0;
    low = 0;

    mst_k_sample_bins<NT>(r, *c, [&](uint32_t bin, uint32_t id, float x) {
        uint32_t     at;
        mst_k_u64_t  rank;

        if (bin != found) {
            return;
        }

        rank = mst_k_sample_rank(x, id);
        high = mst_k_sample_larger(high, rank);
        low = mst_k_sample_larger(low, ~rank);
        at = atomicAdd(&sm->n, 1);

        if (at < MST_K_SAMPLE_LIST) {
            sm->ranks[at] = rank;
            sm->weights[at] = mst_k_sample_mass(r, *c, x);
        }
    });

    c->greatest = mst_k_sample_max<NT>(sm, 0, high);
    c->least = ~mst_k_sample_max<NT>(sm, 1, low);

    high = (c->greatest - c->least) | 1;
    c->shift = 64 - __clzll((long long) high) - MST_K_SAMPLE_BIN_BITS;
    c->shift = c->shift > 0 ? c->shift : 0;

    return sm->n;
}


/* sm->least: the one of the list at which the sum passes what is needed */

template <int NT>
static __device__ __forceinline__ void
mst_k_sample_rival(mst_k_sample_shared_t *sm, uint32_t n, mst_k_u64_t above,
    mst_k_u64_t need)
{
    uint32_t     i, k;
    mst_k_u64_t  rank, sum;

    for (i = threadIdx.x; i < n; i += NT) {
        rank = sm->ranks[i];
        sum = above;

        for (k = 0; k < n; k++) {
            sum += sm->ranks[k] > rank ? sm->weights[k] : 0;
        }

        if (sum < need && need <= sum + sm->weights[i]) {
            sm->least = rank;
        }
    }

    __syncthreads();
}


/*
 * The least rank of the smallest set of the best that reaches need, or share
 * of the whole mass; as before if all of them do not.  The bin that decides
 * is divided until what is in it fits the list.
 */

template <int NT>
static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_cut(const mst_k_sample_row_t &r, mst_k_sample_cut_t c,
    mst_k_u64_t need, double share)
{
    uint32_t                n;
    mst_k_u64_t             above, least;
    mst_k_sample_shared_t  *sm;

    sm = r.sm;
    above = 0;
    least = c.least;

    c.greatest = ~0ull;
    c.shift = -1;

    do {
        mst_k_sample_clear<NT>(sm);

        mst_k_sample_bins<NT>(r, c, [&](uint32_t bin, uint32_t, float x) {
            mst_k_u64_t  mass;

            mass = mst_k_sample_mass(r, c, x);

            if (mass) {
                mst_k_sample_put(sm, bin, mass);
            }
        });

        need = above + mst_k_sample_find<NT>(sm, need - above, share);
        share = 0;

        if (sm->found == ~0u) {
            return least;
        }

        above += sm->above;
        n = mst_k_sample_list<NT>(r, &c);

    } while (n > MST_K_SAMPLE_LIST);

    mst_k_sample_rival<NT>(sm, n, above, need);

    return sm->least;
}


/* bins over all that is finite, where the count decides */

static __device__ __forceinline__ float
mst_k_sample_wide(const mst_k_sample_row_t &r)
{
    float  range;

    range = r.max - r.min;

    return range > 0 ? (float) MST_K_SAMPLE_BINS / range : 0;
}


#endif /* MST_K_SAMPLE_ROW_CUH */

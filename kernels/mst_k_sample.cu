
/*
 * Sampling: one CTA turns one row of logits into a token (mst_k_sample.h).
 *
 * Passes over the row, which comes from L2 after the first: greatest and
 * NaN; with log-probabilities the sum of exponentials; for top_k, top_p and
 * the n_top best a histogram of 2,048 bins and one look for what is in the
 * bin that decides; the sum of what is left, by 128 ids; 128 ids again.
 *
 * Nothing is sorted.  Bins are equal steps of the logit below the best one,
 * so that few logits meet in one; those of the bin that decides (at most
 * 1,024, else the bin is divided again, by bits) are ranked against each
 * other.  Sums are integers, so the atomics' order changes nothing.
 *
 * Bytes: 4 * n_vocab for each row and pass, 33.5 MB a pass at 256 x 32,768:
 * 7 us of DRAM once, then L2.  Operations: 17 of double precision for each
 * exponential: 5 us for a row on one SM.
 */

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
#define MST_K_SAMPLE_FINE      64          /* bins of a power of e */
#define MST_K_SAMPLE_FEW       128         /* rows that get large CTAs */


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

template <int NT, class F>
static __device__ __forceinline__ void
mst_k_sample_each(const mst_k_sample_row_t &r, F f)
{
    int       u;
    float4    v[MST_K_SAMPLE_BATCH];
    uint32_t  id, from;

    for (from = 0; from < r.n_vocab; from += MST_K_SAMPLE_BATCH * NT * 4) {
        #pragma unroll
        for (u = 0; u < MST_K_SAMPLE_BATCH; u++) {
            id = from + (u * NT + threadIdx.x) * 4;
            v[u] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);

            if (id < r.n_vocab) {
                v[u] = __ldcg((const float4 *) (r.row + id));
            }

            if (id + 3 >= r.n_vocab) {
                v[u].y = id + 1 < r.n_vocab ? v[u].y : -INFINITY;
                v[u].z = id + 2 < r.n_vocab ? v[u].z : -INFINITY;
                v[u].w = -INFINITY;
            }
        }

        #pragma unroll
        for (u = 0; u < MST_K_SAMPLE_BATCH; u++) {
            id = from + (u * NT + threadIdx.x) * 4;
            f(id, v[u]);
        }
    }
}


/* the same, one by one */

template <int NT, class F>
static __device__ __forceinline__ void
mst_k_sample_all(const mst_k_sample_row_t &r, F f)
{
    mst_k_sample_each<NT>(r, [&](uint32_t id, const float4 &v) {
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


/* f(bin, rank, x) of what the cut looks at */

template <int NT, class F>
static __device__ __forceinline__ void
mst_k_sample_bins(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    F f)
{
    mst_k_sample_all<NT>(r, [&](uint32_t id, float x) {
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

        f(bin, rank, x);
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

    mst_k_sample_bins<NT>(r, *c, [&](uint32_t bin, mst_k_u64_t rank,
                                     float x) {
        uint32_t  at;

        if (bin != found) {
            return;
        }

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

        mst_k_sample_bins<NT>(r, c, [&](uint32_t bin, mst_k_u64_t,
                                        float x) {
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


/* logarithm of the sum of the exponentials */

template <int NT>
static __device__ __forceinline__ double
mst_k_sample_lse(const mst_k_sample_row_t &r)
{
    mst_k_u64_t  sum, total;

    sum = 0;

    mst_k_sample_all<NT>(r, [&](uint32_t id, float x) {
        sum += mst_k_sample_fixed(
                   mst_k_sample_weight(x, r.max, MST_K_SAMPLE_LOG2E), r.bits);
    });

    (void) mst_k_sample_scan<NT>(r.sm, sum, &total);

    return r.max + log(ldexp((double) total, -r.bits));
}


/* the n best, falling; fewer where the rest is -inf; returns how many */

template <int NT>
static __device__ __forceinline__ uint32_t
mst_k_sample_top(const mst_k_sample_row_t &r, uint32_t n, double lse,
    mst_k_sample_top_t *top)
{
    uint32_t                i, place;
    mst_k_u64_t             least, rank;
    mst_k_sample_cut_t      c;
    mst_k_sample_shared_t  *sm;

    sm = r.sm;

    c.least = 0;
    c.factor = 0;
    c.scale = mst_k_sample_wide(r);

    n = n < MST_K_SAMPLE_TOP ? n : MST_K_SAMPLE_TOP;
    least = mst_k_sample_cut<NT>(r, c, n, 0);

    mst_k_sample_clear<NT>(sm);

    mst_k_sample_all<NT>(r, [&](uint32_t id, float x) {
        uint32_t     at;
        mst_k_u64_t  own;

        own = mst_k_sample_rank(x, id);

        if (x > -INFINITY && own >= least) {
            at = atomicAdd(&sm->n, 1);

            /* fewer than n in all, or n of them are as good as the least */

            if (at < MST_K_SAMPLE_LIST) {
                sm->ranks[at] = own;
            }
        }
    });

    __syncthreads();

    n = sm->n;

    if (threadIdx.x < n) {
        rank = sm->ranks[threadIdx.x];

        for (place = 0, i = 0; i < n; i++) {
            place += sm->ranks[i] > rank;
        }

        top->ids[place] = mst_k_sample_rank_id(rank);
        top->logprobs[place] = (float) ((double) mst_k_sample_rank_logit(rank)
                                        - lse);
    }

    return n;
}


/* what a logit weighs in the draw */

static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_share(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    float min_p, uint32_t id, float x)
{
    double  w;

    if (!(x > -INFINITY) || mst_k_sample_rank(x, id) < c.least) {
        return 0;
    }

    w = mst_k_sample_weight(x, r.max, c.factor);

    return w < (double) min_p ? 0 : mst_k_sample_fixed(w, r.bits);
}


static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_share4(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    float min_p, uint32_t id, const float4 &v)
{
    return mst_k_sample_share(r, c, min_p, id, v.x)
           + mst_k_sample_share(r, c, min_p, id + 1, v.y)
           + mst_k_sample_share(r, c, min_p, id + 2, v.z)
           + mst_k_sample_share(r, c, min_p, id + 3, v.w);
}


/* the part in which the sum passes the target: sm->found, and sm->above what
   of the target is left */

template <int NT>
static __device__ void
mst_k_sample_part(mst_k_sample_shared_t *sm, uint64_t bits)
{
    int          i, per;
    uint32_t     at;
    mst_k_u64_t  before, sum, target, total;

    per = MST_K_SAMPLE_PARTS / NT;
    at = threadIdx.x * per;

    __syncthreads();

    for (sum = 0, i = 0; i < per; i++) {
        sum += sm->parts[at + i];
    }

    before = mst_k_sample_scan<NT>(sm, sum, &total);
    target = __umul64hi(total, bits << (64 - MST_DRAW_BITS));

    for (i = 0; i < per && before <= target; i++) {
        sum = sm->parts[at + i];

        if (before + sum > target) {
            sm->found = at + i;
            sm->above = target - before;
        }

        before += sum;
    }

    __syncthreads();
}


/* one warp finds the id within the 128 of its part: sm->id */

static __device__ void
mst_k_sample_pick(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    float min_p, uint32_t from)
{
    int          i;
    float        x;
    uint32_t     id;
    mst_k_u64_t  own[4], before, sum, up;

    id = from + threadIdx.x * 4;
    sum = 0;

    #pragma unroll
    for (i = 0; i < 4; i++) {
        x = id + i < r.n_vocab ? __ldcg(r.row + id + i) : -INFINITY;
        own[i] = mst_k_sample_share(r, c, min_p, id + i, x);
        sum += own[i];
    }

    before = sum;

    for (i = 1; i < 32; i <<= 1) {
        up = __shfl_up_sync(~0u, before, i);
        before += threadIdx.x >= i ? up : 0;
    }

    before -= sum;

    #pragma unroll
    for (i = 0; i < 4; i++) {
        if (before <= r.sm->above && before + own[i] > r.sm->above) {
            r.sm->id = id + i;
        }

        before += own[i];
    }
}


template <int NT>
static __device__ __forceinline__ uint32_t
mst_k_sample_draw(const mst_k_sample_row_t &r, const mst_k_sample_order_t *o)
{
    float                   min_p;
    uint32_t                i;
    mst_k_sample_cut_t      c;
    mst_k_sample_shared_t  *sm;

    sm = r.sm;
    min_p = o->min_p;

    c.least = 0;
    c.factor = 0;
    c.scale = mst_k_sample_wide(r);

    if (o->top_k > 0 && o->top_k < r.n_vocab) {
        c.least = mst_k_sample_cut<NT>(r, c, o->top_k, 0);
    }

    c.factor = MST_K_SAMPLE_LOG2E / (double) o->temperature;
    c.scale = MST_K_SAMPLE_FINE / o->temperature;

    if (o->top_p < 1) {
        c.least = mst_k_sample_cut<NT>(r, c, 0, (double) o->top_p);
    }

    __syncthreads();

    for (i = threadIdx.x; i < MST_K_SAMPLE_PARTS; i += NT) {
        sm->parts[i] = 0;
    }

    __syncthreads();

    mst_k_sample_each<NT>(r, [&](uint32_t id, const float4 &v) {
        int          k;
        mst_k_u64_t  sum;

        sum = mst_k_sample_share4(r, c, min_p, id, v);

        if (!__any_sync(~0u, sum > 0)) {
            return;
        }

        for (k = 16; k; k >>= 1) {
            sum += __shfl_xor_sync(~0u, sum, k);
        }

        if (threadIdx.x % 32 == 0) {
            sm->parts[id / 128] = sum;
        }
    });

    mst_k_sample_part<NT>(sm, mst_draw_bits(o->seed, o->n));

    if (threadIdx.x < 32) {
        mst_k_sample_pick(r, c, min_p, sm->found * 128);
    }

    __syncthreads();

    return sm->id;
}


template <int NT>
static __device__ __forceinline__ void
mst_k_sample_history(mst_k_sample_shared_t *sm, float *row,
    const mst_k_sample_order_t *o, const uint32_t *w, uint32_t n_vocab)
{
    uint32_t  from, i, k;

    for (from = 0; from < n_vocab; from += MST_K_SAMPLE_COUNTS) {
        __syncthreads();

        for (i = threadIdx.x; i < MST_K_SAMPLE_COUNTS; i += NT) {
            sm->counts[i] = 0;
        }

        __syncthreads();

        for (i = threadIdx.x; i < o->n_history; i += NT) {
            k = w[i] - from;

            if (k >= MST_K_SAMPLE_COUNTS) {
                continue;
            }

            if (i < o->n_prompt) {
                atomicOr(&sm->counts[k], MST_K_SAMPLE_PROMPT);

            } else {
                atomicAdd(&sm->counts[k], 1);
            }
        }

        __syncthreads();

        for (i = threadIdx.x; i < MST_K_SAMPLE_COUNTS; i += NT) {
            k = sm->counts[i];

            if (k && from + i < n_vocab) {
                row[from + i] = mst_k_sample_penalise(row[from + i], o, k);
            }
        }
    }
}


/* the first entry of an id adds all of its entries, in their order */

template <int NT>
static __device__ void
mst_k_sample_bias(float *row, const uint32_t *w, uint32_t n)
{
    float     x;
    uint32_t  i, id, k;

    for (i = threadIdx.x; i < n; i += NT) {
        id = w[2 * i];

        for (k = 0; k < i && w[2 * k] != id; k++) { /* void */ }

        if (k < i) {
            continue;
        }

        x = row[id];

        for ( /* void */ ; k < n; k++) {
            if (w[2 * k] == id) {
                x = __fadd_rn(x, __uint_as_float(w[2 * k + 1]));
            }
        }

        row[id] = x;
    }
}


/* what is banned must not hide a NaN */

template <int NT>
static __device__ void
mst_k_sample_ban(float *row, const uint32_t *w, uint32_t n)
{
    uint32_t  i;

    for (i = threadIdx.x; i < n; i += NT) {
        if (row[w[i]] <= FLT_MAX) {
            row[w[i]] = -INFINITY;
        }
    }
}


template <int NT>
static __device__ __forceinline__ void
mst_k_sample_adjust(mst_k_sample_shared_t *sm, float *row,
    const mst_k_sample_order_t *o, const uint32_t *w, uint32_t n_vocab)
{
    if (o->n_history) {
        mst_k_sample_history<NT>(sm, row, o, w, n_vocab);
        w += o->n_history;

        __syncthreads();
    }

    if (o->n_bias) {
        mst_k_sample_bias<NT>(row, w + o->n_ban, o->n_bias);

        __syncthreads();
    }

    if (o->n_ban) {
        mst_k_sample_ban<NT>(row, w, o->n_ban);

        __syncthreads();
    }
}


/* the best token; MST_ERROR: a logit is NaN or +inf, or all are -inf */

template <int NT>
static __device__ int
mst_k_sample_best(mst_k_sample_row_t &r, uint32_t *id)
{
    bool         bad;
    float        best, least;
    uint32_t     at;
    mst_k_u64_t  high, low;

    at = 0;
    bad = false;
    best = -INFINITY;
    least = FLT_MAX;

    mst_k_sample_all<NT>(r, [&](uint32_t i, float x) {
        bad |= !(x <= FLT_MAX);

        if (x > best) {
            best = x;
            at = i;
        }

        if (x > -INFINITY && x < least) {
            least = x;
        }
    });

    high = bad ? ~0ull : mst_k_sample_rank(best, at);
    low = ~mst_k_sample_rank(least, 0);

    high = mst_k_sample_max<NT>(r.sm, 0, high);
    low = mst_k_sample_max<NT>(r.sm, 1, low);

    r.max = mst_k_sample_rank_logit(high);
    r.min = mst_k_sample_rank_logit(~low);
    *id = mst_k_sample_rank_id(high);

    return high == ~0ull || r.max == -INFINITY ? MST_ERROR : MST_OK;
}


template <int NT>
__global__ void
__launch_bounds__(NT, 1024 / NT)
mst_k_sample_kernel(const mst_k_sample_t a)
{
    float                             *row;
    double                             lse;
    uint32_t                           id, flags;
    mst_k_sampled_t                    out;
    mst_k_sample_row_t                 r;
    const mst_k_sample_order_t        *o;
    __shared__ mst_k_sample_shared_t   sm;

#if __CUDA_ARCH__ >= 900
    asm volatile ("griddepcontrol.launch_dependents;");
    asm volatile ("griddepcontrol.wait;" ::: "memory");
#endif

    o = &a.orders[blockIdx.x];
    flags = o->flags;

    if (flags & MST_K_SAMPLE_NONE) {
        return;
    }

    row = a.logits + (size_t) o->row * a.stride;

    r.sm = &sm;
    r.row = row;
    r.n_vocab = a.n_vocab;
    r.bits = mst_k_sample_bits(a.n_vocab);

    mst_k_sample_adjust<NT>(&sm, row, o, a.words + o->words, a.n_vocab);

    out.status = mst_k_sample_best<NT>(r, &id);
    out.logprob = 0;
    out.n_top = 0;
    lse = 0;

    if (flags & MST_K_SAMPLE_SCORE) {
        id = o->id;
    }

    if (out.status == MST_OK) {

        if (flags & (MST_K_SAMPLE_LOGPROBS|MST_K_SAMPLE_SCORE)) {
            lse = mst_k_sample_lse<NT>(r);

            if (o->n_top) {
                out.n_top = mst_k_sample_top<NT>(r, o->n_top, lse,
                                                 &a.tops[blockIdx.x]);
            }
        }

        if (o->temperature > 0) {
            id = mst_k_sample_draw<NT>(r, o);
        }
    }

    if (threadIdx.x == 0) {
        out.id = id;

        if (out.status == MST_OK
            && flags & (MST_K_SAMPLE_LOGPROBS|MST_K_SAMPLE_SCORE))
        {
            out.logprob = (float) ((double) row[id] - lse);
        }

        a.results[blockIdx.x] = out;
    }
}


template <int NT>
static int
mst_k_sample_launch(const mst_k_sample_t *a, cudaStream_t stream)
{
    cudaLaunchConfig_t     conf = {};
    cudaLaunchAttribute    attr = {};

    attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr.val.programmaticStreamSerializationAllowed = 1;

    conf.gridDim = dim3(a->n);
    conf.blockDim = dim3(NT);
    conf.stream = stream;
    conf.attrs = &attr;
    conf.numAttrs = a->pdl ? 1 : 0;

    return cudaLaunchKernelEx(&conf, mst_k_sample_kernel<NT>, *a);
}


extern "C" int
mst_k_sample(const mst_k_sample_t *a, cudaStream_t stream)
{
    if (a->n_vocab == 0 || a->n_vocab > MST_K_SAMPLE_VOCAB
        || a->stride < a->n_vocab || a->stride % 4)
    {
        return cudaErrorInvalidValue;
    }

    if (a->n == 0) {
        return cudaSuccess;
    }

    return a->n <= MST_K_SAMPLE_FEW ? mst_k_sample_launch<1024>(a, stream)
                                    : mst_k_sample_launch<512>(a, stream);
}

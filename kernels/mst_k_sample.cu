
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

#include "kernels/mst_k_sample_row.cuh"

#define MST_K_SAMPLE_FINE  64              /* bins of a power of e */
#define MST_K_SAMPLE_FEW   128             /* rows that get large CTAs */

/* CTAs that an SM shall hold: code before sm_90 wants more registers */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define MST_K_SAMPLE_CTAS(nt)  1
#else
#define MST_K_SAMPLE_CTAS(nt)  (1024 / (nt))
#endif


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
    float min_p, float x)
{
    double  w;

    w = mst_k_sample_weight(x, r.max, c.factor);

    return w < (double) min_p ? 0 : mst_k_sample_fixed(w, r.bits);
}


/* the same, where something may be cut off */

static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_rest(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    float min_p, uint32_t id, float x)
{
    return mst_k_sample_rank(x, id) < c.least
           ? 0 : mst_k_sample_share(r, c, min_p, x);
}


/* of 32 lanes, each below 2^48 */

static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_warp(mst_k_u64_t sum)
{
    uint32_t  high, low;

    low = __reduce_add_sync(~0u, (uint32_t) sum & 0xffffff);
    high = __reduce_add_sync(~0u, (uint32_t) (sum >> 24));

    return low + ((mst_k_u64_t) high << 24);
}


static __device__ __forceinline__ mst_k_u64_t
mst_k_sample_share4(const mst_k_sample_row_t &r, const mst_k_sample_cut_t &c,
    float min_p, uint32_t id, const float4 &v)
{
    if (c.least == 0) {
        return mst_k_sample_share(r, c, min_p, v.x)
               + mst_k_sample_share(r, c, min_p, v.y)
               + mst_k_sample_share(r, c, min_p, v.z)
               + mst_k_sample_share(r, c, min_p, v.w);
    }

    return mst_k_sample_rest(r, c, min_p, id, v.x)
           + mst_k_sample_rest(r, c, min_p, id + 1, v.y)
           + mst_k_sample_rest(r, c, min_p, id + 2, v.z)
           + mst_k_sample_rest(r, c, min_p, id + 3, v.w);
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
        own[i] = mst_k_sample_rest(r, c, min_p, id + i, x);
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

    mst_k_sample_each<NT, MST_K_SAMPLE_BATCH>(r, [&](uint32_t id,
                                                     const float4 &v) {
        mst_k_u64_t  sum;

        sum = mst_k_sample_share4(r, c, min_p, id, v);

        if (!__any_sync(~0u, sum > 0)) {
            return;
        }

        sum = mst_k_sample_warp(sum);

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
mst_k_sample_history(const mst_k_sample_row_t &r, float *row,
    const mst_k_sample_order_t *o, const uint32_t *w, const uint32_t *fed)
{
    uint32_t                from, i, k, n_vocab;
    mst_k_sample_shared_t  *sm;

    sm = r.sm;
    n_vocab = r.n_vocab;

    for (from = 0; from < n_vocab; from += MST_K_SAMPLE_COUNTS) {
        __syncthreads();

        for (i = threadIdx.x; i < MST_K_SAMPLE_COUNTS; i += NT) {
            sm->counts[i] = 0;
        }

        __syncthreads();

        for (i = threadIdx.x; i < o->n_history; i += NT) {
            k = w[i];
            k = (k & MST_SAMPLE_FED ? fed[k & ~MST_SAMPLE_FED] : k) - from;

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
mst_k_sample_adjust(const mst_k_sample_row_t &r, float *row,
    const mst_k_sample_order_t *o, const uint32_t *w, const uint32_t *fed)
{
    if (o->n_history) {
        mst_k_sample_history<NT>(r, row, o, w, fed);
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
__launch_bounds__(NT, MST_K_SAMPLE_CTAS(NT))
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
    r.whole = a.stride % 4 == 0;

    mst_k_sample_adjust<NT>(r, row, o, a.words + o->words, a.fed);

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
                                                 &a.tops[o->result]);
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

        a.results[o->result] = out;

        if (a.fed) {
            a.fed[o->result] = out.status == MST_OK ? id : 0;
        }
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
        || a->stride < a->n_vocab)
    {
        return cudaErrorInvalidValue;
    }

    if (a->n == 0) {
        return cudaSuccess;
    }

    return a->n <= MST_K_SAMPLE_FEW ? mst_k_sample_launch<1024>(a, stream)
                                    : mst_k_sample_launch<512>(a, stream);
}


/*
 * Prefill attention of sm_90a: causal, over pages of bf16 keys and values.
 *
 * Operations: 4 * head_dim for each query head, query and token it sees (4 x
 * 128 x 32 x 2.1 M = 34 GFLOP a layer for 2,048 tokens): bound by the tensor
 * cores, then by exp2 (half of their time) and the rest of the softmax.
 *
 * Measured (H200, 30 Nov 2026, mst_k_attn_test time; 32/8 heads x 128, us a
 * layer): 512 tokens 14.3; 2,048 tokens 78.8 (436 TFLOP/s; cuDNN 84);
 * 4 x 2,048 317.6 (433); 2,048 after 6,144 367.7 (654); 8,192 with a window
 * of 4,096 733.2 (562).
 *
 * A CTA has 128 rows, (position, head of the group): the heads of a KV head
 * share its pages, and few rows are masked on the diagonal.  A producer warp
 * brings two pages of keys, then of values, by bulk copies; blocks lie in
 * memory as wgmma reads them.  Two warpgroups of 64 rows each: q from shared
 * memory, S in registers, P from registers.  The product of the next tile's
 * scores and this tile's values are issued together, and the next softmax
 * runs while the values' product does; the two warpgroups take turns issuing
 * so that one's softmax hides behind the other's products.
 */

#include "kernels/mst_k_attn.cuh"
#include "kernels/mst_k_attn_wgmma.h"

#define MST_K_WG_THREADS  384      /* producer, two warpgroups of rows */
#define MST_K_WG_TOKENS   128      /* of a tile: two pages */
#define MST_K_WG_STAGES   2

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MST_K_WG  1
#else
#define MST_K_WG  0
#endif

/* eight operands of an array */
#define MST_K_F8(d, i)                                                        \
    "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3]),       \
    "+f"((d)[i + 4]), "+f"((d)[i + 5]), "+f"((d)[i + 6]), "+f"((d)[i + 7])

#define MST_K_F32(d, i)                                                       \
    MST_K_F8(d, i), MST_K_F8(d, i + 8), MST_K_F8(d, i + 16),                  \
    MST_K_F8(d, i + 24)

#define MST_K_R32                                                             \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                  \
    "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"

#define MST_K_R64                                                             \
    MST_K_R32 ","                                                             \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"        \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"


template <int HD>
struct mst_k_wg_geo {
    static constexpr int QUERY = MST_K_ATTN_TILE * HD * 2;
    static constexpr int TILE = MST_K_WG_TOKENS * HD * 2;
    static constexpr int PART = MST_K_WG_TOKENS * 128;   /* 64 dims of a tile */
    static constexpr int BARS = QUERY + 2 * MST_K_WG_STAGES * TILE;
    static constexpr int SIZE = BARS + 4 * MST_K_WG_STAGES * 8;
};


/* what a warpgroup's thread knows of its two rows */
typedef struct {
    int       pos[2];
    int       low[2];              /* first token that they see */
    uint32_t  lane;
    uint32_t  row;                 /* of the tile: the first of the two */
    float     m[2];
    float     l[2];
} mst_k_wg_rows_t;


#if MST_K_WG

/* descriptor of an operand with 128-byte lines, swizzled; groups of eight
   lines are 1,024 bytes apart, and, for values, 64 dims "lead" bytes */

MST_K_DEV uint64_t
mst_k_wg_desc(uint32_t at, uint32_t lead)
{
    return (uint64_t) (at >> 4 & 0x3fff) | (uint64_t) (lead >> 4) << 16
           | (uint64_t) (1024 >> 4) << 32 | 1ull << 62;
}


MST_K_DEV void
mst_k_wg_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}


MST_K_DEV void
mst_k_wg_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}


template <int N>
MST_K_DEV void
mst_k_wg_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}


/* s (+)= q k: 64 rows, 128 tokens, 16 dims */

MST_K_DEV void
mst_k_wg_qk(float *s, uint64_t q, uint64_t k, int add)
{
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{" MST_K_R64 "}, %64, %65, p, 1, 1, 0, 0;\n"
        "}"
        : MST_K_F32(s, 0), MST_K_F32(s, 32)
        : "l"(q), "l"(k), "r"(add));
}


/* o += p v: 64 rows, HD dims, 16 tokens */

template <int HD>
MST_K_DEV void
mst_k_wg_pv(float *o, const uint32_t *p, uint64_t v)
{
    if (HD == 128) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
            "{" MST_K_R64 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
            : MST_K_F32(o, 0), MST_K_F32(o, HD / 4)
            : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));

    } else {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
            "{" MST_K_R32 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;\n"
            : MST_K_F32(o, 0)
            : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v));
    }
}


/* scores of a tile of keys; complete after a wait */

template <int HD>
MST_K_DEV void
mst_k_wg_scores(float *s, uint32_t query, uint32_t keys)
{
    int  ks;

#pragma unroll
    for (ks = 0; ks < HD / 16; ks++) {
        mst_k_wg_qk(s, mst_k_wg_desc(query + (ks >> 2) * MST_K_ATTN_TILE * 128
                                     + (ks & 3) * 32, 16),
                    mst_k_wg_desc(keys + (ks >> 2) * mst_k_wg_geo<HD>::PART
                                  + (ks & 3) * 32, 16), ks);
    }
}


template <int HD>
MST_K_DEV void
mst_k_wg_values(float *o, const uint32_t *p, uint32_t values)
{
    int  ks;

#pragma unroll
    for (ks = 0; ks < MST_K_WG_TOKENS / 16; ks++) {
        mst_k_wg_pv<HD>(o, p + ks * 4,
                        mst_k_wg_desc(values + ks * 2048,
                                      mst_k_wg_geo<HD>::PART));
    }
}


/* tokens that a row does not see */

MST_K_DEV void
mst_k_wg_mask(float *s, const mst_k_wg_rows_t *r, int from)
{
    int  e, i, tok;

#pragma unroll
    for (i = 0; i < MST_K_WG_TOKENS / 8; i++) {
#pragma unroll
        for (e = 0; e < 4; e++) {
            tok = from + i * 8 + (r->lane & 3) * 2 + (e & 1);

            if (tok > r->pos[e >> 1] || tok < r->low[e >> 1]) {
                s[i * 4 + e] = -INFINITY;
            }
        }
    }
}


/* s becomes exp2(s - max); alpha: what the output is to be scaled by */

MST_K_DEV void
mst_k_wg_softmax(float *s, mst_k_wg_rows_t *r, float *alpha)
{
    int    h, i;
    float  base, max, sum;

#pragma unroll
    for (h = 0; h < 2; h++) {
        max = r->m[h];

#pragma unroll
        for (i = 0; i < MST_K_WG_TOKENS / 8; i++) {
            max = fmaxf(max, fmaxf(s[i * 4 + h * 2], s[i * 4 + h * 2 + 1]));
        }

        max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
        max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));

        /* a row may see nothing of a tile that another row sees */

        base = max == -INFINITY ? 0 : max;
        alpha[h] = mst_k_exp2(r->m[h] - base);
        r->m[h] = max;
        sum = 0;

#pragma unroll
        for (i = 0; i < MST_K_WG_TOKENS / 8; i++) {
            s[i * 4 + h * 2] = mst_k_exp2(s[i * 4 + h * 2] - base);
            s[i * 4 + h * 2 + 1] = mst_k_exp2(s[i * 4 + h * 2 + 1] - base);
            sum += s[i * 4 + h * 2] + s[i * 4 + h * 2 + 1];
        }

        r->l[h] = r->l[h] * alpha[h] + sum;
    }
}


MST_K_DEV void
mst_k_wg_pack(const float *s, uint32_t *p)
{
    int  i;

#pragma unroll
    for (i = 0; i < MST_K_WG_TOKENS / 4; i++) {
        p[i] = mst_k_pack<0>(s[i * 2], s[i * 2 + 1]);
    }
}


template <int HD>
MST_K_DEV void
mst_k_wg_rescale(float *o, const float *alpha)
{
    int  i;

#pragma unroll
    for (i = 0; i < HD / 8; i++) {
        o[i * 4] *= alpha[0];
        o[i * 4 + 1] *= alpha[0];
        o[i * 4 + 2] *= alpha[1];
        o[i * 4 + 3] *= alpha[1];
    }
}


/* q of a warpgroup's 64 rows, turned and scaled, into shared memory */

template <int HD>
MST_K_DEV void
mst_k_wg_query(const mst_k_attn_t *a, const mst_k_attn_tile_t *t,
    uint32_t kv_head, uint32_t wg, uint8_t *query)
{
    int        e;
    float      scale;
    uint4      v;
    float2     y;
    uint32_t   group, i, k, r, *w, unit;

    group = a->shape.n_heads / a->shape.n_kv_heads;
    w = &v.x;

#pragma unroll 4
    for (i = threadIdx.x & 127; i < 64 * HD / 8; i += 128) {
        r = wg * 64 + i / (HD / 8);
        unit = i % (HD / 8);
        k = r / group;
        k = k < t->n ? k : t->n - 1;

        v = __ldcg((const uint4 *)
                   (a->qkv + (size_t) (t->row + k)
                             * (a->shape.n_heads + 2 * a->shape.n_kv_heads)
                             * HD
                    + (kv_head * group + r % group) * HD) + unit);
        scale = __ldg(a->step.q_scale + t->row + k) * MST_K_LOG2E;

#pragma unroll
        for (e = 0; e < 4; e++) {
            y = mst_k_turn(w[e], mst_k_turn_of(a, t->row + k, unit * 4 + e),
                           scale);
            w[e] = mst_k_pack<0>(y.x, y.y);
        }

        *(uint4 *) (query + (unit >> 3) * MST_K_ATTN_TILE * 128 + r * 128
                    + (((unit & 7) ^ (r & 7)) << 4)) = v;
    }
}


/* eight neighbouring outputs, given as bf16 */

MST_K_DEV void
mst_k_wg_out(const mst_k_attn_t *a, uint32_t row, uint32_t col, uint4 v)
{
    int        i;
    float      f[8];
    size_t     at;
    uint32_t  *w;

    w = &v.x;

    if (a->out_type == MST_K_OUT_BF16) {
        at = ((size_t) row * a->shape.n_heads * a->shape.head_dim + col) * 2;
        *(uint4 *) ((uint8_t *) a->out + at) = v;
        return;
    }

#pragma unroll
    for (i = 0; i < 4; i++) {
        f[i * 2] = __uint_as_float(w[i] << 16);
        f[i * 2 + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }

    mst_k_attn_out<4>(a, row, col, f);
    mst_k_attn_out<4>(a, row, col + 4, f + 4);
}


/* a warp's 16 rows through its part of q's memory, so that stores are of
   whole lines */

template <int HD>
MST_K_DEV void
mst_k_wg_store(const mst_k_attn_t *a, const mst_k_attn_tile_t *t,
    uint32_t kv_head, mst_k_wg_rows_t *r, const float *o, uint8_t *query)
{
    int       h, i;
    float     x;
    uint32_t  group, j, k, local, unit;

    group = a->shape.n_heads / a->shape.n_kv_heads;

#pragma unroll
    for (h = 0; h < 2; h++) {
        r->l[h] += __shfl_xor_sync(~0u, r->l[h], 1);
        r->l[h] += __shfl_xor_sync(~0u, r->l[h], 2);
        x = 1 / r->l[h];
        local = r->row + h * 8;

#pragma unroll
        for (i = 0; i < HD / 8; i++) {
            *(uint32_t *) (query + (i >> 3) * MST_K_ATTN_TILE * 128
                           + local * 128 + (((i & 7) ^ (local & 7)) << 4)
                           + (r->lane & 3) * 4) =
                mst_k_pack<0>(o[i * 4 + h * 2] * x, o[i * 4 + h * 2 + 1] * x);
        }
    }

    __syncwarp();

#pragma unroll 4
    for (j = r->lane; j < 16 * HD / 8; j += 32) {
        local = (r->row & ~15u) + j / (HD / 8);
        unit = j % (HD / 8);
        k = local / group;

        if (k < t->n) {
            mst_k_wg_out(a, t->row + k,
                         (kv_head * group + local % group) * HD + unit * 8,
                         *(const uint4 *)
                          (query + (unit >> 3) * MST_K_ATTN_TILE * 128
                           + local * 128
                           + (((unit & 7) ^ (local & 7)) << 4)));
        }
    }
}


MST_K_DEV void
mst_k_wg_rows(const mst_k_attn_t *a, const mst_k_attn_tile_t *t, uint32_t wg,
    mst_k_wg_rows_t *r)
{
    uint32_t  group, h, k;

    group = a->shape.n_heads / a->shape.n_kv_heads;
    r->lane = threadIdx.x & 31;
    r->row = wg * 64 + (threadIdx.x & 127) / 32 * 16 + r->lane / 4;

    for (h = 0; h < 2; h++) {
        k = (r->row + h * 8) / group;
        k = k < t->n ? k : t->n - 1;
        r->pos[h] = (int) (t->pos + k);
        r->low[h] = a->window ? r->pos[h] - (int) a->window + 1 : 0;
        r->m[h] = -INFINITY;
        r->l[h] = 0;
    }
}


/* a slot of a ring, and who has been through it */
typedef struct {
    uint32_t  slot;
    uint32_t  phase;
} mst_k_wg_at_t;


MST_K_DEV void
mst_k_wg_next(mst_k_wg_at_t *at)
{
    if (++at->slot == MST_K_WG_STAGES) {
        at->slot = 0;
        at->phase ^= 1;
    }
}


/* bars: full of keys, of values, empty of keys, of values */

MST_K_DEV uint32_t
mst_k_wg_bar(uint32_t bars, int empty, int value, uint32_t slot)
{
    return bars + ((empty * 2 + value) * MST_K_WG_STAGES + slot) * 8;
}


MST_K_DEV void
mst_k_wg_release(uint32_t bars, int value, uint32_t slot, uint32_t lane)
{
    if (lane == 0) {
        mst_k_bar_arrive(mst_k_wg_bar(bars, 1, value, slot));
    }
}


/* two pages of keys or of values; where there is but one, it comes twice:
   the second is masked */

template <int HD>
MST_K_DEV void
mst_k_wg_load(const mst_k_attn_t *a, const uint32_t *block, uint32_t kv_head,
    int value, uint8_t *to, uint32_t bars, mst_k_wg_at_t *at)
{
    int             d, i;
    uint32_t        bar;
    uint64_t        policy;
    const uint8_t  *src;

    policy = mst_k_evict_last();
    mst_k_bar_wait(mst_k_wg_bar(bars, 1, value, at->slot), at->phase ^ 1);
    bar = mst_k_wg_bar(bars, 0, value, at->slot);
    mst_k_bar_expect(bar, mst_k_wg_geo<HD>::TILE);
    to += (value * MST_K_WG_STAGES + at->slot) * mst_k_wg_geo<HD>::TILE;

    for (i = 0; i < 2; i++) {
        src = (const uint8_t *) a->kv + (size_t) block[i] * a->block_stride
              + (size_t) (kv_head * 2 + value) * MST_K_BLOCK * HD * 2;

        for (d = 0; d < HD / 64; d++) {
            mst_k_bulk(mst_k_smem(to + d * mst_k_wg_geo<HD>::PART
                                  + i * MST_K_BLOCK * 128),
                       src + d * MST_K_BLOCK * 128, MST_K_BLOCK * 128, bar,
                       policy);
        }
    }

    mst_k_wg_next(at);
}


/* tiles from the diagonal back to the first page; keys one tile ahead.  odd:
   no row sees the first page, and its block may be gone */

template <int HD>
MST_K_DEV void
mst_k_wg_produce(const mst_k_attn_t *a, const mst_k_attn_tile_t *t,
    uint32_t kv_head, uint32_t first, uint32_t pages, uint32_t odd,
    uint8_t *smem)
{
    int             i, tiles;
    uint32_t        bars, block[2], old[2];
    mst_k_wg_at_t   k = { 0, 0 }, v = { 0, 0 };
    const int32_t  *table;

    table = a->step.blocks + t->table + first;
    bars = mst_k_smem(smem + mst_k_wg_geo<HD>::BARS);
    smem += mst_k_wg_geo<HD>::QUERY;
    tiles = (pages + 1) / 2;
    old[0] = old[1] = 0;

    for (i = tiles - 1; i >= 0; i--) {
        block[0] = __ldg(table + i * 2 + (i == 0 ? odd : 0));
        block[1] = (uint32_t) i * 2 + 1 < pages ? __ldg(table + i * 2 + 1)
                                                : block[0];
        mst_k_wg_load<HD>(a, block, kv_head, 0, smem, bars, &k);

        if (i < tiles - 1) {
            mst_k_wg_load<HD>(a, old, kv_head, 1, smem, bars, &v);
        }

        old[0] = block[0];
        old[1] = block[1];
    }

    mst_k_wg_load<HD>(a, old, kv_head, 1, smem, bars, &v);
}


/* the warpgroups take turns: wait for one's own, give the other's */

MST_K_DEV void
mst_k_wg_turn(uint32_t wg, int give)
{
#ifndef MST_K_WG_NO_TURNS
    if (give) {
        asm volatile("bar.arrive %0, 256;" :: "r"(2 + (wg ^ 1)) : "memory");

    } else {
        asm volatile("bar.sync %0, 256;" :: "r"(2 + wg) : "memory");
    }
#endif
}


template <int HD>
MST_K_DEV void
mst_k_wg_consume(const mst_k_attn_t *a, const mst_k_attn_tile_t *t,
    uint32_t kv_head, uint32_t first, uint32_t pages, uint8_t *smem)
{
    int              from, i, last;
    float            alpha[2], o[HD / 2], s[MST_K_WG_TOKENS / 2];
    uint32_t         bars, keys, p[MST_K_WG_TOKENS / 4], query, wg;
    mst_k_wg_at_t    k = { 0, 0 }, v = { 0, 0 };
    mst_k_wg_rows_t  r;

    using G = mst_k_wg_geo<HD>;

    wg = threadIdx.x / 128 - 1;
    bars = mst_k_smem(smem + G::BARS);
    keys = mst_k_smem(smem) + G::QUERY;
    query = mst_k_smem(smem) + wg * 64 * 128;

    mst_k_wg_query<HD>(a, t, kv_head, wg, smem);
    mst_k_fence_async();
    asm volatile("bar.sync %0, 128;" :: "r"(4 + wg) : "memory");

    mst_k_wg_rows(a, t, wg, &r);

#pragma unroll
    for (i = 0; i < HD / 2; i++) {
        o[i] = 0;
    }

    last = (int) (pages + 1) / 2 - 1;
    from = (int) first * MST_K_BLOCK + last * MST_K_WG_TOKENS;

    if (wg == 1) {
        mst_k_wg_turn(wg, 1);
    }

    mst_k_bar_wait(mst_k_wg_bar(bars, 0, 0, k.slot), k.phase);
    mst_k_wg_fence();
    mst_k_wg_scores<HD>(s, query, keys + k.slot * G::TILE);
    mst_k_wg_commit();
    mst_k_wg_wait<0>();
    mst_k_wg_release(bars, 0, k.slot, r.lane);
    mst_k_wg_next(&k);
    mst_k_wg_mask(s, &r, from);
    mst_k_wg_softmax(s, &r, alpha);
    mst_k_wg_pack(s, p);

    for (i = last - 1; i >= 0; i--) {
        from -= MST_K_WG_TOKENS;

        mst_k_bar_wait(mst_k_wg_bar(bars, 0, 0, k.slot), k.phase);
        mst_k_wg_turn(wg, 0);
        mst_k_wg_fence();
        mst_k_wg_scores<HD>(s, query, keys + k.slot * G::TILE);
        mst_k_wg_commit();
        mst_k_bar_wait(mst_k_wg_bar(bars, 0, 1, v.slot), v.phase);
        mst_k_wg_fence();
        mst_k_wg_values<HD>(o, p, keys + (MST_K_WG_STAGES + v.slot) * G::TILE);
        mst_k_wg_commit();

        if (wg == 0 || i > 0) {
            mst_k_wg_turn(wg, 1);
        }

        mst_k_wg_wait<1>();
        mst_k_wg_release(bars, 0, k.slot, r.lane);
        mst_k_wg_next(&k);

        if (from + MST_K_WG_TOKENS - 1 > (int) t->pos
            || (a->window && from < (int) (t->pos + t->n - a->window)))
        {
            mst_k_wg_mask(s, &r, from);
        }

        mst_k_wg_softmax(s, &r, alpha);
        mst_k_wg_wait<0>();
        mst_k_wg_release(bars, 1, v.slot, r.lane);
        mst_k_wg_next(&v);
        mst_k_wg_rescale<HD>(o, alpha);
        mst_k_wg_pack(s, p);
    }

    mst_k_bar_wait(mst_k_wg_bar(bars, 0, 1, v.slot), v.phase);
    mst_k_wg_fence();
    mst_k_wg_values<HD>(o, p, keys + (MST_K_WG_STAGES + v.slot) * G::TILE);
    mst_k_wg_commit();
    mst_k_wg_wait<0>();

    mst_k_wg_store<HD>(a, t, kv_head, &r, o, smem);
}

#endif


template <int HD>
__global__ void
__launch_bounds__(MST_K_WG_THREADS, 1)
mst_k_wg(const __grid_constant__ mst_k_attn_t a)
{
#if MST_K_WG
    extern __shared__ __align__(1024) uint8_t  smem[];

    uint32_t            first, head, i, odd, pages, tile;
    mst_k_attn_tile_t   t;
    mst_k_attn_work_t   at;

    mst_k_pdl_trigger();

    if (threadIdx.x == 0) {
        for (i = 0; i < 4 * MST_K_WG_STAGES; i++) {
            mst_k_bar_init(mst_k_smem(smem + mst_k_wg_geo<HD>::BARS) + i * 8,
                           i < 2 * MST_K_WG_STAGES ? 1 : 8);
        }

        mst_k_bar_init_done();
    }

    __syncthreads();
    mst_k_pdl_wait();

    mst_k_attn_work(&a.shape, &at);
    tile = blockIdx.x / a.shape.n_kv_heads;
    head = blockIdx.x % a.shape.n_kv_heads;

    if (tile >= __ldg((const uint32_t *) ((uint8_t *) a.work + at.n_tiles))) {
        return;
    }

    t = ((const mst_k_attn_tile_t *) ((uint8_t *) a.work + at.tile))[tile];
    pages = mst_k_attn_tile_pages(t.pos, t.n, a.window, &first);

    /* page 2i always goes with page 2i + 1: so does a row's arithmetic */

    odd = a.shape.invariant ? first & 1 : 0;
    first -= odd;
    pages += odd;

    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");

        if (threadIdx.x == 0) {
            mst_k_wg_produce<HD>(&a, &t, head, first, pages, odd, smem);
        }

    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        mst_k_wg_consume<HD>(&a, &t, head, first, pages, smem);
    }
#endif
}


int
mst_k_attn_wgmma(const mst_k_attn_t *a, cudaStream_t stream)
{
    dim3  grid(mst_k_attn_grid(&a->shape) * a->shape.n_kv_heads);

    return a->shape.head_dim == 128
           ? mst_k_attn_launch(mst_k_wg<128>, grid, dim3(MST_K_WG_THREADS),
                               mst_k_wg_geo<128>::SIZE, a, a->pdl, stream)
           : mst_k_attn_launch(mst_k_wg<64>, grid, dim3(MST_K_WG_THREADS),
                               mst_k_wg_geo<64>::SIZE, a, a->pdl, stream);
}

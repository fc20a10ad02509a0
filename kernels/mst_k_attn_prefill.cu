
/*
 * Prefill attention by mma.sync: causal, over the pages that a sequence's
 * earlier chunks and mst_k_attn_rope() have filled.  sm_80 to sm_89, and
 * fp8 KV on every device; bf16 KV on sm_90 goes to mst_k_attn_wgmma.cu.
 *
 * Operations: 4 * head_dim for each query head, query and token it sees:
 * bound by the tensor cores.  A CTA has 128 rows, (position, head of the
 * group), so that the heads of a KV head share its pages; eight warps of 16
 * rows; two pages in shared memory, one on its way (cp.async) while the
 * other is used.  Tiles with most pages go first.
 *
 * Measured with fp8 KV (H200, 30 Nov 2026, mst_k_attn_test time; 32/8 heads
 * x 128, us a layer): 512 tokens 28.5; 2,048 tokens 204.5 (168 TFLOP/s);
 * 4 x 2,048 712.3 (193); 2,048 after 6,144 1107.9 (217).
 */

#include "kernels/mst_k_attn_warp.cuh"
#include "kernels/mst_k_attn_wgmma.h"

#define MST_K_PRE_WARPS    8
#define MST_K_PRE_THREADS  (MST_K_PRE_WARPS * 32)


/* a thread's two rows of the tile */
typedef struct {
    uint32_t  row[2];              /* of the step */
    uint32_t  head[2];
    int       pos[2];
    int       used[2];
} mst_k_pre_rows_t;


MST_K_DEV void
mst_k_pre_rows(const mst_k_attn_t *a, const mst_k_attn_tile_t *t,
    uint32_t kv_head, mst_k_pre_rows_t *r)
{
    uint32_t  group, i, k, local;

    group = a->shape.n_heads / a->shape.n_kv_heads;

    for (i = 0; i < 2; i++) {
        local = threadIdx.x / 32 * 16 + i * 8 + (threadIdx.x & 31) / 4;
        k = local / group;
        r->used[i] = k < t->n;
        k = k < t->n ? k : t->n - 1;
        r->row[i] = t->row + k;
        r->pos[i] = (int) (t->pos + k);
        r->head[i] = kv_head * group + local % group;
    }
}


template <int HD, int FP8>
MST_K_DEV void
mst_k_pre_query(const mst_k_attn_t *a, const mst_k_pre_rows_t *rows,
    mst_k_pre_warp<HD> *w)
{
    float            scale;
    float2           y;
    uint32_t         dim, i, ks, r;
    const uint16_t  *q;

    for (r = 0; r < 2; r++) {
        scale = __ldg(a->step.q_scale + rows->row[r]) * MST_K_LOG2E;
        q = a->qkv + (size_t) rows->row[r] * (a->shape.n_heads
                                              + 2 * a->shape.n_kv_heads) * HD
            + rows->head[r] * HD;

#pragma unroll
        for (ks = 0; ks < HD / 16; ks++) {
#pragma unroll
            for (i = 0; i < 2; i++) {
                dim = FP8 ? ks * 16 + (threadIdx.x & 3) * 4 + i * 2
                          : ks * 16 + i * 8 + (threadIdx.x & 3) * 2;
                y = mst_k_turn(mst_k_ld(q + dim),
                               mst_k_turn_of(a, rows->row[r], dim / 2), scale);
                w->q[ks][i * 2 + r] = mst_k_pack<FP8>(y.x, y.y);
            }
        }
    }
}


/* s[2][4] = q k of 16 tokens that lie from base on */

template <int HD, int FP8>
MST_K_DEV void
mst_k_pre_group(const mst_k_pre_warp<HD> *w, uint32_t base,
    uint32_t lane, float s[2][4])
{
    int       i, ks;
    float     odd[2][4];
    uint32_t  r[4], tok;

#pragma unroll
    for (i = 0; i < 4; i++) {
        s[0][i] = s[1][i] = odd[0][i] = odd[1][i] = 0;
    }

    if (!FP8) {
        tok = ((lane >> 4) << 3) + (lane & 7);

#pragma unroll
        for (ks = 0; ks < HD / 16; ks++) {
            mst_k_ldsm(r, base + (ks >> 2) * (MST_K_BLOCK * 128)
                          + tok * 128
                          + ((((ks & 3) * 2 + ((lane >> 3) & 1))
                              ^ (tok & 7)) << 4));
            mst_k_mma<0>(ks & 1 ? odd[0] : s[0], w->q[ks], r[0], r[1]);
            mst_k_mma<0>(ks & 1 ? odd[1] : s[1], w->q[ks], r[2], r[3]);
        }

    } else {
        tok = (((lane >> 3) & 1) << 3) + (lane & 7);

#pragma unroll
        for (ks = 0; ks < HD / 16; ks += 2) {
            mst_k_ldsm(r, base + mst_k_kv_at(tok, (ks + (lane >> 4)) * 16, HD,
                                             MST_K_KV_FP8));

#pragma unroll
            for (i = 0; i < 2; i++) {
                mst_k_mma<1>(i ? odd[0] : s[0], w->q[ks + i],
                             mst_k_e4m3_f16(r[i * 2] & 0xffff),
                             mst_k_e4m3_f16(r[i * 2] >> 16));
                mst_k_mma<1>(i ? odd[1] : s[1], w->q[ks + i],
                             mst_k_e4m3_f16(r[i * 2 + 1] & 0xffff),
                             mst_k_e4m3_f16(r[i * 2 + 1] >> 16));
            }
        }
    }

#pragma unroll
    for (i = 0; i < 4; i++) {
        s[0][i] += odd[0][i];
        s[1][i] += odd[1][i];
    }
}


/* o += p v; p[] is the A operand: tokens are its k */

template <int HD, int FP8>
MST_K_DEV void
mst_k_pre_add(mst_k_pre_warp<HD> *w, uint32_t base, uint32_t lane,
    const uint32_t *p)
{
    int       i, j;
    uint32_t  r[4], tok, u, v;

    tok = (((lane >> 3) & 1) << 3) + (lane & 7);

#pragma unroll
    for (i = 0; i < HD / 16; i++) {

        if (!FP8) {
            u = (i & 3) * 2 + (lane >> 4);
            mst_k_ldsm_t(r, base + (i >> 2) * (MST_K_BLOCK * 128)
                            + tok * 128 + ((u ^ (tok & 7)) << 4));
            mst_k_mma<0>(w->o[i * 2], p, r[0], r[1]);
            mst_k_mma<0>(w->o[i * 2 + 1], p, r[2], r[3]);
            continue;
        }

        if (i & 1) {
            continue;
        }

        mst_k_ldsm_t(r, base + mst_k_kv_at(tok, (i + (lane >> 4)) * 16, HD,
                                           MST_K_KV_FP8));

#pragma unroll
        for (j = 0; j < 2; j++) {

            /* a register holds dims 2g, 2g + 1 of two tokens: the even dims
               go to one tile, the odd ones to the next */

            u = __byte_perm(r[j * 2], 0, 0x3120);
            v = __byte_perm(r[j * 2 + 1], 0, 0x3120);
            mst_k_mma<1>(w->o[(i + j) * 2], p, mst_k_e4m3_f16(u & 0xffff),
                         mst_k_e4m3_f16(v & 0xffff));
            mst_k_mma<1>(w->o[(i + j) * 2 + 1], p, mst_k_e4m3_f16(u >> 16),
                         mst_k_e4m3_f16(v >> 16));
        }
    }
}


/* s[4][2][4] of the page's 64 tokens, masked where it must be */

template <int HD, int FP8>
MST_K_DEV void
mst_k_pre_scores(const mst_k_attn_t *a, const mst_k_pre_rows_t *rows,
    const mst_k_pre_warp<HD> *w, const uint8_t *keys, uint32_t page,
    float s[4][2][4])
{
    int             e, i, n, tok, window;
    float           x;
    const uint32_t  lane = threadIdx.x & 31;

#pragma unroll
    for (n = 0; n < 4; n++) {
        mst_k_pre_group<HD, FP8>(
            w, mst_k_smem(keys) + n * 16 * (FP8 ? HD : 128), lane, s[n]);
    }

    window = a->window ? (int) a->window : 0x40000000;

#pragma unroll
    for (n = 0; n < 4; n++) {
#pragma unroll
        for (i = 0; i < 2; i++) {
#pragma unroll
            for (e = 0; e < 4; e++) {
                tok = n * 16 + i * 8 + (lane & 3) * 2 + (e & 1);

                if (FP8) {
                    x = ((const float *) (keys + MST_K_BLOCK * HD))[tok];
                    s[n][i][e] *= x;
                }

                tok += page * MST_K_BLOCK;

                if (tok > rows->pos[e >> 1]
                    || tok + window <= rows->pos[e >> 1])
                {
                    s[n][i][e] = -INFINITY;
                }
            }
        }
    }
}


template <int HD>
MST_K_DEV void
mst_k_pre_softmax(mst_k_pre_warp<HD> *w, float s[4][2][4])
{
    int    e, i, n, r;
    float  alpha, base, max;

#pragma unroll
    for (r = 0; r < 2; r++) {
        max = w->m[r];

#pragma unroll
        for (n = 0; n < 4; n++) {
#pragma unroll
            for (i = 0; i < 2; i++) {
                max = fmaxf(max, fmaxf(s[n][i][r * 2], s[n][i][r * 2 + 1]));
            }
        }

        max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
        max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));

        /* a row may see nothing of a page that its tile's first row sees */

        base = max == -INFINITY ? 0 : max;
        alpha = mst_k_exp2(w->m[r] - base);
        w->m[r] = max;
        w->l[r] *= alpha;

#pragma unroll
        for (n = 0; n < 4; n++) {
#pragma unroll
            for (i = 0; i < 2; i++) {
#pragma unroll
                for (e = r * 2; e < r * 2 + 2; e++) {
                    s[n][i][e] = mst_k_exp2(s[n][i][e] - base);
                    w->l[r] += s[n][i][e];
                }
            }
        }

#pragma unroll
        for (i = 0; i < HD / 8; i++) {
            w->o[i][r * 2] *= alpha;
            w->o[i][r * 2 + 1] *= alpha;
        }
    }
}


template <int HD, int FP8>
MST_K_DEV void
mst_k_pre_values(mst_k_pre_warp<HD> *w, const uint8_t *values,
    float s[4][2][4])
{
    int             i, n;
    float2          x;
    uint32_t        p[4];
    const uint32_t  lane = threadIdx.x & 31;

#pragma unroll
    for (n = 0; n < 4; n++) {
#pragma unroll
        for (i = 0; i < 2; i++) {

            if (FP8) {
                x = ((const float2 *) (values + MST_K_BLOCK * HD))
                        [n * 8 + i * 4 + (lane & 3)];
                x.x *= MST_K_FP8_GAIN;
                x.y *= MST_K_FP8_GAIN;
                s[n][i][0] *= x.x;
                s[n][i][1] *= x.y;
                s[n][i][2] *= x.x;
                s[n][i][3] *= x.y;
            }

            p[i * 2] = mst_k_pack<FP8>(s[n][i][0], s[n][i][1]);
            p[i * 2 + 1] = mst_k_pack<FP8>(s[n][i][2], s[n][i][3]);
        }

        mst_k_pre_add<HD, FP8>(
            w, mst_k_smem(values) + n * 16 * (FP8 ? HD : 128), lane, p);
    }
}


/* the keys and values of one head of a page into shared memory */

template <int HD, int FP8>
MST_K_DEV void
mst_k_pre_copy(const mst_k_attn_t *a, const mst_k_attn_tile_t *t,
    uint32_t kv_head, uint32_t page, uint8_t *to)
{
    uint32_t        i;
    const uint8_t  *src;
    const uint32_t  half = mst_k_dec_geo<HD, FP8>::HALF;

    src = (const uint8_t *) a->kv
          + (size_t) __ldg(a->step.blocks + t->table + page) * a->block_stride
          + (size_t) kv_head * 2 * half;

    for (i = threadIdx.x * 16; i < 2 * half; i += MST_K_PRE_THREADS * 16) {
        mst_k_cp16(mst_k_smem(to + i), src + i);
    }
}


template <int HD, int FP8>
MST_K_DEV void
mst_k_pre_store(const mst_k_attn_t *a, const mst_k_pre_rows_t *rows,
    mst_k_pre_warp<HD> *w)
{
    int       i, r;
    float     v[4], x;
    uint32_t  col;

#pragma unroll
    for (r = 0; r < 2; r++) {
        w->l[r] += __shfl_xor_sync(~0u, w->l[r], 1);
        w->l[r] += __shfl_xor_sync(~0u, w->l[r], 2);
        x = FP8 ? 1 / (w->l[r] * MST_K_FP8_GAIN) : 1 / w->l[r];

        if (!rows->used[r]) {
            continue;
        }

        col = rows->head[r] * HD;

#pragma unroll
        for (i = 0; i < HD / 8; i += 2) {

            if (FP8) {
                v[0] = w->o[i][r * 2] * x;
                v[1] = w->o[i + 1][r * 2] * x;
                v[2] = w->o[i][r * 2 + 1] * x;
                v[3] = w->o[i + 1][r * 2 + 1] * x;
                mst_k_attn_out<4>(a, rows->row[r],
                                  col + i * 8 + (threadIdx.x & 3) * 4, v);
                continue;
            }

            v[0] = w->o[i][r * 2] * x;
            v[1] = w->o[i][r * 2 + 1] * x;
            v[2] = w->o[i + 1][r * 2] * x;
            v[3] = w->o[i + 1][r * 2 + 1] * x;
            mst_k_attn_out<2>(a, rows->row[r],
                              col + i * 8 + (threadIdx.x & 3) * 2, v);
            mst_k_attn_out<2>(a, rows->row[r],
                              col + i * 8 + 8 + (threadIdx.x & 3) * 2, v + 2);
        }
    }
}


template <int HD, int FP8>
__global__ void
__launch_bounds__(MST_K_PRE_THREADS, 1)
mst_k_pre(const __grid_constant__ mst_k_attn_t a)
{
    extern __shared__ __align__(1024) uint8_t  smem[];

    float                  s[4][2][4];
    uint8_t               *page;
    uint32_t               first, head, i, n, tile;
    mst_k_attn_tile_t      t;
    mst_k_attn_work_t      at;
    mst_k_pre_rows_t       rows;
    mst_k_pre_warp<HD>     w;
    const uint32_t         size = 2 * mst_k_dec_geo<HD, FP8>::HALF;

    mst_k_pdl_trigger();
    mst_k_pdl_wait();

    mst_k_attn_work(&a.shape, &at);
    tile = blockIdx.x / a.shape.n_kv_heads;
    head = blockIdx.x % a.shape.n_kv_heads;

    if (tile >= __ldg((const uint32_t *) ((uint8_t *) a.work + at.n_tiles))) {
        return;
    }

    t = ((const mst_k_attn_tile_t *) ((uint8_t *) a.work + at.tile))[tile];
    n = mst_k_attn_tile_pages(t.pos, t.n, a.window, &first);

    mst_k_pre_copy<HD, FP8>(&a, &t, head, first, smem);
    mst_k_cp_commit();

    mst_k_pre_rows(&a, &t, head, &rows);
    mst_k_pre_query<HD, FP8>(&a, &rows, &w);

#pragma unroll
    for (i = 0; i < HD / 8; i++) {
        w.o[i][0] = w.o[i][1] = w.o[i][2] = w.o[i][3] = 0;
    }

    w.m[0] = w.m[1] = -INFINITY;
    w.l[0] = w.l[1] = 0;

    for (i = 0; i < n; i++) {
        mst_k_cp_wait<0>();
        __syncthreads();

        if (i + 1 < n) {
            mst_k_pre_copy<HD, FP8>(&a, &t, head, first + i + 1,
                                    smem + (i + 1) % 2 * size);
        }

        mst_k_cp_commit();

        page = smem + i % 2 * size;
        mst_k_pre_scores<HD, FP8>(&a, &rows, &w, page, first + i, s);
        mst_k_pre_softmax<HD>(&w, s);
        mst_k_pre_values<HD, FP8>(&w, page + size / 2, s);
    }

    mst_k_pre_store<HD, FP8>(&a, &rows, &w);
}


template <int HD, int FP8>
static int
mst_k_pre_launch(const mst_k_attn_t *a, cudaStream_t stream)
{
    return mst_k_attn_launch(mst_k_pre<HD, FP8>,
                             dim3(mst_k_attn_grid(&a->shape)
                                  * a->shape.n_kv_heads),
                             dim3(MST_K_PRE_THREADS),
                             4 * mst_k_kv_half(HD, FP8 ? MST_K_KV_FP8
                                                       : MST_K_KV_BF16),
                             a, a->pdl, stream);
}


extern "C" int
mst_k_attn_prefill(const mst_k_attn_t *a, cudaStream_t stream)
{
    if (!mst_k_attn_fits(a->shape.n_heads, a->shape.n_kv_heads,
                         a->shape.head_dim))
    {
        return cudaErrorInvalidValue;
    }

#ifndef MST_K_ATTN_PLAIN
    if (a->kv_type == MST_K_KV_BF16 && mst_k_attn_hopper()) {
        return mst_k_attn_wgmma(a, stream);
    }
#endif

    if (a->shape.head_dim == 128) {
        return a->kv_type == MST_K_KV_FP8 ? mst_k_pre_launch<128, 1>(a, stream)
                                          : mst_k_pre_launch<128, 0>(a, stream);
    }

    return a->kv_type == MST_K_KV_FP8 ? mst_k_pre_launch<64, 1>(a, stream)
                                      : mst_k_pre_launch<64, 0>(a, stream);
}

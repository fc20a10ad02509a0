
/*
 * Keys turned and keys and values written to their pages, for the rows of
 * sequences that are prefilled; what is left of such a sequence's last page
 * is cleared in its values, so that 0 * what was there is 0.
 *
 * Bytes: k and v once in, once out: 8 * head_dim a row and KV head (bf16);
 * 2,048 rows of 8 x 128: 17 MB, 3.7 us at 4.56 TB/s; measured 7.7 (H200, 30
 * Nov 2026, mst_k_attn_test time).  A warp has one row of one head, lane i
 * its dims i * head_dim / 32 ..
 */

#include "kernels/mst_k_attn_warp.cuh"

#define MST_K_ROPE_WARPS  8


template <int HD, int FP8>
MST_K_DEV void
mst_k_rope_write(uint8_t *half, uint32_t tok, uint32_t lane,
    const mst_k_dec_new<HD> *n)
{
    float             scale;
    uint32_t          code[2];
    const mst_k_kv_t  kv = FP8 ? MST_K_KV_FP8 : MST_K_KV_BF16;

    scale = mst_k_dec_encode<HD, FP8>(n, code);
    mst_k_dec_put<HD, FP8>(half + mst_k_kv_at(tok, lane * (HD / 32), HD, kv),
                           code);

    if (FP8 && lane == 0) {
        *(float *) (half + mst_k_kv_scale_at(tok, HD)) = scale;
    }
}


template <int HD, int FP8>
__global__ void
__launch_bounds__(MST_K_ROPE_WARPS * 32)
mst_k_rope(const __grid_constant__ mst_k_attn_t a)
{
    int                     i, seq, slot;
    uint8_t                *page;
    uint32_t                lane, row, tok, unit;
    mst_k_attn_piece_t      p;
    mst_k_dec_new<HD>       n;
    mst_k_dec_new_raw<HD>   k, v;
    const uint32_t          half = mst_k_kv_half(HD, FP8 ? MST_K_KV_FP8
                                                     : MST_K_KV_BF16);

    mst_k_pdl_trigger();

    lane = threadIdx.x & 31;
    unit = blockIdx.x * MST_K_ROPE_WARPS + threadIdx.x / 32;
    row = unit / a.shape.n_kv_heads;
    p.row = row;
    p.head = unit % a.shape.n_kv_heads;

    mst_k_pdl_wait();

    if (row >= (uint32_t) a.step.counts[MST_K_ROWS]) {
        return;
    }

    seq = a.step.seq[row];
    slot = a.step.slot[row];

    if (slot < 0 || (a.step.seq_n[seq] <= 1 && !a.shape.invariant)) {
        return;
    }

    tok = slot % MST_K_BLOCK;
    page = (uint8_t *) a.kv + (size_t) (slot / MST_K_BLOCK) * a.block_stride
           + (size_t) p.head * 2 * half;

    mst_k_dec_fetch<HD>(&a, &p, lane, 0, &k);
    mst_k_dec_fetch<HD>(&a, &p, lane, 1, &v);
    mst_k_dec_turn<HD>(&k, &n);
    mst_k_rope_write<HD, FP8>(page, tok, lane, &n);
    mst_k_dec_turn<HD>(&v, &n);
    mst_k_rope_write<HD, FP8>(page + half, tok, lane, &n);

    if (a.step.pos[row] + 1 != a.step.seq_len[seq]) {
        return;
    }

    for (i = 0; i < HD / 32; i++) {
        n.x[i] = 0;
    }

    while (++tok < MST_K_BLOCK) {
        mst_k_rope_write<HD, FP8>(page + half, tok, lane, &n);
    }
}


template <int HD, int FP8>
static int
mst_k_rope_launch(const mst_k_attn_t *a, cudaStream_t stream)
{
    uint32_t  units;

    units = a->shape.rows * a->shape.n_kv_heads;

    return mst_k_attn_launch(mst_k_rope<HD, FP8>,
                             dim3((units + MST_K_ROPE_WARPS - 1)
                                  / MST_K_ROPE_WARPS),
                             dim3(MST_K_ROPE_WARPS * 32), 0, a, a->pdl,
                             stream);
}


extern "C" int
mst_k_attn_rope(const mst_k_attn_t *a, cudaStream_t stream)
{
    if (!mst_k_attn_fits(a->shape.n_heads, a->shape.n_kv_heads,
                         a->shape.head_dim))
    {
        return cudaErrorInvalidValue;
    }

    if (a->shape.head_dim == 128) {
        return a->kv_type == MST_K_KV_FP8 ? mst_k_rope_launch<128, 1>(a, stream)
                                          : mst_k_rope_launch<128, 0>(a,
                                                                      stream);
    }

    return a->kv_type == MST_K_KV_FP8 ? mst_k_rope_launch<64, 1>(a, stream)
                                      : mst_k_rope_launch<64, 0>(a, stream);
}


/*
 * Each kernel once, as "mistral diagnose" measures it, with what it has to
 * move and to compute.
 */

#include <string.h>

#include "backend/mst_cuda_probe.h"


/* elements of a feed-forward layer's gate and up; bytes of all keys and
   values that the sequences decode on */

#define MST_PROBE_W    (2.0 * MST_PROBE_FF * MST_PROBE_DIM)
#define MST_PROBE_SEEN ((double) MST_PROBE_SEQS * MST_PROBE_TOKENS           \
                        * MST_PROBE_KV * 128 * 2 * 2)


static int
mst_probe_plan_decode(mst_probe_run_t *r)
{
    return mst_probe_plan(r, &r->decode);
}


static int
mst_probe_decode(mst_probe_run_t *r)
{
    return mst_k_attn_decode(&r->decode, r->stream);
}


static int
mst_probe_rope(mst_probe_run_t *r)
{
    return mst_k_attn_rope(&r->prompt, r->stream);
}


static int
mst_probe_prompt(mst_probe_run_t *r)
{
    return mst_k_attn_prefill(&r->prompt, r->stream);
}


static int
mst_probe_norm(mst_probe_run_t *r)
{
    mst_k_norm_t  a;

    memset(&a, 0, sizeof(a));
    a.h = r->h;
    a.gain = r->gain;
    a.x = r->y;
    a.eps = 1e-5f;
    a.dim = MST_PROBE_DIM;
    a.rows = MST_PROBE_PROMPT;

    return mst_k_norm(&a, r->stream);
}


static int
mst_probe_swiglu(mst_probe_run_t *r)
{
    mst_k_swiglu_t  a;

    memset(&a, 0, sizeof(a));
    a.gate_up = r->x;
    a.y = r->y;
    a.ff_dim = MST_PROBE_FF;
    a.rows = MST_PROBE_PROMPT;

    return mst_k_swiglu(&a, r->stream);
}


static int
mst_probe_rows8(mst_probe_run_t *r)
{
    mst_k_e4m3_rows_t  a;

    memset(&a, 0, sizeof(a));
    a.from = r->w;
    a.to = r->rows8;
    a.scale = r->scale8;
    a.width = MST_PROBE_DIM;
    a.rows = 2 * MST_PROBE_FF;

    return mst_k_e4m3_rows(&a, r->stream);
}


static int
mst_probe_pack(mst_probe_run_t *r, int fp8)
{
    int                i, rc;
    size_t             half;
    mst_k_gemm_pack_t  a;

    rc = cudaSuccess;
    half = (size_t) MST_PROBE_FF * MST_PROBE_DIM;

    for (i = 0; i < 2 && rc == cudaSuccess; i++) {
        memset(&a, 0, sizeof(a));
        a.src = fp8 ? (void *) (r->rows8 + i * half)
                    : (void *) (r->w + i * half);
        a.src_scale = fp8 ? r->scale8 + i * MST_PROBE_FF : NULL;
        a.rows = MST_PROBE_FF;
        a.width = MST_PROBE_DIM;
        a.of = 2 * MST_PROBE_FF;
        a.gate = 1 + i;
        a.w = fp8 ? r->tiles8 : r->tiles;
        a.w_scale = fp8 ? r->tile_scale8 : NULL;

        rc = mst_k_gemm_pack(&a, r->stream);
    }

    return rc;
}


static int
mst_probe_pack16(mst_probe_run_t *r)
{
    return mst_probe_pack(r, 0);
}


static int
mst_probe_pack8(mst_probe_run_t *r)
{
    return mst_probe_pack(r, 1);
}


static int
mst_probe_gemm(mst_probe_run_t *r, uint32_t n, int fp8)
{
    mst_k_gemm_t  a;

    memset(&a, 0, sizeof(a));
    a.op = MST_K_GEMM_GATE_UP;
    a.n = n;
    a.rows = 2 * MST_PROBE_FF;
    a.width = MST_PROBE_DIM;
    a.w = fp8 ? r->tiles8 : r->tiles;
    a.w_scale = fp8 ? r->tile_scale8 : NULL;
    a.x = fp8 ? (void *) r->rows8 : (void *) r->x;
    a.x_mul = 1;
    a.eps = 1e-5f;
    a.y = r->y;
    a.y_mul = 1;
    a.y_e4m3 = fp8;

    return mst_k_gemm(&a, r->stream);
}


static int
mst_probe_gemm1(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 1, 0);
}


static int
mst_probe_gemm64(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 64, 0);
}


static int
mst_probe_gemm8_1(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 1, 1);
}


static int
mst_probe_gemm8_64(mst_probe_run_t *r)
{
    return mst_probe_gemm(r, 64, 1);
}


static int
mst_probe_draw(mst_probe_run_t *r)
{
    return mst_k_sample(&r->sample, r->stream);
}


const mst_probe_kernel_t  mst_probe_kernels[] = {
    { "norm, 2048 rows of 4096", mst_probe_norm,
      (double) MST_PROBE_PROMPT * MST_PROBE_DIM * 6, 0, 0 },
    { "SwiGLU, 2048 rows of 14336", mst_probe_swiglu,
      (double) MST_PROBE_PROMPT * MST_PROBE_FF * 6, 0, 0 },
    { "bf16 to e4m3, 28672 rows of 4096", mst_probe_rows8, MST_PROBE_W * 3, 0,
      0 },
    { "packing bf16 tiles", mst_probe_pack16, MST_PROBE_W * 4, 0, 0 },
    { "packing e4m3 tiles", mst_probe_pack8, MST_PROBE_W * 2, 0, 0 },
    { "decode GEMM, bf16, 1 token", mst_probe_gemm1, MST_PROBE_W * 2,
      MST_PROBE_W * 2, 0 },
    { "decode GEMM, bf16, 64 tokens", mst_probe_gemm64, MST_PROBE_W * 2,
      MST_PROBE_W * 2 * 64, 0 },
    { "decode GEMM, e4m3, 1 token", mst_probe_gemm8_1, MST_PROBE_W,
      MST_PROBE_W * 2, 1 },
    { "decode GEMM, e4m3, 64 tokens", mst_probe_gemm8_64, MST_PROBE_W,
      MST_PROBE_W * 2 * 64, 1 },
    { "attention's plan, 64 sequences", mst_probe_plan_decode, 0, 0, 0 },
    { "attention, 64 x 576 tokens", mst_probe_decode, MST_PROBE_SEEN, 0, 0 },
    { "rope and KV, 2048 tokens", mst_probe_rope,
      (double) MST_PROBE_PROMPT * MST_PROBE_KV * 128 * 2 * 2 * 2, 0, 0 },
    { "attention, prompt of 2048", mst_probe_prompt, 0,
      2.0 * MST_PROBE_PROMPT * MST_PROBE_PROMPT * MST_PROBE_HEADS * 128, 0 },
    { "sampling, 64 x 32768", mst_probe_draw,
      (double) MST_PROBE_SEQS * MST_PROBE_VOCAB * 4, 0, 0 },
    { NULL, NULL, 0, 0, 0 }
};

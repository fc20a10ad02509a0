
/*
 * Attention over the paged KV cache.  A step's sequences fall into two
 * kinds, which the kernels tell apart by step.seq_n: with one row they
 * decode, with more they are prefilled (a chunk, over whatever their blocks
 * already hold).  Once per step, for each window that the layers have:
 *
 *     mst_k_attn_plan()       work lists; decode reads them before it waits,
 *                             so a kernel that is launched WITHOUT pdl
 *                             comes between
 *
 * and in each layer, after the product that gave q, k and v:
 *
 *     mst_k_attn_rope()       where the step may have sequences of more rows
 *     mst_k_attn_prefill()    the same
 *     mst_k_attn_decode()     where it may have sequences of one row
 *
 * decode rotates q and k and writes k and v itself; rope does so for the
 * sequences of more rows (k and v only: prefill rotates q as it loads it)
 * and clears what is left of their last block.  All three leave rows alone
 * that are not theirs, so a mixed step calls them one after the other.
 *
 * head_dim is 64 or 128, at most 16 query heads share a KV head
 * (mst_k_attn_fits()).  KV and work list: mst_k_attn_map.h.  A layer's blocks
 * best lie in a range of their own ([layer][block], block_stride =
 * mst_k_kv_block()): what one kernel walks then stays within few pages of
 * the TLB.  Nothing needs to be cleared when the pool is made.
 */

#ifndef MST_K_ATTN_H
#define MST_K_ATTN_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#include "kernels/mst_k_attn_map.h"

#ifdef __cplusplus
extern "C" {
#endif


/* how the output rows lie: [rows][n_heads * head_dim] */
typedef enum {
    MST_K_OUT_BF16 = 0,            /* row-major */
    MST_K_OUT_FP8,                 /* row-major e4m3 of out_scale * value */
    MST_K_OUT_BF16_LINES,          /* as the decode products read it: lines of
                                      128 bytes [width / line][out_rows]
                                      [line], 16-byte unit ^ (row & 7) */
    MST_K_OUT_FP8_LINES
} mst_k_out_t;


typedef struct {
    mst_k_step_t        step;
    mst_k_attn_shape_t  shape;
    uint32_t            window;    /* tokens that a query sees, itself
                                      included; 0 = all */
    void               *work;      /* mst_k_attn_work() bytes of the device;
                                      not in the staged copy */
    int                 pdl;
} mst_k_attn_plan_t;

int mst_k_attn_plan(const mst_k_attn_plan_t *a, cudaStream_t stream);


typedef struct {
    mst_k_step_t        step;
    mst_k_attn_shape_t  shape;     /* the plan's */
    uint32_t            window;    /* the plan's */
    void               *work;      /* the plan's */

    const uint16_t     *qkv;       /* bf16 [rows][(n_heads + 2 * n_kv_heads)
                                      * head_dim] q, k, v; not rotated */
    const float        *turns;     /* [rows][pairs][2] cos, sin */
    uint32_t            pairs;     /* of a head that rotate: rope_dim / 2 */

    void               *kv;        /* block 0 of this layer, 256-aligned */
    uint64_t            block_stride;  /* bytes from block to block of this
                                      layer, a multiple of 256 */
    mst_k_kv_t          kv_type;

    void               *out;
    mst_k_out_t         out_type;
    float               out_scale; /* of e4m3 */
    uint32_t            out_rows;  /* of a LINES layout */
    int                 pdl;
} mst_k_attn_t;

int mst_k_attn_rope(const mst_k_attn_t *a, cudaStream_t stream);
int mst_k_attn_prefill(const mst_k_attn_t *a, cudaStream_t stream);
int mst_k_attn_decode(const mst_k_attn_t *a, cudaStream_t stream);


/* whether there is a kernel for such heads */

static inline int
mst_k_attn_fits(uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim)
{
    return n_kv_heads && n_heads % n_kv_heads == 0
           && n_heads / n_kv_heads <= MST_K_ATTN_GROUP
           && (head_dim == 64 || head_dim == 128);
}


#ifdef __cplusplus
}
#endif

#endif /* MST_K_ATTN_H */

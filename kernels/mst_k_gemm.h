
/*
 * GEMMs of a decode step, 1 to 128 tokens: y[token][row] = x[token] . w[row],
 * each with what stands before and after it in the layer fused.  Layouts:
 * mst_k_gemm_map.h.  sm_90: wgmma over tiles that bulk copies bring, the ring
 * of weights filled before the predecessor ends (pdl); elsewhere mma.sync
 * over the same tiles.
 *
 * The norm: whoever writes the residual h also writes x = bf16(h * gain) and
 * partial sums of h's squares; whoever reads x scales its RESULT by 1/rms.
 *
 * A token's results depend on nothing but its own inputs, bit for bit: not on
 * the other tokens, their number (1 to 128, one type of weights, one device)
 * or its place among them.
 *
 * e4m3: a row of weights has a scale (its largest element becomes 448), x is
 * e4m3(x * mul) where mul is one number of the operation, or one per token:
 * for h, 1/4 of 1/rms of the residual BEFORE this addition.  e4m3 keeps its
 * precision over 2^15, so what mul has to hit is a window, not a value.
 *
 * Nothing here allocates or waits; all can be captured.  Errors are
 * cudaError_t.
 */

#ifndef MST_K_GEMM_H
#define MST_K_GEMM_H

#include <stdint.h>

#include "kernels/mst_k_gemm_map.h"
#include "kernels/mst_k_stream.h"


#ifdef __cplusplus
extern "C" {
#endif


#define MST_K_GEMM_MUL  0.25f    /* of h's 1/rms: see e4m3 above */
#define MST_K_GEMM_DIM  16384    /* width of h at most */


typedef enum {
    MST_K_GEMM_QKV,          /* y: bf16 [n][rows], 1/rms, bias */
    MST_K_GEMM_RESIDUAL,     /* out, down: h += w x + bias; y: blocked */
    MST_K_GEMM_GATE_UP,      /* y: blocked silu(gate) * up, 1/rms, bias */
    MST_K_GEMM_HEAD          /* y: float [n][pitch], 1/rms */
} mst_k_gemm_op_t;


typedef enum {
    MST_K_GEMM_AUTO,         /* what the device can do */
    MST_K_GEMM_MMA           /* mma.sync, also on sm_90 (tests) */
} mst_k_gemm_way_t;


typedef struct {
    mst_k_gemm_op_t   op;
    mst_k_gemm_way_t  way;
    int               pdl;       /* launch while the predecessor ends */
    uint32_t          n;         /* tokens, 1..128; buffers of tokens are
                                    padded to mst_k_gemm_pad(n) */
    uint32_t          rows;      /* of w; GATE_UP: gates + ups */
    uint32_t          width;     /* of x and w; multiple of 64 */

    const void       *w;         /* tiles */
    const float      *w_scale;   /* [units * 16], in tile order: w is e4m3;
                                    NULL: bf16 */
    const float      *bias;      /* [rows]; GATE_UP: of the gates; or NULL */
    const float      *bias_up;   /* GATE_UP: of the ups; or NULL */

    const void       *x;         /* blocked; of the type of w */
    const float      *x_sums;    /* partial sums of squares of the residual,
                                    width = dim: of x (QKV, GATE_UP, HEAD;
                                    NULL: x is normalised), or of h before
                                    the addition (RESIDUAL, y_e4m3) */
    const float      *x_muls;    /* [n] e4m3: multipliers of the tokens of x;
                                    NULL: x_mul */
    float             x_mul;     /* e4m3 */
    float             eps;       /* of the norm */

    void             *y;
    float            *h;         /* RESIDUAL: [n][rows], updated in place */
    const float      *gain;      /* RESIDUAL: [rows] of the next norm */
    float            *y_sums;    /* RESIDUAL: of h; not x_sums;
                                    [mst_k_gemm_sums_size()] */
    float            *y_muls;    /* RESIDUAL: [n] written if y_e4m3 */
    float             y_mul;     /* GATE_UP: e4m3 */
    int               y_e4m3;    /* RESIDUAL, GATE_UP: type of y */
    uint64_t          pitch;     /* HEAD: floats from token to token; QKV:
                                    bf16, 0 = rows */

    void             *work;      /* mst_k_gemm_work_size(); over 16 tokens,
                                    QKV and RESIDUAL; shared by all in one
                                    stream */
    uint32_t         *tickets;   /* [mst_k_gemm_passes() * 33], zeroed once */
} mst_k_gemm_t;

int mst_k_gemm(const mst_k_gemm_t *a, cudaStream_t stream);


/*
 * The first operation's x: h = rows of the embedding (ids), or h as it is
 * (ids NULL), for all tokens or for those that `pick` names (head of the
 * wanted rows: token i of x is row pick[i] of h).
 */
typedef struct {
    mst_k_gemm_way_t  way;       /* of the operation that reads y */
    int               pdl;
    uint32_t          n;         /* tokens of x */
    uint32_t          dim;
    const uint32_t   *ids;       /* [n] or MST_K_FED | index of fed[] */
    const uint32_t   *fed;       /* as in mst_k_embed_t */
    const void       *embd;      /* bf16 [vocab][dim] */
    const uint32_t   *pick;      /* [n] rows of h; NULL: row i; not with ids */
    float            *h;         /* [n][dim], written with ids */
    const float      *gain;      /* [dim] */
    void             *y;         /* blocked x */
    float            *y_sums;
    float            *y_muls;    /* [n], if y_e4m3: of this very residual */
    float             eps;
    int               y_e4m3;
} mst_k_gemm_first_t;

int mst_k_gemm_first(const mst_k_gemm_first_t *a, cudaStream_t stream);


/* Rows of a file's matrix into tiles; a part of a stack or one of a gate */
typedef struct {
    const void       *src;       /* bf16 [rows][width], or e4m3 if src_scale */
    const float      *src_scale; /* [rows] of e4m3; NULL: bf16 */
    uint32_t          rows;
    uint32_t          width;
    uint32_t          of;        /* rows of the whole matrix */
    uint32_t          first;     /* stack: row of the matrix of src's row 0 */
    int               gate;      /* 0: stack; 1: gates, 2: ups */
    void             *w;         /* tiles of the whole matrix, bf16 or e4m3;
                                    zero what pads (cudaMemset before) */
    float            *w_scale;   /* e4m3: scales of the whole; NULL: bf16 */
} mst_k_gemm_pack_t;

int mst_k_gemm_pack(const mst_k_gemm_pack_t *a, cudaStream_t stream);


#ifdef __cplusplus
}
#endif


#endif /* MST_K_GEMM_H */


/*
 * The CUDA backend: its table and what opens and closes a device.  See
 * mst_cuda.h.  mst_cuda_open() is the one symbol that libmst_cuda.so
 * shows.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "backend/mst_cuda.h"


static void mst_cuda_destroy(mst_backend_t *b);


static int
mst_cuda_attach(mst_backend_t *b, mst_err_t *err)
{
    int  n;

    if (cudaGetDeviceCount(&n) == cudaSuccess
        && b->conf.device >= (uint32_t) n)
    {
        return mst_err_set(err, "cuda:%u: there are %d devices, the first is "
                           "cuda:0", b->conf.device, n);
    }

    if (mst_cuda_check(b, cudaSetDevice((int) b->conf.device),
                       "opening it", err) != MST_OK
        || mst_cuda_check(b, cudaGetDeviceProperties(&b->props,
                                                     (int) b->conf.device),
                          "its properties", err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (b->props.major < 8) {
        return mst_err_set(err, "cuda:%u, %s, is of compute capability %d.%d, "
                           "8.0 is the least", b->conf.device, b->props.name,
                           b->props.major, b->props.minor);
    }

    if (mst_cuda_check(b, cudaStreamCreateWithFlags(&b->stream,
                                                    cudaStreamNonBlocking),
                       "a stream", err) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_cuda_check(b, cudaEventCreateWithFlags(&b->planned,
                                                      cudaEventDisableTiming),
                          "an event", err);
}


static int
mst_cuda_able(const mst_backend_conf_t *c, mst_err_t *err)
{
    static const char *const  names[] = {
        "f32", "f16", "bf16", "fp8", "q8", "int4"
    };

    if (c->kv_type != MST_KV_AUTO && c->kv_type != MST_KV_BF16
        && c->kv_type != MST_KV_FP8)
    {
        return mst_err_set(err, "kv_cache %s is not computed on a CUDA "
                           "device, bf16 and fp8 are", names[c->kv_type]);
    }

    if (c->kv_type == MST_KV_FP8
        && !mst_k_attn_fits(c->n_heads, c->n_kv_heads, c->head_dim))
    {
        return mst_err_set(err, "kv_cache fp8 is computed for heads of 64 and "
                           "128, at most %d for a key, not for %u of %u",
                           MST_K_ATTN_GROUP, c->n_heads / c->n_kv_heads,
                           c->head_dim);
    }

    if ((c->batch_invariant || c->n_experts) && c->dtype != MST_DTYPE_AUTO
        && c->dtype != MST_DTYPE_BF16)
    {
        return mst_err_set(err, "%s is computed with weights of bf16 on a "
                           "CUDA device, with no other dtype",
                           c->n_experts ? "a mixture of experts"
                                        : "batch_invariant on");
    }

    if (c->n_experts > MST_K_MOE_EXPERTS) {
        return mst_err_set(err, "a mixture of %u experts is not computed on a "
                           "CUDA device, %d are the most", c->n_experts,
                           MST_K_MOE_EXPERTS);
    }

    if (c->head_dim > 256) {
        return mst_err_set(err, "heads of %u are not computed on a CUDA "
                           "device, 256 is the most", c->head_dim);
    }

    return MST_OK;
}


/* what belongs to the caller until create() returns */

static int
mst_cuda_copy(mst_backend_t *b, mst_err_t *err)
{
    size_t                     n;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    n = c->rope_dim / 2 + 1;
    b->own_freqs = mst_calloc(n, sizeof(double));
    b->own_windows = mst_calloc(c->n_layers, sizeof(uint32_t));

    if (b->own_freqs == NULL || b->own_windows == NULL) {
        return mst_err_set(err, "out of memory for the CUDA backend");
    }

    memcpy(b->own_freqs, c->rope_freqs, (n - 1) * sizeof(double));

    if (c->windows) {
        memcpy(b->own_windows, c->windows, c->n_layers * sizeof(uint32_t));
    }

    b->conf.rope_freqs = b->own_freqs;
    b->conf.windows = b->own_windows;

    return MST_OK;
}


static mst_backend_t *
mst_cuda_create(const mst_backend_conf_t *conf, mst_err_t *err)
{
    mst_backend_t  *b;

    if (mst_cuda_able(conf, err) != MST_OK) {
        return NULL;
    }

    b = mst_calloc(1, sizeof(mst_backend_t));

    if (b == NULL) {
        (void) mst_err_set(err, "out of memory for the CUDA backend");
        return NULL;
    }

    b->conf = *conf;
    b->fast = mst_k_attn_fits(conf->n_heads, conf->n_kv_heads,
                              conf->head_dim);
    b->kv_type = conf->kv_type == MST_KV_FP8 ? MST_K_KV_FP8 : MST_K_KV_BF16;

    if (mst_cuda_attach(b, err) != MST_OK || mst_cuda_copy(b, err) != MST_OK) {
        mst_cuda_destroy(b);
        return NULL;
    }

    mst_cuda_tune_init(b);
    b->started = mst_time_ns();

    return b;
}


static void
mst_cuda_destroy(mst_backend_t *b)
{
    if (b->stream) {
        (void) cudaStreamSynchronize(b->stream);
    }

    mst_cuda_step_free(b);
    mst_cuda_gemm_free(b);
    mst_cuda_expert_free(b);
    mst_cuda_matrix_end(b);
    mst_cuda_free(b);

    if (b->planned) {
        (void) cudaEventDestroy(b->planned);
    }

    if (b->stream) {
        (void) cudaStreamDestroy(b->stream);
    }

    mst_free(b->own_freqs);
    mst_free(b->own_windows);
    mst_free(b);
}


static void
mst_cuda_info(const mst_backend_t *b, mst_backend_info_t *info)
{
    *info = b->info;
}


static void
mst_cuda_embed(mst_backend_t *b, const mst_matrix_t *embd)
{
    mst_cuda_note(b, MST_CUDA_EMBED)->matrix = embd;
}


static void
mst_cuda_layer(mst_backend_t *b, mst_cuda_op_t op, uint32_t layer,
    const mst_backend_layer_t *w)
{
    mst_cuda_cmd_t  *cmd;

    cmd = mst_cuda_note(b, op);
    cmd->layer = layer;
    cmd->w = w;
}


static void
mst_cuda_qkv(mst_backend_t *b, uint32_t layer, const mst_backend_layer_t *w)
{
    mst_cuda_layer(b, MST_CUDA_QKV, layer, w);
}


static void
mst_cuda_attend(mst_backend_t *b, uint32_t layer,
    const mst_backend_layer_t *w)
{
    mst_cuda_layer(b, MST_CUDA_ATTEND, layer, w);
}


static void
mst_cuda_out(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_cuda_layer(b, MST_CUDA_OUT, 0, w);
}


static void
mst_cuda_gate_up(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_cuda_layer(b, MST_CUDA_GATE_UP, 0, w);
}


static void
mst_cuda_down(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_cuda_layer(b, MST_CUDA_DOWN, 0, w);
}


static void
mst_cuda_experts(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_cuda_layer(b, MST_CUDA_EXPERTS, 0, w);
}


static void
mst_cuda_logits(mst_backend_t *b, const mst_vector_t *norm,
    const mst_matrix_t *head)
{
    mst_cuda_cmd_t  *cmd;

    cmd = mst_cuda_note(b, MST_CUDA_HEAD);
    cmd->norm = norm;
    cmd->matrix = head;
}


static const mst_backend_ops_t  mst_cuda_ops = {
    .name = "cuda",
    .create = mst_cuda_create,
    .destroy = mst_cuda_destroy,
    .info = mst_cuda_info,
    .matrix = mst_cuda_matrix,
    .vector = mst_cuda_vector,
    .ready = mst_cuda_ready,
    .warm = mst_cuda_warm,
    .begin = mst_cuda_begin,
    .embed = mst_cuda_embed,
    .qkv = mst_cuda_qkv,
    .attend = mst_cuda_attend,
    .out = mst_cuda_out,
    .gate_up = mst_cuda_gate_up,
    .down = mst_cuda_down,
    .experts = mst_cuda_experts,
    .logits = mst_cuda_logits,
    .launch = mst_cuda_launch,
    .wait = mst_cuda_wait,
    .sync = mst_cuda_sync
};


/* MST_BACKEND_SYMBOL */

#pragma GCC visibility push(default)

const mst_backend_ops_t *mst_cuda_open(mst_err_t *err);

#pragma GCC visibility pop


const mst_backend_ops_t *
mst_cuda_open(mst_err_t *err)
{
    int  n, rc;

    rc = cudaGetDeviceCount(&n);

    if (rc != cudaSuccess) {
        (void) cudaGetLastError();
        (void) mst_err_set(err, "no CUDA device can be used: %s",
                           cudaGetErrorString((cudaError_t) rc));
        return NULL;
    }

    return &mst_cuda_ops;
}

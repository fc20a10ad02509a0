
/*
 * The KV pool of the CPU backend: what a block holds, and how keys and values
 * get into it.  The layouts stand in mst_cpu_isa.h.
 *
 * Keys and values that are kept as less than floats are rounded when they are
 * stored, each token and 16 dimensions by themselves, so that what a block
 * holds depends on the sequence alone.
 */

#include <string.h>

#include "backend/mst_cpu.h"

#define MST_CPU_KV_CONTEXTS  4     /* full ones, in a pool of our choice */
#define MST_CPU_KV_SHORT     2048  /* tokens per sequence, ditto */


static const struct {
    const char  *name;
    uint32_t     size;             /* of an element, 0: not on the CPU */
} mst_cpu_kv_types[] = {
    [MST_KV_F32] = { "f32", 4 },
    [MST_KV_F16] = { "f16", 2 },
    [MST_KV_BF16] = { "bf16", 0 },
    [MST_KV_FP8] = { "fp8", 0 },
    [MST_KV_Q8] = { "q8", 1 },
    [MST_KV_INT4] = { "int4", 0 },
    [MST_KV_AUTO] = { "auto", 0 }
};


const char *
mst_cpu_kv_name(mst_kv_type_t type)
{
    return mst_cpu_kv_types[type].name;
}


/* sizes of a block */

static int
mst_cpu_kv_layout(mst_backend_t *b, mst_err_t *err)
{
    size_t  scales;

    b->kv_type = b->conf.kv_type == MST_KV_AUTO ? MST_KV_F32
                                                : b->conf.kv_type;
    b->kv_size = mst_cpu_kv_types[b->kv_type].size;

    if (b->kv_size == 0) {
        return mst_err_set(err, "kv_cache %s is not computed on the CPU, f32, "
                           "f16 and q8 are", mst_cpu_kv_name(b->kv_type));
    }

    if (b->kv_type == MST_KV_Q8 && b->conf.head_dim != b->stride) {
        return mst_err_set(err, "kv_cache q8 has a scale for %u dimensions, "
                           "heads of %u are no multiple of it",
                           MST_CPU_LANES, b->conf.head_dim);
    }

    scales = b->kv_type == MST_KV_Q8
             ? MST_CPU_KV * sizeof(uint16_t) * b->stride / MST_CPU_LANES : 0;

    b->kv_value = MST_CPU_KV * b->kv_size * (size_t) b->conf.head_dim;
    b->kv_key_scale = b->kv_value + MST_CPU_KV * b->kv_size
                                    * (size_t) b->stride;
    b->kv_value_scale = b->kv_key_scale + scales;
    b->kv_head_size = (b->kv_value_scale + scales + 63) / 64 * 64;

    b->info.block_tokens = MST_CPU_KV;
    b->info.block_size = (uint64_t) b->conf.n_layers * b->conf.n_kv_heads
                         * b->kv_head_size;

    return MST_OK;
}


/* addresses of all blocks, memory of those that get used */

int
mst_cpu_kv_init(mst_backend_t *b, mst_err_t *err)
{
    uint64_t  bound, full, n;

    if (mst_cpu_kv_layout(b, err) != MST_OK) {
        return MST_ERROR;
    }

    full = (b->conf.context + MST_CPU_KV - 1) / MST_CPU_KV;

    if (b->conf.kv_size) {
        n = b->conf.kv_size / b->info.block_size;

        if (n == 0) {
            return mst_err_set(err, "kv_cache size of %llu bytes is less than "
                               "one block of %llu",
                               (unsigned long long) b->conf.kv_size,
                               (unsigned long long) b->info.block_size);
        }

    } else {
        n = mst_cpu_min(b->conf.context, MST_CPU_KV_SHORT);
        n = (n + MST_CPU_KV - 1) / MST_CPU_KV * b->conf.max_seqs;
        n = n > MST_CPU_KV_CONTEXTS * full ? n : MST_CPU_KV_CONTEXTS * full;
        bound = b->ram / 4 / b->info.block_size;

        if (n > bound) {

            /* one context must fit, else the longest request waits for
               ever */

            n = bound > full ? bound : full;
            mst_log(b->conf.log, MST_LOG_NOTICE, "kv_cache holds %llu tokens: "
                    "a quarter of the memory",
                    (unsigned long long) n * MST_CPU_KV);
        }
    }

    b->info.n_blocks = n < UINT32_MAX ? (uint32_t) n : UINT32_MAX;
    b->kv = mst_cpu_mem_take(&b->scratch, b->info.n_blocks
                                          * b->info.block_size, err);

    return b->kv ? MST_OK : MST_ERROR;
}


/* what attention reads of one KV head */

void
mst_cpu_kv_view(const mst_backend_t *b, const unsigned char *kv,
    mst_cpu_attend_t *a)
{
    a->type = b->kv_type;
    a->k = kv;
    a->v = kv + b->kv_value;
    a->k_scale = (const uint16_t *) (kv + b->kv_key_scale);
    a->v_scale = (const uint16_t *) (kv + b->kv_value_scale);
}


/* 16 dimensions of one head's keys or values from dim on, of the token in
   this slot */

void
mst_cpu_kv_store(const mst_backend_t *b, unsigned char *kv, int value,
    uint32_t slot, uint32_t dim, const float *y)
{
    int8_t     bytes[MST_CPU_LANES];
    uint16_t   halves[MST_CPU_LANES], scale;
    uint32_t   i;

    switch (b->kv_type) {

    case MST_KV_F16:
        b->isa->kv_f16(y, halves);

        if (value) {
            memcpy(kv + b->kv_value + ((size_t) slot * b->stride + dim) * 2,
                   halves, sizeof(halves));
            return;
        }

        for (i = 0; i < MST_CPU_LANES; i++) {
            ((uint16_t *) kv)[(dim + i) * MST_CPU_KV + slot] = halves[i];
        }

        return;

    case MST_KV_Q8:
        b->isa->kv_q8(y, bytes, &scale);

        if (value) {
            memcpy(kv + b->kv_value + (size_t) slot * b->stride + dim, bytes,
                   sizeof(bytes));
            ((uint16_t *) (kv + b->kv_value_scale))[
                (slot * b->stride + dim) / MST_CPU_LANES] = scale;
            return;
        }

        for (i = 0; i < MST_CPU_LANES; i++) {
            ((int8_t *) kv)[(dim + i) * MST_CPU_KV + slot] = bytes[i];
        }

        ((uint16_t *) (kv + b->kv_key_scale))[dim / MST_CPU_LANES * MST_CPU_KV
                                              + slot] = scale;
        return;

    default:

        if (value) {
            memcpy(kv + b->kv_value + ((size_t) slot * b->stride + dim) * 4,
                   y, MST_CPU_LANES * sizeof(float));
            return;
        }

        for (i = 0; i < MST_CPU_LANES; i++) {
            ((float *) kv)[(dim + i) * MST_CPU_KV + slot] = y[i];
        }
    }
}


/* one dimension, where heads are not whole lanes */

void
mst_cpu_kv_store_one(const mst_backend_t *b, unsigned char *kv, int value,
    uint32_t slot, uint32_t dim, float y)
{
    float      lanes[MST_CPU_LANES] = { y };
    size_t     at;
    uint16_t   halves[MST_CPU_LANES];

    at = value ? (size_t) slot * b->stride + dim
               : (size_t) dim * MST_CPU_KV + slot;
    kv += value ? b->kv_value : 0;

    if (b->kv_type == MST_KV_F16) {
        b->isa->kv_f16(lanes, halves);
        ((uint16_t *) kv)[at] = halves[0];
        return;
    }

    ((float *) kv)[at] = y;
}

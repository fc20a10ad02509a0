
/*
 * A CPU backend of a small shape, for tests of its parts.
 */

#ifndef MST_CPU_RIG_H
#define MST_CPU_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu.h"
#include "file/mst_quant.h"

static uint64_t  rig_seed = 42;


static inline uint32_t
rig_random(void)
{
    rig_seed = rig_seed * 6364136223846793005ull + 1442695040888963407ull;

    return (uint32_t) (rig_seed >> 33);
}


static inline float
rig_float(void)
{
    return (float) rig_random() / 1073741824.0f - 1.0f;
}


/* base 10000 */

static const double  rig_freqs[] = {
    1, 0.31622776601683794, 0.1, 0.031622776601683791, 0.01,
    0.0031622776601683794, 0.001, 0.00031622776601683794
};


static inline mst_backend_conf_t
rig_conf(uint32_t threads)
{
    mst_backend_conf_t  c = {
        .n_layers = 1, .dim = 64, .ff_dim = 96, .n_heads = 4, .n_kv_heads = 2,
        .head_dim = 16, .rope_dim = 16, .n_vocab = 100, .context = 1024,
        .rms_eps = 1e-5f, .rope_freqs = rig_freqs, .threads = threads,
        .max_rows = 64, .max_seqs = 8, .kv_size = 1 << 20, .isa = "c"
    };

    return c;
}


static inline mst_backend_t *
rig_create(const mst_backend_conf_t *conf)
{
    mst_err_t       err = { "" };
    mst_backend_t  *b;

    b = mst_cpu_ops.create(conf, &err);
    assert_string_equal(err.text, "");
    assert_non_null(b);

    return b;
}


/* rows of a tensor as in a file; *f: the same as floats; both are freed by
   the caller */

static inline void *
rig_tensor(mst_type_t type, uint32_t rows, uint32_t width, float **f)
{
    float                   x;
    size_t                  i, n, size;
    uint8_t                *p;
    uint16_t                h;
    const mst_type_info_t  *info;

    info = mst_type_info(type);
    n = (size_t) rows * width;
    size = n / info->block * info->size;
    p = malloc(size);

    for (i = 0; i < size; i++) {
        p[i] = (uint8_t) (rig_random() >> 5);
    }

    for (i = 0; i < n / info->block; i++) {
        x = rig_float() / (float) (info->block == 32 ? 16 : 1);
        h = type == MST_TYPE_BF16 ? mst_f32_to_bf16(x) : mst_f32_to_f16(x);
        memcpy(p + i * info->size + (type == MST_TYPE_Q6_K ? 208 : 0),
               info->size == 4 ? (void *) &x : &h, info->size == 4 ? 4 : 2);

        if (type == MST_TYPE_Q4_1 || type == MST_TYPE_Q5_1
            || type == MST_TYPE_Q4_K || type == MST_TYPE_Q5_K)
        {
            h = mst_f32_to_f16(rig_float());
            memcpy(p + i * info->size + 2, &h, 2);
        }
    }

    *f = malloc(n * sizeof(float));
    mst_quant_decode(type, p, *f, n);

    return p;
}


#endif /* MST_CPU_RIG_H */

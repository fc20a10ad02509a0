
/*
 * Can this file be run?  See mst_check.h.
 *
 * The table below is the list of all tensors of the architecture "llama":
 * a file must hold exactly these, since a tensor that nobody reads (a bias,
 * an expert) means answers that are silently wrong.
 */

#include <stdio.h>
#include <string.h>

#include "model/mst_check.h"
#include "model/mst_config.h"

#define MST_CHECK_NAME  64         /* bytes of a tensor's name */


typedef enum {
    MST_CHECK_ONE,             /* a vector: one output */
    MST_CHECK_DIM,
    MST_CHECK_FF,
    MST_CHECK_Q,               /* n_heads * head_dim */
    MST_CHECK_KV,              /* n_kv_heads * head_dim */
    MST_CHECK_VOCAB,
    MST_CHECK_SIZES
} mst_check_size_t;


typedef struct {
    const char        *name;
    mst_check_size_t   in;     /* dims[0] */
    mst_check_size_t   out;    /* dims[1] */
} mst_check_tensor_t;


static const mst_check_tensor_t  mst_check_globals[] = {
    { "token_embd.weight", MST_CHECK_DIM, MST_CHECK_VOCAB },
    { "output_norm.weight", MST_CHECK_DIM, MST_CHECK_ONE },
    { "output.weight", MST_CHECK_DIM, MST_CHECK_VOCAB }  /* last: may lack */
};

#define MST_CHECK_GLOBALS                                                     \
    (sizeof(mst_check_globals) / sizeof(*mst_check_globals))


/* of each layer, behind "blk.N." */
static const mst_check_tensor_t  mst_check_layer[] = {
    { "attn_norm.weight", MST_CHECK_DIM, MST_CHECK_ONE },
    { "attn_q.weight", MST_CHECK_DIM, MST_CHECK_Q },
    { "attn_k.weight", MST_CHECK_DIM, MST_CHECK_KV },
    { "attn_v.weight", MST_CHECK_DIM, MST_CHECK_KV },
    { "attn_output.weight", MST_CHECK_Q, MST_CHECK_DIM },
    { "ffn_norm.weight", MST_CHECK_DIM, MST_CHECK_ONE },
    { "ffn_gate.weight", MST_CHECK_DIM, MST_CHECK_FF },
    { "ffn_up.weight", MST_CHECK_DIM, MST_CHECK_FF },
    { "ffn_down.weight", MST_CHECK_FF, MST_CHECK_DIM }
};

#define MST_CHECK_LAYER                                                       \
    (sizeof(mst_check_layer) / sizeof(*mst_check_layer))


static int
mst_check_tensor(const mst_gguf_t *g, const char *name,
    const mst_check_tensor_t *want, const uint64_t *sizes, mst_err_t *err)
{
    const mst_tensor_t  *t;

    t = mst_gguf_tensor(g, name);

    if (t == NULL) {
        return mst_gguf_error(g, err, "tensor \"%s\" is missing", name);
    }

    if (t->dims[0] != sizes[want->in] || t->dims[1] != sizes[want->out]
        || t->dims[2] != 1 || t->dims[3] != 1)
    {
        return mst_gguf_error(g, err, "tensor \"%s\" has shape [%llu, %llu, "
                              "%llu, %llu], expected [%llu, %llu, 1, 1]", name,
                              (unsigned long long) t->dims[0],
                              (unsigned long long) t->dims[1],
                              (unsigned long long) t->dims[2],
                              (unsigned long long) t->dims[3],
                              (unsigned long long) sizes[want->in],
                              (unsigned long long) sizes[want->out]);
    }

    /* every program writes vectors as F32, so nothing else is read */

    if (want->out == MST_CHECK_ONE && t->type != MST_TYPE_F32) {
        return mst_gguf_error(g, err, "tensor \"%s\" has type %s (%u), F32 "
                              "is needed", name, mst_type_name(t->type),
                              t->type);
    }

    if (mst_type_info(t->type) == NULL) {
        return mst_gguf_error(g, err, "tensor \"%s\" has type %s (%u), which "
                              "is not supported yet; F32, F16, BF16, Q8_0, "
                              "Q4_0 and Q4_1 are", name,
                              mst_type_name(t->type), t->type);
    }

    return MST_OK;
}


static int
mst_check_known(mst_str_t name, uint32_t n_layers)
{
    char      z[MST_CHECK_NAME + 1], again[MST_CHECK_NAME + 1];
    size_t    i;
    uint32_t  layer;

    for (i = 0; i < MST_CHECK_GLOBALS; i++) {
        if (mst_str_eq(name, mst_check_globals[i].name)) {
            return 1;
        }
    }

    if (name.len > MST_CHECK_NAME || memchr(name.data, '\0', name.len)) {
        return 0;
    }

    memcpy(z, name.data, name.len);
    z[name.len] = '\0';

    if (sscanf(z, "blk.%9u", &layer) != 1 || layer >= n_layers) {
        return 0;
    }

    /* compared with the spelling that we look for: "blk.07." is a stranger */

    for (i = 0; i < MST_CHECK_LAYER; i++) {
        (void) snprintf(again, sizeof(again), "blk.%u.%s", layer,
                        mst_check_layer[i].name);

        if (strcmp(z, again) == 0) {
            return 1;
        }
    }

    return 0;
}


static int
mst_check_strangers(const mst_gguf_t *g, const mst_config_t *c,
    mst_err_t *err)
{
    char                 show[MST_GGUF_SHOW];
    size_t               i;
    const mst_tensor_t  *t;

    for (i = 0; i < mst_gguf_n_tensors(g); i++) {
        t = mst_gguf_tensor_at(g, i);

        if (!mst_check_known(t->name, c->n_layers)) {
            return mst_gguf_error(g, err, "tensor \"%s\" is no part of a "
                                  "llama model of %u layers that is supported",
                                  mst_gguf_show(show, t->name), c->n_layers);
        }
    }

    return MST_OK;
}


static int
mst_check_tensors(const mst_gguf_t *g, const mst_config_t *c, mst_err_t *err)
{
    char      name[MST_CHECK_NAME];
    size_t    i, n;
    uint32_t  layer;
    uint64_t  sizes[MST_CHECK_SIZES];

    sizes[MST_CHECK_ONE] = 1;
    sizes[MST_CHECK_DIM] = c->dim;
    sizes[MST_CHECK_FF] = c->ff_dim;
    sizes[MST_CHECK_Q] = (uint64_t) c->n_heads * c->head_dim;
    sizes[MST_CHECK_KV] = (uint64_t) c->n_kv_heads * c->head_dim;
    sizes[MST_CHECK_VOCAB] = c->n_vocab;

    n = c->tied ? MST_CHECK_GLOBALS - 1 : MST_CHECK_GLOBALS;

    for (i = 0; i < n; i++) {
        if (mst_check_tensor(g, mst_check_globals[i].name,
                             &mst_check_globals[i], sizes, err)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    for (layer = 0; layer < c->n_layers; layer++) {
        for (i = 0; i < MST_CHECK_LAYER; i++) {
            (void) snprintf(name, sizeof(name), "blk.%u.%s", layer,
                            mst_check_layer[i].name);

            if (mst_check_tensor(g, name, &mst_check_layer[i], sizes, err)
                != MST_OK)
            {
                return MST_ERROR;
            }
        }
    }

    return mst_check_strangers(g, c, err);
}


/* a string of the file as text for a log or a page; "" if it is not there */

static int
mst_check_string(const mst_gguf_t *g, const char *key, char *buf, size_t size,
    mst_err_t *err)
{
    int        rc;
    size_t     i;
    mst_str_t  s;

    buf[0] = '\0';
    rc = mst_gguf_string(g, key, &s, err);

    if (rc != MST_OK) {
        return rc == MST_DECLINED ? MST_OK : rc;
    }

    for (i = 0; i < s.len && i < size - 1; i++) {
        buf[i] = (s.data[i] >= ' ' && s.data[i] <= '~') ? s.data[i] : '?';
    }

    buf[i] = '\0';

    return MST_OK;
}


int
mst_check_gguf(const mst_gguf_t *g, mst_check_t *c, mst_err_t *err)
{
    size_t        i;
    mst_config_t  config;

    memset(c, 0, sizeof(mst_check_t));

    if (mst_config_gguf(g, &config, err) != MST_OK
        || mst_check_tensors(g, &config, err) != MST_OK
        || mst_check_string(g, "general.architecture", c->arch,
                            sizeof(c->arch), err) != MST_OK
        || mst_check_string(g, "general.name", c->name, sizeof(c->name), err)
           != MST_OK)
    {
        return MST_ERROR;
    }

    c->context = config.context;
    c->n_vocab = config.n_vocab;
    c->n_layers = config.n_layers;

    for (i = 0; i < mst_gguf_n_tensors(g); i++) {
        c->weights += mst_gguf_tensor_at(g, i)->size;

        /* or a small file could ask for any amount of memory */

        if (c->weights > mst_gguf_size(g)) {
            return mst_gguf_error(g, err, "tensors share their bytes: they "
                                  "have more than the file's %llu",
                                  (unsigned long long) mst_gguf_size(g));
        }
    }

    return MST_OK;
}

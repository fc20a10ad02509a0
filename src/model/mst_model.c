
/*
 * From the names in a file to the weights in a backend.  What the file must
 * hold was checked by mst_check.h, which has the one list of tensors and
 * their shapes.
 */

#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "model/mst_check.h"
#include "model/mst_model.h"

#define MST_MODEL_MAX_ROWS  65536
#define MST_MODEL_NAME      64


static const mst_tensor_t *
mst_model_tensor(const mst_model_t *m, const mst_gguf_t *g, uint32_t layer,
    const char *name)
{
    char  full[MST_MODEL_NAME];

    if (layer < m->config.n_layers) {
        (void) snprintf(full, sizeof(full), "blk.%u.%s.weight", layer, name);
    } else {
        (void) snprintf(full, sizeof(full), "%s.weight", name);
    }

    return mst_gguf_tensor(g, full);
}


/* layer n_layers means the tensors outside the layers; up to three names
   become parts of one matrix */

static const mst_matrix_t *
mst_model_matrix(mst_model_t *m, const mst_gguf_t *g, uint32_t layer,
    mst_matrix_kind_t kind, const char *const *names, mst_err_t *err)
{
    uint32_t             n;
    mst_matrix_part_t    parts[3];
    const mst_tensor_t  *t;

    t = NULL;

    for (n = 0; n < 3 && names[n]; n++) {
        t = mst_model_tensor(m, g, layer, names[n]);
        parts[n].type = t->type;
        parts[n].rows = (uint32_t) t->dims[1];
        parts[n].data = t->data;
    }

    return m->ops->matrix(m->backend, kind, parts, n, (uint32_t) t->dims[0],
                          err);
}


static const mst_vector_t *
mst_model_vector(mst_model_t *m, const mst_gguf_t *g, uint32_t layer,
    const char *name, mst_err_t *err)
{
    const mst_tensor_t  *t;

    t = mst_model_tensor(m, g, layer, name);

    return m->ops->vector(m->backend, t->data, (uint32_t) t->dims[0], err);
}


static int
mst_model_layer(mst_model_t *m, const mst_gguf_t *g, uint32_t layer,
    mst_err_t *err)
{
    mst_backend_layer_t  *w;

    static const char *const  qkv[3] = { "attn_q", "attn_k", "attn_v" };
    static const char *const  out[3] = { "attn_output" };
    static const char *const  gate_up[3] = { "ffn_gate", "ffn_up" };
    static const char *const  down[3] = { "ffn_down" };

    w = &m->layers[layer];

    w->attn_norm = mst_model_vector(m, g, layer, "attn_norm", err);
    w->qkv = mst_model_matrix(m, g, layer, MST_MATRIX_STACK, qkv, err);
    w->out = mst_model_matrix(m, g, layer, MST_MATRIX_STACK, out, err);
    w->ffn_norm = mst_model_vector(m, g, layer, "ffn_norm", err);
    w->gate_up = mst_model_matrix(m, g, layer, MST_MATRIX_GATE, gate_up, err);
    w->down = mst_model_matrix(m, g, layer, MST_MATRIX_STACK, down, err);

    return w->attn_norm && w->qkv && w->out && w->ffn_norm && w->gate_up
           && w->down ? MST_OK : MST_ERROR;
}


static int
mst_model_load(mst_model_t *m, const mst_gguf_t *g, const mst_log_t *log,
    mst_err_t *err)
{
    uint32_t  layer, n;
    uint64_t  said;

    static const char *const  embd[3] = { "token_embd" };
    static const char *const  head[3] = { "output" };

    n = m->config.n_layers;
    said = mst_time_ns();

    for (layer = 0; layer < n; layer++) {
        if (mst_model_layer(m, g, layer, err) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_time_ns() - said > MST_S) {
            said = mst_time_ns();
            mst_log(log, MST_LOG_INFO, "%s: %u of %u layers loaded",
                    mst_gguf_name(g), layer + 1, n);
        }
    }

    m->norm = mst_model_vector(m, g, n, "output_norm", err);
    m->embd = mst_model_matrix(m, g, n, MST_MATRIX_STACK, embd, err);
    m->head = m->config.tied ? m->embd
                             : mst_model_matrix(m, g, n, MST_MATRIX_STACK,
                                                head, err);

    return m->norm && m->embd && m->head ? MST_OK : MST_ERROR;
}


static int
mst_model_backend(mst_model_t *m, const mst_model_conf_t *conf,
    mst_err_t *err)
{
    const mst_config_t  *c;
    mst_backend_conf_t   bc;

    if (conf->max_rows < 1 || conf->max_rows > MST_MODEL_MAX_ROWS
        || conf->max_seqs < 1 || conf->max_seqs > conf->max_rows)
    {
        return mst_err_set(err, "a step of %u tokens for %u sequences, limits "
                           "are 1 to %u tokens and a token for each sequence",
                           conf->max_rows, conf->max_seqs,
                           MST_MODEL_MAX_ROWS);
    }

    c = &m->config;
    m->max_rows = conf->max_rows;
    m->max_seqs = conf->max_seqs;

    m->info.n_vocab = c->n_vocab;
    m->info.context = conf->context && conf->context < c->context
                      ? conf->context : c->context;

    memset(&bc, 0, sizeof(bc));
    bc.n_layers = c->n_layers;
    bc.dim = c->dim;
    bc.ff_dim = c->ff_dim;
    bc.n_heads = c->n_heads;
    bc.n_kv_heads = c->n_kv_heads;
    bc.head_dim = c->head_dim;
    bc.rope_dim = c->rope_dim;
    bc.n_vocab = c->n_vocab;
    bc.context = m->info.context;
    bc.rms_eps = c->rms_eps;
    bc.rope_base = c->rope_base;
    bc.threads = conf->threads;
    bc.max_rows = conf->max_rows;
    bc.max_seqs = conf->max_seqs;
    bc.kv_type = conf->kv_type;
    bc.kv_size = conf->kv_size;
    bc.isa = conf->isa;
    bc.log = conf->log;
    bc.progress = conf->progress;
    bc.progress_data = conf->progress_data;

    m->ops = mst_backend_open("cpu", err);

    if (m->ops == NULL) {
        return MST_ERROR;
    }

    m->backend = m->ops->create(&bc, err);

    return m->backend ? MST_OK : MST_ERROR;
}


mst_model_t *
mst_model_create(mst_gguf_t *g, const mst_model_conf_t *conf, mst_err_t *err)
{
    mst_check_t           check;
    mst_model_t          *m;
    mst_backend_info_t    info;

    m = mst_calloc(1, sizeof(mst_model_t));

    if (m == NULL) {
        (void) mst_err_set(err, "out of memory for a model");
        return NULL;
    }

    if (mst_check_gguf(g, &check, err) != MST_OK
        || mst_config_gguf(g, &m->config, err) != MST_OK
        || mst_model_backend(m, conf, err) != MST_OK)
    {
        goto failed;
    }

    m->layers = mst_calloc(m->config.n_layers, sizeof(mst_backend_layer_t));
    m->seqs = mst_calloc(m->max_seqs, sizeof(mst_backend_seq_t));
    m->wanted = mst_calloc(m->max_rows, sizeof(uint32_t));

    if (m->layers == NULL || m->seqs == NULL || m->wanted == NULL) {
        (void) mst_err_set(err, "out of memory for a model");
        goto failed;
    }

    if (mst_model_load(m, g, conf->log, err) != MST_OK) {
        goto failed;
    }

    m->ops->info(m->backend, &info);
    m->info.block_tokens = info.block_tokens;
    m->info.n_blocks = info.n_blocks;
    m->info.block_size = info.block_size;
    m->info.weight_size = info.weight_size;
    m->gguf = g;

    return m;

failed:

    mst_model_destroy(m);

    return NULL;
}


void
mst_model_destroy(mst_model_t *m)
{
    if (m == NULL) {
        return;
    }

    if (m->backend) {
        m->ops->destroy(m->backend);
    }

    mst_gguf_close(m->gguf);
    mst_free(m->layers);
    mst_free(m->seqs);
    mst_free(m->wanted);
    mst_free(m);
}


const mst_model_info_t *
mst_model_info(const mst_model_t *m)
{
    return &m->info;
}

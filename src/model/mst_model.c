
/*
 * From a checkpoint to the weights in a backend.  What the files must hold
 * was checked by mst_checkpoint.h, which has the one list of tensors and
 * their shapes.
 */

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "file/mst_quant.h"
#include "model/mst_model.h"

#define MST_MODEL_MAX_ROWS  65536


/* q's and k's rows from halves to adjacent pairs: row h * D + half * D / 2 + j
   of the file is row h * D + 2 j + half of ours; as part i of a matrix, until
   the next one; NULL: no memory */

static void *
mst_model_pairs(mst_model_t *m, uint32_t part, const mst_tensor_t *t)
{
    char        *rows;
    size_t       size;
    uint64_t     from, i, n, pos;
    const char  *src;

    n = t->dims[1] > 1 ? t->dims[1] : t->dims[0];
    size = (size_t) (t->size / n);

    if (m->pairs_size[part] < t->size) {
        mst_free(m->pairs[part]);
        m->pairs[part] = mst_alloc((size_t) t->size);
        m->pairs_size[part] = m->pairs[part] ? (size_t) t->size : 0;
    }

    rows = m->pairs[part];

    if (rows == NULL) {
        return NULL;
    }

    src = t->data;

    for (i = 0; i < n; i++) {
        pos = i % m->config.head_dim;
        from = i - pos + pos % 2 * (m->config.head_dim / 2) + pos / 2;
        memcpy(rows + i * size, src + from * size, size);
    }

    return rows;
}


static void
mst_model_pairs_free(mst_model_t *m)
{
    uint32_t  i;

    for (i = 0; i < 3; i++) {
        mst_free(m->pairs[i]);
        m->pairs[i] = NULL;
        m->pairs_size[i] = 0;
    }
}


/* what a large model's operator looks at: a line a second */

static void
mst_model_loaded(mst_model_t *m, uint64_t size)
{
    uint64_t  all;
    uint32_t  percent;

    m->loaded += size;
    all = mst_checkpoint_weights(m->checkpoint);
    percent = m->loaded < all ? (uint32_t) (m->loaded * 100 / all) : 100;

    if (m->conf->loaded) {
        m->conf->loaded(m->conf->progress_data, percent);
    }

    if (mst_time_ns() - m->said_ns > MST_S) {
        m->said_ns = mst_time_ns();
        mst_log(m->conf->log, MST_LOG_INFO, "%s: %u%% loaded",
                mst_checkpoint_name(m->checkpoint), percent);
    }
}


/* up to three roles become parts of one matrix; of an expert, or 0 */

static mst_matrix_t *
mst_model_matrix(mst_model_t *m, uint32_t layer, uint32_t expert,
    mst_matrix_kind_t kind, const mst_weight_t *roles, uint32_t n,
    mst_err_t *err)
{
    uint32_t             i;
    uint64_t             size;
    mst_matrix_t        *matrix;
    mst_matrix_part_t    parts[3];
    const mst_tensor_t  *t;

    t = NULL;
    size = 0;

    for (i = 0; i < n; i++) {
        t = mst_checkpoint_tensor(m->checkpoint, roles[i], layer, expert);
        parts[i].type = t->type;
        parts[i].rows = (uint32_t) t->dims[1];
        parts[i].data = t->data;
        size += t->size;

        /* these rows are of another order; others have brought them there */

        if (m->config.half_split && m->conf->store
            && mst_cpu_store_ready(m->conf->store)
            && (roles[i] == MST_WEIGHT_Q || roles[i] == MST_WEIGHT_K))
        {
            parts[i].data = NULL;
            continue;
        }

        if (m->config.half_split
            && (roles[i] == MST_WEIGHT_Q || roles[i] == MST_WEIGHT_K))
        {
            parts[i].data = mst_model_pairs(m, i, t);

            if (parts[i].data == NULL) {
                (void) mst_err_set(err, "out of memory for a model");
                return NULL;
            }
        }
    }

    matrix = m->ops->matrix(m->backend, kind, parts, n, (uint32_t) t->dims[0],
                            err);
    mst_model_loaded(m, size);

    return matrix;
}


/* *v stays NULL where the model has no such vector */

static int
mst_model_vector(mst_model_t *m, uint32_t layer, mst_weight_t role,
    const mst_vector_t **v, mst_err_t *err)
{
    int                  half;
    const void          *pairs;
    float               *f;
    size_t               n;
    const mst_tensor_t  *t;

    t = mst_checkpoint_tensor(m->checkpoint, role, layer, 0);

    if (t == NULL) {
        return MST_OK;
    }

    n = (size_t) (t->dims[0] * t->dims[1]);
    half = m->config.half_split
           && (role == MST_WEIGHT_Q_BIAS || role == MST_WEIGHT_K_BIAS);
    pairs = half ? mst_model_pairs(m, 0, t) : NULL;
    f = mst_calloc(n, sizeof(float));

    if (f == NULL || (half && pairs == NULL)) {
        (void) mst_err_set(err, "out of memory for a model");

    } else {
        (void) mst_quant_decode(t->type, half ? pairs : t->data, f, n);
        *v = m->ops->vector(m->backend, f, (uint32_t) n, err);
    }

    mst_free(f);

    return *v ? MST_OK : MST_ERROR;
}


static int
mst_model_vectors(mst_model_t *m, uint32_t layer, mst_err_t *err)
{
    size_t                i;
    mst_backend_layer_t  *w;

    static const struct {
        mst_weight_t  role;
        size_t      offset;        /* in mst_backend_layer_t */
    } vectors[] = {
        { MST_WEIGHT_ATTN_NORM, offsetof(mst_backend_layer_t, attn_norm) },
        { MST_WEIGHT_FFN_NORM, offsetof(mst_backend_layer_t, ffn_norm) },
        { MST_WEIGHT_Q_BIAS, offsetof(mst_backend_layer_t, q_bias) },
        { MST_WEIGHT_K_BIAS, offsetof(mst_backend_layer_t, k_bias) },
        { MST_WEIGHT_V_BIAS, offsetof(mst_backend_layer_t, v_bias) },
        { MST_WEIGHT_OUT_BIAS, offsetof(mst_backend_layer_t, out_bias) },
        { MST_WEIGHT_GATE_BIAS, offsetof(mst_backend_layer_t, gate_bias) },
        { MST_WEIGHT_UP_BIAS, offsetof(mst_backend_layer_t, up_bias) },
        { MST_WEIGHT_DOWN_BIAS, offsetof(mst_backend_layer_t, down_bias) },
        { MST_WEIGHT_ROUTER, offsetof(mst_backend_layer_t, router) }
    };

    w = &m->layers[layer];

    for (i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
        if (mst_model_vector(m, layer, vectors[i].role,
                             (const mst_vector_t **) (void *)
                             ((char *) w + vectors[i].offset), err)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_model_ffn(mst_model_t *m, uint32_t layer, mst_err_t *err)
{
    uint32_t              e, n;
    mst_backend_layer_t  *w;

    static const mst_weight_t  gate_up[] = { MST_WEIGHT_GATE, MST_WEIGHT_UP };
    static const mst_weight_t  down[] = { MST_WEIGHT_DOWN };

    w = &m->layers[layer];
    n = m->config.n_experts;

    if (n == 0) {
        w->gate_up = mst_model_matrix(m, layer, 0, MST_MATRIX_GATE, gate_up, 2,
                                      err);
        w->down = mst_model_matrix(m, layer, 0, MST_MATRIX_STACK, down, 1,
                                   err);

        return w->gate_up && w->down ? MST_OK : MST_ERROR;
    }

    w->experts_up = &m->experts[(size_t) layer * 2 * n];
    w->experts_down = w->experts_up + n;

    for (e = 0; e < n; e++) {
        w->experts_up[e] = mst_model_matrix(m, layer, e, MST_MATRIX_GATE,
                                            gate_up, 2, err);
        w->experts_down[e] = mst_model_matrix(m, layer, e, MST_MATRIX_STACK,
                                              down, 1, err);

        if (w->experts_up[e] == NULL || w->experts_down[e] == NULL) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_model_layer(mst_model_t *m, uint32_t layer, mst_err_t *err)
{
    mst_backend_layer_t  *w;

    static const mst_weight_t  qkv[] = {
        MST_WEIGHT_Q, MST_WEIGHT_K, MST_WEIGHT_V
    };
    static const mst_weight_t  out[] = { MST_WEIGHT_OUT };

    w = &m->layers[layer];

    w->qkv = mst_model_matrix(m, layer, 0, MST_MATRIX_STACK, qkv, 3, err);
    w->out = mst_model_matrix(m, layer, 0, MST_MATRIX_STACK, out, 1, err);

    if (w->qkv == NULL || w->out == NULL
        || mst_model_vectors(m, layer, err) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_model_ffn(m, layer, err);
}


static int
mst_model_load(mst_model_t *m, mst_err_t *err)
{
    uint32_t  layer;

    static const mst_weight_t  embd[] = { MST_WEIGHT_EMBD };
    static const mst_weight_t  head[] = { MST_WEIGHT_HEAD };

    m->said_ns = mst_time_ns();

    for (layer = 0; layer < m->config.n_layers; layer++) {
        if (mst_model_layer(m, layer, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    m->embd = mst_model_matrix(m, 0, 0,
                               m->config.tied ? MST_MATRIX_HEAD
                                              : MST_MATRIX_STACK,
                               embd, 1, err);
    m->head = m->config.tied ? m->embd
                             : mst_model_matrix(m, 0, 0, MST_MATRIX_HEAD,
                                                head, 1, err);

    return mst_model_vector(m, 0, MST_WEIGHT_NORM, &m->norm, err) == MST_OK
           && m->embd && m->head ? MST_OK : MST_ERROR;
}


/* GGUF keeps the scaling of Llama 3 as divisors */

static int
mst_model_frequencies(const mst_model_t *m, double *freqs, mst_err_t *err)
{
    float                divisor;
    uint32_t             i;
    const mst_tensor_t  *t;

    mst_rope_frequencies(&m->config.rope, m->config.rope_dim, freqs);

    t = m->config.retuned ? NULL
        : mst_checkpoint_tensor(m->checkpoint, MST_WEIGHT_FREQS, 0, 0);

    for (i = 0; t && i < m->config.rope_dim / 2; i++) {
        memcpy(&divisor, (const char *) t->data + i * sizeof(float),
               sizeof(float));
        freqs[i] /= (double) divisor;

        if (!(divisor > 0 && freqs[i] <= 2 * M_PI)) {
            return mst_err_set(err, "%s: tensor \"rope_freqs.weight\": divisor "
                               "%u is %g", mst_checkpoint_name(m->checkpoint),
                               i, (double) divisor);
        }
    }

    return MST_OK;
}


static void
mst_model_cast(const mst_model_t *m, double *freqs)
{
    float                f;
    uint32_t             i;
    const mst_tensor_t  *t;

    t = mst_checkpoint_tensor(m->checkpoint, MST_WEIGHT_EMBD, 0, 0);

    for (i = 0; i < m->config.rope_dim / 2; i++) {
        f = (float) freqs[i];

        if (t->type == MST_TYPE_BF16) {
            freqs[i] = (double) mst_bf16_to_f32(mst_f32_to_bf16(f));

        } else if (t->type == MST_TYPE_F16) {
            freqs[i] = (double) mst_f16_to_f32(mst_f32_to_f16(f));
        }
    }
}


/* the widest, or 0 where a layer sees all */

static uint32_t
mst_model_window(const mst_config_t *c)
{
    uint32_t  i, window;

    window = 0;

    for (i = 0; i < c->n_layers; i++) {
        if (c->windows[i] == 0) {
            return 0;
        }

        window = c->windows[i] > window ? c->windows[i] : window;
    }

    return window;
}


void
mst_model_shape(const mst_config_t *c, mst_backend_conf_t *bc)
{
    memset(bc, 0, sizeof(mst_backend_conf_t));

    bc->n_layers = c->n_layers;
    bc->dim = c->dim;
    bc->ff_dim = c->ff_dim;
    bc->n_heads = c->n_heads;
    bc->n_kv_heads = c->n_kv_heads;
    bc->head_dim = c->head_dim;
    bc->rope_dim = c->rope_dim;
    bc->n_vocab = c->n_vocab;
    bc->rms_eps = c->rms_eps;
    bc->rope_scale = (float) c->rope.attention;
    bc->windows = c->windows;
    bc->temp_beta = c->temp_beta;
    bc->temp_length = c->temp_beta != 0 ? c->temp_length : 0;
    bc->n_experts = c->n_experts;
    bc->n_used = c->n_used;
}


static int
mst_model_backend(mst_model_t *m, const mst_model_conf_t *conf,
    mst_err_t *err)
{
    double               freqs[MST_CONFIG_MAX_HEAD / 2];
    mst_backend_conf_t   bc;
    const mst_config_t  *c;

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

    if (mst_model_frequencies(m, freqs, err) != MST_OK) {
        return MST_ERROR;
    }

    if (conf->rope_cast) {
        mst_model_cast(m, freqs);
    }

    mst_model_shape(c, &bc);
    bc.context = m->info.context;
    bc.rope_freqs = freqs;
    bc.device = conf->device;
    bc.dtype = conf->dtype;
    bc.weight_layouts = conf->weight_layouts;
    bc.batch_invariant = conf->batch_invariant;
    bc.tuned = conf->tuned;
    bc.threads = conf->threads;
    bc.activations = conf->activations;
    bc.max_rows = conf->max_rows;
    bc.max_seqs = conf->max_seqs;
    bc.kv_type = conf->kv_type;
    bc.kv_size = conf->kv_size;
    bc.kv_percent = conf->kv_percent;
    bc.isa = conf->isa;
    bc.log = conf->log;
    bc.progress = conf->progress;
    bc.progress_data = conf->progress_data;

    m->ops = mst_backend_open(conf->library ? "cuda" : "cpu", conf->library,
                              err);

    if (m->ops == NULL) {
        return MST_ERROR;
    }

    m->backend = m->ops->create(&bc, err);

    if (m->backend && conf->store) {
        return mst_cpu_store_use(conf->store, m->backend, err);
    }

    return m->backend ? MST_OK : MST_ERROR;
}


mst_model_t *
mst_model_create(mst_checkpoint_t *cp, const mst_model_conf_t *conf,
    mst_err_t *err)
{
    uint32_t              i;
    mst_model_t          *m;
    mst_backend_info_t    info;

    m = mst_calloc(1, sizeof(mst_model_t));

    if (m == NULL) {
        (void) mst_err_set(err, "out of memory for a model");
        return NULL;
    }

    m->checkpoint = cp;
    m->config = *mst_checkpoint_config(cp);

    /* a window as wide as the context hides nothing */

    for (i = 0; i < m->config.n_layers; i++) {
        if (m->config.windows[i] >= m->config.context) {
            m->config.windows[i] = 0;
        }
    }

    if (mst_model_backend(m, conf, err) != MST_OK) {
        goto failed;
    }

    m->layers = mst_calloc(m->config.n_layers, sizeof(mst_backend_layer_t));
    m->seqs = mst_calloc(m->max_seqs, sizeof(mst_backend_seq_t));
    m->wanted = mst_calloc(m->max_rows, sizeof(uint32_t));
    m->experts = mst_calloc((size_t) m->config.n_layers * 2
                            * m->config.n_experts + 1, sizeof(mst_matrix_t *));

    if (m->layers == NULL || m->seqs == NULL || m->wanted == NULL
        || m->experts == NULL)
    {
        (void) mst_err_set(err, "out of memory for a model");
        goto failed;
    }

    m->conf = conf;

    if (mst_model_load(m, err) != MST_OK) {
        goto failed;
    }

    m->conf = NULL;
    mst_model_pairs_free(m);

    if (m->ops->ready && m->ops->ready(m->backend, err) != MST_OK) {
        goto failed;
    }

    m->ops->info(m->backend, &info);
    m->info.block_tokens = info.block_tokens;
    m->info.n_blocks = info.n_blocks;
    m->info.block_size = info.block_size;
    m->info.weight_size = info.weight_size;
    m->info.window = mst_model_window(&m->config);
    m->info.n_experts = m->config.n_experts;
    m->info.n_used = m->config.n_used;
    m->info.rope_length = m->config.rope.kind == MST_ROPE_DYNAMIC
                          ? (uint32_t) m->config.rope.original : 0;

    if (mst_forward_warm(m, err) != MST_OK) {
        goto failed;
    }

    if (conf->loaded) {
        conf->loaded(conf->progress_data, 100);
    }

    return m;

failed:

    m->checkpoint = NULL;
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

    mst_model_pairs_free(m);
    mst_checkpoint_close(m->checkpoint);
    mst_free(m->experts);
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

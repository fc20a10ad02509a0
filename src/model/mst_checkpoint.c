
/*
 * A model's files: see mst_checkpoint.h.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "file/mst_safetensors.h"
#include "model/mst_checkpoint.h"
#include "model/mst_config_file.h"

#define MST_CHECKPOINT_NAME  160


struct mst_checkpoint_s {
    char                *name;     /* owned */
    mst_names_t          names;
    mst_config_t         config;
    mst_gguf_t          *gguf;     /* NULL: shards */
    mst_safetensors_t  **shards;   /* [n_shards] */
    uint32_t             n_shards;

    mst_tensor_t        *table;    /* [mst_checkpoint_at()] by role; n_dims 0:
                                      not there */
    uint64_t             weights;

    mst_faults_t        *faults;   /* NULL: the first one is the end */
    int                  partial;  /* not all of its files can be read */
};


static int mst_checkpoint_error(const mst_checkpoint_t *c, mst_err_t *err,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));


static int
mst_checkpoint_error(const mst_checkpoint_t *c, mst_err_t *err,
    const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) mst_err_vset(err, c->name, fmt, args);
    va_end(args);

    return MST_ERROR;
}


static uint32_t
mst_checkpoint_experts(const mst_config_t *config)
{
    return config->n_experts ? config->n_experts : 1;
}


static size_t
mst_checkpoint_per_layer(const mst_config_t *config)
{
    return MST_WEIGHT_LAYERS - MST_WEIGHT_GLOBALS
           + (size_t) (MST_WEIGHTS - MST_WEIGHT_LAYERS)
             * mst_checkpoint_experts(config);
}


/* index in the table */

static size_t
mst_checkpoint_at(const mst_config_t *config, mst_weight_t role, uint32_t layer,
    uint32_t expert)
{
    size_t  at;

    if (role < MST_WEIGHT_GLOBALS) {
        return role;
    }

    at = MST_WEIGHT_GLOBALS + layer * mst_checkpoint_per_layer(config);

    if (role < MST_WEIGHT_LAYERS) {
        return at + role - MST_WEIGHT_GLOBALS;
    }

    return at + MST_WEIGHT_LAYERS - MST_WEIGHT_GLOBALS
           + expert * (size_t) (MST_WEIGHTS - MST_WEIGHT_LAYERS)
           + role - MST_WEIGHT_LAYERS;
}


static int
mst_checkpoint_put(mst_checkpoint_t *c, const mst_weight_match_t *m,
    const mst_tensor_t *t, const char *show, mst_err_t *err)
{
    mst_tensor_t  *slot;

    slot = &c->table[mst_checkpoint_at(&c->config, m->role, m->layer,
                                       m->expert)];

    if (slot->n_dims != 0) {
        return mst_checkpoint_error(c, err, "tensor \"%s\" is there twice",
                                    show);
    }

    *slot = *t;

    return MST_OK;
}


/* all experts of a layer in one tensor: one slice for each */

static int
mst_checkpoint_stacked(mst_checkpoint_t *c, mst_weight_match_t *m,
    const mst_tensor_t *t, const char *show, mst_err_t *err)
{
    mst_tensor_t  slice;

    if (t->dims[2] != c->config.n_experts || t->dims[3] != 1
        || t->size % c->config.n_experts)
    {
        return mst_checkpoint_error(c, err, "tensor \"%s\" is of %llu "
                                    "experts, the model has %u", show,
                                    (unsigned long long) t->dims[2],
                                    c->config.n_experts);
    }

    slice = *t;
    slice.dims[2] = 1;
    slice.size = t->size / c->config.n_experts;

    for (m->expert = 0; m->expert < c->config.n_experts; m->expert++) {

        slice.data = t->data ? (const char *) t->data
                               + m->expert * slice.size : NULL;

        if (mst_checkpoint_put(c, m, &slice, show, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_checkpoint_take(mst_checkpoint_t *c, const mst_tensor_t *t,
    mst_err_t *err)
{
    int                 rc;
    char                show[MST_GGUF_SHOW];
    mst_weight_match_t  m;

    (void) mst_gguf_show(show, t->name);
    rc = mst_weight_match(c->names, t->name, &m);

    if (rc == MST_DONE) {
        return MST_OK;
    }

    /* a head beside tied embeddings is written by some programs and read by
       none */

    if (rc == MST_OK && m.role == MST_WEIGHT_HEAD && c->config.tied) {
        return MST_OK;
    }

    if (rc != MST_OK || m.layer >= c->config.n_layers
        || m.expert >= mst_checkpoint_experts(&c->config)
        || !mst_weight_has(&c->config, m.role))
    {
        return mst_checkpoint_error(c, err, "tensor \"%s\" is no part of a %s "
                                    "model of %u layers that is supported",
                                    show, c->config.arch, c->config.n_layers);
    }

    c->weights += t->size;

    return m.stacked ? mst_checkpoint_stacked(c, &m, t, show, err)
                     : mst_checkpoint_put(c, &m, t, show, err);
}


static int
mst_checkpoint_type(const mst_checkpoint_t *c, const char *name,
    const mst_tensor_t *t, int vector, mst_err_t *err)
{
    if (vector && t->type != MST_TYPE_F32
        && (c->gguf || mst_type_info(t->type) == NULL
            || mst_type_info(t->type)->block != 1))
    {
        return mst_checkpoint_error(c, err, "tensor \"%s\" has type %s (%u), "
                                    "F32 is needed", name,
                                    mst_type_name(t->type), t->type);
    }

    if (mst_type_info(t->type) == NULL) {
        return mst_checkpoint_error(c, err, "tensor \"%s\" has type %s (%u), "
                                    "which is not supported yet; F32, F16, "
                                    "BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                                    "Q4_K, Q5_K and Q6_K are", name,
                                    mst_type_name(t->type), t->type);
    }

    return MST_OK;
}


static int
mst_checkpoint_check_one(const mst_checkpoint_t *c, mst_weight_t role,
    uint32_t layer, uint32_t expert, mst_err_t *err)
{
    char                 name[MST_CHECKPOINT_NAME];
    uint64_t             in, out, rows;
    const mst_tensor_t  *t;

    if (!mst_weight_has(&c->config, role)) {
        return MST_OK;
    }

    t = mst_checkpoint_tensor(c, role, layer, expert);
    (void) mst_weight_name(c->names, role, layer, expert,
                           c->config.n_experts != 0, name, sizeof(name));

    if (t == NULL) {
        return role == MST_WEIGHT_FREQS || c->partial ? MST_OK
               : mst_checkpoint_error(c, err, "tensor \"%s\" is missing",
                                      name);
    }

    mst_weight_shape(&c->config, role, &in, &out);
    rows = out ? out : 1;

    if (t->dims[0] != in || t->dims[1] != rows || t->dims[2] != 1
        || t->dims[3] != 1)
    {
        return mst_checkpoint_error(c, err, "tensor \"%s\" has shape [%llu, "
                                    "%llu, %llu, %llu], expected [%llu, %llu, "
                                    "1, 1]", name,
                                    (unsigned long long) t->dims[0],
                                    (unsigned long long) t->dims[1],
                                    (unsigned long long) t->dims[2],
                                    (unsigned long long) t->dims[3],
                                    (unsigned long long) in,
                                    (unsigned long long) rows);
    }

    return mst_checkpoint_type(c, name, t, out == 0, err);
}


static int
mst_checkpoint_check(const mst_checkpoint_t *c, mst_weight_t from,
    mst_weight_t to, uint32_t layer, uint32_t expert, mst_err_t *err)
{
    mst_weight_t  role;

    for (role = from; role < to; role++) {

        if (mst_checkpoint_check_one(c, role, layer, expert, err) != MST_OK
            && !mst_fault_tell(c->faults, err))
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_checkpoint_check_all(const mst_checkpoint_t *c, mst_err_t *err)
{
    uint32_t  l, e;

    if (mst_checkpoint_check(c, 0, MST_WEIGHT_GLOBALS, 0, 0, err) != MST_OK) {
        return MST_ERROR;
    }

    for (l = 0; l < c->config.n_layers; l++) {

        if (mst_checkpoint_check(c, MST_WEIGHT_GLOBALS, MST_WEIGHT_LAYERS, l,
                                 0, err)
            != MST_OK)
        {
            return MST_ERROR;
        }

        for (e = 0; e < mst_checkpoint_experts(&c->config); e++) {

            if (mst_checkpoint_check(c, MST_WEIGHT_LAYERS, MST_WEIGHTS, l, e,
                                     err)
                != MST_OK)
            {
                return MST_ERROR;
            }
        }
    }

    return MST_OK;
}


/* a table for the configuration, then every tensor of every container */

static int
mst_checkpoint_fill(mst_checkpoint_t *c, mst_err_t *err)
{
    size_t    i, n;
    uint32_t  k;
    uint64_t  size;

    n = MST_WEIGHT_GLOBALS
        + c->config.n_layers * mst_checkpoint_per_layer(&c->config);
    c->table = mst_calloc(n, sizeof(mst_tensor_t));

    if (c->table == NULL) {
        return mst_checkpoint_error(c, err, "no memory for %zu tensors", n);
    }

    n = c->gguf ? mst_gguf_n_tensors(c->gguf) : 0;
    size = c->gguf ? mst_gguf_size(c->gguf) : UINT64_MAX;

    for (i = 0; i < n; i++) {
        if (mst_checkpoint_take(c, mst_gguf_tensor_at(c->gguf, i), err)
            != MST_OK
            && !mst_fault_tell(c->faults, err))
        {
            return MST_ERROR;
        }
    }

    for (k = 0; k < c->n_shards; k++) {
        n = c->shards[k] ? mst_safetensors_n_tensors(c->shards[k]) : 0;

        for (i = 0; i < n; i++) {
            if (mst_checkpoint_take(c, mst_safetensors_tensor_at(c->shards[k],
                                                                 i), err)
                != MST_OK
                && !mst_fault_tell(c->faults, err))
            {
                return MST_ERROR;
            }
        }
    }

    if (mst_checkpoint_check_all(c, err) != MST_OK) {
        return MST_ERROR;
    }

    /* or a small file could ask for any amount of memory */

    if (c->weights > size) {
        return mst_checkpoint_error(c, err, "tensors share their bytes: they "
                                    "have more than the file's %llu",
                                    (unsigned long long) size);
    }

    return MST_OK;
}


static mst_checkpoint_t *
mst_checkpoint_create(const char *name, mst_err_t *err)
{
    size_t             n;
    mst_checkpoint_t  *c;

    n = strlen(name) + 1;
    c = mst_calloc(1, sizeof(mst_checkpoint_t));

    if (c == NULL || (c->name = mst_alloc(n)) == NULL) {
        (void) mst_err_set(err, "%s: no memory to open it", name);
        mst_checkpoint_close(c);
        return NULL;
    }

    memcpy(c->name, name, n);

    return c;
}


mst_checkpoint_t *
mst_checkpoint_gguf(mst_gguf_t *g, mst_err_t *err)
{
    mst_checkpoint_t  *c;

    c = mst_checkpoint_create(mst_gguf_name(g), err);

    if (c == NULL) {
        return NULL;
    }

    c->names = MST_NAMES_GGUF;
    c->gguf = g;

    if (mst_config_gguf(g, &c->config, NULL, err) != MST_OK
        || mst_checkpoint_fill(c, err) != MST_OK)
    {
        mst_checkpoint_release(c);
        return NULL;
    }

    return c;
}


static int
mst_checkpoint_config_of(mst_checkpoint_t *c, int fd, mst_err_t *err)
{
    int     rc;
    char   *text;
    size_t  len;

    text = mst_config_file_read(fd, c->name, &len, err);

    if (text == NULL) {
        return MST_ERROR;
    }

    rc = mst_config_file_parse(text, len, c->name, &c->names, &c->config,
                               c->faults, err);

    mst_free(text);

    return rc;
}


static int
mst_checkpoint_shards(mst_checkpoint_t *c, const int *fds, uint32_t n,
    mst_err_t *err)
{
    mst_err_t  why;

    c->shards = mst_calloc(n ? n : 1, sizeof(mst_safetensors_t *));

    if (c->shards == NULL) {
        return mst_checkpoint_error(c, err, "no memory for %u files", n);
    }

    for (c->n_shards = 0; c->n_shards < n; c->n_shards++) {
        why.text[0] = '\0';
        c->shards[c->n_shards] = mst_safetensors_open_fd(fds[c->n_shards],
                                                         c->name, &why);

        if (c->shards[c->n_shards]) {
            continue;
        }

        (void) (n == 1 ? mst_err_set(err, "%s", why.text)
                       : mst_err_set(err, "%s (file %u of %u)", why.text,
                                     c->n_shards + 1, n));

        if (!mst_fault_tell(c->faults, err)) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


mst_checkpoint_t *
mst_checkpoint_open(const int *fds, uint32_t n, const char *name,
    mst_err_t *err)
{
    mst_gguf_t        *g;
    mst_checkpoint_t  *c;

    if (n == 1) {
        g = mst_gguf_open_fd(fds[0], name, err);

        if (g == NULL) {
            return NULL;
        }

        c = mst_checkpoint_gguf(g, err);

        if (c == NULL) {
            mst_gguf_close(g);
        }

        return c;
    }

    c = mst_checkpoint_create(name, err);

    if (c == NULL) {
        return NULL;
    }

    if (mst_checkpoint_config_of(c, fds[0], err) != MST_OK
        || mst_checkpoint_shards(c, fds + 1, n - 1, err) != MST_OK
        || mst_checkpoint_fill(c, err) != MST_OK)
    {
        mst_checkpoint_close(c);
        return NULL;
    }

    return c;
}


int
mst_checkpoint_examine(const int *fds, uint32_t n, const char *name,
    mst_config_t *config, mst_faults_t *faults)
{
    int                rc;
    mst_err_t          err;
    mst_checkpoint_t  *c;

    err.text[0] = '\0';
    c = mst_checkpoint_create(name, &err);

    if (c == NULL) {
        (void) mst_fault_tell(faults, &err);
        return MST_ERROR;
    }

    c->faults = faults;
    rc = mst_checkpoint_config_of(c, fds[0], &err);

    if (rc != MST_OK) {
        (void) mst_fault_tell(faults, &err);
    }

    if (mst_checkpoint_shards(c, fds + 1, n - 1, &err) != MST_OK) {
        (void) mst_fault_tell(faults, &err);
    }

    if (rc == MST_OK) {
        *config = c->config;
        c->partial = faults->n != 0;           /* the shards', so far */

        if (mst_checkpoint_fill(c, &err) != MST_OK) {
            (void) mst_fault_tell(faults, &err);
        }
    }

    mst_checkpoint_close(c);

    return rc;
}


void
mst_checkpoint_examine_gguf(mst_gguf_t *g, mst_faults_t *faults)
{
    mst_err_t          err;
    mst_checkpoint_t  *c;

    err.text[0] = '\0';
    c = mst_checkpoint_create(mst_gguf_name(g), &err);

    if (c) {
        c->names = MST_NAMES_GGUF;
        c->gguf = g;
        c->faults = faults;
    }

    if (c == NULL || mst_config_gguf(g, &c->config, faults, &err) != MST_OK
        || mst_checkpoint_fill(c, &err) != MST_OK)
    {
        (void) mst_fault_tell(faults, &err);
    }

    if (c) {
        mst_checkpoint_release(c);
    }
}


int
mst_checkpoint_tune(mst_checkpoint_t *c, const mst_tune_t *tune,
    mst_err_t *err)
{
    mst_err_t  why;

    why.text[0] = '\0';

    return mst_config_tune(&c->config, tune, &why) == MST_OK
           ? MST_OK : mst_checkpoint_error(c, err, "%s", why.text);
}


void
mst_checkpoint_close(mst_checkpoint_t *c)
{
    if (c == NULL) {
        return;
    }

    while (c->n_shards) {
        mst_safetensors_close(c->shards[--c->n_shards]);
    }

    mst_gguf_close(c->gguf);
    mst_free(c->shards);
    mst_free(c->table);
    mst_free(c->name);
    mst_free(c);
}


void
mst_checkpoint_release(mst_checkpoint_t *c)
{
    c->gguf = NULL;
    mst_checkpoint_close(c);
}


const char *
mst_checkpoint_name(const mst_checkpoint_t *c)
{
    return c->name;
}


const mst_config_t *
mst_checkpoint_config(const mst_checkpoint_t *c)
{
    return &c->config;
}


const mst_gguf_t *
mst_checkpoint_container(const mst_checkpoint_t *c)
{
    return c->gguf;
}


const mst_tensor_t *
mst_checkpoint_tensor(const mst_checkpoint_t *c, mst_weight_t role,
    uint32_t layer, uint32_t expert)
{
    const mst_tensor_t  *t;

    t = &c->table[mst_checkpoint_at(&c->config, role, layer, expert)];

    return t->n_dims ? t : NULL;
}


uint64_t
mst_checkpoint_weights(const mst_checkpoint_t *c)
{
    return c->weights;
}

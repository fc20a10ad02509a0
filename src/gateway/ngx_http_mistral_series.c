
/*
 * mistral_metrics_labels and mistral_metrics_max_series: counters by consumer
 * and tag, whose values clients choose.
 *
 * A row for each combination of values that was met, at most so many; what
 * comes then goes into one row of its model whose other labels are
 * "_overflow".  Rows stay as long as nginx runs, so that no counter goes
 * back: a reload with the same labels goes on with them, one with other
 * labels begins anew, in a zone of another name.
 *
 * Rows are found without a lock by a table of open addressing; a new row is
 * written first and entered last, under the zone's mutex, which the master
 * takes from a dead worker.  A row's text is what the page shows: escaped,
 * valid UTF-8, bounded.  Workers only, but for the directives.
 */

#include "gateway/ngx_http_mistral_series.h"
#include "gateway/ngx_http_mistral_tag.h"

#include "base/mst_hash.h"


#define NGX_HTTP_MISTRAL_SERIES        1000
#define NGX_HTTP_MISTRAL_SERIES_MAX    100000
#define NGX_HTTP_MISTRAL_SERIES_SPARE  128     /* rows "_overflow": one for
                                                  each model, or they share */

#define NGX_HTTP_MISTRAL_LABELS        4       /* beside the model */
#define NGX_HTTP_MISTRAL_LABEL_VALUE   64      /* bytes of a value */
#define NGX_HTTP_MISTRAL_SERIES_CODES  8

/* tag_ and 32 bytes, ="", a comma, each byte escaped; then the model's */
#define NGX_HTTP_MISTRAL_LABEL_TEXT                                           \
    (4 + 32 + 4 + 2 * NGX_HTTP_MISTRAL_LABEL_VALUE)
#define NGX_HTTP_MISTRAL_SERIES_TEXT                                          \
    ((NGX_HTTP_MISTRAL_LABELS + 1) * NGX_HTTP_MISTRAL_LABEL_TEXT)


typedef struct {
    ngx_str_t                      given;      /* "consumer", "tag:NAME" */
    ngx_str_t                      name;       /* "consumer", "tag_NAME" */
    ngx_str_t                      tag;        /* NAME; len 0: the consumer */
} ngx_http_mistral_label_t;


typedef struct {
    _Atomic uint32_t               code;       /* 0 = free; CAS */
    _Atomic uint64_t               requests;
} ngx_http_mistral_series_code_t;


typedef struct {
    uint64_t                       hash;       /* of the text */
    _Atomic uint64_t               prompt;
    _Atomic uint64_t               cached;
    _Atomic uint64_t               completion;
    _Atomic uint64_t               wasted;
    ngx_http_mistral_series_code_t codes[NGX_HTTP_MISTRAL_SERIES_CODES];
    uint32_t                       len;
    u_char                         text[NGX_HTTP_MISTRAL_SERIES_TEXT];
} ngx_http_mistral_row_t;


typedef struct {
    _Atomic uint32_t               n;          /* rows in use; mutex */
    _Atomic uint32_t               n_spare;
    uint64_t                       seed;       /* nobody's to guess */
    uint32_t                       mask;
    _Atomic uint32_t              *slots;      /* [mask + 1] row + 1, 0 = none;
                                                  the spare ones are behind the
                                                  others */
    ngx_http_mistral_row_t        *rows;       /* [max + SPARE] */
} ngx_http_mistral_series_t;


typedef struct {
    ngx_uint_t                     max;
    ngx_array_t                    labels;     /* of _label_t */
    ngx_int_t                      consumer;   /* index of the variable */
    ngx_uint_t                     given;      /* the directive was */
    ngx_shm_zone_t                *zone;       /* NULL: no labels */
    ngx_http_mistral_series_t     *series;     /* in it */
} ngx_http_mistral_series_main_conf_t;


typedef struct {
    const char                    *name;
    const char                    *help;
    size_t                         offset;     /* in the row; 0: requests */
} ngx_http_mistral_series_family_t;


static void *ngx_http_mistral_series_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_series_init_main_conf(ngx_conf_t *cf,
    void *conf);
static char *ngx_http_mistral_series_labels(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_http_mistral_series_label(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *value);
static ngx_int_t ngx_http_mistral_series_add_zone(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf);
static ngx_int_t ngx_http_mistral_series_init_zone(ngx_shm_zone_t *zone,
    void *old);
static size_t ngx_http_mistral_series_text(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *model,
    u_char *text);
static size_t ngx_http_mistral_series_overflow(
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *model,
    u_char *text);
static u_char *ngx_http_mistral_series_value(u_char *p, ngx_str_t *name,
    ngx_str_t *value);
static void ngx_http_mistral_series_get(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf,
    ngx_http_mistral_label_t *label, ngx_str_t *value);
static ngx_http_mistral_row_t *ngx_http_mistral_series_row(
    ngx_http_mistral_series_main_conf_t *smcf, u_char *text, size_t len,
    ngx_uint_t spare);
static ngx_http_mistral_row_t *ngx_http_mistral_series_find(
    ngx_http_mistral_series_t *s, uint64_t hash, u_char *text, size_t len,
    uint32_t *slot);
static void ngx_http_mistral_series_code(ngx_http_mistral_row_t *row,
    ngx_uint_t status);
static void ngx_http_mistral_series_line(
    const ngx_http_mistral_series_family_t *f, ngx_http_mistral_row_t *row,
    mst_buf_t *out);


#define ngx_http_mistral_series_add(word, n)                                  \
    (void) atomic_fetch_add_explicit(word, n, memory_order_relaxed)


static ngx_command_t  ngx_http_mistral_series_commands[] = {

    { ngx_string("mistral_metrics_labels"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_series_labels,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_metrics_max_series"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_mistral_series_main_conf_t, max),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_series_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mistral_series_create_main_conf,
                                           /* create main configuration */
    ngx_http_mistral_series_init_main_conf,
                                           /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_series_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_series_module_ctx,   /* module context */
    ngx_http_mistral_series_commands,      /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static const ngx_http_mistral_series_family_t
    ngx_http_mistral_series_families[] = {

    { "usage_requests_total", "Requests that ended, by who asked.", 0 },

    { "usage_prompt_tokens_total", "Their prompt tokens.",
      offsetof(ngx_http_mistral_row_t, prompt) },

    { "usage_cached_tokens_total",
      "Prompt tokens of theirs found in the prefix cache.",
      offsetof(ngx_http_mistral_row_t, cached) },

    { "usage_completion_tokens_total", "Tokens sampled for them.",
      offsetof(ngx_http_mistral_row_t, completion) },

    { "usage_wasted_tokens_total", "Of those, tokens that nobody got.",
      offsetof(ngx_http_mistral_row_t, wasted) },

    { NULL, NULL, 0 }
};


static void *
ngx_http_mistral_series_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_series_main_conf_t  *smcf;

    smcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_series_main_conf_t));

    if (smcf == NULL
        || ngx_array_init(&smcf->labels, cf->pool, NGX_HTTP_MISTRAL_LABELS,
                          sizeof(ngx_http_mistral_label_t))
           != NGX_OK)
    {
        return NULL;
    }

    smcf->max = NGX_CONF_UNSET_UINT;
    smcf->consumer = NGX_ERROR;

    return smcf;
}


/* tags may be defined behind the line that names them */

static char *
ngx_http_mistral_series_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mistral_series_main_conf_t *smcf = conf;

    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    ngx_conf_init_uint_value(smcf->max, NGX_HTTP_MISTRAL_SERIES);

    if (smcf->max < 1 || smcf->max > NGX_HTTP_MISTRAL_SERIES_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"mistral_metrics_max_series\" must be from 1 to "
                           "%d", NGX_HTTP_MISTRAL_SERIES_MAX);
        return NGX_CONF_ERROR;
    }

    label = smcf->labels.elts;

    for (i = 0; i < smcf->labels.nelts; i++) {
        if (label[i].tag.len && !ngx_http_mistral_tag_known(cf, &label[i].tag))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"mistral_metrics_labels\": no \"mistral_tag\" "
                               "has the name \"%V\"", &label[i].tag);
            return NGX_CONF_ERROR;
        }
    }

    if (smcf->labels.nelts == 0) {
        return NGX_CONF_OK;
    }

    return ngx_http_mistral_series_add_zone(cf, smcf) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_series_labels(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_series_main_conf_t *smcf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (smcf->given) {
        return "is duplicate";
    }

    smcf->given = 1;
    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "model") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the first label must be \"model\", not \"%V\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_mistral_series_label(cf, smcf, &value[i]) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mistral_series_label(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *value)
{
    ngx_str_t                  name = ngx_string("mistral_consumer");
    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    for (i = 0; i < smcf->labels.nelts; i++) {
        label = (ngx_http_mistral_label_t *) smcf->labels.elts + i;

        if (ngx_strcmp(label->given.data, value->data) == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate label \"%V\"",
                               value);
            return NGX_ERROR;
        }
    }

    if (smcf->labels.nelts == NGX_HTTP_MISTRAL_LABELS) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "too many labels, \"model\" and %d more are "
                           "allowed", NGX_HTTP_MISTRAL_LABELS);
        return NGX_ERROR;
    }

    label = ngx_array_push(&smcf->labels);
    if (label == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(label, sizeof(ngx_http_mistral_label_t));
    label->given = *value;

    if (ngx_strcmp(value->data, "consumer") == 0) {
        label->name = *value;
        smcf->consumer = ngx_http_get_variable_index(cf, &name);

        return smcf->consumer == NGX_ERROR ? NGX_ERROR : NGX_OK;
    }

    if (value->len <= 4 || ngx_strncmp(value->data, "tag:", 4) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid label \"%V\", it must be \"consumer\" or "
                           "\"tag:NAME\"", value);
        return NGX_ERROR;
    }

    /* tag:NAME is tag_NAME in the page */

    label->name.len = value->len;
    label->name.data = ngx_pstrdup(cf->pool, value);
    if (label->name.data == NULL) {
        return NGX_ERROR;
    }

    label->name.data[3] = '_';
    label->tag.data = value->data + 4;
    label->tag.len = value->len - 4;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_series_add_zone(ngx_conf_t *cf,
    ngx_http_mistral_series_main_conf_t *smcf)
{
    size_t                     size;
    uint64_t                   hash;
    ngx_str_t                  name;
    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    label = smcf->labels.elts;
    hash = smcf->max;

    for (i = 0; i < smcf->labels.nelts; i++) {
        hash = mst_hash(hash, label[i].name.data, label[i].name.len);
    }

    name.data = ngx_pnalloc(cf->pool, sizeof("ngx_http_mistral_") + 16);
    if (name.data == NULL) {
        return NGX_ERROR;
    }

    name.len = ngx_sprintf(name.data, "ngx_http_mistral_%016xL", hash)
               - name.data;

    size = (smcf->max + NGX_HTTP_MISTRAL_SERIES_SPARE)
           * (sizeof(ngx_http_mistral_row_t) + 4 * sizeof(uint32_t));

    smcf->zone = ngx_shared_memory_add(cf, &name,
                                       ngx_align(size, ngx_pagesize)
                                       + 16 * ngx_pagesize,
                                       &ngx_http_mistral_series_module);
    if (smcf->zone == NULL) {
        return NGX_ERROR;
    }

    smcf->zone->data = smcf;
    smcf->zone->init = ngx_http_mistral_series_init_zone;

    return NGX_OK;
}


/* pages that no row needs are never touched */

static ngx_int_t
ngx_http_mistral_series_init_zone(ngx_shm_zone_t *zone, void *old)
{
    uint32_t                              n, all;
    ngx_slab_pool_t                      *pool;
    ngx_http_mistral_series_t            *s;
    ngx_http_mistral_series_main_conf_t  *smcf;

    smcf = zone->data;
    pool = (ngx_slab_pool_t *) zone->shm.addr;

    if (pool->data == NULL) {
        all = smcf->max + NGX_HTTP_MISTRAL_SERIES_SPARE;

        for (n = 256; n < 2 * all; n *= 2) {
            /* void */
        }

        s = ngx_slab_calloc(pool, sizeof(ngx_http_mistral_series_t));
        if (s == NULL) {
            return NGX_ERROR;
        }

        s->mask = n - 1;
        s->seed = (uint64_t) ngx_random() << 32 ^ (uint64_t) ngx_random();
        s->slots = ngx_slab_calloc(pool, n * sizeof(uint32_t));
        s->rows = ngx_slab_alloc(pool, all * sizeof(ngx_http_mistral_row_t));

        if (s->slots == NULL || s->rows == NULL) {
            return NGX_ERROR;
        }

        pool->data = s;
    }

    smcf->series = pool->data;

    return NGX_OK;
}


void
ngx_http_mistral_series_count(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, ngx_str_t *model, ngx_uint_t status)
{
    size_t                                len;
    u_char                                text[NGX_HTTP_MISTRAL_SERIES_TEXT];
    mst_usage_t                           usage;
    ngx_http_mistral_row_t               *row;
    ngx_http_mistral_series_main_conf_t  *smcf;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_series_module);

    if (smcf->zone == NULL) {
        return;
    }

    len = ngx_http_mistral_series_text(r, smcf, model, text);
    row = ngx_http_mistral_series_row(smcf, text, len, 0);

    if (row == NULL) {
        len = ngx_http_mistral_series_overflow(smcf, model, text);
        row = ngx_http_mistral_series_row(smcf, text, len, 1);
    }

    if (row == NULL) {
        return;
    }

    ngx_http_mistral_series_code(row, status);

    if (ctx == NULL || ctx->n_choices == 0) {
        return;
    }

    ngx_http_mistral_usage(ctx, &usage);

    if (ctx->admitted) {
        ngx_http_mistral_series_add(&row->prompt, usage.prompt);
        ngx_http_mistral_series_add(&row->cached, usage.cached);
    }

    ngx_http_mistral_series_add(&row->completion,
                                usage.completion + ctx->beyond);
    ngx_http_mistral_series_add(&row->wasted, ngx_http_mistral_wasted(ctx));
}


static size_t
ngx_http_mistral_series_text(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf, ngx_str_t *model, u_char *text)
{
    u_char                    *p;
    ngx_str_t                  value;
    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    static ngx_str_t  name = ngx_string("model");

    p = ngx_http_mistral_series_value(text, &name, model);
    label = smcf->labels.elts;

    for (i = 0; i < smcf->labels.nelts; i++) {
        *p++ = ',';
        ngx_http_mistral_series_get(r, smcf, &label[i], &value);
        p = ngx_http_mistral_series_value(p, &label[i].name, &value);
    }

    return p - text;
}


static size_t
ngx_http_mistral_series_overflow(ngx_http_mistral_series_main_conf_t *smcf,
    ngx_str_t *model, u_char *text)
{
    u_char                    *p;
    ngx_str_t                  value = ngx_string("_overflow");
    ngx_uint_t                 i;
    ngx_http_mistral_label_t  *label;

    static ngx_str_t  name = ngx_string("model");

    p = ngx_http_mistral_series_value(text, &name, model);
    label = smcf->labels.elts;

    for (i = 0; i < smcf->labels.nelts; i++) {
        *p++ = ',';
        p = ngx_http_mistral_series_value(p, &label[i].name, &value);
    }

    return p - text;
}


static void
ngx_http_mistral_series_get(ngx_http_request_t *r,
    ngx_http_mistral_series_main_conf_t *smcf,
    ngx_http_mistral_label_t *label, ngx_str_t *value)
{
    ngx_http_variable_value_t  *vv;

    ngx_str_null(value);

    if (label->tag.len) {
        if (ngx_http_mistral_tag_value(r, &label->tag, value) != NGX_OK) {
            ngx_str_null(value);
        }

        return;
    }

    vv = ngx_http_get_flushed_variable(r, smcf->consumer);

    if (vv != NULL && !vv->not_found) {
        value->data = vv->data;
        value->len = vv->len;
    }
}


/* name="value": whole characters of UTF-8 only, or a scrape fails */

static u_char *
ngx_http_mistral_series_value(u_char *p, ngx_str_t *name, ngx_str_t *value)
{
    u_char    *src, *next, *end;
    uint32_t   c;

    p = ngx_cpymem(p, name->data, name->len);
    *p++ = '=';
    *p++ = '"';

    src = value->data;
    end = src + ngx_min(value->len, NGX_HTTP_MISTRAL_LABEL_VALUE);

    while (src < end) {
        next = src + 1;
        c = *src;

        if (c >= 0x80) {
            next = src;
            c = ngx_utf8_decode(&next, end - src);
        }

        if (c == 0xfffffffe && value->len > NGX_HTTP_MISTRAL_LABEL_VALUE) {
            break;                             /* cut in two by the bound */
        }

        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
            *p++ = '?';
            src++;

        } else if (c < 0x20 || c == 0x7f) {
            *p++ = '?';
            src = next;

        } else if (c == '"' || c == '\\') {
            *p++ = '\\';
            *p++ = (u_char) c;
            src = next;

        } else {
            p = ngx_cpymem(p, src, next - src);
            src = next;
        }
    }

    *p++ = '"';

    return p;
}


static ngx_http_mistral_row_t *
ngx_http_mistral_series_row(ngx_http_mistral_series_main_conf_t *smcf,
    u_char *text, size_t len, ngx_uint_t spare)
{
    uint32_t                    n, slot, max;
    uint64_t                    hash;
    ngx_slab_pool_t            *pool;
    _Atomic uint32_t           *used;
    ngx_http_mistral_row_t     *row;
    ngx_http_mistral_series_t  *s;

    s = smcf->series;
    hash = mst_hash(s->seed, text, len);

    row = ngx_http_mistral_series_find(s, hash, text, len, &slot);

    used = spare ? &s->n_spare : &s->n;
    max = spare ? NGX_HTTP_MISTRAL_SERIES_SPARE : (uint32_t) smcf->max;

    if (row != NULL || atomic_load(used) >= max) {
        return row;
    }

    pool = (ngx_slab_pool_t *) smcf->zone->shm.addr;

    ngx_shmtx_lock(&pool->mutex);

    row = ngx_http_mistral_series_find(s, hash, text, len, &slot);
    n = atomic_load(used);

    if (row == NULL && n < max) {
        row = &s->rows[spare ? smcf->max + n : n];

        ngx_memzero(row, sizeof(ngx_http_mistral_row_t));
        row->hash = hash;
        row->len = (uint32_t) len;
        ngx_memcpy(row->text, text, len);

        /* in this order: who is killed in between leaves a row to nobody */

        atomic_store(used, n + 1);
        atomic_store(&s->slots[slot], (uint32_t) (row - s->rows) + 1);
    }

    ngx_shmtx_unlock(&pool->mutex);

    return row;
}


/* NULL: *slot is where it belongs */

static ngx_http_mistral_row_t *
ngx_http_mistral_series_find(ngx_http_mistral_series_t *s, uint64_t hash,
    u_char *text, size_t len, uint32_t *slot)
{
    uint32_t                 i, n;
    ngx_http_mistral_row_t  *row;

    for (i = (uint32_t) hash & s->mask; /* void */ ; i = (i + 1) & s->mask) {
        n = atomic_load(&s->slots[i]);

        if (n == 0) {
            *slot = i;
            return NULL;
        }

        row = &s->rows[n - 1];

        if (row->hash == hash && row->len == len
            && ngx_memcmp(row->text, text, len) == 0)
        {
            return row;
        }
    }
}


static void
ngx_http_mistral_series_code(ngx_http_mistral_row_t *row, ngx_uint_t status)
{
    uint32_t                         code;
    ngx_uint_t                       i;
    ngx_http_mistral_series_code_t  *c;

    status = ngx_max(ngx_min(status, 999), 1);

    for (i = 0; i < NGX_HTTP_MISTRAL_SERIES_CODES - 1; i++) {
        c = &row->codes[i];
        code = 0;

        if (atomic_compare_exchange_strong(&c->code, &code, (uint32_t) status)
            || code == status)
        {
            break;
        }
    }

    ngx_http_mistral_series_add(&row->codes[i].requests, 1);
}


void
ngx_http_mistral_series_show(ngx_http_request_t *r, mst_buf_t *out)
{
    uint32_t                                 i, n;
    ngx_http_mistral_series_t               *s;
    ngx_http_mistral_series_main_conf_t     *smcf;
    const ngx_http_mistral_series_family_t  *f;

    smcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_series_module);

    if (smcf->zone == NULL) {
        return;
    }

    s = smcf->series;

    for (f = ngx_http_mistral_series_families; f->name; f++) {

        (void) mst_buf_printf(out, "# HELP mistral_%s %s\n"
                              "# TYPE mistral_%s counter\n", f->name, f->help,
                              f->name);

        for (i = 0; i <= s->mask; i++) {
            n = atomic_load(&s->slots[i]);

            if (n != 0) {
                ngx_http_mistral_series_line(f, &s->rows[n - 1], out);
            }
        }
    }
}


static void
ngx_http_mistral_series_line(const ngx_http_mistral_series_family_t *f,
    ngx_http_mistral_row_t *row, mst_buf_t *out)
{
    char         code[16];
    uint64_t     n;
    ngx_uint_t   i;
    const char  *p;

    if (f->offset) {
        p = (const char *) row + f->offset;

        (void) mst_buf_printf(out, "mistral_%s{%.*s} %llu\n", f->name,
                              (int) row->len, (char *) row->text,
                              (unsigned long long) atomic_load(
                                           (const _Atomic uint64_t *) p));
        return;
    }

    for (i = 0; i < NGX_HTTP_MISTRAL_SERIES_CODES; i++) {
        n = atomic_load(&row->codes[i].requests);

        if (n == 0) {
            continue;
        }

        (void) snprintf(code, sizeof(code), "%03u",
                        (unsigned) atomic_load(&row->codes[i].code));

        (void) mst_buf_printf(out, "mistral_%s{%.*s,code=\"%s\"} %llu\n",
                              f->name, (int) row->len, (char *) row->text,
                              i < NGX_HTTP_MISTRAL_SERIES_CODES - 1 ? code
                                                                    : "other",
                              (unsigned long long) n);
    }
}

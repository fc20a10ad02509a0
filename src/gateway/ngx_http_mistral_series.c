
/*
 * A row of counters for each combination of label values that was met, at
 * most so many; what comes then goes into one row of its model whose other
 * labels are "_overflow".  Rows stay as long as nginx runs, so that no
 * counter goes back: a reload with the same labels goes on with them.
 *
 * Rows are found without a lock by a table of open addressing; a new row is
 * written first and entered last, under the zone's mutex, which the master
 * takes from a dead worker.  Workers only, but for the zone.
 */

#include "gateway/ngx_http_mistral_series.h"

#include "base/mst_hash.h"


#define NGX_HTTP_MISTRAL_SERIES_CODES  8


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


struct ngx_http_mistral_series_s {
    _Atomic uint32_t               n;          /* rows in use; mutex */
    _Atomic uint32_t               n_spare;
    uint64_t                       seed;       /* nobody's to guess */
    uint32_t                       mask;
    _Atomic uint32_t              *slots;      /* [mask + 1] row + 1, 0 = none;
                                                  the spare ones are behind the
                                                  others */
    ngx_http_mistral_row_t        *rows;       /* [max + SPARE] */
};


typedef struct {
    const char                    *name;
    const char                    *help;
    size_t                         offset;     /* in the row; 0: requests */
} ngx_http_mistral_series_family_t;


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


size_t
ngx_http_mistral_series_size(ngx_uint_t max)
{
    size_t  size;

    size = (max + NGX_HTTP_MISTRAL_SERIES_SPARE)
           * (sizeof(ngx_http_mistral_row_t) + 4 * sizeof(uint32_t));

    return ngx_align(size, ngx_pagesize) + 16 * ngx_pagesize;
}


/* pages that no row needs are never touched */

ngx_int_t
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

    len = ngx_http_mistral_labels_text(r, smcf, model, text);
    row = ngx_http_mistral_series_row(smcf, text, len, 0);

    if (row == NULL) {
        len = ngx_http_mistral_labels_text(NULL, smcf, model, text);
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


/*
 * Engines over a binary upgrade (USR2): the old master names its engines'
 * descriptors in one environment variable, the new one goes on with those
 * whose identity it needs and closes the others, because a held descriptor
 * would keep their engines alive.
 *
 *   NGX_MISTRAL=HASH,N_SLOTS,MEMFD,LIFE_R,LIFE_W,ALIVE,LOG_R,LOG_W,WAKE,
 *               SLOT...;...
 *
 * Master only.  What stands in the variable is believed only when nginx
 * itself was started with inherited sockets, and only after the segment was
 * checked.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"


#define NGX_HTTP_MISTRAL_FIXED  7              /* descriptors but the slots */


static char *ngx_http_mistral_inherit_find(uint64_t hash);
static char *ngx_http_mistral_inherit_numbers(char *p, uint64_t *hash,
    int *fds, ngx_uint_t *n_slots);
static ngx_int_t ngx_http_mistral_inherit_attach(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e, int *fds);
static void ngx_http_mistral_inherit_close(int *fds, ngx_uint_t n_slots);
static u_char *ngx_http_mistral_export_engine(u_char *p,
    ngx_http_mistral_engine_t *e);


ngx_uint_t
ngx_http_mistral_inheritable(uint64_t hash)
{
    return ngx_http_mistral_inherit_find(hash) != NULL;
}


/* an engine of the old binary, or NULL; the entry is used up either way */

ngx_http_mistral_engine_t *
ngx_http_mistral_inherit(ngx_cycle_t *cycle, ngx_http_mistral_model_t *m)
{
    int                         fds[NGX_HTTP_MISTRAL_FIXED + MST_MAX_SLOTS];
    char                       *p;
    uint64_t                    hash;
    ngx_uint_t                  n_slots;
    ngx_http_mistral_engine_t  *e;

    p = ngx_http_mistral_inherit_find(m->hash);
    if (p == NULL) {
        return NULL;
    }

    (void) ngx_http_mistral_inherit_numbers(p, &hash, fds, &n_slots);

    *p = 'x';                                  /* taken: no number now */

    e = ngx_http_mistral_engine_alloc(&m->name, n_slots, cycle->log);
    if (e == NULL) {
        ngx_http_mistral_inherit_close(fds, n_slots);
        return NULL;
    }

    e->hash = m->hash;

    if (ngx_http_mistral_inherit_attach(cycle, e, fds) != NGX_OK) {
        ngx_http_mistral_engine_free(e);
        return NULL;
    }

    ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                  "using inherited engine of mistral model \"%V\"", &m->name);

    return e;
}


static ngx_int_t
ngx_http_mistral_inherit_attach(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e, int *fds)
{
    mst_err_t  err;

    e->memfd = fds[0];
    e->life_r = fds[1];
    e->life_w = fds[2];
    e->alive_r = fds[3];
    e->log_r = fds[4];
    e->log_w = fds[5];
    e->wake = fds[6];

    ngx_memcpy(e->slots, &fds[NGX_HTTP_MISTRAL_FIXED],
               e->n_slots * sizeof(int));

    err.text[0] = '\0';

    if (mst_shm_attach(&e->map, e->memfd, &err) == MST_OK) {

        if (e->map.shm->hash == e->hash && e->map.n_slots == e->n_slots) {
            return NGX_OK;
        }

        mst_err_set(&err, "it is another model's");
    }

    ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                  "cannot use the inherited engine of mistral model \"%V\": "
                  "%s", &e->name, err.text);

    return NGX_ERROR;
}


/* the rest is closed, and no child of this master shall see the variable */

void
ngx_http_mistral_inherit_end(ngx_cycle_t *cycle)
{
    int         fds[NGX_HTTP_MISTRAL_FIXED + MST_MAX_SLOTS];
    char       *p, *next;
    uint64_t    hash;
    ngx_uint_t  n_slots;

    p = ngx_inherited ? getenv(NGX_HTTP_MISTRAL_ENV) : NULL;

    while (p != NULL) {
        next = strchr(p, ';');

        if (ngx_http_mistral_inherit_numbers(p, &hash, fds, &n_slots)
            != NULL)
        {
            ngx_http_mistral_inherit_close(fds, n_slots);

            ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                          "inherited engine %016xL is not used", hash);
        }

        p = next ? next + 1 : NULL;
    }

    (void) unsetenv(NGX_HTTP_MISTRAL_ENV);
}


static void
ngx_http_mistral_inherit_close(int *fds, ngx_uint_t n_slots)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_MISTRAL_FIXED + n_slots; i++) {
        (void) close(fds[i]);
    }
}


/* the entry with this hash */

static char *
ngx_http_mistral_inherit_find(uint64_t hash)
{
    int         fds[NGX_HTTP_MISTRAL_FIXED + MST_MAX_SLOTS];
    char       *p, *next;
    uint64_t    h;
    ngx_uint_t  n_slots;

    p = ngx_inherited ? getenv(NGX_HTTP_MISTRAL_ENV) : NULL;

    while (p != NULL) {
        next = strchr(p, ';');

        if (ngx_http_mistral_inherit_numbers(p, &h, fds, &n_slots) != NULL
            && h == hash)
        {
            return p;
        }

        p = next ? next + 1 : NULL;
    }

    return NULL;
}


/* one entry; its end, or NULL if it is none */

static char *
ngx_http_mistral_inherit_numbers(char *p, uint64_t *hash, int *fds,
    ngx_uint_t *n_slots)
{
    long        n;
    char       *end;
    ngx_uint_t  i, all;

    *hash = strtoull(p, &end, 16);

    if (end != p + 16 || *end != ',') {
        return NULL;
    }

    n = strtol(end + 1, &end, 10);

    if (n < 1 || n > MST_MAX_SLOTS) {
        return NULL;
    }

    *n_slots = n;
    all = NGX_HTTP_MISTRAL_FIXED + n;

    for (i = 0; i < all; i++) {

        if (*end != ',') {
            return NULL;
        }

        n = strtol(end + 1, &end, 10);

        if (n < 3 || n > NGX_MAX_INT32_VALUE) {
            return NULL;
        }

        fds[i] = n;
    }

    return (*end == ';' || *end == '\0') ? end : NULL;
}


/*
 * For the next binary: nginx passes exactly the variables of ccf->env, one
 * with a "=" behind its name as it stands.
 */

ngx_int_t
ngx_http_mistral_export(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf)
{
    size_t                      len;
    u_char                     *p;
    ngx_str_t                  *var;
    ngx_uint_t                  i;
    ngx_core_conf_t            *ccf;
    ngx_http_mistral_model_t  **models;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    models = mmcf->models.elts;
    len = sizeof(NGX_HTTP_MISTRAL_ENV "=");

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (models[i]->engine != NULL) {
            len += 17 + (NGX_INT32_LEN + 1)
                        * (1 + NGX_HTTP_MISTRAL_FIXED
                           + models[i]->engine->n_slots);
        }
    }

    p = ngx_pnalloc(cycle->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    var = ngx_array_push(&ccf->env);
    if (var == NULL) {
        return NGX_ERROR;
    }

    var->len = sizeof(NGX_HTTP_MISTRAL_ENV) - 1;
    var->data = p;

    p = ngx_cpymem(p, NGX_HTTP_MISTRAL_ENV "=",
                   sizeof(NGX_HTTP_MISTRAL_ENV "=") - 1);

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (models[i]->engine != NULL) {
            p = ngx_http_mistral_export_engine(p, models[i]->engine);
        }
    }

    *p = '\0';

    return NGX_OK;
}


static u_char *
ngx_http_mistral_export_engine(u_char *p, ngx_http_mistral_engine_t *e)
{
    ngx_uint_t  i;

    p = ngx_sprintf(p, "%016xL,%ui,%d,%d,%d,%d,%d,%d,%d", e->hash, e->n_slots,
                    e->memfd, e->life_r, e->life_w, e->alive_r, e->log_r,
                    e->log_w, e->wake);

    for (i = 0; i < e->n_slots; i++) {
        p = ngx_sprintf(p, ",%d", e->slots[i]);
    }

    *p++ = ';';

    return p;
}


/*
 * The master's side of the engines: which ones a new configuration needs,
 * which go on, which are created.
 *
 * init_zone may refuse a configuration, init_module must not: an error there
 * ends the master at a reload.  So the program is asked in init_zone, and
 * what fails later is an alert in the log and 503 for the model.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include <grp.h>

#include "base/mst_hash.h"


static ngx_int_t ngx_http_mistral_identity(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf, ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_identity_user(ngx_cycle_t *cycle,
    mst_setup_t *setup);
static ngx_http_mistral_engine_t *ngx_http_mistral_find_engine(
    ngx_http_mistral_main_conf_t *mmcf, uint64_t hash);
static ngx_http_mistral_engine_t *ngx_http_mistral_find_previous(
    ngx_http_mistral_main_conf_t *omcf, ngx_http_mistral_model_t *m);
static void ngx_http_mistral_start(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m);
static void ngx_http_mistral_engine_unref(void *data);


/*
 * "old" is the main configuration of the running cycle, or NULL.  Nothing is
 * started or counted here: the configuration may still be rolled back.
 */

ngx_int_t
ngx_http_mistral_init_zone(ngx_shm_zone_t *zone, void *old)
{
    ngx_http_mistral_main_conf_t *omcf = old;

    ngx_uint_t                      i, need;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_main_conf_t   *mmcf;

    mmcf = zone->data;
    models = mmcf->models.elts;
    need = 0;

    if (ngx_http_mistral_metrics_init(mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mistral_engine_connections(mmcf->cycle, mmcf->models.nelts)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < mmcf->models.nelts; i++) {

        if (ngx_http_mistral_identity(mmcf->cycle, mmcf, models[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        ngx_http_mistral_device_tuning(mmcf->cycle, models[i]);

        if (omcf != NULL) {
            models[i]->engine = ngx_http_mistral_find_engine(omcf,
                                                            models[i]->hash);
            models[i]->previous = ngx_http_mistral_find_previous(omcf,
                                                                 models[i]);
        }

        if (models[i]->engine == NULL
            && !ngx_http_mistral_inheritable(models[i]->hash))
        {
            need++;
        }
    }

    /* an unchanged engine is never a reason to refuse a reload */

    if (!need) {
        return NGX_OK;
    }

    if (mmcf->no_program) {
        ngx_log_error(NGX_LOG_EMERG, mmcf->cycle->log, 0,
                      "the engine program is neither \"%V\", beside the "
                      "module, nor \"%s\", see \"mistral_program\"",
                      &mmcf->program, NGX_HTTP_MISTRAL_PROGRAM);
        return NGX_ERROR;
    }

    if (ngx_http_mistral_engine_nofile(mmcf->cycle, need) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mistral_probe(mmcf);
}


/* what makes two cycles share one engine: the setup's bytes and the layout */

static ngx_int_t
ngx_http_mistral_identity(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf, ngx_http_mistral_model_t *m)
{
    mst_setup_t  *setup;

    setup = m->setup;

    ngx_cpystrn((u_char *) setup->program, mmcf->program.data,
                sizeof(setup->program));

    if (ngx_http_mistral_identity_user(cycle, setup) != NGX_OK) {
        return NGX_ERROR;
    }

    m->hash = mst_hash(mst_shm_layout(), setup, sizeof(mst_setup_t));

    return NGX_OK;
}


/* numbers, since the program asks no name service */

static ngx_int_t
ngx_http_mistral_identity_user(ngx_cycle_t *cycle, mst_setup_t *setup)
{
    int               n, i;
    gid_t             groups[MST_SETUP_GROUPS];
    ngx_core_conf_t  *ccf;

    setup->uid = (uint32_t) -1;
    setup->gid = (uint32_t) -1;
    setup->n_groups = 0;

    if (geteuid() != 0) {
        return NGX_OK;
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    setup->uid = ccf->user;
    setup->gid = ccf->group;

    n = MST_SETUP_GROUPS;

    if (getgrouplist(ccf->username, ccf->group, groups, &n) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "user \"%s\" is in %d groups, an engine can have %d",
                      ccf->username, n, MST_SETUP_GROUPS);
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        setup->groups[i] = groups[i];
    }

    setup->n_groups = n;

    return NGX_OK;
}


static ngx_http_mistral_engine_t *
ngx_http_mistral_find_engine(ngx_http_mistral_main_conf_t *mmcf,
    uint64_t hash)
{
    ngx_uint_t                  i;
    ngx_http_mistral_model_t  **models;

    models = mmcf->models.elts;

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (models[i]->engine != NULL && models[i]->engine->hash == hash) {
            return models[i]->engine;
        }
    }

    return NULL;
}


/* the engine whose end a changed one is to wait for */

static ngx_http_mistral_engine_t *
ngx_http_mistral_find_previous(ngx_http_mistral_main_conf_t *omcf,
    ngx_http_mistral_model_t *m)
{
    ngx_uint_t                  i;
    ngx_http_mistral_model_t  **models;

    if (m->engine != NULL || m->reload != NGX_HTTP_MISTRAL_DRAIN) {
        return NULL;
    }

    models = omcf->models.elts;

    for (i = 0; i < omcf->models.nelts; i++) {
        if (models[i]->name.len == m->name.len
            && ngx_memcmp(models[i]->name.data, m->name.data, m->name.len)
               == 0)
        {
            return models[i]->engine;
        }
    }

    return NULL;
}


ngx_int_t
ngx_http_mistral_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t                      i;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_main_conf_t   *mmcf;

    if (ngx_test_config) {
        return NGX_OK;
    }

    mmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mistral_module);

    if (mmcf != NULL) {
        models = mmcf->models.elts;

        for (i = 0; i < mmcf->models.nelts; i++) {
            ngx_http_mistral_start(cycle, models[i]);
            ngx_http_mistral_metrics_attach(cycle, mmcf, models[i]);
            ngx_http_mistral_model_close_files(models[i]);
        }
    }

    /* an old binary's engine that nobody wants here must not wait for us */

    ngx_http_mistral_inherit_end(cycle);

    if (mmcf != NULL && mmcf->models.nelts) {
        ngx_http_mistral_export(cycle, mmcf);
    }

    if (ngx_process == NGX_PROCESS_SINGLE) {
        ngx_http_mistral_link_renew(cycle);
    }

    return NGX_OK;
}


static void
ngx_http_mistral_start(ngx_cycle_t *cycle, ngx_http_mistral_model_t *m)
{
    ngx_pool_cleanup_t         *cln;
    ngx_http_mistral_engine_t  *e;

    cln = ngx_pool_cleanup_add(cycle->pool, 0);
    if (cln == NULL) {
        m->engine = NULL;
        return;
    }

    e = m->engine;

    if (e == NULL) {
        e = ngx_http_mistral_inherit(cycle, m);
    }

    if (e == NULL) {
        e = ngx_http_mistral_engine_create(cycle, m);
        if (e == NULL) {
            return;
        }
    }

    if (!e->packed) {
        ngx_http_mistral_engine_equip(cycle, e, m);
    }

    cln->handler = ngx_http_mistral_engine_unref;
    cln->data = e;

    e->refs++;
    m->engine = e;

    /* no reason for another engine: its supervisor looks there each time */

    atomic_store(&e->map.shm->timeout_ms,
                 (uint32_t) ngx_min(m->engine_timeout, NGX_MAX_INT32_VALUE));

    if (!ngx_http_mistral_engine_supervised(e)) {
        (void) ngx_http_mistral_spawn(cycle, m, e);
    }

    m->previous = NULL;                        /* it goes with its cycle */
}


static void
ngx_http_mistral_engine_unref(void *data)
{
    ngx_http_mistral_engine_t *e = data;

    if (--e->refs == 0) {
        ngx_http_mistral_engine_free(e);
    }
}

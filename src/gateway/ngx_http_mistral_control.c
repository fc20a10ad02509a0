
/*
 * mistral_control: what an operator may order by POST.  The end of the URI
 * is the command:
 *
 *   drain, resume   takes models out of service and back, in all workers:
 *                   what runs ends, what comes is 503, health is false
 *   flush_prefix    empties the prefix cache
 *   cancel?id=      ends one request
 *
 * "?model=NAME" means one model instead of all.  Access is nginx's to check.
 * Workers only, but for the directive.
 */

#include "gateway/ngx_http_mistral_cancel.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_link.h"
#include "gateway/ngx_http_mistral_metrics.h"
#include "gateway/ngx_http_mistral_route.h"

#include "api/mst_json.h"
#include "shm/mst_place.h"


/* a worker of an older engine looks for orders once a second */
#define NGX_HTTP_MISTRAL_CONTROL_LOOK  10      /* ms */


typedef struct {
    const char   *name;
    void        (*order)(ngx_http_mistral_model_t *m);
    ngx_int_t   (*handler)(ngx_http_request_t *r);     /* instead of order */
} ngx_http_mistral_command_t;


typedef struct {
    ngx_http_request_t  *request;
    ngx_event_t          timer;
    uint64_t             number;               /* of the order */
    ngx_msec_t           end;
    char                 id[NGX_HTTP_MISTRAL_ORDER_ID];
} ngx_http_mistral_control_ctx_t;


static char *ngx_http_mistral_control(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mistral_control_handler(ngx_http_request_t *r);
static const ngx_http_mistral_command_t *ngx_http_mistral_control_command(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mistral_control_models(ngx_http_request_t *r,
    const ngx_http_mistral_command_t *c);
static ngx_int_t ngx_http_mistral_control_answer(ngx_http_request_t *r,
    ngx_http_mistral_model_t *only);
static void ngx_http_mistral_control_model(ngx_http_mistral_model_t *m,
    mst_buf_t *out);
static void ngx_http_mistral_control_drain(ngx_http_mistral_model_t *m);
static void ngx_http_mistral_control_resume(ngx_http_mistral_model_t *m);
static void ngx_http_mistral_control_flush(ngx_http_mistral_model_t *m);
static ngx_int_t ngx_http_mistral_control_cancel(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mistral_control_id(ngx_http_request_t *r,
    char *id);
static void ngx_http_mistral_control_look(ngx_event_t *ev);
static ngx_int_t ngx_http_mistral_control_cancelled(
    ngx_http_mistral_control_ctx_t *ctx);
static void ngx_http_mistral_control_cleanup(void *data);


static ngx_command_t  ngx_http_mistral_control_commands[] = {

    { ngx_string("mistral_control"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_NOARGS,
      ngx_http_mistral_control,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_control_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_control_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_control_module_ctx,  /* module context */
    ngx_http_mistral_control_commands,     /* module directives */
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


static const ngx_http_mistral_command_t  ngx_http_mistral_control_names[] = {
    { "drain", ngx_http_mistral_control_drain, NULL },
    { "resume", ngx_http_mistral_control_resume, NULL },
    { "flush_prefix", ngx_http_mistral_control_flush, NULL },
    { "cancel", NULL, ngx_http_mistral_control_cancel },
    { NULL, NULL, NULL }
};


static char *
ngx_http_mistral_control(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    return ngx_http_mistral_set_handler(cf, cmd,
                                        ngx_http_mistral_control_handler);
}


static ngx_int_t
ngx_http_mistral_control_handler(ngx_http_request_t *r)
{
    ngx_int_t                          rc;
    mst_api_error_t                    e;
    const ngx_http_mistral_command_t  *c;

    if (!ngx_http_mistral_method_allowed(r, "POST")) {
        return ngx_http_mistral_refuse_method(r, "POST");
    }

    c = ngx_http_mistral_control_command(r);

    if (c == NULL) {
        ngx_memzero(&e, sizeof(mst_api_error_t));
        (void) mst_api_error_set(&e, NGX_HTTP_NOT_FOUND, "unknown_command", "",
                                 "There is no such command, the URL must end "
                                 "with /drain, /resume, /flush_prefix or "
                                 "/cancel.");

        return ngx_http_mistral_refuse(r, &e, NULL);
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    return c->handler ? c->handler(r) : ngx_http_mistral_control_models(r, c);
}


static const ngx_http_mistral_command_t *
ngx_http_mistral_control_command(ngx_http_request_t *r)
{
    size_t                             len;
    u_char                            *p;
    const ngx_http_mistral_command_t  *c;

    p = r->uri.data + r->uri.len;

    while (p > r->uri.data && p[-1] != '/') {
        p--;
    }

    len = r->uri.data + r->uri.len - p;

    for (c = ngx_http_mistral_control_names; c->name; c++) {
        if (ngx_strlen(c->name) == len && ngx_memcmp(c->name, p, len) == 0) {
            return c;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_mistral_control_models(ngx_http_request_t *r,
    const ngx_http_mistral_command_t *c)
{
    u_char                         *dst, *src;
    ngx_str_t                       name;
    ngx_uint_t                      i;
    mst_api_error_t                 e;
    ngx_http_mistral_model_t       *only, **models;
    ngx_http_mistral_main_conf_t   *mmcf;

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);
    models = mmcf->models.elts;
    only = NULL;

    if (ngx_http_arg(r, (u_char *) "model", 5, &name) == NGX_OK) {

        src = name.data;
        dst = ngx_pnalloc(r->pool, name.len + 1);
        if (dst == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        name.data = dst;
        ngx_unescape_uri(&dst, &src, name.len, 0);
        name.len = dst - name.data;

        only = ngx_http_mistral_find_model(mmcf, &name);

        if (only == NULL) {
            ngx_memzero(&e, sizeof(mst_api_error_t));
            (void) mst_api_error_set(&e, NGX_HTTP_NOT_FOUND,
                                     "model_not_found", "model",
                                     "The model \"%.*s\" does not exist.",
                                     (int) ngx_min(name.len, 128),
                                     (char *) name.data);

            return ngx_http_mistral_refuse(r, &e, NULL);
        }
    }

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (only == NULL || models[i] == only) {

            ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                          "mistral model \"%V\": %s by mistral_control",
                          &models[i]->name, c->name);

            c->order(models[i]);
        }
    }

    return ngx_http_mistral_control_answer(r, only);
}


static ngx_int_t
ngx_http_mistral_control_answer(ngx_http_request_t *r,
    ngx_http_mistral_model_t *only)
{
    mst_buf_t                       out;
    ngx_uint_t                      i, n;
    ngx_http_mistral_model_t      **models;
    ngx_http_mistral_main_conf_t   *mmcf;

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);
    models = mmcf->models.elts;
    n = 0;

    mst_buf_init(&out);
    (void) mst_buf_text(&out, "{\"models\":[");

    for (i = 0; i < mmcf->models.nelts; i++) {
        if (only == NULL || models[i] == only) {
            (void) mst_buf_text(&out, n++ ? "," : "");
            ngx_http_mistral_control_model(models[i], &out);
        }
    }

    (void) mst_buf_text(&out, "]}\n");

    return ngx_http_mistral_send_json(r, NGX_HTTP_OK, &out);
}


static void
ngx_http_mistral_control_model(ngx_http_mistral_model_t *m, mst_buf_t *out)
{
    uint32_t          requests;
    uint64_t          tokens;
    const mst_map_t  *map;

    map = ngx_http_mistral_link_map(m);
    requests = 0;

    if (map) {
        mst_place_held(map->shm, &requests, &tokens);
    }

    (void) mst_buf_text(out, "{\"model\":");
    (void) mst_json_string(out, mst_str((char *) m->name.data, m->name.len));
    (void) mst_buf_printf(out, ",\"state\":\"%s\",\"requests\":%u}",
                          ngx_http_mistral_state_name(
                                            ngx_http_mistral_link_state(m)),
                          requests);
}


/* link.c looks at the word */

static void
ngx_http_mistral_control_drain(ngx_http_mistral_model_t *m)
{
    if (m->metrics) {
        atomic_store(&m->metrics->drained, 1);
    }
}


static void
ngx_http_mistral_control_resume(ngx_http_mistral_model_t *m)
{
    if (m->metrics) {
        atomic_store(&m->metrics->drained, 0);
    }

    ngx_http_mistral_breaker_resume(m);
    ngx_http_mistral_canary_resume(m);
}


static void
ngx_http_mistral_control_flush(ngx_http_mistral_model_t *m)
{
    ngx_http_mistral_link_order(m, NGX_HTTP_MISTRAL_ORDER_FLUSH);
}


/* the answer waits for the worker that has the request */

static ngx_int_t
ngx_http_mistral_control_cancel(ngx_http_request_t *r)
{
    mst_api_error_t                  e;
    ngx_http_cleanup_t              *cln;
    ngx_http_mistral_main_conf_t    *mmcf;
    ngx_http_mistral_control_ctx_t  *ctx;

    cln = ngx_http_cleanup_add(r, sizeof(ngx_http_mistral_control_ctx_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx = cln->data;
    ngx_memzero(ctx, sizeof(ngx_http_mistral_control_ctx_t));

    if (!ngx_http_mistral_control_id(r, ctx->id)) {
        ngx_memzero(&e, sizeof(mst_api_error_t));
        (void) mst_api_error_set(&e, NGX_HTTP_BAD_REQUEST, "invalid_value",
                                 "id", "id must be the id of an answer.");

        return ngx_http_mistral_refuse(r, &e, NULL);
    }

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    ctx->request = r;

    if (mmcf->table == NULL) {
        return ngx_http_mistral_control_cancelled(ctx);
    }

    ctx->number = ngx_http_mistral_cancel_order(mmcf, ctx->id);

    if (ctx->number == 0) {
        ngx_memzero(&e, sizeof(mst_api_error_t));
        (void) mst_api_error_set(&e, NGX_HTTP_SERVICE_UNAVAILABLE,
                                 "too_many_orders", "",
                                 "Too many orders are being carried out; try "
                                 "it again in a few seconds.");

        return ngx_http_mistral_refuse(r, &e, NULL);
    }

    ctx->timer.handler = ngx_http_mistral_control_look;
    ctx->timer.data = ctx;
    ctx->timer.log = r->connection->log;
    ctx->end = ngx_current_msec + NGX_HTTP_MISTRAL_ORDER_WAIT;
    cln->handler = ngx_http_mistral_control_cleanup;

    ngx_add_timer(&ctx->timer, 1);

    r->main->count++;

    return NGX_DONE;
}


static ngx_uint_t
ngx_http_mistral_control_id(ngx_http_request_t *r, char *id)
{
    u_char      c;
    size_t      i;
    ngx_str_t   value;

    if (ngx_http_arg(r, (u_char *) "id", 2, &value) != NGX_OK
        || value.len == 0 || value.len >= NGX_HTTP_MISTRAL_ORDER_ID)
    {
        return 0;
    }

    for (i = 0; i < value.len; i++) {
        c = value.data[i];

        if ((c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-') {
            return 0;
        }
    }

    ngx_memcpy(id, value.data, value.len);

    return 1;
}


static void
ngx_http_mistral_control_look(ngx_event_t *ev)
{
    ngx_connection_t                *c;
    ngx_http_request_t              *r;
    ngx_http_mistral_main_conf_t    *mmcf;
    ngx_http_mistral_control_ctx_t  *ctx;

    ctx = ev->data;
    r = ctx->request;
    c = r->connection;

    /* it may be one of this worker, who is not woken by itself alone */

    ngx_http_mistral_cancel_look();

    ngx_http_set_log_request(c->log, r);

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);

    if (!ngx_http_mistral_cancel_done(mmcf, ctx->number)
        && (ngx_msec_int_t) (ctx->end - ngx_current_msec) > 0)
    {
        ngx_add_timer(ev, NGX_HTTP_MISTRAL_CONTROL_LOOK);
        return;
    }

    ngx_http_finalize_request(r, ngx_http_mistral_control_cancelled(ctx));
    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_http_mistral_control_cancelled(ngx_http_mistral_control_ctx_t *ctx)
{
    mst_buf_t                      out;
    mst_api_error_t                e;
    ngx_http_mistral_main_conf_t  *mmcf;

    mmcf = ngx_http_get_module_main_conf(ctx->request,
                                         ngx_http_mistral_module);

    if (ctx->number && ngx_http_mistral_cancel_done(mmcf, ctx->number)) {
        mst_buf_init(&out);
        (void) mst_buf_printf(&out, "{\"id\":\"%s\",\"cancelled\":true}\n",
                              ctx->id);

        return ngx_http_mistral_send_json(ctx->request, NGX_HTTP_OK, &out);
    }

    ngx_memzero(&e, sizeof(mst_api_error_t));
    (void) mst_api_error_set(&e, NGX_HTTP_NOT_FOUND, "request_not_found", "id",
                             "No request in work has the id \"%s\".", ctx->id);

    return ngx_http_mistral_refuse(ctx->request, &e, NULL);
}


static void
ngx_http_mistral_control_cleanup(void *data)
{
    ngx_http_mistral_control_ctx_t *ctx = data;

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }
}

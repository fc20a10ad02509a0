
/*
 * An answer on its way: comments that keep a quiet stream open, readers who
 * do not read, times that it may take.
 *
 * There is one timer for a request (submit.c); this file says when something
 * is due, and looks what it is.  A timeout before the header is 504, after it
 * an error event; a comment is only sent to a request that the engine has
 * started, so that a refusal keeps its status.  Workers only, but for the
 * configuration.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_stream.h"

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_STREAM_KEEPALIVE  15000           /* ms */
#define NGX_HTTP_MISTRAL_STREAM_BUFFER     65536           /* bytes */
#define NGX_HTTP_MISTRAL_STREAM_MAX        (512 * 1024)    /* of a buffer */

#define NGX_HTTP_MISTRAL_STREAM_CLOSE      ((size_t) -2)   /* no pause */


typedef struct {
    ngx_msec_t                  keepalive;     /* 0 = off, as below */
    ngx_msec_t                  first;         /* from the start on */
    ngx_msec_t                  token;         /* to the next */
    ngx_msec_t                  duration;
    size_t                      buffer;        /* bytes, or CLOSE */
    ngx_flag_t                  ignore_abort;
} ngx_http_mistral_stream_loc_conf_t;


static ngx_msec_t ngx_http_mistral_stream_due(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_stream_tick(ngx_http_mistral_ctx_t *ctx);
static ngx_msec_t ngx_http_mistral_stream_token(ngx_http_mistral_ctx_t *ctx,
    ngx_msec_t limit);
static ngx_uint_t ngx_http_mistral_stream_quiet(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_stream_loc_conf_t *slcf);
static ngx_msec_t ngx_http_mistral_stream_left(ngx_msec_t from,
    ngx_msec_t limit);
static ngx_int_t ngx_http_mistral_stream_timeout(ngx_http_mistral_ctx_t *ctx,
    const char *code, const char *what, ngx_msec_t limit);
static void *ngx_http_mistral_stream_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_stream_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mistral_stream_time(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_mistral_stream_slow(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


static ngx_command_t  ngx_http_mistral_stream_commands[] = {

    { ngx_string("mistral_sse_keepalive"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_stream_time,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_stream_loc_conf_t, keepalive),
      NULL },

    { ngx_string("mistral_first_token_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_stream_time,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_stream_loc_conf_t, first),
      NULL },

    { ngx_string("mistral_token_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_stream_time,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_stream_loc_conf_t, token),
      NULL },

    { ngx_string("mistral_max_duration"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_stream_time,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_stream_loc_conf_t, duration),
      NULL },

    { ngx_string("mistral_slow_client"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_stream_slow,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_ignore_client_abort"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_stream_loc_conf_t, ignore_abort),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_stream_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_stream_create_loc_conf, /* create location configuration */
    ngx_http_mistral_stream_merge_loc_conf /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_stream_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_stream_module_ctx,   /* module context */
    ngx_http_mistral_stream_commands,      /* module directives */
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


const ngx_http_mistral_policy_t  ngx_http_mistral_stream_policy = {
    .due = ngx_http_mistral_stream_due,
    .tick = ngx_http_mistral_stream_tick
};


static ngx_msec_t
ngx_http_mistral_stream_due(ngx_http_mistral_ctx_t *ctx)
{
    ngx_msec_t                           due, left;
    ngx_http_mistral_stream_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(ctx->request,
                                        ngx_http_mistral_stream_module);
    due = NGX_HTTP_MISTRAL_NEVER;

    if (slcf->duration) {
        due = ngx_http_mistral_stream_left(ctx->start_ms, slcf->duration);
    }

    if (ngx_http_mistral_stream_quiet(ctx, slcf)) {
        left = ngx_http_mistral_stream_left(ctx->sent_ms, slcf->keepalive);
        due = ngx_min(due, left);
    }

    if (ctx->admitted && !ctx->first_ns && slcf->first) {
        left = ngx_http_mistral_stream_left(ctx->token_ms, slcf->first);
        due = ngx_min(due, left);
    }

    if (ctx->first_ns && slcf->token && !ctx->paused) {
        left = ngx_http_mistral_stream_token(ctx, slcf->token);
        due = ngx_min(due, left);
    }

    return due;
}


static ngx_int_t
ngx_http_mistral_stream_tick(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_stream_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(ctx->request,
                                        ngx_http_mistral_stream_module);

    if (slcf->duration
        && ngx_http_mistral_stream_left(ctx->start_ms, slcf->duration) == 0)
    {
        return ngx_http_mistral_stream_timeout(ctx, "max_duration",
                                               "took longer",
                                               slcf->duration);
    }

    if (ctx->admitted && !ctx->first_ns && slcf->first
        && ngx_http_mistral_stream_left(ctx->token_ms, slcf->first) == 0)
    {
        return ngx_http_mistral_stream_timeout(ctx, "first_token_timeout",
                                               "had no first token for more",
                                               slcf->first);
    }

    if (ctx->first_ns && slcf->token && !ctx->paused
        && ngx_http_mistral_stream_token(ctx, slcf->token) == 0)
    {
        return ngx_http_mistral_stream_timeout(ctx, "token_timeout",
                                               "had no next token for more",
                                               slcf->token);
    }

    if (ngx_http_mistral_stream_quiet(ctx, slcf)
        && ngx_http_mistral_stream_left(ctx->sent_ms, slcf->keepalive) == 0)
    {
        (void) mst_buf_text(&ctx->out, ": ping\n\n");
        ctx->sent_ms = ngx_current_msec;
    }

    return NGX_OK;
}


/* one that is paced may take so much longer */

static ngx_msec_t
ngx_http_mistral_stream_token(ngx_http_mistral_ctx_t *ctx, ngx_msec_t limit)
{
    uint32_t  i, slowest;

    slowest = 0;

    for (i = 0; i < ctx->n_choices; i++) {
        if (ctx->choices[i].call.pace
            && (slowest == 0 || ctx->choices[i].call.pace < slowest))
        {
            slowest = ctx->choices[i].call.pace;
        }
    }

    if (slowest) {
        limit += 1000000 / slowest;
    }

    return ngx_http_mistral_stream_left(ctx->token_ms, limit);
}


/* a client that reads, and gets nothing */

static ngx_uint_t
ngx_http_mistral_stream_quiet(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_stream_loc_conf_t *slcf)
{
    return slcf->keepalive && ctx->admitted && ctx->body->stream
           && !ctx->last && !ctx->closing && !ctx->gone && ctx->busy == NULL;
}


static ngx_msec_t
ngx_http_mistral_stream_left(ngx_msec_t from, ngx_msec_t limit)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (from + limit - ngx_current_msec);

    return left > 0 ? (ngx_msec_t) left : 0;
}


static ngx_int_t
ngx_http_mistral_stream_timeout(ngx_http_mistral_ctx_t *ctx, const char *code,
    const char *what, ngx_msec_t limit)
{
    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" to model \"%V\" ends: \"mistral_%s\""
                  " is over", &ctx->id, &ctx->model->name, code);

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_GATEWAY_TIME_OUT, code, "",
                             "The answer %s than %lu ms.", what,
                             (unsigned long) limit);
    return NGX_DECLINED;
}


ngx_uint_t
ngx_http_mistral_stream_goes_on(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_mistral_stream_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(ctx->request,
                                        ngx_http_mistral_stream_module);

    return slcf->ignore_abort;
}


void
ngx_http_mistral_stream_behind(ngx_http_mistral_ctx_t *ctx, size_t pending)
{
    ngx_http_mistral_stream_loc_conf_t  *slcf;

    slcf = ngx_http_get_module_loc_conf(ctx->request,
                                        ngx_http_mistral_stream_module);

    if (ctx->paused) {
        if (pending <= slcf->buffer / 2) {
            ngx_http_mistral_stream_pause(ctx, 0);
        }

        return;
    }

    if (ctx->busy && pending > slcf->buffer
        && slcf->buffer != NGX_HTTP_MISTRAL_STREAM_CLOSE)
    {
        ngx_http_mistral_stream_pause(ctx, 1);
    }
}


void
ngx_http_mistral_stream_pause(ngx_http_mistral_ctx_t *ctx, ngx_uint_t on)
{
    uint32_t  i;

    if (ctx->paused == on) {
        return;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "mistral: paused: %ui", on);

    ctx->paused = on ? 1 : 0;
    ctx->token_ms = ngx_current_msec;

    for (i = 0; i < ctx->n_choices; i++) {
        ngx_http_mistral_link_pause(&ctx->choices[i].call, on);
    }
}


static void *
ngx_http_mistral_stream_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_stream_loc_conf_t  *slcf;

    slcf = ngx_palloc(cf->pool, sizeof(ngx_http_mistral_stream_loc_conf_t));
    if (slcf == NULL) {
        return NULL;
    }

    slcf->keepalive = NGX_CONF_UNSET_MSEC;
    slcf->first = NGX_CONF_UNSET_MSEC;
    slcf->token = NGX_CONF_UNSET_MSEC;
    slcf->duration = NGX_CONF_UNSET_MSEC;
    slcf->buffer = NGX_CONF_UNSET_SIZE;
    slcf->ignore_abort = NGX_CONF_UNSET;

    return slcf;
}


static char *
ngx_http_mistral_stream_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_stream_loc_conf_t *prev = parent;
    ngx_http_mistral_stream_loc_conf_t *conf = child;

    ngx_conf_merge_msec_value(conf->keepalive, prev->keepalive,
                              NGX_HTTP_MISTRAL_STREAM_KEEPALIVE);
    ngx_conf_merge_msec_value(conf->first, prev->first, 0);
    ngx_conf_merge_msec_value(conf->token, prev->token, 0);
    ngx_conf_merge_msec_value(conf->duration, prev->duration, 0);
    ngx_conf_merge_size_value(conf->buffer, prev->buffer,
                              NGX_HTTP_MISTRAL_STREAM_BUFFER);
    ngx_conf_merge_value(conf->ignore_abort, prev->ignore_abort, 0);

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_stream_time(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t    ms;
    ngx_str_t   *value;
    ngx_msec_t  *field;

    field = (ngx_msec_t *) ((char *) conf + cmd->offset);

    if (*field != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        *field = 0;
        return NGX_CONF_OK;
    }

    ms = ngx_parse_time(&value[1], 0);

    if (ms == NGX_ERROR || ms == 0 || ms > NGX_MAX_INT32_VALUE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive, it must "
                           "be a time or \"off\"", &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    *field = (ngx_msec_t) ms;

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_stream_slow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_stream_loc_conf_t *slcf = conf;

    ssize_t     size;
    ngx_str_t  *value, number;

    if (slcf->buffer != NGX_CONF_UNSET_SIZE) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "pause") == 0) {
        slcf->buffer = 0;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "close") == 0) {
        slcf->buffer = NGX_HTTP_MISTRAL_STREAM_CLOSE;
        return NGX_CONF_OK;
    }

    if (ngx_strncmp(value[1].data, "buffer=", 7) == 0) {
        number.data = value[1].data + 7;
        number.len = value[1].len - 7;

        size = ngx_parse_size(&number);

        if (size > 0 && size <= NGX_HTTP_MISTRAL_STREAM_MAX) {
            slcf->buffer = (size_t) size;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" in \"mistral_slow_client\" "
                       "directive, it must be \"pause\", \"close\" or "
                       "\"buffer=size\", of at most 512k", &value[1]);
    return NGX_CONF_ERROR;
}

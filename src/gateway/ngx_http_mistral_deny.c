
/*
 * mistral_prompt_deny: patterns that a request's text must not match, looked
 * for before anything is computed, in slices beside other requests' work.
 *
 * It sees what the client sent: its texts are listed before the house's own
 * words are put among them, ids are looked at as the text that they spell,
 * and JSON, which a template may spell in its own way, also without its
 * escapes.  What cannot be decided in bounded time is refused.
 * Workers only, but for the directive.
 */

#include "gateway/ngx_http_mistral_policy.h"

#include "api/mst_deny.h"
#include "api/mst_json.h"
#include "text/mst_utf8.h"


typedef enum {
    NGX_HTTP_MISTRAL_DENY_USER = 0,
    NGX_HTTP_MISTRAL_DENY_LAST,
    NGX_HTTP_MISTRAL_DENY_ALL,
    NGX_HTTP_MISTRAL_DENY_SCOPES
} ngx_http_mistral_deny_scope_e;


typedef struct {
    ngx_uint_t                set;             /* also by "off" */
    mst_deny_t               *deny[NGX_HTTP_MISTRAL_DENY_SCOPES];
                                               /* NULL: nothing */
} ngx_http_mistral_deny_loc_conf_t;


/* what scopes see: each of them all that one before it sees */

#define NGX_HTTP_MISTRAL_SEEN_ALL   (1u << NGX_HTTP_MISTRAL_DENY_ALL)
#define NGX_HTTP_MISTRAL_SEEN_USER  (NGX_HTTP_MISTRAL_SEEN_ALL              \
                                     | 1u << NGX_HTTP_MISTRAL_DENY_USER)
#define NGX_HTTP_MISTRAL_SEEN_LAST  (NGX_HTTP_MISTRAL_SEEN_USER             \
                                     | 1u << NGX_HTTP_MISTRAL_DENY_LAST)


typedef struct {
    mst_str_t                 text;
    const mst_input_t        *input;           /* its ids; NULL: the text */
    ngx_uint_t                seen;            /* bits of scopes */
    const char               *field;           /* "content" */
    ngx_int_t                 index;           /* of the message or prompt;
                                                  -1: there is no more */
} ngx_http_mistral_deny_text_t;


typedef struct {
    ngx_array_t               texts;           /* of _deny_text_t */

    ngx_uint_t                scope;           /* where the search stands */
    ngx_uint_t                text;
    mst_deny_at_t             at;
    ngx_str_t                 spelled;         /* of ids; data NULL: not yet */
} ngx_http_mistral_deny_ctx_t;


static ngx_int_t ngx_http_mistral_deny_resolved(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_deny_examine(ngx_http_mistral_ctx_t *ctx,
    uint64_t end_ns);
static ngx_int_t ngx_http_mistral_deny_list(
    ngx_http_mistral_deny_ctx_t *dctx, mst_request_t *body);
static ngx_int_t ngx_http_mistral_deny_message(
    ngx_http_mistral_deny_ctx_t *dctx, const mst_message_t *m,
    ngx_int_t index, ngx_uint_t seen);
static ngx_int_t ngx_http_mistral_deny_json(
    ngx_http_mistral_deny_ctx_t *dctx, mst_str_t text, ngx_uint_t seen,
    const char *field, ngx_int_t index);
static ngx_int_t ngx_http_mistral_deny_add(ngx_http_mistral_deny_ctx_t *dctx,
    mst_str_t text, ngx_uint_t seen, const char *field, ngx_int_t index);
static ngx_int_t ngx_http_mistral_deny_text(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_deny_ctx_t *dctx, mst_str_t *text);
static ngx_int_t ngx_http_mistral_deny_spell(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_deny_ctx_t *dctx, const mst_input_t *input);
static ngx_int_t ngx_http_mistral_deny_refuse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_deny_ctx_t *dctx, mst_deny_t *deny, int rc);
static char *ngx_http_mistral_deny(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mistral_deny_scope(ngx_conf_t *cf,
    ngx_uint_t *scope);
static mst_deny_t *ngx_http_mistral_deny_create(ngx_conf_t *cf);
static void *ngx_http_mistral_deny_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_deny_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);


static ngx_command_t  ngx_http_mistral_deny_commands[] = {

    { ngx_string("mistral_prompt_deny"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_deny,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_deny_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_deny_create_loc_conf, /* create location configuration */
    ngx_http_mistral_deny_merge_loc_conf   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_deny_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_deny_module_ctx,     /* module context */
    ngx_http_mistral_deny_commands,        /* module directives */
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


const ngx_http_mistral_policy_t  ngx_http_mistral_deny_policy = {
    .resolved = ngx_http_mistral_deny_resolved,
    .examine = ngx_http_mistral_deny_examine
};


static ngx_int_t
ngx_http_mistral_deny_resolved(ngx_http_mistral_ctx_t *ctx)
{
    ngx_http_request_t                *r;
    ngx_http_mistral_deny_ctx_t       *dctx;
    ngx_http_mistral_deny_loc_conf_t  *dlcf;

    r = ctx->request;
    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_deny_module);

    if (!mst_api_answers(ctx->api)
        || (dlcf->deny[NGX_HTTP_MISTRAL_DENY_USER] == NULL
            && dlcf->deny[NGX_HTTP_MISTRAL_DENY_LAST] == NULL
            && dlcf->deny[NGX_HTTP_MISTRAL_DENY_ALL] == NULL))
    {
        return NGX_OK;
    }

    dctx = ngx_pcalloc(r->pool, sizeof(ngx_http_mistral_deny_ctx_t));

    if (dctx == NULL
        || ngx_array_init(&dctx->texts, r->pool, 8,
                          sizeof(ngx_http_mistral_deny_text_t))
           != NGX_OK
        || ngx_http_mistral_deny_list(dctx, ctx->body) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_set_ctx(r, dctx, ngx_http_mistral_deny_module);

    return NGX_OK;
}


/* each prompt of a text completion is a user's last */

static ngx_int_t
ngx_http_mistral_deny_list(ngx_http_mistral_deny_ctx_t *dctx,
    mst_request_t *body)
{
    size_t                         i, last, safe;
    ngx_uint_t                     seen;
    ngx_http_mistral_deny_text_t  *text;

    for (i = 0; i < body->n_inputs; i++) {

        if (ngx_http_mistral_deny_add(dctx, body->inputs[i].text,
                                      NGX_HTTP_MISTRAL_SEEN_LAST, "prompt",
                                      body->n_inputs == 1 ? -1
                                                          : (ngx_int_t) i)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (body->inputs[i].ids) {
            text = dctx->texts.elts;
            text[dctx->texts.nelts - 1].input = &body->inputs[i];
        }
    }

    last = body->n_messages;

    for (i = 0; i < body->n_messages; i++) {
        last = body->messages[i].role == MST_ROLE_USER ? i : last;
    }

    safe = body->safe ? 1 : 0;

    for (i = safe; i < body->n_messages; i++) {
        seen = i == last ? NGX_HTTP_MISTRAL_SEEN_LAST
               : body->messages[i].role == MST_ROLE_USER
                 ? NGX_HTTP_MISTRAL_SEEN_USER : NGX_HTTP_MISTRAL_SEEN_ALL;

        if (ngx_http_mistral_deny_message(dctx, &body->messages[i],
                                          (ngx_int_t) (i - safe), seen)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (ngx_http_mistral_deny_json(dctx, body->tools.json,
                                   NGX_HTTP_MISTRAL_SEEN_ALL, "tools", -1)
           != NGX_OK
        || ngx_http_mistral_deny_json(dctx, body->variables,
                                      NGX_HTTP_MISTRAL_SEEN_ALL,
                                      "chat_template_kwargs", -1)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mistral_deny_add(dctx, body->suffix,
                                     NGX_HTTP_MISTRAL_SEEN_LAST, "suffix",
                                     -1);
}


static ngx_int_t
ngx_http_mistral_deny_message(ngx_http_mistral_deny_ctx_t *dctx,
    const mst_message_t *m, ngx_int_t index, ngx_uint_t seen)
{
    size_t     i;
    ngx_int_t  rc;

    rc = m->role == MST_ROLE_TOOL
         ? ngx_http_mistral_deny_json(dctx, m->content, seen, "content",
                                      index)
         : ngx_http_mistral_deny_add(dctx, m->content, seen, "content",
                                     index);

    if (rc != NGX_OK
        || ngx_http_mistral_deny_add(dctx, m->thinking, seen,
                                     "reasoning_content", index)
           != NGX_OK
        || ngx_http_mistral_deny_add(dctx, m->name, seen, "name", index)
           != NGX_OK
        || ngx_http_mistral_deny_add(dctx, m->call_id, seen, "tool_call_id",
                                     index)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < m->n_parts; i++) {

        if (m->parts[i].thinking
            && ngx_http_mistral_deny_add(dctx, m->parts[i].text, seen,
                                         "content", index)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    for (i = 0; i < m->n_calls; i++) {

        if (ngx_http_mistral_deny_json(dctx, m->calls[i].arguments, seen,
                                       "tool_calls", index)
               != NGX_OK
            || ngx_http_mistral_deny_add(dctx, m->calls[i].name, seen,
                                         "tool_calls", index)
               != NGX_OK
            || ngx_http_mistral_deny_add(dctx, m->calls[i].id, seen,
                                         "tool_calls", index)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* what may be JSON: in the prompt its escapes may be gone */

static ngx_int_t
ngx_http_mistral_deny_json(ngx_http_mistral_deny_ctx_t *dctx, mst_str_t text,
    ngx_uint_t seen, const char *field, ngx_int_t index)
{
    char       *p;
    mst_str_t   plain;

    if (ngx_http_mistral_deny_add(dctx, text, seen, field, index) != NGX_OK) {
        return NGX_ERROR;
    }

    if (text.len == 0 || memchr(text.data, '\\', text.len) == NULL) {
        return NGX_OK;
    }

    p = ngx_pnalloc(dctx->texts.pool, text.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    plain = mst_str(p, mst_json_unescape(text, p));

    return ngx_http_mistral_deny_add(dctx, plain, seen, field, index);
}


static ngx_int_t
ngx_http_mistral_deny_add(ngx_http_mistral_deny_ctx_t *dctx, mst_str_t text,
    ngx_uint_t seen, const char *field, ngx_int_t index)
{
    ngx_http_mistral_deny_text_t  *t;

    t = ngx_array_push(&dctx->texts);
    if (t == NULL) {
        return NGX_ERROR;
    }

    t->text = text;
    t->input = NULL;
    t->seen = seen;
    t->field = field;
    t->index = index;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_deny_examine(ngx_http_mistral_ctx_t *ctx, uint64_t end_ns)
{
    int                                rc;
    mst_str_t                          text;
    mst_deny_t                        *deny;
    ngx_http_request_t                *r;
    ngx_http_mistral_deny_ctx_t       *dctx;
    ngx_http_mistral_deny_text_t      *texts;
    ngx_http_mistral_deny_loc_conf_t  *dlcf;

    r = ctx->request;
    dctx = ngx_http_get_module_ctx(r, ngx_http_mistral_deny_module);
    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_deny_module);

    while (dctx && dctx->scope < NGX_HTTP_MISTRAL_DENY_SCOPES) {

        texts = dctx->texts.elts;
        deny = dlcf->deny[dctx->scope];

        if (deny == NULL || dctx->text == dctx->texts.nelts) {
            dctx->scope++;
            dctx->text = 0;
            continue;
        }

        if (texts[dctx->text].seen & 1u << dctx->scope) {

            if (ngx_http_mistral_deny_text(ctx, dctx, &text) != NGX_OK) {
                return NGX_ERROR;
            }

            rc = mst_deny_run(deny, &dctx->at, text, end_ns);

            if (rc == MST_AGAIN) {
                return NGX_AGAIN;
            }

            if (rc != MST_OK) {
                return ngx_http_mistral_deny_refuse(ctx, dctx, deny, rc);
            }

            ngx_memzero(&dctx->at, sizeof(mst_deny_at_t));

            if (dctx->spelled.data) {
                (void) ngx_pfree(r->pool, dctx->spelled.data);
                dctx->spelled.data = NULL;
            }
        }

        dctx->text++;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_deny_text(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_deny_ctx_t *dctx, mst_str_t *text)
{
    ngx_http_mistral_deny_text_t  *t;

    t = dctx->texts.elts;
    t += dctx->text;
    *text = t->text;

    if (t->input == NULL) {
        return NGX_OK;
    }

    if (dctx->spelled.data == NULL
        && ngx_http_mistral_deny_spell(ctx, dctx, t->input) != NGX_OK)
    {
        return NGX_ERROR;
    }

    *text = mst_str((char *) dctx->spelled.data, dctx->spelled.len);

    return NGX_OK;
}


/* more ids than the context holds are refused for that, and soon */

static ngx_int_t
ngx_http_mistral_deny_spell(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_deny_ctx_t *dctx, const mst_input_t *input)
{
    int         rc;
    size_t      n;
    mst_buf_t   raw, text;
    mst_utf8_t  utf8;

    mst_buf_init(&raw);
    mst_buf_init(&text);
    mst_utf8_init(&utf8);

    n = ngx_min(input->n_ids, ngx_http_mistral_context(ctx->model));

    rc = ngx_http_mistral_spell(ctx, input->ids, n, &raw);

    if (rc == MST_OK) {
        rc = mst_utf8_push(&utf8, raw.data, raw.len, &text);
    }

    if (rc == MST_OK) {
        rc = mst_utf8_finish(&utf8, &text);
    }

    dctx->spelled.len = text.len;
    dctx->spelled.data = ngx_pnalloc(ctx->request->pool, text.len + 1);

    if (rc == MST_OK && dctx->spelled.data && text.len) {
        ngx_memcpy(dctx->spelled.data, text.data, text.len);
    }

    mst_buf_fini(&raw);
    mst_buf_fini(&text);

    return rc == MST_OK && dctx->spelled.data ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_mistral_deny_refuse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_deny_ctx_t *dctx, mst_deny_t *deny, int rc)
{
    u_char                        *end;
    char                           param[64];
    mst_str_t                      pattern;
    ngx_http_mistral_deny_text_t  *t;

    if (rc != MST_DECLINED && rc != MST_BUSY) {
        return NGX_ERROR;
    }

    pattern = mst_deny_pattern(deny, dctx->at.pattern);

    ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                  "mistral: request \"%V\" refused: its text %s the pattern "
                  "\"%*s\" of \"mistral_prompt_deny\"", &ctx->id,
                  rc == MST_DECLINED ? "matches"
                                     : "cannot be searched in time for",
                  pattern.len, pattern.data);

    t = dctx->texts.elts;
    t += dctx->text;

    if (t->index < 0) {
        end = ngx_snprintf((u_char *) param, sizeof(param) - 1, "%s",
                           t->field);

    } else if (ctx->body->n_inputs) {
        end = ngx_snprintf((u_char *) param, sizeof(param) - 1, "%s[%i]",
                           t->field, t->index);

    } else {
        end = ngx_snprintf((u_char *) param, sizeof(param) - 1,
                           "messages[%i].%s", t->index, t->field);
    }

    *end = '\0';

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "content_policy_violation", param, "%s",
                             rc == MST_DECLINED
                             ? "The text holds what is not allowed here."
                             : "The text cannot be checked for what is not "
                               "allowed here.");

    return NGX_DECLINED;
}


static char *
ngx_http_mistral_deny(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_deny_loc_conf_t *dlcf = conf;

    mst_err_t    err;
    ngx_str_t   *value;
    ngx_uint_t   i, scope;

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {

        if (dlcf->set) {
            return "is duplicate";
        }

        dlcf->set = 1;

        return NGX_CONF_OK;
    }

    if (dlcf->set && dlcf->deny[NGX_HTTP_MISTRAL_DENY_USER] == NULL
        && dlcf->deny[NGX_HTTP_MISTRAL_DENY_LAST] == NULL
        && dlcf->deny[NGX_HTTP_MISTRAL_DENY_ALL] == NULL)
    {
        return "stands beside \"off\"";
    }

    dlcf->set = 1;

    if (ngx_http_mistral_deny_scope(cf, &scope) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (dlcf->deny[scope] == NULL) {
        dlcf->deny[scope] = ngx_http_mistral_deny_create(cf);

        if (dlcf->deny[scope] == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "scope=", 6) == 0) {
            continue;
        }

        err.text[0] = '\0';

        if (mst_deny_add(dlcf->deny[scope], mst_str((char *) value[i].data,
                                                    value[i].len), &err)
            != MST_OK)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", err.text);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* of the whole line, wherever it stands */

static ngx_int_t
ngx_http_mistral_deny_scope(ngx_conf_t *cf, ngx_uint_t *scope)
{
    ngx_str_t   *value;
    ngx_uint_t   i, j, n;

    static ngx_str_t  scopes[NGX_HTTP_MISTRAL_DENY_SCOPES] = {
        ngx_string("scope=user"),
        ngx_string("scope=last"),
        ngx_string("scope=all")
    };

    value = cf->args->elts;
    *scope = NGX_HTTP_MISTRAL_DENY_USER;
    n = 0;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "scope=", 6) != 0) {
            continue;
        }

        for (j = 0; j < NGX_HTTP_MISTRAL_DENY_SCOPES; j++) {

            if (ngx_strcmp(value[i].data, scopes[j].data) == 0) {
                *scope = j;
                break;
            }
        }

        if (j == NGX_HTTP_MISTRAL_DENY_SCOPES || n++) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\", it must be once "
                               "\"scope=user\", \"scope=last\" or "
                               "\"scope=all\"", &value[i]);
            return NGX_ERROR;
        }
    }

    if (n == cf->args->nelts - 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no pattern is given in \"mistral_prompt_deny\"");
        return NGX_ERROR;
    }

    return NGX_OK;
}


static mst_deny_t *
ngx_http_mistral_deny_create(ngx_conf_t *cf)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = (ngx_pool_cleanup_pt) mst_deny_destroy;
    cln->data = mst_deny_create();

    return cln->data;
}


static void *
ngx_http_mistral_deny_create_loc_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_deny_loc_conf_t));
}


/* all or nothing, as add_header */

static char *
ngx_http_mistral_deny_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_deny_loc_conf_t *prev = parent;
    ngx_http_mistral_deny_loc_conf_t *conf = child;

    if (!conf->set) {
        *conf = *prev;
    }

    return NGX_CONF_OK;
}

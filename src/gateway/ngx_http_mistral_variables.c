
/*
 * $mistral_*: what the access log, map and limit_req see of a request.  They
 * are final in the log, after an internal redirect too.  What is not known
 * (yet) is not found.
 */

#include "gateway/ngx_http_mistral_preread.h"
#include "gateway/ngx_http_mistral_request.h"

#include "api/mst_fit.h"
#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_NO_CONTEXT  NGX_MAX_UINT32_VALUE


typedef enum {
    NGX_HTTP_MISTRAL_VAR_PROMPT = 0,
    NGX_HTTP_MISTRAL_VAR_CACHED,
    NGX_HTTP_MISTRAL_VAR_COMPLETION,
    NGX_HTTP_MISTRAL_VAR_TOTAL,
    NGX_HTTP_MISTRAL_VAR_DELIVERED,
    NGX_HTTP_MISTRAL_VAR_WASTED,
    NGX_HTTP_MISTRAL_VAR_PREEMPTIONS,
    NGX_HTTP_MISTRAL_VAR_MESSAGES,
    NGX_HTTP_MISTRAL_VAR_TURNS,
    NGX_HTTP_MISTRAL_VAR_MAX_TOKENS
} ngx_http_mistral_count_e;


typedef enum {
    NGX_HTTP_MISTRAL_VAR_QUEUE = 0,
    NGX_HTTP_MISTRAL_VAR_PREFILL,
    NGX_HTTP_MISTRAL_VAR_DECODE,
    NGX_HTTP_MISTRAL_VAR_TTFT,
    NGX_HTTP_MISTRAL_VAR_TPOT
} ngx_http_mistral_time_e;


typedef enum {
    NGX_HTTP_MISTRAL_VAR_MODEL = 0,            /* these three: the body's */
    NGX_HTTP_MISTRAL_VAR_STREAM,
    NGX_HTTP_MISTRAL_VAR_USER,
    NGX_HTTP_MISTRAL_VAR_API,
    NGX_HTTP_MISTRAL_VAR_EFFECTIVE,
    NGX_HTTP_MISTRAL_VAR_ID,
    NGX_HTTP_MISTRAL_VAR_FINISH,
    NGX_HTTP_MISTRAL_VAR_PHASE,
    NGX_HTTP_MISTRAL_VAR_SHED
} ngx_http_mistral_text_e;


static ngx_int_t ngx_http_mistral_text_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_count_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_max_tokens(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, ngx_http_variable_value_t *v);
static ngx_int_t ngx_http_mistral_time_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static void ngx_http_mistral_text(ngx_http_mistral_ctx_t *ctx,
    uintptr_t data, ngx_str_t *text);
static ngx_int_t ngx_http_mistral_one_line(ngx_pool_t *pool,
    ngx_str_t *text);
static const char *ngx_http_mistral_api_name(mst_api_t api);
static const char *ngx_http_mistral_finish_reason(
    ngx_http_mistral_ctx_t *ctx);
static ngx_uint_t ngx_http_mistral_time(ngx_http_mistral_ctx_t *ctx,
    uintptr_t data, uint64_t *ns);


static ngx_http_variable_t  ngx_http_mistral_vars[] = {

    { ngx_string("mistral_api"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_API,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_model"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_MODEL,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_effective_model"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_EFFECTIVE,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_request_id"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_ID,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_stream"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_STREAM,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_user"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_USER,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_finish_reason"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_FINISH,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_abort_phase"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_PHASE,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_shed_reason"), NULL,
      ngx_http_mistral_text_variable, NGX_HTTP_MISTRAL_VAR_SHED,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_prompt_tokens"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_PROMPT,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_cached_tokens"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_CACHED,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_completion_tokens"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_COMPLETION,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_total_tokens"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_TOTAL,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_delivered_tokens"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_DELIVERED,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_wasted_tokens"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_WASTED,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_preemptions"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_PREEMPTIONS,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_messages"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_MESSAGES,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_turns"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_TURNS,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_max_tokens"), NULL,
      ngx_http_mistral_count_variable, NGX_HTTP_MISTRAL_VAR_MAX_TOKENS,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_queue_time"), NULL,
      ngx_http_mistral_time_variable, NGX_HTTP_MISTRAL_VAR_QUEUE,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_prefill_time"), NULL,
      ngx_http_mistral_time_variable, NGX_HTTP_MISTRAL_VAR_PREFILL,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_decode_time"), NULL,
      ngx_http_mistral_time_variable, NGX_HTTP_MISTRAL_VAR_DECODE,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_ttft"), NULL,
      ngx_http_mistral_time_variable, NGX_HTTP_MISTRAL_VAR_TTFT,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_tpot"), NULL,
      ngx_http_mistral_time_variable, NGX_HTTP_MISTRAL_VAR_TPOT,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_int_t
ngx_http_mistral_text_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                text;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_outer_ctx(r);

    ngx_str_null(&text);

    if (ctx) {
        ngx_http_mistral_text(ctx, data, &text);

    } else if (data <= NGX_HTTP_MISTRAL_VAR_USER) {
        ngx_http_mistral_preread_missed(r);
    }

    if ((data == NGX_HTTP_MISTRAL_VAR_MODEL
         || data == NGX_HTTP_MISTRAL_VAR_USER)
        && ngx_http_mistral_one_line(r->pool, &text) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mistral_string(v, &text);
}


/*
 * A string of a body may hold what no other variable of a client's can: in
 * a header that is made of it a line feed would begin another one.
 */

static ngx_int_t
ngx_http_mistral_one_line(ngx_pool_t *pool, ngx_str_t *text)
{
    size_t   i;
    u_char  *p;

    p = NULL;

    for (i = 0; i < text->len; i++) {

        if (text->data[i] >= ' ' && text->data[i] != 0x7f) {
            continue;
        }

        if (p == NULL) {
            p = ngx_pnalloc(pool, text->len);
            if (p == NULL) {
                return NGX_ERROR;
            }

            ngx_memcpy(p, text->data, text->len);
            text->data = p;
        }

        p[i] = '?';
    }

    return NGX_OK;
}


static void
ngx_http_mistral_text(ngx_http_mistral_ctx_t *ctx, uintptr_t data,
    ngx_str_t *text)
{
    const char  *name;

    name = NULL;

    switch (data) {

    case NGX_HTTP_MISTRAL_VAR_API:
        name = ngx_http_mistral_api_name(ctx->api);
        break;

    case NGX_HTTP_MISTRAL_VAR_MODEL:
        if (ctx->body) {
            text->data = (u_char *) ctx->body->model.data;
            text->len = ctx->body->model.len;
        }

        break;

    case NGX_HTTP_MISTRAL_VAR_EFFECTIVE:
        if (ctx->model) {
            *text = ctx->model->name;
        }

        break;

    case NGX_HTTP_MISTRAL_VAR_ID:
        *text = ctx->id;
        break;

    case NGX_HTTP_MISTRAL_VAR_STREAM:
        name = ctx->body == NULL ? NULL : ctx->body->stream ? "1" : "0";
        break;

    case NGX_HTTP_MISTRAL_VAR_USER:
        if (ctx->body) {
            text->data = (u_char *) ctx->body->user.data;
            text->len = ctx->body->user.len;
        }

        break;

    case NGX_HTTP_MISTRAL_VAR_FINISH:
        name = ngx_http_mistral_finish_reason(ctx);
        break;

    case NGX_HTTP_MISTRAL_VAR_PHASE:
        name = ctx->phase;
        break;

    case NGX_HTTP_MISTRAL_VAR_SHED:
        name = ctx->shed;
        break;
    }

    if (name) {
        text->data = (u_char *) name;
        text->len = ngx_strlen(name);
    }
}


static const char *
ngx_http_mistral_api_name(mst_api_t api)
{
    switch (api) {

    case MST_API_CHAT:
        return "chat";

    case MST_API_COMPLETION:
        return "completion";

    case MST_API_FIM:
        return "fim";

    case MST_API_MODELS:
        return "models";

    case MST_API_MODEL:
        return "model";

    case MST_API_TOKENIZE:
        return "tokenize";

    case MST_API_DETOKENIZE:
        return "detokenize";

    default:
        return NULL;
    }
}


/* of several answers "length" if one was cut, as billing would ask */

static const char *
ngx_http_mistral_finish_reason(ngx_http_mistral_ctx_t *ctx)
{
    uint32_t  i;

    if (ctx->aborted) {
        return ctx->aborted;
    }

    if (ctx->n_choices == 0 || ctx->n_done < ctx->n_choices) {
        return NULL;
    }

    for (i = 0; i < ctx->n_choices; i++) {
        if (ngx_strcmp(ctx->choices[i].reason, "length") == 0) {
            return "length";
        }
    }

    return "stop";
}


static ngx_int_t
ngx_http_mistral_count_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t                 n;
    mst_usage_t              usage;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_outer_ctx(r);

    v->not_found = 1;

    if (data == NGX_HTTP_MISTRAL_VAR_MAX_TOKENS) {
        return ngx_http_mistral_max_tokens(r, ctx, v);
    }

    if (data == NGX_HTTP_MISTRAL_VAR_MESSAGES) {

        if (ctx == NULL) {
            ngx_http_mistral_preread_missed(r);
        }

        return ctx && ctx->body && ctx->body->n_messages
               ? ngx_http_mistral_number(r, ctx->body->n_messages, v)
               : NGX_OK;
    }

    if (data == NGX_HTTP_MISTRAL_VAR_TURNS) {
        return ctx ? ngx_http_mistral_number(r, ctx->turns, v) : NGX_OK;
    }

    if (ctx == NULL || ctx->n_choices == 0) {
        return NGX_OK;
    }

    ngx_http_mistral_usage(ctx, &usage);

    switch (data) {

    case NGX_HTTP_MISTRAL_VAR_PROMPT:
        n = usage.prompt;
        break;

    case NGX_HTTP_MISTRAL_VAR_CACHED:
        n = usage.cached;
        break;

    case NGX_HTTP_MISTRAL_VAR_COMPLETION:
        n = usage.completion;
        break;

    case NGX_HTTP_MISTRAL_VAR_TOTAL:
        n = (uint64_t) usage.prompt + usage.completion;
        break;

    case NGX_HTTP_MISTRAL_VAR_DELIVERED:
        n = ngx_http_mistral_delivered(ctx);
        break;

    case NGX_HTTP_MISTRAL_VAR_WASTED:
        n = ngx_http_mistral_wasted(ctx);
        break;

    default:
        n = usage.preemptions;
    }

    return ngx_http_mistral_number(r, n, v);
}


/* before the prompt is counted: what the client asks for, if anything */

static ngx_int_t
ngx_http_mistral_max_tokens(ngx_http_request_t *r,
    ngx_http_mistral_ctx_t *ctx, ngx_http_variable_value_t *v)
{
    mst_request_t    *body;
    mst_api_error_t   e;

    if (ctx == NULL) {
        ngx_http_mistral_preread_missed(r);
        return NGX_OK;
    }

    body = ctx->body;

    if (body == NULL || !mst_api_answers(body->api)) {
        return NGX_OK;
    }

    if (ctx->n_choices == 0) {
        (void) mst_fit_length(body, 0, 1, NGX_HTTP_MISTRAL_NO_CONTEXT, &e);

        if (body->params.max_tokens == NGX_HTTP_MISTRAL_NO_CONTEXT - 1) {
            return NGX_OK;
        }
    }

    return ngx_http_mistral_number(r, body->params.max_tokens, v);
}


ngx_int_t
ngx_http_mistral_string(ngx_http_variable_value_t *v, ngx_str_t *text)
{
    if (text->len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = text->data;
    v->len = text->len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_number(ngx_http_request_t *r, uint64_t n,
    ngx_http_variable_value_t *v)
{
    ngx_str_t  text;

    text.data = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (text.data == NULL) {
        return NGX_ERROR;
    }

    text.len = ngx_sprintf(text.data, "%uL", n) - text.data;

    return ngx_http_mistral_string(v, &text);
}


ngx_int_t
ngx_http_mistral_thousandths(ngx_http_request_t *r, uint64_t n,
    ngx_http_variable_value_t *v)
{
    ngx_str_t  text;

    text.data = ngx_pnalloc(r->pool, NGX_INT64_LEN + 4);
    if (text.data == NULL) {
        return NGX_ERROR;
    }

    text.len = ngx_sprintf(text.data, "%uL.%03uL", n / 1000, n % 1000)
               - text.data;

    return ngx_http_mistral_string(v, &text);
}


static ngx_int_t
ngx_http_mistral_time_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t                 ns;
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_outer_ctx(r);

    v->not_found = 1;

    if (ctx == NULL || !ngx_http_mistral_time(ctx, data, &ns)) {
        return NGX_OK;
    }

    return ngx_http_mistral_thousandths(r, (ns + MST_MS / 2) / MST_MS, v);
}


static ngx_uint_t
ngx_http_mistral_time(ngx_http_mistral_ctx_t *ctx, uintptr_t data,
    uint64_t *ns)
{
    mst_usage_t  usage;

    if (data == NGX_HTTP_MISTRAL_VAR_TTFT) {
        *ns = ctx->first_ns - ctx->start_ns;
        return ctx->first_ns != 0;
    }

    if (ctx->n_choices == 0) {
        return 0;
    }

    ngx_http_mistral_usage(ctx, &usage);

    /* the others are the engine's, and come with its last record; where that
       will never come, it is known how long those waited that began */

    if (ctx->n_done < ctx->n_choices) {
        *ns = usage.queue_ns;
        return data == NGX_HTTP_MISTRAL_VAR_QUEUE && ctx->error.status
               && usage.queue_ns;
    }

    switch (data) {

    case NGX_HTTP_MISTRAL_VAR_QUEUE:
        *ns = usage.queue_ns;
        return 1;

    case NGX_HTTP_MISTRAL_VAR_PREFILL:
        *ns = usage.prefill_ns;
        return 1;

    case NGX_HTTP_MISTRAL_VAR_DECODE:
        *ns = usage.decode_ns;
        return 1;

    default:
        if (usage.completion <= ctx->n_choices) {
            return 0;
        }

        *ns = usage.decode_ns
              / ((usage.completion - ctx->n_choices) / ctx->n_choices
                 + ((usage.completion - ctx->n_choices) % ctx->n_choices
                    != 0));
        return 1;
    }
}


ngx_int_t
ngx_http_mistral_add_variables(ngx_conf_t *cf)
{
    if (ngx_http_mistral_add_table(cf, ngx_http_mistral_vars) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mistral_add_state_variables(cf);
}


ngx_int_t
ngx_http_mistral_add_table(ngx_conf_t *cf, ngx_http_variable_t *v)
{
    ngx_http_variable_t  *var;

    for ( /* void */ ; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}

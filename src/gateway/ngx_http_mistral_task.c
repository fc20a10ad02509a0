
/*
 * mistral_system_prompt, and mistral_task: named system prompts and sampling
 * defaults.  The location's variable says which task it is; where it says
 * nothing the body's "task" does, then a line "task: NAME" at the head of the
 * chat's first system message.
 *
 * The location's prompt is the outer one, the task's stands inside of it.
 * What of them is the same in each request, and stands at the head of the
 * prompt, is to stay in the prefix cache longer than what others said there.
 * Workers only; ngx_http_mistral_task_conf.c reads the configuration.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_task.h"


typedef struct {
    size_t                      fixed;         /* bytes at the head of the
                                                  system message */
    uint32_t                    keep;          /* tokens that they are for */
    ngx_http_mistral_model_t   *model;
} ngx_http_mistral_task_ctx_t;


static ngx_int_t ngx_http_mistral_task_resolved(ngx_http_mistral_ctx_t *ctx);
static ngx_int_t ngx_http_mistral_task_choose(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_task_loc_conf_t *tlcf, ngx_http_mistral_task_t **task);
static ngx_int_t ngx_http_mistral_task_name(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_task_loc_conf_t *tlcf, ngx_str_t *name,
    const char **param);
static ngx_int_t ngx_http_mistral_task_prompts(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_system_t *outer, ngx_http_mistral_system_t *inner);
static ngx_int_t ngx_http_mistral_task_fixed(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_system_t **system, const mst_system_t *s, size_t n);
static void ngx_http_mistral_task_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s);
static ngx_int_t ngx_http_mistral_task_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_task_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


/* of one name: nginx tells a block from a line by where it may stand */

static ngx_command_t  ngx_http_mistral_task_commands[] = {

    { ngx_string("mistral_system_prompt"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE12,
      ngx_http_mistral_task_system,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_task"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_http_mistral_task_block,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_task"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_task_choice,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_task_module_ctx = {
    ngx_http_mistral_task_add_variables,   /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_task_create_loc_conf, /* create location configuration */
    ngx_http_mistral_task_merge_loc_conf   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_task_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_task_module_ctx,     /* module context */
    ngx_http_mistral_task_commands,        /* module directives */
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


const ngx_http_mistral_policy_t  ngx_http_mistral_task_policy = {
    .resolved = ngx_http_mistral_task_resolved,
    .submit = ngx_http_mistral_task_submit
};


static ngx_http_variable_t  ngx_http_mistral_task_vars[] = {

    { ngx_string("mistral_task"), NULL,
      ngx_http_mistral_task_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_int_t
ngx_http_mistral_task_resolved(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                          rc;
    ngx_http_mistral_task_t           *task;
    ngx_http_mistral_task_loc_conf_t  *tlcf;

    if (!mst_api_answers(ctx->api)) {
        return NGX_OK;
    }

    tlcf = ngx_http_get_module_loc_conf(ctx->request,
                                        ngx_http_mistral_task_module);

    rc = ngx_http_mistral_task_choose(ctx, tlcf, &task);

    if (rc != NGX_OK) {
        return rc;
    }

    if (task) {
        ctx->task = task->name;

        if (mst_task_apply(task->defaults, ctx->body) != MST_OK) {
            return NGX_ERROR;
        }
    }

    if (ctx->api != MST_API_CHAT) {
        if (task == NULL || task->system == NULL) {
            return NGX_OK;
        }

        (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                                 "unsupported", "task",
                                 "The task \"%.*s\" has a system prompt, which "
                                 "only a chat can have.",
                                 (int) task->name.len,
                                 (char *) task->name.data);
        return NGX_DECLINED;
    }

    if (ngx_http_mistral_task_prompts(ctx, tlcf->system,
                                      task ? task->system : NULL)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ctx->body->n_messages == 0) {
        (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                                 "invalid_value", "messages",
                                 "The messages say nothing but the task's "
                                 "name.");
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_task_choose(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_task_loc_conf_t *tlcf, ngx_http_mistral_task_t **task)
{
    ngx_str_t    name;
    const char  *param;

    *task = NULL;

    if (ngx_http_mistral_task_name(ctx, tlcf, &name, &param) != NGX_OK) {
        return NGX_ERROR;
    }

    if (name.len == 0) {
        return NGX_OK;
    }

    *task = ngx_http_mistral_task_find(tlcf->tasks, &name);

    if (*task) {
        return NGX_OK;
    }

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_BAD_REQUEST,
                             "task_not_found", param,
                             "The task \"%.*s\" does not exist.",
                             (int) ngx_min(name.len, 128),
                             (char *) name.data);
    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mistral_task_name(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_task_loc_conf_t *tlcf, ngx_str_t *name,
    const char **param)
{
    mst_str_t  s;

    *param = "task";
    ngx_str_null(name);

    if (tlcf->choice
        && ngx_http_complex_value(ctx->request, tlcf->choice, name) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (name->len) {
        return NGX_OK;
    }

    s = ctx->body->task;

    /* where there are no tasks that line is a text like any other */

    if (s.len == 0 && tlcf->tasks && ctx->api == MST_API_CHAT
        && mst_task_take(ctx->body, &s) == MST_OK)
    {
        *param = "messages[0].content";
    }

    name->len = s.len;
    name->data = (u_char *) s.data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_task_prompts(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_system_t *outer, ngx_http_mistral_system_t *inner)
{
    size_t                      n;
    ngx_uint_t                  i;
    mst_system_t                s[2];
    ngx_http_mistral_system_t  *system[2] = { outer, inner };

    n = 0;

    for (i = 0; i < 2; i++) {

        if (system[i] == NULL) {
            continue;
        }

        if (ngx_http_mistral_system_eval(ctx->request, system[i], &s[n])
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        system[n] = system[i];
        n += s[n].text.len ? 1 : 0;
    }

    if (n == 0) {
        return NGX_OK;
    }

    if (mst_system_apply(ctx->body, s, n) != MST_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mistral_task_fixed(ctx, system, s, n);
}


/* what the system message begins with whoever asks */

static ngx_int_t
ngx_http_mistral_task_fixed(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_system_t **system, const mst_system_t *s, size_t n)
{
    size_t                        i, fixed;
    ngx_http_mistral_task_ctx_t  *tctx;

    fixed = 0;

    for (i = 0; i < n; i++) {

        if (s[i].how == MST_SYSTEM_APPEND) {
            continue;
        }

        if (!ngx_http_mistral_system_static(system[i])) {
            break;
        }

        fixed += s[i].text.len + (fixed ? sizeof("\n\n") - 1 : 0);
    }

    if (fixed == 0) {
        return NGX_OK;
    }

    tctx = ngx_pcalloc(ctx->request->pool,
                       sizeof(ngx_http_mistral_task_ctx_t));
    if (tctx == NULL) {
        return NGX_ERROR;
    }

    tctx->fixed = fixed;
    ngx_http_set_ctx(ctx->request, tctx, ngx_http_mistral_task_module);

    return NGX_OK;
}


static void
ngx_http_mistral_task_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s)
{
    ngx_http_mistral_task_ctx_t  *tctx;

    tctx = ngx_http_get_module_ctx(ctx->request, ngx_http_mistral_task_module);

    if (tctx == NULL) {
        return;
    }

    if (tctx->model != ctx->model) {
        tctx->keep = ngx_http_mistral_system_ids(ctx, choice->source,
                                                 tctx->fixed);
        tctx->model = ctx->model;
    }

    s->claim.keep = tctx->keep;
}


static ngx_int_t
ngx_http_mistral_task_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_task_vars);
}


static ngx_int_t
ngx_http_mistral_task_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_get_ctx(r);

    if (ctx == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_mistral_string(v, &ctx->task);
}


/*
 * mistral_system_prompt, and mistral_task: named system prompts and sampling
 * defaults.  The location's variable says which task it is; where it says
 * nothing the body's "task" does, then a line "task: NAME" at the head of the
 * chat's first system message.
 *
 * The location's prompt is the outer one, the task's stands inside of it.
 * What of them is the same in each request, and stands at the head of the
 * prompt, is to stay in the prefix cache longer than what others said there.
 * Workers only, but for the configuration.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_system.h"

#include "api/mst_task.h"


typedef struct {
    ngx_str_t                   name;
    mst_task_t                 *defaults;
    ngx_http_mistral_system_t  *system;        /* NULL: none */
} ngx_http_mistral_task_t;


typedef struct {
    ngx_http_mistral_system_t  *system;        /* NULL: off */
    ngx_http_complex_value_t   *choice;        /* NULL: the request's */
    ngx_array_t                *tasks;         /* of _task_t; NULL: none */

    /* of mistral_task NAME, until the tasks are known */
    u_char                     *file_name;
    ngx_uint_t                  line;
} ngx_http_mistral_task_loc_conf_t;


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
static ngx_http_mistral_task_t *ngx_http_mistral_task_find(
    ngx_array_t *tasks, ngx_str_t *name);
static char *ngx_http_mistral_task_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_mistral_task_line(ngx_conf_t *cf, ngx_command_t *dummy,
    void *conf);
static char *ngx_http_mistral_task_choice(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_mistral_task_system(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static void *ngx_http_mistral_task_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_task_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
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


static ngx_http_mistral_task_t *
ngx_http_mistral_task_find(ngx_array_t *tasks, ngx_str_t *name)
{
    ngx_uint_t                i;
    ngx_http_mistral_task_t  *task;

    if (tasks == NULL) {
        return NULL;
    }

    task = tasks->elts;

    for (i = 0; i < tasks->nelts; i++) {
        if (task[i].name.len == name->len
            && ngx_memcmp(task[i].name.data, name->data, name->len) == 0)
        {
            return &task[i];
        }
    }

    return NULL;
}


static char *
ngx_http_mistral_task_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_task_loc_conf_t *tlcf = conf;

    char                     *rv;
    mst_err_t                 err;
    ngx_str_t                *value;
    ngx_conf_t                save;
    ngx_pool_cleanup_t       *cln;
    ngx_http_mistral_task_t  *task;

    value = cf->args->elts;

    if (!mst_task_is_name(mst_str((char *) value[1].data, value[1].len))) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid task name \"%V\", it must be 1 to %d "
                           "letters, digits, \".\", \"_\" or \"-\"",
                           &value[1], MST_TASK_MAX_NAME);
        return NGX_CONF_ERROR;
    }

    if (tlcf->tasks == NULL) {
        tlcf->tasks = ngx_array_create(cf->pool, 4,
                                       sizeof(ngx_http_mistral_task_t));
        if (tlcf->tasks == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_mistral_task_find(tlcf->tasks, &value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate mistral_task name \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    task = ngx_array_push(tlcf->tasks);

    if (cln == NULL || task == NULL) {
        return NGX_CONF_ERROR;
    }

    task->name = value[1];
    task->system = NULL;
    task->defaults = mst_task_create();

    if (task->defaults == NULL) {
        return NGX_CONF_ERROR;
    }

    cln->handler = (ngx_pool_cleanup_pt) mst_task_destroy;
    cln->data = task->defaults;

    save = *cf;
    cf->handler = ngx_http_mistral_task_line;
    cf->handler_conf = (void *) task;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    err.text[0] = '\0';

    if (mst_task_close(task->defaults, &err) != MST_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "mistral_task \"%V\": %s",
                           &task->name, err.text);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_task_line(ngx_conf_t *cf, ngx_command_t *dummy, void *conf)
{
    ngx_http_mistral_task_t *task = conf;

    int          rc;
    mst_err_t    err;
    mst_str_t   *words;
    ngx_str_t   *value;
    ngx_uint_t   i, n;

    value = cf->args->elts;
    n = cf->args->nelts;

    if (ngx_strcmp(value[0].data, "include") == 0 && n == 2) {
        return ngx_conf_include(cf, dummy, conf);
    }

    if (ngx_strcmp(value[0].data, "system_prompt") == 0) {

        if (task->system || n < 2 || n > 3) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               task->system ? "\"system_prompt\" directive is "
                                              "duplicate"
                                            : "invalid number of arguments in "
                                              "\"system_prompt\" directive");
            return NGX_CONF_ERROR;
        }

        task->system = ngx_http_mistral_system_parse(cf, &value[1], n - 1);

        return task->system ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    words = ngx_palloc(cf->temp_pool, n * sizeof(mst_str_t));
    if (words == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < n; i++) {
        words[i] = mst_str((char *) value[i].data, value[i].len);
    }

    err.text[0] = '\0';
    rc = mst_task_set(task->defaults, words[0], words + 1, n - 1, &err);

    if (rc == MST_OK) {
        return NGX_CONF_OK;
    }

    if (rc == MST_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown directive \"%V\" in mistral_task \"%V\"",
                           &value[0], &task->name);

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "mistral_task \"%V\": %s",
                           &task->name, err.text);
    }

    return NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_task_choice(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_task_loc_conf_t *tlcf = conf;

    ngx_str_t                         *value;
    ngx_http_compile_complex_value_t   ccv;

    if (tlcf->choice != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        tlcf->choice = NULL;
        return NGX_CONF_OK;
    }

    tlcf->choice = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (tlcf->choice == NULL) {
        return NGX_CONF_ERROR;
    }

    tlcf->file_name = cf->conf_file->file.name.data;
    tlcf->line = cf->conf_file->line;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = tlcf->choice;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_task_system(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_task_loc_conf_t *tlcf = conf;

    ngx_str_t  *value;

    if (tlcf->system != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0 && cf->args->nelts == 2) {
        tlcf->system = NULL;
        return NGX_CONF_OK;
    }

    tlcf->system = ngx_http_mistral_system_parse(cf, &value[1],
                                                 cf->args->nelts - 1);

    return tlcf->system ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static void *
ngx_http_mistral_task_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_task_loc_conf_t  *tlcf;

    tlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_task_loc_conf_t));
    if (tlcf == NULL) {
        return NULL;
    }

    tlcf->system = NGX_CONF_UNSET_PTR;
    tlcf->choice = NGX_CONF_UNSET_PTR;

    return tlcf;
}


/* tasks have names: a level adds its own to those above, or replaces one */

static char *
ngx_http_mistral_task_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_task_loc_conf_t *prev = parent;
    ngx_http_mistral_task_loc_conf_t *conf = child;

    ngx_uint_t                i;
    ngx_http_mistral_task_t  *task, *own;

    if (conf->tasks == NULL) {
        conf->tasks = prev->tasks;

    } else if (prev->tasks) {
        task = prev->tasks->elts;

        for (i = 0; i < prev->tasks->nelts; i++) {

            if (ngx_http_mistral_task_find(conf->tasks, &task[i].name)) {
                continue;
            }

            own = ngx_array_push(conf->tasks);
            if (own == NULL) {
                return NGX_CONF_ERROR;
            }

            *own = task[i];
        }
    }

    if (conf->choice != NGX_CONF_UNSET_PTR && conf->choice
        && conf->choice->lengths == NULL
        && ngx_http_mistral_task_find(conf->tasks, &conf->choice->value)
           == NULL)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown mistral_task \"%V\" in %s:%ui",
                      &conf->choice->value, conf->file_name, conf->line);
        return NGX_CONF_ERROR;
    }

    ngx_conf_merge_ptr_value(conf->system, prev->system, NULL);
    ngx_conf_merge_ptr_value(conf->choice, prev->choice, NULL);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mistral_task_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_mistral_task_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_task_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_mistral_ctx_t  *ctx;

    ctx = ngx_http_mistral_get_ctx(r);

    if (ctx == NULL || ctx->task.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = ctx->task.data;
    v->len = ctx->task.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}

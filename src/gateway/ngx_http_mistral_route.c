
/*
 * mistral_allow_models: which models a client may ask for.
 *
 * An entry is a name, a regular expression ("~...", "~*..." without regard to
 * case), "*", or a text with variables, whose value is a list of names with
 * commas or spaces between.  A name is allowed that an entry matches, or
 * whose block's name one matches: the entry for a block opens all of its
 * names, the entry for an alias only that.  What is not allowed does not
 * exist, in /models neither.  A list whose values are all empty allows
 * nothing.  Workers only, but for the directive.
 */

#include "gateway/ngx_http_mistral_policy.h"
#include "gateway/ngx_http_mistral_route.h"


typedef struct {
    ngx_str_t                  name;           /* as it stands */
    ngx_regex_t               *regex;          /* NULL: none */
    ngx_http_complex_value_t  *value;          /* NULL: none */
    u_char                    *file_name;
    ngx_uint_t                 line;
} ngx_http_mistral_route_entry_t;


typedef struct {
    ngx_array_t                entries;        /* of _entry_t *, all */
} ngx_http_mistral_route_main_conf_t;


typedef struct {
    ngx_array_t               *entries;        /* of _entry_t *; NULL: as the
                                                  parent */
} ngx_http_mistral_route_loc_conf_t;


static void *ngx_http_mistral_route_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_route_init_main_conf(ngx_conf_t *cf,
    void *conf);
static void *ngx_http_mistral_route_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_route_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mistral_allow_models(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_http_mistral_route_entry(ngx_conf_t *cf,
    ngx_http_mistral_route_entry_t *e);
static ngx_int_t ngx_http_mistral_route_regex(ngx_conf_t *cf,
    ngx_http_mistral_route_entry_t *e);
static ngx_int_t ngx_http_mistral_route_resolved(ngx_http_mistral_ctx_t *ctx);
static ngx_uint_t ngx_http_mistral_route_any(ngx_http_request_t *r,
    ngx_array_t *entries, ngx_http_mistral_model_t *m);
static ngx_uint_t ngx_http_mistral_route_match(ngx_http_request_t *r,
    ngx_array_t *entries, ngx_str_t *name);
static ngx_uint_t ngx_http_mistral_route_in_list(ngx_str_t *list,
    ngx_str_t *name);


static ngx_command_t  ngx_http_mistral_route_commands[] = {

    { ngx_string("mistral_allow_models"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_allow_models,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_route_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mistral_route_create_main_conf, /* create main configuration */
    ngx_http_mistral_route_init_main_conf, /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_route_create_loc_conf, /* create location
                                               configuration */
    ngx_http_mistral_route_merge_loc_conf  /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_route_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_route_module_ctx,    /* module context */
    ngx_http_mistral_route_commands,       /* module directives */
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


const ngx_http_mistral_policy_t  ngx_http_mistral_route_policy = {
    .resolved = ngx_http_mistral_route_resolved
};


static void *
ngx_http_mistral_route_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_route_main_conf_t  *rmcf;

    rmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_route_main_conf_t));

    if (rmcf == NULL
        || ngx_array_init(&rmcf->entries, cf->pool, 4, sizeof(void *))
           != NGX_OK)
    {
        return NULL;
    }

    return rmcf;
}


/* all of http{} was read: a name that is nobody's is a slip of the pen */

static char *
ngx_http_mistral_route_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mistral_route_main_conf_t *rmcf = conf;

    ngx_uint_t                        i;
    ngx_http_mistral_main_conf_t     *mmcf;
    ngx_http_mistral_route_entry_t  **e;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mistral_module);
    e = rmcf->entries.elts;

    for (i = 0; i < rmcf->entries.nelts; i++) {

        if (e[i]->regex == NULL && e[i]->value == NULL
            && ngx_strcmp(e[i]->name.data, "*") != 0
            && ngx_http_mistral_find_model(mmcf, &e[i]->name) == NULL)
        {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "no mistral_model has the name or alias \"%V\" "
                          "in %s:%ui", &e[i]->name, e[i]->file_name,
                          e[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static void *
ngx_http_mistral_route_create_loc_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_route_loc_conf_t));
}


static char *
ngx_http_mistral_route_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_route_loc_conf_t *prev = parent;
    ngx_http_mistral_route_loc_conf_t *conf = child;

    if (conf->entries == NULL) {
        conf->entries = prev->entries;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_allow_models(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_route_loc_conf_t *rlcf = conf;

    ngx_str_t                            *value;
    ngx_uint_t                            i;
    ngx_http_mistral_route_entry_t       *e, **all, **own;
    ngx_http_mistral_route_main_conf_t   *rmcf;

    if (rlcf->entries != NULL) {
        return "is duplicate";
    }

    rmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_route_module);
    value = cf->args->elts;

    rlcf->entries = ngx_array_create(cf->pool, cf->args->nelts,
                                     sizeof(void *));
    if (rlcf->entries == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {
        e = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_route_entry_t));
        all = ngx_array_push(&rmcf->entries);
        own = ngx_array_push(rlcf->entries);

        if (e == NULL || all == NULL || own == NULL) {
            return NGX_CONF_ERROR;
        }

        *all = e;
        *own = e;

        e->name = value[i];
        e->file_name = cf->conf_file->file.name.data;
        e->line = cf->conf_file->line;

        if (ngx_http_mistral_route_entry(cf, e) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mistral_route_entry(ngx_conf_t *cf, ngx_http_mistral_route_entry_t *e)
{
    ngx_http_compile_complex_value_t  ccv;

    /* a "$" in an expression is its end */

    if (e->name.len && e->name.data[0] == '~') {
        return ngx_http_mistral_route_regex(cf, e);
    }

    if (ngx_http_script_variables_count(&e->name) == 0) {
        return NGX_OK;
    }

    e->value = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (e->value == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &e->name;
    ccv.complex_value = e->value;

    return ngx_http_compile_complex_value(&ccv);
}


static ngx_int_t
ngx_http_mistral_route_regex(ngx_conf_t *cf, ngx_http_mistral_route_entry_t *e)
{
#if (NGX_PCRE)

    u_char               errstr[NGX_MAX_CONF_ERRSTR];
    ngx_regex_compile_t  rc;

    ngx_memzero(&rc, sizeof(ngx_regex_compile_t));

    rc.pattern.data = e->name.data + 1;
    rc.pattern.len = e->name.len - 1;
    rc.pool = cf->pool;
    rc.err.len = NGX_MAX_CONF_ERRSTR;
    rc.err.data = errstr;

    if (rc.pattern.len && rc.pattern.data[0] == '*') {
        rc.pattern.data++;
        rc.pattern.len--;
        rc.options = NGX_REGEX_CASELESS;
    }

    if (rc.pattern.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "empty expression \"%V\"", &e->name);
        return NGX_ERROR;
    }

    if (ngx_regex_compile(&rc) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V", &rc.err);
        return NGX_ERROR;
    }

    e->regex = rc.regex;

    return NGX_OK;

#else

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "using regex \"%V\" requires PCRE library", &e->name);
    return NGX_ERROR;

#endif
}


static ngx_int_t
ngx_http_mistral_route_resolved(ngx_http_mistral_ctx_t *ctx)
{
    ngx_str_t  name;

    name.data = (u_char *) ctx->body->model.data;
    name.len = ctx->body->model.len;

    if (ngx_http_mistral_route_allows(ctx->request, ctx->model, &name)) {
        return NGX_OK;
    }

    /* the same words, and the same counters, as for a name that is nobody's */

    ctx->model = NULL;

    (void) mst_api_error_set(&ctx->error, NGX_HTTP_NOT_FOUND,
                             "model_not_found", "model",
                             "The model \"%.*s\" does not exist.",
                             (int) ngx_min(ctx->name.len, 128),
                             (char *) ctx->name.data);
    return NGX_DECLINED;
}


ngx_uint_t
ngx_http_mistral_route_allows(ngx_http_request_t *r,
    ngx_http_mistral_model_t *m, ngx_str_t *name)
{
    ngx_http_mistral_model_t           *asked;
    ngx_http_mistral_main_conf_t       *mmcf;
    ngx_http_mistral_route_loc_conf_t  *rlcf;

    rlcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_route_module);

    if (rlcf->entries == NULL) {
        return 1;
    }

    /* who names no model asks for any name of the location's */

    if (name->len == 0) {
        return ngx_http_mistral_route_any(r, rlcf->entries, m);
    }

    if (ngx_http_mistral_route_match(r, rlcf->entries, name)) {
        return 1;
    }

    /* where a variable chooses, the name may be another block's */

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mistral_module);
    asked = ngx_http_mistral_find_model(mmcf, name);

    return asked
           && ngx_http_mistral_route_match(r, rlcf->entries, &asked->name);
}


static ngx_uint_t
ngx_http_mistral_route_any(ngx_http_request_t *r, ngx_array_t *entries,
    ngx_http_mistral_model_t *m)
{
    ngx_str_t   *alias;
    ngx_uint_t   i;

    if (ngx_http_mistral_route_match(r, entries, &m->name)) {
        return 1;
    }

    alias = m->aliases.elts;

    for (i = 0; i < m->aliases.nelts; i++) {
        if (ngx_http_mistral_route_match(r, entries, &alias[i])) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_mistral_route_match(ngx_http_request_t *r, ngx_array_t *entries,
    ngx_str_t *name)
{
    ngx_str_t                         value;
    ngx_uint_t                        i;
    ngx_http_mistral_route_entry_t  **e;

    e = entries->elts;

    for (i = 0; i < entries->nelts; i++) {

#if (NGX_PCRE)

        if (e[i]->regex) {
            if (ngx_regex_exec(e[i]->regex, name, NULL, 0) >= 0) {
                return 1;
            }

            continue;
        }

#endif

        value = e[i]->name;

        /* one that cannot be computed allows nothing */

        if (e[i]->value
            && ngx_http_complex_value(r, e[i]->value, &value) != NGX_OK)
        {
            continue;
        }

        if (ngx_http_mistral_route_in_list(&value, name)) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_mistral_route_in_list(ngx_str_t *list, ngx_str_t *name)
{
    u_char  *p, *start, *end;

    end = list->data + list->len;

    for (p = list->data; p < end; p++) {

        start = p;

        while (p < end && *p != ',' && *p != ' ') {
            p++;
        }

        if (p - start == 1 && *start == '*') {
            return 1;
        }

        if ((size_t) (p - start) == name->len
            && ngx_memcmp(start, name->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/*
 * mistral_auth_key, mistral_auth_jwt, mistral_consumer: the directives and
 * where they are inherited.  What becomes of a request is credential.c's.
 */

#include "gateway/ngx_http_mistral_auth.h"


typedef struct {
    ngx_array_t                 keysets;       /* of _keyset_t * */
    ngx_array_t                 files;         /* of _file_t */
    mst_jwa_list_t              algs;          /* where none are named */
} ngx_http_mistral_auth_main_conf_t;


/* a line that names a file of keys */
typedef struct {
    ngx_str_t                   path;
    ngx_str_t                   directive;
    u_char                     *file_name;     /* of the directive */
    ngx_uint_t                  line;
} ngx_http_mistral_auth_file_t;


static ngx_int_t ngx_http_mistral_auth_init(ngx_conf_t *cf);
static ngx_uint_t ngx_http_mistral_auth_used(
    ngx_http_mistral_auth_main_conf_t *amcf, ngx_str_t *path);


static void *ngx_http_mistral_auth_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mistral_auth_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mistral_auth_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static ngx_int_t ngx_http_mistral_auth_keysets(ngx_conf_t *cf,
    ngx_http_mistral_auth_loc_conf_t *alcf);
static void ngx_http_mistral_auth_policy(
    ngx_http_mistral_auth_loc_conf_t *alcf);
static char *ngx_http_mistral_auth_file(ngx_conf_t *cf, void *post,
    void *data);


static ngx_conf_post_t  ngx_http_mistral_auth_file_post = {
    ngx_http_mistral_auth_file
};


#define NGX_HTTP_MISTRAL_AUTH_CONF                                            \
    NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_HTTP_LMT_CONF

static ngx_command_t  ngx_http_mistral_auth_commands[] = {

    { ngx_string("mistral_auth_key"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_TAKE12,
      ngx_http_mistral_auth_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_auth_key_file"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_auth_loc_conf_t, key_file),
      &ngx_http_mistral_auth_file_post },

    { ngx_string("mistral_auth_jwt"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_auth_jwt,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_auth_jwt_key_file"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_auth_loc_conf_t, jwt_file),
      &ngx_http_mistral_auth_file_post },

    { ngx_string("mistral_auth_jwt_algs"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_auth_jwt_algs,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_auth_jwt_leeway"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_sec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_auth_loc_conf_t, leeway),
      NULL },

    { ngx_string("mistral_auth_jwt_require_exp"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_auth_loc_conf_t, require_exp),
      NULL },

    { ngx_string("mistral_auth_jwt_require"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_auth_jwt_require,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_auth_jwt_claim_set"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_2MORE,
      ngx_http_mistral_auth_jwt_claim_set,
      0,
      0,
      NULL },

    { ngx_string("mistral_consumer"),
      NGX_HTTP_MISTRAL_AUTH_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mistral_auth_loc_conf_t, consumer),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_auth_module_ctx = {
    ngx_http_mistral_credential_variables, /* preconfiguration */
    ngx_http_mistral_auth_init,            /* postconfiguration */

    ngx_http_mistral_auth_create_main_conf, /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_auth_create_loc_conf, /* create location configuration */
    ngx_http_mistral_auth_merge_loc_conf   /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_auth_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_auth_module_ctx,     /* module context */
    ngx_http_mistral_auth_commands,        /* module directives */
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


static void *
ngx_http_mistral_auth_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_auth_main_conf_t  *amcf;

    amcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_auth_main_conf_t));
    if (amcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&amcf->keysets, cf->pool, 4,
                       sizeof(ngx_http_mistral_keyset_t *))
        != NGX_OK
        || ngx_array_init(&amcf->files, cf->pool, 4,
                          sizeof(ngx_http_mistral_auth_file_t))
           != NGX_OK)
    {
        return NULL;
    }

    mst_jwa_list_default(&amcf->algs);

    return amcf;
}


static void *
ngx_http_mistral_auth_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_auth_loc_conf_t  *alcf;

    alcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_auth_loc_conf_t));
    if (alcf == NULL) {
        return NULL;
    }

    alcf->key_realm = NGX_CONF_UNSET_PTR;
    alcf->jwt_realm = NGX_CONF_UNSET_PTR;
    alcf->algs = NGX_CONF_UNSET_PTR;
    alcf->leeway = NGX_CONF_UNSET;
    alcf->require_exp = NGX_CONF_UNSET;
    alcf->require = NGX_CONF_UNSET_PTR;

    return alcf;
}


static char *
ngx_http_mistral_auth_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_auth_loc_conf_t *prev = parent;
    ngx_http_mistral_auth_loc_conf_t *conf = child;

    ngx_http_mistral_auth_main_conf_t  *amcf;

    amcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_auth_module);

    /* a line is inherited as a whole */

    if (conf->key_realm == NGX_CONF_UNSET_PTR) {
        conf->key = prev->key;
    }

    if (conf->jwt_realm == NGX_CONF_UNSET_PTR) {
        conf->token = prev->token;
        conf->issuers = prev->issuers;
        conf->audiences = prev->audiences;
    }

    if (conf->file_name == NULL) {
        conf->file_name = prev->file_name;
        conf->line = prev->line;
    }

    if (conf->consumer == NULL) {
        conf->consumer = prev->consumer;
    }

    ngx_conf_merge_ptr_value(conf->key_realm, prev->key_realm, NULL);
    ngx_conf_merge_str_value(conf->key_file, prev->key_file, "");
    ngx_conf_merge_ptr_value(conf->jwt_realm, prev->jwt_realm, NULL);
    ngx_conf_merge_str_value(conf->jwt_file, prev->jwt_file, "");
    ngx_conf_merge_ptr_value(conf->algs, prev->algs, &amcf->algs);
    ngx_conf_merge_sec_value(conf->leeway, prev->leeway, 0);
    ngx_conf_merge_value(conf->require_exp, prev->require_exp, 1);
    ngx_conf_merge_ptr_value(conf->require, prev->require, NULL);

    ngx_http_mistral_auth_policy(conf);

    return ngx_http_mistral_auth_keysets(cf, conf) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_mistral_auth_keysets(ngx_conf_t *cf,
    ngx_http_mistral_auth_loc_conf_t *alcf)
{
    const char                         *name;
    ngx_http_mistral_auth_main_conf_t  *amcf;

    amcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_auth_module);

    name = alcf->key_realm && alcf->key_file.len == 0 ? "mistral_auth_key"
           : alcf->jwt_realm && alcf->jwt_file.len == 0 ? "mistral_auth_jwt"
           : NULL;

    if (name) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"%s\" needs a \"%s_file\" in %s:%ui", name,
                      name[sizeof("mistral_auth_") - 1] == 'k'
                      ? "mistral_auth_key" : "mistral_auth_jwt_key",
                      alcf->file_name, alcf->line);
        return NGX_ERROR;
    }

    if (alcf->key_realm) {
        alcf->keys = ngx_http_mistral_keyset_add(cf, &amcf->keysets,
                                                 &alcf->key_file, NULL, alcf);
        if (alcf->keys == NULL) {
            return NGX_ERROR;
        }
    }

    if (alcf->jwt_realm) {
        alcf->jwks = ngx_http_mistral_keyset_add(cf, &amcf->keysets,
                                                 &alcf->jwt_file, alcf->algs,
                                                 alcf);
        if (alcf->jwks == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_http_mistral_auth_policy(ngx_http_mistral_auth_loc_conf_t *alcf)
{
    mst_jwt_policy_t  *p;

    p = &alcf->policy;

    if (alcf->issuers) {
        p->issuers = alcf->issuers->elts;
        p->n_issuers = alcf->issuers->nelts;
    }

    if (alcf->audiences) {
        p->audiences = alcf->audiences->elts;
        p->n_audiences = alcf->audiences->nelts;
    }

    p->leeway = alcf->leeway;
    p->require_exp = alcf->require_exp;
}


static char *
ngx_http_mistral_auth_file(ngx_conf_t *cf, void *post, void *data)
{
    ngx_str_t  *path = data;

    ngx_str_t                          *value;
    ngx_http_mistral_auth_file_t       *file;
    ngx_http_mistral_auth_main_conf_t  *amcf;

    if (path->len == 0) {
        return "has an empty name";
    }

    if (ngx_conf_full_name(cf->cycle, path, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    amcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_auth_module);

    file = ngx_array_push(&amcf->files);
    if (file == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    file->path = *path;
    file->directive = value[0];
    file->file_name = cf->conf_file->file.name.data;
    file->line = cf->conf_file->line;

    return NGX_CONF_OK;
}


/* a file of keys alone looks as if it protected something */

static ngx_int_t
ngx_http_mistral_auth_init(ngx_conf_t *cf)
{
    ngx_uint_t                          i;
    ngx_http_mistral_auth_file_t       *file;
    ngx_http_mistral_auth_main_conf_t  *amcf;

    amcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mistral_auth_module);
    file = amcf->files.elts;

    for (i = 0; i < amcf->files.nelts; i++) {
        if (!ngx_http_mistral_auth_used(amcf, &file[i].path)) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "\"%V\" protects nothing without \"%s\" in %s:%ui",
                          &file[i].directive,
                          file[i].directive.len
                          == sizeof("mistral_auth_key_file") - 1
                          ? "mistral_auth_key" : "mistral_auth_jwt",
                          file[i].file_name, file[i].line);
        }
    }

    return ngx_http_mistral_credential_init(cf);
}


static ngx_uint_t
ngx_http_mistral_auth_used(ngx_http_mistral_auth_main_conf_t *amcf,
    ngx_str_t *path)
{
    ngx_uint_t                   i;
    ngx_http_mistral_keyset_t  **set;

    set = amcf->keysets.elts;

    for (i = 0; i < amcf->keysets.nelts; i++) {
        if (set[i]->path.len == path->len
            && ngx_memcmp(set[i]->path.data, path->data, path->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_http_complex_value_t *
ngx_http_mistral_auth_value(ngx_conf_t *cf, ngx_str_t *value)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = ngx_palloc(cf->pool,
                                   sizeof(ngx_http_complex_value_t));

    if (ccv.complex_value == NULL
        || ngx_http_compile_complex_value(&ccv) != NGX_OK)
    {
        return NULL;
    }

    return ccv.complex_value;
}

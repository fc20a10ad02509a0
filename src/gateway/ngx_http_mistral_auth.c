
/*
 * mistral_auth_key, mistral_auth_jwt, mistral_consumer: see the header.
 *
 * Where both are on, one good credential is enough.  The ACCESS phase gets
 * nginx's own answers (NGX_OK, 401, 403), so that "satisfy" works; what a
 * 401 tells comes later: WWW-Authenticate by a header filter, since another
 * module may yet be satisfied, and the body by special.c.
 *
 * $mistral_consumer is known before ACCESS: limit_req and limit_conn run in
 * PREACCESS, and a name that was not verified could be anybody's.
 */

#include "gateway/ngx_http_mistral_auth.h"
#include "gateway/ngx_http_mistral_request.h"


typedef struct {
    ngx_array_t                 keysets;       /* of _keyset_t * */
    mst_jwa_list_t              algs;          /* where none are named */
} ngx_http_mistral_auth_main_conf_t;


typedef struct {
    ngx_uint_t                  status;
    const char                 *code;
    const char                 *text;
} ngx_http_mistral_auth_refusal_t;


static ngx_int_t ngx_http_mistral_auth_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_mistral_auth_init(ngx_conf_t *cf);
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
static ngx_int_t ngx_http_mistral_auth_handler(ngx_http_request_t *r);
static ngx_http_mistral_auth_t *ngx_http_mistral_auth_get(
    ngx_http_request_t *r);
static void ngx_http_mistral_auth_cleanup(void *data);
static ngx_int_t ngx_http_mistral_auth_challenge(ngx_http_mistral_auth_t *a);
static ngx_int_t ngx_http_mistral_auth_header_filter(ngx_http_request_t *r);
static ngx_http_mistral_auth_t *ngx_http_mistral_auth_refused(
    ngx_http_request_t *r);
static ngx_http_mistral_auth_t *ngx_http_mistral_auth_earlier(
    ngx_http_request_t *r, ngx_uint_t refused);
static ngx_int_t ngx_http_mistral_auth_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_auth_text(ngx_http_mistral_auth_t *a,
    uintptr_t data, ngx_str_t *text);


static const ngx_http_mistral_auth_refusal_t  ngx_http_mistral_refusals[] = {
    { 200, NULL, NULL },
    { 401, "missing_credentials", "An API key or a token is needed: "
                                  "Authorization: Bearer ..." },
    { 401, "invalid_api_key", "The API key is not valid." },
    { 401, "invalid_token", NULL },
    { 401, "invalid_token", "The token's claims are not enough here." },
    { 403, "access_denied", "The token's claims do not permit this." }
};


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
    ngx_http_mistral_auth_add_variables,   /* preconfiguration */
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


static ngx_http_variable_t  ngx_http_mistral_auth_vars[] = {

    { ngx_string("mistral_consumer"), NULL,
      ngx_http_mistral_auth_variable, NGX_HTTP_MISTRAL_AUTH_NAME,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_consumer_tier"), NULL,
      ngx_http_mistral_auth_variable, NGX_HTTP_MISTRAL_AUTH_TIER,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_consumer_models"), NULL,
      ngx_http_mistral_auth_variable, NGX_HTTP_MISTRAL_AUTH_MODELS,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_consumer_quota"), NULL,
      ngx_http_mistral_auth_variable, NGX_HTTP_MISTRAL_AUTH_QUOTA,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_http_output_header_filter_pt
    ngx_http_mistral_auth_next_header_filter;


static ngx_int_t
ngx_http_mistral_auth_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_mistral_auth_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return ngx_http_mistral_jwt_add_variables(cf);
}


static ngx_int_t
ngx_http_mistral_auth_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_ACCESS_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_mistral_auth_handler;

    ngx_http_mistral_auth_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mistral_auth_header_filter;

    return NGX_OK;
}


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
                                                 &alcf->key_file, NULL);
        if (alcf->keys == NULL) {
            return NGX_ERROR;
        }
    }

    if (alcf->jwt_realm) {
        alcf->jwks = ngx_http_mistral_keyset_add(cf, &amcf->keysets,
                                                 &alcf->jwt_file, alcf->algs);
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

    if (path->len == 0) {
        return "has an empty name";
    }

    return ngx_conf_full_name(cf->cycle, path, 1) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
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


static ngx_int_t
ngx_http_mistral_auth_handler(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t           *a;
    ngx_http_mistral_auth_loc_conf_t  *alcf;

    alcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_auth_module);

    if (alcf->key_realm == NULL && alcf->jwt_realm == NULL) {
        return NGX_DECLINED;
    }

    a = ngx_http_mistral_auth_get(r);
    if (a == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    a->refused = a->rc;

    if (a->rc == NGX_HTTP_MISTRAL_AUTH_GOOD && a->claims
        && ngx_http_mistral_jwt_require(a, &a->refused) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (a->refused == NGX_HTTP_MISTRAL_AUTH_GOOD) {
        return NGX_OK;
    }

    if (ngx_http_mistral_auth_challenge(a) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "mistral: no access, %s%s",
                  a->refused == NGX_HTTP_MISTRAL_AUTH_TOKEN
                  ? "the token " : "",
                  a->refused == NGX_HTTP_MISTRAL_AUTH_TOKEN
                  ? mst_jwt_text(a->token_rc)
                  : ngx_http_mistral_refusals[a->refused].code);

    return ngx_http_mistral_refusals[a->refused].status;
}


/* the credential by the rules of the location that the request is in now */

static ngx_http_mistral_auth_t *
ngx_http_mistral_auth_get(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t                *cln;
    ngx_http_mistral_auth_t           *a;
    ngx_http_mistral_auth_loc_conf_t  *alcf;

    alcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_auth_module);
    a = ngx_http_get_module_ctx(r, ngx_http_mistral_auth_module);

    if (a && a->conf == alcf) {
        return a;
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_mistral_auth_t));
    if (cln == NULL) {
        return NULL;
    }

    a = cln->data;
    ngx_memzero(a, sizeof(ngx_http_mistral_auth_t));

    cln->handler = ngx_http_mistral_auth_cleanup;
    a->request = r;
    a->conf = alcf;
    a->rc = NGX_HTTP_MISTRAL_AUTH_MISSING;

    if (alcf->key_realm && ngx_http_mistral_key_verify(a) != NGX_OK) {
        return NULL;
    }

    if (alcf->jwt_realm && a->rc != NGX_HTTP_MISTRAL_AUTH_GOOD
        && ngx_http_mistral_jwt_verify(a) != NGX_OK)
    {
        return NULL;
    }

    ngx_http_set_ctx(r, a, ngx_http_mistral_auth_module);

    return a;
}


static void
ngx_http_mistral_auth_cleanup(void *data)
{
    ngx_http_mistral_auth_t *a = data;

    json_decref(a->claims);
}


ngx_int_t
ngx_http_mistral_auth_check(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t           *a;
    ngx_http_mistral_auth_loc_conf_t  *alcf;

    alcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_auth_module);

    if (alcf->key_realm == NULL && alcf->jwt_realm == NULL) {
        return NGX_OK;
    }

    a = ngx_http_mistral_auth_get(r);

    return a == NULL ? NGX_ERROR
           : a->rc == NGX_HTTP_MISTRAL_AUTH_GOOD ? NGX_OK : NGX_DECLINED;
}


void
ngx_http_mistral_auth_bearer(ngx_http_request_t *r, ngx_str_t *token)
{
    ngx_table_elt_t  *h;

    ngx_str_null(token);

    h = r->headers_in.authorization;

    if (h == NULL || h->value.len < sizeof("Bearer ")
        || ngx_strncasecmp(h->value.data, (u_char *) "Bearer ",
                           sizeof("Bearer ") - 1)
           != 0)
    {
        return;
    }

    *token = h->value;

    token->data += sizeof("Bearer ") - 1;
    token->len -= sizeof("Bearer ") - 1;

    while (token->len && token->data[0] == ' ') {
        token->data++;
        token->len--;
    }
}


/* a quoted string of RFC 9110; what cannot stand in one becomes "?" */

static ngx_int_t
ngx_http_mistral_auth_challenge(ngx_http_mistral_auth_t *a)
{
    u_char                    *p;
    size_t                     i;
    ngx_str_t                  realm;
    ngx_http_complex_value_t  *cv;

    cv = a->conf->key_realm ? a->conf->key_realm : a->conf->jwt_realm;

    if (ngx_http_complex_value(a->request, cv, &realm) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(a->request->pool,
                    sizeof("Bearer realm=\"\"") - 1 + 2 * realm.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    a->challenge.data = p;
    p = ngx_cpymem(p, "Bearer realm=\"", sizeof("Bearer realm=\"") - 1);

    for (i = 0; i < realm.len; i++) {
        if (realm.data[i] == '"' || realm.data[i] == '\\') {
            *p++ = '\\';
        }

        *p++ = realm.data[i] < ' ' || realm.data[i] == 0x7f ? '?'
                                                            : realm.data[i];
    }

    *p++ = '"';
    a->challenge.len = p - a->challenge.data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_auth_header_filter(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t  *a;

    if (r->headers_out.status != NGX_HTTP_UNAUTHORIZED || r != r->main) {
        return ngx_http_mistral_auth_next_header_filter(r);
    }

    a = ngx_http_mistral_auth_refused(r);

    if (a && !a->challenged) {
        a->challenged = 1;

        if (ngx_http_mistral_add_header(r, "WWW-Authenticate", &a->challenge)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return ngx_http_mistral_auth_next_header_filter(r);
}


ngx_uint_t
ngx_http_mistral_auth_error(ngx_http_request_t *r, mst_api_error_t *e)
{
    ngx_http_mistral_auth_t                *a;
    const ngx_http_mistral_auth_refusal_t  *refusal;

    if (r->err_status != NGX_HTTP_UNAUTHORIZED
        && r->err_status != NGX_HTTP_FORBIDDEN)
    {
        return 0;
    }

    a = ngx_http_mistral_auth_refused(r);
    if (a == NULL) {
        return 0;
    }

    refusal = &ngx_http_mistral_refusals[a->refused];

    if (refusal->status != r->err_status) {
        return 0;
    }

    if (e == NULL) {
        return 1;
    }

    ngx_memzero(e, sizeof(mst_api_error_t));

    if (refusal->text) {
        (void) mst_api_error_set(e, (int) refusal->status, refusal->code, "",
                                 "%s", refusal->text);

    } else if (a->token_rc == MST_JWT_EXPIRED) {
        (void) mst_api_error_set(e, NGX_HTTP_UNAUTHORIZED, "token_expired",
                                 "", "The token has expired.");

    } else {
        (void) mst_api_error_set(e, NGX_HTTP_UNAUTHORIZED, refusal->code, "",
                                 "The token %s.", mst_jwt_text(a->token_rc));
    }

    return 1;
}


static ngx_http_mistral_auth_t *
ngx_http_mistral_auth_refused(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t  *a;

    a = ngx_http_get_module_ctx(r, ngx_http_mistral_auth_module);

    if (a && a->refused != NGX_HTTP_MISTRAL_AUTH_GOOD) {
        return a;
    }

    return ngx_http_mistral_auth_earlier(r, 1);
}


/*
 * An internal redirect (error_page) clears the contexts; who asked stays who
 * it was.  The newest comes first.
 */

static ngx_http_mistral_auth_t *
ngx_http_mistral_auth_earlier(ngx_http_request_t *r, ngx_uint_t refused)
{
    ngx_pool_cleanup_t       *cln;
    ngx_http_mistral_auth_t  *a;

    if (!r->internal && !r->filter_finalize) {
        return NULL;
    }

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_mistral_auth_cleanup) {
            continue;
        }

        a = cln->data;

        if (a->request == r
            && (refused ? a->refused != NGX_HTTP_MISTRAL_AUTH_GOOD
                        : a->rc == NGX_HTTP_MISTRAL_AUTH_GOOD))
        {
            return a;
        }
    }

    return NULL;
}


ngx_http_mistral_auth_t *
ngx_http_mistral_auth_verified(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t           *a;
    ngx_http_mistral_auth_loc_conf_t  *alcf;

    alcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_auth_module);

    if (alcf->key_realm == NULL && alcf->jwt_realm == NULL) {
        return ngx_http_mistral_auth_earlier(r, 0);
    }

    a = ngx_http_mistral_auth_get(r);

    return a && a->rc == NGX_HTTP_MISTRAL_AUTH_GOOD ? a : NULL;
}


static ngx_int_t
ngx_http_mistral_auth_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                          text;
    ngx_http_mistral_auth_t           *a;
    ngx_http_complex_value_t          *consumer;
    ngx_http_mistral_auth_loc_conf_t  *alcf;

    alcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_auth_module);
    a = ngx_http_mistral_auth_verified(r);

    /* without mistral_auth_* the configuration answers for the name */

    consumer = a ? a->conf->consumer
               : alcf->key_realm || alcf->jwt_realm ? NULL : alcf->consumer;

    ngx_str_null(&text);

    if (data == NGX_HTTP_MISTRAL_AUTH_NAME && consumer) {
        if (ngx_http_complex_value(r, consumer, &text) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (a && ngx_http_mistral_auth_text(a, data, &text) != NGX_OK) {
        return NGX_ERROR;
    }

    if (text.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = text.data;
    v->len = text.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_auth_text(ngx_http_mistral_auth_t *a, uintptr_t data,
    ngx_str_t *text)
{
    static const char *const  claims[NGX_HTTP_MISTRAL_AUTH_FIELDS] = {
        "sub", "tier", "models", "quota"
    };

    if (a->claims && a->field[data].len == 0
        && ngx_http_mistral_jwt_field(a, claims[data], &a->field[data])
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    *text = a->field[data];

    return NGX_OK;
}


/*
 * The credential of a request: who asks, and whether they may.
 *
 * Where keys and tokens are both on, one good credential is enough.  The
 * ACCESS phase gets nginx's own answers (NGX_OK, 401, 403), so that "satisfy"
 * works; what a 401 tells comes later: WWW-Authenticate by a header filter,
 * since another module may yet be satisfied, and the body by special.c.
 *
 * $mistral_consumer is known before ACCESS: limit_req and limit_conn run in
 * PREACCESS, and a name that was not verified could be anybody's.  Workers
 * only.
 */

#include "gateway/ngx_http_mistral_auth.h"
#include "gateway/ngx_http_mistral_request.h"


typedef struct {
    ngx_uint_t                  status;
    const char                 *code;
    const char                 *text;
} ngx_http_mistral_refusal_t;


static ngx_int_t ngx_http_mistral_credential_handler(ngx_http_request_t *r);
static ngx_http_mistral_auth_t *ngx_http_mistral_credential_get(
    ngx_http_request_t *r);
static void ngx_http_mistral_credential_cleanup(void *data);
static ngx_int_t ngx_http_mistral_credential_challenge(
    ngx_http_mistral_auth_t *a);
static ngx_int_t ngx_http_mistral_credential_header_filter(
    ngx_http_request_t *r);
static ngx_http_mistral_auth_t *ngx_http_mistral_credential_refused(
    ngx_http_request_t *r);
static ngx_http_mistral_auth_t *ngx_http_mistral_credential_earlier(
    ngx_http_request_t *r, ngx_uint_t refused);
static ngx_int_t ngx_http_mistral_credential_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_credential_text(ngx_http_mistral_auth_t *a,
    uintptr_t data, ngx_str_t *text);


static const ngx_http_mistral_refusal_t  ngx_http_mistral_refusals[] = {
    { 200, NULL, NULL },
    { 401, "missing_credentials", "An API key or a token is needed: "
                                  "Authorization: Bearer ..." },
    { 401, "invalid_api_key", "The API key is not valid." },
    { 401, "invalid_token", NULL },
    { 401, "invalid_token", "The token's claims are not enough here." },
    { 403, "access_denied", "The token's claims do not permit this." }
};


static ngx_http_variable_t  ngx_http_mistral_credential_vars[] = {

    { ngx_string("mistral_consumer"), NULL,
      ngx_http_mistral_credential_variable, NGX_HTTP_MISTRAL_AUTH_NAME,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_consumer_tier"), NULL,
      ngx_http_mistral_credential_variable, NGX_HTTP_MISTRAL_AUTH_TIER,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_consumer_models"), NULL,
      ngx_http_mistral_credential_variable, NGX_HTTP_MISTRAL_AUTH_MODELS,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mistral_consumer_quota"), NULL,
      ngx_http_mistral_credential_variable, NGX_HTTP_MISTRAL_AUTH_QUOTA,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_http_output_header_filter_pt
    ngx_http_mistral_credential_next_header_filter;


ngx_int_t
ngx_http_mistral_credential_variables(ngx_conf_t *cf)
{
    if (ngx_http_mistral_add_table(cf, ngx_http_mistral_credential_vars)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mistral_jwt_add_variables(cf);
}


ngx_int_t
ngx_http_mistral_credential_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_ACCESS_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_mistral_credential_handler;

    ngx_http_mistral_credential_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mistral_credential_header_filter;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_credential_handler(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t           *a;
    ngx_http_mistral_auth_loc_conf_t  *alcf;

    alcf = ngx_http_get_module_loc_conf(r, ngx_http_mistral_auth_module);

    if (alcf->key_realm == NULL && alcf->jwt_realm == NULL) {
        return NGX_DECLINED;
    }

    a = ngx_http_mistral_credential_get(r);
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

    if (ngx_http_mistral_credential_challenge(a) != NGX_OK) {
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
ngx_http_mistral_credential_get(ngx_http_request_t *r)
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

    cln->handler = ngx_http_mistral_credential_cleanup;
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
ngx_http_mistral_credential_cleanup(void *data)
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

    a = ngx_http_mistral_credential_get(r);

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
ngx_http_mistral_credential_challenge(ngx_http_mistral_auth_t *a)
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
ngx_http_mistral_credential_header_filter(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t  *a;

    if (r->headers_out.status != NGX_HTTP_UNAUTHORIZED || r != r->main) {
        return ngx_http_mistral_credential_next_header_filter(r);
    }

    a = ngx_http_mistral_credential_refused(r);

    if (a && !a->challenged) {
        a->challenged = 1;

        if (ngx_http_mistral_add_header(r, "WWW-Authenticate", &a->challenge)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return ngx_http_mistral_credential_next_header_filter(r);
}


ngx_uint_t
ngx_http_mistral_auth_error(ngx_http_request_t *r, mst_api_error_t *e)
{
    ngx_http_mistral_auth_t           *a;
    const ngx_http_mistral_refusal_t  *refusal;

    if (r->err_status != NGX_HTTP_UNAUTHORIZED
        && r->err_status != NGX_HTTP_FORBIDDEN)
    {
        return 0;
    }

    a = ngx_http_mistral_credential_refused(r);
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
ngx_http_mistral_credential_refused(ngx_http_request_t *r)
{
    ngx_http_mistral_auth_t  *a;

    a = ngx_http_get_module_ctx(r, ngx_http_mistral_auth_module);

    if (a && a->refused != NGX_HTTP_MISTRAL_AUTH_GOOD) {
        return a;
    }

    return ngx_http_mistral_credential_earlier(r, 1);
}


/*
 * An internal redirect (error_page) clears the contexts; who asked stays who
 * it was.  The newest comes first.
 */

static ngx_http_mistral_auth_t *
ngx_http_mistral_credential_earlier(ngx_http_request_t *r, ngx_uint_t refused)
{
    ngx_pool_cleanup_t       *cln;
    ngx_http_mistral_auth_t  *a;

    if (!r->internal && !r->filter_finalize) {
        return NULL;
    }

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_mistral_credential_cleanup) {
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
        return ngx_http_mistral_credential_earlier(r, 0);
    }

    a = ngx_http_mistral_credential_get(r);

    return a && a->rc == NGX_HTTP_MISTRAL_AUTH_GOOD ? a : NULL;
}


static ngx_int_t
ngx_http_mistral_credential_variable(ngx_http_request_t *r,
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

    } else if (a
               && ngx_http_mistral_credential_text(a, data, &text) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mistral_string(v, &text);
}


static ngx_int_t
ngx_http_mistral_credential_text(ngx_http_mistral_auth_t *a, uintptr_t data,
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


/*
 * mistral_auth_jwt: tokens, their claims as variables, and what they must
 * say beyond their signature.
 */

#include "gateway/ngx_http_mistral_auth.h"
#include "api/mst_claim.h"


static ngx_int_t ngx_http_mistral_jwt_text(ngx_http_mistral_auth_t *a,
    const json_t *value, ngx_str_t *text);
static ngx_int_t ngx_http_mistral_jwt_claim(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_jwt_path(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mistral_jwt_variable(ngx_http_mistral_auth_t *a,
    ngx_http_variable_value_t *v, const json_t *value);
static char *ngx_http_mistral_jwt_param(ngx_conf_t *cf,
    ngx_http_mistral_auth_loc_conf_t *alcf, ngx_str_t *param);
static char *ngx_http_mistral_jwt_push(ngx_conf_t *cf, ngx_array_t **list,
    ngx_str_t *value);


static ngx_http_variable_t  ngx_http_mistral_jwt_vars[] = {

    { ngx_string("mistral_jwt_claim_"), NULL,
      ngx_http_mistral_jwt_claim, 0,
      NGX_HTTP_VAR_NOCACHEABLE|NGX_HTTP_VAR_PREFIX, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_mistral_jwt_verify(ngx_http_mistral_auth_t *a)
{
    json_t        *claims;
    ngx_str_t      token;
    mst_jwt_rc_t   rc;

    if (a->conf->token == NULL) {
        ngx_http_mistral_auth_bearer(a->request, &token);

    } else if (ngx_http_complex_value(a->request, a->conf->token, &token)
               != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (token.len == 0) {
        return NGX_OK;
    }

    ngx_http_mistral_keyset_check(a->conf->jwks, a->request->connection->log);

    claims = ngx_http_mistral_keyset_token(a->conf->jwks,
                                           mst_str((char *) token.data,
                                                   token.len), &rc);
    if (claims) {
        rc = mst_jwt_check(claims, &a->conf->policy, ngx_time());
    }

    if (rc == MST_JWT_OK) {
        a->claims = claims;
        a->rc = NGX_HTTP_MISTRAL_AUTH_GOOD;
        return NGX_OK;
    }

    json_decref(claims);

    /* where keys are taken as well, what is no token was meant as a key */

    if (rc != MST_JWT_MALFORMED || a->rc == NGX_HTTP_MISTRAL_AUTH_MISSING) {
        a->rc = NGX_HTTP_MISTRAL_AUTH_TOKEN;
        a->token_rc = rc;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_jwt_require(ngx_http_mistral_auth_t *a,
    ngx_http_mistral_auth_e *rc)
{
    ngx_str_t                    text;
    ngx_uint_t                   i, j;
    ngx_http_complex_value_t    *values;
    ngx_http_mistral_require_t  *require;

    if (a->conf->require == NULL) {
        return NGX_OK;
    }

    require = a->conf->require->elts;

    for (i = 0; i < a->conf->require->nelts; i++) {
        values = require[i].values.elts;

        for (j = 0; j < require[i].values.nelts; j++) {

            if (ngx_http_complex_value(a->request, &values[j], &text)
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            if (text.len == 0
                || (text.len == 1 && text.data[0] == '0')
                || (text.len == 5 && ngx_memcmp(text.data, "false", 5) == 0))
            {
                *rc = require[i].status == NGX_HTTP_FORBIDDEN
                      ? NGX_HTTP_MISTRAL_AUTH_REQUIRE_403
                      : NGX_HTTP_MISTRAL_AUTH_REQUIRE_401;
                return NGX_OK;
            }
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_jwt_field(ngx_http_mistral_auth_t *a, const char *name,
    ngx_str_t *value)
{
    return ngx_http_mistral_jwt_text(a, json_object_get(a->claims, name),
                                     value);
}


/* data NULL: nothing that can be shown */

static ngx_int_t
ngx_http_mistral_jwt_text(ngx_http_mistral_auth_t *a, const json_t *value,
    ngx_str_t *text)
{
    int        rc;
    mst_buf_t  out;

    ngx_str_null(text);

    mst_buf_init(&out);
    rc = mst_claim_text(value, &out);

    if (rc == MST_OK) {
        text->data = ngx_pnalloc(a->request->pool, out.len + 1);

        if (text->data == NULL) {
            rc = MST_ERROR;

        } else {
            text->len = out.len;

            if (out.len) {
                ngx_memcpy(text->data, out.data, out.len);
            }
        }
    }

    mst_buf_fini(&out);

    return rc == MST_ERROR ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_http_mistral_jwt_claim(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t  *name = (ngx_str_t *) data;

    mst_str_t                 s;
    ngx_http_mistral_auth_t  *a;

    a = ngx_http_mistral_auth_verified(r);

    s.data = (char *) name->data + sizeof("mistral_jwt_claim_") - 1;
    s.len = name->len - (sizeof("mistral_jwt_claim_") - 1);

    return ngx_http_mistral_jwt_variable(a, v, a && a->claims
                                               ? mst_claim_name(a->claims, s)
                                               : NULL);
}


static ngx_int_t
ngx_http_mistral_jwt_path(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_array_t  *path = (ngx_array_t *) data;

    ngx_http_mistral_auth_t  *a;

    a = ngx_http_mistral_auth_verified(r);

    return ngx_http_mistral_jwt_variable(a, v, a && a->claims
                                               ? mst_claim_path(a->claims,
                                                                path->elts,
                                                                path->nelts)
                                               : NULL);
}


static ngx_int_t
ngx_http_mistral_jwt_variable(ngx_http_mistral_auth_t *a,
    ngx_http_variable_value_t *v, const json_t *value)
{
    ngx_str_t  text;

    v->not_found = 1;

    if (value == NULL) {
        return NGX_OK;
    }

    if (ngx_http_mistral_jwt_text(a, value, &text) != NGX_OK) {
        return NGX_ERROR;
    }

    if (text.data == NULL) {
        return NGX_OK;
    }

    v->data = text.data;
    v->len = text.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_jwt_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mistral_add_table(cf, ngx_http_mistral_jwt_vars);
}


char *
ngx_http_mistral_auth_jwt(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_auth_loc_conf_t *alcf = conf;

    char        *rv;
    ngx_str_t   *value;
    ngx_uint_t   i;

    if (alcf->jwt_realm != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    alcf->jwt_realm = NULL;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        return cf->args->nelts == 2 ? NGX_CONF_OK
                                    : "takes nothing behind \"off\"";
    }

    alcf->file_name = cf->conf_file->file.name.data;
    alcf->line = cf->conf_file->line;

    for (i = 2; i < cf->args->nelts; i++) {
        rv = ngx_http_mistral_jwt_param(cf, alcf, &value[i]);
        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    alcf->jwt_realm = ngx_http_mistral_auth_value(cf, &value[1]);

    return alcf->jwt_realm ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_jwt_param(ngx_conf_t *cf,
    ngx_http_mistral_auth_loc_conf_t *alcf, ngx_str_t *param)
{
    ngx_str_t  value;

    if (param->len > 4 && ngx_strncmp(param->data, "iss=", 4) == 0) {
        value.data = param->data + 4;
        value.len = param->len - 4;

        return ngx_http_mistral_jwt_push(cf, &alcf->issuers, &value);
    }

    if (param->len > 4 && ngx_strncmp(param->data, "aud=", 4) == 0) {
        value.data = param->data + 4;
        value.len = param->len - 4;

        return ngx_http_mistral_jwt_push(cf, &alcf->audiences, &value);
    }

    if (param->len > 6 && ngx_strncmp(param->data, "token=", 6) == 0
        && alcf->token == NULL)
    {
        value.data = param->data + 6;
        value.len = param->len - 6;

        alcf->token = ngx_http_mistral_auth_value(cf, &value);

        return alcf->token ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"",
                       param);

    return NGX_CONF_ERROR;
}


static char *
ngx_http_mistral_jwt_push(ngx_conf_t *cf, ngx_array_t **list,
    ngx_str_t *value)
{
    mst_str_t  *s;

    if (*list == NULL) {
        *list = ngx_array_create(cf->pool, 2, sizeof(mst_str_t));
        if (*list == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    s = ngx_array_push(*list);
    if (s == NULL) {
        return NGX_CONF_ERROR;
    }

    *s = mst_str((char *) value->data, value->len);

    return NGX_CONF_OK;
}


char *
ngx_http_mistral_auth_jwt_algs(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_auth_loc_conf_t *alcf = conf;

    ngx_str_t        *value;
    ngx_uint_t        i;
    const mst_jwa_t  *alg;

    if (alcf->algs != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    alcf->algs = ngx_pcalloc(cf->pool, sizeof(mst_jwa_list_t));
    if (alcf->algs == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        alg = mst_jwa_find(mst_str((char *) value[i].data, value[i].len));

        if (alg == NULL || mst_jwa_list_has(alcf->algs, alg)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "%s algorithm \"%V\"",
                               alg ? "duplicate" : "unknown", &value[i]);
            return NGX_CONF_ERROR;
        }

        alcf->algs->alg[alcf->algs->n++] = alg;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mistral_auth_jwt_require(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mistral_auth_loc_conf_t *alcf = conf;

    ngx_str_t                         *value;
    ngx_uint_t                         i;
    ngx_http_mistral_require_t        *require;
    ngx_http_compile_complex_value_t   ccv;

    if (alcf->require == NGX_CONF_UNSET_PTR) {
        alcf->require = ngx_array_create(cf->pool, 2,
                                         sizeof(ngx_http_mistral_require_t));
        if (alcf->require == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    require = ngx_array_push(alcf->require);

    if (require == NULL
        || ngx_array_init(&require->values, cf->pool, 2,
                          sizeof(ngx_http_complex_value_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;
    require->status = NGX_HTTP_FORBIDDEN;

    for (i = 1; i < cf->args->nelts; i++) {

        if (i + 1 == cf->args->nelts && i > 1
            && (ngx_strcmp(value[i].data, "error=401") == 0
                || ngx_strcmp(value[i].data, "error=403") == 0))
        {
            require->status = value[i].data[8] == '1'
                              ? NGX_HTTP_UNAUTHORIZED : NGX_HTTP_FORBIDDEN;
            break;
        }

        ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

        ccv.cf = cf;
        ccv.value = &value[i];
        ccv.complex_value = ngx_array_push(&require->values);

        if (ccv.complex_value == NULL
            || ngx_http_compile_complex_value(&ccv) != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }

        /* what does not change is a slip of the pen: error=400 */

        if (ccv.complex_value->lengths == NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\", it must hold a "
                               "variable, or be \"error=401\" or "
                               "\"error=403\" at the end", &value[i]);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mistral_auth_jwt_claim_set(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_str_t            *value;
    ngx_uint_t            i;
    ngx_array_t          *path;
    ngx_http_variable_t  *var;

    value = cf->args->elts;

    if (value[1].len < 2 || value[1].data[0] != '$') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid variable name \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    value[1].data++;
    value[1].len--;

    path = NULL;

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_mistral_jwt_push(cf, &path, &value[i]) != NGX_CONF_OK) {
            return NGX_CONF_ERROR;
        }
    }

    var = ngx_http_add_variable(cf, &value[1], NGX_HTTP_VAR_NOCACHEABLE);
    if (var == NULL) {
        return NGX_CONF_ERROR;
    }

    if (var->get_handler) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate variable \"$%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    var->get_handler = ngx_http_mistral_jwt_path;
    var->data = (uintptr_t) path;

    return NGX_CONF_OK;
}

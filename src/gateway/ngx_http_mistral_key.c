
/*
 * mistral_auth_key: whose API key a request has.  Workers only, but for the
 * directive.
 */

#include "gateway/ngx_http_mistral_auth.h"
#include "gateway/ngx_http_mistral_request.h"


static ngx_int_t ngx_http_mistral_key_sent(ngx_http_mistral_auth_t *a,
    ngx_str_t *key);
static ngx_int_t ngx_http_mistral_key_keep(ngx_http_mistral_auth_t *a,
    const mst_key_t *key);


ngx_int_t
ngx_http_mistral_key_verify(ngx_http_mistral_auth_t *a)
{
    ngx_str_t                   sent;
    const mst_key_t            *key;
    ngx_http_mistral_keyset_t  *set;

    if (ngx_http_mistral_key_sent(a, &sent) != NGX_OK) {
        return NGX_ERROR;
    }

    if (sent.len == 0) {
        return NGX_OK;
    }

    set = a->conf->keys;
    ngx_http_mistral_keyset_check(set, a->request->connection->log);

    key = mst_keyfile_find(set->keyfile, mst_str((char *) sent.data,
                                                 sent.len));
    if (key == NULL) {
        a->rc = NGX_HTTP_MISTRAL_AUTH_KEY;
        return NGX_OK;
    }

    a->rc = NGX_HTTP_MISTRAL_AUTH_GOOD;

    return ngx_http_mistral_key_keep(a, key);
}


static ngx_int_t
ngx_http_mistral_key_sent(ngx_http_mistral_auth_t *a, ngx_str_t *key)
{
    ngx_table_elt_t  *h;

    if (a->conf->key) {
        return ngx_http_complex_value(a->request, a->conf->key, key);
    }

    ngx_http_mistral_auth_bearer(a->request, key);

    if (key->len == 0) {
        h = ngx_http_mistral_header_in(a->request, "x-api-key");

        if (h) {
            *key = h->value;
        }
    }

    return NGX_OK;
}


/* the file may be read again while the request runs */

static ngx_int_t
ngx_http_mistral_key_keep(ngx_http_mistral_auth_t *a, const mst_key_t *key)
{
    u_char     *p;
    ngx_uint_t  i;

    const mst_str_t  field[NGX_HTTP_MISTRAL_AUTH_FIELDS] = {
        key->name, key->tier, key->models, key->quota
    };

    p = ngx_pnalloc(a->request->pool, key->name.len + key->tier.len
                                      + key->models.len + key->quota.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_HTTP_MISTRAL_AUTH_FIELDS; i++) {
        a->field[i].data = p;
        a->field[i].len = field[i].len;

        if (field[i].len) {
            p = ngx_cpymem(p, field[i].data, field[i].len);
        }
    }

    return NGX_OK;
}


char *
ngx_http_mistral_auth_key(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_auth_loc_conf_t *alcf = conf;

    ngx_str_t  *value;

    if (alcf->key_realm != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    alcf->key_realm = NULL;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        return cf->args->nelts == 2 ? NGX_CONF_OK
                                    : "takes nothing behind \"off\"";
    }

    alcf->file_name = cf->conf_file->file.name.data;
    alcf->line = cf->conf_file->line;

    if (cf->args->nelts == 3) {
        if (ngx_strncmp(value[2].data, "key=", 4) != 0
            || value[2].len == 4)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[2]);
            return NGX_CONF_ERROR;
        }

        value[2].data += 4;
        value[2].len -= 4;

        alcf->key = ngx_http_mistral_auth_value(cf, &value[2]);
        if (alcf->key == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    alcf->key_realm = ngx_http_mistral_auth_value(cf, &value[1]);

    return alcf->key_realm ? NGX_CONF_OK : NGX_CONF_ERROR;
}

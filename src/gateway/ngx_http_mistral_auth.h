
/*
 * Who may ask: mistral_auth_key, mistral_auth_jwt, mistral_consumer.
 *
 *   auth.c        the module's record and configuration
 *   credential.c  ACCESS phase, WWW-Authenticate, $mistral_consumer*
 *   key.c         API keys
 *   jwt.c         tokens, their claims as variables, what they must say
 *   keyset.c      the files of both: read by the master, and again by a
 *                 worker when they change
 *
 * A credential is looked at once a request and location, when somebody asks
 * first: the ACCESS phase, or a variable that limit_req wants before it.
 */

#ifndef NGX_HTTP_MISTRAL_AUTH_H
#define NGX_HTTP_MISTRAL_AUTH_H

#include "gateway/ngx_http_mistral.h"
#include "api/mst_jwt.h"
#include "api/mst_jwt_cache.h"
#include "api/mst_keyfile.h"


/* a file of keys of one cycle; what is read again is the worker's own */
typedef struct {
    ngx_str_t                   path;          /* full, NUL-terminated */
    const mst_jwa_list_t       *algs;          /* NULL: API keys */
    mst_keyfile_t              *keyfile;       /* one of the two */
    mst_jwks_t                 *jwks;
    mst_jwt_cache_t            *cache;         /* of tokens, jwks only; NULL:
                                                  none was asked for yet */

    struct stat                 st;            /* of what was read */
    ngx_uint_t                  recent;        /* it was new then: another
                                                  change may look the same */
    time_t                      checked;       /* by this worker */
    ngx_err_t                   err;           /* that was logged last */
} ngx_http_mistral_keyset_t;


/* one line of mistral_auth_jwt_require */
typedef struct {
    ngx_array_t                 values;        /* ngx_http_complex_value_t */
    ngx_uint_t                  status;        /* 401 or 403 */
} ngx_http_mistral_require_t;


typedef struct {
    ngx_http_complex_value_t   *key_realm;     /* NULL: off */
    ngx_http_complex_value_t   *key;           /* key=, NULL: headers */
    ngx_str_t                   key_file;
    ngx_http_mistral_keyset_t  *keys;          /* NULL: off */

    ngx_http_complex_value_t   *jwt_realm;     /* NULL: off */
    ngx_http_complex_value_t   *token;         /* token=, NULL: header */
    ngx_array_t                *issuers;       /* mst_str_t; NULL: any */
    ngx_array_t                *audiences;
    ngx_str_t                   jwt_file;
    mst_jwa_list_t             *algs;
    time_t                      leeway;
    ngx_flag_t                  require_exp;
    ngx_array_t                *require;       /* _require_t; NULL: none */
    ngx_http_mistral_keyset_t  *jwks;          /* NULL: off */
    mst_jwt_policy_t            policy;        /* of the above */

    ngx_http_complex_value_t   *consumer;      /* NULL: the credential's */

    u_char                     *file_name;     /* of the last directive that */
    ngx_uint_t                  line;          /* switched something on */
} ngx_http_mistral_auth_loc_conf_t;


typedef enum {
    NGX_HTTP_MISTRAL_AUTH_NAME = 0,
    NGX_HTTP_MISTRAL_AUTH_TIER,
    NGX_HTTP_MISTRAL_AUTH_MODELS,
    NGX_HTTP_MISTRAL_AUTH_QUOTA,
    NGX_HTTP_MISTRAL_AUTH_FIELDS
} ngx_http_mistral_auth_field_e;


typedef enum {
    NGX_HTTP_MISTRAL_AUTH_GOOD = 0,
    NGX_HTTP_MISTRAL_AUTH_MISSING,
    NGX_HTTP_MISTRAL_AUTH_KEY,                 /* is nobody's */
    NGX_HTTP_MISTRAL_AUTH_TOKEN,               /* token_rc says why */
    NGX_HTTP_MISTRAL_AUTH_REQUIRE_401,
    NGX_HTTP_MISTRAL_AUTH_REQUIRE_403
} ngx_http_mistral_auth_e;


/* of a request in a location; request pool */
typedef struct {
    ngx_http_request_t                *request;
    ngx_http_mistral_auth_loc_conf_t  *conf;   /* it was checked by */
    ngx_http_mistral_auth_e            rc;     /* of the credential */
    ngx_http_mistral_auth_e            refused;    /* by the ACCESS phase */
    mst_jwt_rc_t                       token_rc;
    ngx_str_t                          field[NGX_HTTP_MISTRAL_AUTH_FIELDS];
    json_t                            *claims; /* a reference; NULL: no
                                                  token, or a bad one */
    ngx_str_t                          challenge;  /* Bearer realm="..." */
    ngx_uint_t                         challenged; /* is among the headers */
} ngx_http_mistral_auth_t;


extern ngx_module_t  ngx_http_mistral_auth_module;


/* credential.c: for other policies */

/*
 * NGX_OK: the location asks for no credential, or the request has a good
 * one; NGX_DECLINED: it has not; NGX_ERROR: out of memory.  Nothing is sent
 * or set by it; mistral_auth_jwt_require is not looked at.
 */
ngx_int_t ngx_http_mistral_auth_check(ngx_http_request_t *r);

/* 1: r->err_status is the ACCESS phase's refusal, and e (if not NULL) says
   why; 0: it is somebody else's */
ngx_uint_t ngx_http_mistral_auth_error(ngx_http_request_t *r,
    mst_api_error_t *e);

/* credential.c: for auth.c, key.c and jwt.c */

ngx_int_t ngx_http_mistral_credential_variables(ngx_conf_t *cf);
ngx_int_t ngx_http_mistral_credential_init(ngx_conf_t *cf);

/* who asks, verified; NULL: nobody that is known (or no memory) */
ngx_http_mistral_auth_t *ngx_http_mistral_auth_verified(
    ngx_http_request_t *r);

/* what stands behind "Bearer"; len 0: nothing */
void ngx_http_mistral_auth_bearer(ngx_http_request_t *r, ngx_str_t *token);

/* auth.c: configuration phase: a value with variables; NULL was logged */
ngx_http_complex_value_t *ngx_http_mistral_auth_value(ngx_conf_t *cf,
    ngx_str_t *value);

/* key.c: NGX_OK with a->rc, NGX_ERROR */
ngx_int_t ngx_http_mistral_key_verify(ngx_http_mistral_auth_t *a);
char *ngx_http_mistral_auth_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* jwt.c: the same */
ngx_int_t ngx_http_mistral_jwt_verify(ngx_http_mistral_auth_t *a);
ngx_int_t ngx_http_mistral_jwt_require(ngx_http_mistral_auth_t *a,
    ngx_http_mistral_auth_e *rc);
ngx_int_t ngx_http_mistral_jwt_field(ngx_http_mistral_auth_t *a,
    const char *name, ngx_str_t *value);
ngx_int_t ngx_http_mistral_jwt_add_variables(ngx_conf_t *cf);
char *ngx_http_mistral_auth_jwt(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mistral_auth_jwt_algs(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mistral_auth_jwt_require(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mistral_auth_jwt_claim_set(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);

/* keyset.c: sets is an array of _keyset_t *; NULL was logged, with the place
   in the configuration that alcf has */
ngx_http_mistral_keyset_t *ngx_http_mistral_keyset_add(ngx_conf_t *cf,
    ngx_array_t *sets, ngx_str_t *path, const mst_jwa_list_t *algs,
    ngx_http_mistral_auth_loc_conf_t *alcf);

/* by a worker, before it looks into the set: once a second */
void ngx_http_mistral_keyset_check(ngx_http_mistral_keyset_t *set,
    ngx_log_t *log);

/* what a verified token claims, NULL with the reason in *rc; a reference */
json_t *ngx_http_mistral_keyset_token(ngx_http_mistral_keyset_t *set,
    mst_str_t token, mst_jwt_rc_t *rc);


#endif /* NGX_HTTP_MISTRAL_AUTH_H */

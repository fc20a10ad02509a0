
/*
 * One signed token: see mst_jwt.h.
 */

#include <string.h>

#include "api/mst_b64url.h"
#include "api/mst_jwt.h"


#define MST_JWT_BYTES      mst_b64url_size(MST_JWT_MAX_SIZE)
#define MST_JWT_SIGNATURE_BYTES  (MST_JWK_RSA_MAX / 8)


typedef struct {
    mst_str_t         signed_part;     /* header.payload, as it was sent */
    mst_str_t         header;          /* base64url */
    mst_str_t         payload;
    mst_str_t         signature;
    const mst_jwa_t  *alg;
    json_t           *head;            /* owns kid */
    mst_str_t         kid;             /* data NULL: none */
} mst_jwt_t;


static int mst_jwt_split(mst_jwt_t *t, mst_str_t token);
static mst_jwt_rc_t mst_jwt_header(mst_jwt_t *t);
static json_t *mst_jwt_object(mst_str_t part);
static mst_jwt_rc_t mst_jwt_signature(const mst_jwt_t *t,
    const mst_jwks_t *set);
static int mst_jwt_time(const json_t *claims, const char *name, double *time);
static int mst_jwt_one_of(const json_t *value, const mst_str_t *list,
    size_t n);


json_t *
mst_jwt_verify(const mst_jwks_t *set, mst_str_t token, mst_jwt_rc_t *rc)
{
    json_t     *claims;
    mst_jwt_t   t;

    memset(&t, 0, sizeof(mst_jwt_t));

    if (mst_jwt_split(&t, token) != MST_OK) {
        *rc = MST_JWT_MALFORMED;
        return NULL;
    }

    claims = NULL;
    *rc = mst_jwt_header(&t);

    if (*rc == MST_JWT_OK) {
        *rc = mst_jwt_signature(&t, set);
    }

    if (*rc == MST_JWT_OK) {
        claims = mst_jwt_object(t.payload);
        *rc = claims ? MST_JWT_OK : MST_JWT_CLAIMS;
    }

    json_decref(t.head);

    return claims;
}


static int
mst_jwt_split(mst_jwt_t *t, mst_str_t token)
{
    const char  *end, *dot, *last;

    if (token.len == 0 || token.len > MST_JWT_MAX_SIZE) {
        return MST_ERROR;
    }

    end = token.data + token.len;

    dot = memchr(token.data, '.', token.len);
    if (dot == NULL) {
        return MST_ERROR;
    }

    last = memchr(dot + 1, '.', (size_t) (end - dot - 1));

    if (last == NULL || memchr(last + 1, '.', (size_t) (end - last - 1))) {
        return MST_ERROR;
    }

    t->signed_part = mst_str(token.data, (size_t) (last - token.data));
    t->header = mst_str(token.data, (size_t) (dot - token.data));
    t->payload = mst_str(dot + 1, (size_t) (last - dot - 1));
    t->signature = mst_str(last + 1, (size_t) (end - last - 1));

    return MST_OK;
}


static mst_jwt_rc_t
mst_jwt_header(mst_jwt_t *t)
{
    const json_t  *alg, *kid;

    t->head = mst_jwt_object(t->header);
    if (t->head == NULL) {
        return MST_JWT_MALFORMED;
    }

    alg = json_object_get(t->head, "alg");
    kid = json_object_get(t->head, "kid");

    /* "crit" names extensions that must be understood: we know none */

    if (!json_is_string(alg) || (kid && !json_is_string(kid))
        || json_object_get(t->head, "crit"))
    {
        return MST_JWT_MALFORMED;
    }

    t->kid = mst_str(json_string_value(kid), json_string_length(kid));
    t->alg = mst_jwa_find(mst_str(json_string_value(alg),
                                  json_string_length(alg)));

    return t->alg ? MST_JWT_OK : MST_JWT_ALG;
}


/* JSON that two readers could take for two things is none */

static json_t *
mst_jwt_object(mst_str_t part)
{
    size_t          len;
    json_t         *json;
    unsigned char   data[MST_JWT_BYTES];

    if (mst_b64url_decode(part, data, &len) != MST_OK) {
        return NULL;
    }

    json = json_loadb((const char *) data, len, JSON_REJECT_DUPLICATES, NULL);

    if (json && !json_is_object(json)) {
        json_decref(json);
        return NULL;
    }

    return json;
}


/* keys without a name, those of a PEM file, are asked whatever the kid */

static mst_jwt_rc_t
mst_jwt_signature(const mst_jwt_t *t, const mst_jwks_t *set)
{
    size_t            i, len;
    mst_str_t         signature;
    mst_jwt_rc_t      rc;
    const mst_jwk_t  *key;
    unsigned char     data[mst_b64url_size(2 * MST_JWT_SIGNATURE_BYTES)];

    if (t->signature.len > 2 * MST_JWT_SIGNATURE_BYTES
        || mst_b64url_decode(t->signature, data, &len) != MST_OK)
    {
        return MST_JWT_SIGNATURE;
    }

    signature = mst_str((const char *) data, len);
    rc = MST_JWT_ALG;

    for (i = 0; i < set->n; i++) {
        key = &set->key[i];

        if (key->alg != t->alg) {
            continue;
        }

        if (key->kid.data && t->kid.data
            && (key->kid.len != t->kid.len
                || memcmp(key->kid.data, t->kid.data, t->kid.len) != 0))
        {
            rc = rc == MST_JWT_ALG ? MST_JWT_NO_KEY : rc;
            continue;
        }

        if (mst_jwa_verify(key->alg, key->pkey, t->signed_part, signature)) {
            return MST_JWT_OK;
        }

        rc = MST_JWT_SIGNATURE;
    }

    return rc;
}


mst_jwt_rc_t
mst_jwt_check(const json_t *claims, const mst_jwt_policy_t *p, time_t now)
{
    double         exp, nbf, iat;
    const json_t  *sub;

    exp = 0;
    nbf = 0;
    iat = 0;
    sub = json_object_get(claims, "sub");

    if (mst_jwt_time(claims, "exp", &exp) == MST_ERROR
        || mst_jwt_time(claims, "nbf", &nbf) == MST_ERROR
        || mst_jwt_time(claims, "iat", &iat) == MST_ERROR
        || (sub && !json_is_string(sub)))
    {
        return MST_JWT_CLAIMS;
    }

    if (json_object_get(claims, "exp")) {
        if ((double) now >= exp + (double) p->leeway) {
            return MST_JWT_EXPIRED;
        }

    } else if (p->require_exp) {
        return MST_JWT_NO_EXP;
    }

    if ((json_object_get(claims, "nbf")
         && (double) now < nbf - (double) p->leeway)
        || (json_object_get(claims, "iat")
            && (double) now < iat - (double) p->leeway))
    {
        return MST_JWT_EARLY;
    }

    if (p->n_issuers
        && (json_is_array(json_object_get(claims, "iss"))
            || !mst_jwt_one_of(json_object_get(claims, "iss"), p->issuers,
                               p->n_issuers)))
    {
        return MST_JWT_ISSUER;
    }

    if (p->n_audiences
        && !mst_jwt_one_of(json_object_get(claims, "aud"), p->audiences,
                           p->n_audiences))
    {
        return MST_JWT_AUDIENCE;
    }

    return MST_JWT_OK;
}


/* MST_DECLINED: there is none */

static int
mst_jwt_time(const json_t *claims, const char *name, double *time)
{
    const json_t  *value;

    value = json_object_get(claims, name);

    if (value == NULL) {
        return MST_DECLINED;
    }

    *time = json_number_value(value);

    return json_is_number(value) ? MST_OK : MST_ERROR;
}


/* a string, or an array of strings of which one is enough */

static int
mst_jwt_one_of(const json_t *value, const mst_str_t *list, size_t n)
{
    size_t  i;

    if (json_is_array(value)) {

        for (i = 0; i < json_array_size(value); i++) {
            if (json_is_string(json_array_get(value, i))
                && mst_jwt_one_of(json_array_get(value, i), list, n))
            {
                return 1;
            }
        }

        return 0;
    }

    for (i = 0; i < n; i++) {
        if (json_is_string(value)
            && json_string_length(value) == list[i].len
            && memcmp(json_string_value(value), list[i].data, list[i].len)
               == 0)
        {
            return 1;
        }
    }

    return 0;
}


const char *
mst_jwt_text(mst_jwt_rc_t rc)
{
    static const char *const  text[] = {
        "is good",
        "is malformed",
        "is signed by an algorithm that no key of ours has",
        "names no key of ours",
        "has a wrong signature",
        "has claims that are malformed",
        "has no \"exp\"",
        "has expired",
        "is not valid yet",
        "has another issuer",
        "is for another audience"
    };

    return text[rc];
}

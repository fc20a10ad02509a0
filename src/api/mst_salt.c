
/*
 * The salt of a tenant: see mst_salt.h.
 */

#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "api/mst_salt.h"
#include "base/mst_err.h"
#include "base/mst_mem.h"


struct mst_salt_s {
    EVP_MAC      *mac;
    EVP_MAC_CTX  *ctx;                 /* has the key */
};


mst_salt_t *
mst_salt_create(const uint8_t *key)
{
    char         name[] = "SHA256";
    mst_salt_t  *s;
    OSSL_PARAM   params[2];

    s = mst_calloc(1, sizeof(mst_salt_t));

    if (s == NULL) {
        return NULL;
    }

    params[0] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name,
                                                 0);
    params[1] = OSSL_PARAM_construct_end();

    s->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    s->ctx = s->mac ? EVP_MAC_CTX_new(s->mac) : NULL;

    if (s->ctx == NULL
        || !EVP_MAC_init(s->ctx, key, MST_SALT_KEY_SIZE, params))
    {
        mst_salt_destroy(s);
        return NULL;
    }

    return s;
}


void
mst_salt_destroy(mst_salt_t *s)
{
    if (s == NULL) {
        return;
    }

    EVP_MAC_CTX_free(s->ctx);
    EVP_MAC_free(s->mac);
    mst_free(s);
}


int
mst_salt_make(mst_salt_t *s, mst_str_t tenant, mst_str_t client,
    uint8_t *salt)
{
    size_t         n;
    uint64_t       len;
    unsigned char  hash[EVP_MAX_MD_SIZE];

    memset(salt, 0, MST_SALT_SIZE);

    if (tenant.len == 0 && client.len == 0) {
        return MST_OK;
    }

    /* the length in front: "ab" of "c" is not "a" of "bc" */

    len = tenant.len;

    if (!EVP_MAC_init(s->ctx, NULL, 0, NULL)
        || !EVP_MAC_update(s->ctx, (unsigned char *) &len, sizeof(len))
        || !EVP_MAC_update(s->ctx, (const unsigned char *) tenant.data,
                           tenant.len)
        || !EVP_MAC_update(s->ctx, (const unsigned char *) client.data,
                           client.len)
        || !EVP_MAC_final(s->ctx, hash, &n, sizeof(hash)))
    {
        return MST_ERROR;
    }

    memcpy(salt, hash, MST_SALT_SIZE);

    return MST_OK;
}

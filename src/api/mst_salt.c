
/*
 * The salt of a tenant: see mst_salt.h.
 */

#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "api/mst_salt.h"
#include "base/mst_buf.h"


int
mst_salt_make(const uint8_t *key, mst_str_t tenant, mst_str_t client,
    uint8_t *salt)
{
    int            rc;
    uint64_t       len;
    mst_buf_t      text;
    unsigned char  hash[EVP_MAX_MD_SIZE];

    memset(salt, 0, MST_SALT_SIZE);

    if (tenant.len == 0 && client.len == 0) {
        return MST_OK;
    }

    /* the length in front: "ab" of "c" is not "a" of "bc" */

    len = tenant.len;
    mst_buf_init(&text);

    (void) mst_buf_append(&text, &len, sizeof(len));
    (void) mst_buf_str(&text, tenant);
    rc = mst_buf_str(&text, client);

    if (rc == MST_OK
        && HMAC(EVP_sha256(), key, MST_SALT_KEY_SIZE,
                (unsigned char *) text.data, text.len, hash, NULL)
           == NULL)
    {
        rc = MST_ERROR;
    }

    mst_buf_fini(&text);

    if (rc == MST_OK) {
        memcpy(salt, hash, MST_SALT_SIZE);
    }

    return rc;
}

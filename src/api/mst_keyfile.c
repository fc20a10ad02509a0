
/*
 * A file of API keys: see mst_keyfile.h.
 *
 * Keys are found by a seeded hash of their digest, so that which bucket is
 * walked is known to nobody outside; a bucket is walked to its end, and each
 * digest compared in constant time.
 */

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "api/mst_keyfile.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"


#define MST_KEYFILE_FIELDS  5


struct mst_keyfile_s {
    uint64_t     seed;
    char        *text;                 /* what the strings point into */
    mst_key_t   *keys;                 /* [n] */
    uint32_t    *buckets;              /* [mask + 1] key + 1; 0: empty */
    size_t       n;
    size_t       size;                 /* of keys */
    size_t       mask;
};


static int mst_keyfile_lines(mst_keyfile_t *f, size_t len, mst_err_t *err);
static int mst_keyfile_line(mst_keyfile_t *f, mst_str_t line,
    mst_err_t *err);
static int mst_keyfile_digest(mst_str_t s, unsigned char *digest,
    mst_err_t *err);
static int mst_keyfile_hex(unsigned char c);
static int mst_keyfile_quota(mst_str_t s);
static int mst_keyfile_index(mst_keyfile_t *f, mst_err_t *err);
static const mst_key_t *mst_keyfile_digest_find(const mst_keyfile_t *f,
    const unsigned char *digest);
static size_t mst_keyfile_bucket(const mst_keyfile_t *f,
    const unsigned char *digest);


mst_keyfile_t *
mst_keyfile_parse(const char *data, size_t len, uint64_t seed,
    mst_err_t *err)
{
    mst_keyfile_t  *f;

    f = mst_calloc(1, sizeof(mst_keyfile_t));

    if (f == NULL || (f->text = mst_alloc(len + 1)) == NULL) {
        mst_keyfile_destroy(f);
        (void) mst_err_set(err, "out of memory");
        return NULL;
    }

    memcpy(f->text, data, len);
    f->seed = seed;

    if (mst_keyfile_lines(f, len, err) != MST_OK
        || mst_keyfile_index(f, err) != MST_OK)
    {
        mst_keyfile_destroy(f);
        return NULL;
    }

    return f;
}


static int
mst_keyfile_lines(mst_keyfile_t *f, size_t len, mst_err_t *err)
{
    char         place[32];
    size_t       n;
    mst_str_t    line;
    const char  *p, *end, *eol;

    p = f->text;
    end = p + len;

    for (n = 1; p < end; n++) {
        eol = memchr(p, '\n', (size_t) (end - p));
        eol = eol ? eol : end;
        line = mst_str(p, (size_t) (eol - p));
        p = eol + 1;

        while (line.len && strchr(" \t\r", line.data[line.len - 1])) {
            line.len--;
        }

        if (line.len == 0 || line.data[0] == '#') {
            continue;
        }

        if (mst_keyfile_line(f, line, err) != MST_OK) {
            (void) snprintf(place, sizeof(place), "line %zu", n);
            return mst_err_prefix(err, place);
        }
    }

    return MST_OK;
}


static int
mst_keyfile_line(mst_keyfile_t *f, mst_str_t line, mst_err_t *err)
{
    size_t      i, n;
    mst_key_t  *key;
    mst_str_t   field[MST_KEYFILE_FIELDS];

    if (line.len > MST_KEYFILE_MAX_LINE) {
        return mst_err_set(err, "has %zu bytes, at most %d", line.len,
                           MST_KEYFILE_MAX_LINE);
    }

    memset(field, 0, sizeof(field));
    field[0].data = line.data;

    for (i = 0, n = 0; i < line.len; i++) {

        if (line.data[i] == ':') {
            if (++n == MST_KEYFILE_FIELDS) {
                return mst_err_set(err, "has more than %d fields",
                                   MST_KEYFILE_FIELDS);
            }

            field[n].data = line.data + i + 1;
            continue;
        }

        if (line.data[i] <= ' ' || line.data[i] > '~') {
            return mst_err_set(err, "byte %zu is a space or no printable "
                               "ASCII", i + 1);
        }

        field[n].len++;
    }

    if (f->n == f->size) {
        n = f->size ? 2 * f->size : 16;
        key = n < UINT32_MAX ? mst_realloc(f->keys, n, sizeof(mst_key_t))
                             : NULL;
        if (key == NULL) {
            return mst_err_set(err, "out of memory");
        }

        f->keys = key;
        f->size = n;
    }

    key = &f->keys[f->n];
    key->name = field[0];
    key->tier = field[2];
    key->models = field[3];
    key->quota = field[4];
    key->next = 0;

    if (key->name.len == 0) {
        return mst_err_set(err, "has no name");
    }

    if (!mst_keyfile_quota(key->quota)) {
        return mst_err_set(err, "the quota is not a number, which may end "
                           "with k or m");
    }

    f->n++;

    return mst_keyfile_digest(field[1], key->digest, err);
}


static int
mst_keyfile_digest(mst_str_t s, unsigned char *digest, mst_err_t *err)
{
    int                     high, low;
    size_t                  i;
    static const mst_str_t  scheme = mst_string("{SHA256}");

    if (s.len != scheme.len + 2 * MST_KEYFILE_DIGEST
        || memcmp(s.data, scheme.data, scheme.len) != 0)
    {
        return mst_err_set(err, "the second field is not {SHA256} and %d hex "
                           "digits", 2 * MST_KEYFILE_DIGEST);
    }

    for (i = 0; i < MST_KEYFILE_DIGEST; i++) {
        high = mst_keyfile_hex((unsigned char) s.data[scheme.len + 2 * i]);
        low = mst_keyfile_hex((unsigned char) s.data[scheme.len + 2 * i + 1]);

        if (high < 0 || low < 0) {
            return mst_err_set(err, "the digest is not %d hex digits",
                               2 * MST_KEYFILE_DIGEST);
        }

        digest[i] = (unsigned char) (high << 4 | low);
    }

    return MST_OK;
}


static int
mst_keyfile_hex(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    c |= 0x20;

    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}


static int
mst_keyfile_quota(mst_str_t s)
{
    size_t  i;

    if (s.len == 0) {
        return 1;
    }

    if (s.len > 1 && strchr("kKmM", s.data[s.len - 1])) {
        s.len--;
    }

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return 0;
        }
    }

    return 1;
}


static int
mst_keyfile_index(mst_keyfile_t *f, mst_err_t *err)
{
    size_t            i, n;
    uint32_t         *bucket;
    const mst_key_t  *same;

    for (n = 1; n < f->n; n *= 2) { /* void */ }

    f->mask = n - 1;
    f->buckets = mst_calloc(n, sizeof(uint32_t));
    if (f->buckets == NULL) {
        return mst_err_set(err, "out of memory");
    }

    for (i = 0; i < f->n; i++) {
        same = mst_keyfile_digest_find(f, f->keys[i].digest);

        if (same) {
            return mst_err_set(err, "\"%.*s\" and \"%.*s\" have the same key",
                               (int) same->name.len, same->name.data,
                               (int) f->keys[i].name.len,
                               f->keys[i].name.data);
        }

        bucket = &f->buckets[mst_keyfile_bucket(f, f->keys[i].digest)];
        f->keys[i].next = *bucket;
        *bucket = (uint32_t) i + 1;
    }

    return MST_OK;
}


const mst_key_t *
mst_keyfile_find(const mst_keyfile_t *f, mst_str_t key)
{
    unsigned char  digest[EVP_MAX_MD_SIZE];

    if (EVP_Digest(key.data, key.len, digest, NULL, EVP_sha256(), NULL) != 1)
    {
        ERR_clear_error();
        return NULL;
    }

    return mst_keyfile_digest_find(f, digest);
}


static const mst_key_t *
mst_keyfile_digest_find(const mst_keyfile_t *f, const unsigned char *digest)
{
    uint32_t          i;
    const mst_key_t  *found;

    found = NULL;

    for (i = f->buckets[mst_keyfile_bucket(f, digest)]; i;
         i = f->keys[i - 1].next)
    {
        if (CRYPTO_memcmp(f->keys[i - 1].digest, digest, MST_KEYFILE_DIGEST)
            == 0)
        {
            found = &f->keys[i - 1];
        }
    }

    return found;
}


static size_t
mst_keyfile_bucket(const mst_keyfile_t *f, const unsigned char *digest)
{
    return mst_hash(f->seed, digest, MST_KEYFILE_DIGEST) & f->mask;
}


size_t
mst_keyfile_count(const mst_keyfile_t *f)
{
    return f->n;
}


void
mst_keyfile_destroy(mst_keyfile_t *f)
{
    if (f == NULL) {
        return;
    }

    mst_free(f->text);
    mst_free(f->keys);
    mst_free(f->buckets);
    mst_free(f);
}

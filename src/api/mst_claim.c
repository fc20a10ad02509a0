
/*
 * Claims as text: see mst_claim.h.
 */

#include "api/mst_claim.h"


static int mst_claim_plain(const json_t *value, mst_buf_t *out);
static int mst_claim_dump(const char *data, size_t size, void *out);


const json_t *
mst_claim_path(const json_t *claims, const mst_str_t *names, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        claims = json_object_getn(claims, names[i].data, names[i].len);
    }

    return claims;
}


const json_t *
mst_claim_name(const json_t *claims, mst_str_t name)
{
    size_t         n;
    const json_t  *value;

    value = json_object_getn(claims, name.data, name.len);

    if (value) {
        return value;
    }

    for (n = 1; n + 2 < name.len; n++) {

        if (name.data[n] != '_' || name.data[n + 1] != '_') {
            continue;
        }

        value = json_object_getn(claims, name.data, n);

        if (json_is_object(value)) {
            return mst_claim_name(value, mst_str(name.data + n + 2,
                                                 name.len - n - 2));
        }
    }

    return NULL;
}


int
mst_claim_text(const json_t *value, mst_buf_t *out)
{
    int            rc;
    size_t         i;
    const json_t  *element;

    if (!json_is_array(value)) {
        return mst_claim_plain(value, out);
    }

    rc = MST_OK;

    for (i = 0; i < json_array_size(value) && rc == MST_OK; i++) {
        element = json_array_get(value, i);

        if (i) {
            (void) mst_buf_char(out, ',');
        }

        rc = mst_claim_plain(element, out);
    }

    return out->failed ? MST_ERROR : rc;
}


static int
mst_claim_plain(const json_t *value, mst_buf_t *out)
{
    size_t       i;
    mst_str_t    s;

    if (value == NULL || json_is_null(value)) {
        return MST_DECLINED;
    }

    if (!json_is_string(value)) {
        return json_dump_callback(value, mst_claim_dump, out,
                                  JSON_COMPACT | JSON_ENCODE_ANY
                                  | JSON_SORT_KEYS)
               == 0 ? MST_OK : MST_ERROR;
    }

    s = mst_str(json_string_value(value), json_string_length(value));

    for (i = 0; i < s.len; i++) {
        if ((unsigned char) s.data[i] < 0x20 || s.data[i] == 0x7f) {
            return MST_DECLINED;
        }
    }

    return mst_buf_str(out, s);
}


static int
mst_claim_dump(const char *data, size_t size, void *out)
{
    return mst_buf_append(out, data, size) == MST_OK ? 0 : -1;
}


/*
 * UTF-8: whole or in parts the same valid text; decoder, validator, JSON's
 * own check and JSON's writer agree with each other.
 */

#include "fuzz.h"

#include "api/mst_json.h"
#include "text/mst_utf8.h"


static void
fuzz_push(const uint8_t *data, size_t size, size_t part, mst_buf_t *out)
{
    size_t      n;
    mst_utf8_t  u;

    mst_buf_init(out);
    mst_utf8_init(&u);

    for ( /* void */ ; size; data += n, size -= n) {
        n = (part < size) ? part : size;
        fuzz_check(mst_utf8_push(&u, data, n, out) == MST_OK);
        fuzz_check(u.n < 4);
    }

    fuzz_check(mst_utf8_finish(&u, out) == MST_OK);
}


static void
fuzz_decode(const uint8_t *data, size_t size, size_t valid)
{
    size_t    i, n;
    uint32_t  cp;

    for (i = 0; i < size; i += n) {
        n = mst_utf8_decode(data + i, size - i, &cp);

        fuzz_check(n >= 1 && n <= 4 && n <= size - i && cp <= 0x10ffff);

        if (i < valid) {
            fuzz_check(mst_json_utf8(data + i, data + size) == n);

        } else if (i == valid) {
            fuzz_check(mst_json_utf8(data + i, data + size) == 0);
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t     *json;
    size_t      valid;
    mst_buf_t   all, one, text;

    valid = mst_utf8_check(data, size);
    fuzz_check(valid <= size);
    fuzz_decode(data, size, valid);

    fuzz_push(data, size, size + 1, &all);
    fuzz_push(data, size, 1 + (size ? data[0] % 5 : 0), &one);

    fuzz_check(all.len == one.len
               && (all.len == 0 || memcmp(all.data, one.data, all.len) == 0));
    fuzz_check(mst_utf8_check(all.data, all.len) == all.len);
    fuzz_check(valid < size || all.len == size);

    /* what is written as JSON reads back as the same text */

    mst_buf_init(&text);
    fuzz_check(mst_json_string(&text, mst_str((const char *) data, size))
               == MST_OK);

    json = json_loadb(text.data, text.len,
                      JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    fuzz_check(json != NULL);

    if (valid == size) {
        fuzz_check(json_string_length(json) == size
                   && memcmp(json_string_value(json), data, size) == 0);
    }

    json_decref(json);
    mst_buf_fini(&text);
    mst_buf_fini(&all);
    mst_buf_fini(&one);

    return 0;
}

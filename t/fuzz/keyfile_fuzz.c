
/*
 * A key file: what is accepted is printable, and every digest finds its own
 * line.
 */

#include "fuzz.h"

#include "api/mst_keyfile.h"


static void
fuzz_field(mst_str_t s)
{
    size_t  i;

    for (i = 0; i < s.len; i++) {
        fuzz_check(s.data[i] > ' ' && s.data[i] <= '~' && s.data[i] != ':');
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mst_err_t         err = { "" };
    mst_keyfile_t    *f;
    const mst_key_t  *key;

    f = mst_keyfile_parse((const char *) data, size, 7, &err);

    fuzz_check((f == NULL) == (err.text[0] != '\0'));

    if (f == NULL) {
        return 0;
    }

    /* the key of the seeds */

    key = mst_keyfile_find(f, mst_str("alpha", 5));

    if (key) {
        fuzz_check(key->name.len != 0);
        fuzz_field(key->name);
        fuzz_field(key->tier);
        fuzz_field(key->models);
        fuzz_field(key->quota);
    }

    fuzz_check(mst_keyfile_count(f) <= size / 74);
    mst_keyfile_destroy(f);

    return 0;
}

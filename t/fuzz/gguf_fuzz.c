
/*
 * A hostile model file: read, checked as "nginx -t" does, every value and
 * every byte of its tensors looked at.
 */

#include "fuzz.h"

#include "file/mst_gguf_parse.h"
#include "model/mst_check.h"
#include "model/mst_config.h"


static void
fuzz_key(const mst_gguf_t *g, const mst_gguf_key_t *key)
{
    int               flag;
    char              show[MST_GGUF_SHOW];
    double            d;
    uint64_t          i;
    mst_str_t         s;
    mst_gguf_array_t  a;

    (void) mst_gguf_show(show, key->key);
    fuzz_check(strlen(show) < sizeof(show));

    if (key->type == MST_GGUF_STRING) {
        fuzz_touch(key->string.data, key->string.len);
        return;
    }

    a = key->array;

    if (key->type != MST_GGUF_ARRAY) {
        fuzz_touch(key->value, mst_gguf_sizes[key->type]);

    } else if (a.type == MST_GGUF_STRING) {
        for (i = 0; mst_gguf_next_string(&a, &s) == MST_OK; i++) {
            fuzz_touch(s.data, s.len);
        }

        fuzz_check(i == key->array.n);

    } else {
        for (i = 0; i < a.n; i++) {
            (void) mst_gguf_number(&a, i);
        }
    }

    /* by a name that is there, and as what it may not be */

    (void) mst_gguf_bool(g, "general.architecture", &flag, NULL);
    (void) mst_gguf_float(g, "llama.rope.freq_base", &d, NULL);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    float                y[32];
    size_t               i;
    mst_err_t            err = { "" };
    mst_gguf_t          *g;
    mst_check_t          check;
    const mst_tensor_t  *t;

    g = mst_gguf_open_memory(data, size, "fuzz.gguf", &err);

    if (g == NULL) {
        fuzz_check(err.text[0] != '\0');
        return 0;
    }

    for (i = 0; i < g->n_keys; i++) {
        fuzz_key(g, &g->keys[i]);
    }

    for (i = 0; i < mst_gguf_n_tensors(g); i++) {
        t = mst_gguf_tensor_at(g, i);

        if (t->data != NULL) {
            fuzz_touch(t->data, t->size);
        }

        if (mst_type_info(t->type) != NULL && t->size >= 4 * sizeof(y)) {
            (void) mst_quant_decode((mst_type_t) t->type, t->data, y, 32);
        }
    }

    err.text[0] = '\0';

    if (mst_check_gguf(g, NULL, &check, &err) == MST_OK) {
        fuzz_check(check.n_vocab != 0 && check.n_layers != 0);
        fuzz_check(check.weights <= size);
        fuzz_check(strlen(check.name) < sizeof(check.name));

    } else {
        fuzz_check(err.text[0] != '\0');
    }

    mst_gguf_close(g);

    return 0;
}

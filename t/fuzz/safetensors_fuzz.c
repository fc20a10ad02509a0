
/*
 * A hostile safetensors file, then the same bytes as a config.json and a
 * params.json.
 */

#include "fuzz.h"

#include "file/mst_safetensors.h"
#include "model/mst_config.h"
#include "model/mst_weight.h"


static void
fuzz_tell(void *data, const mst_err_t *why)
{
    (void) data;

    fuzz_check(why->text[0] != '\0');
}


/* who hears every fault hears one where there is one */

static int
fuzz_config(int (*read)(const char *, size_t, const char *, mst_config_t *,
                        mst_faults_t *, mst_err_t *),
    const uint8_t *data, size_t size, mst_config_t *c)
{
    mst_err_t     err = { "" };
    mst_faults_t  faults = { fuzz_tell, NULL, 0 };

    if (read((const char *) data, size, "fuzz", c, &faults, &err) == MST_OK) {
        fuzz_check(faults.n == 0);

    } else {
        fuzz_check(faults.n != 0 || err.text[0] != '\0');
    }

    if (read((const char *) data, size, "fuzz", c, NULL, NULL) == MST_OK) {
        fuzz_check(faults.n == 0 && err.text[0] == '\0');
        return MST_OK;
    }

    fuzz_check(faults.n != 0 || err.text[0] != '\0');

    return MST_ERROR;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t               i;
    double               freqs[MST_CONFIG_MAX_HEAD / 2];
    mst_config_t         c;
    mst_weight_match_t   m;
    mst_safetensors_t   *s;
    const mst_tensor_t  *t;

    s = mst_safetensors_open_memory(data, size, "fuzz", NULL);

    for (i = 0; s && i < mst_safetensors_n_tensors(s); i++) {
        t = mst_safetensors_tensor_at(s, i);
        fuzz_touch(t->data, t->size);
        (void) mst_weight_match(MST_NAMES_HF, t->name, &m);
        (void) mst_weight_match(MST_NAMES_MISTRAL, t->name, &m);
    }

    mst_safetensors_close(s);

    if (fuzz_config(mst_config_hf, data, size, &c) == MST_OK
        || fuzz_config(mst_config_params, data, size, &c) == MST_OK)
    {
        fuzz_check(c.n_heads % c.n_kv_heads == 0);
        fuzz_check(c.n_used <= c.n_experts);
        mst_rope_frequencies(&c.rope, c.rope_dim, freqs);

        for (i = 0; i < c.rope_dim / 2; i++) {
            fuzz_check(freqs[i] >= 0 && freqs[i] <= 1);
        }
    }

    return 0;
}


/*
 * A hostile SentencePiece model, tekken.json or tokenizer.json; what can be
 * loaded encodes a text in small slices, and its ids spell bytes.
 */

#include "fuzz.h"

#include "text/mst_detok.h"
#include "text/mst_tokenizer.h"


static void
fuzz_use(mst_tokenizer_t *t)
{
    int              rc;
    size_t           i, n;
    mst_buf_t        out;
    mst_detok_t      d;
    mst_prompt_t     p;
    mst_encode_t    *e;
    const uint32_t  *ids;

    static const char  text[] =
        " Hello\xe2\x96\x81world [REF]  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa9\n\n123";

    mst_prompt_init(&p);
    mst_buf_init(&out);
    (void) mst_prompt_text(&p, text, sizeof(text) - 1);
    e = mst_encode_create(t, &p);

    do {
        rc = mst_encode_run(e, 5);
    } while (rc == MST_AGAIN);

    fuzz_check(rc == MST_OK);
    ids = mst_encode_ids(e, &n);
    mst_detok_init(&d, t);

    for (i = 0; i < n; i++) {
        fuzz_check(ids[i] < mst_tokenizer_info(t)->n_vocab);
        (void) mst_detok_push(&d, ids[i], &out);
    }

    (void) mst_detok_finish(&d, &out);
    mst_buf_fini(&out);
    mst_encode_destroy(e);
    mst_prompt_fini(&p);
    mst_tokenizer_destroy(t);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t          version;
    mst_tokenizer_t  *t;

    t = mst_tokenizer_create_spm(data, size, "fuzz", NULL);

    if (t) {
        fuzz_use(t);
    }

    t = mst_tokenizer_create_hf((const char *) data, size, "fuzz", "<s>",
                                "</s>", NULL);

    if (t) {
        fuzz_use(t);
    }

    t = mst_tokenizer_create_tekken((const char *) data, size, "fuzz",
                                    &version, NULL);

    if (t) {
        fuzz_use(t);
    }

    return 0;
}


/*
 * A hostile vocabulary, and a hostile text through it: in slices or at once
 * the same ids, never a control token, and back the same bytes.
 */

#include "mst_vocab_build.h"

#include "fuzz.h"

#include "text/mst_encode.h"


static vocab_t  vocab;             /* its tokens point into itself */


static void
fuzz_vocab(fuzz_t *f)
{
    size_t          n, k;
    uint64_t        flags;
    const char     *p;
    static vocab_t  first;

    if (first.n == 0) {
        vocab_init(&vocab);
        first = vocab;
    }

    vocab = first;
    flags = fuzz_uint(f, 1);

    vocab.n = (flags & 1) ? 3 : vocab.n;
    vocab.n_merges = (flags & 2) ? 0 : vocab.n_merges;
    vocab.add_bos = (flags & 4) != 0;
    vocab.add_prefix = (flags & 8) != 0;
    vocab.bos = (flags & 16) ? (int64_t) fuzz_uint(f, 2) : vocab.bos;
    vocab.eos = (flags & 32) ? (int64_t) fuzz_uint(f, 2) : vocab.eos;

    for (k = fuzz_uint(f, 1) % 64; k; k--) {
        flags = fuzz_uint(f, 1);
        n = fuzz_uint(f, 1) % 40;
        p = fuzz_bytes(f, &n);

        if (flags & 64) {
            (void) vocab_raw(&vocab, p, n, flags & 7);

        } else {
            vocab_text(&vocab, p, n);
        }
    }

    for (k = fuzz_uint(f, 1) % 64; k; k--) {
        flags = fuzz_uint(f, 1);
        n = 1 + flags % 32;
        p = fuzz_bytes(f, &n);

        if (flags & 64) {
            vocab_raw_merge(&vocab, p, n);

        } else if (n > 1) {
            vocab_merge(&vocab, p, n / 2, p + n / 2, n - n / 2);
        }
    }

    vocab.n_types = vocab.n + (flags == 255);
}


static mst_encode_t *
fuzz_encode(const mst_tokenizer_t *t, const mst_prompt_t *p, size_t budget)
{
    int            rc;
    mst_encode_t  *e;

    e = mst_encode_create(t, p);
    fuzz_check(e != NULL);

    do {
        rc = mst_encode_run(e, budget);
        fuzz_check(rc == MST_OK || rc == MST_AGAIN);
    } while (rc == MST_AGAIN);

    return e;
}


static void
fuzz_text(const mst_tokenizer_t *t, const char *text, size_t len)
{
    size_t           i, k, n, m;
    mst_str_t        s;
    mst_prompt_t     p;
    mst_encode_t    *all, *some;
    const uint32_t  *a, *b;

    mst_prompt_init(&p);
    fuzz_check(mst_prompt_text(&p, text, len) == MST_OK);

    all = fuzz_encode(t, &p, SIZE_MAX);
    some = fuzz_encode(t, &p, 1 + len % 7);
    a = mst_encode_ids(all, &n);
    b = mst_encode_ids(some, &m);

    fuzz_check(n == m && (n == 0 || memcmp(a, b, n * sizeof(*a)) == 0));

    for (i = 0, k = 0; i < n; i++) {
        fuzz_check(a[i] < mst_tokenizer_info(t)->n_vocab);
        fuzz_check(!mst_tokenizer_is_control(t, a[i]));

        s = mst_tokenizer_bytes(t, a[i]);
        fuzz_check(s.len > 0);

        for (m = 0; m < s.len; k++) {

            /* bytes without a token are dropped */

            fuzz_check(k < len);
            if (t->bpe.byte_id[(unsigned char) text[k]] != MST_BPE_NONE) {
                fuzz_check(text[k] == s.data[m]);
                m++;
            }
        }
    }

    mst_encode_destroy(all);
    mst_encode_destroy(some);
    mst_prompt_fini(&p);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void             *file;
    fuzz_t            f = { data, size };
    build_t           b;
    mst_err_t         err = { "" };
    mst_gguf_t       *g;
    mst_tokenizer_t  *t;

    fuzz_vocab(&f);
    vocab_write(&vocab, &b);
    build_file(&b);

    file = fuzz_copy(b.file.data, b.file.len);
    g = mst_gguf_open_memory(file, b.file.len, "fuzz.gguf", &err);
    fuzz_check(g != NULL);

    t = mst_tokenizer_create_gguf(g, &err);
    fuzz_check(t != NULL || err.text[0] != '\0');

    /* it keeps copies */

    mst_gguf_close(g);
    free(file);
    build_fini(&b);

    if (t != NULL) {
        fuzz_text(t, (const char *) f.p, f.n);
        mst_tokenizer_destroy(t);
    }

    return 0;
}

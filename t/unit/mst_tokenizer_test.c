
/*
 * The tokenizer's door: facts of the real vocabulary, the null model's, ids
 * and flags that do not fit, and no memory.
 */

#include "mst_real_model.h"
#include "mst_vocab_build.h"

#include "base/mst_mem.h"

#include "seed.h"


static vocab_t  vocab;


static mst_tokenizer_t *
make(mst_err_t *err)
{
    build_t           b;
    mst_gguf_t       *g;
    mst_tokenizer_t  *t;

    err->text[0] = '\0';
    vocab_write(&vocab, &b);
    g = build_open(&b);
    t = mst_tokenizer_create_gguf(g, err);

    mst_gguf_close(g);
    memset(b.file.data, 0xaa, b.file.len);
    build_fini(&b);

    return t;
}


static void
test_real(void **state)
{
    int                          missing;
    real_t                       r;
    uint32_t                     i, n;
    mst_str_t                    s;
    const mst_tokenizer_info_t  *info;

    (void) state;

    real_open(&r);
    info = mst_tokenizer_info(r.tokenizer);

    assert_int_equal(info->n_vocab, 49152);
    assert_int_equal(info->bos_id, 1);
    assert_int_equal(info->eos_id, 2);
    assert_int_equal(info->add_bos, 0);
    assert_int_equal(info->add_eos, 0);
    assert_int_equal(info->n_stop, 2);
    assert_int_equal(info->stop_ids[0], 2);
    assert_int_equal(info->stop_ids[1], 0);

    n = 0;

    for (i = 0; i < info->n_vocab; i++) {
        assert_int_equal(mst_tokenizer_is_control(r.tokenizer, i), i < 17);

        s = mst_tokenizer_bytes(r.tokenizer, i);
        assert_int_equal(s.len == 0, i < 17);
        assert_true(s.len <= info->max_token);
        n += s.len == info->max_token;
    }

    assert_true(n > 0);

    assert_true(mst_str_eq(mst_tokenizer_name(r.tokenizer, 2),
                           "<|im_end|>"));
    assert_true(mst_str_eq(mst_tokenizer_name(r.tokenizer, 4),
                           "<reponame>"));
    assert_true(mst_str_eq(mst_tokenizer_name(r.tokenizer, 260), " the"));
    assert_true(mst_str_eq(mst_tokenizer_bytes(r.tokenizer, 260), " the"));
    assert_true(mst_str_eq(mst_tokenizer_bytes(r.tokenizer, 198), "\n"));

    assert_int_equal(mst_tokenizer_control(r.tokenizer, "<|im_start|>"), 1);
    assert_int_equal(mst_tokenizer_control(r.tokenizer, " the"), -1);
    assert_int_equal(mst_tokenizer_control(r.tokenizer, "</s>"), -1);
    assert_int_equal(mst_tokenizer_control(r.tokenizer, ""), -1);

    /* ids out of range say nothing */

    missing = 0;

    for (i = 49150; i < 49155; i++) {
        missing += mst_tokenizer_name(r.tokenizer, i).len == 0;
        assert_int_equal(mst_tokenizer_bytes(r.tokenizer, i).len == 0,
                         i >= 49152);
    }

    assert_int_equal(missing, 3);
    assert_int_equal(mst_tokenizer_bytes(r.tokenizer, UINT32_MAX).len, 0);
    assert_int_equal(mst_tokenizer_is_control(r.tokenizer, UINT32_MAX), 0);

    real_close(&r);
}


static void
test_bytes(void **state)
{
    uint32_t                     i;
    mst_str_t                    s;
    mst_err_t                    err = { "" };
    mst_tokenizer_t             *t;
    const mst_tokenizer_info_t  *info;

    (void) state;

    t = mst_tokenizer_create_bytes(&err);
    assert_non_null(t);
    info = mst_tokenizer_info(t);

    assert_int_equal(info->n_vocab, 256);
    assert_int_equal(info->bos_id, -1);
    assert_int_equal(info->eos_id, -1);
    assert_int_equal(info->add_bos, 0);
    assert_int_equal(info->n_stop, 0);
    assert_int_equal(info->max_token, 1);

    for (i = 0; i < 256; i++) {
        s = mst_tokenizer_bytes(t, i);
        assert_int_equal(s.len, 1);
        assert_int_equal((unsigned char) s.data[0], i);

        s = mst_tokenizer_name(t, i);
        assert_int_equal(s.len, 1);
        assert_int_equal((unsigned char) s.data[0], i);

        assert_int_equal(mst_tokenizer_is_control(t, i), 0);
    }

    assert_int_equal(mst_tokenizer_bytes(t, 256).len, 0);
    assert_int_equal(mst_tokenizer_name(t, 256).len, 0);
    assert_int_equal(mst_tokenizer_control(t, "<|im_end|>"), -1);

    mst_tokenizer_destroy(t);
    mst_tokenizer_destroy(NULL);

    mst_mem_fail_after(1);
    assert_null(mst_tokenizer_create_bytes(&err));
    mst_mem_fail_after(0);
    assert_string_equal(err.text, "no memory for a tokenizer");
}


/* which ids end an answer, and what the file may leave out */

static void
test_stop_ids(void **state)
{
    uint32_t                     pad, eot;
    mst_err_t                    err;
    mst_tokenizer_t             *t;
    const mst_tokenizer_info_t  *info;

    (void) state;

    vocab_init(&vocab);
    eot = vocab_control(&vocab, "<|eot_id|>");
    pad = vocab_raw(&vocab, "</s>", 4, 5);
    vocab.eos = 260;
    vocab.eot = 7;
    vocab.add_bos = 1;
    vocab.add_eos = 1;
    (void) vocab_control(&vocab, "<end>");
    (void) vocab_control(&vocab, "<e>");
    (void) vocab_control(&vocab, "<f>");

    assert_int_equal(vocab.n, 261);
    t = make(&err);
    assert_string_equal(err.text, "");
    assert_non_null(t);
    info = mst_tokenizer_info(t);

    assert_int_equal(info->add_bos, 1);
    assert_int_equal(info->add_eos, 1);
    assert_int_equal(info->n_stop, 5);
    assert_int_equal(info->stop_ids[0], 260);
    assert_int_equal(info->stop_ids[1], 7);
    assert_int_equal(info->stop_ids[2], 0);
    assert_int_equal(info->stop_ids[3], 2);
    assert_int_equal(info->stop_ids[4], eot);

    /* an unused token has a spelling, no text, and is no control token */

    assert_true(mst_str_eq(mst_tokenizer_name(t, pad), "</s>"));
    assert_int_equal(mst_tokenizer_bytes(t, pad).len, 0);
    assert_int_equal(mst_tokenizer_is_control(t, pad), 0);
    assert_int_equal(mst_tokenizer_control(t, "</s>"), -1);
    mst_tokenizer_destroy(t);

    vocab_init(&vocab);
    vocab.bos = vocab.eos = vocab.unk = vocab.pad = -1;
    t = make(&err);
    assert_non_null(t);
    info = mst_tokenizer_info(t);
    assert_int_equal(info->bos_id, -1);
    assert_int_equal(info->eos_id, -1);
    assert_int_equal(info->n_stop, 2);
    mst_tokenizer_destroy(t);
}


static void
damage(size_t what)
{
    switch (what) {

    case 0: vocab.bos = 256; break;
    case 1: vocab.eos = 4294967295; break;
    case 2: vocab.eot = 1000; break;
    case 3: vocab.unk = 256; break;
    case 4: vocab.pad = 257; break;
    case 5: vocab.bos = -1; vocab.add_bos = 1; break;
    case 6: vocab.eos = -1; vocab.add_eos = 1; break;
    case 7: vocab.add_prefix = 1; break;
    case 8: vocab.model = "bert"; break;
    case 9: vocab_raw_merge(&vocab, "x", 1); break;
    case 10: vocab.pre = NULL; break;
    case 11: vocab.pre = "tek\nken"; break;
    case 12: vocab.model = NULL; break;
    case 13: vocab.model = "llama"; break;
    }
}


static void
test_damage(void **state)
{
    size_t     i;
    mst_err_t  err;

    static const char *const  sentences[] = {
        "bos_token_id is 256, the vocabulary has 256 tokens",
        "eos_token_id is 4294967295, the vocabulary has 256 tokens",
        "eot_token_id is 1000, the vocabulary has 256 tokens",
        "unknown_token_id is 256, the vocabulary has 256 tokens",
        "padding_token_id is 257, the vocabulary has 256 tokens",
        "add_bos_token is true and tokenizer.ggml.bos_token_id is missing",
        "add_eos_token is true and tokenizer.ggml.eos_token_id is missing",
        "add_space_prefix is true; supported is false",
        "model is \"bert\"; supported are \"gpt2\" and \"llama\"",
        "merges[6]: \"x\" is not two tokens",
        "pre is missing",
        "pre is \"tek?ken\"; supported are smollm, gpt-2, llama-bpe, qwen2 "
            "and tekken",
        "model is missing; supported are \"gpt2\" and \"llama\"",
        "scores is missing"
    };

    (void) state;

    for (i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
        vocab_init(&vocab);
        damage(i);

        assert_null(make(&err));
        assert_memory_equal(err.text, "test.gguf: tokenizer.ggml.", 26);
        assert_string_equal(err.text + 26, sentences[i]);
    }
}


/* keys of a wrong type are the file room's sentences, passed up */

static void
test_wrong_types(void **state)
{
    size_t       i;
    build_t      b;
    mst_err_t    err;
    mst_gguf_t  *g;

    static const char *const  keys[] = {
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id", "tokenizer.ggml.unknown_token_id",
        "tokenizer.ggml.padding_token_id"
    };

    (void) state;

    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        vocab_init(&vocab);
        vocab.bos = vocab.eos = vocab.eot = vocab.unk = vocab.pad = -1;
        vocab_write(&vocab, &b);
        build_string(&b, keys[i], "2");
        g = build_open(&b);
        err.text[0] = '\0';

        assert_null(mst_tokenizer_create_gguf(g, &err));
        assert_non_null(strstr(err.text, keys[i]));

        mst_gguf_close(g);
        build_fini(&b);
    }
}


/* a file with bytes changed is refused or read; under ASan nothing else */

static void
test_random_damage(void **state)
{
    char              *copy;
    size_t             len;
    build_t            b;
    unsigned           seed, round, k, n_read;
    mst_err_t          err;
    mst_gguf_t        *g;
    mst_tokenizer_t   *t;

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    vocab_init(&vocab);
    vocab_write(&vocab, &b);
    build_file(&b);
    len = b.file.len;
    n_read = 0;

    for (round = 0; round < 3000; round++) {
        copy = malloc(len);
        assert_non_null(copy);
        memcpy(copy, b.file.data, len);

        for (k = 1 + round % 3; k; k--) {
            copy[(size_t) rand() % len] = (char) (rand() % 2 ? rand()
                                                  : rand() % 4);
        }

        err.text[0] = '\0';
        t = NULL;
        g = mst_gguf_open_memory(copy, len, "test.gguf", &err);

        if (g) {
            t = mst_tokenizer_create_gguf(g, &err);
            mst_gguf_close(g);
        }

        free(copy);

        if (t) {
            n_read++;
            assert_true(mst_tokenizer_info(t)->n_vocab >= 97);

        } else {
            assert_true(err.text[0] != '\0');
            assert_null(strchr(err.text, '\n'));
        }

        mst_tokenizer_destroy(t);
    }

    assert_true(n_read > 0 && n_read < 3000);
    build_fini(&b);
}


static void
test_no_memory(void **state)
{
    long              n;
    build_t           b;
    mst_err_t         err;
    mst_gguf_t       *g;
    mst_tokenizer_t  *t;

    (void) state;

    vocab_init(&vocab);
    vocab_write(&vocab, &b);
    g = build_open(&b);

    for (n = 1; ; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        t = mst_tokenizer_create_gguf(g, &err);
        mst_mem_fail_after(0);

        if (t) {
            break;
        }

        assert_non_null(strstr(err.text, "no memory for "));
    }

    assert_true(n > 20);
    mst_tokenizer_destroy(t);
    mst_gguf_close(g);
    build_fini(&b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

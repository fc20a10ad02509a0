
/*
 * The merges of a file: what damages them, each with its sentence, and that a
 * list in order is taken as it stands.
 */

#include "mst_vocab_build.h"

#include "text/mst_bpe.h"


static vocab_t  vocab;


/* what becomes of "vocab" as a file */

static int
make(mst_err_t *err)
{
    int           rc;
    build_t       b;
    mst_bpe_t     bpe;
    mst_gguf_t   *g;
    mst_vocab_t   v;

    err->text[0] = '\0';
    vocab_write(&vocab, &b);
    g = build_open(&b);

    assert_int_equal(mst_vocab_init_gguf(&v, g, err), MST_OK);
    rc = mst_bpe_init_gguf(&bpe, &v, g, err);

    mst_bpe_fini(&bpe);
    mst_bpe_fini(&bpe);
    mst_vocab_fini(&v);
    mst_gguf_close(g);
    build_fini(&b);

    return rc;
}


static void
damage(size_t what)
{
    static char  long_side[1100];

    switch (what) {

    case 0: vocab.merges_type = 0xff; break;
    case 1: vocab.merges_type = MST_GGUF_U32; break;
    case 2: vocab_raw_merge(&vocab, "ab", 2); break;
    case 3: vocab_raw_merge(&vocab, "", 0); break;
    case 4: vocab_raw_merge(&vocab, "xy a", 4); break;
    case 5: vocab_raw_merge(&vocab, "a xy", 4); break;
    case 6: vocab_raw_merge(&vocab, "a c", 3); break;
    case 7: vocab_raw_merge(&vocab, "a b c", 5); break;
    case 8: vocab_raw_merge(&vocab, " a", 2); break;
    case 9: vocab_raw_merge(&vocab, "a ", 2); break;
    case 10: vocab_raw_merge(&vocab, "a b", 3); break;
    case 11: vocab_raw_merge(&vocab, "<|im_end|> a", 12); break;
    case 12: vocab_raw_merge(&vocab, "a \xff", 3); break;
    case 13: vocab_raw_merge(&vocab, "a\0b c", 5); break;

    default:
        memset(long_side, 'x', sizeof(long_side));
        long_side[1] = ' ';
        vocab_raw_merge(&vocab, long_side, sizeof(long_side));
    }
}


static void
test_damage(void **state)
{
    size_t     i;
    mst_err_t  err;

    static const char *const  sentences[] = {
        "tokenizer.ggml.merges is missing",
        "tokenizer.ggml.merges is an array of type 4, not of strings",
        "tokenizer.ggml.merges[6]: \"ab\" is not two tokens",
        "tokenizer.ggml.merges[6]: \"\" is not two tokens",
        "tokenizer.ggml.merges[6]: \"xy\" is not a normal token",
        "tokenizer.ggml.merges[6]: \"xy\" is not a normal token",
        "tokenizer.ggml.merges[6]: \"a c\" merges to no token",
        "tokenizer.ggml.merges[6]: \"b c\" is not a normal token",
        "tokenizer.ggml.merges[6]: \"\" is not a normal token",
        "tokenizer.ggml.merges[6]: \"\" is not a normal token",
        "tokenizer.ggml.merges[6] is the same as [5]",
        "tokenizer.ggml.merges[6]: \"<|im_end|>\" is not a normal token",
        "tokenizer.ggml.merges[6]: \"?\" is not a normal token",
        "tokenizer.ggml.merges[6]: \"a?b\" is not a normal token",
        "tokenizer.ggml.merges[6]: a side of 1098 bytes, the limit is 256"
    };

    (void) state;

    for (i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
        vocab_init(&vocab);
        assert_int_equal(vocab.n_merges, 6);
        damage(i);

        assert_int_equal(make(&err), MST_ERROR);
        assert_memory_equal(err.text, "test.gguf: ", 11);
        assert_string_equal(err.text + 11, sentences[i]);
    }
}


static void
test_order(void **state)
{
    mst_err_t  err;

    (void) state;

    vocab_init(&vocab);
    assert_int_equal(make(&err), MST_OK);
    assert_string_equal(err.text, "");

    vocab.n_merges = 0;
    assert_int_equal(make(&err), MST_OK);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_order)
    };

    return cmocka_run_group_tests_name("mst_bpe_gguf", tests, NULL, NULL);
}

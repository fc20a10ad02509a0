
/*
 * Vocabularies: what a good one holds, and every damage with its sentence.
 */

#include "mst_vocab_build.h"

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "text/mst_vocab.h"


static vocab_t  vocab;
static char     big[MST_VOCAB_MAX_TOKEN + 1];


static void
test_good(void **state)
{
    build_t       b;
    mst_err_t     err = { "" };
    mst_gguf_t   *g;
    mst_vocab_t   v;

    (void) state;

    vocab_init(&vocab);
    (void) vocab_raw(&vocab, "[PAD]", 5, MST_VOCAB_UNUSED);
    vocab_write(&vocab, &b);
    g = build_open(&b);

    assert_int_equal(mst_vocab_init_gguf(&v, g, &err), MST_OK);

    /* nothing of the file is needed any more */

    mst_gguf_close(g);
    memset(b.file.data, 0xaa, b.file.len);
    build_fini(&b);

    assert_int_equal(v.n, vocab.n);
    assert_int_equal(v.max_token, 4);

    assert_int_equal(mst_vocab_find(&v, 1, "<|im_end|>", 10), 2);
    assert_int_equal(mst_vocab_find(&v, 0, "<|im_end|>", 10), -1);
    assert_int_equal(mst_vocab_find(&v, 1, "<|im_end|", 9), -1);
    assert_int_equal(mst_vocab_find(&v, 1, "[PAD]", 5), v.n - 1);
    assert_int_equal(mst_vocab_find(&v, 0, "\n", 1), 3 + '\n' - 9);
    assert_int_equal(mst_vocab_find(&v, 0, " ", 1), 3 + ' ' - 9);
    assert_int_equal(mst_vocab_find(&v, 0, "\xad", 1), 3 + 0xad - 9);
    assert_int_equal(mst_vocab_find(&v, 0, "\xff", 1), 3 + 0xff - 9);
    assert_int_equal(mst_vocab_find(&v, 0, "\x04", 1), -1);
    assert_int_equal(mst_vocab_find(&v, 0, "", 0), -1);
    assert_int_equal(mst_vocab_find(&v, 1, " ", 1), -1);
    assert_true(mst_vocab_find(&v, 0, " the", 4) > 0);

    mst_vocab_fini(&v);
    mst_vocab_fini(&v);
}


/* all 256 bytes there and back through the alphabet */

static void
test_alphabet(void **state)
{
    int        i;
    char       byte, bytes[4];
    size_t     from;
    uint32_t   cp;

    (void) state;

    memset(&vocab, 0, sizeof(vocab));

    for (i = 0; i < 256; i++) {
        from = vocab.used;
        byte = (char) i;
        vocab_spell(&vocab, &byte, 1);

        assert_int_equal(mst_vocab_unspell(mst_str(vocab.pool + from,
                                                   vocab.used - from),
                                           bytes, &cp), 1);
        assert_int_equal((unsigned char) bytes[0], i);
    }

    assert_int_equal(mst_vocab_unspell(mst_str(" ", 1), bytes, &cp), -1);
    assert_int_equal(cp, ' ');
    assert_int_equal(mst_vocab_unspell(mst_str("\xc5\x84", 2), bytes, &cp),
                     -1);
    assert_int_equal(cp, 0x144);
    assert_int_equal(mst_vocab_unspell(mst_str("\xc2\xad", 2), bytes, &cp),
                     -1);
    assert_int_equal(mst_vocab_unspell(mst_str("\xff", 1), bytes, &cp), -1);
    assert_int_equal(cp, 0xfffd);
}


static void
damage(int what)
{
    size_t  i;

    switch (what) {

    case 0: vocab.model = NULL; break;
    case 1: vocab.model = "llama"; break;
    case 2: vocab.tokens_type = 0xff; break;
    case 3: vocab.tokens_type = MST_GGUF_U32; break;
    case 4: vocab.n = 0; break;
    case 5: vocab.types_type = 0xff; break;
    case 6: vocab.types_type = MST_GGUF_F32; break;
    case 7: vocab.n_types--; break;
    case 8: (void) vocab_raw(&vocab, "x1", 2, 7); break;
    case 9: (void) vocab_raw(&vocab, "x1", 2, 6); break;
    case 10: (void) vocab_raw(&vocab, "", 0, 1); break;
    case 11: (void) vocab_raw(&vocab, big, sizeof(big), 1); break;
    case 12: (void) vocab_text(&vocab, " the", 4); break;
    case 13: (void) vocab_control(&vocab, "<|im_end|>"); break;
    case 14: (void) vocab_control(&vocab, "aaaa"); break;
    case 15: (void) vocab_text(&vocab, "<|im_end|>", 10); break;
    case 16: (void) vocab_raw(&vocab, "a b", 3, 1); break;
    case 17: (void) vocab_raw(&vocab, "\xff", 1, 1); break;
    case 18: (void) vocab_raw(&vocab, "\xe6\x97", 2, 3); break;
    case 19: vocab.tokens[0].type = 0xffffffff; break;

    case 20:
        vocab.types_type = MST_GGUF_BOOL;

        for (i = 0; i < vocab.n; i++) {
            vocab.tokens[i].type = 1;
        }

        break;

    default:
        for (i = 0; i < vocab.n; i++) {

            if (vocab.tokens[i].spelling[0] == '~') {
                vocab.tokens[i].spelling = "zz";
                vocab.tokens[i].len = 2;
            }
        }
    }
}


static void
test_damage(void **state)
{
    int           i;
    build_t       b;
    mst_err_t     err;
    mst_gguf_t   *g;
    mst_vocab_t   v;

    static const char *const  sentences[] = {
        "tokenizer.ggml.model is missing; supported is \"gpt2\"",
        "tokenizer.ggml.model is \"llama\"; supported is \"gpt2\"",
        "tokenizer.ggml.tokens is missing",
        "tokenizer.ggml.tokens is an array of type 4, not of strings",
        "tokenizer.ggml.tokens has 0 elements, the limits are 1 and 1048576",
        "tokenizer.ggml.token_type is missing",
        "tokenizer.ggml.token_type is an array of type 6, not of integers",
        "tokenizer.ggml.token_type has 255 elements, tokenizer.ggml.tokens "
            "has 256",
        "tokenizer.ggml.token_type[256] is 7; supported are 1 (normal), 3 "
            "(control), 4 (user-defined) and 5 (unused)",
        "tokenizer.ggml.token_type[256] is 6; supported are 1 (normal), 3 "
            "(control), 4 (user-defined) and 5 (unused)",
        "tokenizer.ggml.tokens[256] has 0 bytes, the limits are 1 and 256",
        "tokenizer.ggml.tokens[256] has 257 bytes, the limits are 1 and "
            "256",
        "tokenizer.ggml.tokens[256]: \"??the\" is token 252 already",
        "tokenizer.ggml.tokens[256]: \"<|im_end|>\" is token 2 already",
        "tokenizer.ggml.tokens[256]: \"aaaa\" is token 254 already",
        "tokenizer.ggml.tokens[256]: \"<|im_end|>\" is token 2 already",
        "tokenizer.ggml.tokens[256]: \"a b\" has U+0020, which stands for no "
            "byte",
        "tokenizer.ggml.tokens[256]: \"?\" has U+FFFD, which stands for no "
            "byte",
        "tokenizer.ggml.tokens[256]: \"??\" is not UTF-8",
        "tokenizer.ggml.token_type[0] is -1; supported are 1 (normal), 3 "
            "(control), 4 (user-defined) and 5 (unused)",
        "tokenizer.ggml.token_type is an array of type 7, not of integers",
        "tokenizer.ggml.tokens: no token for byte 0x7E"
    };

    (void) state;

    memset(big, 'x', sizeof(big));

    for (i = 0; i < (int) (sizeof(sentences) / sizeof(sentences[0])); i++) {
        vocab_init(&vocab);
        assert_int_equal(vocab.n, 256);
        damage(i);
        vocab_write(&vocab, &b);
        g = build_open(&b);
        err.text[0] = '\0';

        assert_int_equal(mst_vocab_init_gguf(&v, g, &err), MST_ERROR);
        assert_memory_equal(err.text, "test.gguf: ", 11);
        assert_string_equal(err.text + 11, sentences[i]);

        mst_vocab_fini(&v);
        mst_gguf_close(g);
        build_fini(&b);
    }
}


/* tokens that were chosen to collide cost a sentence, not the square of n */

static void
test_collisions(void **state)
{
    char          name[16];
    size_t        n;
    build_t       b;
    uint32_t      i;
    mst_err_t     err = { "" };
    mst_gguf_t   *g;
    mst_vocab_t   v;

    (void) state;

    vocab_init(&vocab);

    for (i = 0, n = 0; n < 300; i++) {
        (void) snprintf(name, sizeof(name), "<%u>", i);

        if ((mst_hash_short(1ull << 32, name, strlen(name)) & 2047) == 7) {
            (void) vocab_control(&vocab, memcpy(vocab.pool + vocab.used, name,
                                                strlen(name) + 1));
            vocab.used += strlen(name) + 1;
            n++;
        }
    }

    assert_true(vocab.n > 512 && vocab.n <= 1024);

    vocab_write(&vocab, &b);
    g = build_open(&b);

    assert_int_equal(mst_vocab_init_gguf(&v, g, &err), MST_ERROR);
    assert_non_null(strstr(err.text, "more than 256 tokens collide"));

    mst_vocab_fini(&v);
    mst_gguf_close(g);
    build_fini(&b);
}


static void
test_no_memory(void **state)
{
    int           rc;
    long          n;
    build_t       b;
    mst_err_t     err;
    mst_gguf_t   *g;
    mst_vocab_t   v;

    (void) state;

    vocab_init(&vocab);
    vocab_write(&vocab, &b);
    g = build_open(&b);

    for (n = 1; ; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        rc = mst_vocab_init_gguf(&v, g, &err);
        mst_mem_fail_after(0);
        mst_vocab_fini(&v);

        if (rc == MST_OK) {
            break;
        }

        assert_string_equal(err.text, "test.gguf: no memory for a vocabulary "
                            "of 256 tokens");
    }

    assert_int_equal(n, 5);

    mst_gguf_close(g);
    build_fini(&b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_alphabet),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

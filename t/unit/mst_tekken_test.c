
/*
 * tekken.json: the golden ids of a real one, and damaged ones.
 */

#include "mst_golden_text.h"


static void
test_golden(void **state)
{
    char             *text;
    size_t            len;
    uint32_t          version;
    mst_err_t         err = { "" };
    mst_tokenizer_t  *t;

    (void) state;

    text = golden_read(TOKENIZERS "tekken_240718.json", &len);
    t = mst_tokenizer_create_tekken(text, len, "t", &version, &err);
    assert_string_equal(err.text, "");
    free(text);

    assert_int_equal(version, 3);
    assert_int_equal(mst_tokenizer_info(t)->n_vocab, 131072);
    assert_int_equal(mst_tokenizer_info(t)->bos_id, 1);
    assert_int_equal(mst_tokenizer_control(t, "[TOOL_CALLS]"), 9);
    assert_int_equal(mst_tokenizer_control(t, "[AVAILABLE_TOOLS]"), 5);
    assert_int_equal(mst_tokenizer_control(t, "<SPECIAL_999>"), 999);
    assert_false(mst_tokenizer_is_spm(t));

    golden_check(t, "t/data/golden/tekken_240718.jsonl", "ids", NULL);
    mst_tokenizer_destroy(t);
}


static const char  pattern[] =
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}"
    "\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}"
    "\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}"
    "\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"
    "[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+";


/* 20 special tokens, the bytes, then what "more" lists */

static char *
make(const char *config, const char *special, const char *more, size_t *len)
{
    int     i;
    FILE   *f;
    char   *text;

    static const char  digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                  "qrstuvwxyz0123456789+/";

    f = open_memstream(&text, len);
    (void) fprintf(f, "{\"config\":{\"pattern\":\"%s\",%s},%s\"vocab\":[",
                   pattern, config, special);

    for (i = 0; i < 256; i++) {
        (void) fprintf(f, "%s{\"rank\":%d,\"token_bytes\":\"%c%c==\"}",
                       i ? "," : "", i, digits[i >> 2], digits[i << 4 & 63]);
    }

    (void) fprintf(f, "%s]}", more);
    (void) fclose(f);

    return text;
}


#define CONFIG(n)  "\"version\":\"v11\",\"default_num_special_tokens\":20,"   \
                   "\"default_vocab_size\":" #n


static void
test_small(void **state)
{
    char             *text;
    size_t            len, n;
    uint32_t          version, *ids;
    mst_err_t         err = { "" };
    mst_tokenizer_t  *t;

    (void) state;

    /* "ab", "abc", and one behind default_vocab_size */

    text = make(CONFIG(278), "\"special_tokens\":[{\"rank\":2,\"token_str\":"
                "\"</s>\"},{\"rank\":1,\"token_str\":\"<s>\"},{\"rank\":7,"
                "\"token_str\":\"[ARGS]\"}],",
                ",{\"rank\":256,\"token_bytes\":\"YWI=\"},{\"rank\":257,"
                "\"token_bytes\":\"YWJj\"},{\"rank\":258,\"token_bytes\":"
                "\"YmM=\"}", &len);
    t = mst_tokenizer_create_tekken(text, len, "t", &version, &err);
    assert_string_equal(err.text, "");
    free(text);

    assert_int_equal(version, 11);
    assert_int_equal(mst_tokenizer_info(t)->n_vocab, 278);
    assert_int_equal(mst_tokenizer_control(t, "[ARGS]"), 7);
    assert_int_equal(mst_tokenizer_control(t, "<SPECIAL_8>"), 8);

    ids = golden_encode(t, "abcab[ARGS]", 11, 100, &n);
    assert_int_equal(n, 8);
    assert_int_equal(ids[0], 277);
    assert_int_equal(ids[1], 276);
    free(ids);
    mst_tokenizer_destroy(t);
}


static void
test_refused(void **state)
{
    char             *text;
    size_t            i, len;
    uint32_t          version;
    mst_err_t         err;
    mst_tokenizer_t  *t;

    static const struct {
        const char  *config, *special, *more, *text;
    } cases[] = {
        { "\"version\":\"v3\"", "", "", "default_vocab_size is no number" },
        { "\"version\":\"3\"", "", "", "config.version" },
        { CONFIG(300), "", "", "300 tokens, 20 of them special" },
        { CONFIG(100), "", "", "100 tokens" },
        { CONFIG(277), "", ",{\"rank\":255,\"token_bytes\":\"YWI=\"}",
          "vocab[256] has another rank" },
        { CONFIG(277), "", ",{\"rank\":256,\"token_bytes\":\"YWI\"}",
          "vocab[256]" },
        { CONFIG(277), "", ",{\"rank\":256,\"token_bytes\":\"Y*I=\"}",
          "vocab[256]" },
        { CONFIG(277), "", ",{\"rank\":256,\"token_bytes\":\"YQ==\"}",
          "vocab[256] is there twice" },
        { CONFIG(276), "\"special_tokens\":[{\"rank\":20,\"token_str\":"
          "\"x\"}],", "", "special_tokens[0] has no rank below 20" },
        { CONFIG(276), "\"special_tokens\":[{\"rank\":1,\"token_str\":"
          "\"x\"},{\"rank\":1,\"token_str\":\"y\"}],", "",
          "special_tokens[1]" },
        { CONFIG(276), "\"special_tokens\":[{\"rank\":1,\"token_str\":"
          "\"x\"},{\"rank\":2,\"token_str\":\"x\"}],", "",
          "special token 2 is there twice" },
        { CONFIG(276), "\"special_tokens\":[{\"rank\":1,\"token_str\":"
          "\"x\"}],", "", "<s> or </s> is no control token" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text = make(cases[i].config, cases[i].special, cases[i].more, &len);
        err.text[0] = '\0';
        t = mst_tokenizer_create_tekken(text, len, "t", &version, &err);
        assert_null(t);

        if (strncmp(err.text, "t: ", 3) != 0
            || strstr(err.text, cases[i].text) == NULL)
        {
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text,
                     cases[i].text);
        }

        free(text);
    }

    err.text[0] = '\0';
    assert_null(mst_tokenizer_create_tekken("{", 1, "t", &version, &err));
    assert_non_null(strstr(err.text, "no JSON object"));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests_name("mst_tekken", tests, NULL, NULL);
}

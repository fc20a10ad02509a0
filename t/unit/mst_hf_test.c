
/*
 * tokenizer.json: small files of both kinds, and what is refused.  That real
 * ones give the same ids as the library that made the format is checked by
 * t/clients/tokenizer_test.py.
 */

#include "mst_golden_text.h"
#include "base/mst_mem.h"


#define BYTES  "\"pre_tokenizer\":{\"type\":\"ByteLevel\","                  \
               "\"add_prefix_space\":false,\"use_regex\":true},"             \
               "\"normalizer\":null,"

#define CHARS  "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["     \
               "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},"        \
               "{\"type\":\"Replace\"}]},\"pre_tokenizer\":null,"

#define ADDED  "\"added_tokens\":[{\"id\":0,\"content\":\"<s>\"},"           \
               "{\"id\":1,\"content\":\"</s>\",\"special\":true}],"


static char *
file_of(const char *head, const char *model, const char *vocab,
    const char *merges, int fallback, size_t *len)
{
    int    i;
    FILE  *f;
    char  *text;

    f = open_memstream(&text, len);
    (void) fprintf(f, "{%s" ADDED "\"model\":{%s\"vocab\":{\"<s>\":0,"
                   "\"</s>\":1", head, model);

    for (i = 0; fallback && i < 256; i++) {
        (void) fprintf(f, ",\"<0x%02X>\":%d", i, i + 2);
    }

    (void) fprintf(f, "%s},\"merges\":[%s]}}", vocab, merges);
    (void) fclose(f);

    return text;
}


static mst_tokenizer_t *
load(const char *head, const char *model, const char *vocab,
    const char *merges, int fallback, mst_err_t *err)
{
    char             *text;
    size_t            len;
    mst_tokenizer_t  *t;

    err->text[0] = '\0';
    text = file_of(head, model, vocab, merges, fallback, &len);
    t = mst_tokenizer_create_hf(text, len, "h", "<s>", "</s>", err);
    free(text);

    return t;
}


static void
expect(const mst_tokenizer_t *t, const char *text, const uint32_t *want,
    size_t n)
{
    size_t     got;
    uint32_t  *ids;

    ids = golden_encode(t, text, strlen(text), 3, &got);
    assert_int_equal(got, n);
    assert_memory_equal(ids, want, n * sizeof(uint32_t));
    free(ids);
}


/* a 2, b 3, space 4, ab 5, "_a" 6; merges in both spellings */

static void
test_bytes(void **state)
{
    mst_err_t         err;
    mst_tokenizer_t  *t;

    static const char  vocab[] = ",\"a\":2,\"b\":3,\"\xc4\xa0\":4,\"ab\":5,"
                                 "\"\xc4\xa0" "a\":6";

    (void) state;

    t = load(BYTES, "\"type\":\"BPE\",", vocab,
             "\"\xc4\xa0 a\",[\"a\",\"b\"]", 0, &err);
    assert_string_equal(err.text, "");

    expect(t, "ab ab", (uint32_t[]) { 5, 6, 3 }, 3);
    expect(t, "<s>", NULL, 0);                 /* no such bytes */
    assert_int_equal(mst_tokenizer_info(t)->bos_id, 0);
    assert_int_equal(mst_tokenizer_info(t)->eos_id, 1);
    assert_int_equal(mst_tokenizer_info(t)->add_bos, 1);
    assert_true(mst_str_eq(mst_tokenizer_bytes(t, 6), " a"));
    mst_tokenizer_destroy(t);

    /* a piece that is a token, though no merge makes it */

    t = load(BYTES, "\"type\":\"BPE\",\"ignore_merges\":true,", vocab, "", 0,
             &err);
    assert_string_equal(err.text, "");
    expect(t, "ab", (uint32_t[]) { 5 }, 1);
    expect(t, "aab", (uint32_t[]) { 2, 2, 3 }, 3);
    mst_tokenizer_destroy(t);
}


/* "_" 258, a 259, b 260, "_a" 261, ab 262, "_ab" 263 */

static void
test_chars(void **state)
{
    mst_err_t         err;
    mst_tokenizer_t  *t;

    static const char  vocab[] =
        ",\"\xe2\x96\x81\":258,\"a\":259,\"b\":260,\"\xe2\x96\x81" "a\":261,"
        "\"ab\":262,\"\xe2\x96\x81" "ab\":263";
    static const char  merges[] =
        "\"a b\",\"\xe2\x96\x81 a\",\"\xe2\x96\x81 ab\"";

    (void) state;

    t = load(CHARS, "\"type\":\"BPE\",\"byte_fallback\":true,", vocab, merges,
             1, &err);
    assert_string_equal(err.text, "");
    assert_true(mst_tokenizer_is_spm(t));
    expect(t, "ab a", (uint32_t[]) { 263, 261 }, 2);
    expect(t, " a", (uint32_t[]) { 258, 261 }, 2);
    expect(t, "a\n", (uint32_t[]) { 261, 12 }, 2);
    mst_tokenizer_destroy(t);

    /* Metaspace puts no second space */

    t = load("\"pre_tokenizer\":{\"type\":\"Metaspace\"},",
             "\"byte_fallback\":true,", vocab, merges, 1, &err);
    assert_string_equal(err.text, "");
    expect(t, "ab", (uint32_t[]) { 263 }, 1);
    expect(t, " a", (uint32_t[]) { 261 }, 1);
    mst_tokenizer_destroy(t);
}


static void
test_refused(void **state)
{
    size_t            i;
    mst_err_t         err;

    static const struct {
        const char  *head, *model, *vocab, *merges;
        int          fallback;
        const char  *text;
    } cases[] = {
        { BYTES, "\"type\":\"Unigram\",", "", "", 0, "its model is no BPE" },
        { "", "", ",\"a\":2", "", 0, "its pre_tokenizer is not" },
        { "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":"
          "\"ByteLevel\"},", "", ",\"a\":2", "", 0, "its normalizer is not" },
        { "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
          "\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"}},{\"type\":"
          "\"ByteLevel\",\"use_regex\":false}]},", "", ",\"a\":2", "", 0,
          "pre_tokenizer's expression" },
        { BYTES, "", ",\"a\":2,\"b\":2000000", "", 0, "ids up to 2000000" },
        { BYTES, "", ",\"a\":-2", "", 0, "token -2 is out of range" },
        { BYTES, "", ",\"a\":\"x\"", "", 0, "model.vocab is damaged" },
        { BYTES, "", ",\"\xe6\x97\xa5\":2", "", 0, "token 2 is there twice, "
          "over 256 bytes, or stands for no bytes" },
        { BYTES, "", ",\"a\":2,\"b\":3", "\"a b\"", 0, "merges[0] is not" },
        { BYTES, "", ",\"a\":2,\"b\":3", "7", 0, "merges[0] is not" },
        { BYTES, "", ",\"a\":2,\"aa\":3", "\"a a\",\"a a\"", 0,
          "merges[1] is there twice" },
        { CHARS, "\"byte_fallback\":true,", ",\"ab\":2", "", 0,
          "a character without a piece" },
        { CHARS, "\"byte_fallback\":true,", ",\"a\":2", "", 0,
          "not all of <0x00>" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (load(cases[i].head, cases[i].model, cases[i].vocab,
                 cases[i].merges, cases[i].fallback, &err) != NULL)
        {
            fail_msg("case %zu is good", i);
        }

        if (strncmp(err.text, "h: ", 3) != 0
            || strstr(err.text, cases[i].text) == NULL)
        {
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text,
                     cases[i].text);
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_chars),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests_name("mst_hf", tests, NULL, NULL);
}

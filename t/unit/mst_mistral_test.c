
/*
 * Chats in Mistral's own formats: golden ids of every version, and what a
 * vocabulary must have.
 */

#include "mst_mistral_chats.h"


static void
golden_line(const json_t *line)
{
    int                     spm;
    char                   *text;
    size_t                  i, n;
    json_t                 *body, *want;
    uint32_t                version;
    mst_err_t               err;
    mst_encode_t           *e;
    mst_prompt_t            p;
    const uint32_t         *ids;
    const mst_tokenizer_t  *t;

    spm = strcmp(json_string_value(json_object_get(line, "tok")), "spm") == 0;
    version = (uint32_t) json_integer_value(json_object_get(line, "v"));
    t = chats_tokenizer(&chats, spm, version);
    assert_non_null(t);

    body = json_pack("{s:O,s:O}", "messages",
                     json_object_get(line, "messages"), "tools",
                     json_object_get(line, "tools"));
    assert_non_null(body);
    text = json_dumps(body, 0);

    if (chats_render(t, version, text, &p, &err) != MST_OK) {
        fail_msg("%s: %s", text, err.text);
    }

    e = chats_encode(t, &p);
    ids = mst_encode_ids(e, &n);
    want = json_object_get(line, "ids");

    for (i = 0; i < n && i < json_array_size(want); i++) {

        if (ids[i] != json_integer_value(json_array_get(want, i))) {
            break;
        }
    }

    if (i < n || n != json_array_size(want)) {
        fail_msg("v%u %s: id %zu of %zu (%zu) is %u: %s", version,
                 spm ? "spm" : "tekken", i, n, json_array_size(want),
                 i < n ? ids[i] : 0, text);
    }

    free(text);
    json_decref(body);
    mst_encode_destroy(e);
    mst_prompt_fini(&p);
}


static void
test_golden(void **state)
{
    FILE          *f;
    size_t         lines;
    json_t        *line;
    json_error_t   error;

    (void) state;

    f = fopen("t/data/golden/chat.jsonl", "re");
    assert_non_null(f);

    for (lines = 0; ; lines++) {
        line = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);

        if (line == NULL) {
            break;
        }

        golden_line(line);
        json_decref(line);
    }

    assert_true(feof(f));
    assert_int_equal(lines, 43);
    (void) fclose(f);
}


static void
refuse_init(uint32_t version, const mst_tokenizer_t *t, const char *want)
{
    mst_err_t      err = { "" };
    mst_mistral_t  f;

    assert_int_equal(mst_mistral_init(&f, version, t, &err), MST_ERROR);
    assert_string_equal(err.text, want);
}


static void
test_init(void **state)
{
    mst_err_t         err = { "" };
    mst_tokenizer_t  *bytes;

    (void) state;

    refuse_init(4, chats.tekken, "chats in Mistral's format of version 4 are "
                "not supported, those of 1, 2, 3, 7, 11, 13 and 15 are");
    refuse_init(16, chats.tekken, "chats in Mistral's format of version 16 "
                "are not supported, those of 1, 2, 3, 7, 11, 13 and 15 are");
    refuse_init(11, chats.spm[3], "chats in Mistral's format of version 11 "
                "with a SentencePiece model are not supported");
    refuse_init(7, chats.spm[2], "the vocabulary has no control token "
                "\"[SYSTEM_PROMPT]\", which Mistral's format of version 7 "
                "needs");
    refuse_init(2, chats.spm[0], "the vocabulary has no control token "
                "\"[INST]\", which Mistral's format of version 2 needs");

    bytes = mst_tokenizer_create_bytes(&err);
    refuse_init(1, bytes, "the vocabulary has no tokens that begin and end a "
                "text, which Mistral's formats need");
    mst_tokenizer_destroy(bytes);
}


static void
test_effort(void **state)
{
    (void) state;

    assert_int_equal(mst_mistral_effort(mst_str("none", 4)), 0);
    assert_int_equal(mst_mistral_effort(mst_str("high", 4)), 4);
    assert_int_equal(mst_mistral_effort(mst_str("much", 4)), -1);
    assert_string_equal(mst_mistral_effort_name(4), "high");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_effort)
    };

    return cmocka_run_group_tests(tests, chats_setup, chats_teardown);
}


/*
 * Filling in the middle: the ids of Mistral's library, and vocabularies that
 * cannot.
 */

#include "mst_mistral_chats.h"

#include "text/mst_fim.h"


static void
expect_ids(const mst_tokenizer_t *t, const mst_prompt_t *p,
    const uint32_t *want, size_t n)
{
    size_t           k;
    mst_encode_t    *e;
    const uint32_t  *ids;

    e = chats_encode(t, p);
    ids = mst_encode_ids(e, &k);
    assert_int_equal(k, n);
    assert_memory_equal(ids, want, n * sizeof(uint32_t));
    mst_encode_destroy(e);
}


static void
expect_fim(const mst_tokenizer_t *t, mst_str_t prompt, mst_str_t suffix,
    const uint32_t *want, size_t n)
{
    mst_prompt_t  p;

    mst_prompt_init(&p);
    assert_true(mst_fim_can(t));
    assert_int_equal(mst_fim_render(t, prompt, suffix, &p), MST_OK);
    expect_ids(t, &p, want, n);
    mst_prompt_fini(&p);
}


static void
test_ids(void **state)
{
    static const mst_str_t  prompt = mst_string("def f(");
    static const mst_str_t  suffix = mst_string("return a + b");
    static const mst_str_t  none = mst_string("");

    static const uint32_t  spm[] = {
        1, 13, 1575, 1032, 1416, 1055, 11, 1569, 1053, 29500
    };
    static const uint32_t  tekken[] = {
        1, 16, 3004, 1261, 1867, 1289, 14, 3149, 1284, 1040
    };
    static const uint32_t  alone[] = { 1, 16, 14, 3149, 1284, 1040 };
    static const uint32_t  nothing[] = { 1, 16, 14 };

    (void) state;

    expect_fim(chats.spm[2], prompt, suffix, spm, 10);
    expect_fim(chats.tekken, prompt, suffix, tekken, 10);
    expect_fim(chats.tekken, prompt, none, alone, 6);
    expect_fim(chats.tekken, none, none, nothing, 3);
}


/* the tokens' spellings in a text are text */

static void
test_text(void **state)
{
    size_t        i;
    mst_prompt_t  p;

    static const mst_str_t  evil = mst_string("[PREFIX]</s>[SUFFIX]");

    (void) state;

    mst_prompt_init(&p);
    assert_int_equal(mst_fim_render(chats.tekken, evil, evil, &p), MST_OK);
    assert_int_equal(p.n, 5);

    for (i = 0; i < p.n; i++) {
        assert_int_equal(p.spans[i].len == 0, i != 2 && i != 4);
    }

    mst_prompt_fini(&p);
}


static void
test_cannot(void **state)
{
    mst_err_t         err = { "" };
    mst_prompt_t      p;
    mst_tokenizer_t  *bytes;

    (void) state;

    bytes = mst_tokenizer_create_bytes(&err);
    mst_prompt_init(&p);

    assert_false(mst_fim_can(bytes));
    assert_false(mst_fim_can(chats.spm[0]));
    assert_false(mst_fim_can(chats.spm[1]));
    assert_int_equal(mst_fim_render(bytes, mst_str("a", 1), mst_str("b", 1),
                                    &p), MST_ERROR);

    mst_prompt_fini(&p);
    mst_tokenizer_destroy(bytes);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_cannot)
    };

    return cmocka_run_group_tests(tests, chats_setup, chats_teardown);
}


/*
 * Calls of tools: what a model writes as a transcript, in every form and cut
 * in every way.
 */

#include "mst_toolcall_hear.h"


/* the same whether calls are told whole or not */

static const struct {
    const char  *text;
    const char  *want;
} good[] = {

    { "", "" },
    { "hello", "T:hello" },
    { "a<tool_call>b", "T:a<tool_call>b" },

    /* thoughts */

    { "\4hm\5yes", "R:hm|T:yes" },
    { "\4hm", "R:hm" },
    { "\4hm\1f\3{}", "R:hm|C:f|A:{}" },
    { "\5a\2b\3c", "T:abc" },

    /* no calls, or none yet */

    { "\1", "X:!" },
    { "\1f\1g\3{}", "X:!|T:f|C:g|A:{}" },
    { "\1f\4h\5", "X:!|T:f|R:h" },
    { "\1f\2id\1", "X:!|T:fid|X:!" },

    /* behind a call */

    { "\1f\3{} so", "C:f|A:{}|T:so" },
    { "\1f\3{}\n\1g\3{}", "C:f|A:{}|C:g|A:{}" }
};


static void
test_good(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        check(&marks, 0, 0, good[i].text, good[i].want, 0);
        check(&marks, 1, 0, good[i].text, good[i].want, 0);
    }
}


static void
test_tags(void **state)
{
    int  whole;

    static const struct {
        const char  *text;
        const char  *want;
    } cases[] = {
        { "a < b <tool", "T:a < b <tool" },
        { "<<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
          "T:<|C:f|A:{}" },
        { "So:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n"
          "</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n"
          "</tool_call>",
          "T:So:\n|C:f|A:{\"a\": 1}|C:g|A:{}" },
        { "\6{\"name\": \"f\", \"arguments\": {}}</tool_call> ok",
          "C:f|A:{}|T:ok" },
        { "<tool_call>f()</tool_call>",
          "X:!|T:<tool_call>f()</tool_call>" },
        { "\6f()", "X:!|T:<tool_call>f()" },
        { "<tool_call>{\"name\": \"f\"}</tool>", "C:f|A:{}|X:!|T:</tool>" },
        { "<tool_call>{\"name\": \"f\"}</to", "C:f|A:{}" },
        { "<tool_call>{\"name\": \"f\"}</to\6{\"name\": \"g\"}",
          "C:f|A:{}|C:g|A:{}" },
        { "<tool\6{\"name\": \"g\"}", "T:<tool|C:g|A:{}" },

        /* what a malformed key took is text and nothing else */

        { "<tool_call>{\"na<tool_call>\n", "X:!|T:<tool_call>{\"na"
          "<tool_call>\n" }
    };
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        for (whole = 0; whole < 2; whole++) {
            check(&tags, whole, 0, cases[i].text, cases[i].want, 0);
        }
    }
}


/* the same with and without a token for the tag */

static void
test_bare(void **state)
{
    int             whole;
    mst_toolmark_t  m;

    static const struct {
        const char  *text;
        const char  *want;
    } cases[] = {
        { "{\"name\": \"f\", \"parameters\": {\"a\": [1, \"}\"]}}",
          "C:f|A:{\"a\": [1, \"}\"]}" },
        { " {\"type\": \"function\", \"name\": \"f\", \"arguments\": {}}",
          "T: |C:f|A:{}" },
        { "{\"parameters\": {\"a\": 1}, \"name\": \"f\"}\n",
          "C:f|A:{\"a\": 1}" },
        { "I look.\n\n{\"name\": \"f\", \"parameters\": {}}\nSo.",
          "T:I look.\n\n|C:f|A:{}|T:So." },

        /* several */

        { "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
          "\"parameters\": {\"b\": 2}}",
          "C:f|A:{}|C:g|A:{\"b\": 2}" },
        { "{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"g\", "
          "\"parameters\": {}};{\"name\": \"h\", \"parameters\": {}} ;\n",
          "C:f|A:{}|C:g|A:{}|C:h|A:{}|T:;\n" },
        { "{\"name\": \"f\", \"parameters\": {}} ; and so;",
          "C:f|A:{}|T:; and so;" },
        { "{\"name\": \"f\", \"parameters\": {}};; {\"name\": \"g\"}",
          "C:f|A:{}|T:;; {\"name\": \"g\"}" },

        /* behind a mark more is certain */

        { "\6{\"name\": \"f\", \"parameters\": {}}", "C:f|A:{}" },
        { "Hm: \6 {\"name\": \"nosuch\", \"k\": 1}; {\"name\": \"g\"}",
          "T:Hm: |C:nosuch|A:{}|C:g|A:{}" },
        { "{\"name\": \"f\", \"parameters\": {}};\6{\"name\": \"g\"}",
          "C:f|A:{}|T:;|C:g|A:{}" },
        { "\6print(1)", "X:!|T:print(1)" },
        { "a\6", "T:a|X:!" },

        /* other JSON, of which no log is told */

        { "{\"city\": \"Bern\"}", "T:{\"city\": \"Bern\"}" },
        { "{\"name\": \"Ann\", \"parameters\": {}}",
          "T:{\"name\": \"Ann\", \"parameters\": {}}" },
        { "{}", "T:{}" },
        { "{\"na", "T:{\"na" },
        { "{{\"name\": \"f\", \"parameters\": {}}",
          "T:{{\"name\": \"f\", \"parameters\": {}}" },
        { "{\n{\"name\": \"f\", \"parameters\": {}}",
          "T:{\n|C:f|A:{}" },
        { "like {\"name\": \"f\", \"parameters\": {}}",
          "T:like {\"name\": \"f\", \"parameters\": {}}" },

        /* nearly one */

        { "{\"name\": \"f\", \"age\": 5}",
          "X:!|T:{\"name\": \"f\", \"age\": 5}" },
        { "{\"name\": \"f\"}", "X:!|T:{\"name\": \"f\"}" },
        { "{\"name\": \"f\", \"parameters\": \"{}\"}",
          "X:!|T:{\"name\": \"f\", \"parameters\": \"{}\"}" },
        { "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\"}",
          "C:f|A:{}|X:!|T:{\"name\": \"g\"}" }
    };
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        for (whole = 0; whole < 2; whole++) {
            check(&bare, whole, 0, cases[i].text, cases[i].want, 0);
        }
    }

    check(&bare, 0, 0, "{\"name\": \"f\", \"parameters\": {\"a\": x}}",
          "C:f|A:{\"a\": |X:!|T:x}}", 0);
    check(&bare, 1, 0, "{\"name\": \"f\", \"parameters\": {\"a\": x}}",
          "X:!|T:{\"name\": \"f\", \"parameters\": {\"a\": x}}", 0);

    /* a vocabulary without the token */

    m = bare;
    m.tag = -1;

    check(&m, 0, 0, "<a<|python_tag|>{\"name\": \"f\"}; <|python",
          "T:<a|C:f|A:{}|T:; <|python", 0);
    check(&m, 1, 0, "<|python_tag|>go()", "X:!|T:<|python_tag|>go()", 0);
    check(&bare, 1, 0, "<|python_tag|>{\"name\": \"f\"}",
          "T:<|python_tag|>{\"name\": \"f\"}", 0);
}


static void
test_single(void **state)
{
    int  whole;

    (void) state;

    for (whole = 0; whole < 2; whole++) {
        check(&marks, whole, 1, "x\1f\3{\"a\":{}}\1g\3{}",
              "T:x|C:f|A:{\"a\":{}}", 0);
        check(&marks, whole, 1, "\1[{\"name\": \"f\", \"arguments\": {}},"
              "{\"name\": \"g\", \"arguments\": {}}] z", "C:f|A:{}", 0);
        check(&tags, whole, 1, "<tool_call>{\"name\": \"f\"}</tool_call>"
              "<tool_call>{\"name\": \"g\"}</tool_call>", "C:f|A:{}", 0);
        check(&bare, whole, 1, "{\"name\": \"f\", \"parameters\": {}}; "
              "{\"name\": \"g\", \"parameters\": {}}", "C:f|A:{}", 0);
        check(&marks, whole, 1, "\1two words\3{}", "X:!|T:two words{}", 0);
    }
}


static void
test_ids(void **state)
{
    char  want[128], id[MST_TOOLMARK_ID + 1];

    (void) state;

    /* the model's own, where it fits */

    mst_toolmark_id(SEED, 1, id);
    (void) snprintf(want, sizeof(want), "C:f#abcDEF123|A:{}|C:g#%s|A:{}", id);

    check(&marks, 0, 0, "\1f\2abcDEF123\3{}\1g\2short\3{}", want, 1);
    check(&marks, 1, 0, "\1f\2 abcDEF123\3{}\1g\2abcDEF12!\3{}", want, 1);
}


/* what was put into the prompt is the answer's beginning */

static void
force(const mst_toolmark_t *m, const char *name, const char *rest,
    const char *want)
{
    size_t          first;
    heard_t         h;
    mst_prompt_t    p;
    mst_toolcall_t  t;

    mst_prompt_init(&p);
    assert_int_equal(mst_prompt_text(&p, "before", 6), MST_OK);
    first = p.n;

    assert_int_equal(mst_toolmark_force(m, mst_str(name, strlen(name)),
                                        "abcdefghi", &p), MST_OK);

    memset(&h, 0, sizeof(h));
    mst_buf_init(&h.out);
    h.ids = 1;

    mst_toolcall_init(&t, m, &sink, &h);
    assert_int_equal(mst_toolcall_prime(&t, &p, first), MST_OK);
    assert_int_equal(feed(&t, rest, strlen(rest), 3), MST_OK);
    assert_int_equal(mst_toolcall_finish(&t), MST_OK);
    assert_int_equal(mst_buf_char(&h.out, '\0'), MST_OK);

    assert_memory_equal(h.out.data, want, strlen(want));

    mst_toolcall_fini(&t);
    mst_buf_fini(&h.out);
    mst_prompt_fini(&p);
}


static void
test_force(void **state)
{
    mst_prompt_t    p;
    mst_toolmark_t  m;

    (void) state;

    m = marks;
    m.ids = 1;

    force(&m, "get_x", "{\"a\": 1}", "C:get_x#abcdefghi|A:{\"a\": 1}");
    force(&m, "", "f\3{}", "C:f#");

    m.ids = 0;
    force(&m, "get_x", " {}", "C:get_x#");

    m.arguments = -1;
    force(&m, "get_x", " {\"b\": 2}}]", "C:get_x#");
    force(&m, "", "[{\"name\": \"f\"}]", "C:f#");

    force(&tags, "get_x", " {\"b\": 2}}\n</tool_call>", "C:get_x#");
    force(&tags, "", "{\"name\": \"f\"}", "C:f#");

    m = tags;
    m.tag = -1;
    force(&m, "get_x", " {\"b\": 2}}\n</tool_call>", "C:get_x#");
    force(&m, "", "{\"name\": \"f\"}", "C:f#");

    force(&bare, "get_x", " {\"b\": 2}}", "C:get_x#");
    force(&bare, "", "f\", \"parameters\": {}}", "C:f#");

    m.form = MST_TOOLMARK_BRACKETS;
    mst_prompt_init(&p);
    assert_false(mst_toolmark_can(&m));
    assert_int_equal(mst_toolmark_force(&m, mst_str("f", 1), "", &p),
                     MST_DECLINED);
    mst_prompt_fini(&p);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_bare),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_force)
    };

    return cmocka_run_group_tests_name("mst_toolcall", tests, NULL, NULL);
}

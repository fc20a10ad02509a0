
/*
 * Calls of tools: what a model writes as a transcript, in every form and cut
 * in every way.
 *
 * Marks are bytes here: \1 [TOOL_CALLS], \2 [CALL_ID], \3 [ARGS], \4
 * [THINK], \5 [/THINK], \6 <tool_call>.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_toolcall.h"

#define SEED  12345


static const mst_toolmark_t  marks = { 1, 2, 3, 4, 5, -1, 0, 0 };
static const mst_toolmark_t  tags = { -1, -1, -1, -1, -1, 6, 0, 1 };


/* what the sink heard: neighbours of a kind are one */
typedef struct {
    mst_buf_t  out;
    char       kind;
    int        ids;            /* written, too */
} heard_t;


static int
hear(heard_t *h, char kind, const char *p, size_t n)
{
    if (n == 0) {
        return MST_OK;
    }

    if (h->kind != kind || kind == 'C') {
        (void) mst_buf_printf(&h->out, "%s%c:", h->kind ? "|" : "", kind);
        h->kind = kind;
    }

    return mst_buf_append(&h->out, p, n);
}


static int
hear_text(void *data, const char *p, size_t n)
{
    return hear(data, 'T', p, n);
}


static int
hear_thought(void *data, const char *p, size_t n)
{
    return hear(data, 'R', p, n);
}


static int
hear_call(void *data, mst_str_t name, const char *id)
{
    heard_t  *h;

    h = data;

    assert_int_equal(strlen(id), MST_TOOLMARK_ID);
    (void) hear(h, 'C', name.data, name.len);

    return h->ids ? mst_buf_printf(&h->out, "#%s", id) : MST_OK;
}


static int
hear_arguments(void *data, const char *p, size_t n)
{
    return hear(data, 'A', p, n);
}


static void
hear_broken(void *data, const char *why)
{
    assert_non_null(why);
    (void) hear(data, 'X', "!", 1);
}


static const mst_toolcall_sink_t  sink = {
    hear_text, hear_thought, hear_call, hear_arguments, hear_broken
};


static int
feed(mst_toolcall_t *t, const char *p, size_t n, size_t step)
{
    int     rc;
    size_t  k;

    rc = MST_OK;

    while (n && rc == MST_OK) {

        if (mst_toolcall_is_mark(t, (unsigned char) *p)) {
            rc = mst_toolcall_mark(t, (unsigned char) *p);
            p++;
            n--;
            continue;
        }

        for (k = 1; k < n && k < step
             && !mst_toolcall_is_mark(t, (unsigned char) p[k]); k++)
        {
            /* void */
        }

        rc = mst_toolcall_text(t, p, k);
        p += k;
        n -= k;
    }

    return rc;
}


static void
check(const mst_toolmark_t *m, int whole, int single, const char *text,
    const char *want, int ids)
{
    int             rc;
    size_t          step;
    heard_t         h;
    mst_toolcall_t  t;

    static const size_t  steps[] = { 1, 2, 3, 5, 7, 1000 };

    for (step = 0; step < sizeof(steps) / sizeof(steps[0]); step++) {
        memset(&h, 0, sizeof(h));
        mst_buf_init(&h.out);
        h.ids = ids;

        mst_toolcall_init(&t, m, &sink, &h);
        t.seed = SEED;
        t.whole = whole;
        t.single = single;

        rc = feed(&t, text, strlen(text), steps[step]);
        assert_true(rc == MST_OK || (rc == MST_DONE && single));
        assert_int_equal(mst_toolcall_finish(&t), MST_OK);

        assert_int_equal(mst_buf_char(&h.out, '\0'), MST_OK);

        /* a whole call breaks before it is told */

        if (whole || strchr(want, 'X') == NULL) {
            assert_int_equal(t.complete, t.n);

        } else {
            assert_true(t.complete + 1 >= t.n);
        }

        if (strcmp(h.out.data, want) != 0) {
            fail_msg("%s (whole %d, steps of %zu):\n%s, expected\n%s", text,
                     whole, steps[step], h.out.data, want);
        }

        mst_toolcall_fini(&t);
        mst_buf_fini(&h.out);
    }
}


/* the same whether calls are told whole or not */

static const struct {
    const char  *text;
    const char  *want;
} good[] = {

    { "", "" },
    { "hello", "T:hello" },
    { "a<tool_call>b", "T:a<tool_call>b" },

    /* a list */

    { "\1[{\"name\": \"f\", \"arguments\": {\"a\": [1, \"]\"]}}]",
      "C:f|A:{\"a\": [1, \"]\"]}" },
    { "I look.\1 [{\"name\":\"f\",\"arguments\":{}} , \n"
      "{\"name\":\"g-2_X\",\"arguments\":{\"b\":\"\\\"}\"},\"id\":\"q\"}]\n",
      "T:I look.|C:f|A:{}|C:g-2_X|A:{\"b\":\"\\\"}\"}" },
    { "\1[{\"arguments\": {\"x\": 1}, \"name\": \"late\"}]",
      "C:late|A:{\"x\": 1}" },
    { "\1[{\"id\": 12, \"type\": null, \"name\": \"f\"}]", "C:f|A:{}" },
    { "\1{\"name\": \"f\", \"parameters\": {\"k\": {}}}",
      "C:f|A:{\"k\": {}}" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}] and more",
      "C:f|A:{}|T:and more" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}]\1[{\"name\": \"g\"}]",
      "C:f|A:{}|C:g|A:{}" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}", "C:f|A:{}" },

    /* names and marks */

    { "\1f\3{\"a\": 1}", "C:f|A:{\"a\": 1}" },
    { "Text \1f\2abcdefghi\3{\"a\": 1}\1g\2k\3 {}\n",
      "T:Text |C:f|A:{\"a\": 1}|C:g|A:{}" },
    { "\1 f \n\3{}\1g\3{\"x\":\"\xc3\xa9\"}",
      "C:f|A:{}|C:g|A:{\"x\":\"\xc3\xa9\"}" },
    { "\1f{\"a\": 1}", "C:f|A:{\"a\": 1}" },
    { "\1f\3{} so", "C:f|A:{}|T:so" },

    /* thoughts */

    { "\4hm\5yes", "R:hm|T:yes" },
    { "\4hm", "R:hm" },
    { "\4hm\1f\3{}", "R:hm|C:f|A:{}" },
    { "\5a\2b\3c", "T:abc" },

    /* no calls, or none yet */

    { "\1[]", "X:!|T:[]" },
    { "\1", "X:!" },
    { "\1hello world", "X:!|T:hello world" },
    { "\1two words\3{}", "X:!|T:two words{}" },
    { "\1[{\"name\": \"f g\", \"arguments\": {}}] x",
      "X:!|T:[{\"name\": \"f g\", \"arguments\": {}}] x" },
    { "\1[{\"arguments\": {}}]", "X:!|T:[{\"arguments\": {}}]" },
    { "\1[{\"name\": \"f\", \"arguments\": \"{}\"}]",
      "X:!|T:[{\"name\": \"f\", \"arguments\": \"{}\"}]" },
    { "\1[{\"name\": \"f\", \"name\": \"g\"}]",
      "X:!|T:[{\"name\": \"f\", \"name\": \"g\"}]" },
    { "\1[{\"name\": \"f\", ]", "X:!|T:[{\"name\": \"f\", ]" },
    { "\1[{\"n\\u0061me\": 1}]", "X:!|T:[{\"n\\u0061me\": 1}]" },
    { "\1f\3\"x\"", "X:!|T:f\"x\"" },
    { "\1f\1g\3{}", "X:!|T:f|C:g|A:{}" },
    { "\1f\4h\5", "X:!|T:f|R:h" },
    { "\1f\2id\1", "X:!|T:fid|X:!" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}, oh",
      "C:f|A:{}|X:!|T:, oh" }
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


/* told already or not makes the difference */

static void
test_malformed(void **state)
{
    (void) state;

    check(&marks, 0, 0, "a\1f\3{\"x\": tru!} b", "T:a|C:f|A:{\"x\": tru|X:!"
          "|T:!} b", 0);
    check(&marks, 1, 0, "a\1f\3{\"x\": tru!} b", "T:a|X:!|T:f{\"x\": tru!} b",
          0);

    check(&marks, 0, 0, "\1f\3{\"x\": 1", "C:f|A:{\"x\": 1|X:!", 0);
    check(&marks, 1, 0, "\1f\3{\"x\": 1", "X:!|T:f{\"x\": 1", 0);

    check(&marks, 1, 0, "\1[{\"name\": \"f\", \"arguments\": {}}, "
          "{\"name\": \"g\", \"arguments\": {x}}]",
          "C:f|A:{}|X:!|T:, {\"name\": \"g\", \"arguments\": {x}}]", 0);
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

    m.tags = 0;
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
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_force)
    };

    return cmocka_run_group_tests_name("mst_toolcall", tests, NULL, NULL);
}


/*
 * Marks of calls: names, ids, what a vocabulary has, and the beginnings that
 * are forced, span by span.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "text/mst_toolmark.h"


static void
test_names(void **state)
{
    char  name[66];

    (void) state;

    memset(name, 'a', sizeof(name));

    assert_true(mst_toolmark_is_name(mst_str("a_B-9", 5)));
    assert_true(mst_toolmark_is_name(mst_str(name, 64)));
    assert_false(mst_toolmark_is_name(mst_str(name, 65)));
    assert_false(mst_toolmark_is_name(mst_str("", 0)));
    assert_false(mst_toolmark_is_name(mst_str("a.b", 3)));
    assert_false(mst_toolmark_is_name(mst_str("a\n", 2)));
}


static void
test_ids(void **state)
{
    char      id[MST_TOOLMARK_ID + 1], other[MST_TOOLMARK_ID + 1];
    uint32_t  i, k;

    (void) state;

    for (i = 0; i < 1000; i++) {
        mst_toolmark_id(7, i, id);
        mst_toolmark_id(7, i, other);
        assert_string_equal(id, other);
        assert_int_equal(strspn(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "abcdefghijklmnopqrstuvwxyz"), 9);

        for (k = 0; k < i; k += 37) {
            mst_toolmark_id(7, k, other);
            assert_string_not_equal(id, other);
        }
    }
}


/* of a vocabulary of bytes: no marks */

static void
test_find(void **state)
{
    mst_err_t         err;
    mst_toolmark_t    m;
    mst_tokenizer_t  *t;

    (void) state;

    t = mst_tokenizer_create_bytes(&err);
    assert_non_null(t);

    mst_toolmark_find(&m, t, MST_TOOLMARK_BRACKETS);
    assert_string_equal(mst_toolmark_name(&m), "none");
    assert_false(mst_toolmark_can(&m));
    assert_int_equal(m.calls, -1);
    assert_int_equal(m.think, -1);

    mst_toolmark_find(&m, t, MST_TOOLMARK_TAGS);
    assert_true(mst_toolmark_can(&m));
    assert_int_equal(m.tag, -1);
    assert_string_equal(mst_toolmark_name(&m), "<tool_call> tags");

    mst_toolmark_find(&m, t, MST_TOOLMARK_BARE);
    assert_true(mst_toolmark_can(&m));
    assert_string_equal(mst_toolmark_name(&m),
                        "JSON with name and parameters");

    mst_toolmark_drop(&m);
    assert_false(mst_toolmark_can(&m));

    mst_tokenizer_destroy(t);
}


/* as public templates spell it */

static void
test_form(void **state)
{
    size_t  i;

    static const struct {
        const char           *text;
        mst_toolmark_form_t   form;
    } cases[] = {
        { NULL, MST_TOOLMARK_BRACKETS },
        { "", MST_TOOLMARK_BRACKETS },
        { "{{ tools }}", MST_TOOLMARK_BRACKETS },
        { "'[TOOL_CALLS] [{\"name\": \"' + name + '\", \"parameters\": '",
          MST_TOOLMARK_BRACKETS },
        { "<tool_call>\n{\"name\": <n>, \"parameters\": <a>}",
          MST_TOOLMARK_TAGS },
        { "{{- '{\"name\": \"' + f.name + '\", ' }}{{- '\"parameters\": ' }}",
          MST_TOOLMARK_BARE },
        { "{{- \"{\\\"name\\\": function, \\\"parameters\\\": a}\" }}",
          MST_TOOLMARK_BARE },
        { "{{- '<|python_tag|>' + f.name + '.call(' }}", MST_TOOLMARK_BARE },
        { "'{\"tool_name\": x, \"parameters\": y}'", MST_TOOLMARK_BRACKETS },
        { "'{\"name\": x, \"arguments\": y}'", MST_TOOLMARK_BRACKETS },
        { "parameters and name:", MST_TOOLMARK_BRACKETS }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(mst_toolmark_form(cases[i].text), cases[i].form);
    }
}


/* control tokens in brackets */

static void
force(const mst_toolmark_t *m, const char *name, const char *want)
{
    size_t             i;
    mst_buf_t          out;
    mst_prompt_t       p;
    const mst_span_t  *s;

    mst_prompt_init(&p);
    mst_buf_init(&out);

    assert_int_equal(mst_toolmark_force(m, mst_str(name, strlen(name)),
                                        "abcdefghi", &p), MST_OK);

    for (i = 0; i < p.n; i++) {
        s = &p.spans[i];

        if (s->len) {
            (void) mst_buf_append(&out, p.text.data + s->off, s->len);

        } else {
            (void) mst_buf_printf(&out, "[%u]", s->id);
        }
    }

    assert_int_equal(mst_buf_char(&out, 0), MST_OK);
    assert_string_equal(out.data, want);

    mst_buf_fini(&out);
    mst_prompt_fini(&p);
}


static void
test_force(void **state)
{
    mst_prompt_t    p;
    mst_toolmark_t  m = { 1, 2, 3, 4, 5, -1, 1, 0 };

    (void) state;

    force(&m, "f", "[1]f[2]abcdefghi[3]");
    force(&m, "", "[1]");

    m.ids = 0;
    force(&m, "f", "[1]f[3]");

    m.arguments = -1;
    force(&m, "f", "[1][{\"name\": \"f\", \"arguments\":");
    force(&m, "", "[1]");

    m.calls = -1;
    mst_prompt_init(&p);
    assert_int_equal(mst_toolmark_force(&m, mst_str("f", 1), "", &p),
                     MST_DECLINED);
    mst_prompt_fini(&p);

    m.form = MST_TOOLMARK_BARE;
    force(&m, "f", "{\"name\": \"f\", \"parameters\":");
    force(&m, "", "{\"name\": \"");

    m.form = MST_TOOLMARK_TAGS;
    force(&m, "f", "<tool_call>\n{\"name\": \"f\", \"arguments\":");
    force(&m, "", "<tool_call>\n");

    m.tag = 6;
    force(&m, "f", "[6]\n{\"name\": \"f\", \"arguments\":");
    force(&m, "", "[6]\n");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_force)
    };

    return cmocka_run_group_tests_name("mst_toolmark", tests, NULL, NULL);
}

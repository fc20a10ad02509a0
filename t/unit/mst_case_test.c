
/*
 * Upper and lower case of texts.
 */

#include "jinja.h"

#include "text/mst_case.h"


static void
expect(const char *text, mst_case_t how, const char *want)
{
    mst_err_t    err = { "" };
    mst_work_t   w;
    mst_text_t  *t;

    mst_work_init(&w, 100000, 100000, &err);
    t = mst_case(&w, mst_text_of(&w, text, strlen(text), 0), how);
    assert_non_null(t);

    if (t->len != strlen(want) || memcmp(t->data, want, t->len) != 0) {
        fail_msg("%s is %.*s, not %s", text, (int) t->len, t->data, want);
    }

    mst_work_fini(&w);
}


static int
is(const char *text, mst_case_is_t what)
{
    mst_text_t  t = { .len = strlen(text), .data = text };

    return mst_case_is(&t, what);
}


/* before mst_case_open(): ASCII alone */

static void
test_ascii(void **state)
{
    (void) state;

    expect("aZ1\xc3\xa9", MST_CASE_UPPER, "AZ1\xc3\xa9");
    expect("aZ1", MST_CASE_LOWER, "az1");
    assert_false(is("\xc3\xa9", MST_CASE_IS_ALPHA));
}


static void
test_unicode(void **state)
{
    (void) state;

    mst_case_open();
    mst_case_open();

    expect("stra\xc3\x9f" "e \xc3\xa9\xce\xa9\xd0\xb4 \xef\xac\x81",
           MST_CASE_UPPER, "STRASSE \xc3\x89\xce\xa9\xd0\x94 FI");
    expect("\xc3\x80\xce\x91\xce\xa3 \xce\xa3 \xce\x91\xce\xa3\xce\x91",
           MST_CASE_LOWER,
           "\xc3\xa0\xce\xb1\xcf\x82 \xcf\x83 \xce\xb1\xcf\x83\xce\xb1");
    expect("\xc4\xb0", MST_CASE_LOWER, "i\xcc\x87");
    expect("\xc3\xa9" "A b", MST_CASE_CAPITALIZE, "\xc3\x89" "a b");
    expect("\xc3\x9f" "A", MST_CASE_CAPITALIZE, "Ssa");
    expect("they're o'n", MST_CASE_TITLE, "They'Re O'N");
    expect("aB\xc3\xa9", MST_CASE_SWAP, "Ab\xc3\x89");
    expect("", MST_CASE_UPPER, "");
}


static void
test_is(void **state)
{
    (void) state;

    assert_true(is("ab\xc3\xa9", MST_CASE_IS_ALPHA));
    assert_false(is("a1", MST_CASE_IS_ALPHA));
    assert_true(is("a1", MST_CASE_IS_ALNUM));
    assert_true(is("12", MST_CASE_IS_DIGIT));
    assert_false(is("1a", MST_CASE_IS_DIGIT));
    assert_true(is(" \t\xe3\x80\x80", MST_CASE_IS_SPACE));
    assert_true(is("a 1", MST_CASE_IS_LOWER));
    assert_true(is("A\xc3\x89 1", MST_CASE_IS_UPPER));
    assert_false(is("1", MST_CASE_IS_UPPER));
    assert_false(is("", MST_CASE_IS_SPACE));
    assert_false(is("", MST_CASE_IS_LOWER));
}


/* marks follow the characters that they belong to */

static void
test_marks(void **state)
{
    (void) state;

    jinja_marks("{{ ('\xc3\x9f' ~ v ~ 'a')|upper }}",
                "{\"v\":\"\xc3\x9f|\"}", "[SS]SS|[A]");
    jinja_marks("{{ ('a' ~ v)|upper }}", "{\"v\":\"b\"}", "[A]B");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_ascii),
        cmocka_unit_test(test_unicode),
        cmocka_unit_test(test_is),
        cmocka_unit_test(test_marks)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

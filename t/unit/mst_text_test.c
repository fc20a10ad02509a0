
/*
 * Strings that know where each byte comes from.
 */

#include "jinja.h"


static mst_err_t   err;
static mst_work_t  w;


static mst_text_t *
text(const char *s, mst_text_from_t from)
{
    return mst_text_of(&w, s, strlen(s), from);
}


static void
expect(mst_text_t *t, const char *want, const char *marks)
{
    size_t  i;

    assert_non_null(t);
    assert_int_equal(mst_text_flat(&w, t), MST_OK);
    assert_int_equal(t->len, strlen(want));
    assert_memory_equal(t->data, want, t->len);

    for (i = 0; i < t->len; i++) {
        assert_int_equal("vtf"[t->mark ? t->mark[i] : t->from], marks[i]);
    }
}


static int
setup(void **state)
{
    (void) state;
    err.text[0] = '\0';
    mst_work_init(&w, 10000000, 1000000, &err);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;
    mst_work_fini(&w);

    return 0;
}


static void
test_sums(void **state)
{
    int          i;
    char         want[4001], marks[4001];
    mst_text_t  *a, *b, *left, *right;

    (void) state;

    a = text("ab", MST_TEXT_TEMPLATE);
    b = text("c", MST_TEXT_VALUE);

    expect(mst_text_sum(&w, a, b), "abc", "ttv");
    expect(mst_text_sum(&w, mst_text_sum(&w, b, a), text("d",
                                                         MST_TEXT_FINAL)),
           "cabd", "vttf");
    assert_ptr_equal(mst_text_sum(&w, a, text("", MST_TEXT_VALUE)), a);
    assert_ptr_equal(mst_text_sum(&w, text("", MST_TEXT_VALUE), a), a);

    /* long ones grow at either side without recursion */

    left = text("", MST_TEXT_VALUE);
    right = left;

    for (i = 0; i < 2000; i++) {
        left = mst_text_sum(&w, left, i % 2 ? a : b);
        right = mst_text_sum(&w, i % 2 ? a : b, right);
        assert_true(right->depth <= 41);
    }

    for (i = 0; i < 1000; i++) {
        memcpy(want + 3 * i, "cab", 3);
        memcpy(marks + 3 * i, "vtt", 3);
    }

    want[3000] = '\0';
    expect(left, want, marks);

    for (i = 0; i < 1000; i++) {
        memcpy(want + 3 * i, "abc", 3);
        memcpy(marks + 3 * i, "ttv", 3);
    }

    expect(right, want, marks);
}


static void
test_parts(void **state)
{
    mst_text_t  *t;

    (void) state;

    t = mst_text_sum(&w, text(" \xc3\xa9", MST_TEXT_TEMPLATE),
                     text("x\xe3\x80\x80", MST_TEXT_VALUE));
    assert_int_equal(mst_text_flat(&w, t), MST_OK);

    expect(mst_text_part(&w, t, 1, 3), "\xc3\xa9x", "ttv");
    expect(mst_text_strip(&w, t, NULL, 1, 1), "\xc3\xa9x", "ttv");
    expect(mst_text_strip(&w, t, NULL, 0, 1), " \xc3\xa9x", "tttv");
    expect(mst_text_strip(&w, t, text("x\xe3\x80\x80 ", 0), 1, 1), "\xc3\xa9",
           "tt");
    expect(mst_text_strip(&w, text("   ", 0), NULL, 1, 1), "", "");

    assert_int_equal(mst_text_chars(t), 4);
    assert_int_equal(mst_text_offset(t, 2), 3);
    assert_int_equal(mst_text_offset(t, 9), 7);
    assert_int_equal(mst_text_char(t, 1), 2);
    assert_int_equal(mst_text_find(t, mst_str("x", 1), 0), 3);
    assert_int_equal(mst_text_find(t, mst_str("x", 1), 4), -1);
    assert_int_equal(mst_text_find(t, mst_str("", 0), 7), 7);
    assert_int_equal(mst_text_find(t, mst_str("", 0), 8), -1);
    assert_int_equal(mst_text_rfind(text("abab", 0), mst_str("ab", 2)), 2);
    assert_int_equal(mst_text_rfind(text("ab", 0), mst_str("abc", 3)), -1);
    assert_int_equal(mst_text_rfind(text("ab", 0), mst_str("", 0)), 2);
}


static void
test_code_points(void **state)
{
    char      bytes[4];
    size_t    n, k;
    uint32_t  cp;

    (void) state;

    for (cp = 0; cp < 0x110000; cp += cp < 0x1000 ? 1 : 257) {
        mst_text_encode(cp, bytes, &n);
        assert_int_equal(n, cp < 0x80 ? 1 : cp < 0x800 ? 2
                         : cp < 0x10000 ? 3 : 4);
        assert_int_equal(mst_text_decode(bytes, bytes + n, &k), cp);
        assert_int_equal(k, n);
    }

    /* what is cut is taken byte by byte */

    mst_text_encode(0x1f98a, bytes, &n);
    assert_int_equal(mst_text_decode(bytes, bytes + 3, &k), 0xf0);
    assert_int_equal(k, 1);

    assert_true(mst_text_is_space(' ') && mst_text_is_space(0x1c)
                && mst_text_is_space(0x85) && mst_text_is_space(0x3000));
    assert_false(mst_text_is_space(0x200b) || mst_text_is_space('a')
                 || mst_text_is_space(0x180e) || mst_text_is_space(8));
}


static void
test_out(void **state)
{
    int             i;
    mst_text_t     *t;
    mst_text_out_t  out;

    (void) state;

    t = text("", 0);

    for (i = 0; i < 40; i++) {
        t = mst_text_sum(&w, t, text(i % 2 ? "0123456789" : "abcdefghij",
                                     i % 2 ? MST_TEXT_TEMPLATE
                                           : MST_TEXT_VALUE));
    }

    mst_text_out_init(&out);
    assert_int_equal(mst_text_out_add(&out, &w, t), MST_OK);
    assert_int_equal(out.n, 40);
    assert_int_equal(out.buf.len, 400);
    assert_memory_equal(out.buf.data, "abcdefghij0123456789a", 21);
    assert_int_equal(out.runs[1].end, 20);
    assert_int_equal(out.runs[1].from, MST_TEXT_TEMPLATE);
    mst_text_out_fini(&out);

    /* neighbours of one origin are one run */

    assert_int_equal(mst_text_out_add(&out, &w, text("a", 1)), MST_OK);
    assert_int_equal(mst_text_out_add(&out, &w, text("", 0)), MST_OK);
    assert_int_equal(mst_text_out_bytes(&out, &w, "b", 1, 1), MST_OK);
    assert_int_equal(out.n, 1);
    expect(mst_text_out_take(&out, &w), "ab", "tt");
    assert_int_equal(mst_text_out_bytes(&out, &w, "c", 1, 0), MST_OK);
    expect(mst_text_out_take(&out, &w), "abc", "ttv");
    mst_text_out_fini(&out);
    expect(mst_text_out_take(&out, &w), "", "");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_code_points, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out, setup, teardown)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Strings of JSON in pieces: those of a size whose work is bounded, by the
 * count of the pieces, and keys as long as they may be.  Whatever else is in
 * a string: mst_json_read_test.c, beside jansson's parser.
 */

#include "mst_json_pieces.h"


static void
test_pieces(void **state)
{
    static const pieces_case_t  cases[] = {
        { "{\"a\":\"", "a", "\"}", 1 },
        { "{\"a\":\"", " ", "\"}", 1 },
        { "{\"a\":\"", "\xd1\x8f", "\"}", 0.9 },
        { "{\"a\":\"", "\xd0\xb4\xe6\x97\xa5n", "\"}", 0.9 },
        { "{\"a\":\"", "\\n", "\"}", 4 },
        { "{\"a\":\"", "\\u0416", "\"}", 2 },
    };

    (void) state;

    pieces_case(cases, sizeof(cases) / sizeof(*cases));
}


static void
test_keys(void **state)
{
    size_t           turns;
    json_t          *root;
    mst_buf_t        b;
    mst_api_error_t  e;

    (void) state;

    mst_buf_init(&b);
    assert_int_equal(mst_buf_reserve(&b, MST_JSON_MAX_KEY + 16), MST_OK);
    (void) mst_buf_text(&b, "{\"");
    memset(b.data + b.len, 'k', MST_JSON_MAX_KEY);
    b.len += MST_JSON_MAX_KEY;
    (void) mst_buf_text(&b, "\":1}");

    root = pieces(b.data, b.len, SIZE_MAX, &turns, &e);
    assert_non_null(root);
    json_decref(root);

    b.len -= 4;
    (void) mst_buf_text(&b, "k\":1}");
    assert_null(pieces(b.data, b.len, SIZE_MAX, &turns, &e));
    assert_non_null(strstr(e.message, "a key of more than 65536 bytes"));

    mst_buf_fini(&b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_keys)
    };

    return cmocka_run_group_tests_name("mst_json_string", tests, NULL, NULL);
}

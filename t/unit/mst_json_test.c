
/*
 * The scan and the parser's strictness.  The writer: mst_json_write_test.c.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_json.h"
#include "api/mst_json_read.h"
#include "base/mst_mem.h"


typedef struct {
    const char  *body;
    size_t       len;
    const char  *part;                 /* of the message; NULL: accepted */
} mst_case_t;

#define mst_case(s, part)  { s, sizeof(s) - 1, part }


static const mst_case_t  cases[] = {
    mst_case("{}", NULL),
    mst_case(" \t\r\n{ } \n", NULL),
    mst_case("{\"a\":[1,2.5,-3e4,true,false,null,\"x\",{}]}", NULL),
    mst_case("{\"a\":\"\\u0000\\n\\\"\\\\\\/\\u00e9\\ud83d\\ude00\"}", NULL),
    mst_case("{\"a\":\"[[[[{{{{,,,,\"}", NULL),
    mst_case("{\"a\\u0000b\":1}", "NUL byte in object key"),
    mst_case("{\"a\":\"\x7f\"}", NULL),
    mst_case("{\"\xc3\xa9\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}", NULL),

    mst_case("", "empty"),
    mst_case("   ", "not valid JSON"),
    mst_case("[]", "must be a JSON object"),
    mst_case("null", "must be a JSON object"),
    mst_case("1", "must be a JSON object"),
    mst_case("\"x\"", "must be a JSON object"),
    mst_case("{", "at byte"),
    mst_case("}", "at byte"),
    mst_case("{\"a\":}", "at byte"),
    mst_case("{\"a\":1,}", "at byte"),
    mst_case("{\"a\":[1,]}", "at byte"),
    mst_case("{\"a\":1]", "at byte"),
    mst_case("{} {}", "at byte"),
    mst_case("{}x", "at byte"),
    mst_case("{}\0", "control character (0x00) at byte 2"),
    mst_case("{\"a\":\"\0\"}", "control character (0x00) at byte 6"),
    mst_case("{\"a\":\"\n\"}", "control character (0x0a) at byte 6"),
    mst_case("{\"a\":\"\\\n\"}", "control character (0x0a) at byte 7"),
    mst_case("{\"a\":\"\\\x80\"}", "invalid UTF-8 (0x80) at byte 7"),
    mst_case("{\"a\":\"\x1f\"}", "control character (0x1f) at byte 6"),
    mst_case("\v{}", "control character (0x0b) at byte 0"),
    mst_case("\xef\xbb\xbf{}", "at byte"),
    mst_case("{\"a\":\"\xff\"}", "invalid UTF-8 (0xff) at byte 6"),
    mst_case("{\"a\":\"\xc0\x80\"}", "invalid UTF-8 (0xc0) at byte 6"),
    mst_case("{\"a\":\"\xc1\xbf\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xe0\x80\x80\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xe0\x9f\xbf\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xed\xa0\x80\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xf0\x8f\xbf\xbf\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xf4\x90\x80\x80\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xf5\x80\x80\x80\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xe2\x82\"}", "invalid UTF-8"),
    mst_case("{\"a\":\"\xf0\x9f\x98", "invalid UTF-8"),
    mst_case("{\"a\":\"\x80\"}", "invalid UTF-8"),
    mst_case("{\xff}", "invalid UTF-8 (0xff) at byte 1"),
    mst_case("{\"a", "at byte"),
    mst_case("{\"a\\", "at byte"),
    mst_case("{\"a\":\"\\x\"}", "at byte"),
    mst_case("{\"a\":\"\\u12\"}", "at byte"),
    mst_case("{\"a\":\"\\ud800\"}", "at byte"),
    mst_case("{\"a\":\"\\udc00\"}", "at byte"),
    mst_case("{\"a\":01}", "at byte"),
    mst_case("{\"a\":1.}", "at byte"),
    mst_case("{\"a\":.5}", "at byte"),
    mst_case("{\"a\":+1}", "at byte"),
    mst_case("{\"a\":0x1}", "at byte"),
    mst_case("{\"a\":NaN}", "at byte"),
    mst_case("{\"a\":Infinity}", "at byte"),
    mst_case("{a:1}", "at byte"),
    mst_case("{'a':1}", "at byte"),
    mst_case("{\"a\" 1}", "at byte"),
    mst_case("{1:2}", "at byte"),
    mst_case("{\"a\":1 // x\n}", "at byte")
};


/* the end of the body stands at the end of its heap block, for ASan */

static json_t *
parse(const char *body, size_t len, mst_api_error_t *e)
{
    char    *copy;
    json_t  *root;

    memset(e, 0, sizeof(mst_api_error_t));

    copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, body, len);

    root = mst_json_parse(copy, len, e);

    free(copy);

    return root;
}


static void
test_parse(void **state)
{
    size_t            i;
    json_t           *root;
    mst_api_error_t   e;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        root = parse(cases[i].body, cases[i].len, &e);

        if (cases[i].part == NULL) {
            if (root == NULL) {
                fail_msg("case %zu: %s", i, e.message);
            }

            assert_int_equal(e.status, 0);
            json_decref(root);
            continue;
        }

        if (root || strstr(e.message, cases[i].part) == NULL) {
            fail_msg("case %zu (%s): \"%s\" is not in \"%s\"", i,
                     cases[i].body, cases[i].part, e.message);
        }

        assert_int_equal(e.status, 400);
        assert_string_equal(e.code, "invalid_json");
        assert_string_equal(e.param, "");
        assert_null(strchr(e.message, '\n'));
    }
}


/* the field is named, unless a client could write what it likes in it */

static void
test_large(void **state)
{
    size_t            i;
    mst_api_error_t   e;

    static const struct {
        const char  *body;
        const char  *param;
        const char  *message;
    } bad[] = {
        { "{\"seed\":18446744073709551615}", "seed",
          "seed: a number is too large, integers have 64 bits: -2^63 to "
          "2^63-1, at byte 8" },
        { "{\"a\":9223372036854775808}", "a", "a: a number" },
        { "{\"a\":-9223372036854775809}", "a", "a: a number" },
        { "{\"a\":1e400}", "a", "a: a number" },
        { "{\"a\":{\"b\":1e400}}", "", "a number" },
        { "{\"a\":[{\"b\":1},1e400]}", "", "a number" },
        { "{\"\":1e400}", "", "a number" },
        { "{\"a b\":1e400}", "", "a number" },
        { "{\"a\\n\":1e400}", "", "a number" },
        { "{\"a\\u00e9\":1e400}", "", "a number" },
        { "{\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\":1e400}", "",
          "a number" }
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_null(parse(bad[i].body, strlen(bad[i].body), &e));
        assert_int_equal(e.status, 400);
        assert_string_equal(e.code, "invalid_json");
        assert_string_equal(e.param, bad[i].param);
        assert_memory_equal(e.message, bad[i].message,
                            strlen(bad[i].message));
    }
}


static void
test_values(void **state)
{
    json_t           *root, *v;
    mst_api_error_t   e;

    static const char  body[] = "{\"a\":1,\"a\":2,\"b\":\"x\\u0000y\"}";

    (void) state;

    root = parse(body, sizeof(body) - 1, &e);
    assert_non_null(root);

    assert_int_equal(json_object_size(root), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "a")), 2);

    v = json_object_get(root, "b");
    assert_int_equal(json_string_length(v), 3);
    assert_memory_equal(json_string_value(v), "x\0y", 3);

    json_decref(root);
}


/* fills a body with n copies of a piece */

static json_t *
repeat(const char *open, const char *piece, size_t n, const char *close,
    mst_api_error_t *e)
{
    size_t      i;
    json_t     *root;
    mst_buf_t   b;

    mst_buf_init(&b);
    (void) mst_buf_text(&b, open);

    for (i = 0; i < n; i++) {
        (void) mst_buf_text(&b, piece);
    }

    assert_int_equal(mst_buf_text(&b, close), MST_OK);

    root = parse(b.data, b.len, e);

    mst_buf_fini(&b);

    return root;
}


static void
test_limits(void **state)
{
    char              deep[200];
    json_t           *root;
    mst_api_error_t   e;

    (void) state;

    memset(deep, '[', 200);
    memset(deep + MST_JSON_MAX_DEPTH - 1, ']', MST_JSON_MAX_DEPTH - 1);
    deep[2 * (MST_JSON_MAX_DEPTH - 1)] = '\0';

    root = repeat("{\"a\":", deep, 1, "}", &e);
    assert_non_null(root);
    json_decref(root);

    assert_null(repeat("{\"a\":[", deep, 1, "]}", &e));
    assert_non_null(strstr(e.message, "deeper than 64 levels"));

    assert_null(repeat("{\"a\":", "[", 100000, "", &e));
    assert_non_null(strstr(e.message, "deeper"));

    root = repeat("{\"a\":[", "{},", MST_JSON_MAX_OBJECTS - 3, "{}]}", &e);
    assert_non_null(root);
    json_decref(root);

    assert_null(repeat("{\"a\":[", "{},", MST_JSON_MAX_OBJECTS - 2, "{}]}",
                       &e));
    assert_non_null(strstr(e.message, "more than 20000 objects"));

    root = repeat("{\"a\":[", "0,", MST_JSON_MAX_VALUES, "0]}", &e);
    assert_non_null(root);
    json_decref(root);

    assert_null(repeat("{\"a\":[", "0,", MST_JSON_MAX_VALUES + 1, "0]}", &e));
    assert_non_null(strstr(e.message, "more than 400000 values"));
}


/* closing brackets without opening ones must not buy depth */

static void
test_unbalanced(void **state)
{
    mst_api_error_t  e;

    (void) state;

    assert_null(repeat("", "]", 100, "{\"a\":1}", &e));
    assert_null(repeat("]]]]]]]]]]{\"a\":", "[", 65, "", &e));
    assert_non_null(strstr(e.message, "(0x5d) at byte 0"));
    assert_null(repeat("{\"a\":[}]}", "[", 65, "", &e));
    assert_non_null(strstr(e.message, "(0x7d) at byte 6"));
}


static void
test_parse_memory(void **state)
{
    long              n;
    json_t           *root;
    json_malloc_t     m;
    json_free_t       f;
    mst_api_error_t   e;

    static const char  body[] = "{\"a\":[1,\"x\",{}],\"b\":2.5}";

    (void) state;

    json_get_alloc_funcs(&m, &f);
    json_set_alloc_funcs(mst_alloc, mst_free);

    for (n = 1; n < 200; n++) {
        mst_mem_fail_after(n);
        root = mst_json_parse(body, sizeof(body) - 1, &e);
        mst_mem_fail_after(0);

        if (root) {
            json_decref(root);
            break;
        }

        assert_true(e.status == 500 || e.status == 400);
    }

    json_set_alloc_funcs(m, f);

    assert_in_range(n, 5, 199);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unbalanced),
        cmocka_unit_test(test_parse_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

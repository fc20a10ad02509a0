
/*
 * The writer of JSON: strings, numbers, and a string's escapes undone.  The
 * parser: mst_json_test.c.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_json.h"
#include "base/mst_mem.h"

#include "seed.h"


static size_t
encode(uint32_t c, char *p)
{
    if (c < 0x80) {
        p[0] = (char) c;
        return 1;
    }

    if (c < 0x800) {
        p[0] = (char) (0xc0 | c >> 6);
        p[1] = (char) (0x80 | (c & 63));
        return 2;
    }

    if (c < 0x10000) {
        p[0] = (char) (0xe0 | c >> 12);
        p[1] = (char) (0x80 | (c >> 6 & 63));
        p[2] = (char) (0x80 | (c & 63));
        return 3;
    }

    p[0] = (char) (0xf0 | c >> 18);
    p[1] = (char) (0x80 | (c >> 12 & 63));
    p[2] = (char) (0x80 | (c >> 6 & 63));
    p[3] = (char) (0x80 | (c & 63));

    return 4;
}


/* every code point comes back through jansson as it went in */

static void
test_string_code_points(void **state)
{
    char       *text;
    size_t      len;
    json_t     *v;
    uint32_t    c;
    mst_buf_t   out;

    (void) state;

    text = malloc(4 * 0x110000);
    assert_non_null(text);

    for (c = 0, len = 0; c < 0x110000; c++) {
        if (c < 0xd800 || c > 0xdfff) {
            len += encode(c, text + len);
        }
    }

    mst_buf_init(&out);
    assert_int_equal(mst_json_string(&out, mst_str(text, len)), MST_OK);

    v = json_loadb(out.data, out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(v);
    assert_int_equal(json_string_length(v), len);
    assert_true(memcmp(json_string_value(v), text, len) == 0);

    json_decref(v);
    mst_buf_fini(&out);
    free(text);
}


static void
string_is(const char *in, size_t len, const char *want)
{
    mst_buf_t  out;

    mst_buf_init(&out);
    assert_int_equal(mst_json_string(&out, mst_str(in, len)), MST_OK);
    assert_int_equal(mst_buf_char(&out, '\0'), MST_OK);
    assert_string_equal(out.data, want);
    mst_buf_fini(&out);
}


#define R  "\xef\xbf\xbd"


static void
test_string_forms(void **state)
{
    (void) state;

    string_is(NULL, 0, "\"\"");
    string_is("a\"\\/b", 5, "\"a\\\"\\\\/b\"");
    string_is("\b\t\n\f\r", 5, "\"\\b\\t\\n\\f\\r\"");
    string_is("\0\x01\x0b\x1f\x7f", 5,
              "\"\\u0000\\u0001\\u000b\\u001f\x7f\"");
    string_is("<\xe2\x80\xa8>", 5, "\"<\xe2\x80\xa8>\"");

    string_is("\xff", 1, "\"" R "\"");
    string_is("a\x80""b", 3, "\"a" R "b\"");
    string_is("\xc3", 1, "\"" R "\"");
    string_is("\xe2\x82", 2, "\"" R R "\"");
    string_is("\xf0\x9f\x98", 3, "\"" R R R "\"");
    string_is("\xed\xa0\x80", 3, "\"" R R R "\"");
    string_is("\xc0\xaf", 2, "\"" R R "\"");
    string_is("\xf4\x90\x80\x80", 4, "\"" R R R R "\"");
    string_is("\xc3\xc3\xa9", 3, "\"" R "\xc3\xa9\"");
}


/*
 * Random bytes: the answer is always valid JSON, valid UTF-8 passes as it is,
 * and pieces of 512 bytes do not tear characters.
 */

static void
test_string_random(void **state)
{
    char      *text;
    size_t     i, n, len;
    json_t    *v;
    unsigned   seed, round;
    mst_buf_t  out;

    (void) state;

    seed = (unsigned) test_seed();

    for (round = 0; round < 3000; round++) {
        len = (size_t) rand_r(&seed) % 1200;
        text = malloc(len ? len : 1);
        assert_non_null(text);

        for (i = 0; i < len; i += n) {
            n = 1;

            if (round % 2 || len - i < 4) {
                text[i] = (char) rand_r(&seed);

                if (round % 2 == 0) {
                    text[i] &= 0x7f;
                }

            } else {
                n = encode((uint32_t) rand_r(&seed) % 0xd800, text + i);
            }
        }

        mst_buf_init(&out);
        assert_int_equal(mst_json_string(&out, mst_str(text, len)), MST_OK);

        v = json_loadb(out.data, out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                       NULL);
        assert_non_null(v);

        if (round % 2 == 0) {
            assert_int_equal(json_string_length(v), len);
            assert_memory_equal(json_string_value(v), text, len);
        }

        json_decref(v);
        mst_buf_fini(&out);
        free(text);
    }
}


static void
test_string_memory(void **state)
{
    char       text[3000];
    long       n;
    mst_buf_t  out;

    (void) state;

    memset(text, '\x01', sizeof(text));

    for (n = 1; n < 30; n++) {
        mst_buf_init(&out);
        mst_mem_fail_after(n);

        if (mst_json_string(&out, mst_str(text, sizeof(text))) == MST_OK) {
            mst_mem_fail_after(0);
            assert_int_equal(out.len, 6 * sizeof(text) + 2);
            mst_buf_fini(&out);
            break;
        }

        mst_mem_fail_after(0);
        assert_int_equal(out.len, 0);
        assert_true(out.failed);
        mst_buf_fini(&out);
    }

    assert_in_range(n, 3, 29);
}


static void
number_is(double x, const char *want)
{
    mst_buf_t  out;

    mst_buf_init(&out);
    assert_int_equal(mst_json_number(&out, x), MST_OK);
    assert_int_equal(mst_buf_char(&out, '\0'), MST_OK);
    assert_string_equal(out.data, want);
    mst_buf_fini(&out);
}


static void
float_is(float x, const char *want)
{
    mst_buf_t  out;

    mst_buf_init(&out);
    assert_int_equal(mst_json_float(&out, x), MST_OK);
    assert_int_equal(mst_buf_char(&out, '\0'), MST_OK);
    assert_string_equal(out.data, want);
    mst_buf_fini(&out);
}


static void
test_float(void **state)
{
    char       text[40];
    float      x;
    unsigned   seed, i;
    uint32_t   bits;
    mst_buf_t  out;

    (void) state;

    float_is(0, "0");
    float_is(-1, "-1");
    float_is(-0.25f, "-0.25");
    float_is(-0.1f, "-0.1");
    float_is(-9999, "-9999");
    float_is(-1234.5678f, "-1234.5677");
    float_is(-0.00001f, "-1e-05");
    float_is(0.0001f, "0.0001");
    float_is(9999999, "9999999");
    float_is(1e7f, "1e+07");
    float_is(3.4e38f, "3.4e+38");
    float_is(-1e-30f, "-1e-30");
    float_is(INFINITY, "null");
    float_is(NAN, "null");

    seed = (unsigned) test_seed();
    mst_buf_init(&out);

    for (i = 0; i < 200000; i++) {
        bits = (uint32_t) rand_r(&seed) ^ (uint32_t) rand_r(&seed) << 12;
        memcpy(&x, &bits, sizeof(x));

        if (i % 2 || !isfinite(x)) {
            x = -(float) (bits % 1000003)
                / (float) (1 + rand_r(&seed) % 1000003);
        }

        mst_buf_reset(&out);
        assert_int_equal(mst_json_float(&out, x), MST_OK);
        assert_in_range(out.len, 1, 17);
        memcpy(text, out.data, out.len);
        text[out.len] = '\0';

        if ((float) strtod(text, NULL) != x) {
            fail_msg("%.9g is %s", (double) x, text);
        }
    }

    mst_buf_fini(&out);
}


static void
test_number(void **state)
{
    char      text[40];
    double    x;
    unsigned  seed, i;
    uint64_t  bits;
    mst_buf_t out;

    (void) state;

    number_is(0, "0");
    number_is(1, "1");
    number_is(-0.5, "-0.5");
    number_is(0.1, "0.1");
    number_is(1e300, "1e+300");
    number_is(1234567, "1234567");
    number_is(INFINITY, "null");
    number_is(-INFINITY, "null");
    number_is(NAN, "null");

    seed = (unsigned) test_seed();
    mst_buf_init(&out);

    for (i = 0; i < 20000; i++) {
        bits = (uint64_t) rand_r(&seed) << 40
               ^ (uint64_t) rand_r(&seed) << 20 ^ (uint64_t) rand_r(&seed);
        memcpy(&x, &bits, sizeof(x));

        mst_buf_reset(&out);
        assert_int_equal(mst_json_number(&out, x), MST_OK);
        assert_in_range(out.len, 1, sizeof(text) - 1);
        memcpy(text, out.data, out.len);
        text[out.len] = '\0';
        assert_true(!isfinite(x) || strtod(text, NULL) == x);
    }

    mst_buf_fini(&out);
}


static void
test_unescape(void **state)
{
    char    to[64];
    size_t  i, n;

    static const char *const  escapes[][2] = {
        { "", "" },
        { "plain \xc3\xbc", "plain \xc3\xbc" },
        { "\\u0073ecret", "secret" },
        { "\\\\u0073", "\\u0073" },
        { "\\\"\\/\\b\\f\\n\\r\\t", "\"/\b\f\n\r\t" },
        { "\\u00fc\\u20AC", "\xc3\xbc\xe2\x82\xac" },
        { "\\ud83d\\ude00.", "\xf0\x9f\x98\x80." },
        { "\\ud83d\\u0041", "\xef\xbf\xbd" "A" },
        { "\\ud83d", "\xef\xbf\xbd" },
        { "\\ude00\\ud83d", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\\x \\u12 \\u12g4 \\", "\\x \\u12 \\u12g4 \\" },
        { "\\udbff\\udfff", "\xf4\x8f\xbf\xbf" }
    };

    (void) state;

    for (i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        n = mst_json_unescape(mst_str(escapes[i][0], strlen(escapes[i][0])),
                              to);
        assert_int_equal(n, strlen(escapes[i][1]));
        assert_memory_equal(to, escapes[i][1], n);
        assert_true(n <= strlen(escapes[i][0]));
    }

    n = mst_json_unescape(mst_str("\\\0\\u0000", 8), to);
    assert_int_equal(n, 3);
    assert_memory_equal(to, "\\\0\0", 3);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_string_code_points),
        cmocka_unit_test(test_string_forms),
        cmocka_unit_test(test_string_random),
        cmocka_unit_test(test_string_memory),
        cmocka_unit_test(test_number),
        cmocka_unit_test(test_float),
        cmocka_unit_test(test_unescape)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * The end of a JSON value: known answers, and every cut of values that
 * jansson made against jansson itself.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "text/mst_json_scan.h"

#include "seed.h"


/* bytes taken; *rc: the answer to the last push */

static size_t
scan(const char *p, size_t n, int *rc)
{
    size_t           i;
    mst_json_scan_t  s;

    mst_json_scan_init(&s);
    *rc = MST_OK;

    for (i = 0; i < n; i++) {
        *rc = mst_json_scan_push(&s, p[i]);

        if (*rc != MST_OK) {
            return *rc == MST_DONE ? i + 1 : i;
        }
    }

    return n;
}


static const struct {
    const char  *text;
    int          rc;
    size_t       taken;
} cases[] = {
    { "{}", MST_DONE, 2 },
    { " \n{ } x", MST_DONE, 5 },
    { "[]", MST_DONE, 2 },
    { "{\"a\":[1,2.5e-3,{\"b\":null}],\"c\":\"\\u00e9\\n\"}", MST_DONE, 42 },
    { "\"a\\\"b\"", MST_DONE, 6 },
    { "true", MST_DONE, 4 },
    { "12,", MST_DECLINED, 2 },
    { "-0.5]", MST_DECLINED, 4 },
    { "1e+7 ", MST_DECLINED, 4 },
    { "12", MST_OK, 2 },
    { "{\"a\": 1", MST_OK, 7 },
    { "{\"a\": 1}", MST_DONE, 8 },
    { "[0]", MST_DONE, 3 },
    { "{]", MST_ERROR, 1 },
    { "[}", MST_ERROR, 1 },
    { "[1,]", MST_ERROR, 3 },
    { "{\"a\":1,}", MST_ERROR, 7 },
    { "{a:1}", MST_ERROR, 1 },
    { "{\"a\" 1}", MST_ERROR, 5 },
    { "01", MST_ERROR, 1 },
    { "-x", MST_ERROR, 1 },
    { "1.x", MST_ERROR, 2 },
    { "1ex", MST_ERROR, 2 },
    { "trux", MST_ERROR, 3 },
    { "\"\\x\"", MST_ERROR, 2 },
    { "\"\\u12g4\"", MST_ERROR, 5 },
    { "\"\n\"", MST_ERROR, 1 },
    { "x", MST_ERROR, 0 },
    { "{\"a\":[1}", MST_ERROR, 7 }
};


static void
test_cases(void **state)
{
    int     rc;
    size_t  i, taken;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        taken = scan(cases[i].text, strlen(cases[i].text), &rc);

        if (taken != cases[i].taken || rc != cases[i].rc) {
            fail_msg("%s: %d after %zu, expected %d after %zu",
                     cases[i].text, rc, taken, cases[i].rc, cases[i].taken);
        }
    }
}


static void
test_depth(void **state)
{
    int   rc;
    char  text[2 * MST_JSON_SCAN_DEPTH + 2];

    (void) state;

    memset(text, '[', sizeof(text));
    memset(text + MST_JSON_SCAN_DEPTH, ']', MST_JSON_SCAN_DEPTH);

    assert_int_equal(scan(text, 2 * MST_JSON_SCAN_DEPTH, &rc),
                     2 * MST_JSON_SCAN_DEPTH);
    assert_int_equal(rc, MST_DONE);

    text[MST_JSON_SCAN_DEPTH] = '[';
    assert_int_equal(scan(text, sizeof(text), &rc), MST_JSON_SCAN_DEPTH);
    assert_int_equal(rc, MST_ERROR);
}


/* a byte changed somewhere: both think the same of it */

static void
test_random(void **state)
{
    int           rc;
    char          text[128];
    size_t        i, k, len, taken;
    json_t       *v;
    unsigned      seed;
    json_error_t  e;

    static const char  bytes[] = "{}[]\",:\\ 0123.eE+-tfnrualse\n";

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    for (i = 0; i < 100000; i++) {
        (void) strcpy(text, cases[(size_t) rand() % 5].text);
        len = strlen(text);

        for (k = (size_t) rand() % 3; k; k--) {
            text[(size_t) rand() % len] =
                bytes[(size_t) rand() % (sizeof(bytes) - 1)];
        }

        taken = scan(text, len, &rc);
        v = json_loadb(text, taken + (rc == MST_ERROR),
                       JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

        if ((rc == MST_DONE || rc == MST_DECLINED) != (v != NULL)
            && !(rc == MST_OK && v && !json_is_object(v)))
        {
            fail_msg("%s: %d after %zu, jansson: %s", text, rc, taken,
                     v ? "a value" : e.text);
        }

        json_decref(v);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests_name("mst_json_scan", tests, NULL, NULL);
}

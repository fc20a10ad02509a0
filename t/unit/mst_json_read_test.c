
/*
 * JSON in pieces: the same tree and the same verdict as jansson's parser, at
 * every size of the pieces, of random texts and of damaged ones; and pieces
 * whose work is bounded, by their count.
 */

#include <stdio.h>

#include "mst_json_pieces.h"

#define SEED    20261130u
#define ROUNDS  20000


static uint32_t  seed = SEED;


static uint32_t
rnd(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;

    return (uint32_t) ((uint64_t) (seed >> 8) * n >> 24);
}


static void
random_string(mst_buf_t *b)
{
    uint32_t  i, n;

    static const char *const  parts[] = {
        "a", "the quick brown fox jumps", " ", "\\n", "\\\"", "\\\\", "\\/",
        "\\b\\f\\r\\t", "\\u0041", "\\u00e9", "\\u20ac", "\\ud83d\\ude00",
        "\\uD83D\\uDE00", "\\u0000", "\xc3\xa9", "\xe2\x82\xac",
        "\xf0\x9f\x98\x80", "\x7f", "{[,:]}", "\\uFFFF"
    };

    (void) mst_buf_char(b, '"');

    for (i = 0, n = rnd(9); i < n; i++) {
        (void) mst_buf_text(b, parts[rnd(sizeof(parts) / sizeof(*parts))]);
    }

    (void) mst_buf_char(b, '"');
}


static void
blanks(mst_buf_t *b)
{
    while (rnd(4) == 0) {
        (void) mst_buf_char(b, " \t\r\n"[rnd(4)]);
    }
}


static void
random_value(mst_buf_t *b, int depth)
{
    int       object;
    uint32_t  i, n;

    static const char *const  plain[] = {
        "0", "-0", "1", "-17", "9223372036854775807", "-9223372036854775808",
        "1.5", "-0.0", "1e3", "1E+2", "2.5e-7", "1e-400", "true", "false",
        "null"
    };

    if (depth == 0 || rnd(3) == 0) {
        if (rnd(2)) {
            random_string(b);

        } else {
            (void) mst_buf_text(b, plain[rnd(sizeof(plain)
                                             / sizeof(*plain))]);
        }

        return;
    }

    object = depth == 4 || rnd(2);
    (void) mst_buf_char(b, object ? '{' : '[');

    for (i = 0, n = rnd(5); i < n; i++) {
        blanks(b);

        if (object) {
            (void) mst_buf_printf(b, "\"%s%u\"", rnd(9) ? "k" : "\\u00e9",
                                  rnd(4));
            blanks(b);
            (void) mst_buf_char(b, ':');
            blanks(b);
        }

        random_value(b, depth - 1);
        blanks(b);
        (void) mst_buf_text(b, i + 1 < n ? "," : "");
    }

    blanks(b);
    (void) mst_buf_char(b, object ? '}' : ']');
}


static void
damage(mst_buf_t *b)
{
    size_t  at;

    static const char  bytes[] = "{}[],:\"\\0-.eEu9tn \x80\xc3\xed\xff\x01";

    if (b->len < 2) {
        return;
    }

    at = rnd((uint32_t) b->len);

    switch (rnd(3)) {

    case 0:
        b->data[at] = bytes[rnd(sizeof(bytes) - 1)];
        break;

    case 1:
        memmove(b->data + at, b->data + at + 1, b->len - at - 1);
        b->len--;
        break;

    default:
        b->len = at;
    }
}


/* jansson looks into raw bytes of no string too late, if at all */

static void
compare(const mst_buf_t *b)
{
    char            *a, *c;
    json_t          *want, *got;
    size_t           i, turns;
    json_error_t     error;
    mst_api_error_t  e;

    static const size_t  budgets[] = { 1, 2, 7, 64, 1000, SIZE_MAX };

    want = json_loadb(b->data, b->len, JSON_ALLOW_NUL, &error);

    if (want && !json_is_object(want)) {
        json_decref(want);
        want = NULL;
    }

    for (i = 0; i < sizeof(budgets) / sizeof(*budgets); i++) {
        got = pieces(b->data, b->len, budgets[i], &turns, &e);

        if ((got == NULL) != (want == NULL)) {
            fail_msg("%.*s: %s, jansson: %s", (int) b->len, b->data,
                     got ? "taken" : e.message,
                     want ? "taken" : error.text);
        }

        if (got == NULL) {
            assert_int_equal(e.status, 400);
            assert_string_equal(e.code, "invalid_json");
            continue;
        }

        assert_true(json_equal(got, want));
        a = json_dumps(got, JSON_COMPACT);
        c = json_dumps(want, JSON_COMPACT);
        assert_string_equal(a, c);             /* in the same order */
        free(a);
        free(c);
        json_decref(got);
    }

    json_decref(want);
}


static void
test_random(void **state)
{
    uint32_t   i, k;
    mst_buf_t  b;

    (void) state;

    print_message("seed %u\n", SEED);
    mst_buf_init(&b);

    for (i = 0; i < ROUNDS; i++) {
        mst_buf_reset(&b);
        blanks(&b);
        random_value(&b, 4);
        blanks(&b);

        for (k = i % 3; k > 0; k--) {
            damage(&b);
        }

        compare(&b);
    }

    mst_buf_fini(&b);
}


static void
test_pieces(void **state)
{
    static const pieces_case_t  cases[] = {
        { "{\"a\":[0", ",0", "]}", 30 },
        { "{\"a\":[0", ",\"b\"", "]}", 15 },
        { "{", " ", "}", 1 },
        { "{\"a\":1}", "\n", " ", 1 },
    };

    (void) state;

    pieces_case(cases, sizeof(cases) / sizeof(*cases));
}


/* one that is left, or refused, in the middle of anything */

static void
test_left(void **state)
{
    size_t            i;
    mst_api_error_t   e;
    mst_json_read_t  *r;

    static const char  text[] =
        "{\"a\":[1,{\"b\":\"x\\u0000y\\ud83d\\ude00\"},[[]]],\"c\":-2.5e1}";

    (void) state;

    for (i = 1; i < 400; i++) {
        r = mst_json_read_create(text, sizeof(text) - 1);
        (void) mst_json_read_run(r, i, &e);
        mst_json_read_destroy(r);
    }

    mst_json_read_destroy(NULL);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_left)
    };

    return cmocka_run_group_tests_name("mst_json_read", tests, NULL, NULL);
}


/* Patterns that no text may match: what is found, and what it may cost. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PCRE2_CODE_UNIT_WIDTH  8
#include <pcre2.h>

#include "api/mst_deny.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"

#include "seed.h"


#define LONG  (1ull << 62)             /* a time that never comes */


static mst_deny_t *
create(const char *pattern)
{
    mst_err_t    err;
    mst_deny_t  *d;

    err.text[0] = '\0';

    d = mst_deny_create();
    assert_non_null(d);

    if (mst_deny_add(d, mst_str(pattern, strlen(pattern)), &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    return d;
}


static int
run(mst_deny_t *d, const char *data, size_t len, mst_deny_at_t *at)
{
    memset(at, 0, sizeof(mst_deny_at_t));

    return mst_deny_run(d, at, mst_str(data, len), LONG);
}


static void
test_table(void **state)
{
    int            rc;
    size_t         i;
    mst_deny_t    *d;
    mst_deny_at_t  at;

    static const struct {
        const char  *pattern;
        const char  *text;
        int          found;
    } cases[] = {
        { "bomb", "a bomb", 1 },
        { "bomb", "a BOMB", 0 },
        { "~bomb", "a BOMB", 0 },
        { "~bomb", "a bomb", 1 },
        { "~*bomb", "a BOMB", 1 },
        { "(?i)bomb", "a BOMB", 1 },
        { "\\bbomb\\b", "bombastic", 0 },
        { "\\bbomb\\b", "bomb", 1 },
        { "^bomb$", "a\nbomb\nb", 0 },
        { "(?m)^bomb$", "a\nbomb\nb", 1 },
        { "^bomb", "bomb", 1 },
        { "bomb$", "a bomb\n", 1 },
        { "bomb\\z", "a bomb\n", 0 },
        { "a.b", "a\nb", 0 },
        { "(?s)a.b", "a\nb", 1 },
        { "(?<=x)y", "xy", 1 },
        { "(?<=x)y", "zy", 0 },
        { "b", "", 0 },
        { "~*\xc3\xa9t\xc3\xa9", "L'\xc3\x89T\xc3\x89", 1 },
        { "\\w{4}", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 1 },
        { "^.$", "\xf0\x9f\x98\x80", 1 },
        { "(a)(b)(c)(d)", "abcd", 1 },
        { "a|b|c", "xxc", 1 }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        d = create(cases[i].pattern);
        rc = run(d, cases[i].text, strlen(cases[i].text), &at);

        if (rc != (cases[i].found ? MST_DECLINED : MST_OK)) {
            fail_msg("%s in %s: %d", cases[i].pattern, cases[i].text, rc);
        }

        mst_deny_destroy(d);
    }
}


static void
test_nul(void **state)
{
    mst_deny_t    *d;
    mst_deny_at_t  at;

    (void) state;

    d = create("a\\x00b");

    assert_int_equal(run(d, "xa\0b", 4, &at), MST_DECLINED);
    assert_int_equal(run(d, "xa", 2, &at), MST_OK);

    mst_deny_destroy(d);
}


static void
test_several(void **state)
{
    size_t         i;
    mst_err_t      err;
    mst_deny_t    *d;
    mst_deny_at_t  at;

    static const char  *patterns[] = { "one", "~*two", "three" };

    (void) state;

    d = mst_deny_create();

    for (i = 0; i < 3; i++) {
        assert_int_equal(mst_deny_add(d, mst_str(patterns[i],
                                                 strlen(patterns[i])), &err),
                         MST_OK);
    }

    assert_int_equal(run(d, "nothing", 7, &at), MST_OK);

    assert_int_equal(run(d, "and TWO, three", 14, &at), MST_DECLINED);
    assert_true(mst_str_eq(mst_deny_pattern(d, at.pattern), "~*two"));

    assert_int_equal(run(d, "three", 5, &at), MST_DECLINED);
    assert_true(mst_str_eq(mst_deny_pattern(d, at.pattern), "three"));

    mst_deny_destroy(d);
}


static void
test_refused(void **state)
{
    size_t       i;
    mst_err_t    err;
    mst_deny_t  *d;

    static const struct {
        const char  *pattern;
        const char  *part;
    } bad[] = {
        { "a(b", "the pattern \"a(b\" is wrong at byte 3: " },
        { "~*a(b", "is wrong at byte 5: " },
        { "\xff", "is wrong at byte 0: UTF-8 error" },
        { "a\\Cb", "is wrong at byte" },
        { "", "is found in the empty text" },
        { "~", "is found in the empty text" },
        { "a*", "is found in the empty text" },
        { "^", "is found in the empty text" }
    };

    (void) state;

    d = mst_deny_create();

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';

        assert_int_equal(mst_deny_add(d, mst_str(bad[i].pattern,
                                                 strlen(bad[i].pattern)),
                                      &err),
                         MST_ERROR);

        if (strstr(err.text, bad[i].part) == NULL) {
            fail_msg("%s: %s", bad[i].pattern, err.text);
        }
    }

    mst_deny_destroy(d);
}


/* one match in a long text, wherever it is, in one go and in slices */

static void
test_places(void **state)
{
    int            rc, again;
    char          *text;
    size_t         i, j, n, place;
    mst_deny_t    *d;
    mst_deny_at_t  at;

    static const size_t  places[] = {
        0, 2, 16382, 16384, 16386, 32766, 32768, 32770, 69996, 69998
    };

    (void) state;

    n = 70000;
    text = malloc(n);
    d = create("(?<![a-z])\xc3\xa9|x\\z");

    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        place = places[i];

        for (j = 0; j < n; j += 2) {
            memcpy(text + j, "\xc3\xbc", 2);
        }

        memcpy(text + place, "\xc3\xa9", 2);

        assert_int_equal(run(d, text, n, &at), MST_DECLINED);

        memset(&at, 0, sizeof(at));
        again = 0;

        do {
            rc = mst_deny_run(d, &at, mst_str(text, n), 0);
            again += rc == MST_AGAIN;
        } while (rc == MST_AGAIN);

        assert_int_equal(rc, MST_DECLINED);
        assert_int_equal(again, place / 16384);
    }

    memset(text, 'u', n);
    assert_int_equal(run(d, text, n, &at), MST_OK);

    text[n - 1] = 'x';
    assert_int_equal(run(d, text, n, &at), MST_DECLINED);

    mst_deny_destroy(d);
    free(text);
}


/* windows of one place and up find what one search over all finds */

static void
test_random(void **state)
{
    int                rc, found;
    char               text[400];
    size_t             i, j, k, n;
    unsigned           seed;
    mst_deny_t        *d;
    pcre2_code        *code;
    PCRE2_SIZE         offset;
    mst_deny_at_t      at;
    pcre2_match_data  *data;

    static const char *const  letters[] = { "a", "b", " ", "\n", "\xc3\xa9" };

    static const char *const  patterns[] = {
        "ab{2,}a", "(?:a|b)+\xc3\xa9{2}b", "(?m)^ab$", "(?m)^b+ ?a+\\b",
        "(?<=\xc3\xa9)aa(?! )", "\\b\xc3\xa9\\b", "(a.b).*\\1", "\\Ab\\sb",
        "a(?=b).(?=a)", "b[^a]{3}b"
    };

    (void) state;

    seed = (unsigned) test_seed();

    data = pcre2_match_data_create(1, NULL);

    for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        d = create(patterns[i]);
        code = pcre2_compile((PCRE2_SPTR) patterns[i], strlen(patterns[i]),
                             PCRE2_UTF | PCRE2_UCP, &rc, &offset, NULL);

        for (j = 0; j < 500; j++) {

            for (n = 0, k = (size_t) rand_r(&seed) % 100; k; k--) {
                const char  *letter = letters[(size_t) rand_r(&seed) % 5];

                memcpy(text + n, letter, strlen(letter));
                n += strlen(letter);
            }

            found = pcre2_match(code, (PCRE2_SPTR) text, n, 0, 0, data, NULL)
                    >= 0;

            memset(&at, 0, sizeof(at));
            at.window = 1 + j % 3;

            rc = mst_deny_run(d, &at, mst_str(text, n), LONG);

            if (rc != (found ? MST_DECLINED : MST_OK)) {
                fail_msg("%s in %.*s: %d", patterns[i], (int) n, text, rc);
            }
        }

        pcre2_code_free(code);
        mst_deny_destroy(d);
    }

    pcre2_match_data_free(data);
}


/* what would take for ever ends, and never as if nothing had been found */

static void
test_cost(void **state)
{
    int            rc;
    char          *text;
    size_t         i, n;
    mst_deny_t    *d;
    mst_deny_at_t  at;

    static const char *const  patterns[] = {
        "(a+)+b?c", "(*NO_JIT)(a+)+b?c", "(*NO_JIT)(?s)a.*b.*c.*d.*c.*d",
        "(*NO_JIT)(a|aa)+bc", "(*NO_JIT)(.*)(.*)(.*)(.*)cc"
    };

    (void) state;

    n = 30000;
    text = malloc(n);

    memset(text, 'a', n);
    memcpy(text + n - 10, "dbdbdcbdcd", 10);

    for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        d = create(patterns[i]);
        rc = run(d, text, n, &at);

        if (rc != MST_BUSY && rc != MST_DECLINED) {
            fail_msg("%s: %d", patterns[i], rc);
        }

        mst_deny_destroy(d);
    }

    free(text);
}


/* each place alone is cheap enough, all of them together are not */

static void
test_time(void **state)
{
    int            rc;
    char          *text;
    size_t         i, n;
    uint64_t       slices;
    mst_deny_t    *d;
    mst_deny_at_t  at;

    (void) state;

    n = 50000;
    text = malloc(n);

    for (i = 0; i < n; i++) {
        text[i] = i % 16 ? 'x' : ' ';
    }

    text[n - 1] = 'y';
    text[n - 2] = ' ';

    d = create("(*NO_JIT)(x+x+)+y");
    memset(&at, 0, sizeof(at));
    slices = 0;

    do {
        rc = mst_deny_run(d, &at, mst_str(text, n), mst_time_ns() + MST_MS);
        slices++;
    } while (rc == MST_AGAIN);

    assert_int_equal(rc, MST_BUSY);
    assert_true(slices > 1);
    assert_true(at.offset > 0 && at.offset < n);

    mst_deny_destroy(d);
    free(text);
}


static void
test_memory(void **state)
{
    int          rc;
    long         n;
    mst_err_t    err;
    mst_deny_t  *d;

    (void) state;

    for (n = 1; n < 100; n++) {
        err.text[0] = '\0';

        mst_mem_fail_after(n);
        d = mst_deny_create();
        rc = d ? mst_deny_add(d, mst_str("a+b", 3), &err) : MST_ERROR;
        mst_mem_fail_after(0);

        if (d && rc != MST_OK) {
            assert_true(err.text[0] != '\0');
        }

        mst_deny_destroy(d);

        if (rc == MST_OK) {
            break;
        }
    }

    assert_in_range(n, 5, 99);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

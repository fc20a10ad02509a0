
/*
 * Stop strings: known answers, every way to cut the text, and random
 * strings against a slow and obvious reference after every single push.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_stop.h"

#include "seed.h"

#define MAX_STOPS  16


/*
 * Of the text so far: the bytes that must have been sent.  *done: a stop
 * string is complete.
 */

static size_t
reference(const mst_str_t *stops, size_t n, const char *text, size_t len,
    int *done)
{
    size_t  end, i, k, start, hold;

    *done = 0;

    for (end = 1; end <= len; end++) {
        start = end;

        for (i = 0; i < n; i++) {
            k = stops[i].len;

            if (k <= end && memcmp(text + end - k, stops[i].data, k) == 0
                && end - k < start)
            {
                start = end - k;
                *done = 1;
            }
        }

        if (*done) {
            return start;
        }
    }

    hold = 0;

    for (i = 0; i < n; i++) {

        for (k = stops[i].len - 1; k > hold; k--) {

            if (k <= len && memcmp(text + len - k, stops[i].data, k) == 0) {
                hold = k;
            }
        }
    }

    return len - hold;
}


static void
check_pushes(const mst_str_t *stops, size_t n, const char *text, size_t len,
    size_t step)
{
    int          rc, done;
    size_t       pos, part, want;
    mst_buf_t    out;
    mst_stop_t  *s;

    s = mst_stop_create(stops, n);
    assert_non_null(s);
    mst_buf_init(&out);

    done = 0;

    for (pos = 0; pos < len && !done; pos += part) {
        part = step ? step : 1 + (size_t) rand() % 7;
        part = part < len - pos ? part : len - pos;

        rc = mst_stop_push(s, text + pos, part, &out);
        want = reference(stops, n, text, pos + part, &done);

        assert_int_equal(rc, done ? MST_DONE : MST_OK);
        assert_int_equal(out.len, want);

        if (want) {
            assert_memory_equal(out.data, text, want);
        }
    }

    want = done ? out.len : len;

    if (done) {
        assert_int_equal(mst_stop_push(s, "x", 1, &out), MST_DONE);
    }

    assert_int_equal(mst_stop_finish(s, &out), MST_OK);
    assert_int_equal(mst_stop_finish(s, &out), MST_OK);
    assert_int_equal(out.len, want);

    if (want) {
        assert_memory_equal(out.data, text, want);
    }

    mst_buf_fini(&out);
    mst_stop_destroy(s);
}


static void
test_samples(void **state)
{
    size_t     i, n, step;
    mst_str_t  stops[4];

    static const struct {
        const char  *stops[4];
        const char  *text;
    } t[] = {
        { { NULL }, "anything" },
        { { "\n" }, "one\ntwo" },
        { { "\n\n" }, "one\ntwo\n\nthree" },
        { { "END" }, "ENEND" },
        { { "abab" }, "xababab" },
        { { "aaa" }, "aabaaa" },
        { { "abcX", "c" }, "abcX" },
        { { "c", "abcX" }, "abcX" },
        { { "abc", "bc", "c" }, "xabc" },
        { { "c", "bc", "abc" }, "xabc" },
        { { "abcd", "bcx" }, "abcx" },
        { { "aab", "ab" }, "aaab" },
        { { "</s>", "<|im_end|>" }, "a <b> <| </ <|im_en <|im_end|>" },
        { { "\xe2\x82\xac" }, "5 \xe2\x82\xac and \xe2\x82" },
        { { "x", "x" }, "abx" }
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {

        for (n = 0; n < 4 && t[i].stops[n]; n++) {
            stops[n] = mst_str(t[i].stops[n], strlen(t[i].stops[n]));
        }

        for (step = 1; step <= strlen(t[i].text); step++) {
            check_pushes(stops, n, t[i].text, strlen(t[i].text), step);
        }
    }
}


static void
test_every_chunking(void **state)
{
    int               rc, done;
    size_t            i, want, from;
    uint32_t          cuts;
    mst_buf_t         out;
    mst_stop_t       *s;
    static const char        text[] = "ababacabacab";
    static const mst_str_t   stops[] = {
        mst_string("abacabac"), mst_string("bacaba"), mst_string("caca")
    };

    (void) state;

    want = reference(stops, 3, text, 12, &done);
    assert_int_equal(done, 1);

    for (cuts = 0; cuts < 1u << 11; cuts++) {
        s = mst_stop_create(stops, 3);
        assert_non_null(s);
        mst_buf_init(&out);

        rc = MST_OK;

        for (i = 0, from = 0; i < 12 && rc == MST_OK; i++) {

            if (i == 11 || cuts >> i & 1) {
                rc = mst_stop_push(s, text + from, i + 1 - from, &out);
                from = i + 1;
            }
        }

        assert_int_equal(rc, MST_DONE);
        assert_int_equal(out.len, want);
        assert_memory_equal(out.data, text, want);

        mst_buf_fini(&out);
        mst_stop_destroy(s);
    }
}


static void
test_random(void **state)
{
    int        letters;
    char       text[200], words[MAX_STOPS][12];
    size_t     i, k, n, len;
    unsigned   seed, round;
    mst_str_t  stops[MAX_STOPS];

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    for (round = 0; round < 5000; round++) {
        letters = 1 + rand() % 3;
        n = (size_t) rand() % (MAX_STOPS + 1);

        for (i = 0; i < n; i++) {
            len = 1 + (size_t) rand() % sizeof(words[0]);

            for (k = 0; k < len; k++) {
                words[i][k] = (char) (rand() % letters);
            }

            stops[i] = mst_str(words[i], len);
        }

        len = (size_t) rand() % sizeof(text);

        for (k = 0; k < len; k++) {
            text[k] = (char) (rand() % (letters + (rand() % 8 == 0)));
        }

        check_pushes(stops, n, text, len, round % 3);
    }
}


/* 16 strings of 256 bytes that nearly match everywhere: linear all the same */

static void
test_worst_case(void **state)
{
    char         word[256], text[4096];
    size_t       i, k;
    clock_t      start;
    mst_buf_t    out;
    mst_str_t    stops[MAX_STOPS];
    mst_stop_t  *s;

    (void) state;

    memset(word, 'a', sizeof(word));
    memset(text, 'a', sizeof(text));
    word[255] = 'b';

    for (i = 0; i < MAX_STOPS; i++) {
        stops[i] = mst_str(word, sizeof(word));
    }

    s = mst_stop_create(stops, MAX_STOPS);
    assert_non_null(s);
    mst_buf_init(&out);
    start = clock();

    for (k = 0; k < 256; k++) {
        assert_int_equal(mst_stop_push(s, text, sizeof(text), &out), MST_OK);
    }

    /* 16 M steps; quadratic would be 4 G */

    assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
    assert_int_equal(out.len, 256 * sizeof(text) - 255);

    assert_int_equal(mst_stop_push(s, "b", 1, &out), MST_DONE);
    assert_int_equal(out.len, 256 * sizeof(text) - 255);

    mst_buf_fini(&out);
    mst_stop_destroy(s);
}


static void
test_no_memory(void **state)
{
    int                     rc;
    long                    n;
    mst_buf_t               out;
    mst_stop_t             *s;
    static const mst_str_t  stops[] = { mst_string("ab"), mst_string("c") };

    (void) state;

    for (n = 1; ; n++) {
        mst_buf_init(&out);
        mst_mem_fail_after(n);

        s = mst_stop_create(stops, 2);
        rc = s ? mst_stop_push(s, "xa", 2, &out) : MST_ERROR;

        mst_mem_fail_after(0);
        mst_stop_destroy(s);
        mst_buf_fini(&out);

        if (rc == MST_OK) {
            break;
        }

        assert_int_equal(rc, MST_ERROR);
    }

    assert_int_equal(n, 6);

    /* what is held needs memory too */

    s = mst_stop_create(stops, 2);
    assert_non_null(s);
    assert_int_equal(mst_stop_push(s, "a", 1, &out), MST_OK);
    mst_mem_fail_after(1);
    assert_int_equal(mst_stop_finish(s, &out), MST_ERROR);
    mst_mem_fail_after(0);
    mst_stop_destroy(s);
    mst_buf_fini(&out);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_every_chunking),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_worst_case),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * UTF-8: known answers at every split point, all code points, and random
 * bytes in random pieces.
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
#include "text/mst_utf8.h"

#include "seed.h"

#define R  "\xef\xbf\xbd"


typedef struct {
    const char  *in;
    size_t       len;
    const char  *out;
    size_t       valid;        /* what mst_utf8_check says */
} sample_t;

#define SAMPLE(in, out, valid)  { in, sizeof(in) - 1, out, valid }


/* the answers of Python's bytes.decode(errors="replace") */

static const sample_t  samples[] = {
    SAMPLE("", "", 0),
    SAMPLE("a", "a", 1),
    SAMPLE("\x7f", "\x7f", 1),
    SAMPLE("\xc2\x80", "\xc2\x80", 2),
    SAMPLE("\xdf\xbf", "\xdf\xbf", 2),
    SAMPLE("\xe0\xa0\x80", "\xe0\xa0\x80", 3),
    SAMPLE("\xed\x9f\xbf", "\xed\x9f\xbf", 3),
    SAMPLE("\xee\x80\x80", "\xee\x80\x80", 3),
    SAMPLE("\xef\xbf\xbd", R, 3),
    SAMPLE("\xf0\x90\x80\x80", "\xf0\x90\x80\x80", 4),
    SAMPLE("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf", 4),
    SAMPLE("h\xc3\xa9llo \xf0\x9f\x91\x8d!",
           "h\xc3\xa9llo \xf0\x9f\x91\x8d!", 12),

    /* bytes that begin nothing */

    SAMPLE("\x80", R, 0),
    SAMPLE("a\xbf" "b", "a" R "b", 1),
    SAMPLE("\xc0\x80", R R, 0),
    SAMPLE("\xc1\xbf", R R, 0),
    SAMPLE("\xf5\x80\x80\x80", R R R R, 0),
    SAMPLE("\xfe\xff", R R, 0),

    /* overlong forms, surrogates, beyond the last code point */

    SAMPLE("\xe0\x80\x80", R R R, 0),
    SAMPLE("\xe0\x9f\xbf", R R R, 0),
    SAMPLE("\xed\xa0\x80", R R R, 0),
    SAMPLE("\xed\xbf\xbf", R R R, 0),
    SAMPLE("\xf0\x80\x80\x80", R R R R, 0),
    SAMPLE("\xf0\x8f\xbf\xbf", R R R R, 0),
    SAMPLE("\xf4\x90\x80\x80", R R R R, 0),

    /* unfinished: one replacement for the valid beginning */

    SAMPLE("\xc3", R, 0),
    SAMPLE("\xe6\x97", R, 0),
    SAMPLE("\xf0\x9f\x91", R, 0),
    SAMPLE("\xc3" "a", R "a", 0),
    SAMPLE("\xe6\x97" "a", R "a", 0),
    SAMPLE("a\xe6" "b", "a" R "b", 1),
    SAMPLE("ab\xf0\x9f\x91" "b", "ab" R "b", 2),
    SAMPLE("\xe6\x97\xe6\x97\xa5", R "\xe6\x97\xa5", 0),
    SAMPLE("\xf0\x9f\xf0\x9f\x91\x8d", R "\xf0\x9f\x91\x8d", 0),
    SAMPLE("\xe6\x97\xa5\xff", "\xe6\x97\xa5" R, 3),
    SAMPLE("\xc3\xc3\xa9", R "\xc3\xa9", 0),
    SAMPLE("\xf1\x80\x80\xe1\x80\xc2", R R R, 0),
    SAMPLE("12345678\xe1", "12345678" R, 8),
    SAMPLE("1234567\xe1\x80\x80" "8", "1234567\xe1\x80\x80" "8", 11)
};

#define N_SAMPLES  (sizeof(samples) / sizeof(samples[0]))


/* the sample in up to three pieces: a and b are where it is cut */

static void
push_pieces(const sample_t *s, size_t a, size_t b)
{
    mst_buf_t   out;
    mst_utf8_t  u;

    mst_utf8_init(&u);
    mst_buf_init(&out);

    assert_int_equal(mst_utf8_push(&u, s->in, a, &out), MST_OK);
    assert_int_equal(mst_utf8_check(out.data, out.len), out.len);
    assert_int_equal(mst_utf8_push(&u, s->in + a, b - a, &out), MST_OK);
    assert_int_equal(mst_utf8_check(out.data, out.len), out.len);
    assert_int_equal(mst_utf8_push(&u, s->in + b, s->len - b, &out), MST_OK);
    assert_int_equal(mst_utf8_finish(&u, &out), MST_OK);
    assert_int_equal(mst_utf8_finish(&u, &out), MST_OK);

    assert_int_equal(out.len, strlen(s->out));

    if (out.len) {
        assert_memory_equal(out.data, s->out, out.len);
    }

    mst_buf_fini(&out);
}


static void
test_split_points(void **state)
{
    size_t  i, a, b;

    (void) state;

    for (i = 0; i < N_SAMPLES; i++) {

        for (a = 0; a <= samples[i].len; a++) {

            for (b = a; b <= samples[i].len; b++) {
                push_pieces(&samples[i], a, b);
            }
        }
    }
}


static void
test_check(void **state)
{
    char    text[40];
    size_t  i, pad;

    (void) state;

    for (i = 0; i < N_SAMPLES; i++) {
        assert_int_equal(mst_utf8_check(samples[i].in, samples[i].len),
                         samples[i].valid);

        for (pad = 0; pad < 20; pad++) {
            memset(text, 'x', pad);
            memcpy(text + pad, samples[i].in, samples[i].len);

            assert_int_equal(mst_utf8_check(text, pad + samples[i].len),
                             pad + samples[i].valid);
        }
    }

    assert_int_equal(mst_utf8_check(NULL, 0), 0);
}


static size_t
encode(uint32_t cp, unsigned char *p)
{
    if (cp < 0x80) {
        p[0] = (unsigned char) cp;
        return 1;
    }

    if (cp < 0x800) {
        p[0] = (unsigned char) (0xc0 | cp >> 6);
        p[1] = (unsigned char) (0x80 | (cp & 63));
        return 2;
    }

    if (cp < 0x10000) {
        p[0] = (unsigned char) (0xe0 | cp >> 12);
        p[1] = (unsigned char) (0x80 | (cp >> 6 & 63));
        p[2] = (unsigned char) (0x80 | (cp & 63));
        return 3;
    }

    p[0] = (unsigned char) (0xf0 | cp >> 18);
    p[1] = (unsigned char) (0x80 | (cp >> 12 & 63));
    p[2] = (unsigned char) (0x80 | (cp >> 6 & 63));
    p[3] = (unsigned char) (0x80 | (cp & 63));
    return 4;
}


static void
test_all_code_points(void **state)
{
    size_t         n;
    uint32_t       cp, got;
    unsigned char  p[4];

    (void) state;

    for (cp = 0; cp < 0x1fffff; cp++) {
        n = encode(cp, p);

        if ((cp >= 0xd800 && cp < 0xe000) || cp > 0x10ffff) {
            assert_int_equal(mst_utf8_check(p, n), 0);
            assert_int_equal(mst_utf8_decode(p, n, &got), 1);
            assert_int_equal(got, 0xfffd);
            continue;
        }

        assert_int_equal(mst_utf8_check(p, n), n);
        assert_int_equal(mst_utf8_decode(p, n, &got), n);
        assert_int_equal(got, cp);

        if (n > 1) {
            assert_int_equal(mst_utf8_check(p, n - 1), 0);
            assert_int_equal(mst_utf8_decode(p, n - 1, &got), 1);
            assert_int_equal(got, 0xfffd);
        }
    }
}


/* no sequence of two and three bytes passes that is not a code point */

static void
test_no_others(void **state)
{
    uint32_t       i, n2, n3;
    unsigned char  p[3];

    (void) state;

    n2 = 0;
    n3 = 0;

    for (i = 0x800000; i <= 0xffffff; i++) {
        p[0] = (unsigned char) (i >> 16);
        p[1] = (unsigned char) (i >> 8);
        p[2] = (unsigned char) i;

        n2 += (i & 0xff) == 0 && mst_utf8_check(p, 2) == 2;
        n3 += mst_utf8_check(p, 3) == 3 && p[1] >= 0x80 && p[2] >= 0x80
              && p[0] >= 0xe0;
    }

    assert_int_equal(n2, 0x800 - 0x80);
    assert_int_equal(n3, 0x10000 - 0x800 - 0x800);
}


static void
test_random_pieces(void **state)
{
    size_t               i, k, n, len;
    unsigned             seed;
    mst_buf_t            whole, parts;
    mst_utf8_t           u, v;
    unsigned char        text[64];
    static const unsigned char  hot[] = "\xe0\xa0\xed\x9f\xf0\x90\xf4\x8f"
                                        "\x80\xbf\xc2\xc1\xf5\xff" "aZ";

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    mst_buf_init(&whole);
    mst_buf_init(&parts);

    for (i = 0; i < 20000; i++) {
        len = (size_t) rand() % sizeof(text);

        for (k = 0; k < len; k++) {
            text[k] = rand() % 4 ? hot[(size_t) rand() % (sizeof(hot) - 1)]
                      : (unsigned char) rand();
        }

        mst_buf_reset(&whole);
        mst_buf_reset(&parts);
        mst_utf8_init(&u);
        mst_utf8_init(&v);

        assert_int_equal(mst_utf8_push(&u, text, len, &whole), MST_OK);
        assert_int_equal(mst_utf8_finish(&u, &whole), MST_OK);

        for (k = 0; k < len; k += n) {
            n = 1 + (size_t) rand() % (len - k);
            assert_int_equal(mst_utf8_push(&v, text + k, n, &parts), MST_OK);
        }

        assert_int_equal(mst_utf8_finish(&v, &parts), MST_OK);

        assert_int_equal(whole.len, parts.len);
        assert_int_equal(mst_utf8_check(whole.data, whole.len), whole.len);

        if (whole.len) {
            assert_memory_equal(whole.data, parts.data, whole.len);
        }
    }

    mst_buf_fini(&whole);
    mst_buf_fini(&parts);
}


static void
test_no_memory(void **state)
{
    size_t      i;
    mst_buf_t   out;
    mst_utf8_t  u;

    (void) state;

    static const char *const  texts[] = {
        "a", "\xc3\xa9", "\xff", "\xc3" "a"
    };

    for (i = 0; i < 4; i++) {
        mst_utf8_init(&u);
        mst_buf_init(&out);

        mst_mem_fail_after(1);
        assert_int_equal(mst_utf8_push(&u, texts[i], strlen(texts[i]), &out),
                         MST_ERROR);
        mst_mem_fail_after(0);
        mst_buf_fini(&out);
    }

    mst_utf8_init(&u);
    assert_int_equal(mst_utf8_push(&u, "\xc3", 1, &out), MST_OK);
    mst_mem_fail_after(1);
    assert_int_equal(mst_utf8_finish(&u, &out), MST_ERROR);
    mst_mem_fail_after(0);
    mst_buf_fini(&out);
}


/* every lead byte with every two behind it that matter */

static void
test_short(void **state)
{
    size_t         i, j, k, len, n;
    uint32_t       cp, want;
    unsigned char  p[3];

    static const unsigned char  behind[] = {
        0, 'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xe0, 0xff
    };

    (void) state;

    for (i = 0; i < 256 * sizeof(behind) * sizeof(behind); i++) {
        j = i / 256 % sizeof(behind);
        k = i / 256 / sizeof(behind);

        p[0] = (unsigned char) i;
        p[1] = behind[j];
        p[2] = behind[k];

        for (len = 1; len <= 3; len++) {
            n = mst_utf8_decode(p, len, &want);
            cp = want;

            assert_int_equal(mst_utf8_short(p, len, &cp), n > 1 ? n : 0);
            assert_true(n == 1 || cp == want);
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_split_points),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_all_code_points),
        cmocka_unit_test(test_no_others),
        cmocka_unit_test(test_random_pieces),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_short)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

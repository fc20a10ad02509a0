
/*
 * The pre-tokenizer: known cuts, and random text against a matcher that
 * tries the expression's alternatives one after another; every budget gives
 * the same pieces.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_split.h"
#include "text/mst_unicode.h"
#include "text/mst_utf8.h"

#include "seed.h"

#define MAX_TEXT  256


/* the end of each piece */

static size_t
split(const char *text, size_t len, size_t budget, size_t *ends)
{
    int          rc;
    size_t       n, at, left, calls;
    mst_str_t    piece;
    mst_split_t  s;

    n = 0;
    at = 0;
    calls = 0;
    mst_split_init(&s, MST_SPLIT_SMOLLM, NULL, text, len);

    for ( ;; ) {
        left = budget;
        rc = mst_split_next(&s, &left, &piece);
        assert_true(left <= budget);
        assert_true(calls++ <= 2 * len + 2);

        if (rc == MST_AGAIN) {
            assert_int_equal(left, 0);
            continue;
        }

        if (rc == MST_DONE) {
            assert_int_equal(at, len);
            return n;
        }

        assert_int_equal(rc, MST_OK);
        assert_ptr_equal(piece.data, text + at);
        assert_true(piece.len > 0);

        at += piece.len;
        ends[n++] = at;
    }
}


typedef struct {
    uint32_t  class[MAX_TEXT];     /* of code point i */
    size_t    off[MAX_TEXT + 1];   /* where it begins */
    size_t    n;
} points_t;


static size_t
run(const points_t *p, size_t i, size_t end, uint32_t class)
{
    while (i < end && p->class[i] == class) {
        i++;
    }

    return i;
}


/* the match of the expression at i within a segment that ends at "end" */

static size_t
match(const points_t *p, const char *text, size_t i, size_t end)
{
    size_t       k, j, n;
    static const char *const  words[] = {
        "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"
    };
    static const uint32_t  classes[] = {
        MST_UNICODE_LETTER, MST_UNICODE_NUMBER, MST_UNICODE_OTHER
    };

    for (k = 0; k < 7; k++) {
        n = strlen(words[k]);

        if (i + n <= end && memcmp(text + p->off[i], words[k], n) == 0) {
            return i + n;
        }
    }

    for (k = 0; k < 3; k++) {

        if (text[p->off[i]] == ' ') {
            j = run(p, i + 1, end, classes[k]);

            if (j > i + 1) {
                return j;
            }
        }

        j = run(p, i, end, classes[k]);

        if (j > i) {
            return j;
        }
    }

    j = run(p, i, end, MST_UNICODE_SPACE);
    assert_true(j > i);

    /* \s+(?!\S): give back until what follows is a space or the end */

    for (k = j; k > i; k--) {

        if (k == end || p->class[k] == MST_UNICODE_SPACE) {
            return k;
        }
    }

    return j;
}


static size_t
reference(const char *text, size_t len, size_t *ends)
{
    size_t    i, at, end, n;
    uint32_t  cp;
    points_t  p;

    p.n = 0;

    for (at = 0; at < len; p.n++) {
        p.off[p.n] = at;
        at += mst_utf8_decode(text + at, len - at, &cp);
        p.class[p.n] = mst_unicode_class(cp);
    }

    p.off[p.n] = len;
    n = 0;

    for (i = 0; i < p.n; /* void */ ) {

        if (p.class[i] == MST_UNICODE_NUMBER) {
            ends[n++] = p.off[++i];
            continue;
        }

        for (end = i; end < p.n && p.class[end] != MST_UNICODE_NUMBER; end++)
        {
            /* void */
        }

        while (i < end) {
            i = match(&p, text, i, end);
            ends[n++] = p.off[i];
        }
    }

    return n;
}


static void
test_samples(void **state)
{
    char    got[MAX_TEXT];
    size_t  i, k, n, at, len, budget, ends[MAX_TEXT];

    /* '|' stands between the pieces and nowhere else */

    static const char *const  t[] = {
        "",
        "Hello| world",
        "a|  |1",
        " | a",
        "   |\n|x",
        "don|'t",
        "I|'ll",
        "we|'ve",
        "DON|'|T",
        "'re|x",
        "'|rx",
        " '|s",
        "!'|s",
        "''|s",
        "x|1|2|3|,|4",
        "x| |1",
        "(|a|,| b|);",
        "\n|\n|x",
        "\n\n\n",
        "x|\n",
        "x| | y",
        "x|\t| y",
        "x| |\t|y",
        "\xc3\xa9t\xc3\xa9| \xc3\xa0",
        "e|\xcc\x81",
        " \xcc\x81|a",
        "\xe6\x97\xa5\xe6\x9c\xac| \xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd",
        "x|\xc2\xa0|y",
        "x|\xe3\x80\x80| y",
        "\xd9\xa3|\xd9\xa3|\xc2\xbd",
        "a|  |\xd9\xa3",
        "a|\xff\xfe|b",
        "a|\xe6\x97"
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {

        for (len = 0, k = 0; t[i][k]; k++) {

            if (t[i][k] != '|') {
                got[len++] = t[i][k];
            }
        }

        for (budget = 1; budget < 20; budget++) {
            n = split(got, len, budget, ends);

            for (at = 0, k = 0; at < n; at++) {
                k += ends[at] - (at ? ends[at - 1] : 0);
                assert_true(t[i][k] == (at + 1 < n ? '|' : '\0'));
                k++;
            }

            assert_true(n || t[i][0] == '\0');
        }
    }
}


static void
test_random(void **state)
{
    char      text[MAX_TEXT];
    size_t    i, k, n, m, len, want[MAX_TEXT], ends[MAX_TEXT];
    unsigned  seed, round;

    static const char *const  atoms[] = {
        " ", " ", " ", "'", "'", "s", "t", "re", "ll", "v", "e", "A", "\n",
        "\t", "1", "9", "!", ".", "_", "\xc3\xa9", "\xe6\x97\xa5",
        "\xcc\x81", "\xc2\xa0", "\xe3\x80\x80", "\xc2\xbd", "\xd9\xa3",
        "\xf0\x9f\x91\x8d", "\xff", "\xe6", "\x80", "\xf0\x9f"
    };

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    for (round = 0; round < 30000; round++) {
        len = 0;

        for (i = (size_t) rand() % 40; i; i--) {
            k = (size_t) rand() % (sizeof(atoms) / sizeof(atoms[0]));
            memcpy(text + len, atoms[k], strlen(atoms[k]));
            len += strlen(atoms[k]);
        }

        n = reference(text, len, want);
        m = split(text, len, 1 + (size_t) rand() % (round % 2 ? 40 : 400),
                  ends);

        assert_int_equal(n, m);
        assert_memory_equal(want, ends, n * sizeof(size_t));
    }
}


/* a piece as long as the text is looked at once, whatever the budget */

static void
test_long_piece(void **state)
{
    int          rc;
    char        *text;
    size_t       i, left, spent;
    mst_str_t    piece;
    mst_split_t  s;

    static const char  letters[] = { 'a', ' ', '=', '\n' };

    (void) state;

    text = malloc(1 << 20);
    assert_non_null(text);

    for (i = 0; i < sizeof(letters); i++) {
        memset(text, letters[i], 1 << 20);
        mst_split_init(&s, MST_SPLIT_SMOLLM, NULL, text, 1 << 20);
        spent = 0;

        do {
            left = 1000;
            rc = mst_split_next(&s, &left, &piece);
            spent += 1000 - left;
        } while (rc == MST_AGAIN);

        assert_int_equal(rc, MST_OK);
        assert_int_equal(piece.len, 1 << 20);
        assert_true(spent <= (1 << 20) && spent >= (1 << 20) - 2);

        assert_int_equal(mst_split_next(&s, &left, &piece), MST_DONE);
    }

    free(text);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_long_piece)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

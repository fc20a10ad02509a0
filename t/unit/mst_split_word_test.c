
/*
 * Pieces as the published expressions cut them, in every budget.  "|" stands
 * between pieces; the cases were checked against the regex engine of
 * tiktoken.  Random texts are cut the same whatever the budget: byte by byte,
 * or with all of it at hand, which is another way for most pieces.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_split.h"

#include "seed.h"

#define MAX_TEXT  512


static void
test_cases(void **state)
{
    int          rc;
    char         got[512], text[512];
    size_t       budget, i, left, n;
    mst_str_t    piece;
    const char  *p;
    mst_split_t  s;

    static const struct {
        mst_split_kind_t   kind;
        const char        *pieces;
    } cases[] = {
        { MST_SPLIT_TEKKEN, "Hello| world" },
        { MST_SPLIT_TEKKEN, "Hello|World|ABCdef|XYZ" },
        { MST_SPLIT_TEKKEN, "don|'t| I|'M" },
        { MST_SPLIT_TEKKEN, "1|2|3|a" },
        { MST_SPLIT_TEKKEN, "  | x|  " },
        { MST_SPLIT_TEKKEN, " \n\n| | y" },
        { MST_SPLIT_TEKKEN, "a|.\n/\n|b" },
        { MST_SPLIT_TEKKEN, "e\xcc\x81t| \xcc\x81" },
        { MST_SPLIT_TEKKEN, "\xcc\x81|ABC" },
        { MST_SPLIT_TEKKEN, "\xc3\x89" "COLE" },
        { MST_SPLIT_TEKKEN, "\xe6\x97\xa5\xe6\x9c\xac|!!| \xd0\x91\xd0\xb1" },
        { MST_SPLIT_LLAMA3, "Hello| world|'S| I|'ll" },
        { MST_SPLIT_LLAMA3, "123|456|7| |12" },
        { MST_SPLIT_LLAMA3, "a|.\n|/\n|b" },
        { MST_SPLIT_LLAMA3, "HelloWorld| \n| |\tx" },
        { MST_SPLIT_LLAMA3, "'\xc5\xbf" },
        { MST_SPLIT_QWEN2, "1|2| x|\n\n|y" },
        { MST_SPLIT_GPT2, "Hello| world|'s| 123|!?|  | x" }
    };

    static unsigned char  bits[65536];

    (void) state;

    mst_unicode_fill(bits);

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        for (n = 0, p = cases[i].pieces; *p; p++) {
            if (*p != '|') {
                text[n++] = *p;
            }
        }

        for (budget = 1; budget < 9; budget++) {
            mst_split_init(&s, cases[i].kind,
                           budget % 2 ? bits : NULL, text, n);
            got[0] = '\0';

            do {
                left = budget;
                rc = mst_split_next(&s, &left, &piece);

                if (rc == MST_OK) {
                    (void) strcat(got, got[0] ? "|" : "");
                    (void) strncat(got, piece.data, piece.len);
                }
            } while (rc != MST_DONE);

            if (strcmp(got, cases[i].pieces) != 0) {
                print_message("case %zu, budget %zu\n", i, budget);
                assert_string_equal(got, cases[i].pieces);
            }
        }
    }
}


/* the end of each piece; returns their number */

static size_t
split(mst_split_kind_t kind, const unsigned char *bits, const char *text,
    size_t len, size_t budget, size_t *ends)
{
    int          rc;
    size_t       left, n;
    mst_str_t    piece;
    mst_split_t  s;

    mst_split_init(&s, kind, bits, text, len);

    for (n = 0; ; /* void */ ) {
        left = budget;
        rc = mst_split_next(&s, &left, &piece);
        assert_true(left <= budget);

        if (rc == MST_DONE) {
            return n;
        }

        if (rc == MST_OK) {
            ends[n++] = (size_t) (piece.data - text) + piece.len;

        } else {
            assert_int_equal(rc, MST_AGAIN);
            assert_int_equal(left, 0);
        }
    }
}


static size_t
random_text(char *text)
{
    size_t       i, k, len, n;
    const char  *atom;

    static const char *const  atoms[] = {
        " ", " ", " ", "'", "s", "ll", "D", "word", "Word", "WORD",
        "aaaaaaaa", "abcdefghi", "@", "[", "`", "{", "Z", "\n", "\t", "\r", "/",
        "1", "12345", "!", "_", "\xc3\xa9", "\xc3\x89", "\xc7\x85", "\xca\xb0",
        "\xd0\xb1",
        "\xe6\x97\xa5", "\xe6\x97\xa5\xe6\x9c\xac", "\xcc\x81",
        "\xe0\xa4\xbf", "\xc2\xa0", "\xc5\xbf", "\xe3\x80\x80", "\xc2\xbd",
        "\xd9\xa3", "\xf0\x9f\x91\x8d", "\xf0\x9d\x92\x9c", "\xff", "\xe6",
        "\x80", "\xed\xa0\x80", "\xc0\x80", "\xe0\x80\x80", "\xf0\x9f"
    };

    n = (size_t) rand() % 60;

    for (len = 0, i = 0; i < n; i++) {
        k = (size_t) rand() % (sizeof(atoms) / sizeof(atoms[0]));
        atom = atoms[k];

        /* now and then a piece that is longer than most */

        for (k = rand() % 40 ? 1 : 20; k && len + 16 < MAX_TEXT; k--) {
            memcpy(text + len, atom, strlen(atom));
            len += strlen(atom);
        }
    }

    return len;
}


static void
test_random(void **state)
{
    char                  text[MAX_TEXT];
    size_t                len, m, n, ends[MAX_TEXT], want[MAX_TEXT];
    unsigned              kind, round;
    static unsigned char  bits[65536];

    (void) state;

    mst_unicode_fill(bits);
    srand((unsigned) test_seed());

    for (round = 0; round < 20000; round++) {
        len = random_text(text);
        kind = round % (MST_SPLIT_TEKKEN + 1);

        n = split(kind, bits, text, len, 1, want);
        m = split(kind, bits, text, len, 1000, ends);

        assert_int_equal(n, m);
        assert_memory_equal(want, ends, n * sizeof(size_t));

        m = split(kind, NULL, text, len, 1 + (size_t) rand() % 200, ends);

        assert_int_equal(n, m);
        assert_memory_equal(want, ends, n * sizeof(size_t));
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests_name("mst_split_word", tests, NULL, NULL);
}


/*
 * Pieces as the published expressions cut them, in every budget.  "|" stands
 * between pieces; the cases were checked against the regex engine of
 * tiktoken.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "text/mst_split.h"


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


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cases)
    };

    return cmocka_run_group_tests_name("mst_split_word", tests, NULL, NULL);
}

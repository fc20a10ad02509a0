
/*
 * Operators of expressions and how tightly they bind.
 */

#include "jinja.h"


static void
test_binding(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 1 + 2 * 3 - 4 // 2 }}",
          NULL,
          "5" },
        { "{{ 1 ~ 2 * 3 }}",
          NULL,
          "16" },
        { "{{ 2 ** 3 ** 2 }}",
          NULL,
          "64" },
        { "{{ -2 ** 2 }}",
          NULL,
          "4" },
        { "{{ not 1 == 2 }}",
          NULL,
          "True" },
        { "{{ 1 or 0 and 0 }}",
          NULL,
          "1" },
        { "{{ 1 < 2 < 3, 1 < 3 < 2 }}",
          NULL,
          "(True, False)" },
        { "{{ 1 in [1], 2 not in [1] }}",
          NULL,
          "(True, True)" },
        { "{{ 1 if 0 else 2 if 0 else 3 }}",
          NULL,
          "3" },
        { "{{ 'x' if 1 }}{{ 'y' if 0 }}",
          NULL,
          "x" },
        { "{{ 1, 2 }}{{ (1,) }}",
          NULL,
          "(1, 2)(1,)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 1 + }}",
          NULL,
          "line 1: an expression is expected where \"}}\" stands" },
        { "{{ }}",
          NULL,
          "line 1: an expression is expected where \"}}\" stands" },
        { "{{ a b }}",
          NULL,
          "line 1: \"}}\" is expected where \"b\" stands" },
        { "{{ ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))"
          "))))))))))))))))))))))))))))))))))))))))))))))))))))))))))}}",
          NULL,
          "line 1: more than 64 levels are nested" },
        { "{{ 1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1 }}",
          NULL,
          "line 1: an expression is longer than 400 operators" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Macros, and blocks that call them.
 */

#include "jinja.h"


static void
test_macros(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=2) }"
          "}{{ m() }}",
          NULL,
          "12" },
        { "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, a=2)"
          " }}",
          NULL,
          "(1,){'a': 2}" },
        { "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% e"
          "ndmacro %}{{ f(3) }}",
          NULL,
          "3210" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
          NULL,
          "chat template, line 1: a macro takes at most 1 arguments, not 2" },
        { "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}",
          NULL,
          "chat template, line 1: a macro takes no argument \"b\"" },
        { "{% macro m(a) %}{% endmacro %}{{ m(1, a=1) }}",
          NULL,
          "chat template, line 1: a macro has two values for one parameter" },
        { "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}",
          NULL,
          "chat template, line 1: a macro takes no argument \"caller\"" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_macros),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

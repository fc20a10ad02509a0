
/*
 * The parser as a whole: names that are called must be there.
 */

#include "jinja.h"


static void
test_calls(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% macro f() %}1{% endmacro %}{{ f() }}",
          NULL,
          "1" },
        { "{{ range(2) }}",
          NULL,
          "[0, 1]" },
        { "{% set f = namespace %}{{ f(a=1).a }}",
          NULL,
          "1" },
        { "{% if 0 %}{{ x.y.z }}{% endif %}",
          NULL,
          "" },
        { "",
          NULL,
          "" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% if 0 %}\n{{ lipsum() }}\n{% endif %}",
          NULL,
          "line 2: the function \"lipsum\" is not supported" },
        { "{{ open('/etc/passwd') }}",
          NULL,
          "line 1: the function \"open\" is not supported" },
        { "{{ xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx() "
          "}}",
          NULL,
          "line 1: the function \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" "
          "is not supported" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

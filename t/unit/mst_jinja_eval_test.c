
/*
 * Expressions that run.
 */

#include "jinja.h"


static void
test_values(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ a and b, a or b, not a, x and y }}",
          "{\"a\":0,\"b\":2}",
          "(0, 2, True, Undefined)" },
        { "{{ 'a' ~ 1 ~ none ~ true ~ [1] ~ u }}",
          NULL,
          "a1NoneTrue[1]" },
        { "{{ a.b.c }}",
          "{\"a\":{\"b\":{\"c\":\"d\"}}}",
          "d" },
        { "{{ 1 if a else 2 }}",
          "{\"a\":\"\"}",
          "2" },
        { "{{ range is callable }}",
          NULL,
          "True" },
        { "{{ -a, +a, -1.5 }}",
          "{\"a\":3}",
          "(-3, 3, -1.5)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ u.a }}",
          NULL,
          "chat template, line 1: 'u' is undefined" },
        { "\n{{ a.b.c }}",
          "{\"a\":{}}",
          "chat template, line 2: 'b' is undefined" },
        { "{{ -'a' }}",
          NULL,
          "chat template, line 1: '-' does not go between int and str" },
        { "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
          NULL,
          "chat template, line 1: more than 600 levels are nested" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

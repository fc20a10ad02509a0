
/*
 * What a value is put in: names, several at once, within parentheses, and
 * attributes of a namespace, which nothing else but "set" may name.
 */

#include "jinja.h"


static void
test_targets(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}",
          NULL,
          "123" },
        { "{% set a, = [1] %}{{ a }}",
          NULL,
          "1" },
        { "{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}",
          "{\"d\":{\"x\":1,\"y\":2}}",
          "x1y2" },
        { "{% set n = namespace(a=1) %}{% set n.a = 2 %}{{ n.a }}",
          NULL,
          "2" },
        { "{% macro f(a) %}{% set b = a %}{{ b }}{% endmacro %}{{ f(3) }}",
          NULL,
          "3" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% set 1 = 2 %}",
          NULL,
          "line 1: a name is expected where a number stands" },
        { "{% set (a 2) %}",
          NULL,
          "line 1: \")\" is expected where a number stands" },
        { "\n{% for a.b in c %}{% endfor %}",
          NULL,
          "line 2: \"in\" is expected where \".\" stands" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

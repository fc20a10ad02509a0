
/*
 * Statements that run: scopes, loops, macros.
 */

#include "jinja.h"


static void
test_scopes(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% set x = 1 %}{% for i in [1,2] %}{% set x = x + 1 %}{{ x }}{% en"
          "dfor %}{{ x }}",
          NULL,
          "221" },
        { "{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = ns."
          "x + i %}{% endfor %}{{ ns.x }}",
          NULL,
          "4" },
        { "{% if 1 %}{% set x = 5 %}{% endif %}{{ x }}",
          NULL,
          "5" },
        { "{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}",
          NULL,
          "False" },
        { "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{"
          "{ a }}",
          NULL,
          "211" },
        { "{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}"
          "{{ m() }}",
          NULL,
          "2" },
        { "{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% "
          "endfor %}",
          NULL,
          "1" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_loops(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% for x in l if x is even %}{{ x }}{{ loop.index }}{{ loop.length"
          " }}{{ loop.last }};{% endfor %}",
          "{\"l\":[1,2,3,4]}",
          "212False;422True;" },
        { "{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}",
          "{\"d\":{\"a\":1,\"b\":2}}",
          "a1b2" },
        { "{% for x in [1,2] recursive %}{{ x }}{% if x == 1 and loop.depth <"
          " 3 %}({{ loop([1,2]) }}){% endif %}{% endfor %}",
          NULL,
          "1(1(12)2)2" },
        { "{% for x in [1,2] %}{% for y in [1,2] %}{% if y == 2 %}{% break %}"
          "{% endif %}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
          NULL,
          "111212" },
        { "{% set g = [1,2]|map('string') %}{{ g|join }}{{ g|join }}",
          NULL,
          "12" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% set a, b = 1 %}",
          NULL,
          "chat template, line 1: a value of type int cannot be iterated" },
        { "{% set a, b = [1] %}",
          NULL,
          "chat template, line 1: 1 values are too few for as many names" },
        { "{% set a, b = [1,2,3] %}",
          NULL,
          "chat template, line 1: 3 values are too many for 2 names" },
        { "{% set x.y = 1 %}",
          NULL,
          "chat template, line 1: attributes can be set of a "
          "namespace() only" },
        { "{% for x in [1] %}{{ loop([1]) }}{% endfor %}",
          NULL,
          "chat template, line 1: loop() needs a loop that is marked \"recurs"
          "ive\"" },
        { "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
          "{% endfor %}",
          NULL,
          "chat template, line 1: the template needs more than 32768 KiB of m"
          "emory" },
        { "{% for i in range(9999) %}{% for j in 'abcdefghijklmnopqrstuvwxyz'"
          " if 0 %}{% endfor %}{% endfor %}",
          NULL,
          "chat template, line 1: the template needs more than 32768 KiB of m"
          "emory" },
        { "{% set l = range(9999) %}{% for i in l %}{% if 5 in l or -1 in l %"
          "}{% endif %}{% if -1 in l %}{% endif %}{% endfor %}",
          NULL,
          "chat template, line 1: the template takes more than 4000000 steps" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Constants, names, lists, attributes, calls, filters, tests.
 */

#include "jinja.h"


static void
test_terms(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ [1, 'a', none, true,], {'k': 1,}, () }}",
          NULL,
          "([1, 'a', None, True], {'k': 1}, ())" },
        { "{{ d.k, d['k'], d.n.m, l[0], l[-1], l[1:] }}",
          "{\"d\":{\"k\":1,\"n\":{\"m\":2}},\"l\":[3,4]}",
          "(1, 1, 2, 3, 4, [4])" },
        { "{{ l[::2], l[::-1], l[:1], l[1:2] }}",
          "{\"l\":[1,2,3]}",
          "([1, 3], [3, 2, 1], [1], [2])" },
        { "{{ 'a'|upper|lower, 1 is odd, 3 is not odd, 9 is divisibleby 3 }}",
          NULL,
          "('a', True, False, True)" },
        { "{{ 'a' is in ['a'] }}",
          NULL,
          "True" },
        { "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(1, b=2,) }}",
          NULL,
          "12" },
        { "{{ -1|abs }}",
          NULL,
          "1" },
        { "{{ {}.a is defined, u is defined }}",
          NULL,
          "(False, False)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 1|nope }}",
          NULL,
          "line 1: the filter \"nope\" is not supported" },
        { "\n{{ 1 is nope }}",
          NULL,
          "line 2: the test \"nope\" is not supported" },
        { "{{ 'a'.zfill(1) }}",
          NULL,
          "line 1: the method \"zfill\" is not supported" },
        { "{{ nope(1) }}",
          NULL,
          "line 1: the function \"nope\" is not supported" },
        { "{{ f(*a) }}",
          NULL,
          "line 1: *args and **kwargs in a call are not supported" },
        { "{{ range(a=1, 2) }}",
          NULL,
          "line 1: an argument without a name follows one with a name" },
        { "{{ 1|2 }}",
          NULL,
          "line 1: the name of a filter is expected where a number stands" },
        { "{{ a. }}",
          NULL,
          "line 1: a name is expected where \"}}\" stands" },
        { "{{ [1 2] }}",
          NULL,
          "line 1: \",\" is expected where a number stands" },
        { "{{ {1 2} }}",
          NULL,
          "line 1: \":\" is expected where a number stands" },
        { "{{ a[1 }}",
          NULL,
          "line 1: a bracket closes nothing" },
        { "{{ 1 is odd is odd }}",
          NULL,
          "line 1: a test follows a test" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

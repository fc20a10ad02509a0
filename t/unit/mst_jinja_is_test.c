
/*
 * Tests.
 */

#include "jinja.h"


static void
test_types(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ u is defined, u is undefined, n is none, 1 is none, true is boo"
          "lean, 1 is boolean }}",
          "{\"n\":null}",
          "(False, True, True, False, True, False)" },
        { "{{ 1 is integer, true is integer, 1.0 is float, 1 is number, true "
          "is number, 'a' is number }}",
          NULL,
          "(True, False, True, True, True, False)" },
        { "{{ 'a' is string, {} is mapping, [] is mapping, [] is sequence, {}"
          " is sequence, 1 is sequence, u is sequence }}",
          NULL,
          "(True, True, False, True, True, False, True)" },
        { "{{ 'a' is iterable, 1 is iterable, u is iterable, [1]|select is it"
          "erable, range is callable, 1 is callable }}",
          NULL,
          "(True, False, True, True, True, False)" },
        { "{{ true is true, 1 is true, false is false }}",
          NULL,
          "(True, False, True)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_values(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 3 is odd, 4 is even, 9 is divisibleby(3), 1 is eq 1, 1 is ne(1)"
          ", 1 is lt 2, 2 is le 1, 2 is gt 1, 1 is ge 1 }}",
          NULL,
          "(True, True, True, True, False, True, False, True, True)" },
        { "{{ 'a' is in ['a'], none is sameas none, 1 is sameas 1, 'AB' is up"
          "per, 'ab' is lower, '1' is lower }}",
          NULL,
          "(True, True, True, True, True, False)" },
        { "{{ [1]|select('==', 1)|list, [1]|select('!=', 1)|list, [1]|select("
          "'<', 2)|list, [1]|select('>=', 2)|list }}",
          NULL,
          "([1], [], [1], [])" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'a' is odd }}",
          NULL,
          "chat template, line 1: a format has fewer places than values" },
        { "{{ none is even }}",
          NULL,
          "chat template, line 1: '%' does not go between None and int" },
        { "{{ 1 is divisibleby }}",
          NULL,
          "chat template, line 1: divisibleby() needs 1 argument" },
        { "{{ 1 is defined(1) }}",
          NULL,
          "chat template, line 1: defined() takes at most 0 arguments, not 1" },
        { "{{ 1 is lt 'a' }}",
          NULL,
          "chat template, line 1: 'int' and 'str' have no order" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

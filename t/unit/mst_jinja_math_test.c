
/*
 * Arithmetic and comparisons.
 */

#include "jinja.h"


static void
test_numbers(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 7 / 2 }}",
          NULL,
          "(3, -4, 1, 2, -2, 3.5)" },
        { "{{ 3.5 // 2, -3.5 // 2, 3.5 % -2, -0.0 // 1 }}",
          NULL,
          "(1.0, -2.0, -0.5, -0.0)" },
        { "{{ 2 ** 10, 2 ** -1, 2 ** 0.5, 0 ** 0 }}",
          NULL,
          "(1024, 0.5, 1.4142135623730951, 1)" },
        { "{{ true + 1, 5 - true, true * 3 }}",
          NULL,
          "(2, 4, 3)" },
        { "{{ 9223372036854775807 // -1, 5 % -1 }}",
          NULL,
          "(-9223372036854775807, 0)" },
        { "{{ a < b, a <= a, b > a, a == 1.0, a != b, nan < 1, nan >= 1 }}",
          "{\"a\":1,\"b\":2,\"nan\":NaN}",
          "(True, True, True, True, True, False, False)" },
        { "{{ 'a' < 'b', [1, 2] < [1, 3], (1,) <= (1, 0), 'a' == 1 }}",
          NULL,
          "(True, True, True, False)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_others(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'ab' * 2, 2 * 'ab', [1] * 2, 'a' * -1, [1] + [2], (1,) + (2,), "
          "'a' + 'b' }}",
          NULL,
          "('abab', 'abab', [1, 1], '', [1, 2], (1, 2), 'ab')" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 1 / 0 }}",
          NULL,
          "chat template, line 1: division by zero" },
        { "{{ 1 // 0 }}",
          NULL,
          "chat template, line 1: division by zero" },
        { "{{ 1.0 % 0 }}",
          NULL,
          "chat template, line 1: division by zero" },
        { "{{ 9223372036854775807 + 1 }}",
          NULL,
          "chat template, line 1: an integer is out of range, -2^63 to "
          "2^63-1" },
        { "{{ 9223372036854775807 * 2 }}",
          NULL,
          "chat template, line 1: an integer is out of range, -2^63 to "
          "2^63-1" },
        { "{{ 3 ** 99 }}",
          NULL,
          "chat template, line 1: an integer is out of range, -2^63 to "
          "2^63-1" },
        { "{{ (-9223372036854775807 - 1) // -1 }}",
          NULL,
          "chat template, line 1: an integer is out of range, -2^63 to "
          "2^63-1" },
        { "{{ (-8) ** 0.5 }}",
          NULL,
          "chat template, line 1: a power of a negative number is not real" },
        { "{{ 1e300 ** 2 }}",
          NULL,
          "chat template, line 1: a power is out of range" },
        { "{{ 1 + 'a' }}",
          NULL,
          "chat template, line 1: '+' does not go between int and str" },
        { "{{ u + 1 }}",
          NULL,
          "chat template, line 1: 'u' is undefined" },
        { "{{ 1 // 'a' }}",
          NULL,
          "chat template, line 1: '//' does not go between int and str" },
        { "{{ 'a' < 1 }}",
          NULL,
          "chat template, line 1: 'str' and 'int' have no order" },
        { "{{ [1] * 100000000 }}",
          NULL,
          "chat template, line 1: the template needs more than 32768 KiB of m"
          "emory" },
        { "{{ ('a' * 10000000)|length * ('b' * 100000000)|length }}",
          NULL,
          "chat template, line 1: the template needs more than 32768 KiB of m"
          "emory" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Filters that make numbers.
 */

#include "jinja.h"


static void
test_numbers(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '5'|int + 1, 'x'|int, 'x'|int(7), 1.9|int, '42.7'|int, ' 12 '|i"
          "nt, '1_0'|int, none|int, 'ff'|int(base=16), 'a'|int(base=99) }}",
          NULL,
          "(6, 0, 7, 1, 42, 12, 10, 0, 255, 0)" },
        { "{{ '1.5'|float, 'x'|float(2), 3|float, '0x10'|float, true|float, '"
          "inf'|float }}",
          NULL,
          "(1.5, 2, 3.0, 0.0, 1.0, inf)" },
        { "{{ -1|abs, 1.5|abs, true|abs }}",
          NULL,
          "(1, 1.5, 1)" },
        { "{{ 2.5|round, 2.567|round(2), 3|round, 2.1|round(0, 'ceil'), 2.25|"
          "round(1, 'floor'), 25|round(-1) }}",
          NULL,
          "(2.0, 2.57, 3, 3.0, 2.2, 20)" },
        { "{{ '99999999999999999999'|int, 1e300|int(5) }}",
          NULL,
          "(0, 5)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ u|int }}",
          NULL,
          "chat template, line 1: 'u' is undefined" },
        { "{{ 'a'|abs }}",
          NULL,
          "chat template, line 1: abs needs a number, not a value of "
          "type str" },
        { "{{ 'a'|round }}",
          NULL,
          "chat template, line 1: round needs a number, and a precision of -1"
          "5 to 15" },
        { "{{ 1|round(99) }}",
          NULL,
          "chat template, line 1: round needs a number, and a precision of -1"
          "5 to 15" },
        { "{{ 1.5|round(0, 'up') }}",
          NULL,
          "chat template, line 1: round is one of common, ceil and floor" },
        { "{{ (-9223372036854775807 - 1)|abs }}",
          NULL,
          "chat template, line 1: an integer is out of range, -2^63 to 2^63-1" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

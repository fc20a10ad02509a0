
/*
 * Words of tags: strings with their escapes, numbers, operators.
 */

#include "jinja.h"


static void
test_strings(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'a\\n\\t\\'\\\"\\\\' }}",
          NULL,
          "a\n\t'\"\\" },
        { "{{ 'a' \"b\" 'c' }}",
          NULL,
          "abc" },
        { "{{ '\\x41\\101\\u00e9\\U0001f98a' }}",
          NULL,
          "AAé🦊" },
        { "{{ '\\q\\z' }}",
          NULL,
          "\\q\\z" },
        { "{{ 'a\\\nb' }}",
          NULL,
          "ab" },
        { "{{ 'a\nb' }}",
          NULL,
          "a\nb" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_numbers(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 1_000 + 0x1F + 0b101 + 0o17 }}",
          NULL,
          "1051" },
        { "{{ 1.5e-7, 1e3, 1.0, 0, 9223372036854775807 }}",
          NULL,
          "(1.5e-07, 1000.0, 1.0, 0, 9223372036854775807)" },
        { "{{ [[7]][0].0 }}",
          NULL,
          "7" },
        { "{{ 1.__x__ is defined }}",
          NULL,
          "False" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'a }}",
          NULL,
          "line 1: a string is not closed" },
        { "{{ '\\ud800' }}",
          NULL,
          "line 1: a string has an escape that is no character" },
        { "{{ '\\x4' }}",
          NULL,
          "line 1: a string has an escape that is no character" },
        { "{{ '\\N{DASH}' }}",
          NULL,
          "line 1: \\N{...} in a string is not supported" },
        { "{{ 9223372036854775808 }}",
          NULL,
          "line 1: a number is malformed or too large" },
        { "{{ 0x }}",
          NULL,
          "line 1: a number is malformed or too large" },
        { "{{ 0b2 }}",
          NULL,
          "line 1: a number is malformed or too large" },
        { "{{ a ! b }}",
          NULL,
          "line 1: a character is not expected here" },
        { "{{ a $ b }}",
          NULL,
          "line 1: a character is not expected here" },
        { "{{ é }}",
          NULL,
          "line 1: a character is not expected here" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Values put in a format.
 */

#include "jinja.h"


static void
test_forms(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '%s-%d-%x-%X-%%-%r' % ('a', 3, 255, 255, 'b') }}",
          NULL,
          "a-3-ff-FF-%-'b'" },
        { "{{ '%5s|%-5s|%05d|%+d|%i|%.2f|%-4d|' % ('a', 'b', -42, 7, 3.9, 1.5"
          ", 5) }}",
          NULL,
          "    a|b    |-0042|+7|3|1.50|5   |" },
        { "{{ '%.2s' % 'héllo', '%s' % [1], 'x' % [1], 'x' % {} }}",
          NULL,
          "('hé', '[1]', 'x', 'x')" },
        { "{{ '%s, %s'|format('a', 1) }}",
          NULL,
          "a, 1" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '%d' % 'a' }}",
          NULL,
          "chat template, line 1: %d needs a number, not a value of type str" },
        { "{{ '%s %s' % 'a' }}",
          NULL,
          "chat template, line 1: a format has more places than values" },
        { "{{ '%s' % ('a', 'b') }}",
          NULL,
          "chat template, line 1: a format has fewer places than values" },
        { "{{ '%q' % 1 }}",
          NULL,
          "chat template, line 1: a format has %q, which is not supported" },
        { "{{ '%' % 1 }}",
          NULL,
          "chat template, line 1: a format has %?, which is not supported" },
        { "{{ '%200d' % 1 }}",
          NULL,
          "chat template, line 1: a format is wider than 100" },
        { "{{ '%d' % 1e300 }}",
          NULL,
          "chat template, line 1: a number is too large for %d" },
        { "{{ '%s'|format(a=1) }}",
          NULL,
          "chat template, line 1: format with named values is not supported" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

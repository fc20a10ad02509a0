
/*
 * split(), rsplit() and splitlines() of strings.
 */

#include "jinja.h"


static void
test_split(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ ' a b  c '.split(), 'a,b'.split(','), 'a,b,c'.split(',', 1), 'a"
          "  b c'.split(none, 1), ''.split(), ''.split(','), ' a b '.split(ma"
          "xsplit=1) }}",
          NULL,
          "(['a', 'b', 'c'], ['a', 'b'], ['a', 'b,c'], ['a', 'b c'], [], ['']"
          ", ['a', 'b '])" },
        { "{{ 'a,b,c'.rsplit(',', 1), 'a\\nb\\r\\nc\\n'.splitlines(), 'a\\nb'"
          ".splitlines(true) }}",
          NULL,
          "(['a,b', 'c'], ['a', 'b', 'c'], ['a\\n', 'b'])" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'a'.split('') }}",
          NULL,
          "chat template, line 1: split() has an empty separator" },
        { "{{ 'a'.split(1) }}",
          NULL,
          "chat template, line 1: split() needs a string, not a value of type"
          " int" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Methods of strings.
 */

#include "jinja.h"


static void
test_cut(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '  a '.strip() ~ '|' ~ '  a '.lstrip() ~ '|' ~ '  a '.rstrip() "
          "~ '|' ~ 'xax'.strip('x') ~ '|' ~ 'aé'.rstrip('é') }}",
          NULL,
          "a|a |  a|a|a" },
        { "{{ 'abc'.removeprefix('a'), 'abc'.removesuffix('c'), 'abc'.removep"
          "refix('x') }}",
          NULL,
          "('bc', 'ab', 'abc')" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_look(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'abc'.startswith('ab'), 'abc'.endswith('bc'), 'abc'.startswith("
          "('x','a')), ''.startswith(''), 'a'.endswith('ba') }}",
          NULL,
          "(True, True, True, True, False)" },
        { "{{ 'abc'.find('b'), 'abc'.find('x'), 'abab'.rfind('b'), 'éb'.find("
          "'b'), 'aaa'.count('aa'), 'ab'.count(''), 'abc'.index('c') }}",
          NULL,
          "(1, -1, 3, 1, 1, 3, 2)" },
        { "{{ 'a'.isalpha(), 'a1'.isalnum(), '12'.isdigit(), ' '.isspace(), '"
          "Ab'.isupper(), 'ab'.islower(), ''.isalpha(), 'é'.isalpha() }}",
          NULL,
          "(True, True, True, True, False, True, False, True)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_make(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'a'.upper(), 'A'.lower(), 'aB'.capitalize(), 'they\\'re b'.titl"
          "e(), 'aB'.swapcase() }}",
          NULL,
          "('A', 'a', 'Ab', \"They'Re B\", 'Ab')" },
        { "{{ '-'.join(['a','b']), ''.join([]), ','.join('ab'), 'aa'.replace("
          "'a', 'b'), 'aa'.replace('a', '', 1) }}",
          NULL,
          "('a-b', '', 'a,b', 'bb', 'a')" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ 'a'.index('x') }}",
          NULL,
          "chat template, line 1: index() does not find the string" },
        { "{{ ','.join([1]) }}",
          NULL,
          "chat template, line 1: join() needs a string, not a value of type "
          "int" },
        { "{{ 'a'.startswith(1) }}",
          NULL,
          "chat template, line 1: startswith() needs a string, not a value of"
          " type int" },
        { "{{ 'a'.strip(1, 2) }}",
          NULL,
          "chat template, line 1: strip() takes at most 1 arguments, not 2" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_make),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

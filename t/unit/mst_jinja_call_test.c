
/*
 * Functions and the arguments of builtins.
 */

#include "jinja.h"


static void
test_functions(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ range(3), range(1, 3), range(5, 0, -2), range(0) }}",
          NULL,
          "([0, 1, 2], [1, 2], [5, 3, 1], [])" },
        { "{{ dict(a=1, b=2), dict({'a': 1}, b=3) }}",
          NULL,
          "({'a': 1, 'b': 2}, {'a': 1, 'b': 3})" },
        { "{{ namespace({'x': 2}, y=3).y }}",
          NULL,
          "3" },
        { "{{ strftime_now('%d %b %Y') }}",
          NULL,
          "29 Jul 2025" },
        { "{{ 'a'|default(default_value='x'), ''|default('y', boolean=true) }"
          "}",
          NULL,
          "('a', 'y')" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ raise_exception('no ' ~ 1) }}",
          NULL,
          "no 1" },
        { "{{ raise_exception('a\nb') }}",
          NULL,
          "a b" },
        { "{{ raise_exception('') }}",
          NULL,
          "the chat template refuses these messages" },
        { "{{ range(0, 1, 0) }}",
          NULL,
          "chat template, line 1: the step of range() is 0" },
        { "{{ range(100001)|length }}",
          NULL,
          "chat template, line 1: range() has more than 100000 items" },
        { "{{ range('a') }}",
          NULL,
          "chat template, line 1: range() needs an integer, not a value of ty"
          "pe str" },
        { "{{ range() }}",
          NULL,
          "chat template, line 1: range() needs 1 argument" },
        { "{{ range(1, 2, 3, 4) }}",
          NULL,
          "chat template, line 1: range() takes at most 3 arguments, not 4" },
        { "{{ 'a'|default(x=1) }}",
          NULL,
          "chat template, line 1: default() takes no argument \"x\"" },
        { "{{ 'a'|default(1, default_value=1) }}",
          NULL,
          "chat template, line 1: default() takes no second argument \"defaul"
          "t_value\"" },
        { "{{ 1|selectattr }}",
          NULL,
          "chat template, line 1: selectattr() needs 1 arguments, not 0" },
        { "{% set f = 1 %}{{ f() }}",
          NULL,
          "chat template, line 1: a value of type int cannot be called" },
        { "{{ dict(1) }}",
          NULL,
          "chat template, line 1: a dictionary is made of one dictionary and "
          "names" },
        { "{{ strftime_now(1) }}",
          NULL,
          "chat template, line 1: strftime_now() needs a string, not a value "
          "of type int" },
        { "{{ strftime_now('x' * 300) }}",
          NULL,
          "chat template, line 1: the format of strftime_now() is too long" }
    };

    (void) state;

    jinja_refusals(cases);
}


static void
test_long(void **state)
{
    mst_err_t       err;
    mst_text_out_t  out;

    (void) state;

    /* a sentence is cut between characters */

    assert_int_equal(jinja_run("{{ raise_exception('\xc3\xa9' * 1000) }}",
                               NULL, &out, &err), MST_ERROR);
    assert_int_equal(strlen(err.text), 398);
    assert_memory_equal(err.text + 396, "\xc3\xa9", 2);
    mst_text_out_fini(&out);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

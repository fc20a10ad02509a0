
/*
 * "{}".format(): values in places.
 */

#include "jinja.h"


static void
test_places(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '{}-{}'.format(1, none) }}|{{ '{1}{0}{1}'.format('a', m) }}",
          "{\"m\":\"b\"}",
          "1-None|bab" },
        { "{{ '{a}{}{b}'.format(7, a='x', b=[1.5]) }}",
          NULL,
          "x7[1.5]" },
        { "{{ '{{}}{}{{'.format('{}') }}|{{ '{{{}}}'.format(1) }}",
          NULL,
          "{}{}{|{1}" },
        { "{{ ''.format(1) }}|{{ 'a'.format() }}|{{ '{}'.format(x) }}|"
          "{{ '\u00e9{}\u00fc'.format('\u00f6') }}",
          NULL,
          "|a||\u00e9\u00f6\u00fc" }
    };

    (void) state;

    jinja_table(cases);
    jinja_marks("{{ '<{}>'.format(m) }}", "{\"m\":\"a\"}", "[<]a[>]");
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '{}{}'.format(1) }}",
          NULL,
          "chat template, line 1: format() has more places than values" },
        { "{{ '{99999999999999999999999}'.format(1) }}",
          NULL,
          "chat template, line 1: format() has more places than values" },
        { "{{ '{0}{}'.format(1, 2) }}",
          NULL,
          "chat template, line 1: format() has places with a number and "
          "places without" },
        { "{{ '{}{0}'.format(1, 2) }}",
          NULL,
          "chat template, line 1: format() has places with a number and "
          "places without" },
        { "{{ '{a}'.format(b=1) }}",
          NULL,
          "chat template, line 1: format() has no value \"a\"" },
        { "{{ '{'.format(1) }}",
          NULL,
          "chat template, line 1: format() has a \"{\" alone" },
        { "{{ '{{}'.format(1) }}",
          NULL,
          "chat template, line 1: format() has a \"}\" alone" },
        { "{{ '{a{}'.format(1) }}",
          NULL,
          "chat template, line 1: format() has a \"{\" alone" },
        { "{{ '{:>5}'.format(1) }}",
          NULL,
          "chat template, line 1: \":\" in a place of format() is not "
          "supported" },
        { "{{ '{0.__class__}'.format(1) }}",
          NULL,
          "chat template, line 1: \".\" in a place of format() is not "
          "supported" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

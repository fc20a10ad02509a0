
/*
 * Texts that are called safe.  What jinja2 makes of them, or refuses, is in
 * t/clients/jinja_cases.py, too.
 */

#include "jinja.h"


static void
test_sums(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '<a>'|safe + m + '\"&\\'' }}",
          "{\"m\":\"<b>\"}",
          "<a>&lt;b&gt;&#34;&amp;&#39;" },
        { "{{ m + '<a>'|safe }}|{{ m + m }}|{{ '<'|safe ~ m }}",
          "{\"m\":\"<b>\"}",
          "&lt;b&gt;<a>|<b><b>|<<b>" },
        { "{{ ''|safe + '<' }}|{{ '<'|safe + '' + '<' }}",
          NULL,
          "&lt;|<&lt;" },
        { "{{ ('<'|safe) * 2 + '<' }}|{{ ('a<'|safe)[1:] + '<' }}",
          NULL,
          "<<&lt;|<&lt;" },
        { "{% set x = '<'|safe %}{{ x is escaped, '<' is escaped, x == '<' }}",
          NULL,
          "(True, False, True)" },
        { "{{ ['<'|safe, '<'] }}",
          NULL,
          "[Markup('<'), '<']" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_filters(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '<'|e }}|{{ '<'|escape|e }}|{{ '<'|safe|e }}|{{ [1]|e }}|"
          "{{ '<'|e|forceescape }}",
          NULL,
          "&lt;|&lt;|<|[1]|&amp;lt;" },
        { "{{ 'a<'|safe|upper + '<' }}|{{ ' a '|safe|trim + '<' }}|"
          "{{ 'a'|safe|title + '<' }}|{{ 'a'|safe|replace('a', '<') + '<' }}",
          NULL,
          "A<&lt;|a&lt;|A<|<<" },
        { "{{ ('a'|safe).replace('a', '<') }}|{{ ('-'|safe).join(['<', '>']) "
          "}}|{{ ('%s'|safe) % '<' }}|{{ '%s %d'|safe|format('<', 2) }}|"
          "{{ ('{}{a}'|safe).format('<', a='>') }}",
          NULL,
          "&lt;|&lt;-&gt;|&lt;|&lt; 2|&lt;&gt;" },
        { "{{ ('a b'|safe).split() }}|{{ 'ab'|safe|list }}",
          NULL,
          "[Markup('a'), Markup('b')]|['a', 'b']" }
    };

    (void) state;

    jinja_table(cases);
}


/* what gets escaped is no text of the template any more where it changes */

static void
test_marks(void **state)
{
    (void) state;

    jinja_marks("{{ '<a>'|safe + m + '<b>' }}", "{\"m\":\"x<\"}",
                "[<a>]x&lt;&lt;[b]&gt;");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_marks)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Tokens of a template: text and tags, white space, comments, raw text.
 */

#include "jinja.h"


static void
test_white(void **state)
{
    static const jinja_case_t  cases[] = {
        { "a\n",
          NULL,
          "a" },
        { "a\n\n",
          NULL,
          "a\n" },
        { "a\r\nb\rc",
          NULL,
          "a\nb\nc" },
        { "  {% if 1 %}  \n a \n  {% endif %}  \n b",
          NULL,
          "  \n a \n  \n b" },
        { "x  {% if 1 %}\n y{% endif %}",
          NULL,
          "x   y" },
        { "{%- if 1 -%}\n a \n{%- endif -%}\n b",
          NULL,
          "ab" },
        { "a\n  {%+ if 1 %}b{% endif +%}\n  c",
          NULL,
          "a\n  b\n  c" },
        { "a\n   {{ 1 }}\n  b",
          NULL,
          "a\n   1\n  b" },
        { "a  {{- 1 -}}  b",
          NULL,
          "a1b" },
        { "　{%- if 1 -%} a{% endif %}",
          NULL,
          "a" },
        { "\t{% if 1 %}\n\tx\n\t{% endif %}\n",
          NULL,
          "\tx\n" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_comments(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{# c #}\na",
          NULL,
          "a" },
        { "a {#- c -#} b",
          NULL,
          "ab" },
        { "a\n  {# {{ x }} {% y %}\n #}\nb",
          NULL,
          "a\nb" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_raw(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% raw %}{{ x }}{% endraw %}",
          NULL,
          "{{ x }}" },
        { "{%- raw -%}  {{ a }}  {%- endraw -%}  b",
          NULL,
          "{{ a }}b" },
        { "a\n  {% raw %}\n{% if %}\n  {% endraw %}\nb",
          NULL,
          "a\n\n{% if %}\nb" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_braces(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ {'a': {'b': 1}}}}",
          NULL,
          "{'a': {'b': 1}}" },
        { "{ { } } {",
          NULL,
          "{ { } } {" },
        { "{",
          NULL,
          "{" },
        { "{a{{1}}",
          NULL,
          "{a1" },
        { "{{ '}}' }}",
          NULL,
          "}}" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "a\n{# b",
          NULL,
          "line 2: a comment is not closed" },
        { "{% raw %}{{",
          NULL,
          "line 1: {% raw %} is not closed" },
        { "\n\n{{ 1",
          NULL,
          "line 3: {{ is not closed" },
        { "{% if 1",
          NULL,
          "line 1: {% is not closed" },
        { "{{ (1] }}",
          NULL,
          "line 1: a bracket closes nothing" },
        { "{{ 1 ) }}",
          NULL,
          "line 1: a bracket closes nothing" },
        { "{{ ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
          "((",
          NULL,
          "line 1: brackets are nested too deeply" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_white),
        cmocka_unit_test(test_comments),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_braces),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Statements of a template.
 */

#include "jinja.h"


static void
test_statements(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}",
          NULL,
          "b" },
        { "{% for x in [1,2] %}{{ x }}{% else %}e{% endfor %}",
          NULL,
          "12" },
        { "{% for x in [] %}{% else %}e{% endfor %}",
          NULL,
          "e" },
        { "{% set x %}a{{ 1 }}{% endset %}{{ x }}",
          NULL,
          "a1" },
        { "{% set x | upper %}a{% endset %}{{ x }}",
          NULL,
          "A" },
        { "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
          NULL,
          "12" },
        { "{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(x) m() %}{{ "
          "x }}{% endcall %}",
          NULL,
          "<1>" },
        { "{% filter upper %}a{% endfilter %}",
          NULL,
          "A" },
        { "{% with a = 1 %}{{ a }}{% endwith %}{{ a }}",
          NULL,
          "1" },
        { "{% generation %}a{% endgeneration %}",
          NULL,
          "a" },
        { "{% for x in [1,2,3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x"
          " }}{% endfor %}",
          NULL,
          "13" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{% include 'a' %}",
          NULL,
          "line 1: the tag \"include\" is not supported here" },
        { "{% import 'a' as b %}",
          NULL,
          "line 1: the tag \"import\" is not supported here" },
        { "{% extends 'a' %}",
          NULL,
          "line 1: the tag \"extends\" is not supported here" },
        { "{% block a %}{% endblock %}",
          NULL,
          "line 1: the tag \"block\" is not supported here" },
        { "{% do x %}",
          NULL,
          "line 1: the tag \"do\" is not supported here" },
        { "{% endif %}",
          NULL,
          "line 1: the tag \"endif\" is not supported here" },
        { "{% 1 %}",
          NULL,
          "line 1: a tag begins with a number" },
        { "{% if 1 %}\n",
          NULL,
          "line 1: \"endif\" is expected where the template ends" },
        { "{% for x in [1] %}{% endif %}",
          NULL,
          "line 1: the tag \"endif\" is not supported here" },
        { "{% break %}",
          NULL,
          "line 1: a jump stands outside of a loop" },
        { "{% for x in [1] %}{% set a %}{% break %}{% endset %}{% endfor %}",
          NULL,
          "line 1: a jump stands outside of a loop" },
        { "{% macro m(a=1, b) %}{% endmacro %}",
          NULL,
          "line 1: a parameter without a default follows one with one" },
        { "{% call 1 %}{% endcall %}",
          NULL,
          "line 1: {% call %} needs a call" },
        { "{% for x %}{% endfor %}",
          NULL,
          "line 1: \"in\" is expected where \"%}\" stands" },
        { "{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if "
          "1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{%"
          " if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 "
          "%}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% i"
          "f 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}"
          "{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if "
          "1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{%"
          " if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 "
          "%}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% i"
          "f 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% if 1 %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %}{% endif %"
          "}{% endif %}{% endif %}{% endif %}{% endif %}",
          NULL,
          "line 1: more than 64 levels are nested" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_statements),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

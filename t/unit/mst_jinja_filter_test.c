
/*
 * Filters of one value.
 */

#include "jinja.h"


static void
test_texts(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ '  a '|trim, 'xxax'|trim('x'), 1|trim, none|trim }}",
          NULL,
          "('a', 'a', '1', 'None')" },
        { "{{ 'Ab'|upper, 'Ab'|lower, 'aB c'|capitalize, 'hello wORLD-foo (ba"
          "r)'|title, 'they\\'re'|title }}",
          NULL,
          "('AB', 'ab', 'Ab c', 'Hello World-Foo (Bar)', \"They're\")" },
        { "{{ 'a-a'|replace('a', 'x'), 'aaa'|replace('a', 'b', 2), 'ab'|repla"
          "ce('', '-'), 1.5|replace('.', ',') }}",
          NULL,
          "('x-x', 'bba', '-a-b-', '1,5')" },
        { "{{ 'a\\nb\\n\\nc'|indent, 'a\\nb'|indent(2, true), 'a\\n\\nb'|inde"
          "nt(1, blank=true), 'a\\nb'|indent('> ') }}",
          NULL,
          "('a\\n    b\\n\\n    c', '  a\\n  b', 'a\\n \\n b', 'a\\n> b')" },
        { "{{ 'hé'|length, [1]|count, {}|length, u|length }}",
          NULL,
          "(2, 1, 0, 0)" },
        { "{{ u|default('d'), u|d, ''|d('x'), none|d('x', true) }}",
          NULL,
          "('d', '', '', 'x')" },
        { "{{ 1|string ~ none|string ~ 'a'|safe }}",
          NULL,
          "1Nonea" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_json(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ d|tojson }}",
          "{\"d\":{\"a\":[1,2.0,null,true,\"é\\\"/\"]}}",
          "{\"a\": [1, 2.0, null, true, \"é\\\"/\"]}" },
        { "{{ d|tojson(indent=2) }}",
          "{\"d\":{\"b\":[],\"a\":[1,{}]}}",
          "{\n  \"b\": [],\n  \"a\": [\n    1,\n    {}\n  ]\n}" },
        { "{{ d|tojson(true, none, (',', ':'), true) }}",
          "{\"d\":{\"b\":\"é🦊\",\"a\":1}}",
          "{\"a\":1,\"b\":\"\\u00e9\\ud83e\\udd8a\"}" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ u|tojson }}",
          NULL,
          "chat template, line 1: a value of type undefined cannot be written"
          " as JSON" },
        { "{{ 1|tojson(indent=99) }}",
          NULL,
          "chat template, line 1: tojson indents by at most 64" },
        { "{{ 1|tojson(separators=1) }}",
          NULL,
          "chat template, line 1: tojson needs two separators" },
        { "{{ 'a'|indent(99) }}",
          NULL,
          "chat template, line 1: indent indents by at most 64" },
        { "{{ 1|indent }}",
          NULL,
          "chat template, line 1: indent needs a string, not a value of type "
          "int" },
        { "{{ 1|length }}",
          NULL,
          "chat template, line 1: a value of type int has no length" },
        { "{{ 'a'|replace('b') }}",
          NULL,
          "chat template, line 1: replace() needs 2 arguments" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

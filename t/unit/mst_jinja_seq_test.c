
/*
 * Filters of lists.
 */

#include "jinja.h"


static void
test_lists(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ [1,2]|join(', '), [1,none]|join, m|join('+', attribute='a.b'), "
          "'ab'|join('.') }}",
          "{\"m\":[{\"a\":{\"b\":1}},{\"a\":{\"b\":2}}]}",
          "('1, 2', '1None', '1+2', 'a.b')" },
        { "{{ [1,2]|first, [1,2]|last, []|first, 'abc'|last }}",
          NULL,
          "(1, 2, Undefined, 'c')" },
        { "{{ [1,2]|reverse|list, 'abc'|reverse, 'ab'|list, {'a':1}|list }}",
          NULL,
          "([2, 1], 'cba', ['a', 'b'], ['a'])" },
        { "{{ ['a','B','A']|unique|list, [1,1.0,true,2]|unique|list }}",
          NULL,
          "(['a', 'B'], [1, 2])" },
        { "{{ [1,3,2]|min, [1,3,2]|max, []|max, ['b','A']|min }}",
          NULL,
          "(1, 3, Undefined, 'A')" },
        { "{{ [1,2.5]|sum, m|sum(attribute='a'), [1]|sum(start=5) }}",
          "{\"m\":[{\"a\":1},{\"a\":2}]}",
          "(3.5, 3, 6)" },
        { "{{ {'b':1,'A':2}|dictsort, {'b':1,'a':2}|dictsort(by='value'), {'a"
          "':1}|items|list }}",
          NULL,
          "([('A', 2), ('b', 1)], [('b', 1), ('a', 2)], [('a', 1)])" },
        { "{{ range(5)|batch(2)|list, [1]|batch(2, 'x')|list }}",
          NULL,
          "([[0, 1], [2, 3], [4]], [[1, 'x']])" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_choices(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ ['a',' b']|map('trim')|map('upper')|list, [{}]|map(attribute='z"
          "', default='d')|list, ['a']|map('replace','a','b')|list }}",
          NULL,
          "(['A', 'B'], ['d'], ['b'])" },
        { "{{ [0,1,none]|select|list, [0,1]|reject|list, [1,2]|select('odd')|"
          "list, [1,2]|reject('gt', 1)|list }}",
          NULL,
          "([1], [0], [1], [1])" },
        { "{{ m|selectattr('r')|list|length, m|selectattr('r','equalto','u')|"
          "list, m|rejectattr('r','defined')|list }}",
          "{\"m\":[{\"r\":\"u\"},{\"r\":\"s\"},{}]}",
          "(2, [{'r': 'u'}], [{}])" },
        { "{{ n|select|list, 0|map('upper')|list }}",
          "{\"n\":null}",
          "([], [])" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ [1]|map }}",
          NULL,
          "chat template, line 1: map needs a filter or an attribute" },
        { "{{ [1]|map('nope')|list }}",
          NULL,
          "chat template, line 1: the filter \"nope\" is not supported" },
        { "{{ [1]|select('nope')|list }}",
          NULL,
          "chat template, line 1: the test \"nope\" is not supported" },
        { "{{ [1]|map(x=1)|list }}",
          NULL,
          "chat template, line 1: map takes no argument \"x\"" },
        { "{{ 1|join }}",
          NULL,
          "chat template, line 1: a value of type int cannot be iterated" },
        { "{{ [1]|select|last }}",
          NULL,
          "chat template, line 1: last needs a list, not a generator" },
        { "{{ 1|items|list }}",
          NULL,
          "chat template, line 1: items needs a dictionary, not a value of ty"
          "pe int" },
        { "{{ [1]|dictsort }}",
          NULL,
          "chat template, line 1: dictsort needs a dictionary" },
        { "{{ {}|dictsort(by='x') }}",
          NULL,
          "chat template, line 1: dictsort sorts by key or value" },
        { "{{ ['a']|sum(start='') }}",
          NULL,
          "chat template, line 1: sum adds no strings, join does" },
        { "{{ [1]|batch(0)|list }}",
          NULL,
          "chat template, line 1: batch makes lists of 1 to 10000 items" },
        { "{{ [[1]]|unique|list }}",
          NULL,
          "chat template, line 1: unhashable type: 'list'" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

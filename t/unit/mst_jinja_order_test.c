
/*
 * In which order items come, and which have none.
 */

#include "jinja.h"


static void
test_sorted(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ [3,1,2]|sort, ['b','A','c']|sort, ['b','A']|sort(case_sensitive"
          "=true), [3,1]|sort(reverse=true) }}",
          NULL,
          "([1, 2, 3], ['A', 'b', 'c'], ['A', 'b'], [3, 1])" },
        { "{{ m|sort(attribute='n')|map(attribute='k')|join, m|sort(true, att"
          "ribute='n')|map(attribute='k')|join }}",
          "{\"m\":[{\"n\":2,\"k\":\"a\"},{\"n\":1,\"k\":\"b\"},{\"n\":2,\"k\""
          ":\"c\"}]}",
          "('bac', 'acb')" },
        { "{{ m|sort(attribute='a,b.0')|map(attribute='c')|join, m|sort(true, "
          "attribute='a,b.0')|map(attribute='c')|join, m|sort(attribute='a,')|"
          "length }}",
          "{\"m\":[{\"a\":\"X\",\"b\":[2],\"c\":1},{\"a\":\"x\",\"b\":[1],"
          "\"c\":2},{\"a\":\"w\",\"b\":[9],\"c\":3},{\"a\":\"x\",\"b\":[1],"
          "\"c\":4}]}",
          "('3241', '1243', 4)" },
        { "{{ [x, x]|sort, [none, none]|sort, [{}, {}]|sort(true) }}",
          NULL,
          "([Undefined, Undefined], [None, None], [{}, {}])" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ [1,'a']|sort }}",
          NULL,
          "chat template, line 1: 'str' and 'int' have no order" },
        { "{{ [{'a':1,'b':2},{'a':1,'b':'x'}]|sort(attribute='a,b') }}",
          NULL,
          "chat template, line 1: 'str' and 'int' have no order" },
        { "{{ [none, 1]|sort }}",
          NULL,
          "chat template, line 1: 'int' and 'None' have no order" },
        { "{{ {'a':none,'b':none}|dictsort(by='value') }}",
          NULL,
          "chat template, line 1: 'None' and 'None' have no order" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_sorted),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

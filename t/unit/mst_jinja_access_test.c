
/*
 * Names, attributes, items, slices, iteration.
 */

#include "jinja.h"


static void
test_items(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ d.items is callable, d['items'], d.k, d.nope }}",
          "{\"d\":{\"items\":1,\"k\":2}}",
          "(True, 1, 2, Undefined)" },
        { "{{ l[9], l['x'], l[-9], 'abc'[1], 'hél'[1], 'abc'[9] }}",
          "{\"l\":[1]}",
          "(Undefined, Undefined, Undefined, 'b', 'é', Undefined)" },
        { "{{ 'héllo'[1:3], 'héllo'[::-1], 'abc'[5:], 'abc'[-2:], 'abc'[2:1] "
          "}}",
          NULL,
          "('él', 'olléh', '', 'bc', '')" },
        { "{{ l[5:], l[:-1], l[::-2], l[10:0:-1] }}",
          "{\"l\":[1,2,3]}",
          "([], [1, 2], [3, 1], [3, 2])" },
        { "{{ l[-9223372036854775807:9223372036854775807:9223372036854775807]"
          " }}",
          "{\"l\":[1,2,3]}",
          "[1]" },
        { "{% for c in 'hé' %}{{ c }},{% endfor %}{% for k in d %}{{ k }}{% e"
          "ndfor %}{% for x in u %}{% endfor %}",
          "{\"d\":{\"a\":1,\"b\":2}}",
          "h,é,ab" },
        { "{{ 'b' in 'abc', 'k' in d, 2 in [1, 2.0], 1 in u, '' in '' }}",
          "{\"d\":{\"k\":1}}",
          "(True, True, True, False, True)" },
        { "{{ n.a, n['x'] }}",
          "{\"n\":null}",
          "(Undefined, Undefined)" },
        { "{% set ns = namespace(a=1) %}{% set ns.b = 2 %}{{ ns.a, ns.b, ns['"
          "a'] }}",
          NULL,
          "(1, 2, 1)" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ u['a'] }}",
          NULL,
          "chat template, line 1: 'u' is undefined" },
        { "{{ u[1:] }}",
          NULL,
          "chat template, line 1: 'u' is undefined" },
        { "{{ [1][::0] }}",
          NULL,
          "chat template, line 1: slice step cannot be zero" },
        { "{{ [1]['a':] }}",
          NULL,
          "chat template, line 1: a slice has a bound of type str" },
        { "{{ d[1:] }}",
          "{\"d\":{}}",
          "chat template, line 1: a value of type dict cannot be sliced" },
        { "{% for x in 1 %}{% endfor %}",
          NULL,
          "chat template, line 1: a value of type int cannot be iterated" },
        { "{{ 1 in 'a' }}",
          NULL,
          "chat template, line 1: a value of type int cannot be in a string" },
        { "{{ 1 in n }}",
          "{\"n\":null}",
          "chat template, line 1: a value of type None cannot be iterated" },
        { "{{ [] in d }}",
          "{\"d\":{}}",
          "chat template, line 1: unhashable type: 'list'" }
    };

    (void) state;

    jinja_refusals(cases);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

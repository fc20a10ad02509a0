
/*
 * Methods of lists, dictionaries and loops.
 */

#include "jinja.h"


static void
test_methods(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ d.items()|list, d.keys()|list, d.values()|list, d.get('a'), d.g"
          "et('b'), d.get('b', 2), d.copy() }}",
          "{\"d\":{\"a\":1}}",
          "([('a', 1)], ['a'], [1], 1, None, 2, {'a': 1})" },
        { "{{ [1,2,1].count(1), [1,2].index(2), (1,2).count(3), [1].copy() }}",
          NULL,
          "(2, 1, 0, [1])" },
        { "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revin"
          "dex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.l"
          "ength }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loo"
          "p.nextitem }}{{ loop.cycle('x', 'y') }};{% endfor %}",
          NULL,
          "1032TrueFalse310bx;2121FalseFalse310acy;3210FalseTrue310bx;" },
        { "{% for x in [1,1,2] %}{{ loop.changed(x) }}{% endfor %}{% for x in"
          " [1] %}{{ loop.nope is defined }}{% endfor %}",
          NULL,
          "TrueFalseTrueFalse" }
    };

    (void) state;

    jinja_table(cases);
}


static void
test_refused(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ [1].index(2) }}",
          NULL,
          "chat template, line 1: index() does not find the item" },
        { "{{ (1,).copy() }}",
          NULL,
          "chat template, line 1: 'copy' is undefined" },
        { "{{ n.items() }}",
          "{\"n\":1}",
          "chat template, line 1: 'items' is undefined" },
        { "{{ d.get([]) }}",
          "{\"d\":{}}",
          "chat template, line 1: unhashable type: 'list'" },
        { "{{ d.get() }}",
          "{\"d\":{}}",
          "chat template, line 1: get() needs 1 argument" },
        { "{{ l.append(2) if l else 'none' }}",
          "{\"l\":[1]}",
          "chat template, line 1: a template must not change a list" },
        { "{{ d.update({'a': 1}) }}",
          "{\"d\":{}}",
          "chat template, line 1: a template must not change a dict" },
        { "{{ t.append(2) }}",
          "{\"t\":\"a\"}",
          "chat template, line 1: 'append' is undefined" }
    };

    (void) state;

    jinja_refusals(cases);

    /* what is not called hurts nobody */

    jinja_expect("{{ l.append(2) if l else 'none' }}", "{\"l\":[]}", "none");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Templates as programs: the whole engine.  Its limits, what happens without
 * memory, and whose bytes are whose.
 */

#include "jinja.h"


/* the origin of every byte survives whatever cuts and joins */

static void
test_origins(void **state)
{
    static const char  vars[] =
        "{\"v\":\"<|x|>\",\"w\":\" <|y|>,<|z|> \",\"l\":[\"<|a|>\",\"b\"],"
        "\"d\":{\"<|k|>\":\"<|v|>\"}}";

    (void) state;

    jinja_marks("<|t|>{{ v }}<|t|>", vars, "[<|t|>]<|x|>[<|t|>]");
    jinja_marks("{{ '<|t|>' + v + '<|t|>' }}", vars, "[<|t|>]<|x|>[<|t|>]");
    jinja_marks("{{ '<|t|>' ~ v }}{{ w|trim }}", vars,
                "[<|t|>]<|x|><|y|>,<|z|>");
    jinja_marks("{{ (w.split(',')[1] ~ '|t').strip() }}", vars,
                "<|z|> [|t]");
    jinja_marks("{{ v[1:] ~ '<|t|>'[1:] }}", vars, "|x|>[|t|>]");
    jinja_marks("{{ l|join('<|t|>') }}", vars, "<|a|>[<|t|>]b");
    jinja_marks("{{ '<|t|>'.join(l) }}", vars, "<|a|>[<|t|>]b");
    jinja_marks("{{ v|replace('x', '<|t|>') }}", vars, "<|[<|t|>]|>");
    jinja_marks("{{ '<|t|>'|replace('t', v) }}", vars, "[<|]<|x|>[|>]");
    jinja_marks("{{ '%s<|t|>%s' % (v, 't') }}", vars, "<|x|>[<|t|>t]");
    jinja_marks("{{ d|tojson }}{{ l }}", vars,
                "{\"<|k|>\": \"<|v|>\"}['<|a|>', 'b']");
    jinja_marks("{{ ['<|t|>']|tojson }}", vars, "[\"<|t|>\"]");
    jinja_marks("{% for k, x in d.items() %}{{ k }}={{ x }}{% endfor %}",
                vars, "<|k|>[=]<|v|>");
    jinja_marks("{% set x %}<|t|>{{ v }}{% endset %}{{ x|upper }}", vars,
                "[<|T|>]<|X|>");
    jinja_marks("{% macro m(a) %}<|t|>{{ a }}{% endmacro %}{{ m(v)[::-1] }}",
                vars, ">|x|<[>|t|<]");
    jinja_marks("{% set ns = namespace(s='<|t|>') %}{% for x in l %}"
                "{% set ns.s = ns.s + x + '|' %}{% endfor %}{{ ns.s }}", vars,
                "[<|t|>]<|a|>[|]b[|]");
    jinja_marks("{{ 1 }}{{ v|length }}a", vars, "15[a]");
    jinja_marks("{{ (v ~ '\\n<|t|>')|indent(2) }}", vars,
                "<|x|>[\n  <|t|>]");
    jinja_marks("{{ v|capitalize ~ v|title ~ v.swapcase() }}", vars,
                "<|x|><|x|><|X|>");
    jinja_marks("{% filter lower %}<|T|>{{ v }}{% endfilter %}", vars,
                "[<|t|>]<|x|>");
}


static void
test_limits(void **state)
{
    char          *text;
    mst_err_t      err = { "" };

    (void) state;

    text = malloc(MST_JINJA_SOURCE + 1);
    assert_non_null(text);
    memset(text, 'a', MST_JINJA_SOURCE + 1);
    assert_null(mst_jinja_create(mst_str(text, MST_JINJA_SOURCE + 1), &err));
    assert_string_equal(err.text, "262145 bytes are too long, at most "
                        "262144");
    free(text);

    jinja_refuse("{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}"
                 "{{ f(1) }}", NULL,
                 "chat template, line 1: more than 600 levels are nested");
    jinja_refuse("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}"
                 "{% endif %}{% endmacro %}{{ f(60) }}", NULL,
                 "chat template, line 1: the template needs more than 32768 "
                 "KiB of memory");
    jinja_refuse("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                 "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}", NULL,
                 "chat template, line 1: the template needs more than 32768 "
                 "KiB of memory");
    jinja_refuse("{% set ns = namespace(s='ab') %}{% for i in range(60) %}"
                 "{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}", NULL,
                 "chat template, line 1: the template takes more than "
                 "4000000 steps");
}


/* what looks at a long text again and again */

static void
test_long(void **state)
{
    size_t  i;
    char    source[128], vars[16384];

    static const struct {
        const char  *call;
        char         first;
        char         fill;
        char         last;
    } cases[] = {
        { "v|trim", ' ', ' ', ' ' },
        { "v.rstrip()", ' ', ' ', ' ' },
        { "v.format(1)", '{', '0', '}' }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void) snprintf(source, sizeof(source), "{%% for i in range(100000) "
                        "%%}{%% set x = %s %%}{%% endfor %%}", cases[i].call);
        memset(vars, cases[i].fill, sizeof(vars));
        memcpy(vars, "{\"v\":\"", 6);
        vars[6] = cases[i].first;
        vars[sizeof(vars) - 4] = cases[i].last;
        memcpy(vars + sizeof(vars) - 3, "\"}", 3);
        jinja_refuse(source, vars, "chat template, line 1: the template takes "
                     "more than 4000000 steps");
    }
}


static void
test_no_memory(void **state)
{
    int             rc;
    long            n;
    mst_err_t       err;
    mst_text_out_t  out;

    static const char  source[] =
        "{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}"
        "{% set ns = namespace(x=[], s='') %}{% for k, v in d|dictsort %}"
        "{% set ns.s = ns.s ~ k ~ v|tojson(indent=1) %}{{ m(k, b=v) }}"
        "{% endfor %}{% set c %}{{ ns.s|upper }}{% endset %}{{ c|trim }}"
        "{{ l|map('string')|select|join(', ')|replace('1', 'one') }}"
        "{{ l[::-1] }}{{ 'a,b'.split(',')|list|length }}{{ '%s' % l }}";
    static const char  vars[] =
        "{\"d\":{\"b\":[1.5],\"a\":\"\\u00e9\"},\"l\":[1,2,\"x\"]}";

    (void) state;

    for (n = 1; ; n++) {
        mst_mem_fail_after(n);
        rc = jinja_run(source, vars, &out, &err);
        mst_mem_fail_after(0);
        mst_text_out_fini(&out);

        if (rc == MST_OK) {
            break;
        }

        assert_int_equal(rc, MST_ERROR);
        assert_string_equal(err.text, "");
    }

    assert_true(n > 10);
}


static void
test_variables(void **state)
{
    static const jinja_case_t  cases[] = {
        { "{{ a }}", "{\"b\":1}", "" },
        { "{{ a }}{{ range is defined }}", "{\"a\":1,\"b\":2,\"range\":3}",
          "1True" },
        { "{% set a = a + 1 %}{{ a }}", "{\"a\":1}", "2" },
        { "", NULL, "" },
        { "text", NULL, "text" }
    };

    (void) state;

    jinja_table(cases);
    mst_jinja_destroy(NULL);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_variables)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Programs as templates: spans and control tokens, the end of a message that
 * goes on, whose memory the text is.
 */

#include "mst_vocab_build.h"

#include "base/mst_mem.h"
#include "text/mst_template.h"

#include "text/mst_detok.h"


static vocab_t           vocab;
static mst_tokenizer_t  *tokenizer;


static int
setup(void **state)
{
    build_t      b;
    mst_err_t    err = { "" };
    mst_gguf_t  *g;

    (void) state;

    vocab_init(&vocab);
    (void) vocab_control(&vocab, "<s>");
    (void) vocab_control(&vocab, "<s>>");
    (void) vocab_raw(&vocab, "<user>", 6, 4);
    vocab.bos = (int64_t) vocab.n - 3;
    vocab_write(&vocab, &b);

    g = build_open(&b);
    tokenizer = mst_tokenizer_create_gguf(g, &err);
    assert_non_null(tokenizer);
    mst_gguf_close(g);
    build_fini(&b);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;
    mst_tokenizer_destroy(tokenizer);

    return 0;
}


static mst_message_t
message(mst_role_t role, const char *text)
{
    mst_message_t  m;

    memset(&m, 0, sizeof(m));
    m.role = role;
    m.content = mst_str(text, strlen(text));

    return m;
}


/* the spans as text, control tokens in brackets, spans apart by "|" */

static const char *
shown(const mst_prompt_t *p)
{
    size_t       i, n;
    mst_str_t    s;
    static char  text[2000];

    for (i = 0, n = 0; i < p->n; i++) {

        if (p->spans[i].len == 0) {
            s = mst_tokenizer_name(tokenizer, p->spans[i].id);
            n += (size_t) snprintf(text + n, sizeof(text) - n, "[%.*s]",
                                   (int) s.len, s.data);

        } else {
            n += (size_t) snprintf(text + n, sizeof(text) - n, "%s%.*s",
                                   i && p->spans[i - 1].len ? "|" : "",
                                   (int) p->spans[i].len,
                                   p->text.data + p->spans[i].off);
        }
    }

    text[n] = '\0';

    return text;
}


static void
expect_end(const char *source, const mst_message_t *m, size_t n,
    mst_template_end_t end, const char *want)
{
    int              rc;
    mst_err_t        err = { "" };
    mst_prompt_t     p;
    mst_template_t  *t;

    t = mst_template_create_text(mst_str(source, strlen(source)), tokenizer,
                                 "T", &err);
    assert_string_equal(err.text, "");

    mst_prompt_init(&p);
    rc = mst_template_render_as(t, m, n, end, &p, &err);
    assert_string_equal(rc == MST_OK ? shown(&p) : err.text, want);

    mst_prompt_fini(&p);
    mst_template_destroy(t);
}


static void
expect(const char *source, const char *text, const char *want)
{
    mst_message_t  m;

    m = message(MST_ROLE_USER, text);
    expect_end(source, &m, 1, MST_TEMPLATE_ANSWER, want);
}


static void
test_spans(void **state)
{
    (void) state;

    expect("<|im_start|>u\n{{ messages[0].content }}<|im_end|>",
           "<|im_end|>\n", "[<|im_start|>]u\n<|im_end|>\n[<|im_end|>]");
    expect("a{{ messages[0].content }}b", "-", "a-b");
    expect("{{ bos_token + messages[0].content + eos_token }}", "x",
           "[<s>]x[<|im_end|>]");

    /* the longest spelling; of unused and user-defined ones the latter */

    expect("<s>><s{{ messages[0].content }}<user><s", "><s>",
           "[<s>>]<s><s>[<user>]<s");

    /* one that is made of the template's words and a message is none */

    expect("<|im_{{ messages[0].content }}", "end|>", "<|im_end|>");
    expect("{{ '<|im_' + messages[0].content + '|>' }}", "end",
           "<|im_end|>");
    expect("{{ '<|im_' ~ 'end|>' }}", "", "[<|im_end|>]");

    /* roles are the server's own words */

    expect("{{ '<' + messages[0].role + '>' }}", "", "[<user>]");

    /* what there is beside messages */

    expect("{{ tools is none }}{{ documents is none }}"
           "{{ add_generation_prompt }}{{ pad_token is defined }}"
           "{{ messages[0].name is defined }}", "", "TrueTrueTrueFalseFalse");
    expect("{{ x }}", "", "");
}


static void
expect_chat(const char *source, const mst_template_chat_t *c,
    const char *want)
{
    int              rc;
    mst_err_t        err = { "" };
    mst_prompt_t     p;
    mst_template_t  *t;

    t = mst_template_create_text(mst_str(source, strlen(source)), tokenizer,
                                 "T", &err);
    assert_string_equal(err.text, "");

    mst_prompt_init(&p);
    rc = mst_template_render_chat(t, c, &p, &err);
    assert_string_equal(rc == MST_OK ? shown(&p) : err.text, want);

    mst_prompt_fini(&p);
    mst_template_destroy(t);
}


/* calls, their results and thoughts */

static void
test_calls(void **state)
{
    mst_call_t           calls[2];
    mst_message_t        m[2];
    mst_template_chat_t  c;

    (void) state;

    memset(calls, 0, sizeof(calls));
    memset(&c, 0, sizeof(c));

    calls[0].id = mst_str("i1", 2);
    calls[0].name = mst_str("f", 1);
    calls[0].arguments = mst_str("{\"b\":1.50,\"a\":\"<s>\"}", 20);
    calls[1].name = mst_str("g", 1);
    calls[1].arguments = mst_str("{oops", 5);

    m[0] = message(MST_ROLE_ASSISTANT, "");
    m[0].calls = calls;
    m[0].n_calls = 2;
    m[0].thinking = mst_str("hm", 2);
    m[1] = message(MST_ROLE_TOOL, "r");
    m[1].call_id = mst_str("i1", 2);
    m[1].name = mst_str("f", 1);

    c.messages = m;
    c.n = 2;

    expect_chat("{% for c in messages[0].tool_calls %}{{ c.id }} {{ c.type }} "
                "{{ c.function.name }} {{ c.function.arguments | tojson }}\n"
                "{% endfor %}{{ messages[0].reasoning_content }}", &c,
                "i1 function f {\"b\": 1.5, \"a\": \"<s>\"}\n"
                " function g \"{oops\"\nhm");
    expect_chat("{{ messages[1].tool_call_id }} {{ messages[1].name }} "
                "{{ messages[1].tool_calls is defined }}", &c, "i1 f False");
    expect_chat("{{ messages[0].tool_calls[0].function.arguments.a }}"
                "{{ bos_token }}", &c, "<s>[<s>]");
}


static void
test_variables(void **state)
{
    size_t               i;
    mst_message_t        m;
    mst_template_chat_t  c;

    static const struct {
        const char  *variables;
        const char  *want;
    } bad[] = {
        { "[]", "chat_template_kwargs is no object" },
        { "{\"messages\":[]}", "chat_template_kwargs sets \"messages\", "
          "which the server does" },
        { "{\"bos_token\":\"\"}", "chat_template_kwargs sets "
          "\"bos_token\", which the server does" }
    };

    (void) state;

    m = message(MST_ROLE_USER, "u");
    memset(&c, 0, sizeof(c));
    c.messages = &m;
    c.n = 1;

    expect_chat("{{ tools is none }} {{ reasoning_effort is defined }}", &c,
                "True False");

    c.tools = mst_str("[{\"function\":{\"name\":\"</s><s>\"}}]", 33);
    c.effort = mst_str("low", 3);
    c.variables = mst_str("{\"x\":\"<s>\",\"y\":[1,null]}", 24);

    expect_chat("{{ tools | tojson }}{{ reasoning_effort }}{{ x }}{{ y }}",
                &c, "[{\"function\": {\"name\": \"</s><s>\"}}]low<s>"
                "[1, None]");

    /* a variable of its own wins */

    c.variables = mst_str("{\"reasoning_effort\":\"high\"}", 27);
    expect_chat("{{ reasoning_effort }}", &c, "high");

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        c.variables = mst_str(bad[i].variables, strlen(bad[i].variables));
        expect_chat("{{ 1 }}", &c, bad[i].want);
    }
}


static void
test_continue(void **state)
{
    size_t         i;
    mst_message_t  m[2];

    static const char  chat[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{{ m.content | trim }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    static const char *const  last[][2] = {
        { "Oh", "Oh" }, { " Oh ", "Oh" }, { "", "" }, { "  \n", "" },
        { "Hi", "Hi" }, { "assistant", "assistant" }
    };
    char  want[200];

    (void) state;

    m[0] = message(MST_ROLE_USER, "Hi");

    for (i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
        m[1] = message(MST_ROLE_ASSISTANT, last[i][0]);
        (void) snprintf(want, sizeof(want), "[<|im_start|>]user\nHi"
                        "[<|im_end|>]\n[<|im_start|>]assistant\n%s",
                        last[i][1]);
        expect_end(chat, m, 2, MST_TEMPLATE_CONTINUE, want);
    }

    m[1] = message(MST_ROLE_ASSISTANT, "a b");
    expect_end(chat, m, 2, MST_TEMPLATE_CLOSED,
               "[<|im_start|>]user\nHi[<|im_end|>]\n[<|im_start|>]assistant\n"
               "a b[<|im_end|>]\n");

    /* in two places: the last one; in none: a sentence */

    expect_end("{{ messages[1].content }}-{{ messages[1].content }}.", m, 2,
               MST_TEMPLATE_CONTINUE, "a b-a b");
    expect_end("{{ messages[1].content.split(' ')[0] }}.", m, 2,
               MST_TEMPLATE_CONTINUE, "a");
    expect_end("{{ messages[0].content }}", m, 2, MST_TEMPLATE_CONTINUE,
               "the chat template does not show the last message, so it "
               "cannot be continued");
    m[1] = message(MST_ROLE_ASSISTANT, "");
    expect_end("{{ messages[0].content }}", m, 2, MST_TEMPLATE_CONTINUE,
               "the chat template does not show the last message, so it "
               "cannot be continued");
}


static void
test_refused(void **state)
{
    mst_message_t  m;

    (void) state;

    m = message(MST_ROLE_TOOL, "x");
    expect_end("{% if messages[0].role not in ['user'] %}"
               "{{ raise_exception('only users') }}{% endif %}", &m, 1,
               MST_TEMPLATE_ANSWER, "only users");
    expect_end("\n\n{{ messages[0].a.b }}", &m, 1, MST_TEMPLATE_ANSWER,
               "chat template, line 3: 'a' is undefined");
}


/* the output is the prompt's text: nothing of it is needed or freed twice when
   memory ends, or when the request does while its text is encoded */

static void
test_ends_early(void **state)
{
    int              rc;
    long             n;
    char             text[600];
    mst_err_t        err = { "" };
    mst_prompt_t     p;
    mst_encode_t    *e;
    mst_message_t    m[2];
    mst_template_t  *t;

    static const char  source[] =
        "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>\n"
        "{% endfor %}";

    (void) state;

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    m[0] = message(MST_ROLE_USER, text);
    m[1] = m[0];

    t = mst_template_create_text(mst_str(source, strlen(source)), tokenizer,
                                 "T", &err);
    assert_non_null(t);

    for (n = 1; ; n++) {
        mst_prompt_init(&p);
        mst_mem_fail_after(n);
        rc = mst_template_render(t, m, 2, &p, &err);
        mst_mem_fail_after(0);

        if (rc == MST_OK) {
            break;
        }

        assert_int_equal(rc, MST_ERROR);
        assert_string_equal(err.text, "");
        mst_prompt_fini(&p);
    }

    assert_true(n > 3);
    mst_template_destroy(t);

    assert_int_equal(p.text.len, 2 * sizeof(text));
    assert_int_equal(p.spans[3].off, sizeof(text) - 1);
    assert_int_equal(p.spans[5].off, sizeof(text));

    e = mst_encode_create(tokenizer, &p);
    assert_non_null(e);
    assert_int_equal(mst_encode_run(e, 100), MST_AGAIN);

    mst_encode_destroy(e);
    mst_prompt_fini(&p);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ends_early)
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

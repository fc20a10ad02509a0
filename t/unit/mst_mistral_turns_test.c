
/*
 * Messages to turns: what becomes one, and in which order.
 */

#include "mst_mistral_spans.h"


static void
test_joined(void **state)
{
    static const char  same[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"user\",\"content\":\"\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"},"
        "{\"type\":\"text\",\"text\":\"\"},"
        "{\"type\":\"text\",\"text\":\"c\"}]},"
        "{\"role\":\"assistant\",\"content\":\"d\"},"
        "{\"role\":\"assistant\",\"content\":\"e\"},"
        "{\"role\":\"user\",\"content\":\"f\"}]}";

    (void) state;

    spans_expect(chats.tekken, 13, same, "<s>[INST]a\n\nb\n\nc[/INST]"
                 "d\n\ne</s>[INST]f[/INST]");
    spans_expect(chats.tekken, 15, same, "<s>[MODEL_SETTINGS]"
                 "{\"reasoning_effort\": \"none\"}[/MODEL_SETTINGS]"
                 "[INST]a\n\nbc[/INST]d\n\ne</s>[INST]f[/INST]");
    spans_expect(chats.spm[0], 1, same, "<s>[INST] a\n\nb\n\nc [/INST]|"
                 "d\n\ne</s>[INST] f [/INST]");
}


/* system messages stand between: neighbours are those of the list */

static void
test_system(void **state)
{
    static const char  between[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s1\"},"
        "{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"s2\"},{\"type\":\"text\",\"text\":\"s3\"}]},"
        "{\"role\":\"user\",\"content\":\"b\"}]}";
    static const char  first[] =
        "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},"
        "{\"role\":\"user\",\"content\":\"b\"}]}";
    static const char  alone[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"}]}";

    static const char  empty[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"system\",\"content\":\"\"},"
        "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"\"},{\"type\":\"text\",\"text\":\"t\"}]},"
        "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"\"}]},"
        "{\"role\":\"user\",\"content\":\"a\"}]}";

    (void) state;

    /* a list of nothing is a text, nothing itself is none */

    spans_expect(chats.spm[2], 3, empty, "<s>[INST]s\n\nt\n\n\n\na[/INST]");

    spans_expect(chats.spm[3], 7, between, "<s>[SYSTEM_PROMPT]s1"
                 "[/SYSTEM_PROMPT][INST]a[/INST][SYSTEM_PROMPT]s2\n\ns3"
                 "[/SYSTEM_PROMPT][INST]b[/INST]");
    spans_expect(chats.spm[2], 3, between, "<s>[INST]a[/INST][INST]"
                 "s1\n\ns2\n\ns3\n\nb[/INST]");
    spans_expect(chats.spm[0], 1, between, "<s>[INST] s1\n\ns2\n\ns3\n\na "
                 "[/INST]|[INST] b [/INST]");

    spans_expect(chats.spm[2], 3, first, "<s>[INST][/INST]a</s>[INST]b"
                 "[/INST]");
    spans_expect(chats.spm[3], 7, first, "<s>a</s>[INST]b[/INST]");

    spans_expect(chats.spm[2], 3, alone, "<s>[INST]s\n\n[/INST]");
    spans_expect(chats.spm[3], 7, alone, "<s>[SYSTEM_PROMPT]s"
                 "[/SYSTEM_PROMPT]");
}


static void
test_results(void **state)
{
    static const char  turned[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"call_111111111\","
        "\"function\":{\"name\":\"f\"}}]},{\"role\":\"assistant\","
        "\"tool_calls\":[]"
        ",\"content\":\"\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"call_111111111\","
        "\"content\":\"r\"}]}";
    static const char  two[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"111111111\","
        "\"function\":{\"name\":\"f\"}},{\"id\":\"222222222\","
        "\"function\":{\"name\":\"g\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"222222222\",\"content\":"
        "\"2\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"111111111\",\"content\":"
        "\"1\"}]}";
    mst_err_t     err;
    mst_prompt_t  p;

    (void) state;

    /* an assistant that says nothing more stands between */

    assert_int_equal(chats_render(chats.tekken, 13, turned, &p, &err),
                     MST_ERROR);
    mst_prompt_fini(&p);

    spans_expect(chats.tekken, 13, two, "<s>[INST]q[/INST][TOOL_CALLS]f[ARGS]"
                 "{}[TOOL_CALLS]g[ARGS]{}</s>[TOOL_RESULTS]1[/TOOL_RESULTS]"
                 "[TOOL_RESULTS]2[/TOOL_RESULTS]");
    spans_expect(chats.tekken, 11, two, "<s>[INST]q[/INST][TOOL_CALLS]f"
                 "[CALL_ID]111111111[ARGS]{}[TOOL_CALLS]g[CALL_ID]222222222"
                 "[ARGS]{}</s>[TOOL_RESULTS]111111111[TOOL_CONTENT]1"
                 "[/TOOL_RESULTS][TOOL_RESULTS]222222222[TOOL_CONTENT]2"
                 "[/TOOL_RESULTS]");
    spans_expect(chats.tekken, 7, two, "<s>[INST]q[/INST][TOOL_CALLS]"
                 "[{\"name\": \"f\", \"arguments\": {}, \"id\": "
                 "\"111111111\"}, {\"name\": \"g\", \"arguments\": {}, "
                 "\"id\": \"222222222\"}]</s>[TOOL_RESULTS]222222222"
                 "[TOOL_CONTENT]2[/TOOL_RESULTS][TOOL_RESULTS]111111111"
                 "[TOOL_CONTENT]1[/TOOL_RESULTS]");
}


/* beside the content, unless the content has its own */

static void
test_thoughts(void **state)
{
    static const char  beside[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":"
        "\"t\"},{\"role\":\"user\",\"content\":\"r\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
        "\"thinking\":\"u\"},{\"type\":\"text\",\"text\":\"b\"}],"
        "\"reasoning_content\":\"v\"},{\"role\":\"user\",\"content\":\"s\"}]}";
    static const char  plain[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":"
        "\"t\"},{\"role\":\"user\",\"content\":\"r\"}]}";

    (void) state;

    spans_expect(chats.tekken, 13, beside, "<s>[INST]q[/INST][THINK]t"
                 "[/THINK]a</s>[INST]r[/INST][THINK]u[/THINK]b</s>[INST]s"
                 "[/INST]");
    spans_expect(chats.tekken, 11, plain, "<s>[INST]q[/INST]a</s>[INST]r"
                 "[/INST]");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_thoughts)
    };

    return cmocka_run_group_tests(tests, chats_setup, chats_teardown);
}


/* Messages: roles, contents, and what is refused with which path. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_call.h"
#include "api/mst_chat.h"
#include "base/mst_mem.h"


typedef struct {
    const char  *list;
    const char  *code;
    const char  *param;
    const char  *part;
} mst_case_t;


#define U        "{\"role\":\"user\",\"content\":\"x\"}"
#define A        "\"role\":\"assistant\""
#define PART(p)  "[{\"role\":\"user\",\"content\":[" p "]}]"


static const mst_case_t  cases[] = {
    { "[]", "invalid_value", "messages", "is an empty list" },
    { "[1]", "invalid_type", "messages[0]", "is 1, must be an object" },
    { "[" U ",null]", "invalid_type", "messages[1]", "is null" },
    { "[" U ",[]]", "invalid_type", "messages[1]", "empty list" },
    { "[{}]", "missing_required_parameter", "messages[0].role",
      "one of system, developer, user, assistant and tool" },
    { "[{\"content\":\"x\"}]", "missing_required_parameter",
      "messages[0].role", "is missing" },
    { "[{\"role\":null,\"content\":\"x\"}]", "missing_required_parameter",
      "messages[0].role", "is null" },
    { "[{\"role\":1,\"content\":\"x\"}]", "invalid_type",
      "messages[0].role", "is 1" },
    { "[" U ",{\"role\":\"bot\",\"content\":\"x\"}]", "invalid_value",
      "messages[1].role", "is \"bot\"" },
    { "[{\"role\":\"\",\"content\":\"x\"}]", "invalid_value",
      "messages[0].role", "is \"\"" },
    { "[{\"role\":\"User\",\"content\":\"x\"}]", "invalid_value",
      "messages[0].role", "is \"User\"" },
    { "[{\"role\":\"user\\u0000\",\"content\":\"x\"}]", "invalid_value",
      "messages[0].role", "is \"user?\"" },
    { "[{\"role\":\"function\",\"content\":\"x\"}]", "invalid_value",
      "messages[0].role", "is \"function\"" },

    { "[{\"role\":\"user\"}]", "missing_required_parameter",
      "messages[0].content", "must be a string or a list of text parts" },
    { "[" U "," U ",{\"role\":\"user\",\"content\":null}]",
      "missing_required_parameter", "messages[2].content",
      "is null, must be a string or a list of text parts" },
    { "[{\"role\":\"tool\",\"content\":null,\"tool_calls\":[{}]}]",
      "missing_required_parameter", "messages[0].content", "is null" },
    { "[{" A "}]", "missing_required_parameter", "messages[0].content",
      "where there are no tool_calls" },
    { "[{" A ",\"content\":null,\"tool_calls\":null}]",
      "missing_required_parameter", "messages[0].content", "is null" },
    { "[{" A ",\"content\":null,\"tool_calls\":[]}]",
      "missing_required_parameter", "messages[0].content", "is null" },
    { "[{" A ",\"content\":null,\"tool_calls\":{}}]", "invalid_type",
      "messages[0].tool_calls", "must be a list" },
    { "[{" A ",\"content\":null,\"function_call\":\"f\"}]", "invalid_type",
      "messages[0].function_call", "must be an object" },
    { "[{\"role\":\"user\",\"content\":1}]", "invalid_type",
      "messages[0].content", "is 1" },
    { "[{\"role\":\"user\",\"content\":{}}]", "invalid_type",
      "messages[0].content", "is an empty object" },
    { "[{\"role\":\"user\",\"content\":true}]", "invalid_type",
      "messages[0].content", "is true" },

    { PART(""), "invalid_value", "messages[0].content",
      "at least one text part" },
    { PART("1"), "invalid_type", "messages[0].content[0]",
      "must be an object" },
    { PART("\"x\""), "invalid_type", "messages[0].content[0]", "is \"x\"" },
    { PART("{}"), "missing_required_parameter", "messages[0].content[0].type",
      "is missing" },
    { PART("{\"type\":1}"), "invalid_type", "messages[0].content[0].type",
      "must be a string" },
    { PART("{\"type\":\"text\"}"), "missing_required_parameter",
      "messages[0].content[0].text", "is missing" },
    { PART("{\"type\":\"text\",\"text\":1}"), "invalid_type",
      "messages[0].content[0].text", "must be a string" },
    { PART("{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\","
           "\"image_url\":{\"url\":\"data:\"}}"), "unsupported",
      "messages[0].content[1].type", "is \"image_url\", which this server" },
    { PART("{\"type\":\"input_audio\"}"), "unsupported",
      "messages[0].content[0].type", "input_audio" },
    { PART("{\"type\":\"file\"}"), "unsupported",
      "messages[0].content[0].type", "file" },
    { PART("{\"type\":\"document_url\"}"), "unsupported",
      "messages[0].content[0].type", "document_url" },
    { PART("{\"type\":\"poem\"}"), "invalid_value",
      "messages[0].content[0].type", "is \"poem\", must be \"text\"" },

    { "[{\"role\":\"user\",\"content\":\"x\",\"name\":1}]", "invalid_type",
      "messages[0].name", "must be a string" },
    { "[{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":1}]",
      "invalid_type", "messages[0].tool_call_id", "must be a string" },
    { "[{" A ",\"content\":\"x\",\"prefix\":1}]", "invalid_type",
      "messages[0].prefix", "must be true or false" },
    { "[{" A ",\"content\":\"x\",\"prefix\":true}," U "]", "invalid_value",
      "messages[0].prefix", "only a last message of the assistant" },
    { "[{\"role\":\"user\",\"content\":\"x\",\"prefix\":true}]",
      "invalid_value", "messages[0].prefix", "only a last message" },
    { "[{" A ",\"content\":\"x\",\"audio\":{\"id\":\"1\"}}]", "unsupported",
      "messages[0].audio", "does not support" }
};


/* of the chat that was parsed last: messages, too */

static mst_chat_t  chat;


static void
drop(void)
{
    mst_free(chat.messages);
    mst_free(chat.parts);
    mst_call_free(chat.calls, chat.n_calls);
    memset(&chat, 0, sizeof(chat));
}


static int
parse(const char *list, mst_buf_t *text, mst_message_t **m, size_t *n,
    mst_api_error_t *e)
{
    int      rc, prefix;
    json_t  *root;

    memset(e, 0, sizeof(mst_api_error_t));
    memset(&chat, 0, sizeof(chat));

    mst_buf_init(text);
    assert_int_equal(mst_buf_reserve(text, strlen(list)), MST_OK);

    root = json_loads(list, JSON_ALLOW_NUL, NULL);
    assert_non_null(root);

    rc = mst_chat_parse(root, text, &chat, &prefix, e);
    *m = chat.messages;
    *n = chat.n;

    json_decref(root);

    return rc;
}


static void
test_errors(void **state)
{
    size_t            i, n;
    mst_buf_t         text;
    mst_message_t    *m;
    mst_api_error_t   e;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (parse(cases[i].list, &text, &m, &n, &e) != MST_ERROR) {
            fail_msg("%s is accepted", cases[i].list);
        }

        if (strstr(e.message, cases[i].part) == NULL) {
            fail_msg("%s: \"%s\"", cases[i].list, e.message);
        }

        assert_int_equal(e.status, 400);
        assert_string_equal(e.code, cases[i].code);
        assert_string_equal(e.param, cases[i].param);

        drop();
        mst_buf_fini(&text);
    }
}


static void
message_is(const mst_message_t *m, mst_role_t role, const char *content,
    size_t len)
{
    assert_int_equal(m->role, role);
    assert_int_equal(m->content.len, len);
    assert_memory_equal(m->content.data, content, len);
}


static void
test_messages(void **state)
{
    size_t            n;
    mst_buf_t         text;
    mst_message_t    *m;
    mst_api_error_t   e;

    static const char  list[] =
        "[{\"role\":\"system\",\"content\":\"be brief\"},"
        "{\"role\":\"developer\",\"content\":\"\"},"
        "{\"role\":\"user\",\"content\":\"a\\u0000b\",\"name\":\"ann\"},"
        "{\"role\":\"assistant\",\"content\":null,\"refusal\":null,"
        "\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
        "{\"name\":\"f\",\"arguments\":\"{}\"}}],\"audio\":null,"
        "\"annotations\":[]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"42\"},"
        "{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\"}},"
        "{\"role\":\"assistant\",\"content\":\"\xe2\x82\xac\","
        "\"prefix\":false,\"tool_calls\":null,\"function_call\":null},"
        "{\"role\":\"user\",\"name\":null,\"content\":["
        "{\"type\":\"text\",\"text\":\"one\"},"
        "{\"type\":\"text\",\"text\":\"\"},"
        "{\"type\":\"text\",\"text\":\"two\",\"cache_control\":{}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\","
        "\"text\":\"\"}]}]";

    (void) state;

    if (parse(list, &text, &m, &n, &e) != MST_OK) {
        fail_msg("%s: %s", e.param, e.message);
    }

    assert_int_equal(n, 9);
    message_is(&m[0], MST_ROLE_SYSTEM, "be brief", 8);
    message_is(&m[1], MST_ROLE_SYSTEM, "", 0);
    message_is(&m[2], MST_ROLE_USER, "a\0b", 3);
    message_is(&m[3], MST_ROLE_ASSISTANT, "", 0);
    message_is(&m[4], MST_ROLE_TOOL, "42", 2);
    message_is(&m[5], MST_ROLE_ASSISTANT, "", 0);
    message_is(&m[6], MST_ROLE_ASSISTANT, "\xe2\x82\xac", 3);
    message_is(&m[7], MST_ROLE_USER, "one\n\ntwo", 8);
    message_is(&m[8], MST_ROLE_USER, "", 0);

    drop();
    mst_buf_fini(&text);
}


/* the index in the path is the message's own, however far it is */

static void
test_far(void **state)
{
    size_t            i, n;
    mst_buf_t         list, text;
    mst_message_t    *m;
    mst_api_error_t   e;

    (void) state;

    mst_buf_init(&list);
    (void) mst_buf_char(&list, '[');

    for (i = 0; i < 19000; i++) {
        (void) mst_buf_text(&list, U ",");
    }

    (void) mst_buf_text(&list, "{\"role\":\"x\",\"content\":\"\"}]");
    assert_int_equal(mst_buf_char(&list, '\0'), MST_OK);

    assert_int_equal(parse(list.data, &text, &m, &n, &e), MST_ERROR);
    assert_string_equal(e.param, "messages[19000].role");
    drop();
    mst_buf_fini(&text);
    mst_buf_fini(&list);
}


static void
test_copy(void **state)
{
    mst_buf_t  text;
    mst_str_t  a, b;

    (void) state;

    mst_buf_init(&text);
    assert_int_equal(mst_buf_reserve(&text, 256), MST_OK);

    a = mst_chat_copy(&text, mst_str("abc", 3));
    b = mst_chat_copy(&text, mst_str("de", 2));
    assert_memory_equal(a.data, "abcde", 5);
    assert_int_equal(b.len, 2);
    assert_ptr_equal(b.data, a.data + 3);

    /* never grown: what does not fit is not copied */

    assert_int_equal(mst_chat_copy(&text, mst_str(text.data, 252)).len, 0);
    assert_int_equal(text.len, 5);

    mst_buf_fini(&text);
}


static void
test_memory(void **state)
{
    int               prefix;
    json_t           *root;
    mst_buf_t         text;
    mst_api_error_t   e;

    (void) state;

    memset(&chat, 0, sizeof(chat));
    mst_buf_init(&text);
    assert_int_equal(mst_buf_reserve(&text, 64), MST_OK);
    root = json_loads("[" U "]", 0, NULL);
    assert_non_null(root);

    mst_mem_fail_after(1);
    assert_int_equal(mst_chat_parse(root, &text, &chat, &prefix, &e),
                     MST_ERROR);
    mst_mem_fail_after(0);

    assert_int_equal(e.status, 500);
    assert_null(chat.messages);
    drop();

    json_decref(root);
    mst_buf_fini(&text);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

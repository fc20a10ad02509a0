
/*
 * Answers: exact bytes where order is a promise, a round trip through the
 * parser for all of them, and every allocation failing.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/mst_reply.h"
#include "base/mst_mem.h"


static mst_buf_t  out;


static const mst_reply_t  chat = {
    MST_API_CHAT, mst_string("chatcmpl-1"), mst_string("a\"b"),
    1700000000, 0, mst_string("")
};

static const mst_reply_t  usage_chat = {
    MST_API_CHAT, mst_string("chatcmpl-1"), mst_string("m"),
    1700000000, 1, mst_string("")
};

static const mst_reply_t  text = {
    MST_API_COMPLETION, mst_string("cmpl-1"), mst_string("m"),
    1700000000, 0, mst_string("")
};

static const mst_reply_t  usage_text = {
    MST_API_COMPLETION, mst_string("cmpl-1"), mst_string("m"),
    1700000000, 1, mst_string("")
};

static const mst_usage_t  usage = { .prompt = 7, .cached = 4,
                                    .completion = 3 };

static const mst_usage_t  huge = { .prompt = UINT32_MAX, .cached = 0,
                                   .completion = UINT32_MAX };


#define HEAD  "data: {\"id\":\"chatcmpl-1\",\"object\":"                      \
              "\"chat.completion.chunk\",\"created\":1700000000,"
#define CHAT  HEAD "\"model\":\"a\\\"b\",\"choices\":["
#define CHATU HEAD "\"model\":\"m\",\"choices\":["
#define TEXT  "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\","      \
              "\"created\":1700000000,\"model\":\"m\",\"choices\":["

#define USAGE "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,"       \
              "\"total_tokens\":10,\"prompt_tokens_details\":"                \
              "{\"cached_tokens\":4}}"


#define CHAT_LOGPROBS                                                         \
    "{\"content\":[{\"token\":\"A\",\"logprob\":-0.5,\"bytes\":[65],"         \
    "\"top_logprobs\":[]}],\"refusal\":null}"


static void
out_is(int rc, const char *want)
{
    assert_int_equal(rc, MST_OK);
    assert_int_equal(out.failed, 0);

    if (out.len != strlen(want) || memcmp(out.data, want, out.len) != 0) {
        fail_msg("%.*s\nis not\n%s", (int) out.len, out.data, want);
    }

    mst_buf_reset(&out);
}


static mst_str_t
name_of(const void *strs, uint32_t id)
{
    return ((const mst_str_t *) strs)[id ? 1 : 0];
}


static int
sse_text(const mst_reply_t *r, uint32_t index, mst_str_t s,
    const mst_reply_logprobs_t *l, mst_buf_t *b)
{
    mst_reply_part_t  part;

    memset(&part, 0, sizeof(part));
    part.text = s;

    return mst_reply_sse_part(r, index, &part, l, b);
}


/* of tokens 0 and others, in as many parts as the budget makes of them */

static int
tokens(const uint32_t *ids, const mst_str_t *strs, size_t n, uint32_t max,
    size_t budget, mst_buf_t *b)
{
    int                 rc;
    size_t              parts;
    mst_reply_tokens_t  t = { ids, n, max, strs ? name_of : NULL, strs, 0 };

    for (parts = 1; (rc = mst_reply_tokens(&t, budget, b)) == MST_AGAIN;
         parts++)
    {
        assert_true(parts * budget < (strs ? 2 * n : n));
    }

    return rc;
}


static mst_str_t
str(const char *z)
{
    return mst_str(z, strlen(z));
}


static void
test_stream_chat(void **state)
{
    (void) state;

    out_is(mst_reply_sse_first(&chat, 0, &out),
           CHAT "{\"index\":0,\"delta\":{\"role\":\"assistant\","
           "\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}"
           "\n\n");

    out_is(sse_text(&chat, 3, str("a\n\xe2\x82\xac"), NULL, &out),
           CHAT "{\"index\":3,\"delta\":{\"content\":\"a\\n\xe2\x82\xac\"},"
           "\"logprobs\":null,\"finish_reason\":null}]}\n\n");

    out_is(mst_reply_sse_finish(&chat, 0, "stop", &out),
           CHAT "{\"index\":0,\"delta\":{},\"logprobs\":null,"
           "\"finish_reason\":\"stop\"}]}\n\n");

    out_is(mst_reply_sse_usage(&chat, &usage, &out),
           CHAT "]," USAGE "}\n\n");

    out_is(mst_reply_sse_done(&out), "data: [DONE]\n\n");
}


static void
test_stream_chat_usage(void **state)
{
    (void) state;

    out_is(mst_reply_sse_first(&usage_chat, 0, &out),
           CHATU "{\"index\":0,\"delta\":{\"role\":\"assistant\","
           "\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],"
           "\"usage\":null}\n\n");

    out_is(sse_text(&usage_chat, 0, str("x"), NULL, &out),
           CHATU "{\"index\":0,\"delta\":{\"content\":\"x\"},"
           "\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n");

    out_is(mst_reply_sse_finish(&usage_chat, 0, "length", &out),
           CHATU "{\"index\":0,\"delta\":{},\"logprobs\":null,"
           "\"finish_reason\":\"length\"}],\"usage\":null}\n\n");

    out_is(mst_reply_sse_usage(&usage_chat, &usage, &out),
           CHATU "]," USAGE "}\n\n");
}


static void
test_stream_text(void **state)
{
    (void) state;

    out_is(mst_reply_sse_first(&text, 0, &out), "");

    out_is(sse_text(&text, 0, mst_str("\0\xff", 2), NULL, &out),
           TEXT "{\"index\":0,\"text\":\"\\u0000\xef\xbf\xbd\","
           "\"logprobs\":null,\"finish_reason\":null}]}\n\n");

    out_is(mst_reply_sse_finish(&text, 1, "length", &out),
           TEXT "{\"index\":1,\"text\":\"\",\"logprobs\":null,"
           "\"finish_reason\":\"length\"}]}\n\n");

    out_is(mst_reply_sse_finish(&usage_text, 0, "stop", &out),
           TEXT "{\"index\":0,\"text\":\"\",\"logprobs\":null,"
           "\"finish_reason\":\"stop\"}],\"usage\":null}\n\n");

    out_is(mst_reply_sse_usage(&usage_text, &usage, &out),
           TEXT "]," USAGE "}\n\n");
}


static void
test_stream_error(void **state)
{
    mst_api_error_t  e;

    (void) state;

    (void) mst_api_error_set(&e, 503, "engine_unavailable", NULL,
                             "gone\n\nnow");

    out_is(mst_reply_sse_error(&e, &out),
           "data: {\"error\":{\"message\":\"gone\\n\\nnow\","
           "\"type\":\"server_error\",\"param\":null,"
           "\"code\":\"engine_unavailable\"}}\n\n");
}


static void
test_whole(void **state)
{
    mst_reply_choice_t  c[2];

    (void) state;

    memset(c, 0, sizeof(c));
    c[0].part.text = str("Paris.");
    c[0].reason = "stop";
    c[1].part.text = str("");
    c[1].reason = "length";

    out_is(mst_reply_json(&chat, c, 2, &usage, &out),
           "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\","
           "\"created\":1700000000,\"model\":\"a\\\"b\",\"choices\":["
           "{\"index\":0,\"message\":{\"role\":\"assistant\","
           "\"content\":\"Paris.\",\"refusal\":null},\"logprobs\":null,"
           "\"finish_reason\":\"stop\"},"
           "{\"index\":1,\"message\":{\"role\":\"assistant\","
           "\"content\":\"\",\"refusal\":null},\"logprobs\":null,"
           "\"finish_reason\":\"length\"}]," USAGE
           ",\"system_fingerprint\":null}");

    out_is(mst_reply_json(&text, c, 1, &huge, &out),
           "{\"id\":\"cmpl-1\",\"object\":\"text_completion\","
           "\"created\":1700000000,\"model\":\"m\",\"choices\":["
           "{\"index\":0,\"text\":\"Paris.\",\"logprobs\":null,"
           "\"finish_reason\":\"stop\"}],\"usage\":{"
           "\"prompt_tokens\":4294967295,\"completion_tokens\":4294967295,"
           "\"total_tokens\":8589934590,\"prompt_tokens_details\":"
           "{\"cached_tokens\":0}},\"system_fingerprint\":null}");
}


/* where log-probabilities stand; how: mst_reply_logprobs_test.c */

static void
test_logprobs(void **state)
{
    mst_reply_choice_t    c;
    mst_reply_logprob_t   p;
    mst_reply_logprobs_t  l;

    (void) state;

    memset(&c, 0, sizeof(c));
    memset(&p, 0, sizeof(p));
    p.token.bytes = str("A");
    p.token.logprob = -0.5f;

    mst_reply_logprobs_init(&l, MST_API_CHAT);
    assert_int_equal(mst_reply_logprobs_add(&l, &p), MST_OK);
    out_is(sse_text(&chat, 0, str("A"), &l, &out),
           CHAT "{\"index\":0,\"delta\":{\"content\":\"A\"},\"logprobs\":"
           CHAT_LOGPROBS ",\"finish_reason\":null}]}\n\n");

    c.part.text = str("A");
    c.logprobs = &l;
    c.reason = "length";
    out_is(mst_reply_json(&usage_chat, &c, 1, &usage, &out),
           "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\","
           "\"created\":1700000000,\"model\":\"m\",\"choices\":["
           "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
           "\"A\",\"refusal\":null},\"logprobs\":" CHAT_LOGPROBS
           ",\"finish_reason\":\"length\"}]," USAGE
           ",\"system_fingerprint\":null}");
    mst_reply_logprobs_fini(&l);

    mst_reply_logprobs_init(&l, MST_API_COMPLETION);
    assert_int_equal(mst_reply_logprobs_add(&l, &p), MST_OK);
    out_is(sse_text(&text, 0, str("A"), &l, &out),
           TEXT "{\"index\":0,\"text\":\"A\",\"logprobs\":{\"tokens\":"
           "[\"A\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"A\":-0.5}"
           "],\"text_offset\":[0]},\"finish_reason\":null}]}\n\n");
    mst_reply_logprobs_fini(&l);
}


static void
test_others(void **state)
{
    size_t             budget;
    mst_str_t          strs[2];
    mst_reply_model_t  m[2];

    static const uint32_t  ids[] = { 0, UINT32_MAX };

    (void) state;

    m[0].id = str("org/\"m\"");
    m[0].created = 5;
    m[0].max_model_len = 8192;
    m[0].chat = 1;
    m[0].fim = 1;
    m[0].tools = 0;
    m[1].id = str("alias");
    m[1].created = 6;
    m[1].max_model_len = 1;
    m[1].chat = 0;
    m[1].fim = 0;
    m[1].tools = 1;

#define CARD(n, chat, fim, tools)                                             \
    "\"type\":\"base\",\"max_context_length\":" n ",\"capabilities\":"      \
    "{\"completion_chat\":" chat ",\"completion_fim\":" fim ","              \
    "\"function_calling\":" tools ",\"fine_tuning\":false,"                  \
    "\"vision\":false}}"

#define M0  "{\"id\":\"org/\\\"m\\\"\",\"object\":\"model\",\"created\":5,"   \
            "\"owned_by\":\"nginx\",\"max_model_len\":8192,"  \
            CARD("8192", "true", "true", "false")
#define M1  "{\"id\":\"alias\",\"object\":\"model\",\"created\":6,"           \
            "\"owned_by\":\"nginx\",\"max_model_len\":1,"                   \
            CARD("1", "false", "false", "true")

    out_is(mst_reply_model(m, &out), M0);
    out_is(mst_reply_models(m, 2, &out),
           "{\"object\":\"list\",\"data\":[" M0 "," M1 "]}");
    out_is(mst_reply_models(m, 0, &out), "{\"object\":\"list\",\"data\":[]}");

    strs[0] = str("a\"");
    strs[1] = mst_str("\xe2\x82", 2);

    for (budget = 1; budget < 6; budget++) {
        out_is(tokens(ids, NULL, 2, 2048, budget, &out),
               "{\"tokens\":[0,4294967295],\"count\":2,"
               "\"max_model_len\":2048}");
        out_is(tokens(ids, strs, 2, 2048, budget, &out),
               "{\"tokens\":[0,4294967295],\"count\":2,"
               "\"max_model_len\":2048,"
               "\"token_strs\":[\"a\\\"\",\"\xef\xbf\xbd\xef\xbf\xbd\"]}");
        out_is(tokens(NULL, NULL, 0, 2048, budget, &out),
               "{\"tokens\":[],\"count\":0,\"max_model_len\":2048}");
        out_is(tokens(NULL, strs, 0, 2048, budget, &out),
               "{\"tokens\":[],\"count\":0,\"max_model_len\":2048,"
               "\"token_strs\":[]}");
    }

    out_is(mst_reply_detokenize(mst_str("a\0b", 3), &out),
           "{\"prompt\":\"a\\u0000b\"}");
}


static int
write_chunk(const mst_reply_t *r, int i, mst_buf_t *b)
{
    switch (i) {
    case 0:
        return r->api == MST_API_CHAT ? mst_reply_sse_first(r, 7, b)
               : mst_buf_char(b, 'x');
    case 1:
        return sse_text(r, 0, mst_str("a\"", 2), NULL, b);
    case 2:
        return mst_reply_sse_finish(r, 1, "stop", b);
    default:
        return mst_reply_sse_usage(r, &usage, b);
    }
}


/* with its head put together once a chunk is the same */

static void
test_head(void **state)
{
    int          i, k;
    mst_buf_t    head, a, b;
    mst_reply_t  r;

    (void) state;

    const mst_reply_t  *all[] = { &chat, &usage_chat, &text };

    for (i = 0; i < (int) (sizeof(all) / sizeof(*all)); i++) {
        r = *all[i];
        mst_buf_init(&head);
        assert_int_equal(mst_reply_sse_head(&r, &head), MST_OK);
        assert_memory_equal(head.data, "data: {", 7);
        r.head = mst_str(head.data, head.len);

        for (k = 0; k < 4; k++) {
            mst_buf_init(&a);
            mst_buf_init(&b);
            assert_int_equal(write_chunk(all[i], k, &a), MST_OK);
            assert_int_equal(write_chunk(&r, k, &b), MST_OK);
            assert_int_equal(a.len, b.len);
            assert_memory_equal(a.data, b.data, a.len);
            mst_buf_fini(&a);
            mst_buf_fini(&b);
        }

        mst_buf_fini(&head);
    }
}


/* thoughts, text and calls of a chat, alone and together */

static void
test_parts(void **state)
{
    mst_reply_part_t    part;
    mst_reply_choice_t  c;

    (void) state;

    memset(&part, 0, sizeof(part));

    part.thought = str("hm\n");
    out_is(mst_reply_sse_part(&chat, 0, &part, NULL, &out),
           CHAT "{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\\n\"},"
           "\"logprobs\":null,\"finish_reason\":null}]}\n\n");

    part.calls = str("{1},{2}");
    out_is(mst_reply_sse_part(&chat, 0, &part, NULL, &out),
           CHAT "{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\\n\","
           "\"tool_calls\":[{1},{2}]},"
           "\"logprobs\":null,\"finish_reason\":null}]}\n\n");

    part.text = str("x");
    out_is(mst_reply_sse_part(&chat, 0, &part, NULL, &out),
           CHAT "{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\\n\","
           "\"content\":\"x\",\"tool_calls\":[{1},{2}]},"
           "\"logprobs\":null,\"finish_reason\":null}]}\n\n");

    memset(&c, 0, sizeof(c));
    c.part = part;
    c.reason = "tool_calls";
    out_is(mst_reply_json(&chat, &c, 1, &usage, &out),
           "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\","
           "\"created\":1700000000,\"model\":\"a\\\"b\",\"choices\":["
           "{\"index\":0,\"message\":{\"role\":\"assistant\","
           "\"reasoning_content\":\"hm\\n\",\"content\":\"x\","
           "\"tool_calls\":[{1},{2}],\"refusal\":null},\"logprobs\":null,"
           "\"finish_reason\":\"tool_calls\"}]," USAGE
           ",\"system_fingerprint\":null}");

    part.text = str("");
    part.thought = str("");
    out_is(mst_reply_sse_part(&chat, 0, &part, NULL, &out),
           CHAT "{\"index\":0,\"delta\":{\"tool_calls\":[{1},{2}]},"
           "\"logprobs\":null,\"finish_reason\":null}]}\n\n");

    c.part = part;
    out_is(mst_reply_json(&chat, &c, 1, &usage, &out),
           "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\","
           "\"created\":1700000000,\"model\":\"a\\\"b\",\"choices\":["
           "{\"index\":0,\"message\":{\"role\":\"assistant\","
           "\"content\":null,\"tool_calls\":[{1},{2}],\"refusal\":null},"
           "\"logprobs\":null,\"finish_reason\":\"tool_calls\"}]," USAGE
           ",\"system_fingerprint\":null}");
}


/* one writer per number, for the tests below that try them all */

#define WRITERS  13

static int
write_one(int i, mst_str_t s, mst_buf_t *b)
{
    mst_reply_t             r;
    mst_api_error_t         e;
    mst_reply_model_t       m;
    mst_reply_choice_t      c;
    mst_reply_logprobs_t    l;

    static const uint32_t  ids[] = { 0 };

    r = i % 2 ? usage_chat : text;
    r.model = s;
    r.id = s;

    m.id = s;
    m.created = 1;
    m.max_model_len = 2;
    m.chat = 1;
    m.tools = 1;

    memset(&c, 0, sizeof(c));
    c.part.text = s;
    c.reason = "stop";

    mst_reply_logprobs_init(&l, r.api);

    switch (i) {
    case 0:
    case 1:
        return sse_text(&r, 0, s, NULL, b);
    case 2:
    case 3:
        return sse_text(&r, 0, s, &l, b);
    case 4:
    case 5:
        return mst_reply_sse_finish(&r, 0, "stop", b);
    case 6:
    case 7:
        return mst_reply_json(&r, &c, 1, &usage, b);
    case 8:
        return mst_reply_sse_usage(&r, &usage, b);
    case 9:
        return mst_reply_sse_first(&r, 0, b);
    case 10:
        return mst_reply_models(&m, 1, b);
    case 11:
        (void) mst_api_error_set(&e, 400, "c", "p", "%.*s", (int) s.len,
                                 s.data);
        return mst_reply_sse_error(&e, b);
    default:
        return tokens(ids, &s, 1, 5, 1, b);
    }
}


/* whatever bytes a text or a name holds, the answer is one JSON object */

static void
test_round_trip(void **state)
{
    int         i;
    char        all[2048];
    size_t      k;
    json_t     *root;
    mst_buf_t   b;

    (void) state;

    for (k = 0; k < sizeof(all); k++) {
        all[k] = (char) (k * 7 + k / 256);
    }

    for (i = 0; i < WRITERS; i++) {
        mst_buf_init(&b);
        assert_int_equal(write_one(i, mst_str(all, sizeof(all)), &b), MST_OK);

        if (memcmp(b.data, "data: ", 6) == 0) {
            assert_memory_equal(b.data + b.len - 2, "\n\n", 2);
            assert_null(memchr(b.data, '\n', b.len - 2));
            root = json_loadb(b.data + 6, b.len - 8, JSON_ALLOW_NUL
                              | JSON_REJECT_DUPLICATES, NULL);

        } else {
            assert_null(memchr(b.data, '\n', b.len));
            root = json_loadb(b.data, b.len, JSON_ALLOW_NUL
                              | JSON_REJECT_DUPLICATES, NULL);
        }

        if (root == NULL) {
            fail_msg("writer %d: %.*s", i, (int) b.len, b.data);
        }

        json_decref(root);
        mst_buf_fini(&b);
    }
}


static void
test_memory(void **state)
{
    int        i, rc;
    long       n;
    char       big[1000];
    mst_buf_t  b;

    (void) state;

    memset(big, 'x', sizeof(big));

    for (i = 0; i < WRITERS; i++) {

        for (n = 1; n < 30; n++) {
            mst_buf_init(&b);
            mst_mem_fail_after(n);
            rc = write_one(i, mst_str(big, sizeof(big)), &b);
            mst_mem_fail_after(0);

            assert_int_equal(b.failed, rc != MST_OK);
            mst_buf_fini(&b);

            if (rc == MST_OK) {
                break;
            }
        }

        assert_in_range(n, 2, 29);
    }
}


static int
done(void **state)
{
    (void) state;

    mst_buf_fini(&out);

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_stream_chat),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_stream_chat_usage),
        cmocka_unit_test(test_stream_text),
        cmocka_unit_test(test_stream_error),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, done);
}


/*
 * What a chat in Mistral's formats must be, by version, with the sentences of
 * Mistral's library.
 */

#include "mst_mistral_chats.h"


#define U  "{\"role\":\"user\",\"content\":\"u\"}"
#define S  "{\"role\":\"system\",\"content\":\"s\"}"
#define A  "{\"role\":\"assistant\",\"content\":\"a\"}"
#define C(id)  "{\"id\":\"" id "\",\"function\":{\"name\":\"f\"}}"
#define CALL(list)  "{\"role\":\"assistant\",\"content\":\"\","              \
    "\"tool_calls\":[" list "]}"
#define T(id)  "{\"role\":\"tool\",\"tool_call_id\":\"" id                  \
    "\",\"content\":\"t\"}"
#define M(list)  "{\"messages\":[" list "]}"
#define A9  "aaaaaaaaa"
#define B9  "bbbbbbbbb"


typedef struct {
    uint32_t     from;         /* versions for which it is so */
    uint32_t     to;
    const char  *body;
    const char  *want;         /* the sentence; NULL: none */
} check_t;


static const check_t  cases[] = {

    /* order */

    { 1, 15, M(S), NULL },
    { 1, 15, M(U "," A "," U), NULL },
    { 1, 15, M(U "," U "," S "," S "," U), NULL },
    { 1, 15, M(A), "Conversation must start with a user message or system "
      "message" },
    { 1, 15, M(U "," A), "Expected last role User or Tool (or Assistant with "
      "prefix) for serving but got assistant" },
    { 1, 15, M(U "," A "," S), "Unexpected role 'system' after role "
      "'assistant'" },
    { 2, 15, M(U "," T(A9)), "Unexpected role 'tool' after role 'user'" },
    { 2, 15, M(U "," CALL(C(A9)) "," T(A9) "," S),
      "Unexpected role 'system' after role 'tool'" },
    { 1, 15, "{\"messages\":[" U "," A "],\"add_generation_prompt\":false}",
      NULL },

    /* prefix */

    { 1, 15, M(U ",{\"role\":\"assistant\",\"content\":\"a\",\"prefix\":"
               "true}"), NULL },
    { 1, 15, "{\"messages\":[" U "," A "],\"continue_final_message\":true,"
      "\"add_generation_prompt\":false}", NULL },

    /* as many results as calls */

    { 2, 15, M(U "," CALL(C(A9)) "," T(A9)), NULL },
    { 3, 15, M(U "," CALL(C(A9) "," C(B9)) "," T(B9) "," T(A9)), NULL },
    { 2, 2, M(U "," CALL(C(A9) "," C(B9)) "," T(B9) "," T(A9)),
      "Tokenizer v2 does not support multiple tool results for one assistant "
      "turn." },
    { 2, 2, M(U "," A "," CALL(C(A9)) "," T(A9)), "Assistant message must "
      "have either content or tool_calls, but not both." },
    { 2, 2, M(U "," A "," CALL(C(A9) "," C(B9)) "," T(B9) "," T(A9)),
      "Tokenizer v2 does not support multiple tool results for one assistant "
      "turn." },
    { 2, 15, M(U "," CALL(C(A9) "," C(B9)) "," T(A9)),
      "Not the same number of function calls and responses" },
    { 2, 15, M(U "," CALL(C(A9)) "," A "," U),
      "Not the same number of function calls and responses" },
    { 2, 7, M(U "," CALL(C(A9)) "," T(A9) "," T(A9)),
      "Not the same number of function calls and responses" },
    { 11, 15, M(U "," CALL(C(A9)) "," T(A9) "," T(A9)),
      "Duplicate tool call id aaaaaaaaa in tool results" },
    { 11, 15, M(U "," CALL(C(A9)) "," T(B9)),
      "Unexpected tool call id bbbbbbbbb in tool results" },
    { 11, 15, M(U "," CALL(C(A9) "," C(A9)) "," T(A9) "," T(A9)),
      "Duplicate tool call id aaaaaaaaa in assistant message" },
    { 3, 7, M(U "," CALL(C(A9)) "," T(B9)), NULL },

    /* ids: of longer ones the end counts before version 13 */

    { 1, 1, M(U "," CALL(C("x")) "," T("y")), "Tools not implemented for "
      "tokenizer V1" },
    { 2, 2, M(U "," CALL(C("x")) "," T("y")), NULL },
    { 3, 7, M(U "," CALL(C("x")) "," T(A9)), "Tool call id was x but must be "
      "a-z, A-Z, 0-9, with a length of 9." },
    { 3, 7, M(U "," CALL(C(A9)) "," T("y_3456789")), "Tool call id was "
      "y_3456789 but must be a-z, A-Z, 0-9, with a length of 9." },
    { 3, 15, M(U "," CALL(C("call_0123456789")) "," T("call_0123456789")),
      NULL },
    { 3, 11, M(U "," CALL("{\"function\":{\"name\":\"f\"}}") ","
               "{\"role\":\"tool\",\"content\":\"\"}"),
      NULL },
    { 13, 15, M(U "," CALL(C("x")) "," T("x")), NULL },
    { 13, 15, M(U "," CALL(C("null")) "," T("null")), "Tool call id must be "
      "a non-empty string other than 'null' for tokenizer version 13 or "
      "newer." },
    { 3, 11, M(U "," CALL(C("null")) "," T("null")), "Tool call id has to be "
      "defined in serving mode." },
    { 3, 7, M(U "," CALL(C(A9)) ",{\"role\":\"tool\",\"content\":\"t\"}"),
      "Tool call id has to be defined." },

    /* names */

    { 2, 15, M(U "," CALL("{\"id\":\"" A9 "\",\"function\":{\"name\":"
                          "\"a b\"}}") "," T(A9)),
      "Function name was a b but must be a-z, A-Z, 0-9, or contain "
      "underscores and dashes, with a maximum length of 64." },
    { 2, 15, M(U "," CALL(C(A9)) ",{\"role\":\"tool\",\"tool_call_id\":\"" A9
               "\",\"name\":\"?\",\"content\":\"\"}"),
      "Function name was ? but must be a-z, A-Z, 0-9, or contain underscores "
      "and dashes, with a maximum length of 64." },

    /* what an assistant says */

    { 2, 3, M(U ",{\"role\":\"assistant\",\"content\":\"\"}," U),
      "Assistant message must have either content or tool_calls, but not "
      "both." },
    { 7, 15, M(U ",{\"role\":\"assistant\",\"content\":\"\"}," U),
      "Assistant message must have either content or tool_calls" },
    { 2, 3, M(U ",{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":["
              C(A9) "]}," T(A9)),
      "Assistant message must have either content or tool_calls, but not "
      "both." },
    { 7, 15, M(U ",{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":["
               C(A9) "]}," T(A9)), NULL },

    /* thoughts */

    { 1, 7, M(U ",{\"role\":\"assistant\",\"content\":[{\"type\":"
              "\"thinking\",\"thinking\":\"h\"}]}," U),
      "Unexpected content chunk types in assistant message: ['ThinkChunk']" },
    { 11, 11, M(U ",{\"role\":\"assistant\",\"content\":[{\"type\":"
                "\"thinking\",\"thinking\":\"h\"}]}," U),
      "the model has no tokens for thoughts" },
    { 13, 15, M(U ",{\"role\":\"assistant\",\"content\":[{\"type\":"
                "\"thinking\",\"thinking\":\"h\"}]}," U), NULL },
    { 15, 15, M("{\"role\":\"system\",\"content\":[{\"type\":\"thinking\","
                "\"thinking\":\"h\"}]}," U),
      "Unexpected content chunk types in system message: ['ThinkChunk']" },
    { 13, 13, M("{\"role\":\"system\",\"content\":[{\"type\":\"thinking\","
                "\"thinking\":\"h\"}]}," U), NULL },

    /* settings */

    { 1, 15, "{\"messages\":[" U "],\"reasoning_effort\":\"none\"}", NULL },
    { 1, 13, "{\"messages\":[" U "],\"reasoning_effort\":\"high\"}",
      "reasoning_effort is not supported for this model" },
    { 15, 15, "{\"messages\":[" U "],\"reasoning_effort\":\"high\"}", NULL },
    { 15, 15, "{\"messages\":[" U "],\"reasoning_effort\":\"low\"}",
      "reasoning_effort low is not one that this model has" }
};


static void
run(const check_t *c, int spm, uint32_t version)
{
    int               rc;
    mst_err_t         err;
    mst_prompt_t      p;
    mst_tokenizer_t  *t;

    t = chats_tokenizer(&chats, spm, version);

    if (t == NULL) {
        return;
    }

    rc = chats_render(t, version, c->body, &p, &err);
    mst_prompt_fini(&p);

    /* an id that is missing is said of the call first */

    if (c->want == NULL && rc != MST_OK
        && strstr(c->body, "\"tool_calls\":[{\"function\"")
        && strcmp(err.text, "Tool call id has to be defined in serving mode.")
           == 0)
    {
        return;
    }

    if (strcmp(c->want ? c->want : "", err.text) != 0
        || (rc == MST_OK) != (c->want == NULL))
    {
        fail_msg("v%u %s: %s: \"%s\"", version, spm ? "spm" : "tekken",
                 c->body, err.text);
    }
}


static void
test_cases(void **state)
{
    size_t                 i, k;
    static const uint32_t  versions[] = { 1, 2, 3, 7, 11, 13, 15 };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        for (k = 0; k < sizeof(versions) / sizeof(versions[0]); k++) {

            if (versions[k] >= cases[i].from && versions[k] <= cases[i].to) {
                run(&cases[i], 0, versions[k]);
                run(&cases[i], 1, versions[k]);
            }
        }
    }
}


/* ids are compared each with each: not without end */

static void
test_many(void **state)
{
    int            i;
    char          *body, *p;
    mst_err_t      err;
    mst_prompt_t   prompt;

    (void) state;

    body = malloc(200000);
    assert_non_null(body);
    p = body + sprintf(body, "{\"messages\":[" U ",{\"role\":\"assistant\","
                       "\"content\":\"\",\"tool_calls\":[");

    for (i = 0; i < 1025; i++) {
        p += sprintf(p, "%s{\"id\":\"%09d\",\"function\":{\"name\":\"f\"}}",
                     i ? "," : "", i);
    }

    (void) sprintf(p, "]}," T(A9) "]}");
    assert_int_equal(chats_render(chats.tekken, 11, body, &prompt, &err),
                     MST_ERROR);
    assert_string_equal(err.text, "a message has 1025 tool calls, may have "
                        "at most 1024");
    mst_prompt_fini(&prompt);
    free(body);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_many)
    };

    return cmocka_run_group_tests(tests, chats_setup, chats_teardown);
}

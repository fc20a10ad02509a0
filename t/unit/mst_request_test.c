
/* Bodies of every API: what each becomes, or is refused for. */

#include "request.h"
#include "seed.h"


#define RANGE    "invalid_value"
#define TYPE     "invalid_type"
#define UNSERV   "unsupported"
#define MISSING  "missing_required_parameter"

typedef struct {
    mst_api_t    api;
    const char  *body;
    const char  *code;                 /* NULL: accepted */
    const char  *param;
    const char  *part;
} mst_case_t;


static const mst_case_t  cases[] = {

    /* the body as such */

    { C, "", "invalid_json", "", "the body is empty" },
    { C, "{", "invalid_json", "", "not valid JSON" },
    { C, "[]", "invalid_json", "", "must be a JSON object" },
    { C, "{" M "} {}", "invalid_json", "", "not valid JSON" },
    { C, "{" M ",\"x\":\"\xff\"}", "invalid_json", "", "invalid UTF-8" },
    { MST_API_MODELS, "{}", NULL, "", NULL },
    { C, "{" M ",\"seed\":18446744073709551615}", "invalid_json", "seed",
      "seed: a number is too large" },

    /* model */

    { C, "{" M "}", NULL, NULL, NULL },
    { C, "{" M ",\"model\":\"m\"}", NULL, NULL, NULL },
    { C, "{" M ",\"model\":null}", NULL, NULL, NULL },
    { C, "{" M ",\"model\":\"\"}", RANGE, "model", "the name of a model" },
    { C, "{" M ",\"model\":1}", TYPE, "model", "must be a string" },
    { K, "{" P ",\"model\":{}}", TYPE, "model", "must be a string" },

    /* task, cache_salt */

    { C, "{" M ",\"task\":\"sum-up\",\"cache_salt\":\"x\"}", NULL, NULL, NULL },
    { T, "{" P ",\"task\":null,\"cache_salt\":null}", NULL, NULL, NULL },
    { C, "{" M ",\"task\":\"\"}", RANGE, "task", "the name of a task" },
    { C, "{" M ",\"task\":[\"x\"]}", TYPE, "task", "must be a string" },
    { T, "{" P ",\"cache_salt\":\"\"}", RANGE, "cache_salt", "one byte" },
    { T, "{" P ",\"cache_salt\":7}", TYPE, "cache_salt", "must be a string" },

    /* messages */

    { C, "{}", MISSING, "messages", "messages is missing, must be a list" },
    { C, "{\"messages\":null}", MISSING, "messages", "is null" },
    { C, "{" P "}", MISSING, "messages", "is missing" },
    { C, "{\"messages\":[]}", RANGE, "messages", "empty list" },
    { C, "{\"messages\":{}}", TYPE, "messages", "must be a list" },
    { C, "{\"messages\":\"hi\"}", TYPE, "messages", "must be a list" },
    { C, "{\"messages\":[" U "," U ",{\"role\":\"user\",\"content\":5}]}",
      TYPE, "messages[2].content", "messages[2].content is 5" },
    { C, "{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}", RANGE,
      "messages[0].role", "messages[0].role is \"robot\", must be one of" },
    { C, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
      "\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}", UNSERV,
      "messages[0].content[0].type", "image_url" },

    /* prompt */

    { T, "{" P "}", NULL, NULL, NULL },
    { T, "{\"prompt\":\"\"}", NULL, NULL, NULL },
    { T, "{\"prompt\":[\"hi\"]}", NULL, NULL, NULL },
    { T, "{\"prompt\":[1,2,3]}", NULL, NULL, NULL },
    { T, "{\"prompt\":[[1,2,3]]}", NULL, NULL, NULL },
    { T, "{\"prompt\":[0,4294967295,5.0]}", NULL, NULL, NULL },
    { T, "{}", MISSING, "prompt", "prompt is missing" },
    { T, "{\"prompt\":null}", MISSING, "prompt", "prompt is null" },
    { T, "{" M "}", MISSING, "prompt", "prompt is missing" },
    { T, "{\"prompt\":5}", TYPE, "prompt", "prompt is 5" },
    { T, "{\"prompt\":{}}", TYPE, "prompt", "an empty object" },
    { T, "{\"prompt\":[]}", RANGE, "prompt", "an empty list" },
    { T, "{\"prompt\":[[]]}", RANGE, "prompt[0]", "at least one token id" },
    { T, "{\"prompt\":[\"a\",\"b\",[5]]}", NULL, NULL, NULL },
    { T, "{\"prompt\":[\"a\",1]}", TYPE, "prompt[1]", "is 1" },
    { T, "{\"prompt\":[\"a\",null]}", TYPE, "prompt[1]", "is null" },
    { T, "{\"prompt\":[[1],[2],[]]}", RANGE, "prompt[2]", "token id" },
    { T, "{\"prompt\":[[1],[2,-3]]}", RANGE, "prompt[1][1]", "is -3" },
    { K, "{\"prompt\":[\"a\"]}", TYPE, "prompt", "must be a string" },
    { T, "{\"prompt\":[1,\"a\"]}", TYPE, "prompt[1]", "is \"a\"" },
    { T, "{\"prompt\":[[1,\"a\"]]}", TYPE, "prompt[0][1]", "is \"a\"" },
    { T, "{\"prompt\":[1,[2]]}", TYPE, "prompt[1]", "is a list" },
    { T, "{\"prompt\":[null]}", TYPE, "prompt[0]", "is null" },
    { T, "{\"prompt\":[true]}", TYPE, "prompt[0]", "is true" },
    { T, "{\"prompt\":[1,-1]}", RANGE, "prompt[1]", "is -1" },
    { T, "{\"prompt\":[1.5]}", RANGE, "prompt[0]", "is 1.5" },
    { T, "{\"prompt\":[4294967296]}", RANGE, "prompt[0]", "is 4294967296" },

    /* stream */

    { C, "{" M ",\"stream\":true}", NULL, NULL, NULL },
    { C, "{" M ",\"stream\":1}", TYPE, "stream", "true or false" },
    { C, "{" M ",\"stream\":\"true\"}", TYPE, "stream", "is \"true\"" },
    { C, "{" M ",\"stream\":true,\"stream_options\":{}}", NULL, NULL, NULL },
    { C, "{" M ",\"stream\":true,\"stream_options\":null}", NULL, NULL,
      NULL },
    { C, "{" M ",\"stream_options\":null}", NULL, NULL, NULL },
    { C, "{" M ",\"stream\":true,\"stream_options\":{\"include_usage\":1}}",
      TYPE, "stream_options.include_usage", "true or false" },
    { C, "{" M ",\"stream\":true,\"stream_options\":true}", TYPE,
      "stream_options", "must be an object" },
    { C, "{" M ",\"stream_options\":{\"include_usage\":true}}", RANGE,
      "stream_options", "which needs \"stream\": true" },
    { T, "{" P ",\"stream\":false,\"stream_options\":{}}", RANGE,
      "stream_options", "which needs \"stream\": true" },

    /* the others that chat and completions share */

    { C, "{" M ",\"user\":\"ann\"}", NULL, NULL, NULL },
    { C, "{" M ",\"user\":1}", TYPE, "user", "must be a string" },
    { C, "{" M ",\"metadata\":{\"task_type\":\"code\"}}", NULL, NULL, NULL },
    { C, "{" M ",\"metadata\":[]}", TYPE, "metadata", "must be an object" },
    { C, "{" M ",\"store\":true,\"service_tier\":\"auto\","
      "\"parallel_tool_calls\":true,\"safety_identifier\":\"x\","
      "\"prompt_cache_key\":\"k\",\"nonsense\":[{}]}", NULL, NULL, NULL },
    { C, "{" M ",\"temperature\":3}", RANGE, "temperature", "is 3" },
    { T, "{" P ",\"echo\":true}", NULL, NULL, NULL },
    { T, "{" P ",\"echo\":1}", TYPE, "echo", "echo is 1" },
    { T, "{" P ",\"echo\":true,\"logprobs\":0}", NULL, NULL, NULL },
    { T, "{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\","
      "\"i\",\"j\",\"k\",\"l\",\"m\",\"n\",\"o\",\"p\",\"q\"],\"n\":128}",
      RANGE, "n", "n is 128 for 17 prompts" },
    { T, "{" P ",\"safe_prompt\":true}", UNSERV, "safe_prompt", "is true" },
    { T, "{" P ",\"best_of\":2}", UNSERV, "best_of", "best_of is 2" },
    { T, "{" P ",\"n\":2,\"best_of\":2}", NULL, NULL, NULL },
    { C, "{" M ",\"safe_prompt\":true}", NULL, NULL, NULL },
    { C, "{" M ",\"safe_prompt\":1}", TYPE, "safe_prompt", "is 1" },
    { C, "{" M ",\"add_generation_prompt\":false}", NULL, NULL, NULL },
    { C, "{" M ",\"add_generation_prompt\":0}", TYPE,
      "add_generation_prompt", "true or false" },
    { C, "{" M ",\"continue_final_message\":true}", RANGE,
      "continue_final_message", "a last message of the assistant" },
    { C, "{" A ",\"continue_final_message\":true}", NULL, NULL, NULL },
    { C, "{" A ",\"continue_final_message\":true,"
      "\"add_generation_prompt\":true}", RANGE, "continue_final_message",
      "must not stand beside" },
    { T, "{" P ",\"suffix\":\"x\"}", UNSERV, "suffix", "suffix is \"x\"" },
    { T, "{" P ",\"echo\":false,\"suffix\":\"\",\"best_of\":1}", NULL, NULL,
      NULL },
    { T, "{" P ",\"suffix\":null,\"echo\":null,\"n\":null,\"stop\":null,"
      "\"logprobs\":null,\"logit_bias\":null,\"max_tokens\":null,"
      "\"user\":null,\"seed\":null,\"stream\":null,\"metadata\":null}",
      NULL, NULL, NULL },

    /* tokenize */

    { K, "{" P "}", NULL, NULL, NULL },
    { K, "{" M "}", NULL, NULL, NULL },
    { K, "{\"prompt\":\"\"}", NULL, NULL, NULL },
    { K, "{}", MISSING, "prompt", "must be a string, or messages a list" },
    { K, "{\"prompt\":5}", TYPE, "prompt", "prompt is 5, must be a string" },
    { K, "{" M "," P "}", RANGE, "prompt", "must not stand beside messages" },
    { K, "{\"prompt\":[\"a\"]}", TYPE, "prompt", "must be a string" },
    { K, "{\"prompt\":[1]}", TYPE, "prompt", "must be a string" },
    { K, "{\"messages\":[]}", RANGE, "messages", "empty list" },
    { K, "{\"messages\":[1]}", TYPE, "messages[0]", "must be an object" },
    { K, "{" P ",\"add_special_tokens\":1}", TYPE, "add_special_tokens",
      "true or false" },
    { K, "{" P ",\"return_token_strs\":\"x\"}", TYPE, "return_token_strs",
      "true or false" },
    { K, "{" M ",\"tools\":[{}]}", MISSING, "tools[0].function",
      "tools[0].function is missing" },
    { K, "{" M ",\"add_generation_prompt\":false}", NULL, NULL, NULL },

    /* detokenize */

    { D, "{\"tokens\":[1,2]}", NULL, NULL, NULL },
    { D, "{\"tokens\":[]}", NULL, NULL, NULL },
    { D, "{}", MISSING, "tokens", "tokens is missing" },
    { D, "{\"tokens\":\"x\"}", TYPE, "tokens", "must be a list" },
    { D, "{\"tokens\":[1,-2]}", RANGE, "tokens[1]", "is -2" },
    { D, "{\"tokens\":[\"x\"]}", TYPE, "tokens[0]", "is \"x\"" }
};


static void
test_table(void **state)
{
    size_t             i;
    mst_request_t     *r;
    mst_api_error_t    e;
    const mst_case_t  *c;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        c = &cases[i];
        r = parse(c->api, c->body, &e);

        if (c->api == MST_API_MODELS) {
            assert_null(r);
            assert_int_equal(e.status, 404);
            continue;
        }

        if (c->code == NULL) {
            if (r == NULL) {
                fail_msg("%s: %s", c->body, e.message);
            }

            mst_request_destroy(r);
            continue;
        }

        if (r) {
            fail_msg("%s is accepted", c->body);
        }

        if (strstr(e.message, c->part) == NULL || strcmp(e.code, c->code) != 0
            || strcmp(e.param, c->param) != 0)
        {
            fail_msg("%s: param %s, code %s, \"%s\"", c->body, e.param,
                     e.code, e.message);
        }

        assert_int_equal(e.status, 400);
        assert_string_equal(e.type, "invalid_request_error");
        assert_null(strchr(e.message, '\n'));
    }
}


/* what was parsed does not lean on the body */

static void
test_chat(void **state)
{
    char             *body;
    mst_request_t    *r;
    mst_api_error_t   e;

    static const char  text[] =
        "{\"model\":\"mi\\u0000st\",\"user\":\"ann\",\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},"
        "\"stop\":\"END\",\"messages\":["
        "{\"role\":\"developer\",\"content\":\"sys\"},"
        "{\"role\":\"user\",\"content\":\"a\\u0000b\"}]}";

    (void) state;

    body = strdup(text);
    assert_non_null(body);
    r = mst_request_parse(C, body, sizeof(text) - 1, &e);
    assert_non_null(r);
    memset(body, 'x', sizeof(text));
    free(body);

    assert_int_equal(r->api, C);
    str_is(r->model, "mi\0st", 5);
    str_is(r->user, "ann", 3);
    assert_int_equal(r->stream, 1);
    assert_int_equal(r->include_usage, 1);
    assert_int_equal(r->n_messages, 2);
    assert_int_equal(r->messages[0].role, MST_ROLE_SYSTEM);
    str_is(r->messages[0].content, "sys", 3);
    assert_int_equal(r->messages[1].role, MST_ROLE_USER);
    str_is(r->messages[1].content, "a\0b", 3);
    assert_int_equal(r->n_stop, 1);
    str_is(r->stop[0], "END", 3);
    assert_int_equal(r->has_prompt, 0);
    assert_int_equal(r->echo, 0);

    mst_request_destroy(r);
    mst_request_destroy(NULL);
}


static void
test_prompts(void **state)
{
    mst_request_t  *r;

    (void) state;

    r = good(T, "{\"prompt\":\"a\\u0000b\"}");
    str_is(r->inputs[0].text, "a\0b", 3);
    assert_int_equal(r->has_prompt, 1);
    assert_null(r->inputs[0].ids);
    assert_int_equal(r->model.len, 0);
    assert_int_equal(r->stream, 0);
    mst_request_destroy(r);

    r = good(T, "{\"prompt\":[\"hi\"]}");
    str_is(r->inputs[0].text, "hi", 2);
    mst_request_destroy(r);

    r = good(T, "{\"prompt\":\"\"}");
    assert_int_equal(r->inputs[0].text.len, 0);
    assert_int_equal(r->has_prompt, 1);
    mst_request_destroy(r);

    r = good(T, "{\"prompt\":[3,4294967295]}");
    assert_int_equal(r->inputs[0].n_ids, 2);
    assert_int_equal(r->inputs[0].ids[0], 3);
    assert_true(r->inputs[0].ids[1] == UINT32_MAX);
    assert_int_equal(r->has_prompt, 1);
    mst_request_destroy(r);

    r = good(T, "{\"prompt\":[[7]]}");
    assert_int_equal(r->inputs[0].n_ids, 1);
    assert_int_equal(r->inputs[0].ids[0], 7);
    mst_request_destroy(r);

    r = good(T, "{\"prompt\":[\"a\",[7,8],\"\",\"c\"],\"echo\":true,"
                "\"max_tokens\":0}");
    assert_int_equal(r->n_inputs, 4);
    str_is(r->inputs[0].text, "a", 1);
    assert_int_equal(r->inputs[1].n_ids, 2);
    assert_int_equal(r->inputs[1].ids[1], 8);
    assert_null(r->inputs[2].ids);
    assert_int_equal(r->inputs[2].text.len, 0);
    str_is(r->inputs[3].text, "c", 1);
    assert_int_equal(r->echo, 1);
    assert_int_equal(r->prompt_only, 1);
    mst_request_destroy(r);

    r = good(K, "{\"prompt\":\"hi\",\"model\":\"m\"}");
    str_is(r->inputs[0].text, "hi", 2);
    str_is(r->model, "m", 1);
    assert_int_equal(r->add_special_tokens, 1);
    assert_int_equal(r->return_token_strs, 0);
    mst_request_destroy(r);

    r = good(K, "{" M ",\"add_special_tokens\":false,"
                "\"return_token_strs\":true}");
    assert_int_equal(r->n_messages, 1);
    assert_int_equal(r->has_prompt, 0);
    assert_int_equal(r->add_special_tokens, 0);
    assert_int_equal(r->return_token_strs, 1);
    mst_request_destroy(r);

    r = good(D, "{\"tokens\":[5,6]}");
    assert_int_equal(r->inputs[0].n_ids, 2);
    assert_int_equal(r->inputs[0].ids[1], 6);
    mst_request_destroy(r);
}


/* what stands before and behind the messages */

static void
test_turns(void **state)
{
    mst_request_t  *r;

    (void) state;

    r = good(C, "{" A "}");
    assert_int_equal(r->continue_last, 0);
    assert_int_equal(r->closed, 0);
    mst_request_destroy(r);

    r = good(C, "{" A ",\"continue_final_message\":true}");
    assert_int_equal(r->continue_last, 1);
    assert_int_equal(r->echo, 0);
    mst_request_destroy(r);

    r = good(K, "{" M ",\"add_generation_prompt\":false}");
    assert_int_equal(r->closed, 1);
    mst_request_destroy(r);

    r = good(C, "{\"messages\":[" U ",{\"role\":\"assistant\","
                "\"content\":\"so\",\"prefix\":true}],"
                "\"safe_prompt\":true}");
    assert_int_equal(r->continue_last, 1);
    assert_int_equal(r->echo, 1);
    assert_int_equal(r->n_messages, 3);
    assert_int_equal(r->messages[0].role, MST_ROLE_SYSTEM);
    str_is(r->messages[0].content, "Always assist with care, respect, and "
           "truth. Respond with utmost utility yet securely. Avoid harmful, "
           "unethical, prejudiced, or negative content. Ensure replies "
           "promote fairness and positivity.", 193);
    str_is(r->messages[1].content, "hi", 2);
    str_is(r->messages[2].content, "so", 2);
    mst_request_destroy(r);
}


/*
 * A good body with random damage: whatever comes out is an error that says
 * something, or a request; the sanitizer watches.
 */

static void
test_damage(void **state)
{
    char             *body;
    size_t            i, k, len;
    unsigned          seed, round;
    mst_request_t    *r;
    mst_api_error_t   e;

    static const char  text[] =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
        "[{\"type\":\"text\",\"text\":\"h\\u0000i \xf0\x9f\x98\x80\"}],"
        "\"name\":\"n\"},{\"role\":\"assistant\",\"content\":null,"
        "\"tool_calls\":[{}]}],\"prompt\":[1,2,3],\"tokens\":[5],"
        "\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"5\":-1.5},"
        "\"max_tokens\":12,\"temperature\":0.5,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},\"seed\":-12}";

    static const char       bytes[] = "{}[]\",:0123456789.eE-+\\untfl \x80";
    static const mst_api_t  apis[] = { C, T, K, D };

    (void) state;

    seed = (unsigned) test_seed();

    for (round = 0; round < 40000; round++) {
        len = sizeof(text) - 1;

        if (round % 8 == 0) {
            len = (size_t) rand_r(&seed) % len;
        }

        body = malloc(len ? len : 1);
        assert_non_null(body);
        memcpy(body, text, len);

        for (i = 0; len && i < round % 4; i++) {
            k = (size_t) rand_r(&seed) % len;
            body[k] = bytes[(size_t) rand_r(&seed) % (sizeof(bytes) - 1)];
        }

        memset(&e, 0, sizeof(e));
        r = mst_request_parse(apis[round / 8 % 4], body, len, &e);
        free(body);

        if (r == NULL) {
            assert_int_equal(e.status, 400);
            assert_true(e.message[0] != '\0');
        }

        mst_request_destroy(r);
    }
}


/* the prompt's log-probabilities are a text completion's */

static void
test_echo(void **state)
{
    size_t           i;
    mst_request_t   *r;
    mst_api_error_t  e;

    static const struct {
        mst_api_t    api;
        const char  *body;
        uint32_t     flags;
    } bodies[] = {
        { T, "{" P ",\"echo\":true,\"logprobs\":0}",
          MST_PARAMS_LOGPROBS | MST_PARAMS_ECHO },
        { T, "{" P ",\"echo\":true}", 0 },
        { T, "{" P ",\"logprobs\":2}", MST_PARAMS_LOGPROBS },
        { C, "{" M ",\"echo\":true,\"logprobs\":true}", MST_PARAMS_LOGPROBS }
    };

    (void) state;

    for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        r = mst_request_parse(bodies[i].api, bodies[i].body,
                              strlen(bodies[i].body), &e);
        assert_non_null(r);
        assert_int_equal(r->params.flags, bodies[i].flags);
        mst_request_destroy(r);
    }
}


/* what the body says, each by its own bit */

static void
test_given(void **state)
{
    size_t           i;
    mst_request_t   *r;
    mst_api_error_t  e;

    static const struct {
        const char  *body;
        uint32_t     given;
    } bodies[] = {
        { "{" M "}", 0 },
        { "{" M ",\"temperature\":null,\"stop\":null,\"seed\":null}", 0 },
        { "{" M ",\"temperature\":1}", MST_GIVEN_TEMPERATURE },
        { "{" M ",\"top_p\":1}", MST_GIVEN_TOP_P },
        { "{" M ",\"top_k\":-1}", MST_GIVEN_TOP_K },
        { "{" M ",\"min_p\":0}", MST_GIVEN_MIN_P },
        { "{" M ",\"frequency_penalty\":0}", MST_GIVEN_FREQUENCY_PENALTY },
        { "{" M ",\"presence_penalty\":0}", MST_GIVEN_PRESENCE_PENALTY },
        { "{" M ",\"repetition_penalty\":1}", MST_GIVEN_REPETITION_PENALTY },
        { "{" M ",\"seed\":0}", MST_GIVEN_SEED },
        { "{" M ",\"random_seed\":0}", MST_GIVEN_SEED },
        { "{" M ",\"stop\":[]}", MST_GIVEN_STOP },
        { "{" M ",\"stop\":\"x\"}", MST_GIVEN_STOP },
        { "{" M ",\"max_tokens\":1}", MST_GIVEN_LENGTH },
        { "{" M ",\"max_completion_tokens\":1}", MST_GIVEN_LENGTH },
        { "{" M ",\"max_new_tokens\":1}", MST_GIVEN_LENGTH },
        { "{" M ",\"hard_max_new_tokens\":1}", MST_GIVEN_LENGTH },
        { "{" M ",\"min_tokens\":1,\"ignore_eos\":true,\"n\":2}", 0 }
    };

    (void) state;

    for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        r = mst_request_parse(C, bodies[i].body, strlen(bodies[i].body), &e);

        assert_non_null(r);
        assert_int_equal(r->given, bodies[i].given);

        mst_request_destroy(r);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_damage)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/* URIs of the API, and the methods of each. */

#include "request.h"


typedef struct {
    const char  *uri;
    mst_api_t    api;
    const char  *id;
} mst_uri_t;


static void
test_uri(void **state)
{
    size_t      i;
    mst_str_t   id;

    static const mst_uri_t  t[] = {
        { "/v1/chat/completions", C, "" },
        { "/chat/completions", C, "" },
        { "/a/b/v1/chat/completions", C, "" },
        { "/v1/completions", T, "" },
        { "/completions", T, "" },
        { "/chatx/completions", T, "" },
        { "/v1/fim/completions", MST_API_FIM, "" },
        { "/fim/completions", MST_API_FIM, "" },
        { "/v1/xfim/completions", T, "" },
        { "/v1/models", MST_API_MODELS, "" },
        { "/models", MST_API_MODELS, "" },
        { "/v1/models/smollm2", MST_API_MODEL, "smollm2" },
        { "/models/smollm2", MST_API_MODEL, "smollm2" },
        { "/v1/models/org/name/x", MST_API_MODEL, "org/name/x" },
        { "/v1/models/accounts/a/models/m", MST_API_MODEL,
          "accounts/a/models/m" },
        { "/models/v1/models/m", MST_API_MODEL, "m" },
        { "/llm/models/m", MST_API_MODEL, "m" },
        { "/models/m/v1/chat/completions", C, "" },
        { "/tokenize", K, "" },
        { "/v1/tokenize", K, "" },
        { "/detokenize", D, "" },
        { "/v1/detokenize", D, "" },
        { "/", MST_API_UNKNOWN, "" },
        { "", MST_API_UNKNOWN, "" },
        { "/v1/models/", MST_API_UNKNOWN, "" },
        { "/v1/chat/completions/", MST_API_UNKNOWN, "" },
        { "/v1/xchat", MST_API_UNKNOWN, "" },
        { "completions", MST_API_UNKNOWN, "" },
        { "/v1/xcompletions", MST_API_UNKNOWN, "" },
        { "/v1/xtokenize", MST_API_UNKNOWN, "" },
        { "/v1/embeddings", MST_API_UNKNOWN, "" },
        { "/v1/Completions", MST_API_UNKNOWN, "" }
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        id = mst_str("old", 3);

        if (mst_api_find(mst_str(t[i].uri, strlen(t[i].uri)), &id)
            != t[i].api)
        {
            fail_msg("%s", t[i].uri);
        }

        str_is(id, t[i].id, strlen(t[i].id));
    }

    assert_string_equal(mst_api_allow(C), "POST, OPTIONS");
    assert_string_equal(mst_api_allow(T), "POST, OPTIONS");
    assert_string_equal(mst_api_allow(K), "POST, OPTIONS");
    assert_string_equal(mst_api_allow(D), "POST, OPTIONS");
    assert_string_equal(mst_api_allow(MST_API_MODELS),
                        "GET, HEAD, OPTIONS");
    assert_string_equal(mst_api_allow(MST_API_MODEL),
                        "GET, HEAD, OPTIONS");
    assert_null(mst_api_allow(MST_API_UNKNOWN));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_uri)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Log-probabilities: exact bytes of both forms, and every allocation
 * failing.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_reply_logprobs.h"
#include "base/mst_mem.h"


#define CHAT                                                                  \
    "{\"content\":[{\"token\":\"A\",\"logprob\":-0.25,\"bytes\":[65],"        \
    "\"top_logprobs\":[{\"token\":\"A\",\"logprob\":-0.25,\"bytes\":[65]},"   \
    "{\"token\":\"\xef\xbf\xbd\xef\xbf\xbd\",\"logprob\":-1.5,"               \
    "\"bytes\":[226,130]},"                                                   \
    "{\"token\":\"A\",\"logprob\":-9999,\"bytes\":[65]},"                     \
    "{\"token\":\"\",\"logprob\":-9999,\"bytes\":[]}]},"                      \
    "{\"token\":\"\xc3\xa9\",\"logprob\":-0.1,\"bytes\":[195,169],"           \
    "\"top_logprobs\":[{\"token\":\"A\",\"logprob\":-0.25,\"bytes\":[65]}]}," \
    "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-9999,\"bytes\":[128],"          \
    "\"top_logprobs\":[]}],\"refusal\":null}"

#define TEXT                                                                  \
    "{\"tokens\":[\"A\",\"\xc3\xa9\",\"bytes:\\\\x80\"],"                     \
    "\"token_logprobs\":[-0.25,-0.1,-9999],"                                  \
    "\"top_logprobs\":[{\"A\":-0.25,\"bytes:\\\\xe2\\\\x82\":-1.5,"           \
    "\"\":-9999},{\"A\":-0.25,\"\xc3\xa9\":-0.1},"                            \
    "{\"bytes:\\\\x80\":-9999}],\"text_offset\":[0,1,2]}"


static mst_str_t
str(const char *z)
{
    return mst_str(z, strlen(z));
}


static void
written(const mst_reply_logprobs_t *l, const char *want)
{
    mst_buf_t  out;

    mst_buf_init(&out);
    mst_reply_logprobs_write(l, &out);
    assert_int_equal(out.failed, 0);

    if (out.len != strlen(want) || memcmp(out.data, want, out.len) != 0) {
        fail_msg("%.*s\nis not\n%s", (int) out.len, out.data, want);
    }

    mst_buf_fini(&out);
}


static void
fill(mst_reply_logprobs_t *l)
{
    mst_reply_logprob_t  p;

    static const mst_reply_top_t  top[] = {
        { mst_string("A"), -0.25f },
        { mst_string("\xe2\x82"), -1.5f },
        { mst_string("A"), -INFINITY },
        { { 0, NULL }, -20000.0f }
    };

    memset(&p, 0, sizeof(p));

    p.token = top[0];
    p.top = top;
    p.n_top = 4;
    assert_int_equal(mst_reply_logprobs_add(l, &p), MST_OK);

    p.token.bytes = str("\xc3\xa9");
    p.token.logprob = -0.1f;
    p.n_top = 1;
    p.text_offset = 1;
    assert_int_equal(mst_reply_logprobs_add(l, &p), MST_OK);

    p.token.bytes = str("\x80");
    p.token.logprob = NAN;
    p.top = NULL;
    p.n_top = 0;
    p.text_offset = 2;
    assert_int_equal(mst_reply_logprobs_add(l, &p), MST_OK);

    assert_int_equal(l->n, 3);
}


static void
test_chat(void **state)
{
    mst_reply_logprobs_t  l;

    (void) state;

    written(NULL, "null");

    mst_reply_logprobs_init(&l, MST_API_CHAT);
    written(&l, "{\"content\":[],\"refusal\":null}");

    fill(&l);
    written(&l, CHAT);

    mst_reply_logprobs_reset(&l);
    assert_int_equal(l.n, 0);
    fill(&l);
    written(&l, CHAT);

    mst_reply_logprobs_fini(&l);
    mst_reply_logprobs_fini(&l);
}


static void
test_completion(void **state)
{
    mst_reply_logprob_t   p;
    mst_reply_logprobs_t  l;

    (void) state;

    mst_reply_logprobs_init(&l, MST_API_COMPLETION);
    fill(&l);
    written(&l, TEXT);
    mst_reply_logprobs_reset(&l);

    /* the first token of an echo */

    memset(&p, 0, sizeof(p));
    p.token.bytes = str("A");
    p.none = 1;
    assert_int_equal(mst_reply_logprobs_add(&l, &p), MST_OK);
    p.none = 0;
    p.token.logprob = -0.5f;
    p.text_offset = 1;
    assert_int_equal(mst_reply_logprobs_add(&l, &p), MST_OK);
    written(&l, "{\"tokens\":[\"A\",\"A\"],\"token_logprobs\":[null,-0.5],"
            "\"top_logprobs\":[null,{\"A\":-0.5}],\"text_offset\":[0,1]}");
    mst_reply_logprobs_fini(&l);
}


/* logprobs that could not be gathered are no empty list */

static void
test_memory(void **state)
{
    int                   api;
    long                  n;
    mst_buf_t             out;
    mst_reply_logprob_t   p;
    mst_reply_logprobs_t  l;

    (void) state;

    memset(&p, 0, sizeof(p));
    p.token.bytes = str("x");

    for (api = MST_API_CHAT; api <= MST_API_COMPLETION; api++) {

        for (n = 1; n < 10; n++) {
            mst_buf_init(&out);
            mst_reply_logprobs_init(&l, (mst_api_t) api);
            mst_mem_fail_after(n);

            if (mst_reply_logprobs_add(&l, &p) == MST_OK) {
                mst_mem_fail_after(0);
                mst_reply_logprobs_fini(&l);
                break;
            }

            mst_mem_fail_after(0);
            assert_int_equal(l.n, 0);
            mst_reply_logprobs_write(&l, &out);
            assert_int_equal(out.failed, 1);
            mst_buf_fini(&out);
            mst_reply_logprobs_fini(&l);
        }

        assert_int_equal(n, api == MST_API_CHAT ? 2 : 5);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_completion),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

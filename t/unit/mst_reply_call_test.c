
/*
 * Calls in an answer, whole and in a stream that is emptied between any two
 * pieces.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "api/mst_reply_call.h"
#include "base/mst_mem.h"


static mst_str_t
str(const char *z)
{
    return mst_str(z, strlen(z));
}


static void
take(mst_reply_calls_t *c, const char *want)
{
    mst_str_t  s;

    s = mst_reply_call_take(c);

    if (s.len != strlen(want) || (s.len && !mst_str_eq(s, want))) {
        fail_msg("%.*s, expected %s", (int) s.len, s.data, want);
    }

    mst_reply_call_reset(c);
}


static void
test_whole(void **state)
{
    mst_reply_calls_t  c;

    (void) state;

    mst_reply_call_init(&c, 0);
    take(&c, "");

    assert_int_equal(mst_reply_call_begin(&c, str("f"), "abcdefghi"), MST_OK);
    assert_int_equal(mst_reply_call_arguments(&c, str("{\"a\": ")), MST_OK);
    assert_int_equal(mst_reply_call_arguments(&c, str("\"\n\xc3\xa9\"}")),
                     MST_OK);
    assert_int_equal(mst_reply_call_begin(&c, str("g"), "123456789"), MST_OK);
    assert_int_equal(mst_reply_call_arguments(&c, str("")), MST_OK);
    assert_int_equal(c.n, 2);

    take(&c, "{\"id\":\"abcdefghi\",\"type\":\"function\",\"function\":"
         "{\"name\":\"f\",\"arguments\":"
         "\"{\\\"a\\\": \\\"\\n\xc3\xa9\\\"}\"}},"
         "{\"id\":\"123456789\",\"type\":\"function\",\"function\":"
         "{\"name\":\"g\",\"arguments\":\"\"}}");

    mst_reply_call_fini(&c);
}


static void
test_stream(void **state)
{
    mst_reply_calls_t  c;

    (void) state;

    mst_reply_call_init(&c, 1);

    assert_int_equal(mst_reply_call_begin(&c, str("f"), "abcdefghi"), MST_OK);
    take(&c, "{\"index\":0,\"id\":\"abcdefghi\",\"type\":\"function\","
         "\"function\":{\"name\":\"f\",\"arguments\":\"\"}}");

    assert_int_equal(mst_reply_call_arguments(&c, str("{\"")), MST_OK);
    assert_int_equal(mst_reply_call_arguments(&c, str("a")), MST_OK);
    take(&c, "{\"index\":0,\"function\":{\"name\":\"\","
         "\"arguments\":\"{\\\"a\"}}");

    assert_int_equal(mst_reply_call_arguments(&c, str("\":1}")), MST_OK);
    assert_int_equal(mst_reply_call_begin(&c, str("g"), "123456789"), MST_OK);
    assert_int_equal(mst_reply_call_arguments(&c, str("{}")), MST_OK);
    take(&c, "{\"index\":0,\"function\":{\"name\":\"\","
         "\"arguments\":\"\\\":1}\"}},"
         "{\"index\":1,\"id\":\"123456789\",\"type\":\"function\","
         "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}");

    mst_reply_call_fini(&c);
}


static void
test_memory(void **state)
{
    int                i, rc;
    mst_reply_calls_t  c;

    (void) state;

    rc = MST_ERROR;

    for (i = 1; rc != MST_OK && i < 20; i++) {
        mst_reply_call_init(&c, 1);
        mst_mem_fail_after(i);

        rc = mst_reply_call_begin(&c, str("f"), "abcdefghi");

        if (rc == MST_OK) {
            rc = mst_reply_call_arguments(&c, str("{\"a long one\": 1}"));
        }

        mst_mem_fail_after(0);
        mst_reply_call_fini(&c);
    }

    assert_int_equal(rc, MST_OK);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_reply_call", tests, NULL, NULL);
}

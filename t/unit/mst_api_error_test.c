
/* Errors in OpenAI's form: type by status, body, cutting. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/mst_api_error.h"
#include "base/mst_mem.h"


typedef struct {
    int          status;
    const char  *type;
} mst_type_t;


static json_t *
body(const mst_api_error_t *e)
{
    json_t     *root, *error;
    mst_buf_t   out;

    mst_buf_init(&out);
    assert_int_equal(mst_api_error_json(e, &out), MST_OK);
    assert_int_equal(out.data[out.len - 1], '\n');

    root = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_int_equal(json_object_size(root), 1);

    error = json_incref(json_object_get(root, "error"));
    assert_int_equal(json_object_size(error), 4);

    json_decref(root);
    mst_buf_fini(&out);

    return error;
}


static void
test_type(void **state)
{
    size_t           i;
    mst_api_error_t  e;

    static const mst_type_t  types[] = {
        { 400, "invalid_request_error" },
        { 401, "authentication_error" },
        { 403, "invalid_request_error" },
        { 404, "invalid_request_error" },
        { 405, "invalid_request_error" },
        { 413, "invalid_request_error" },
        { 415, "invalid_request_error" },
        { 429, "rate_limit_error" },
        { 500, "server_error" },
        { 503, "server_error" },
        { 504, "server_error" }
    };

    (void) state;

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        assert_int_equal(mst_api_error_set(&e, types[i].status, NULL, NULL,
                                           "x"), MST_ERROR);
        assert_string_equal(e.type, types[i].type);
        assert_int_equal(e.status, types[i].status);
    }
}


static void
test_body(void **state)
{
    json_t           *b;
    mst_api_error_t   e;

    (void) state;

    (void) mst_api_error_set(&e, 400, "invalid_value", "messages[3].role",
                             "role \"%s\"\n\x01", "x\xff");
    b = body(&e);

    assert_string_equal(json_string_value(json_object_get(b, "message")),
                        "role \"x\xef\xbf\xbd\"\n\x01");
    assert_string_equal(json_string_value(json_object_get(b, "type")),
                        "invalid_request_error");
    assert_string_equal(json_string_value(json_object_get(b, "param")),
                        "messages[3].role");
    assert_string_equal(json_string_value(json_object_get(b, "code")),
                        "invalid_value");
    json_decref(b);

    (void) mst_api_error_set(&e, 503, NULL, NULL, "%s", "");
    b = body(&e);

    assert_true(json_is_null(json_object_get(b, "param")));
    assert_true(json_is_null(json_object_get(b, "code")));
    assert_string_equal(json_string_value(json_object_get(b, "message")), "");
    json_decref(b);
}


/* the exact bytes, so that the order of the fields is a promise */

static void
test_bytes(void **state)
{
    mst_buf_t        out;
    mst_api_error_t  e;

    static const char  want[] =
        "{\"error\":{\"message\":\"no\",\"type\":\"rate_limit_error\","
        "\"param\":null,\"code\":\"slow\"}}\n";

    (void) state;

    (void) mst_api_error_set(&e, 429, "slow", "", "no");

    mst_buf_init(&out);
    assert_int_equal(mst_api_error_json(&e, &out), MST_OK);
    assert_int_equal(out.len, sizeof(want) - 1);
    assert_memory_equal(out.data, want, out.len);
    mst_buf_fini(&out);
}


/* a message or parameter that is too long is cut at a character */

static void
test_cut(void **state)
{
    char             text[2000];
    size_t           i, shift, n;
    mst_api_error_t  e;

    (void) state;

    for (shift = 0; shift < 4; shift++) {
        memset(text, 'a', shift);

        for (i = shift; i + 4 < sizeof(text); i += 4) {
            memcpy(text + i, "\xf0\x9f\x98\x80", 4);
        }

        text[i] = '\0';

        (void) mst_api_error_set(&e, 400, NULL, text, "%s", text);

        n = strlen(e.message);
        assert_true(n > sizeof(e.message) - 9 && n < sizeof(e.message));
        assert_int_equal((n - shift) % 4, 0);
        assert_int_equal(strlen(e.param), sizeof(e.param) - 1);

        json_decref(body(&e));
    }
}


static void
test_memory(void **state)
{
    long             n;
    mst_buf_t        out;
    mst_api_error_t  e;

    (void) state;

    (void) mst_api_error_set(&e, 400, "code", "param", "%0500d", 7);

    for (n = 1; n < 10; n++) {
        mst_buf_init(&out);
        mst_mem_fail_after(n);

        if (mst_api_error_json(&e, &out) == MST_OK) {
            mst_mem_fail_after(0);
            mst_buf_fini(&out);
            break;
        }

        mst_mem_fail_after(0);
        assert_true(out.failed);
        mst_buf_fini(&out);
    }

    assert_in_range(n, 2, 9);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_type),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

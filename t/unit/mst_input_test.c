
/* Prompts: many of them, memory that ends, what is freed. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_input.h"
#include "base/mst_mem.h"


static int
parse(const char *body, mst_request_t *r, mst_buf_t *text, mst_api_error_t *e)
{
    int           rc;
    json_t       *root;
    mst_field_t   f;

    memset(e, 0, sizeof(mst_api_error_t));
    memset(r, 0, sizeof(mst_request_t));
    memset(&f, 0, sizeof(mst_field_t));

    root = json_loads(body, 0, NULL);
    assert_non_null(root);

    f.object = root;
    f.e = e;

    rc = mst_input_parse(&f, r, text);

    json_decref(root);

    return rc;
}


static void
test_forms(void **state)
{
    mst_buf_t        text;
    mst_request_t    r;
    mst_api_error_t  e;

    (void) state;

    mst_buf_init(&text);
    assert_int_equal(mst_buf_reserve(&text, 100), MST_OK);

    assert_int_equal(parse("{\"prompt\":[\"ab\",[1,2],\"c\"]}", &r, &text, &e),
                     MST_OK);
    assert_int_equal(r.has_prompt, 1);
    assert_int_equal(r.n_inputs, 3);
    assert_true(mst_str_eq(r.inputs[0].text, "ab"));
    assert_null(r.inputs[0].ids);
    assert_int_equal(r.inputs[1].n_ids, 2);
    assert_int_equal(r.inputs[1].ids[0], 1);
    assert_int_equal(r.inputs[1].text.len, 0);
    assert_true(mst_str_eq(r.inputs[2].text, "c"));
    mst_input_destroy(&r);
    assert_null(r.inputs);
    mst_input_destroy(&r);

    /* flat ids are one prompt */

    assert_int_equal(parse("{\"prompt\":[1,2,3]}", &r, &text, &e), MST_OK);
    assert_int_equal(r.n_inputs, 1);
    assert_int_equal(r.inputs[0].n_ids, 3);
    mst_input_destroy(&r);

    /* one that is wrong: what came before it is freed with the rest */

    assert_int_equal(parse("{\"prompt\":[[1],\"x\",[2,\"y\"]]}", &r, &text,
                           &e), MST_ERROR);
    assert_string_equal(e.param, "prompt[2][1]");
    assert_string_equal(e.code, "invalid_type");
    mst_input_destroy(&r);

    mst_buf_fini(&text);
}


static void
test_many(void **state)
{
    int              n;
    mst_buf_t        text, body;
    mst_request_t    r;
    mst_api_error_t  e;

    (void) state;

    mst_buf_init(&text);
    assert_int_equal(mst_buf_reserve(&text, 10000), MST_OK);
    mst_buf_init(&body);

    (void) mst_buf_text(&body, "{\"prompt\":[\"a\"");

    for (n = 1; n < MST_INPUT_MAX; n++) {
        (void) mst_buf_text(&body, ",\"b\"");
    }

    assert_int_equal(mst_buf_append(&body, "]}", 3), MST_OK);
    assert_int_equal(parse(body.data, &r, &text, &e), MST_OK);
    assert_int_equal(r.n_inputs, MST_INPUT_MAX);
    mst_input_destroy(&r);

    body.len -= 3;
    (void) mst_buf_append(&body, ",\"c\"]}", 7);
    assert_int_equal(parse(body.data, &r, &text, &e), MST_ERROR);
    assert_string_equal(e.message, "prompt has 2049 prompts, must have at "
                        "most 2048");
    mst_input_destroy(&r);

    mst_buf_fini(&body);
    mst_buf_fini(&text);
}


static void
test_memory(void **state)
{
    int              n, rc;
    mst_buf_t        text;
    mst_request_t    r;
    mst_api_error_t  e;

    (void) state;

    mst_buf_init(&text);
    assert_int_equal(mst_buf_reserve(&text, 100), MST_OK);

    for (n = 1; n < 10; n++) {
        mst_mem_fail_after((unsigned) n);
        rc = parse("{\"prompt\":[[1],[2]]}", &r, &text, &e);
        mst_mem_fail_after(0);
        mst_input_destroy(&r);

        if (rc == MST_OK) {
            break;
        }

        assert_int_equal(e.status, 500);
    }

    assert_int_equal(n, 4);
    mst_buf_fini(&text);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

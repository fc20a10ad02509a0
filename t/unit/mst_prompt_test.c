
/*
 * Spans: neighbours join, control tokens part, failures leave no damage, and
 * a buffer that a prompt took over is its own.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_prompt.h"


static void
expect(const mst_prompt_t *p, size_t i, const char *text, uint32_t id)
{
    assert_true(i < p->n);
    assert_int_equal(p->spans[i].len, strlen(text));
    assert_int_equal(p->spans[i].id, id);

    if (*text) {
        assert_memory_equal(p->text.data + p->spans[i].off, text,
                            strlen(text));
    }
}


static void
test_spans(void **state)
{
    mst_prompt_t  p;

    (void) state;

    mst_prompt_init(&p);

    assert_int_equal(mst_prompt_text(&p, NULL, 0), MST_OK);
    assert_int_equal(p.n, 0);

    assert_int_equal(mst_prompt_text(&p, "user\n", 5), MST_OK);
    assert_int_equal(mst_prompt_text(&p, "", 0), MST_OK);
    assert_int_equal(mst_prompt_text(&p, "Hi", 2), MST_OK);
    assert_int_equal(mst_prompt_control(&p, 2), MST_OK);
    assert_int_equal(mst_prompt_control(&p, 0), MST_OK);
    assert_int_equal(mst_prompt_text(&p, "\n", 1), MST_OK);

    assert_int_equal(p.n, 4);
    expect(&p, 0, "user\nHi", 0);
    expect(&p, 1, "", 2);
    expect(&p, 2, "", 0);
    expect(&p, 3, "\n", 0);

    mst_prompt_fini(&p);
    mst_prompt_fini(&p);
    assert_int_equal(p.n, 0);
}


static void
test_many(void **state)
{
    uint32_t      i;
    mst_prompt_t  p;

    (void) state;

    mst_prompt_init(&p);

    for (i = 0; i < 1000; i++) {
        assert_int_equal(mst_prompt_control(&p, i), MST_OK);
        assert_int_equal(mst_prompt_text(&p, "ab", 2), MST_OK);
    }

    assert_int_equal(p.n, 2000);

    for (i = 0; i < 1000; i++) {
        expect(&p, 2 * i, "", i);
        expect(&p, 2 * i + 1, "ab", 0);
        assert_int_equal(p.spans[2 * i + 1].off, 2 * i);
    }

    mst_prompt_fini(&p);
}


static void
test_no_memory(void **state)
{
    long          n;
    mst_prompt_t  p;

    (void) state;

    for (n = 1; n < 3; n++) {
        mst_prompt_init(&p);
        mst_mem_fail_after(n);
        assert_int_equal(mst_prompt_text(&p, "ab", 2), MST_ERROR);
        mst_mem_fail_after(0);
        assert_int_equal(p.n, 0);
        mst_prompt_fini(&p);
    }

    mst_mem_fail_after(1);
    assert_int_equal(mst_prompt_control(&p, 1), MST_ERROR);
    mst_mem_fail_after(0);
    assert_int_equal(p.n, 0);
    mst_prompt_fini(&p);
}


/* a text that exists, without what control tokens are spelled with */

static void
test_take(void **state)
{
    char          *data;
    mst_buf_t      text;
    mst_prompt_t   p;

    (void) state;

    mst_prompt_init(&p);
    mst_buf_init(&text);

    assert_int_equal(mst_prompt_text(&p, "older", 5), MST_OK);
    assert_int_equal(mst_buf_append(&text, "<s>user: <s>Hi</s>", 18), MST_OK);

    data = text.data;
    mst_prompt_take(&p, &text);

    assert_null(text.data);
    assert_int_equal(text.len, 0);
    assert_ptr_equal(p.text.data, data);
    assert_int_equal(p.text.len, 0);
    assert_int_equal(p.n, 0);

    assert_int_equal(mst_prompt_keep(&p, 0, 0), MST_OK);
    assert_int_equal(p.n, 0);
    assert_int_equal(mst_prompt_control(&p, 1), MST_OK);
    assert_int_equal(mst_prompt_keep(&p, 3, 6), MST_OK);
    assert_int_equal(mst_prompt_keep(&p, 9, 5), MST_OK);
    assert_int_equal(mst_prompt_control(&p, 2), MST_OK);

    assert_int_equal(p.n, 3);
    expect(&p, 0, "", 1);
    expect(&p, 1, "user: <s>Hi", 0);
    expect(&p, 2, "", 2);
    assert_int_equal(p.text.len, 11);

    /* what held it before ends first, as a request that is cancelled does */

    mst_buf_fini(&text);
    expect(&p, 1, "user: <s>Hi", 0);
    mst_prompt_fini(&p);
}


static void
test_take_no_memory(void **state)
{
    mst_buf_t     text;
    mst_prompt_t  p;

    (void) state;

    mst_prompt_init(&p);
    mst_buf_init(&text);

    assert_int_equal(mst_buf_append(&text, "abc", 3), MST_OK);
    mst_prompt_take(&p, &text);

    mst_mem_fail_after(1);
    assert_int_equal(mst_prompt_keep(&p, 1, 2), MST_ERROR);
    mst_mem_fail_after(0);
    assert_int_equal(p.n, 0);
    assert_int_equal(p.text.len, 0);

    mst_prompt_fini(&p);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_take_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/mst_buf.h"
#include "base/mst_mem.h"


static void
expect(const mst_buf_t *b, const char *text, size_t len)
{
    assert_int_equal(b->len, len);
    assert_memory_equal(b->data, text, len);
}


static void
test_append(void **state)
{
    mst_buf_t  b;

    (void) state;

    mst_buf_init(&b);
    assert_null(b.data);

    assert_int_equal(mst_buf_append(&b, NULL, 0), MST_OK);
    assert_int_equal(b.len, 0);

    assert_int_equal(mst_buf_append(&b, "a\0b", 3), MST_OK);
    assert_int_equal(mst_buf_str(&b, mst_str("\0cut", 2)), MST_OK);
    assert_int_equal(mst_buf_text(&b, "text"), MST_OK);
    assert_int_equal(mst_buf_char(&b, '\xff'), MST_OK);
    expect(&b, "a\0b\0ctext\xff", 10);

    mst_buf_reset(&b);
    assert_int_equal(b.len, 0);
    assert_int_equal(mst_buf_text(&b, "new"), MST_OK);
    expect(&b, "new", 3);

    mst_buf_fini(&b);
    mst_buf_fini(&b);
    assert_null(b.data);
}


static void
test_numbers(void **state)
{
    mst_buf_t  b;

    (void) state;

    mst_buf_init(&b);

    assert_int_equal(mst_buf_uint(&b, 0), MST_OK);
    assert_int_equal(mst_buf_char(&b, ' '), MST_OK);
    assert_int_equal(mst_buf_uint(&b, 1234567890), MST_OK);
    assert_int_equal(mst_buf_char(&b, ' '), MST_OK);
    assert_int_equal(mst_buf_uint(&b, UINT64_MAX), MST_OK);
    expect(&b, "0 1234567890 18446744073709551615", 33);

    mst_buf_reset(&b);
    assert_int_equal(mst_buf_printf(&b, "%d-%s", 7, "x"), MST_OK);
    assert_int_equal(mst_buf_printf(&b, "%s", ""), MST_OK);
    assert_int_equal(mst_buf_printf(&b, "%c", '!'), MST_OK);
    expect(&b, "7-x!", 4);

    mst_buf_fini(&b);
}


/* every length up to a few doublings: contents survive each move */

static void
test_growth(void **state)
{
    size_t     i;
    mst_buf_t  b;

    (void) state;

    mst_buf_init(&b);

    for (i = 0; i < 5000; i++) {
        assert_int_equal(mst_buf_char(&b, (char) (i * 7)), MST_OK);
        assert_true(b.size >= b.len);
    }

    for (i = 0; i < 5000; i++) {
        assert_int_equal(b.data[i], (char) (i * 7));
    }

    /* room is room: nothing moves, and it doubles rather than creeps */

    assert_int_equal(b.size, 8192);
    assert_int_equal(mst_buf_reserve(&b, 3192), MST_OK);
    assert_int_equal(b.size, 8192);
    assert_int_equal(mst_buf_reserve(&b, 3193), MST_OK);
    assert_int_equal(b.size, 16384);
    assert_int_equal(b.len, 5000);

    mst_buf_fini(&b);
}


static void
test_overflow(void **state)
{
    mst_buf_t  b;

    (void) state;

    mst_buf_init(&b);
    assert_int_equal(mst_buf_text(&b, "kept"), MST_OK);

    assert_int_equal(mst_buf_reserve(&b, SIZE_MAX), MST_ERROR);
    assert_int_equal(b.failed, 1);
    expect(&b, "kept", 4);

    assert_int_equal(mst_buf_text(&b, "x"), MST_ERROR);
    assert_int_equal(mst_buf_printf(&b, "x"), MST_ERROR);
    assert_int_equal(mst_buf_uint(&b, 1), MST_ERROR);
    expect(&b, "kept", 4);

    mst_buf_reset(&b);
    assert_int_equal(b.failed, 0);
    assert_int_equal(mst_buf_reserve(&b, SIZE_MAX / 2 + 1), MST_ERROR);

    mst_buf_fini(&b);
}


/* the n-th allocation fails, for all n: what stood there still stands, and
   the failure sticks until the end */

static void
test_memory(void **state)
{
    int        i, rc, failed;
    long       n;
    size_t     len;
    mst_buf_t  b;

    (void) state;

    for (n = 1; n < 100; n++) {
        mst_buf_init(&b);
        mst_mem_fail_after(n);

        failed = 0;
        len = 0;

        for (i = 0; i < 2000; i++) {
            rc = (i % 2) ? mst_buf_printf(&b, "%04d", i)
                         : mst_buf_append(&b, "abcd", 4);

            assert_int_equal(b.failed, failed || rc != MST_OK);

            if (failed) {
                assert_int_equal(rc, MST_ERROR);
            }

            failed = b.failed;

            if (!failed) {
                len += 4;
            }

            assert_int_equal(b.len, len);
        }

        mst_mem_fail_after(0);

        for (i = 0; i + 8 <= (int) len; i += 8) {
            assert_memory_equal(b.data + i, "abcd", 4);
        }

        mst_buf_fini(&b);

        if (!failed) {
            break;
        }
    }

    assert_int_equal(len, 8000);
    assert_int_equal(n, 7);                    /* 256 .. 8192 */
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_buf", tests, NULL, NULL);
}


/*
 * Letters of several bytes: where they are one symbol, and what keeps them
 * from it.  That merging with them gives the right ids: mst_bpe_merge_test.c.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "text/mst_letter.h"


static mst_str_t
str(const char *s)
{
    return mst_str(s, strlen(s));
}


/* the size at text[i]; its symbol must be 50 then */

static size_t
at(const mst_letter_t *l, const char *text, size_t i)
{
    size_t    size;
    uint32_t  symbol;

    symbol = 0;
    size = mst_letter_at(l, (const unsigned char *) text, i, strlen(text),
                         &symbol);
    assert_int_equal(symbol, size ? 50 : 0);

    return size;
}


static void
test_where(void **state)
{
    mst_letter_t  l;

    (void) state;

    assert_int_equal(mst_letter_init(&l), MST_OK);

    mst_letter_put(&l, str("\xd0\xb1"), 50);
    mst_letter_put(&l, str("\xe3\x81\x82"), 50);
    mst_letter_put(&l, str("\xe3\x81"), 50);           /* half a letter */
    mst_letter_put(&l, str("ab"), 50);
    mst_letter_put(&l, str("\xf0\x9f\x98\x80"), 50);
    mst_letter_put(&l, str("\xed\xa0\x80"), 50);       /* a surrogate */

    assert_int_equal(at(&l, "\xd0\xb1", 0), 2);
    assert_int_equal(at(&l, "x\xd0\xb1y", 1), 2);
    assert_int_equal(at(&l, "\xe3\x81\x82\xd0\xb1", 0), 3);
    assert_int_equal(at(&l, "\xe3\x81\x82\xd0\xb1", 3), 2);
    assert_int_equal(at(&l, "\xe3\x81\x82", 1), 0);
    assert_int_equal(at(&l, "\xe3\x81", 0), 0);
    assert_int_equal(at(&l, "\xd0", 0), 0);
    assert_int_equal(at(&l, "\xd0x", 0), 0);
    assert_int_equal(at(&l, "\xd1\xb1", 0), 0);
    assert_int_equal(at(&l, "\xe3\x81\x83", 0), 0);
    assert_int_equal(at(&l, "\xe0\x90\xb1", 0), 0);    /* overlong d0 b1 */
    assert_int_equal(at(&l, "\xf0\x9f\x98\x80", 0), 0);
    assert_int_equal(at(&l, "\xed\xa0\x80", 0), 0);

    mst_letter_fini(&l);
    mst_letter_fini(&l);
}


static void
test_beside(void **state)
{
    mst_letter_t  l;

    (void) state;

    assert_int_equal(mst_letter_init(&l), MST_OK);

    mst_letter_put(&l, str("\xd0\xb1"), 50);
    mst_letter_put(&l, str("\xe3\x81\x82"), 50);

    /* what ranks behind the letter does not matter, nor what takes all of
       it */

    mst_letter_merge(&l, str(" "), str("\xd0"), 51);
    mst_letter_merge(&l, str("a"), str("\xd0\xb1"), 10);
    assert_int_equal(at(&l, " \xd0\xb1", 1), 2);
    assert_int_equal(at(&l, "a\xd0\xb1", 1), 2);

    mst_letter_merge(&l, str("x "), str("\xd0"), 50);
    assert_int_equal(at(&l, " \xd0\xb1", 1), 0);
    assert_int_equal(at(&l, "x\xd0\xb1", 1), 2);

    mst_letter_merge(&l, str("\xb1"), str("yz"), 49);
    assert_int_equal(at(&l, "\xd0\xb1y", 0), 0);
    assert_int_equal(at(&l, "\xd0\xb1z", 0), 2);

    mst_letter_merge(&l, str("b"), str("\xe3\x81"), 20);
    mst_letter_merge(&l, str("\x81\x82"), str("b"), 20);
    assert_int_equal(at(&l, "b\xe3\x81\x82", 1), 0);
    assert_int_equal(at(&l, "\xe3\x81\x82" "b", 0), 0);
    assert_int_equal(at(&l, "c\xe3\x81\x82" "c", 1), 3);

    mst_letter_drop(&l, 'c');
    assert_int_equal(at(&l, "c\xe3\x81\x82", 1), 0);
    assert_int_equal(at(&l, "\xe3\x81\x82" "c", 0), 0);

    mst_letter_fini(&l);
}


static void
test_no_memory(void **state)
{
    long          n;
    mst_letter_t  l;

    (void) state;

    for (n = 1; n <= 3; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_letter_init(&l), MST_ERROR);
        mst_mem_fail_after(0);
        mst_letter_fini(&l);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

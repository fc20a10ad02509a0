
/*
 * Tokens by their bytes: every string of two letters up to 13 bytes, half of
 * them put, each found with its own number or not at all.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "text/mst_piece.h"

#define MAX  13


/* string number "bits" of "len" letters, at the end of a buffer of its own,
   so that what reads past it is found */

static char *
string(uint32_t bits, size_t len)
{
    char    *s;
    size_t   i;

    s = malloc(len);

    for (i = 0; i < len; i++) {
        s[i] = bits >> i & 1 ? 'b' : '\0';
    }

    return s;
}


static int
is_put(uint32_t bits)
{
    return bits * 2654435761u >> 31;
}


static void
test_find(void **state)
{
    char         *s;
    size_t        len;
    uint32_t      bits, found, id, maybe, none;
    mst_piece_t   t;

    (void) state;

    assert_int_equal(mst_piece_init(&t, 1 << MAX), MST_OK);

    for (id = 0, len = 1; len <= MAX; len++) {
        for (bits = 0; bits < 1u << len; bits++, id++) {
            s = string(bits, len);

            if (is_put(bits)) {
                assert_int_equal(mst_piece_put(&t, s, len, id % 3 ? id
                                               : id | MST_PIECE_WHOLE),
                                 MST_OK);
            }

            free(s);
        }
    }

    maybe = none = 0;

    for (id = 0, len = 1; len <= MAX; len++) {
        for (bits = 0; bits < 1u << len; bits++, id++) {
            s = string(bits, len);

            if (len > MST_PIECE_MAX) {
                found = (uint32_t) mst_piece_long(&t, s, len);
                assert_true(found || !is_put(bits));
                maybe += found && !is_put(bits);
                none += !is_put(bits);

            } else {
                found = mst_piece_find(&t, s, len);
                assert_int_equal(found, !is_put(bits) ? MST_PIECE_NONE
                                 : id % 3 ? id : (id | MST_PIECE_WHOLE));
            }

            free(s);
        }
    }

    /* the bits of most of what is not there are not, either */

    assert_true(none > 1000 && maybe < none / 2);

    mst_piece_fini(&t);
    mst_piece_fini(&t);
}


static void
test_no_memory(void **state)
{
    long         n;
    mst_piece_t  t;

    (void) state;

    for (n = 1; n <= 2; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_piece_init(&t, 10), MST_ERROR);
        mst_mem_fail_after(0);
        mst_piece_fini(&t);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Pieces met before: found with their own ids only, and forgotten.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "text/mst_memo.h"


static void
test_small(void **state)
{
    mst_memo_t  m;

    (void) state;

    mst_memo_init(&m, 100);
    assert_null(m.slots);
    mst_memo_reset(&m);
    mst_memo_fini(&m);
}


/* every piece of a random text of few letters, against its own bytes */

static void
test_random(void **state)
{
    int               found, hits;
    char              text[8192];
    size_t            at, i, len;
    uint64_t          r;
    mst_str_t         piece;
    mst_memo_t        m;
    mst_memo_slot_t  *slot;

    (void) state;

    for (i = 0, r = 1; i < sizeof(text); i++) {
        r = r * 6364136223846793005ull + 1442695040888963407ull;
        text[i] = "abcd"[r >> 62];
    }

    mst_memo_init(&m, sizeof(text));
    assert_non_null(m.slots);
    hits = 0;

    for (i = 0; i < 200000; i++) {
        r = r * 6364136223846793005ull + 1442695040888963407ull;
        len = 1 + (r >> 40) % (i % 3 ? 5 : MST_MEMO_PIECE);
        at = (r >> 20) % (sizeof(text) - len + 1);
        piece = mst_str(text + at, len);

        slot = mst_memo_slot(&m, piece, &found);

        if (found) {
            assert_int_equal(slot->len, len);
            assert_memory_equal(text + slot->first, text + at, len);
            assert_int_equal(slot->n, len % 7);
            hits++;
        }

        slot->data = piece.data;
        slot->len = (uint16_t) len;
        slot->first = (uint32_t) at;
        slot->n = (uint16_t) (len % 7);
    }

    assert_true(hits > 50000);

    mst_memo_reset(&m);
    (void) mst_memo_slot(&m, piece, &found);
    assert_int_equal(found, 0);

    mst_memo_fini(&m);
    mst_memo_fini(&m);
}


/* what was taken over and not put there is not found */

static void
test_taken(void **state)
{
    int               found;
    mst_str_t         piece;
    mst_memo_t        m;
    mst_memo_slot_t  *slot;

    (void) state;

    mst_memo_init(&m, 4096);
    piece = mst_str("word", 4);
    slot = mst_memo_slot(&m, piece, &found);
    assert_int_equal(found, 0);
    assert_null(slot->data);

    (void) mst_memo_slot(&m, piece, &found);
    assert_int_equal(found, 0);
    mst_memo_fini(&m);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_taken)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

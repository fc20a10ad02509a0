
/*
 * Pieces merged side by side against each of them merged by itself, which
 * mst_bpe_merge_test.c holds against the definition: the same ids whatever
 * stands in the other lanes.
 */

#include "mst_made_bpe.h"

#include "text/mst_lane.h"

#include "seed.h"

#define LANES  20


static size_t
random_piece(char *text)
{
    size_t  len, n;

    /* up to the most symbols, and a few more */

    n = rand() % 4 ? 8 : 20;
    len = text_of(text, 1 + (size_t) rand() % n);

    if (rand() % 10 == 0) {
        text[(size_t) rand() % len] = (char) rand();
    }

    return len;
}


static void
test_random(void **state)
{
    char         text[LANES][MST_BPE_SHORT];
    size_t       cost, i, len[LANES], many, n, started;
    made_t       m;
    uint32_t     ids[MST_BPE_SHORT], symbols[MST_BPE_SHORT + 1];
    uint32_t     want[MST_BPE_SHORT];
    unsigned     k, round;
    mst_lane_t   lane[LANES], *lanes[LANES];

    (void) state;

    srand((unsigned) test_seed());
    many = 0;

    for (round = 0; round < 100; round++) {
        make(&m, round % 2 ? RANKS_RISING : RANKS_MIXED);
        assert_true(mst_lane_fit(&m.bpe));

        for (k = 0; k < 20; k++) {

            for (started = 0, i = 0; i < LANES; i++) {
                len[i] = random_piece(text[i]);

                if (mst_lane_start(&lane[i], &m.bpe, text[i], len[i])) {
                    lanes[started++] = &lane[i];
                    continue;
                }

                n = mst_bpe_symbols(&m.bpe, text[i], len[i], symbols, len[i]);
                assert_true(n > MST_LANE_SYMBOLS);
                len[i] = 0;
                many++;
            }

            mst_lane_merge(&m.bpe, lanes, started);

            for (i = 0; i < LANES; i++) {

                if (len[i] == 0) {
                    continue;
                }

                n = mst_lane_take(&lane[i], &m.bpe, ids);
                assert_int_equal(mst_bpe_short(&m.bpe, text[i], len[i], want,
                                               &cost), n);
                assert_memory_equal(ids, want, n * sizeof(uint32_t));
            }
        }

        unmake(&m);
    }

    assert_true(many > 100);
}


/* where equal ranks are told apart by place only, and over code points */

static void
test_fit(void **state)
{
    made_t  m;

    (void) state;

    srand((unsigned) test_seed());

    make(&m, RANKS_EQUAL);
    assert_false(mst_lane_fit(&m.bpe));
    m.bpe.chars = 1;
    assert_false(mst_lane_fit(&m.bpe));
    m.bpe.chars = 0;
    unmake(&m);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_fit)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

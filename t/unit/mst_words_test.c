
/*
 * Batches of pieces against each piece by itself: the same ids, with and
 * without a memo, which is small here, so that pieces of a batch take each
 * other's places; and where the vocabulary has no lanes.
 */

#include "mst_made_bpe.h"

#include "base/mst_mem.h"
#include "text/mst_words.h"

#include "seed.h"

#define PIECES  400
#define KINDS   30


static char       text[PIECES * MST_BPE_SHORT];
static mst_str_t  pieces[PIECES];
static uint32_t   ids[PIECES * MST_BPE_SHORT];
static uint32_t   want[PIECES * MST_BPE_SHORT];


/* few different ones, each many times, most of them short */

static size_t
random_pieces(void)
{
    char    kinds[KINDS][MST_BPE_SHORT];
    size_t  i, k, len[KINDS], n;

    for (i = 0; i < KINDS; i++) {
        len[i] = text_of(kinds[i], 1 + (size_t) rand() % (i % 5 ? 4 : 20));
    }

    for (n = 0, i = 0; i < PIECES; i++) {
        k = (size_t) rand() % KINDS;
        memcpy(text + n, kinds[k], len[k]);
        pieces[i] = mst_str(text + n, len[k]);
        n += len[k];
    }

    return n;
}


static size_t
one_by_one(const mst_tokenizer_t *t)
{
    size_t   cost, i, n;
    int64_t  id;

    for (n = 0, i = 0; i < PIECES; i++) {
        id = mst_words_token(t, pieces[i]);

        if (id >= 0) {
            want[n++] = (uint32_t) id;

        } else {
            n += mst_bpe_short(&t->bpe, pieces[i].data, pieces[i].len,
                               want + n, &cost);
        }
    }

    return n;
}


static size_t
by_batch(const mst_tokenizer_t *t, mst_memo_t *memo, size_t *cost)
{
    int          more;
    size_t       i, n;
    mst_words_t  w;

    *cost = 0;

    for (n = 0, i = 0; i < PIECES; /* void */ ) {
        mst_words_init(&w, t, memo, ids, n);

        do {
            more = mst_words_add(&w, pieces[i++]);
        } while (more && i < PIECES);

        n = mst_words_finish(&w);
        *cost += w.cost;
    }

    return n;
}


static void
test_random(void **state)
{
    size_t           bare, cost, n, len, want_n;
    made_t           m;
    unsigned         round;
    mst_memo_t       memo;
    mst_tokenizer_t  t;

    (void) state;

    srand((unsigned) test_seed());
    memset(&t, 0, sizeof(t));

    for (round = 0; round < 150; round++) {
        make(&m, round % 3);
        t.bpe = m.bpe;
        t.whole = round % 2;

        len = random_pieces();
        want_n = one_by_one(&t);

        memo.slots = NULL;
        n = by_batch(&t, &memo, &bare);

        assert_int_equal(n, want_n);
        assert_memory_equal(ids, want, n * sizeof(uint32_t));

        mst_memo_init(&memo, len);
        assert_non_null(memo.slots);
        memo.mask = 7;
        n = by_batch(&t, &memo, &cost);

        assert_int_equal(n, want_n);
        assert_memory_equal(ids, want, n * sizeof(uint32_t));

        /* what is known costs nothing more */

        assert_true(bare > 0);
        assert_true(cost < bare);

        mst_memo_fini(&memo);
        unmake(&m);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Long pieces against the merging of short ones, in all kinds of vocabulary
 * and in every budget; then texts of one letter, of which nothing may take
 * more steps than a few for each byte.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_chain.h"

#include "seed.h"

#define LETTERS  4
#define TOKENS   60


typedef struct {
    mst_vocab_t  vocab;
    mst_bpe_t    bpe;
} made_t;


/* letters of one or two bytes, then random tokens of them with random ranks,
   of which some are equal */

static void
make(made_t *m, int chars, int letters)
{
    char      text[64];
    size_t    len;
    uint32_t  i, k, n, ranks[TOKENS];

    static const char *const  one[LETTERS] = { "a", "b", "c", "d" };
    static const char *const  two[LETTERS] = {
        "a", "\xc3\xa9", "\xd0\xb1", "b"
    };

    assert_int_equal(mst_vocab_init(&m->vocab, TOKENS, TOKENS * 64), MST_OK);

    for (i = 0; i < TOKENS; i++) {
        ranks[i] = (uint32_t) rand() % 40;

        do {
            n = i < (uint32_t) letters ? 1 : 2 + (uint32_t) rand() % 6;

            for (len = 0, k = 0; k < n; k++) {
                (void) strcpy(text + len,
                              (chars ? two : one)[n == 1 ? (int) i
                                                  : rand() % letters]);
                len += strlen(text + len);
            }
        } while (mst_vocab_put(&m->vocab, i, MST_VOCAB_NORMAL, text, len)
                 != MST_OK && letters > 1);
    }

    assert_int_equal(mst_bpe_init_ranks(&m->bpe, &m->vocab, ranks, chars),
                     MST_OK);
}


static void
unmake(made_t *m)
{
    mst_bpe_fini(&m->bpe);
    mst_vocab_fini(&m->vocab);
}


static size_t
run(mst_chain_t *c, const mst_bpe_t *b, const char *data, size_t len,
    size_t budget, uint32_t *ids)
{
    int     rc;
    size_t  got, left, n;

    assert_int_equal(mst_chain_start(c, b, data, len), MST_OK);

    do {
        left = budget;
        rc = mst_chain_run(c, &left);
        assert_int_not_equal(rc, MST_ERROR);
    } while (rc == MST_AGAIN);

    for (n = 0; (got = mst_chain_take(c, ids + n, 3)) != 0; n += got) {
        /* void */
    }

    return n;
}


static void
test_random(void **state)
{
    int           chars, letters;
    char          text[MST_BPE_SHORT + 4];
    made_t        m;
    size_t        cost, i, len, n, want_n;
    uint32_t      ids[MST_BPE_SHORT], want[MST_BPE_SHORT];
    unsigned      round, seed;
    mst_str_t     s;
    mst_chain_t   c;

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    for (round = 0; round < 200; round++) {
        chars = round % 2;
        letters = 2 + (int) round % 3;
        make(&m, chars, letters);
        memset(&c, 0, sizeof(c));

        for (i = 0; i < 60; i++) {
            for (len = 0; len < 4 + (size_t) rand() % 60; len += s.len) {
                s = mst_vocab_token(&m.vocab,
                                    (uint32_t) (rand() % letters));
                memcpy(text + len, s.data, s.len);

                if (!chars && len < 50 && rand() % 8 == 0) {
                    text[s.len + len++] = 'x';         /* has no token */
                }
            }

            want_n = mst_bpe_short(&m.bpe, text, len, want, &cost);
            n = run(&c, &m.bpe, text, len, 1 + (size_t) rand() % 50, ids);
            assert_int_equal(n, want_n);
            assert_memory_equal(ids, want, n * sizeof(uint32_t));
        }

        mst_chain_fini(&c);
        unmake(&m);
    }
}


/* 2^k letters are tokens for k < 8: how many of each, and the work */

static void
test_repeated(void **state)
{
    char         *text;
    made_t        m;
    size_t        budget, left, len, n;
    uint32_t      i, *ids, ranks[8];
    mst_chain_t   c;

    (void) state;

    text = malloc(1 << 20);
    ids = malloc((1 << 20) * sizeof(uint32_t));
    memset(text, 'a', 1 << 20);
    assert_int_equal(mst_vocab_init(&m.vocab, 8, 256), MST_OK);

    for (i = 0; i < 8; i++) {
        ranks[i] = i;
        assert_int_equal(mst_vocab_put(&m.vocab, i, MST_VOCAB_NORMAL, text,
                                       1u << i), MST_OK);
    }

    assert_int_equal(mst_bpe_init_ranks(&m.bpe, &m.vocab, ranks, 0), MST_OK);
    memset(&c, 0, sizeof(c));

    len = (1 << 20) - 1;
    budget = len;
    assert_int_equal(mst_chain_start(&c, &m.bpe, text, len), MST_OK);

    /* bytes without a token are looked for within the budget, too */

    left = 1000;
    assert_int_equal(mst_chain_run(&c, &left), MST_AGAIN);
    assert_int_equal(left, 0);
    assert_non_null(c.rest);
    assert_int_equal(c.pos, 0);

    left = budget;
    assert_int_equal(mst_chain_run(&c, &left), MST_OK);
    assert_true(left > 0);

    n = run(&c, &m.bpe, text, len, 1000, ids);
    assert_int_equal(n, len / 128 + 7);
    assert_int_equal(ids[0], 7);
    assert_int_equal(ids[n - 1], 0);

    mst_chain_fini(&c);
    mst_chain_fini(&c);
    unmake(&m);
    free(text);
    free(ids);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_repeated)
    };

    return cmocka_run_group_tests_name("mst_chain", tests, NULL, NULL);
}

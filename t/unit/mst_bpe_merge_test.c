
/*
 * Merging by pairs against the definition, which knows neither pairs nor
 * letters: of all places where the bytes of two symbols are a token, the one
 * of lowest rank, then the leftmost.  The vocabularies are random: tokens
 * begin and end anywhere within letters, ranks have no order, some are equal.
 */

#include "mst_made_bpe.h"

#define SEED  1


static size_t
definition(const made_t *m, const char *data, size_t len, uint32_t *ids)
{
    size_t    at[MST_BPE_SHORT + 1], best, i, n;
    int64_t   id;
    uint32_t  rank;

    for (n = 0; n <= len; n++) {
        at[n] = n;
    }

    n = len;

    for ( ;; ) {
        rank = MST_BPE_NONE;
        best = n;

        for (i = 0; i + 1 < n; i++) {
            id = mst_vocab_find(&m->vocab, 0, data + at[i],
                                at[i + 2] - at[i]);

            if (id >= 0 && m->ranks[id] < rank) {
                rank = m->ranks[id];
                best = i;
            }
        }

        if (best == n) {
            break;
        }

        memmove(&at[best + 1], &at[best + 2],
                (n - best - 1) * sizeof(size_t));
        n--;
    }

    for (i = 0; i < n; i++) {
        ids[i] = (uint32_t) mst_vocab_find(&m->vocab, 0, data + at[i],
                                           at[i + 1] - at[i]);
    }

    return n;
}


static size_t
letters_at_once(const made_t *m, const char *text, size_t len)
{
    size_t                i, n;
    uint32_t              symbol;
    const unsigned char  *p;

    p = (const unsigned char *) text;

    for (n = 0, i = 0; i < len; i++) {
        n += mst_letter_at(&m->bpe.letters, p, i, len, &symbol) != 0;
    }

    return n;
}


static void
test_random(void **state)
{
    char      text[MST_BPE_SHORT];
    size_t    cost, len, n, once, want_n;
    made_t    m;
    uint32_t  ids[MST_BPE_SHORT], want[MST_BPE_SHORT];
    unsigned  k, round;

    (void) state;

    srand(SEED);
    once = 0;

    for (round = 0; round < 200; round++) {
        make(&m, round % 3);

        for (k = 0; k < 100; k++) {
            len = text_of(text, 1 + (size_t) rand() % 21);

            if (k % 10 == 0) {
                text[(size_t) rand() % len] = (char) rand();
            }

            once += letters_at_once(&m, text, len);

            want_n = definition(&m, text, len, want);
            n = mst_bpe_short(&m.bpe, text, len, ids, &cost);

            assert_int_equal(n, want_n);
            assert_memory_equal(ids, want, n * sizeof(uint32_t));
            assert_true(cost > 0);
        }

        unmake(&m);
    }

    assert_true(once > 1000);
}


/* two tokens stand side by side just where merging their bytes says so */

static void
test_apart(void **state)
{
    char       text[MST_BPE_SHORT];
    size_t     cost, n;
    made_t     m;
    uint32_t   i, k, ids[MST_BPE_SHORT];
    mst_str_t  a, b;

    (void) state;

    srand(SEED);
    make(&m, RANKS_RISING);

    for (i = 256; i < m.n; i++) {
        for (k = 256; k < m.n; k++) {
            a = mst_vocab_token(&m.vocab, i);
            b = mst_vocab_token(&m.vocab, k);
            memcpy(text, a.data, a.len);
            memcpy(text + a.len, b.data, b.len);

            n = definition(&m, text, a.len + b.len, ids);

            assert_int_equal(mst_bpe_apart(&m.bpe, i, k, &cost),
                             n == 2 && ids[0] == i && ids[1] == k);
        }
    }

    unmake(&m);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_apart)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Merging by pairs against the definition, which knows neither pairs nor
 * letters: of all places where the bytes of two symbols are a token, the one
 * of lowest rank, then the leftmost.  The vocabularies are random: tokens
 * begin and end anywhere within letters, ranks have no order, some are equal.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_bpe.h"

#define LETTERS  8
#define TOKENS   120
#define SEED     1


typedef struct {
    mst_vocab_t  vocab;
    mst_bpe_t    bpe;
    uint32_t     n;
    uint32_t     ranks[256 + TOKENS];
} made_t;


static const char *const  letters[LETTERS] = {
    "a", " ", "\xd0\xb0", "\xd0\xb1", "\xd1\xb0", "\xe3\x81\x82",
    "\xe3\x81\x84", "\xe3\x82\x82"
};


static size_t
text_of(char *text, size_t n)
{
    size_t       i, len;
    const char  *s;

    for (len = 0, i = 0; i < n; i++) {
        s = letters[rand() % LETTERS];
        memcpy(text + len, s, strlen(s));
        len += strlen(s);
    }

    return len;
}


/* all bytes, then parts of texts; "rising" ranks as those that training
   gives: short tokens first */

static void
make(made_t *m, int rising)
{
    char      text[64];
    size_t    at, len, n;
    uint32_t  i;

    assert_int_equal(mst_vocab_init(&m->vocab, 256 + TOKENS, 8192), MST_OK);

    for (i = 0; i < 256; i++) {
        text[0] = (char) i;
        m->ranks[i] = i;
        assert_int_equal(mst_vocab_put(&m->vocab, i, MST_VOCAB_NORMAL, text,
                                       1), MST_OK);
    }

    for (i = 256; i < 256 + TOKENS; i++) {

        do {
            n = text_of(text, 8);
            len = rising ? 2 + (i - 256) / 24 : 2 + (size_t) rand() % 5;
            at = (size_t) rand() % (n - len + 1);
        } while (mst_vocab_put(&m->vocab, i, MST_VOCAB_NORMAL, text + at, len)
                 != MST_OK);

        m->ranks[i] = rising ? i : (uint32_t) rand() % 100;
    }

    m->n = 256 + TOKENS;
    assert_int_equal(mst_bpe_init_ranks(&m->bpe, &m->vocab, m->ranks, 0),
                     MST_OK);
}


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
        make(&m, round % 2);

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

        mst_bpe_fini(&m.bpe);
        mst_vocab_fini(&m.vocab);
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
    make(&m, 1);

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

    mst_bpe_fini(&m.bpe);
    mst_vocab_fini(&m.vocab);
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


/*
 * Merging: random vocabularies and random pieces against a slow merger that
 * looks at every pair each time; the heap in every budget.
 */

#include "mst_vocab_build.h"

#include "base/mst_mem.h"
#include "text/mst_bpe.h"
#include "text/mst_chain.h"

#include "seed.h"

#define MAX_PIECE  400


static vocab_t  vocab;

typedef struct {
    build_t      build;
    mst_gguf_t  *gguf;
    mst_vocab_t  vocab;
    mst_bpe_t    bpe;
} made_t;


static int
make(made_t *m, mst_err_t *err)
{
    int  rc;

    err->text[0] = '\0';
    vocab_write(&vocab, &m->build);
    m->gguf = build_open(&m->build);

    assert_int_equal(mst_vocab_init_gguf(&m->vocab, m->gguf, err), MST_OK);
    rc = mst_bpe_init_gguf(&m->bpe, &m->vocab, m->gguf, err);

    /* nothing of the file is needed any more */

    mst_gguf_close(m->gguf);
    memset(m->build.file.data, 0xaa, m->build.file.len);
    build_fini(&m->build);

    return rc;
}


static void
unmake(made_t *m)
{
    mst_bpe_fini(&m->bpe);
    mst_bpe_fini(&m->bpe);
    mst_vocab_fini(&m->vocab);
}


/*
 * The definition, by spellings: no ids, no table.  Merge r of the file is
 * "left right"; of all places the one with the smallest r, then the leftmost.
 */

static size_t
reference(const mst_vocab_t *v, const char *data, size_t len, uint32_t *ids)
{
    char             kept[MAX_PIECE];
    size_t           i, k, n, r, from[MAX_PIECE + 1], best, best_r;
    const char      *p;
    vocab_token_t   *m;
    static vocab_t   scratch;

    /* symbol i is kept[from[i] .. from[i + 1]), without dropped bytes */

    for (i = 0, n = 0; i < len; i++) {

        if (mst_vocab_find(v, 0, data + i, 1) >= 0) {
            from[n] = n;
            kept[n++] = data[i];
        }
    }

    from[n] = n;

    for ( ;; ) {
        best = n;
        best_r = vocab.n_merges;

        for (i = 0; i + 1 < n; i++) {
            scratch.used = 0;
            vocab_spell(&scratch, kept + from[i], from[i + 1] - from[i]);
            vocab_put(&scratch, ' ');
            vocab_spell(&scratch, kept + from[i + 1],
                        from[i + 2] - from[i + 1]);

            for (r = 0; r < best_r; r++) {
                m = &vocab.merges[r];

                if (m->len == scratch.used
                    && memcmp(m->spelling, scratch.pool, m->len) == 0)
                {
                    best = i;
                    best_r = r;
                }
            }
        }

        if (best == n) {
            break;
        }

        for (k = best + 1; k < n; k++) {
            from[k] = from[k + 1];
        }

        n--;
    }

    for (i = 0; i < n; i++) {
        p = kept + from[i];
        ids[i] = (uint32_t) mst_vocab_find(v, 0, p, from[i + 1] - from[i]);
    }

    return n;
}


static size_t
encode_long(mst_chain_t    *w, const mst_bpe_t *b, const char *data,
    size_t len, size_t budget, uint32_t *ids)
{
    size_t  n, got, left, calls;

    assert_int_equal(mst_chain_start(w, b, data, len), MST_OK);

    calls = 0;

    do {
        assert_true(calls++ < 50 * len + 50);
        left = budget;
    } while (mst_chain_run(w, &left) == MST_AGAIN);

    for (n = 0; ; n += got) {
        got = mst_chain_take(w, ids + n, 1 + (size_t) rand() % 5);

        if (got == 0) {
            return n;
        }
    }
}


/* merges of what there is already, over few letters: dense and ambiguous */

static void
random_vocab(int letters, size_t n_merges)
{
    char      bytes[2][16], pair[64];
    size_t    i, k, len[2], tries;
    unsigned  side;

    vocab_init(&vocab);
    vocab.n_merges = 0;
    vocab.n = vocab.n_types = 250;

    for (tries = 0; vocab.n_merges < n_merges && tries < 2000; tries++) {

        for (side = 0; side < 2; side++) {

            /* a letter, or what an earlier merge made */

            if (vocab.n_merges == 0 || rand() % 3 == 0) {
                bytes[side][0] = (char) ('a' + rand() % letters);
                len[side] = 1;
                continue;
            }

            i = (size_t) rand() % vocab.n_merges;
            len[side] = 0;

            for (k = 0; k < vocab.merges[i].len; k++) {

                if (vocab.merges[i].spelling[k] != ' ') {
                    bytes[side][len[side]++] = vocab.merges[i].spelling[k];
                }
            }
        }

        if (len[0] + len[1] > 12) {
            continue;
        }

        (void) snprintf(pair, sizeof(pair), "%.*s %.*s", (int) len[0],
                        bytes[0], (int) len[1], bytes[1]);

        for (i = 0; i < vocab.n_merges; i++) {

            if (vocab.merges[i].len == strlen(pair)
                && memcmp(vocab.merges[i].spelling, pair, strlen(pair)) == 0)
            {
                break;
            }
        }

        if (i == vocab.n_merges) {
            vocab_merge(&vocab, bytes[0], len[0], bytes[1], len[1]);
        }
    }
}


static void
test_random(void **state)
{
    int             letters;
    char            text[MAX_PIECE];
    size_t          i, n, m, len, cost, round, max;
    unsigned        seed, k;
    made_t          made;
    uint32_t        want[MAX_PIECE], ids[MAX_PIECE];
    mst_err_t       err;
    mst_chain_t     w;

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    memset(&w, 0, sizeof(w));

    for (round = 0; round < 40; round++) {
        letters = 1 + rand() % 4;
        random_vocab(letters, 1 + (size_t) rand() % 30);
        assert_int_equal(make(&made, &err), MST_OK);

        for (k = 0; k < 50; k++) {
            max = k % 10 ? MST_BPE_SHORT : MAX_PIECE;
            len = 1 + (size_t) rand() % max;

            for (i = 0; i < len; i++) {
                text[i] = rand() % 20 ? (char) ('a' + rand() % letters)
                                      : (char) (rand() % 3);
            }

            n = reference(&made.vocab, text, len, want);

            m = encode_long(&w, &made.bpe, text, len,
                            1 + (size_t) rand() % 100, ids);
            assert_int_equal(m, n);
            assert_memory_equal(ids, want, n * sizeof(uint32_t));

            if (len <= MST_BPE_SHORT) {
                m = mst_bpe_short(&made.bpe, text, len, ids, &cost);
                assert_int_equal(m, n);
                assert_memory_equal(ids, want, n * sizeof(uint32_t));
                assert_true(n == 0 || cost > 0);
            }
        }

        /* "whole" says which tokens their own bytes lead to */

        for (i = 0; i < made.vocab.n; i++) {

            if (made.vocab.type[i] != MST_VOCAB_NORMAL) {
                assert_int_equal(made.bpe.whole[i], 0);
                continue;
            }

            n = reference(&made.vocab, mst_vocab_token(&made.vocab,
                                                       (uint32_t) i).data,
                          mst_vocab_token(&made.vocab, (uint32_t) i).len,
                          want);
            assert_int_equal(made.bpe.whole[i], n == 1 && want[0] == i);
        }

        unmake(&made);
        mst_chain_fini(&w);                    /* it judged this vocabulary */
    }

    mst_chain_fini(&w);
}


/* large memory is given back, and the next piece gets new one */

static void
test_drop(void **state)
{
    char           *text;
    size_t          n, m, len;
    made_t          made;
    uint32_t       *ids, *again;
    mst_err_t       err;
    mst_chain_t     w;

    (void) state;

    len = 300000;
    text = malloc(len);
    ids = malloc(len * sizeof(uint32_t));
    again = malloc(len * sizeof(uint32_t));
    memset(text, 'a', len);

    srand(1);
    random_vocab(1, 3);
    assert_int_equal(make(&made, &err), MST_OK);
    memset(&w, 0, sizeof(w));

    n = encode_long(&w, &made.bpe, text, len, 100000, ids);

    mst_chain_drop(&w);
    assert_null(w.ids);
    mst_chain_drop(&w);

    m = encode_long(&w, &made.bpe, text, len, 100000, again);
    assert_int_equal(m, n);
    assert_memory_equal(ids, again, n * sizeof(uint32_t));
    mst_chain_fini(&w);

    /* a small one is kept for the next piece */

    (void) encode_long(&w, &made.bpe, text, 60000, 100000, again);
    mst_chain_drop(&w);
    assert_non_null(w.ids);
    mst_chain_fini(&w);

    unmake(&made);
    free(text);
    free(ids);
    free(again);
}


/* an unreachable token must not be taken whole: "abc" merges to "ab", "c" */

static void
test_unreachable(void **state)
{
    size_t     n, cost;
    made_t     made;
    int64_t    id;
    uint32_t   ids[8];
    mst_err_t  err;

    (void) state;

    vocab_init(&vocab);
    vocab_merge(&vocab, "b", 1, "c", 1);
    vocab_merge(&vocab, "a", 1, "bc", 2);
    assert_int_equal(make(&made, &err), MST_OK);

    id = mst_vocab_find(&made.vocab, 0, "abc", 3);
    assert_true(id > 0);
    assert_int_equal(made.bpe.whole[id], 0);

    n = mst_bpe_short(&made.bpe, "abc", 3, ids, &cost);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], mst_vocab_find(&made.vocab, 0, "ab", 2));
    assert_int_equal(ids[1], mst_vocab_find(&made.vocab, 0, "c", 1));

    /* bytes without a token vanish, and what they parted merges */

    n = mst_bpe_short(&made.bpe, "a\x01" "b", 3, ids, &cost);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], mst_vocab_find(&made.vocab, 0, "ab", 2));

    assert_int_equal(mst_bpe_short(&made.bpe, "\x01\x02", 2, ids, &cost), 0);

    unmake(&made);
}


static void
test_no_merges(void **state)
{
    size_t     cost;
    made_t     made;
    uint32_t   ids[2];
    mst_err_t  err;

    (void) state;

    vocab_init(&vocab);
    vocab.n_merges = 0;

    assert_int_equal(make(&made, &err), MST_OK);
    assert_int_equal(mst_bpe_short(&made.bpe, "aa", 2, ids, &cost), 2);
    unmake(&made);
}


static void
test_no_memory(void **state)
{
    int             rc;
    long            n;
    made_t          made;
    build_t         b;
    mst_bpe_t       bpe;
    mst_err_t       err;
    mst_gguf_t     *g;
    mst_chain_t     w;

    (void) state;

    vocab_init(&vocab);
    assert_int_equal(make(&made, &err), MST_OK);

    vocab_write(&vocab, &b);
    g = build_open(&b);

    for (n = 1; ; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        rc = mst_bpe_init_gguf(&bpe, &made.vocab, g, &err);
        mst_mem_fail_after(0);
        mst_bpe_fini(&bpe);

        if (rc == MST_OK) {
            break;
        }

        assert_string_equal(err.text, "test.gguf: no memory for 6 merges");
    }

    assert_int_equal(n, 24);
    mst_gguf_close(g);
    build_fini(&b);

    memset(&w, 0, sizeof(w));

    for (n = 1; n < 5; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_chain_start(&w, &made.bpe, "aaaa", 4),
                         MST_ERROR);
        mst_mem_fail_after(0);
    }

    assert_int_equal(mst_chain_start(&w, &made.bpe, "aaaa", 4), MST_OK);
    mst_chain_fini(&w);
    unmake(&made);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_no_merges),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

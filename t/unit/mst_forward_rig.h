
/*
 * Steps of a model as its tests make them: sequences with tables of their
 * own, a prompt in chunks, and one step computed in all the ways that give
 * the same bits.
 */

#ifndef MST_FORWARD_RIG_H
#define MST_FORWARD_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "model/mst_forward.h"
#include "mst_model_gguf.h"

#define TEST_BLOCKS  64            /* of a sequence's table */
#define TEST_SEQS    16

/* sanitizers make kernels some twenty times slower; what they look for is
   found by fewer numbers too */

#if defined(__SANITIZE_ADDRESS__)
#define TEST_SLOW  1
#else
#define TEST_SLOW  0
#endif


static const char *const  isas[] = { "avx512", "avx2", "c" };

static uint32_t  activations;      /* bits, of every model; 0 = 22 */


static const uint32_t  chunks[] = { 1, 2, 3, 5, 7, 8, 13, 16, 33, 64, 100 };

#define TEST_CHUNKS  (sizeof(chunks) / sizeof(*chunks))


typedef struct {
    mst_model_t  *m;
    uint32_t      vocab;
    uint32_t      blocks[TEST_SEQS][TEST_BLOCKS];
} test_t;


/* tables that share nothing and rise nowhere */

static inline void
start(test_t *t, mst_model_t *m)
{
    uint32_t  i, n, s;

    t->m = m;
    t->vocab = mst_model_info(m)->n_vocab;
    n = mst_model_info(m)->n_blocks;
    assert_true(n >= TEST_SEQS * 8);

    for (s = 0; s < TEST_SEQS; s++) {
        for (i = 0; i < TEST_BLOCKS; i++) {
            t->blocks[s][i] = n - 1 - (i * TEST_SEQS + s) % n;
        }
    }
}


static inline mst_batch_seq_t
seq_of(test_t *t, uint32_t s, const uint32_t *ids, uint32_t n,
    uint32_t position, mst_logits_t logits)
{
    mst_batch_seq_t  q = { ids, n, position, t->blocks[s], logits, 0, 0 };

    return q;
}


static inline const float *
step(test_t *t, mst_batch_seq_t *seqs, uint32_t n)
{
    uint32_t      i;
    mst_err_t     err = { "" };
    const float  *logits;
    mst_batch_t   batch = { seqs, n, 0 };

    for (i = 0; i < n; i++) {
        batch.n_tokens += seqs[i].n;
    }

    assert_int_equal(mst_forward(t->m, &batch, &logits, &err), MST_OK);

    return logits;
}


/* logits after the last of ids, computed in chunks */

static inline const float *
prefill(test_t *t, uint32_t s, const uint32_t *ids, uint32_t n,
    uint32_t chunk)
{
    uint32_t          at, k;
    const float      *logits;
    mst_batch_seq_t   q;

    logits = NULL;

    for (at = 0; at < n; at += k) {
        k = n - at < chunk ? n - at : chunk;
        q = seq_of(t, s, ids + at, k, at, at + k == n ? MST_LOGITS_LAST
                                                      : MST_LOGITS_NONE);
        logits = step(t, &q, 1);
    }

    return logits;
}


/* all ways to compute the same 100 tokens give the bits of "want", which is
   filled first if empty; every: 1 = all ways, 5 = every fifth */

static inline void
ways(test_t *t, const uint32_t *ids, uint32_t n, float *want, int *filled,
    uint32_t every)
{
    size_t            c, size;
    uint32_t          k, s;
    const float      *logits;
    mst_batch_seq_t   q[TEST_SEQS];

    size = t->vocab * sizeof(float);

    for (c = 0; c < TEST_CHUNKS; c += every) {
        logits = prefill(t, c % TEST_SEQS, ids, n, chunks[c]);

        if (!*filled) {
            memcpy(want, logits, size);
            *filled = 1;
        }

        assert_memory_equal(logits, want, size);
    }

    /* the last token alone, among others at other places */

    for (s = 0; s < TEST_SEQS; s++) {
        (void) prefill(t, s, ids, n - 1 - (s == 3 ? 0 : s), 64);
    }

    for (k = 4; k <= TEST_SEQS; k += every) {
        for (s = 0; s < k; s++) {
            q[s] = seq_of(t, s, s == 3 ? ids + n - 1 : ids, 1,
                          n - 1 - (s == 3 ? 0 : s), MST_LOGITS_LAST);
        }

        logits = step(t, q, k);
        assert_memory_equal(logits + 3 * (size_t) t->vocab, want, size);
    }

    /* a prompt's end beside another prompt's beginning and a decode */

    (void) prefill(t, 5, ids, n - 20, 33);
    q[0] = seq_of(t, 1, ids, 50, 0, MST_LOGITS_NONE);
    q[1] = seq_of(t, 5, ids + n - 20, 20, n - 20, MST_LOGITS_ALL);
    q[2] = seq_of(t, 3, ids + n - 1, 1, n - 1, MST_LOGITS_LAST);
    logits = step(t, q, 3);
    assert_memory_equal(logits + 19 * (size_t) t->vocab, want, size);
    assert_memory_equal(logits + 20 * (size_t) t->vocab, want, size);
}


#endif /* MST_FORWARD_RIG_H */

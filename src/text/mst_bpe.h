
/*
 * Byte pair encoding: of all adjacent pairs of symbols that merge, the one of
 * lowest rank goes first, of equal ones the leftmost.  One engine for three
 * kinds of vocabulary:
 *
 *   merges      a list of pairs, their place is the rank (GPT-2, Llama 3)
 *   tokens      two symbols merge where their bytes together are a token;
 *               its rank is the token's (tiktoken, tekken)
 *   scores      the same over code points, equal scores rank equal
 *               (SentencePiece)
 *
 * Short pieces are merged here, on the stack.  Long ones go through
 * mst_chain.h, which finds the same ids in linear time, with this as its
 * judge.  Immutable after it was made: any thread.
 */

#ifndef MST_BPE_H
#define MST_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "file/mst_gguf.h"
#include "text/mst_trie.h"
#include "text/mst_vocab.h"


#define MST_BPE_SHORT  64                     /* bytes; quadratic till here */
#define MST_BPE_PAIR   (2 * MST_VOCAB_MAX_TOKEN)
#define MST_BPE_NONE   0xffffffffu             /* no rank, symbol or token */


typedef struct {
    uint32_t  left;            /* ids; NONE: the slot is free */
    uint32_t  right;
    uint32_t  rank;            /* place in the file */
    uint32_t  id;              /* of the token that both make */
} mst_bpe_merge_t;


typedef struct {
    const mst_vocab_t  *vocab;
    mst_bpe_merge_t    *slots; /* [mask + 1], at most half of them used; NULL:
                                  not by a list of merges */
    uint32_t            mask;
    uint32_t           *ranks; /* [vocab->n] of tokens; NULL: by the list */
    uint32_t           *pairs; /* [256 * 256] ids of tokens of two bytes, NONE:
                                  there is none; with ranks over bytes */
    int                 chars; /* symbols are code points, not bytes */
    uint32_t            byte_id[256];  /* of a byte by itself.  NONE: it is
                                          dropped */
    int                 drops; /* some byte is */
    unsigned char       plain[256];    /* over code points: an ASCII character
                                          with a token, but space and [ */
    unsigned char      *whole; /* [vocab->n]: 1 where merging the token's own
                                  bytes gives just this token, so that a piece
                                  which equals it needs no merging */
    mst_trie_t          trie;  /* of those */
} mst_bpe_t;


/* all leave b fit for _fini whatever they return; v must outlive b */
int mst_bpe_init_gguf(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_gguf_t *g, mst_err_t *err);

/* by tokens: rank[v->n] is copied.  chars: over code points; byte_id then is
   of the byte tokens.  MST_ERROR: memory */
int mst_bpe_init_ranks(mst_bpe_t *b, const mst_vocab_t *v,
    const uint32_t *ranks, int chars);

/* a list of n merges: left, right and id of each, in the order of their
   ranks; chars as above.  MST_ERROR: memory, or the same pair twice (*bad:
   which) */
int mst_bpe_init_merges(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_bpe_merge_t *merges, uint32_t n, int chars, uint32_t *bad);

void mst_bpe_fini(mst_bpe_t *b);               /* may be called twice */

/*
 * All of a piece of at most MST_BPE_SHORT bytes.  Room for len ids; returns
 * their number, and in *cost the work in bytes of ordinary text.  Over code
 * points: each of them must have a token.
 */
size_t mst_bpe_short(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *ids, size_t *cost);

/* does merging the bytes of both tokens give just these two? */
int mst_bpe_apart(const mst_bpe_t *b, uint32_t left, uint32_t right,
    size_t *cost);


#endif /* MST_BPE_H */

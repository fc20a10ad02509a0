
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
 * While merging, a token goes by its number: tokens stand in the order of
 * their ranks, so that a number is a rank as well.  Short pieces are merged
 * here, on the stack.  Long ones go through mst_chain.h, which finds the same
 * ids in linear time, with this as its judge.  Immutable after it was made:
 * any thread.
 */

#ifndef MST_BPE_H
#define MST_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "file/mst_gguf.h"
#include "text/mst_letter.h"
#include "text/mst_pair.h"
#include "text/mst_piece.h"
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
    uint32_t  first;           /* places in a list of merges */
    uint32_t  second;
} mst_bpe_twice_t;


typedef struct {
    const mst_vocab_t  *vocab;
    int                 chars; /* symbols are code points, not bytes */
    uint32_t           *number;    /* [vocab->n] of a token; of those that no
                                      merge makes the last */
    uint32_t           *id;    /* [vocab->n] of a number */
    uint32_t           *rank;  /* [vocab->n] of a number: the lowest one that
                                  ranks equal; NULL: always itself */
    mst_pair_t          pair;  /* of numbers: what makes which token */
    uint32_t           *pairs; /* [256 * 256] the same of two bytes, NONE:
                                  they make none; not over code points */
    uint32_t            byte_id[256];  /* of a byte by itself.  NONE: it is
                                          dropped */
    uint32_t            byte_number[256];  /* the same, its number */
    int                 drops; /* some byte is */
    unsigned char       plain[256];    /* over code points: an ASCII character
                                          with a token, but space and [ */
    unsigned char      *bits;  /* of mst_unicode_fill(), not over code points */
    mst_letter_t        letters;   /* of several bytes, not over code points */
    unsigned char      *whole; /* [vocab->n]: 1 where merging the token's own
                                  bytes gives just this token, so that a piece
                                  which equals it needs no merging */
    mst_piece_t         piece; /* the short ones of those */
    mst_trie_t          trie;  /* all of those */
} mst_bpe_t;


/* all leave b fit for _fini whatever they return; v must outlive b */

/* mst_bpe_gguf.c: the merges of a file */
int mst_bpe_init_gguf(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_gguf_t *g, mst_err_t *err);

/* by tokens: ranks[v->n] of them.  chars: over code points; byte_id then is
   of the byte tokens.  MST_ERROR: memory */
int mst_bpe_init_ranks(mst_bpe_t *b, const mst_vocab_t *v,
    const uint32_t *ranks, int chars);

/* a list of n merges: left, right and id of each, in the order of their
   ranks; chars as above.  MST_ERROR: memory; MST_BUSY: too many collide in a
   table; MST_DECLINED: the same pair twice, *twice says where */
int mst_bpe_init_merges(mst_bpe_t *b, const mst_vocab_t *v,
    const mst_bpe_merge_t *merges, uint32_t n, int chars,
    mst_bpe_twice_t *twice);

void mst_bpe_fini(mst_bpe_t *b);               /* may be called twice */


/* two bytes as a place in a table */

static inline size_t
mst_bpe_two(const char *p)
{
    return (size_t) (unsigned char) p[0] << 8 | (unsigned char) p[1];
}


/*
 * All of a piece of at most MST_BPE_SHORT bytes.  Room for len ids; returns
 * their number, and in *cost the work in bytes of ordinary text.  Over code
 * points: each of them must have a token.
 */
size_t mst_bpe_short(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *ids, size_t *cost);

/* the bytes of a piece, and characters that are one symbol at once, as numbers;
   not over code points.  Room for max + 1: of more, so many are returned */
size_t mst_bpe_symbols(const mst_bpe_t *b, const char *data, size_t len,
    uint32_t *symbol, size_t max);

/* does merging the bytes of both tokens give just these two? */
int mst_bpe_apart(const mst_bpe_t *b, uint32_t left, uint32_t right,
    size_t *cost);


#endif /* MST_BPE_H */

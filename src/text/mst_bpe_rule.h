
/*
 * Which pairs of symbols merge, and at which rank, as the vocabulary's file
 * says it: by a list of merges, or since both together are a token.  Each
 * token's own bytes are merged by that here, by the definition, once.
 *
 * Belongs to one vocabulary while it is made ready (mst_bpe.c).
 */

#ifndef MST_BPE_RULE_H
#define MST_BPE_RULE_H

#include <stdint.h>

#include "text/mst_bpe.h"


/* a token and what its own bytes are merged from */
typedef struct {
    uint32_t  id;
    uint32_t  rank;            /* of the last merge; NONE: there is none */
    uint32_t  left;            /* of it, ids */
    uint32_t  right;
} mst_bpe_made_t;


typedef struct {
    const mst_bpe_t   *bpe;    /* vocab, chars, byte_id and, until they are of
                                  numbers, pairs: of ids */
    mst_bpe_merge_t   *slots;  /* [mask + 1], at most half of them used; NULL:
                                  not by a list of merges */
    uint32_t           mask;
    const uint32_t    *ranks;  /* [vocab->n] of tokens, where slots is NULL */
} mst_bpe_rule_t;


/* by a list with room for n merges; MST_ERROR: memory */
int mst_bpe_rule_list(mst_bpe_rule_t *k, uint32_t n);
void mst_bpe_rule_fini(mst_bpe_rule_t *k);     /* may be called twice */

/* MST_DECLINED: the pair is there, *other is its rank; MST_BUSY: too many
   collide */
int mst_bpe_rule_put(mst_bpe_rule_t *k, const mst_bpe_merge_t *m,
    uint32_t *other);

/* merges the bytes of token m->id; 1 if they give it: m->rank, left and right
   are then of the last merge, if there is any */
int mst_bpe_rule_make(const mst_bpe_rule_t *k, mst_bpe_made_t *m);


#endif /* MST_BPE_RULE_H */

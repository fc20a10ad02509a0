
/*
 * The tokens of a vocabulary that begin a text: the longest one, and for each
 * the next shorter one that begins it too.
 *
 * Immutable after it was made: any thread.
 */

#ifndef MST_TRIE_H
#define MST_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "text/mst_vocab.h"

#define MST_TRIE_NONE       0xffffffffu
#define MST_TRIE_MAX_NODES  (1u << 24)


typedef struct {
    uint32_t  key;             /* node << 8 | byte; 0: free (the root's own
                                  children stand in "first") */
    uint32_t  child;
} mst_trie_slot_t;


typedef struct {
    uint32_t          first[256];  /* children of the root; 0 = none */
    mst_trie_slot_t  *slots;       /* [mask + 1], at most half of them used */
    uint32_t          mask;
    uint32_t         *token;       /* [n_nodes] id, or NONE */
    uint32_t         *shorter;     /* [vocab n] id, or NONE */
    uint32_t          n_nodes;     /* with the root, 0 */
} mst_trie_t;


/* of the tokens i with wanted[i]; MST_ERROR: memory.  Leaves t fit for _fini
   whatever it returns. */
int mst_trie_init(mst_trie_t *t, const mst_vocab_t *v,
    const unsigned char *wanted);
void mst_trie_fini(mst_trie_t *t);             /* may be called twice */

/* the longest token that begins data[len], or NONE */
uint32_t mst_trie_longest(const mst_trie_t *t, const void *data, size_t len);


#endif /* MST_TRIE_H */

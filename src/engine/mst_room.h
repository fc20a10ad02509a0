
/*
 * Room: the KV blocks of one sequence, and what it may count on.
 *
 * A running sequence has blocks for all its tokens.  It may have a promise
 * besides: so many blocks in all are kept for it, and nobody else gets them.
 * One whose promise holds its longest answer never lacks a block.  At any
 * time the pool has at least as many blocks to give as are promised.
 *
 * Where no layer looks further back than a window, a sequence has blocks for
 * the window and for the tokens of its next step; those that the window has
 * left go back at once, and their places in the table hold MST_BLOCK_NONE.
 *
 * Full blocks become known to the prefix cache as they are computed, and at
 * its start a sequence takes what the cache has.  One thread.
 */

#ifndef MST_ROOM_H
#define MST_ROOM_H

#include <stdint.h>

#include "engine/mst_block.h"
#include "engine/mst_prefix.h"
#include "engine/mst_seq.h"


typedef struct {
    mst_block_pool_t  *pool;
    mst_prefix_t      *prefix;     /* NULL: none */
    uint32_t           block_tokens;
    uint32_t           context;    /* tokens of the longest sequence; 0 = any
                                      number */
    uint32_t           window;     /* tokens that the last one sees, itself
                                      included; 0 = all */
    uint32_t           chunk;      /* tokens of a step at most */
    uint32_t           promised;   /* blocks that are kept for somebody */
} mst_room_t;


/* blocks that so many tokens take at once: with a window, of those that are
   seen and of a step, which may begin and end within a block */
uint64_t mst_room_most(const mst_room_t *r, uint64_t tokens);

/* the same for the tokens of a sequence */
uint32_t mst_room_needs(const mst_room_t *r, const mst_seq_t *q);

/* blocks for its tokens and what is to be kept for its answer, at most all;
   *all = 1: its longest answer is in it */
uint32_t mst_room_wants(const mst_room_t *r, const mst_seq_t *q, int *all);

/* how many of its tokens the cache has now */
uint32_t mst_room_cached(const mst_room_t *r, mst_seq_t *q);

/*
 * All blocks to start with; n_computed says what the cache had.  MST_OK;
 * MST_BUSY: they are not there now; MST_ERROR: memory for the table.
 */
int mst_room_take(mst_room_t *r, mst_seq_t *q);

/* blocks for the tokens of its next step, where it lacks them: the same */
int mst_room_grow(mst_room_t *r, mst_seq_t *q);

/* all of them back; from the last to the first: the head of a chain outlives
   its tail */
void mst_room_release(mst_room_t *r, mst_seq_t *q);

/* the first n tokens of it are in the KV memory, and known, too */
void mst_room_known(mst_room_t *r, mst_seq_t *q, uint32_t n);

/* the n_step tokens of a step are */
void mst_room_computed(mst_room_t *r, mst_seq_t *q);

/* what is in its blocks is wrong: nobody shall find it */
void mst_room_forget(mst_room_t *r, mst_seq_t *q);


#endif /* MST_ROOM_H */

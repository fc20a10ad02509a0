
/*
 * A single-producer single-consumer byte ring.  Records are multiples of 8
 * bytes and never wrap; one release store of the tail publishes a record,
 * so a writer killed at any instruction leaves nothing behind.
 *
 * A mst_ring_t is one process's handle: it holds the sizes and its own
 * index, so that a hostile peer's words are only ever compared, never
 * followed.
 */

#ifndef MST_RING_H
#define MST_RING_H

#include <stdint.h>

#include "base/mst_err.h"
#include "shm/mst_record.h"
#include "shm/mst_shm.h"


typedef struct {
    mst_ring_pos_t  *pos;
    unsigned char   *data;
    uint32_t         size;         /* bytes, power of two */
    uint64_t         own;          /* our own index (tail or head) */
    uint32_t         reserved;     /* producer: bytes of the record between
                                      reserve and publish, padding included */
} mst_ring_t;


/* the handles of slot i: producer and consumer sides start at the indexes
   that stand in the segment */
void mst_ring_init(mst_ring_t *r, mst_ring_pos_t *pos, unsigned char *data,
    uint32_t size, int producer);

/*
 * Producer.  reserve: room for a record of "len" bytes (rounded up to 8), or
 * NULL: full now, or longer than half the ring.  It sets rec->len and zeroes
 * rec->unused; the caller writes all the rest (the bytes are old ones).  Only
 * publish makes it visible; a reserve without publish is undone by the next.
 */
mst_record_t *mst_ring_reserve(mst_ring_t *r, uint32_t len);
void mst_ring_publish(mst_ring_t *r, mst_record_t *rec);

/* the longest record that a reserve would take now */
uint32_t mst_ring_room(const mst_ring_t *r);

/*
 * Consumer.  MST_OK: *rec is a record of *len bytes that lies inside the
 * ring (its content is still unchecked, its own len too: copy *len bytes,
 * then check the copy); MST_AGAIN: empty; MST_ERROR: the peer wrote
 * nonsense, and will ever.  copy: what is checked in the copy is never read
 * from the ring again, whatever the compiler knows of the two.  consume
 * takes the *len of the last peek.
 */
int mst_ring_peek(mst_ring_t *r, const mst_record_t **rec, uint32_t *len);
void mst_ring_copy(mst_record_t *copy, const mst_record_t *rec, uint32_t len);
void mst_ring_consume(mst_ring_t *r, uint32_t len);


#endif /* MST_RING_H */

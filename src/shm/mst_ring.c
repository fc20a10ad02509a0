
/*
 * Byte ring: see mst_ring.h.
 *
 * Indexes count bytes since the start and never wrap in practice; both are
 * multiples of 8.  A record that does not fit before the end of the data is
 * put at the start; what it skips holds a PAD record that reaches exactly
 * to the end, or, where not even a head fits, nothing.  Padding and record
 * become visible by the same store.
 */

#include <stddef.h>
#include <string.h>

#include "shm/mst_ring.h"


static uint32_t mst_ring_skip(const mst_ring_t *r, uint32_t len);
static uint64_t mst_ring_free(const mst_ring_t *r);


void
mst_ring_init(mst_ring_t *r, mst_ring_pos_t *pos, unsigned char *data,
    uint32_t size, int producer)
{
    r->pos = pos;
    r->data = data;
    r->size = size;
    r->reserved = 0;

    r->own = atomic_load(producer ? &pos->tail : &pos->head);

    /* only a broken predecessor leaves another number */

    r->own &= ~(uint64_t) 7;
}


mst_record_t *
mst_ring_reserve(mst_ring_t *r, uint32_t len)
{
    uint32_t       skip, off;
    mst_record_t  *rec, *pad;

    if (len > r->size / 2 || len < sizeof(mst_record_t)) {
        return NULL;
    }

    len = (len + 7) & ~7u;
    skip = mst_ring_skip(r, len);

    if (mst_ring_free(r) < (uint64_t) skip + len) {
        return NULL;
    }

    off = (uint32_t) (r->own & (r->size - 1));

    if (skip >= sizeof(mst_record_t)) {
        pad = (mst_record_t *) (r->data + off);
        pad->len = skip;
        pad->type = MST_REC_PAD;
    }

    rec = (mst_record_t *) (r->data + (skip ? 0 : off));

    rec->len = len;
    rec->unused = 0;

    r->reserved = skip + len;

    return rec;
}


void
mst_ring_publish(mst_ring_t *r, mst_record_t *rec)
{
    (void) rec;                    /* its len is the peer's to overwrite */

    r->own += r->reserved;
    r->reserved = 0;

    /* pairs with the load of the tail in mst_ring_peek() */

    atomic_store_explicit(&r->pos->tail, r->own, memory_order_release);
}


uint32_t
mst_ring_room(const mst_ring_t *r)
{
    uint32_t  room;
    uint64_t  avail;

    avail = mst_ring_free(r);
    room = r->size - (uint32_t) (r->own & (r->size - 1));

    if (avail > room) {

        /* before the end, or at the start behind the padding */

        avail -= room;
        avail = (avail > room) ? avail : room;
    }

    return (avail < r->size / 2) ? (uint32_t) avail : r->size / 2;
}


/* bytes that a record of "len" leaves unused at the end of the data */

static uint32_t
mst_ring_skip(const mst_ring_t *r, uint32_t len)
{
    uint32_t  room;

    room = r->size - (uint32_t) (r->own & (r->size - 1));

    return (room < len) ? room : 0;
}


static uint64_t
mst_ring_free(const mst_ring_t *r)
{
    uint64_t  used;

    /* pairs with the store of the head in mst_ring_consume() */

    used = r->own - atomic_load_explicit(&r->pos->head, memory_order_acquire);

    /* a head outside of our records is a broken peer: never again room */

    return (used > r->size) ? 0 : r->size - used;
}


int
mst_ring_peek(mst_ring_t *r, const mst_record_t **rec, uint32_t *len)
{
    uint32_t       n, off, room;
    uint64_t       avail;
    mst_record_t  *p;

    /* pairs with the store of the tail in mst_ring_publish() */

    avail = atomic_load_explicit(&r->pos->tail, memory_order_acquire)
            - r->own;

    if (avail == 0) {
        return MST_AGAIN;
    }

    if (avail > r->size || (avail & 7) != 0) {
        return MST_ERROR;
    }

    off = (uint32_t) (r->own & (r->size - 1));
    room = r->size - off;
    p = (mst_record_t *) (r->data + off);

    if (room < sizeof(mst_record_t)
        || __atomic_load_n(&p->type, __ATOMIC_RELAXED) == MST_REC_PAD)
    {
        /* padding ends with the data and has a record behind it */

        if (room >= sizeof(mst_record_t)
            && __atomic_load_n(&p->len, __ATOMIC_RELAXED) != room)
        {
            return MST_ERROR;
        }

        if (avail <= room) {
            return MST_ERROR;
        }

        r->own += room;
        avail -= room;
        room = r->size;
        p = (mst_record_t *) r->data;

        if (__atomic_load_n(&p->type, __ATOMIC_RELAXED) == MST_REC_PAD) {
            return MST_ERROR;
        }
    }

    /* read once: the peer may change it while we look */

    n = __atomic_load_n(&p->len, __ATOMIC_RELAXED);

    if (n < sizeof(mst_record_t) || (n & 7) != 0 || n > room || n > avail) {
        return MST_ERROR;
    }

    *rec = p;
    *len = n;

    return MST_OK;
}


void
mst_ring_copy(mst_record_t *copy, const mst_record_t *rec, uint32_t len)
{
    memcpy(copy, rec, len);

    /* without it a load of the copy may become one of the ring */

    atomic_signal_fence(memory_order_seq_cst);
}


void
mst_ring_consume(mst_ring_t *r, uint32_t len)
{
    r->own += len;

    /* pairs with the load of the head in mst_ring_free(): our reads are over
       before the producer may write there again */

    atomic_store_explicit(&r->pos->head, r->own, memory_order_release);
}

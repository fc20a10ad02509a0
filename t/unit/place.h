
/*
 * Queue places in a small segment: a slot that is played with, a bystander,
 * and what workers and an engine do with places.
 */

#ifndef PLACE_H
#define PLACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/mst_hash.h"
#include "shm/mst_place.h"
#include "shm/mst_slot.h"


#define N_WORKERS  3
#define TOKENS     1000


typedef struct {
    mst_map_t   m;
    int         fd;
    mst_slot_t *a;                 /* the slot that is played with */
    mst_slot_t *b;                 /* a bystander that holds 1 of 7 tokens */
} world_t;


static inline void
world_init(world_t *w)
{
    mst_err_t    err;

    assert_int_equal(mst_shm_create(&w->m, &w->fd, "demo", 4, 65536, 4096,
                                    &err), MST_OK);

    assert_int_equal(mst_slot_claim(&w->m, 100), 0);
    assert_int_equal(mst_slot_claim(&w->m, 101), 1);

    w->a = &w->m.slots[0];
    w->b = &w->m.slots[1];

    assert_int_equal(mst_place_take(w->m.shm, w->b, 7, 100, 0), MST_OK);
}


static inline void
world_fini(world_t *w)
{
    mst_shm_detach(&w->m);
    (void) close(w->fd);
}


static inline void
held(world_t *w, uint32_t requests, uint64_t tokens, const char *when, int n)
{
    uint32_t  r;
    uint64_t  t;

    mst_place_held(w->m.shm, &r, &t);

    if (r != requests || t != tokens) {
        fail_msg("%s, instruction %d: %u requests, %llu tokens are held, not "
                 "%u, %llu", when, n, r, (unsigned long long) t, requests,
                 (unsigned long long) tokens);
    }
}


static inline void
submit(mst_map_t *m, uint32_t slot, uint32_t tokens)
{
    mst_ring_t         req, rsp;
    mst_rec_submit_t  *s;

    mst_slot_rings(m, slot, 1, &req, &rsp);

    s = (mst_rec_submit_t *) mst_ring_reserve(&req, sizeof(*s));
    assert_non_null(s);

    s->head.type = MST_REC_SUBMIT;
    s->place_tokens = tokens;

    mst_ring_publish(&req, &s->head);
}


/* the engine reads one SUBMIT: its tokens, or -1 */

static inline int64_t
receive(mst_map_t *m, uint32_t slot, mst_ring_t *req)
{
    uint32_t             len, tokens;
    const mst_record_t  *rec;

    if (mst_ring_peek(req, &rec, &len) != MST_OK) {
        return -1;
    }

    tokens = ((const mst_rec_submit_t *) rec)->place_tokens;

    mst_place_receive(&m->slots[slot], req, len, tokens);
    mst_ring_consume(req, len);

    return tokens;
}


/* what a new engine does: its predecessor's work is void, then the rings */

static inline void
new_engine(mst_map_t *m)
{
    int64_t     tokens;
    uint32_t    i;
    mst_ring_t  req, rsp;

    mst_place_restart(m);

    for (i = 0; i < m->n_slots; i++) {
        if (mst_slot_state(&m->slots[i]) != MST_SLOT_USED) {
            continue;
        }

        mst_slot_rings(m, i, 0, &req, &rsp);

        for ( ;; ) {
            tokens = receive(m, i, &req);

            if (tokens < 0) {
                break;
            }

            mst_place_give(m->shm, &m->slots[i], (uint32_t) tokens);
        }
    }

    (void) mst_place_audit(m);
}


/* a worker: takes, and untakes or submits */

static inline void
worker_run(mst_map_t *m, uint32_t i, uint64_t seed, _Atomic uint32_t *stop)
{
    uint32_t           t;
    uint64_t           x;
    mst_ring_t         req, rsp;
    mst_rec_submit_t  *s;

    x = seed;
    mst_slot_rings(m, i, 1, &req, &rsp);

    while (!atomic_load(stop)) {
        x = mst_hash_mix(x + 1);
        t = (uint32_t) x % TOKENS;

        if (mst_place_take(m->shm, &m->slots[i], t, 50, 20000) != MST_OK) {
            (void) sched_yield();
            continue;
        }

        s = (x >> 40) & 1 ? NULL
            : (mst_rec_submit_t *) mst_ring_reserve(&req, sizeof(*s));

        if (s == NULL) {
            mst_place_untake(m->shm, &m->slots[i], t);
            continue;
        }

        s->head.type = MST_REC_SUBMIT;
        s->place_tokens = t;
        mst_ring_publish(&req, &s->head);
    }
}


/* an engine: has up to 8 requests in work, gives them in turn */

static inline void
engine_run(mst_map_t *m, _Atomic uint32_t *stop, uint32_t audits)
{
    int         n, k, got, last;
    int64_t     tokens;
    uint32_t    i, passes;
    mst_ring_t  req[8], rsp;
    struct {
        uint32_t  slot;
        uint32_t  tokens;
    } work[8];

    mst_place_restart(m);

    for (i = 0; i < m->n_slots; i++) {
        mst_slot_rings(m, i, 0, &req[i], &rsp);
    }

    n = 0;

    for (passes = 1; /* void */ ; passes++) {
        got = 0;
        last = (int) atomic_load(stop);        /* before the rings are read */

        for (i = 0; i < m->n_slots; i++) {
            tokens = receive(m, i, &req[i]);

            if (tokens >= 0) {
                got = 1;
                work[n].slot = i;
                work[n].tokens = (uint32_t) tokens;
                n++;
            }

            for (k = (n == 8 || last) ? n : 0; k > 0; k--) {
                n--;
                mst_place_give(m->shm, &m->slots[work[n].slot],
                               work[n].tokens);
            }
        }

        if (audits && passes % 16 == 0) {
            (void) mst_place_audit(m);
        }

        if (!got && n == 0 && last) {
            return;
        }
    }
}


#endif /* PLACE_H */

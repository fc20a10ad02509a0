
/*
 * What the files of the engine's loop share: mst_serve.c (the loop),
 * mst_serve_slot.c (what comes in), mst_serve_call.c (what goes out).
 * Nobody else includes it, but tests.
 */

#ifndef MST_SERVE_LOCAL_H
#define MST_SERVE_LOCAL_H

#include <stdint.h>

#include "base/mst_list.h"
#include "base/mst_time.h"
#include "engine/mst_order.h"
#include "engine/mst_outbox.h"
#include "engine/mst_serve.h"
#include "shm/mst_record.h"
#include "shm/mst_ring.h"


#define MST_SERVE_RETRY    MST_MS              /* a full ring: 1 .. 16 ms */

/* of one slot: what a worker may make us remember.  One that is honest comes
   nowhere near them; where it does, its requests wait in its ring */
#define MST_SERVE_CALLS    (1u << 17)
#define MST_SERVE_TOKENS   (1ull << 26)        /* of their prompts */
#define MST_SERVE_UNREAD   (1ull << 28)        /* bytes of answers for which
                                                  its ring has no room */

#define MST_SERVE_GATHER   (4 * MST_MS)        /* tokens for a worker that was
                                                  woken less long ago */

#define MST_SERVE_WAKE     MST_MAX_SLOTS       /* epoll's data, else a slot */
#define MST_SERVE_LIFE     (MST_MAX_SLOTS + 1)


typedef struct mst_serve_call_s  mst_serve_call_t;

struct mst_serve_call_s {          /* its address is the engine's tag */
    mst_serve_call_t  *next;       /* in the hash table */
    mst_list_t         in_slot;
    mst_list_t         dirty;      /* in the slot's list while records wait */
    mst_list_t         doomed;     /* in the list of those to be cancelled */
    uint32_t           slot;
    uint32_t           place_tokens;
    uint32_t           n_prompt;   /* tokens, of those of the slot */
    int                dropped;    /* its worker is gone: no records */
    int                lost;       /* a token was: it ends with an error */
    uint64_t           last_ns;    /* SUBMIT, then its last token */
    int                token;      /* there was one */
    mst_outbox_t       out;
};


typedef struct {
    mst_ring_t         req;
    mst_ring_t         rsp;
    uint32_t           pid;        /* of the owner that we know; 0 = none */
    int                pidfd;      /* -1 = none */
    uint32_t           epoch;
    int                broken;     /* its owner wrote nonsense */
    int                choked;     /* its owner does not read */
    int                blocked;    /* the last flush left something */
    uint32_t           ring;       /* its owner sleeps and has records: on the
                                      core that mst_shm_wake() said */
    uint64_t           rung_ns;    /* when it was woken last */
    int                urgent;     /* more than tokens behind a first one */
    int                kept;       /* tokens that it was not woken for */
    uint32_t           n_calls;
    uint64_t           n_tokens;   /* of their prompts */
    mst_list_t         calls;      /* mst_serve_call_t.in_slot */
    mst_list_t         dirty;      /* mst_serve_call_t.dirty */
} mst_serve_slot_t;


struct mst_serve_s {
    mst_serve_conf_t   conf;
    mst_serve_info_t   info;
    mst_engine_t      *engine;
    mst_shm_t         *shm;

    mst_serve_slot_t  *slots;      /* [map->n_slots] */
    mst_record_t      *copy;       /* [map->req_size] bytes */

    mst_serve_call_t **table;      /* [n_table], a power of two */
    size_t             n_table;
    size_t             n_calls;
    uint64_t           key;        /* of the table's hash; no worker knows it */

    uint32_t           max_calls;  /* MST_SERVE_CALLS and so on; tests have
                                      less */
    uint64_t           max_tokens;
    uint64_t           max_unread;

    mst_list_t         doomed;     /* mst_serve_call_t.doomed */
    int                due;        /* there is something to tell */
    uint32_t           ring;       /* of slot next, or 0: there is none */
    uint32_t           next;       /* slot to be woken */
    uint64_t           gather_ns;  /* MST_SERVE_GATHER; tests choose */
    int                gather;     /* a step follows: tokens may be kept */
    uint64_t           kept_ns;    /* since when some are, or 0 */
    int                blocked;    /* an outbox waits for room */
    int                audit;      /* places: a look is due */
    uint64_t           audit_ns;   /* ... not before this; */
    uint64_t           audit_pause;    /* a worker that is in the middle of a
                                          step for ever is looked at less and
                                          less often */
    uint32_t           flush;      /* orders that are done: mst_shm_t's */
    uint32_t           knock;
    int                epfd;
    uint64_t           look_ns;    /* next look at epoll while computing */
    uint64_t           tick_ns;    /* next tick */
    uint64_t           retry_ns;   /* pause before the next flush */
    uint64_t           leave_ns;   /* give up waiting to be stopped; 0 = no */

    int                begun;      /* somebody, with this step */
    uint64_t           token_ns;   /* of all tokens of a step; 0 = there was
                                      none */
    mst_order_class_t  classes[MST_CLASSES];   /* as they are published */
    mst_engine_stats_t base;       /* counters of the engines before us */
    uint64_t           cancelled;
};


/* mst_serve.c */

int mst_serve_watch(mst_serve_t *s, int fd, uint32_t events, uint32_t data);

/* a request begins with the step that comes: it is in the gauges from here */
void mst_serve_begun(mst_serve_t *s);

/* mst_serve_slot.c */

/* who owns the slot now?  1 = somebody that we listen to */
int mst_serve_slot_look(mst_serve_t *s, uint32_t i, uint64_t now_ns);

/* it has so much in work that its ring is not read now */
static inline int
mst_serve_slot_full(const mst_serve_t *s, const mst_serve_slot_t *slot)
{
    return slot->choked || slot->n_calls >= s->max_calls
           || slot->n_tokens >= s->max_tokens;
}

/* reads its ring, not for ever; 1 = there is more */
int mst_serve_slot_drain(mst_serve_t *s, uint32_t i, uint64_t now_ns);

/* its answers are not read: what runs ends, and nothing new is taken in */
void mst_serve_slot_choke(mst_serve_t *s, uint32_t i, uint64_t now_ns);

/* the owner is gone: nothing of it stays.  "why" NULL: it left */
void mst_serve_slot_reclaim(mst_serve_t *s, uint32_t i, const char *why,
    uint64_t now_ns);

/* mst_serve_call.c */

mst_serve_call_t *mst_serve_call_create(mst_serve_t *s, uint32_t i,
    const mst_rec_submit_t *r);
void mst_serve_call_free(mst_serve_t *s, mst_serve_call_t *call);

/* where a call of this name stands, or the end of its chain */
mst_serve_call_t **mst_serve_call_find(mst_serve_t *s, uint32_t slot,
    uint64_t id);

/* ends those that lost a token, which cannot be done inside the event */
void mst_serve_call_doom(mst_serve_t *s, uint64_t now_ns);

/* all outboxes, as far as there is room, then wake-ups for who sleeps, one with
   each call: of slot s->next, which is the next one's then.  No sequence ends
   by it: a step may be under way */
void mst_serve_call_flush(mst_serve_t *s, uint64_t now_ns);
void mst_serve_call_ring(mst_serve_t *s);

/* who has tokens that were kept is woken after all */
void mst_serve_call_late(mst_serve_t *s);

/* looks after a flush for slots that keep too much */
void mst_serve_call_choke(mst_serve_t *s, uint64_t now_ns);
void mst_serve_call_notify(mst_serve_t *s, uint32_t i);


#endif /* MST_SERVE_LOCAL_H */


/*
 * Queue places: see mst_place.h for the algorithm.
 */

#include "shm/mst_place.h"
#include "shm/mst_slot.h"


/* the word: [version:12 | requests:20 | tokens:32] */

#define mst_place_requests(w)  ((uint32_t) ((w) >> 32) & MST_PLACE_MAX_REQUESTS)
#define mst_place_tokens(w)    ((uint32_t) (w))

/* swaps that fail because others move the word all the time: honest ones do it
   once a request */

#define MST_PLACE_TRIES  256

/* a ledger: [requests:32 | tokens:32], each half wraps by itself */

#define mst_place_pair(r, t)                                                  \
    ((uint64_t) (uint32_t) (r) << 32 | (uint32_t) (t))


static uint64_t mst_place_word(uint64_t old, uint32_t requests,
    uint32_t tokens);
static uint64_t mst_place_add(uint64_t a, uint64_t b);
static uint64_t mst_place_sub(uint64_t a, uint64_t b);
static void mst_place_lower(mst_shm_t *shm, uint64_t pair);
static int mst_place_newest(const mst_slot_t *slot, uint64_t head);
static void mst_place_give_pair(mst_shm_t *shm, mst_slot_t *slot,
    uint64_t pair);


int
mst_place_take(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens,
    uint32_t max_requests, uint64_t max_tokens)
{
    int       rc, tries;
    uint64_t  old, r, t;

    if (max_requests > MST_PLACE_MAX_REQUESTS) {
        max_requests = MST_PLACE_MAX_REQUESTS;
    }

    if (max_tokens == 0 || max_tokens > UINT32_MAX) {
        max_tokens = UINT32_MAX;
    }

    rc = MST_OK;
    tries = MST_PLACE_TRIES;

    atomic_store(&slot->intent, 1);

    old = atomic_load(&shm->places);

    do {
        r = (uint64_t) mst_place_requests(old) + 1;
        t = (uint64_t) mst_place_tokens(old) + tokens;

        if (r > max_requests || t > max_tokens || tries-- == 0) {
            rc = MST_BUSY;
            break;
        }

    } while (!atomic_compare_exchange_weak(&shm->places, &old,
                                           mst_place_word(old, (uint32_t) r,
                                                          (uint32_t) t)));

    if (rc == MST_OK) {
        atomic_store(&slot->taken, mst_place_add(atomic_load(&slot->taken),
                                                 mst_place_pair(1, tokens)));
    }

    atomic_store(&slot->intent, 0);

    return rc;
}


void
mst_place_untake(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens)
{
    uint64_t  pair;

    pair = mst_place_pair(1, tokens);

    atomic_store(&slot->intent, 1);

    atomic_store(&slot->taken, mst_place_sub(atomic_load(&slot->taken), pair));
    mst_place_lower(shm, pair);

    atomic_store(&slot->intent, 0);
}


void
mst_place_receive(mst_slot_t *slot, const mst_ring_t *req, uint32_t len,
    uint32_t tokens)
{
    int       i, j;
    uint64_t  sum;

    i = mst_place_newest(slot, atomic_load(&slot->req.head));
    j = !i;

    sum = mst_place_add(atomic_load(&slot->received[i]),
                        mst_place_pair(1, tokens));

    /* never is entry j newest with a sum that is not its own */

    atomic_store(&slot->received_at[j], UINT64_MAX);
    atomic_store(&slot->received[j], sum);
    atomic_store(&slot->received_at[j], req->own + len);
}


/* the entry that holds for this head; any of the two if both are nonsense */

static int
mst_place_newest(const mst_slot_t *slot, uint64_t head)
{
    uint64_t  a, b;

    a = atomic_load(&slot->received_at[0]);
    b = atomic_load(&slot->received_at[1]);

    if (a > head) {
        return 1;
    }

    return b <= head && b > a;
}


void
mst_place_give(mst_shm_t *shm, mst_slot_t *slot, uint32_t tokens)
{
    mst_place_give_pair(shm, slot, mst_place_pair(1, tokens));
}


static void
mst_place_give_pair(mst_shm_t *shm, mst_slot_t *slot, uint64_t pair)
{
    uint32_t  r, t;
    uint64_t  given, held;

    given = atomic_load(&slot->given);
    held = mst_place_sub(atomic_load(&slot->taken), given);

    /* a worker that submits more than it took gets no more than it took */

    r = (uint32_t) (pair >> 32);
    r = (r < (held >> 32)) ? r : (uint32_t) (held >> 32);

    t = (uint32_t) pair;
    t = (t < (uint32_t) held) ? t : (uint32_t) held;

    pair = mst_place_pair(r, t);

    if (pair == 0) {
        return;
    }

    atomic_store(&slot->given, mst_place_add(given, pair));
    mst_place_lower(shm, pair);
}


int
mst_place_reclaim(mst_shm_t *shm, mst_slot_t *dead)
{
    uint64_t  taken;

    taken = atomic_load(&dead->taken);

    /* all is received, for any head from 0 on: should we die before the slot
       is free, mst_place_restart() comes to the same */

    atomic_store(&dead->received_at[0], UINT64_MAX);
    atomic_store(&dead->received[0], taken);
    atomic_store(&dead->received_at[0], 0);
    atomic_store(&dead->received_at[1], UINT64_MAX);
    atomic_store(&dead->received[1], taken);
    atomic_store(&dead->received_at[1], 0);

    mst_place_give_pair(shm, dead,
                        mst_place_sub(taken, atomic_load(&dead->given)));

    return atomic_load(&dead->intent) ? MST_AGAIN : MST_OK;
}


void
mst_place_restart(mst_map_t *m)
{
    int          k;
    uint32_t     i;
    uint64_t     lost;
    mst_slot_t  *slot;

    for (i = 0; i < m->n_slots; i++) {
        slot = &m->slots[i];

        k = mst_place_newest(slot, atomic_load(&slot->req.head));

        lost = mst_place_sub(atomic_load(&slot->received[k]),
                             atomic_load(&slot->given));

        if ((int32_t) (lost >> 32) > 0) {
            mst_place_give_pair(m->shm, slot, lost);
        }
    }
}


int
mst_place_audit(mst_map_t *m)
{
    uint32_t     i;
    uint64_t     old, sum, taken;
    mst_slot_t  *slot;

    sum = 0;

    /*
     * The order counts.  A take shows its intent before it moves the word:
     * either the word here is from before, and the swap below fails, or the
     * intent or the finished ledger is seen.  An untake moves its ledger
     * first: so the intent is read behind the ledger, too.
     */

    old = atomic_load(&m->shm->places);

    for (i = 0; i < m->n_slots; i++) {
        slot = &m->slots[i];

        if (mst_slot_state(slot) == MST_SLOT_USED
            && atomic_load(&slot->intent))
        {
            return MST_AGAIN;
        }

        taken = atomic_load(&slot->taken);

        if (mst_slot_state(slot) == MST_SLOT_USED
            && atomic_load(&slot->intent))
        {
            return MST_AGAIN;
        }

        sum = mst_place_add(sum, mst_place_sub(taken,
                                               atomic_load(&slot->given)));
    }

    if (mst_place_requests(old) == (uint32_t) (sum >> 32)
        && mst_place_tokens(old) == (uint32_t) sum)
    {
        return MST_OK;
    }

    return atomic_compare_exchange_strong(&m->shm->places, &old,
                      mst_place_word(old, (uint32_t) (sum >> 32),
                                     (uint32_t) sum))
           ? MST_OK : MST_AGAIN;
}


void
mst_place_held(const mst_shm_t *shm, uint32_t *requests, uint64_t *tokens)
{
    uint64_t  word;

    word = atomic_load(&shm->places);

    *requests = mst_place_requests(word);
    *tokens = mst_place_tokens(word);
}


/* word - pair, not below zero; a word that stays too large is found by the
   next audit */

static void
mst_place_lower(mst_shm_t *shm, uint64_t pair)
{
    int       tries;
    uint32_t  r, t;
    uint64_t  old;

    old = atomic_load(&shm->places);
    tries = MST_PLACE_TRIES;

    do {
        if (tries-- == 0) {
            return;
        }

        r = mst_place_requests(old);
        t = mst_place_tokens(old);

        r = (r > (pair >> 32)) ? r - (uint32_t) (pair >> 32) : 0;
        t = (t > (uint32_t) pair) ? t - (uint32_t) pair : 0;

    } while (!atomic_compare_exchange_weak(&shm->places, &old,
                                           mst_place_word(old, r, t)));
}


static uint64_t
mst_place_word(uint64_t old, uint32_t requests, uint32_t tokens)
{
    return (((old >> 52) + 1) << 52)
           | (uint64_t) (requests & MST_PLACE_MAX_REQUESTS) << 32 | tokens;
}


static uint64_t
mst_place_add(uint64_t a, uint64_t b)
{
    return mst_place_pair((a >> 32) + (b >> 32), a + b);
}


static uint64_t
mst_place_sub(uint64_t a, uint64_t b)
{
    return mst_place_pair((a >> 32) - (b >> 32), a - b);
}


/*
 * The breaker's word and its ring of faults; see the header.
 */

#include "base/mst_breaker.h"

#include "base/mst_time.h"


#define MST_BREAKER_TAKEN   12                 /* bits below the time */
#define MST_BREAKER_FROM    24
#define MST_BREAKER_COUNT   0xfffull


static uint64_t mst_breaker_from(uint64_t word);
static uint64_t mst_breaker_taken(uint64_t word);
static uint64_t mst_breaker_next(uint64_t word,
    const mst_breaker_conf_t *conf, uint64_t now_ms);
static int mst_breaker_open(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t word, uint64_t now_ns);


mst_breaker_state_t
mst_breaker_state(const mst_breaker_t *b, uint64_t now_ns, uint64_t *wait_ns)
{
    uint64_t  word, from, now;

    *wait_ns = 0;
    word = atomic_load(&b->word);

    if (word == 0) {
        return MST_BREAKER_CLOSED;
    }

    from = mst_breaker_from(word);
    now = now_ns / MST_MS;

    if (now >= from) {
        return MST_BREAKER_HALF_OPEN;
    }

    *wait_ns = (from - now) * MST_MS;

    return MST_BREAKER_OPEN;
}


static uint64_t
mst_breaker_from(uint64_t word)
{
    return word >> MST_BREAKER_FROM;
}


static uint64_t
mst_breaker_taken(uint64_t word)
{
    return word >> MST_BREAKER_TAKEN & MST_BREAKER_COUNT;
}


int
mst_breaker_look(const mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t now_ns)
{
    uint64_t  word;

    word = atomic_load(&b->word);

    return word == 0 || mst_breaker_next(word, conf, now_ns / MST_MS) != 0
           ? MST_OK : MST_BUSY;
}


/* the word with one more probe; 0: none may pass */

static uint64_t
mst_breaker_next(uint64_t word, const mst_breaker_conf_t *conf,
    uint64_t now_ms)
{
    uint64_t  from;

    from = mst_breaker_from(word);

    if (now_ms < from) {
        return 0;
    }

    if (mst_breaker_taken(word) < conf->probes) {
        return word + (1ull << MST_BREAKER_TAKEN);
    }

    /* they are lost or slow: a new turn, by another name */

    if (now_ms - from >= conf->open_ns / MST_MS) {
        return now_ms << MST_BREAKER_FROM | 1ull << MST_BREAKER_TAKEN;
    }

    return 0;
}


int
mst_breaker_enter(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t now_ns, uint64_t *probe)
{
    uint64_t  word, next;

    *probe = 0;
    word = atomic_load(&b->word);

    while (word != 0) {

        next = mst_breaker_next(word, conf, now_ns / MST_MS);

        if (next == 0) {
            return MST_BUSY;
        }

        if (atomic_compare_exchange_weak(&b->word, &word, next)) {
            *probe = mst_breaker_from(next);
            return MST_OK;
        }
    }

    return MST_OK;
}


int
mst_breaker_pass(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t probe)
{
    uint64_t  word, next;

    word = atomic_load(&b->word);

    while (probe != 0 && mst_breaker_from(word) == probe) {

        next = word + 1;

        if ((next & MST_BREAKER_COUNT) >= conf->probes) {

            /* what happened before it was open does not count any more */

            atomic_store(&b->first, atomic_load(&b->n));
            next = 0;
        }

        if (atomic_compare_exchange_weak(&b->word, &word, next)) {
            return next == 0 ? MST_DONE : MST_OK;
        }
    }

    return MST_OK;
}


void
mst_breaker_leave(mst_breaker_t *b, uint64_t probe)
{
    uint64_t  word;

    word = atomic_load(&b->word);

    while (probe != 0 && mst_breaker_from(word) == probe
           && mst_breaker_taken(word) > (word & MST_BREAKER_COUNT))
    {
        if (atomic_compare_exchange_weak(&b->word, &word,
                                         word - (1ull << MST_BREAKER_TAKEN)))
        {
            return;
        }
    }
}


int
mst_breaker_fault(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t now_ns)
{
    uint64_t  word, n;

    word = atomic_load(&b->word);

    if (word != 0) {
        return mst_breaker_open(b, conf, word, now_ns);
    }

    n = atomic_fetch_add(&b->n, 1);
    atomic_store(&b->faults[n % MST_BREAKER_ERRORS], now_ns);

    /* of all that are there by now: of several at once the last one to
       store sees them all */

    n = atomic_load(&b->n);

    if (n - atomic_load(&b->first) < conf->errors) {
        return MST_OK;
    }

    n = atomic_load(&b->faults[(n - conf->errors) % MST_BREAKER_ERRORS]);

    if (now_ns > n && now_ns - n >= conf->window_ns) {
        return MST_OK;
    }

    return mst_breaker_open(b, conf, 0, now_ns);
}


/* from closed (word 0) or half-open; one that is open stays as it is */

static int
mst_breaker_open(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t word, uint64_t now_ns)
{
    uint64_t  until;

    until = (now_ns + conf->open_ns) / MST_MS;

    while (word == 0 || now_ns / MST_MS >= mst_breaker_from(word)) {

        if (atomic_compare_exchange_weak(&b->word, &word,
                                         until << MST_BREAKER_FROM))
        {
            (void) atomic_fetch_add(&b->opened, 1);
            return MST_DONE;
        }
    }

    return MST_OK;
}


void
mst_breaker_reset(mst_breaker_t *b)
{
    atomic_store(&b->first, atomic_load(&b->n));
    atomic_store(&b->word, 0);
}


/*
 * A circuit breaker: after some faults within a time nobody is let through
 * for a while, then a few, and all again once those went well.
 *
 *   closed     all pass; each fault is remembered with its time, and the
 *              last "errors" of them within "window" open it
 *   open       none passes, for "open" long
 *   half-open  "probes" pass: so many that went well close it, one fault
 *              opens it again; who neither fails nor succeeds gives its turn
 *              back; after "open" without a decision as many more pass
 *
 * It lies in memory that several processes share, any of which may be killed
 * between two instructions: the state is one word, moved by compare and swap,
 * and there is no lock.  What a killed process leaves is at worst one fault
 * that does not count and a probe whose turn ends with "open".  All zeros is
 * a closed breaker.  What is asked of it (the settings) comes with each call,
 * so that a reload may change them.  Times are mst_time_ns().  Any process,
 * any thread.
 */

#ifndef MST_BREAKER_H
#define MST_BREAKER_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/mst_err.h"


#define MST_BREAKER_ERRORS  64                 /* at most */
#define MST_BREAKER_PROBES  1000


typedef enum {
    MST_BREAKER_CLOSED = 0,
    MST_BREAKER_HALF_OPEN,
    MST_BREAKER_OPEN
} mst_breaker_state_t;


typedef struct {
    uint64_t  window_ns;                       /* of the faults */
    uint64_t  open_ns;                         /* >= 1 ms */
    uint32_t  errors;                          /* 1 .. MST_BREAKER_ERRORS */
    uint32_t  probes;                          /* 1 .. MST_BREAKER_PROBES */
} mst_breaker_conf_t;


typedef struct {
    _Atomic uint64_t  word;                    /* CAS; 0 = closed, else
                                                  [half-open from, ms:40 |
                                                  probes taken:12 | that went
                                                  well:12] */
    _Atomic uint64_t  n;                       /* faults ever */
    _Atomic uint64_t  first;                   /* that count, of those */
    _Atomic uint64_t  opened;                  /* how often */
    _Atomic uint64_t  faults[MST_BREAKER_ERRORS];  /* times, a ring by n */
} mst_breaker_t;


/* *wait_ns: until it is half-open; 0 in other states */
mst_breaker_state_t mst_breaker_state(const mst_breaker_t *b, uint64_t now_ns,
    uint64_t *wait_ns);

/* MST_OK, or MST_BUSY: a request would not be let through now */
int mst_breaker_look(const mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t now_ns);

/*
 * Lets a request through, or MST_BUSY.  *probe is 0, or names its turn: it
 * must come to one of the three ends below.
 */
int mst_breaker_enter(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t now_ns, uint64_t *probe);

/* it went well; MST_DONE: and with that the breaker is closed */
int mst_breaker_pass(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t probe);

/* nobody knows: refused elsewhere, its client left, ... */
void mst_breaker_leave(mst_breaker_t *b, uint64_t probe);

/* a fault, of a probe or of any other; MST_DONE: it opens the breaker */
int mst_breaker_fault(mst_breaker_t *b, const mst_breaker_conf_t *conf,
    uint64_t now_ns);

/* closed, and no fault counts that was before */
void mst_breaker_reset(mst_breaker_t *b);


#endif /* MST_BREAKER_H */

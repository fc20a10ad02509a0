
/*
 * A bucket of tokens: full at first, refilled at a steady rate, never above
 * its burst.  A request takes what it may need before it starts (a hold),
 * and settles for what it needed in the end.
 *
 * The bucket stores what it lacks to be full, so that a bucket that lacks
 * nothing need not be stored, and a burst that changes counts at once.
 *
 * What a hold gets back is exact: the bucket is as full afterwards as if the
 * real number had been taken at the start.  A bucket that was full for a time
 * meanwhile has lost nothing that could come back: at most the least that was
 * lacking since the debit does.  So holds remember how little was lacking
 * between their debit and the next one, and a settled hold corrects what all
 * later ones remember: its cost is the number of those.
 *
 * Plain data: it may lie in shared memory that all users have mapped at the
 * same address, under one lock.  Time is monotonic, in nanoseconds; a clock
 * that goes back stops the refill for nobody longer than the step itself.
 */

#ifndef MST_BUCKET_H
#define MST_BUCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_list.h"


#define MST_BUCKET_MAX  1000000000000ull       /* tokens */


typedef struct {
    uint64_t    tokens;        /* refilled in each period; 0 = never */
    uint64_t    period_ns;
    uint64_t    burst;         /* tokens of a full bucket */
} mst_rate_t;


typedef struct {
    uint64_t    lacks;         /* millionths of a token to be full; above the
                                  burst: a debt */
    uint64_t    at_ns;         /* "lacks" is of this time */
    mst_list_t  holds;         /* mst_hold_t, by the time of their debit */
} mst_bucket_t;


typedef struct {
    mst_list_t  link;
    uint64_t    tokens;        /* taken so far */
    uint64_t    mark;          /* a bucket's: least that it lacked until the
                                  next hold's debit, or now; a budget's: start
                                  of its window */
} mst_hold_t;


/* "500", "20k", "1m": 0 .. MST_BUCKET_MAX, else MST_ERROR */
int mst_bucket_number(const char *s, size_t len, uint64_t *n);

/* "500t/s", "20kt/m", "1mt/h"; burst is one period's tokens */
int mst_bucket_rate(const char *s, size_t len, mst_rate_t *rate);

void mst_bucket_init(mst_bucket_t *b, uint64_t now);

/*
 * MST_OK: the hold has its tokens.  MST_BUSY: there are not enough, *wait_ns
 * says when there are if nobody else comes.  MST_DECLINED: there never are.
 */
int mst_bucket_take(mst_bucket_t *b, const mst_rate_t *rate, mst_hold_t *h,
    uint64_t tokens, uint64_t now, uint64_t *wait_ns);

/* more for a hold: as many as there are, or all of them, as a debt where
   there are none; returns how many */
uint64_t mst_bucket_more(mst_bucket_t *b, const mst_rate_t *rate,
    mst_hold_t *h, uint64_t tokens, int debt, uint64_t now);

/* the end of a hold that needed "tokens" */
void mst_bucket_settle(mst_bucket_t *b, const mst_rate_t *rate, mst_hold_t *h,
    uint64_t tokens, uint64_t now);

void mst_bucket_refill(mst_bucket_t *b, const mst_rate_t *rate, uint64_t now);

/* whole tokens that may be taken now, or that are lacking for the next one;
   the time until it is full, UINT64_MAX: never */
uint64_t mst_bucket_left(const mst_bucket_t *b, const mst_rate_t *rate);
uint64_t mst_bucket_debt(const mst_bucket_t *b, const mst_rate_t *rate);
uint64_t mst_bucket_reset_ns(const mst_bucket_t *b, const mst_rate_t *rate);

/* "6m0s", "1s", "20ms", as the headers of OpenAI have it; rounded up */
void mst_bucket_duration(uint64_t ns, char text[32]);


#endif /* MST_BUCKET_H */


/*
 * A budget: so many tokens in a window of wall-clock time, and the windows.
 * A window begins with the first request after the one before, or with the
 * calendar (local time).
 *
 * A hold counts in the window that its debit fell into: what it gets back
 * after that window's end is nobody's any more.
 *
 * A clock that is set back by no more than a window changes nothing; by more,
 * the budget goes on in the window of the new time with what it had used.  So
 * nobody gets a budget twice, and nobody waits for a year that was a mistake.
 *
 * Plain data under the owner's lock, as mst_bucket.h.  Times are seconds of
 * Unix.
 */

#ifndef MST_BUDGET_H
#define MST_BUDGET_H

#include "base/mst_bucket.h"


typedef struct {
    int64_t     seconds;       /* 0: a month */
    int         calendar;
} mst_budget_window_t;


typedef struct {
    int64_t     start;         /* inclusive */
    int64_t     end;           /* exclusive */
} mst_budget_span_t;


typedef struct {
    mst_budget_span_t  span;       /* end 0: no window yet */
    uint64_t           used;       /* tokens, holds included */
    uint64_t           saved;      /* of them: in the state file, or from
                                      it */
    uint64_t           writing;    /* what will be that, if a write succeeds */
    mst_list_t         holds;      /* mst_hold_t */
} mst_budget_t;


/*
 * "90s", "1h", "30d" or "month", which is of the calendar always; others are
 * if they divide a day.  MST_ERROR with a sentence.
 */
int mst_budget_window(const char *s, size_t len, int calendar,
    mst_budget_window_t *w, mst_err_t *err);

/* the window that is, or would begin, now */
void mst_budget_span(const mst_budget_window_t *w, int64_t now,
    mst_budget_span_t *span);

void mst_budget_init(mst_budget_t *b);

/* brings the budget to now, whose window "span" is */
void mst_budget_roll(mst_budget_t *b, const mst_budget_span_t *span,
    int64_t now);

/* MST_OK, MST_BUSY: until the window's end, MST_DECLINED: more than all of
   it; the budget is rolled before these */
int mst_budget_take(mst_budget_t *b, uint64_t limit, mst_hold_t *h,
    uint64_t tokens);
uint64_t mst_budget_more(mst_budget_t *b, uint64_t limit, mst_hold_t *h,
    uint64_t tokens, int debt);
void mst_budget_settle(mst_budget_t *b, mst_hold_t *h, uint64_t tokens);
uint64_t mst_budget_left(const mst_budget_t *b, uint64_t limit);

/*
 * A state file that somebody else wrote says "used" of the window "span":
 * what it changed since we saved is added, or taken away.
 */
void mst_budget_merge(mst_budget_t *b, const mst_budget_span_t *span,
    uint64_t used);


#endif /* MST_BUDGET_H */


/*
 * Windows by the C library's calendar: a day of 23 or 25 hours is a day.
 */

#include "base/mst_budget.h"

#include <string.h>
#include <time.h>


#define MST_BUDGET_DAY   86400
#define MST_BUDGET_LONG  (366 * MST_BUDGET_DAY)
#define MST_BUDGET_MOST  (UINT64_MAX / 4)      /* tokens */


static int64_t mst_budget_midnight(struct tm *tm, int month, int day);
static void mst_budget_add(mst_budget_t *b, uint64_t tokens);


int
mst_budget_window(const char *s, size_t len, int calendar,
    mst_budget_window_t *w, mst_err_t *err)
{
    size_t       i;
    int64_t      n, unit;
    const char  *p;
    static const char     letters[] = "smhd";
    static const int64_t  units[] = { 1, 60, 3600, MST_BUDGET_DAY };

    w->calendar = calendar;
    w->seconds = 0;

    if (len == 5 && memcmp(s, "month", 5) == 0) {
        w->calendar = 1;
        return MST_OK;
    }

    p = len > 1 ? memchr(letters, s[len - 1], 4) : NULL;
    unit = p ? units[p - letters] : 0;
    n = 0;

    for (i = 0; unit && i + 1 < len; i++) {
        if (s[i] < '0' || s[i] > '9' || n > MST_BUDGET_LONG) {
            unit = 0;
            break;
        }

        n = n * 10 + (s[i] - '0');
    }

    if (unit == 0 || n == 0 || n > MST_BUDGET_LONG / unit) {
        return mst_err_set(err, "it must be \"month\" or a time from 1s to "
                           "366d");
    }

    w->seconds = n * unit;

    if (calendar && MST_BUDGET_DAY % w->seconds != 0) {
        return mst_err_set(err, "no calendar has it: it must divide a day, or "
                           "be \"month\"");
    }

    return MST_OK;
}


void
mst_budget_span(const mst_budget_window_t *w, int64_t now,
    mst_budget_span_t *span)
{
    time_t     t;
    int64_t    next;
    struct tm  tm;

    t = (time_t) now;

    if (!w->calendar || localtime_r(&t, &tm) == NULL) {
        span->start = now;
        span->end = now + (w->seconds ? w->seconds : 30 * MST_BUDGET_DAY);
        return;
    }

    if (w->seconds == 0) {
        tm.tm_mday = 1;
        span->start = mst_budget_midnight(&tm, 0, 0);
        span->end = mst_budget_midnight(&tm, 1, 0);
        return;
    }

    span->start = mst_budget_midnight(&tm, 0, 0);
    span->end = mst_budget_midnight(&tm, 0, 1);

    if (w->seconds < MST_BUDGET_DAY) {
        next = span->end;
        span->start += (now - span->start) / w->seconds * w->seconds;
        span->end = span->start + w->seconds;

        /* the last one of a day that daylight saving made shorter */

        span->end = span->end < next ? span->end : next;
    }
}


static int64_t
mst_budget_midnight(struct tm *tm, int month, int day)
{
    struct tm  at;

    at = *tm;
    at.tm_sec = 0;
    at.tm_min = 0;
    at.tm_hour = 0;
    at.tm_mon += month;
    at.tm_mday += day;
    at.tm_isdst = -1;

    return (int64_t) mktime(&at);
}


void
mst_budget_init(mst_budget_t *b)
{
    memset(b, 0, sizeof(mst_budget_t));
    mst_list_init(&b->holds);
}


void
mst_budget_roll(mst_budget_t *b, const mst_budget_span_t *span,
    int64_t now)
{
    int64_t      length;
    mst_list_t  *l;
    mst_hold_t  *h;

    length = b->span.end - b->span.start;

    if (now >= b->span.end) {
        b->span = *span;
        b->used = 0;
        b->saved = 0;
        b->writing = 0;

    } else if (now < b->span.start - length) {

        /* holds go with it, or they would give nothing back */

        for (l = b->holds.next; l != &b->holds; l = l->next) {
            h = mst_list_data(l, mst_hold_t, link);

            if (h->mark == (uint64_t) b->span.start) {
                h->mark = (uint64_t) span->start;
            }
        }

        b->span = *span;
    }
}


int
mst_budget_take(mst_budget_t *b, uint64_t limit, mst_hold_t *h,
    uint64_t tokens)
{
    if (tokens > limit) {
        return MST_DECLINED;
    }

    if (tokens > mst_budget_left(b, limit)) {
        return MST_BUSY;
    }

    mst_budget_add(b, tokens);

    h->tokens = tokens;
    h->mark = (uint64_t) b->span.start;
    mst_list_insert_tail(&b->holds, &h->link);

    return MST_OK;
}


uint64_t
mst_budget_more(mst_budget_t *b, uint64_t limit, mst_hold_t *h,
    uint64_t tokens, int debt)
{
    uint64_t  left;

    if (!debt) {
        left = mst_budget_left(b, limit);
        tokens = tokens < left ? tokens : left;
    }

    mst_budget_add(b, tokens);
    h->tokens += tokens;

    return tokens;
}


void
mst_budget_settle(mst_budget_t *b, mst_hold_t *h, uint64_t tokens)
{
    uint64_t  back;

    mst_list_remove(&h->link);

    if (tokens > h->tokens) {
        mst_budget_add(b, tokens - h->tokens);

    } else if (h->mark == (uint64_t) b->span.start) {
        back = h->tokens - tokens;
        b->used -= back < b->used ? back : b->used;
    }
}


uint64_t
mst_budget_left(const mst_budget_t *b, uint64_t limit)
{
    return b->used < limit ? limit - b->used : 0;
}


static void
mst_budget_add(mst_budget_t *b, uint64_t tokens)
{
    uint64_t  room;

    room = MST_BUDGET_MOST - b->used;
    b->used += tokens < room ? tokens : room;
}


void
mst_budget_merge(mst_budget_t *b, const mst_budget_span_t *span, uint64_t used)
{
    uint64_t  less;

    used = used < MST_BUDGET_MOST ? used : MST_BUDGET_MOST;

    if (b->span.end == 0 || span->start > b->span.start) {
        b->span = *span;
        b->used = 0;
        b->saved = 0;

    } else if (span->start != b->span.start) {
        return;                                /* of a window that is over */
    }

    if (used >= b->saved) {
        mst_budget_add(b, used - b->saved);

    } else {
        less = b->saved - used;
        b->used -= less < b->used ? less : b->used;
    }

    b->saved = used;
}


/*
 * Buckets in integers: a millionth of a token is the unit, and time moves on
 * only by what whole units took, so that no refill is lost to rounding
 * however often a bucket is looked at, and none is gained.  Products are of
 * 128 bits.
 */

#include "base/mst_bucket.h"

#include <stdio.h>

#include "base/mst_time.h"


#define MST_BUCKET_UNIT  1000000ull            /* of a token */
#define MST_BUCKET_DEBT  (UINT64_MAX / 4)      /* no more is written down */


typedef unsigned __int128  mst_bucket_wide_t;


static void mst_bucket_event(mst_bucket_t *b);
static void mst_bucket_debit(mst_bucket_t *b, uint64_t tokens);
static void mst_bucket_back(mst_bucket_t *b, mst_hold_t *h, uint64_t units);
static uint64_t mst_bucket_time(const mst_rate_t *rate, uint64_t units);


int
mst_bucket_number(const char *s, size_t len, uint64_t *n)
{
    size_t    i;
    uint64_t  unit, value;

    unit = 1;
    value = 0;

    if (len && (s[len - 1] == 'k' || s[len - 1] == 'K')) {
        unit = 1000;
        len--;

    } else if (len && (s[len - 1] == 'm' || s[len - 1] == 'M')) {
        unit = 1000000;
        len--;
    }

    for (i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9') {
            return MST_ERROR;
        }

        value = value * 10 + (uint64_t) (s[i] - '0');

        if (value > MST_BUCKET_MAX / unit) {
            return MST_ERROR;
        }
    }

    *n = value * unit;

    return len ? MST_OK : MST_ERROR;
}


int
mst_bucket_rate(const char *s, size_t len, mst_rate_t *rate)
{
    if (len < 4 || s[len - 3] != 't' || s[len - 2] != '/') {
        return MST_ERROR;
    }

    switch (s[len - 1]) {

    case 's':
        rate->period_ns = MST_S;
        break;

    case 'm':
        rate->period_ns = 60 * MST_S;
        break;

    case 'h':
        rate->period_ns = 3600 * MST_S;
        break;

    default:
        return MST_ERROR;
    }

    if (mst_bucket_number(s, len - 3, &rate->tokens) != MST_OK) {
        return MST_ERROR;
    }

    rate->burst = rate->tokens;

    return MST_OK;
}


void
mst_bucket_init(mst_bucket_t *b, uint64_t now)
{
    b->lacks = 0;
    b->at_ns = now;
    mst_list_init(&b->holds);
}


void
mst_bucket_refill(mst_bucket_t *b, const mst_rate_t *rate, uint64_t now)
{
    uint64_t           per;
    mst_bucket_wide_t  units, used;

    per = rate->tokens * MST_BUCKET_UNIT;

    if (now <= b->at_ns || b->lacks == 0 || per == 0) {
        b->at_ns = now;
        return;
    }

    units = (mst_bucket_wide_t) (now - b->at_ns) * per / rate->period_ns;

    if (units >= b->lacks) {
        b->lacks = 0;
        b->at_ns = now;
        return;
    }

    /* what these units took, the part of a nanosecond up */

    used = (units * rate->period_ns + per - 1) / per;

    b->lacks -= (uint64_t) units;
    b->at_ns += (uint64_t) used;
}


/* the last hold sees how little is lacking, just before that grows */

static void
mst_bucket_event(mst_bucket_t *b)
{
    mst_hold_t  *h;

    if (!mst_list_empty(&b->holds)) {
        h = mst_list_data(b->holds.prev, mst_hold_t, link);
        h->mark = h->mark < b->lacks ? h->mark : b->lacks;
    }
}


static void
mst_bucket_debit(mst_bucket_t *b, uint64_t tokens)
{
    uint64_t  room;

    room = MST_BUCKET_DEBT - b->lacks;

    b->lacks += tokens < room / MST_BUCKET_UNIT ? tokens * MST_BUCKET_UNIT
                                                : room;
}


int
mst_bucket_take(mst_bucket_t *b, const mst_rate_t *rate, mst_hold_t *h,
    uint64_t tokens, uint64_t now, uint64_t *wait_ns)
{
    uint64_t  left, missing, waited;

    mst_bucket_refill(b, rate, now);

    *wait_ns = 0;

    if (tokens > rate->burst) {
        return MST_DECLINED;
    }

    left = (rate->burst - tokens) * MST_BUCKET_UNIT;

    if (b->lacks > left) {
        missing = mst_bucket_time(rate, b->lacks - left);
        waited = now - b->at_ns;

        *wait_ns = missing == UINT64_MAX ? UINT64_MAX
                   : missing > waited ? missing - waited : 0;
        return MST_BUSY;
    }

    mst_bucket_event(b);
    mst_bucket_debit(b, tokens);

    h->tokens = tokens;
    h->mark = b->lacks;
    mst_list_insert_tail(&b->holds, &h->link);

    return MST_OK;
}


uint64_t
mst_bucket_more(mst_bucket_t *b, const mst_rate_t *rate, mst_hold_t *h,
    uint64_t tokens, int debt, uint64_t now)
{
    uint64_t  left;

    mst_bucket_refill(b, rate, now);

    if (!debt) {
        left = mst_bucket_left(b, rate);
        tokens = tokens < left ? tokens : left;
    }

    mst_bucket_event(b);
    mst_bucket_debit(b, tokens);
    h->tokens += tokens;

    return tokens;
}


void
mst_bucket_settle(mst_bucket_t *b, const mst_rate_t *rate, mst_hold_t *h,
    uint64_t tokens, uint64_t now)
{
    mst_hold_t  *before;

    mst_bucket_refill(b, rate, now);
    mst_bucket_event(b);

    if (tokens > h->tokens) {
        mst_bucket_debit(b, tokens - h->tokens);

    } else if (tokens < h->tokens) {
        mst_bucket_back(b, h, (h->tokens - tokens) * MST_BUCKET_UNIT);
    }

    if (h->link.prev != &b->holds) {
        before = mst_list_data(h->link.prev, mst_hold_t, link);
        before->mark = before->mark < h->mark ? before->mark : h->mark;
    }

    mst_list_remove(&h->link);
}


/*
 * As if so much less had been taken by h: at each time since then so much
 * less is lacking, or all that was the least until that time.
 */

static void
mst_bucket_back(mst_bucket_t *b, mst_hold_t *h, uint64_t units)
{
    mst_list_t  *l;

    for (l = &h->link; l != &b->holds; l = l->next) {
        h = mst_list_data(l, mst_hold_t, link);

        units = units < h->mark ? units : h->mark;
        h->mark -= units;
    }

    b->lacks -= units;
}


uint64_t
mst_bucket_left(const mst_bucket_t *b, const mst_rate_t *rate)
{
    uint64_t  full;

    full = rate->burst * MST_BUCKET_UNIT;

    return b->lacks < full ? (full - b->lacks) / MST_BUCKET_UNIT : 0;
}


uint64_t
mst_bucket_debt(const mst_bucket_t *b, const mst_rate_t *rate)
{
    uint64_t  full;

    full = rate->burst * MST_BUCKET_UNIT;

    return b->lacks > full ? (b->lacks - full) / MST_BUCKET_UNIT : 0;
}


uint64_t
mst_bucket_reset_ns(const mst_bucket_t *b, const mst_rate_t *rate)
{
    return mst_bucket_time(rate, b->lacks);
}


static uint64_t
mst_bucket_time(const mst_rate_t *rate, uint64_t units)
{
    uint64_t           per;
    mst_bucket_wide_t  ns;

    per = rate->tokens * MST_BUCKET_UNIT;

    if (units == 0) {
        return 0;
    }

    if (per == 0) {
        return UINT64_MAX;
    }

    ns = ((mst_bucket_wide_t) units * rate->period_ns + per - 1) / per;

    return ns < UINT64_MAX ? (uint64_t) ns : UINT64_MAX;
}


void
mst_bucket_duration(uint64_t ns, char text[32])
{
    unsigned long long  ms, s;

    ms = ns / MST_MS + (ns % MST_MS != 0);
    s = ms / 1000 + (ms % 1000 != 0);

    if (ms < 1000) {
        (void) snprintf(text, 32, "%llums", ms);

    } else if (s < 60) {
        (void) snprintf(text, 32, "%llus", s);

    } else if (s < 3600) {
        (void) snprintf(text, 32, "%llum%llus", s / 60, s % 60);

    } else {
        (void) snprintf(text, 32, "%lluh%llum%llus", s / 3600, s / 60 % 60,
                        s % 60);
    }
}

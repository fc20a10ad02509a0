
/*
 * Reckoning: see mst_reckon.h.
 */

#include <math.h>

#include "base/mst_time.h"
#include "engine/mst_reckon.h"


#define MST_RECKON_SPAN     2.0    /* seconds of steps */
#define MST_RECKON_PART     8      /* of a step: worth measuring */
#define MST_RECKON_OLD      5.0    /* seconds: after so many hope begins, and
                                      doubles with each so many more */
#define MST_RECKON_DOUBLES  32     /* at most */
#define MST_RECKON_FIRST    1.2    /* margin, until steps have told */
#define MST_RECKON_MOST     4.0

/* of 100 steps one goes up by 99 times what the others go down */
#define MST_RECKON_DOWN     0.002
#define MST_RECKON_UP       (99 * MST_RECKON_DOWN)


static double mst_reckon_hope(const mst_reckon_t *r, uint64_t now_ns);
static uint64_t mst_reckon_time(double tokens, double rate);


void
mst_reckon_init(mst_reckon_t *r, uint32_t budget)
{
    mst_rate_init(&r->prompts, MST_RECKON_SPAN);

    r->margin = MST_RECKON_FIRST;
    r->measured_ns = 0;
    r->enough = budget / MST_RECKON_PART;
}


void
mst_reckon_add(mst_reckon_t *r, uint32_t tokens, uint32_t prompts,
    uint64_t ns, uint64_t now_ns)
{
    int     old;
    double  expected;

    old = mst_reckon_hope(r, now_ns) > 1;

    /* the time of a step with few prompt tokens is that of the rest; but it
       says more than nothing */

    if (prompts == 0 || (prompts < r->enough && !old)) {
        return;
    }

    if (old) {
        mst_rate_init(&r->prompts, MST_RECKON_SPAN);

    } else if (mst_reckon_known(r)) {
        expected = (double) mst_reckon_time(tokens,
                                            mst_rate_get(&r->prompts));

        if ((double) ns > expected * r->margin) {
            r->margin += MST_RECKON_UP;

        } else {
            r->margin -= MST_RECKON_DOWN;
        }

        r->margin = fmin(fmax(r->margin, 1), MST_RECKON_MOST);
    }

    mst_rate_add(&r->prompts, prompts, ns);

    r->measured_ns = now_ns;
}


int
mst_reckon_known(const mst_reckon_t *r)
{
    return mst_rate_get(&r->prompts) > 0;
}


uint64_t
mst_reckon_ns(const mst_reckon_t *r, uint64_t tokens, uint64_t now_ns)
{
    double  rate;

    rate = mst_rate_get(&r->prompts) * mst_reckon_hope(r, now_ns);

    return rate > 0 ? mst_reckon_time((double) tokens, rate) : 0;
}


uint64_t
mst_reckon_sure_ns(const mst_reckon_t *r, uint64_t tokens, uint64_t now_ns)
{
    double  rate;

    rate = mst_rate_get(&r->prompts) * mst_reckon_hope(r, now_ns) / r->margin;

    return rate > 0 ? mst_reckon_time((double) tokens, rate) : 0;
}


double
mst_reckon_sure(const mst_reckon_t *r, uint64_t ns, uint64_t now_ns)
{
    return (double) ns / (double) MST_S * mst_rate_get(&r->prompts)
           * mst_reckon_hope(r, now_ns) / r->margin;
}


static double
mst_reckon_hope(const mst_reckon_t *r, uint64_t now_ns)
{
    double  age;

    age = now_ns > r->measured_ns
          ? (double) (now_ns - r->measured_ns) / (double) MST_S : 0;

    age = fmin(age / MST_RECKON_OLD - 1, MST_RECKON_DOUBLES);

    return age > 0 ? exp2(age) : 1;
}


static uint64_t
mst_reckon_time(double tokens, double rate)
{
    double  ns;

    ns = tokens / rate * (double) MST_S;

    return ns < 1e18 ? (uint64_t) ns : (uint64_t) 1e18;
}

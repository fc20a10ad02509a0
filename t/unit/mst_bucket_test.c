
/*
 * Buckets: the arithmetic by tables, then random requests against a slow
 * model that knows what each request needed in the end.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mst_bucket.h"
#include "base/mst_time.h"

#include "seed.h"


#define N_JOBS  40


/* one request of the random test */
typedef struct {
    uint64_t    at;            /* of its debit, ns */
    uint64_t    tokens;        /* what it costs as far as is known */
} job_t;


static const mst_rate_t  ten = { 10, MST_S, 100 };


static void
test_numbers(void **state)
{
    size_t    i;
    uint64_t  n;

    static const struct {
        const char  *text;
        uint64_t     n;
    } good[] = {
        { "0", 0 }, { "1", 1 }, { "007", 7 }, { "20k", 20000 },
        { "20K", 20000 }, { "3m", 3000000 }, { "1000000000000", 1000000000000 },
        { "1000000000k", 1000000000000 }, { "1000000M", 1000000000000 }
    };

    static const char *const  bad[] = {
        "", "k", "-1", "+1", "1.5", "1 ", " 1", "1kk", "1g", "x",
        "1000000000001", "1000001m", "1000000001k",
        "99999999999999999999999999"
    };

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(mst_bucket_number(good[i].text, strlen(good[i].text),
                                           &n), MST_OK);
        assert_int_equal(n, good[i].n);
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(mst_bucket_number(bad[i], strlen(bad[i]), &n),
                         MST_ERROR);
    }
}


static void
test_rates(void **state)
{
    size_t      i;
    mst_rate_t  rate;

    static const struct {
        const char  *text;
        mst_rate_t   rate;
    } good[] = {
        { "500t/s", { 500, MST_S, 500 } },
        { "20kt/m", { 20000, 60 * MST_S, 20000 } },
        { "1mt/h", { 1000000, 3600 * MST_S, 1000000 } },
        { "0t/s", { 0, MST_S, 0 } }
    };

    static const char *const  bad[] = {
        "", "t/s", "500", "500t", "500t/", "500t/d", "500/s", "500r/s",
        "-1t/s", "500t/s ", "kt/s", "1.5t/s"
    };

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(mst_bucket_rate(good[i].text, strlen(good[i].text),
                                         &rate), MST_OK);
        assert_int_equal(rate.tokens, good[i].rate.tokens);
        assert_int_equal(rate.period_ns, good[i].rate.period_ns);
        assert_int_equal(rate.burst, good[i].rate.burst);
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(mst_bucket_rate(bad[i], strlen(bad[i]), &rate),
                         MST_ERROR);
    }
}


static void
test_take(void **state)
{
    uint64_t      wait;
    mst_hold_t    a, b, c;
    mst_bucket_t  bucket;

    (void) state;

    mst_bucket_init(&bucket, 0);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 100);
    assert_int_equal(mst_bucket_reset_ns(&bucket, &ten), 0);

    /* more than it ever holds, all of it, nothing more */

    assert_int_equal(mst_bucket_take(&bucket, &ten, &a, 101, 0, &wait),
                     MST_DECLINED);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &a, 60, 0, &wait), MST_OK);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &b, 40, 0, &wait), MST_OK);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &c, 1, 0, &wait),
                     MST_BUSY);
    assert_int_equal(wait, MST_S / 10);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 0);
    assert_int_equal(mst_bucket_reset_ns(&bucket, &ten), 10 * MST_S);

    /* the wait is exact: not a nanosecond before */

    assert_int_equal(mst_bucket_take(&bucket, &ten, &c, 25, MST_S, &wait),
                     MST_BUSY);
    assert_int_equal(wait, 3 * MST_S / 2);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &c, 25, 5 * MST_S / 2 - 1,
                                     &wait), MST_BUSY);
    assert_int_equal(wait, 1);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &c, 25, 5 * MST_S / 2,
                                     &wait), MST_OK);

    /* c needed 5, a what it had, b a debt */

    mst_bucket_settle(&bucket, &ten, &c, 5, 5 * MST_S / 2);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 20);
    mst_bucket_settle(&bucket, &ten, &a, 60, 5 * MST_S / 2);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 20);
    mst_bucket_settle(&bucket, &ten, &b, 90, 5 * MST_S / 2);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 0);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &c, 1, 5 * MST_S / 2,
                                     &wait), MST_BUSY);
    assert_int_equal(wait, 31 * MST_S / 10);

    mst_bucket_refill(&bucket, &ten, 1000 * MST_S);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 100);
}


/* it filled up while a hold was open: the hold's rest is lost */

static void
test_full_again(void **state)
{
    uint64_t      wait;
    mst_hold_t    a, b;
    mst_bucket_t  bucket;

    (void) state;

    mst_bucket_init(&bucket, 0);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &a, 100, 0, &wait),
                     MST_OK);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &b, 50, 8 * MST_S, &wait),
                     MST_OK);

    /* it would have been full for long: 20 were lacking at the least */

    mst_bucket_settle(&bucket, &ten, &a, 10, 8 * MST_S);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 50);
    mst_bucket_settle(&bucket, &ten, &b, 50, 8 * MST_S);

    mst_bucket_init(&bucket, 0);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &a, 100, 0, &wait),
                     MST_OK);
    mst_bucket_settle(&bucket, &ten, &a, 10, 20 * MST_S);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 100);
}


static void
test_more(void **state)
{
    uint64_t      wait;
    mst_hold_t    a;
    mst_bucket_t  bucket;

    (void) state;

    mst_bucket_init(&bucket, 0);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &a, 90, 0, &wait), MST_OK);

    assert_int_equal(mst_bucket_more(&bucket, &ten, &a, 7, 0, 0), 7);
    assert_int_equal(mst_bucket_more(&bucket, &ten, &a, 7, 0, 0), 3);
    assert_int_equal(mst_bucket_more(&bucket, &ten, &a, 7, 0, 0), 0);
    assert_int_equal(mst_bucket_more(&bucket, &ten, &a, 7, 0, MST_S / 2), 5);
    assert_int_equal(mst_bucket_more(&bucket, &ten, &a, 10, 1, MST_S / 2), 10);
    assert_int_equal(a.tokens, 115);

    mst_bucket_settle(&bucket, &ten, &a, 115, MST_S / 2);
    assert_int_equal(mst_bucket_reset_ns(&bucket, &ten), 11 * MST_S);
}


/* however often it is looked at, and however slow the rate: nothing is lost,
   nothing is won */

static void
test_rounding(void **state)
{
    size_t        i, k;
    uint64_t      wait;
    mst_hold_t    h;
    mst_bucket_t  bucket;

    static const mst_rate_t  rates[] = {
        { 1, 3600 * MST_S, 10 }, { 7, 3600 * MST_S, 10 },
        { 333, 60 * MST_S, 1000 }, { MST_BUCKET_MAX, MST_S, MST_BUCKET_MAX }
    };

    (void) state;

    for (i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {

        mst_bucket_init(&bucket, 0);
        assert_int_equal(mst_bucket_take(&bucket, &rates[i], &h,
                                         rates[i].burst, 0, &wait), MST_OK);
        mst_bucket_settle(&bucket, &rates[i], &h, rates[i].burst, 0);

        assert_int_equal(mst_bucket_take(&bucket, &rates[i], &h, 1, 0, &wait),
                         MST_BUSY);

        /* 100000 roundings of a nanosecond, and less than a thousandth */

        for (k = 1; k <= 100000; k++) {
            mst_bucket_refill(&bucket, &rates[i],
                              (wait - wait / 1000) * k / 100000);
        }

        assert_true(mst_bucket_left(&bucket, &rates[i]) == 0 || wait < 1000);

        mst_bucket_refill(&bucket, &rates[i], wait + 100000);
        assert_true(mst_bucket_left(&bucket, &rates[i]) >= 1);
    }
}


/* a rate of 0, extremes, a clock that goes back */

static void
test_edges(void **state)
{
    uint64_t          wait;
    mst_hold_t        h;
    mst_bucket_t      bucket;
    const mst_rate_t  none = { 0, MST_S, 5 };
    const mst_rate_t  most = { MST_BUCKET_MAX, MST_S, MST_BUCKET_MAX };
    const mst_rate_t  slow = { 1, 3600 * MST_S, MST_BUCKET_MAX };

    (void) state;

    mst_bucket_init(&bucket, 0);
    assert_int_equal(mst_bucket_take(&bucket, &none, &h, 5, 0, &wait), MST_OK);
    mst_bucket_settle(&bucket, &none, &h, 5, UINT64_MAX);
    assert_int_equal(mst_bucket_take(&bucket, &none, &h, 1, UINT64_MAX,
                                     &wait), MST_BUSY);
    assert_true(wait == UINT64_MAX);
    assert_true(mst_bucket_reset_ns(&bucket, &none) == UINT64_MAX);

    /* it takes longer than 64 bits of nanoseconds */

    mst_bucket_init(&bucket, 0);
    assert_int_equal(mst_bucket_take(&bucket, &slow, &h, MST_BUCKET_MAX, 0,
                                     &wait), MST_OK);
    assert_true(mst_bucket_reset_ns(&bucket, &slow) == UINT64_MAX);

    /* a debt without an end */

    mst_bucket_settle(&bucket, &slow, &h, UINT64_MAX, 0);
    assert_int_equal(mst_bucket_take(&bucket, &most, &h, 1, 0, &wait),
                     MST_BUSY);
    mst_bucket_refill(&bucket, &most, UINT64_MAX);
    assert_int_equal(mst_bucket_left(&bucket, &most), MST_BUCKET_MAX);

    /* back by an hour: the refill goes on from there */

    mst_bucket_init(&bucket, 3600 * MST_S);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &h, 100, 3600 * MST_S,
                                     &wait), MST_OK);
    mst_bucket_settle(&bucket, &ten, &h, 100, 3600 * MST_S);
    mst_bucket_refill(&bucket, &ten, MST_S);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 0);
    mst_bucket_refill(&bucket, &ten, 2 * MST_S);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 10);
}


/* a burst that changes counts at once */

static void
test_other_burst(void **state)
{
    uint64_t          wait;
    mst_hold_t        h;
    mst_bucket_t      bucket;
    const mst_rate_t  more = { 10, MST_S, 500 };

    (void) state;

    mst_bucket_init(&bucket, 0);
    assert_int_equal(mst_bucket_take(&bucket, &ten, &h, 100, 0, &wait),
                     MST_OK);
    assert_int_equal(mst_bucket_left(&bucket, &ten), 0);
    assert_int_equal(mst_bucket_left(&bucket, &more), 400);
    mst_bucket_settle(&bucket, &more, &h, 100, 0);
}


static void
test_duration(void **state)
{
    char    text[32];
    size_t  i;

    static const struct {
        uint64_t     ns;
        const char  *text;
    } t[] = {
        { 0, "0ms" }, { 1, "1ms" }, { 20 * MST_MS, "20ms" },
        { 999 * MST_MS, "999ms" }, { 999 * MST_MS + 1, "1s" },
        { MST_S, "1s" }, { MST_S + 1, "2s" }, { 60 * MST_S, "1m0s" },
        { 360 * MST_S, "6m0s" }, { 3599 * MST_S + 1, "1h0m0s" },
        { 90061 * MST_S, "25h1m1s" }, { UINT64_MAX, "5124095h34m34s" }
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        mst_bucket_duration(t[i].ns, text);
        assert_string_equal(text, t[i].text);
    }
}


/* what a bucket lacks now if each job had cost its tokens from the start, in
   millionths; jobs are in the order of their time */

static uint64_t
model_lacks(const job_t *jobs, size_t n, uint64_t now)
{
    size_t             i;
    uint64_t           at, lacks;
    unsigned __int128  units;

    at = 0;
    lacks = 0;

    for (i = 0; i <= n; i++) {
        units = (unsigned __int128) ((i < n ? jobs[i].at : now) - at)
                * (ten.tokens * 1000000) / ten.period_ns;
        lacks = units < lacks ? lacks - (uint64_t) units : 0;

        if (i < n) {
            lacks += jobs[i].tokens * 1000000;
            at = jobs[i].at;
        }
    }

    return lacks;
}


static void
random_run(unsigned *seed, uint64_t *refunds)
{
    int           open[N_JOBS];
    job_t         jobs[N_JOBS];
    size_t        n, i, n_open;
    uint64_t      now, wait, real, before, lacks;
    mst_hold_t    holds[N_JOBS];
    mst_bucket_t  bucket;

    mst_bucket_init(&bucket, 0);

    now = 0;
    n_open = 0;

    for (n = 0; n < N_JOBS || n_open; /* void */ ) {

        now += (uint64_t) rand_r(seed) % (2 * MST_S);

        if (n < N_JOBS && (n_open == 0 || rand_r(seed) % 2)) {
            jobs[n].at = now;
            jobs[n].tokens = (uint64_t) rand_r(seed) % 60;
            open[n] = mst_bucket_take(&bucket, &ten, &holds[n],
                                      jobs[n].tokens, now, &wait) == MST_OK;

            if (open[n]) {
                n++;
                n_open++;
            }

            continue;
        }

        if (n_open == 0) {
            continue;
        }

        do {
            i = (size_t) rand_r(seed) % n;
        } while (!open[i]);

        real = (uint64_t) rand_r(seed) % (jobs[i].tokens + 1);

        mst_bucket_refill(&bucket, &ten, now);
        before = bucket.lacks;
        mst_bucket_settle(&bucket, &ten, &holds[i], real, now);
        *refunds += before - bucket.lacks;

        jobs[i].tokens = real;
        open[i] = 0;
        n_open--;

        /* the truth; a millionth for each rounding */

        lacks = model_lacks(jobs, n, now);
        assert_true(bucket.lacks + 2 * N_JOBS >= lacks);
        assert_true(bucket.lacks <= lacks + 2 * N_JOBS);
    }
}


static void
test_random(void **state)
{
    int       i;
    uint64_t  refunds;
    unsigned  seed;

    (void) state;

    seed = (unsigned) test_seed();

    refunds = 0;

    for (i = 0; i < 4000; i++) {
        random_run(&seed, &refunds);
    }

    assert_true(refunds > 4000ull * N_JOBS * 1000000);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_full_again),
        cmocka_unit_test(test_more),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_other_burst),
        cmocka_unit_test(test_duration),
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

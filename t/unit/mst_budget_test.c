
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/mst_budget.h"


#define DAY  86400


static int64_t
at(int year, int month, int day, int hour, int min)
{
    struct tm  tm;

    memset(&tm, 0, sizeof(tm));

    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    tm.tm_mday = day;
    tm.tm_hour = hour;
    tm.tm_min = min;
    tm.tm_isdst = -1;

    return (int64_t) mktime(&tm);
}


static void
zone(const char *name)
{
    assert_int_equal(setenv("TZ", name, 1), 0);
    tzset();
}


static mst_budget_window_t
window(const char *text, int calendar)
{
    mst_err_t     err = { "" };
    mst_budget_window_t  w;

    assert_int_equal(mst_budget_window(text, strlen(text), calendar, &w, &err),
                     MST_OK);
    assert_string_equal(err.text, "");

    return w;
}


static void
test_window(void **state)
{
    size_t        i;
    mst_err_t     err;
    mst_budget_window_t  w;

    static const struct {
        const char  *text;
        int          calendar;
    } bad[] = {
        { "", 0 }, { "h", 0 }, { "0h", 0 }, { "1", 0 }, { "1w", 0 },
        { "-1h", 0 }, { "367d", 0 }, { "99999999999999999999d", 0 },
        { "1.5h", 0 }, { "months", 0 }, { "mont", 0 }, { "7h", 1 },
        { "2d", 1 }, { "30d", 1 }, { "7s", 1 }
    };

    (void) state;

    assert_int_equal(window("1s", 0).seconds, 1);
    assert_int_equal(window("90m", 0).seconds, 5400);
    assert_int_equal(window("1h", 1).seconds, 3600);
    assert_int_equal(window("1h", 1).calendar, 1);
    assert_int_equal(window("366d", 0).seconds, 366 * DAY);
    assert_int_equal(window("30d", 0).calendar, 0);
    assert_int_equal(window("month", 0).seconds, 0);
    assert_int_equal(window("month", 0).calendar, 1);

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        assert_int_equal(mst_budget_window(bad[i].text, strlen(bad[i].text),
                                           bad[i].calendar, &w, &err),
                         MST_ERROR);
        assert_true(err.text[0] != '\0');
    }
}


/* each time lies in its window, whose borders are these */

static void
test_calendar(void **state)
{
    size_t        i;
    mst_budget_span_t    span;
    mst_budget_window_t  w;

    static const struct {
        const char  *zone;
        const char  *window;
        int          now[5], start[5], end[5];
    } t[] = {
        { "UTC0", "1h", { 2026, 2, 28, 23, 59 }, { 2026, 2, 28, 23, 0 },
          { 2026, 3, 1, 0, 0 } },
        { "UTC0", "1d", { 2024, 2, 29, 0, 0 }, { 2024, 2, 29, 0, 0 },
          { 2024, 3, 1, 0, 0 } },
        { "UTC0", "6h", { 2026, 1, 1, 17, 59 }, { 2026, 1, 1, 12, 0 },
          { 2026, 1, 1, 18, 0 } },
        { "UTC0", "month", { 2026, 12, 31, 23, 59 }, { 2026, 12, 1, 0, 0 },
          { 2027, 1, 1, 0, 0 } },
        { "UTC0", "month", { 2026, 1, 31, 12, 0 }, { 2026, 1, 1, 0, 0 },
          { 2026, 2, 1, 0, 0 } },

        /* a day of 23 hours, and one of 25 */

        { "CET-1CEST,M3.5.0,M10.5.0/3", "1d", { 2026, 3, 29, 12, 0 },
          { 2026, 3, 29, 0, 0 }, { 2026, 3, 30, 0, 0 } },
        { "CET-1CEST,M3.5.0,M10.5.0/3", "1d", { 2026, 10, 25, 23, 30 },
          { 2026, 10, 25, 0, 0 }, { 2026, 10, 26, 0, 0 } },
        { "CET-1CEST,M3.5.0,M10.5.0/3", "6h", { 2026, 3, 29, 23, 30 },
          { 2026, 3, 29, 19, 0 }, { 2026, 3, 30, 0, 0 } },
        { "CET-1CEST,M3.5.0,M10.5.0/3", "month", { 2026, 3, 31, 12, 0 },
          { 2026, 3, 1, 0, 0 }, { 2026, 4, 1, 0, 0 } }
    };

    (void) state;

#define WHEN(x)  at(x[0], x[1], x[2], x[3], x[4])

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        zone(t[i].zone);
        w = window(t[i].window, 1);

        mst_budget_span(&w, WHEN(t[i].now), &span);
        assert_int_equal(span.start, WHEN(t[i].start));
        assert_int_equal(span.end, WHEN(t[i].end));

        mst_budget_span(&w, span.start, &span);
        assert_int_equal(span.start, WHEN(t[i].start));

        mst_budget_span(&w, span.end - 1, &span);
        assert_int_equal(span.start, WHEN(t[i].start));

        mst_budget_span(&w, span.end, &span);
        assert_int_equal(span.start, WHEN(t[i].end));
    }

    assert_int_equal(at(2026, 3, 30, 0, 0) - at(2026, 3, 29, 0, 0), 23 * 3600);

    zone("UTC0");
    w = window("1h", 0);
    mst_budget_span(&w, 12345, &span);
    assert_int_equal(span.start, 12345);
    assert_int_equal(span.end, 12345 + 3600);
}


/* every second of two years is in one window, and in one only */

static void
test_no_gap(void **state)
{
    size_t        i;
    int64_t       now, until;
    mst_budget_span_t    span, next;
    mst_budget_window_t  w;

    static const char *const  windows[] = { "1h", "8h", "1d", "month" };

    (void) state;

    zone("CET-1CEST,M3.5.0,M10.5.0/3");
    until = at(2028, 1, 1, 0, 0);

    for (i = 0; i < 4; i++) {
        w = window(windows[i], 1);
        now = at(2026, 1, 1, 0, 0);
        mst_budget_span(&w, now, &span);
        assert_int_equal(span.start, now);

        while (span.end < until) {
            mst_budget_span(&w, span.end, &next);
            assert_int_equal(next.start, span.end);
            assert_true(next.end > next.start);

            mst_budget_span(&w, next.start + (next.end - next.start) / 2,
                            &span);
            assert_int_equal(span.start, next.start);
            assert_int_equal(span.end, next.end);
        }
    }

    zone("UTC0");
}


static void
test_take(void **state)
{
    mst_hold_t    a, b;
    mst_budget_span_t    first, second;
    mst_budget_t  budget;

    (void) state;

    first.start = 1000;
    first.end = 2000;
    second.start = 2000;
    second.end = 3000;

    mst_budget_init(&budget);
    mst_budget_roll(&budget, &first, 1000);

    assert_int_equal(mst_budget_take(&budget, 100, &a, 101), MST_DECLINED);
    assert_int_equal(mst_budget_take(&budget, 100, &a, 60), MST_OK);
    assert_int_equal(mst_budget_take(&budget, 100, &b, 41), MST_BUSY);
    assert_int_equal(mst_budget_take(&budget, 100, &b, 40), MST_OK);
    assert_int_equal(mst_budget_left(&budget, 100), 0);
    assert_int_equal(mst_budget_left(&budget, 150), 50);
    assert_int_equal(mst_budget_left(&budget, 50), 0);

    mst_budget_settle(&budget, &a, 10);
    assert_int_equal(mst_budget_left(&budget, 100), 50);
    assert_int_equal(mst_budget_more(&budget, 100, &b, 60, 0), 50);
    assert_int_equal(mst_budget_more(&budget, 100, &b, 10, 1), 10);
    assert_int_equal(b.tokens, 100);

    /* the border: what began before it counts before it */

    mst_budget_roll(&budget, &first, 1999);
    assert_int_equal(mst_budget_left(&budget, 100), 0);
    mst_budget_roll(&budget, &second, 2000);
    assert_int_equal(budget.span.start, 2000);
    assert_int_equal(mst_budget_left(&budget, 100), 100);

    assert_int_equal(mst_budget_take(&budget, 100, &a, 30), MST_OK);
    mst_budget_settle(&budget, &b, 20);
    assert_int_equal(mst_budget_left(&budget, 100), 70);
    mst_budget_settle(&budget, &a, 35);
    assert_int_equal(mst_budget_left(&budget, 100), 65);

    /* a debt without an end */

    assert_int_equal(mst_budget_take(&budget, 100, &a, 1), MST_OK);
    mst_budget_settle(&budget, &a, UINT64_MAX);
    assert_int_equal(mst_budget_take(&budget, 100, &a, 1), MST_BUSY);
    mst_budget_merge(&budget, &budget.span, UINT64_MAX);
    assert_int_equal(mst_budget_take(&budget, UINT64_MAX / 2, &a, 1), MST_OK);
}


static void
test_clock(void **state)
{
    mst_hold_t    a;
    mst_budget_span_t    day, before, year;
    mst_budget_t  budget;

    (void) state;

    day.start = 10 * DAY;
    day.end = 11 * DAY;
    before.start = 9 * DAY;
    before.end = 10 * DAY;
    year.start = 375 * DAY;
    year.end = 376 * DAY;

    mst_budget_init(&budget);
    mst_budget_roll(&budget, &day, 10 * DAY + 1);
    assert_int_equal(mst_budget_take(&budget, 100, &a, 70), MST_OK);

    /* back over the border: the same budget, when it comes again, too */

    mst_budget_roll(&budget, &before, 10 * DAY - 1);
    assert_int_equal(mst_budget_left(&budget, 100), 30);
    assert_int_equal(budget.span.start, 10 * DAY);
    mst_budget_roll(&budget, &day, 10 * DAY);
    assert_int_equal(mst_budget_left(&budget, 100), 30);

    /* a year too far and back: used is used, and the window is today's */

    mst_budget_roll(&budget, &year, 375 * DAY);
    mst_budget_settle(&budget, &a, 70);
    assert_int_equal(mst_budget_take(&budget, 100, &a, 55), MST_OK);
    mst_budget_roll(&budget, &day, 10 * DAY + 2);
    assert_int_equal(budget.span.end, 11 * DAY);
    assert_int_equal(mst_budget_left(&budget, 100), 45);

    mst_budget_settle(&budget, &a, 5);
    assert_int_equal(mst_budget_left(&budget, 100), 95);
    mst_budget_roll(&budget, &day, 11 * DAY);
    assert_int_equal(mst_budget_left(&budget, 100), 100);
}


/* two nginx, one file */

static void
test_merge(void **state)
{
    mst_hold_t    h;
    mst_budget_span_t    first, second;
    mst_budget_t  a, b;

    (void) state;

    first.start = 1000;
    first.end = 2000;
    second.start = 2000;
    second.end = 3000;

    mst_budget_init(&a);
    mst_budget_merge(&a, &first, 10);
    assert_int_equal(a.span.end, 2000);
    assert_int_equal(a.used, 10);

    assert_int_equal(mst_budget_take(&a, 100, &h, 5), MST_OK);
    mst_budget_settle(&a, &h, 5);
    assert_int_equal(a.used, 15);

    mst_budget_init(&b);
    mst_budget_merge(&b, &first, 10);
    assert_int_equal(mst_budget_take(&b, 100, &h, 3), MST_OK);
    mst_budget_settle(&b, &h, 3);

    /* a saves, b finds it */

    a.saved = a.used;
    mst_budget_merge(&b, &first, 15);
    assert_int_equal(b.used, 18);
    b.saved = b.used;
    mst_budget_merge(&a, &first, 18);
    assert_int_equal(a.used, 18);

    /* nothing new, an operator's edit, another window */

    mst_budget_merge(&a, &first, 18);
    assert_int_equal(a.used, 18);
    mst_budget_merge(&a, &first, 4);
    assert_int_equal(a.used, 4);
    mst_budget_merge(&a, &first, 0);
    assert_int_equal(a.used, 0);
    mst_budget_merge(&a, &second, 7);
    assert_int_equal(a.span.start, 2000);
    assert_int_equal(a.used, 7);
    mst_budget_merge(&a, &first, 50);
    assert_int_equal(a.used, 7);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_calendar),
        cmocka_unit_test(test_no_gap),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_merge)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Quotas: each node of a zone is a budget in a window of wall-clock time
 * (base/mst_budget.h).  Under the zone's lock.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include <time.h>

#include "base/mst_time.h"


static void ngx_http_mistral_quota_node(ngx_http_mistral_limit_node_t *node);
static void ngx_http_mistral_quota_roll(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node, const mst_rate_t *rate);
static int ngx_http_mistral_quota_take(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d, mst_hold_t *hold, uint64_t tokens);
static uint64_t ngx_http_mistral_quota_more(
    ngx_http_mistral_limit_node_t *node, ngx_http_mistral_debit_t *d,
    mst_hold_t *hold, uint64_t tokens, int debt);
static void ngx_http_mistral_quota_settle(ngx_http_mistral_limit_node_t *node,
    const mst_rate_t *rate, mst_hold_t *hold, uint64_t tokens);
static void ngx_http_mistral_quota_look(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d);
static mst_list_t *ngx_http_mistral_quota_holds(
    ngx_http_mistral_limit_node_t *node);
static ngx_uint_t ngx_http_mistral_quota_idle(
    const ngx_http_mistral_limit_node_t *node);


const ngx_http_mistral_limit_kind_t  ngx_http_mistral_limit_quota = {
    "mistral_quota_zone",
    "mistral_quota",
    ngx_http_mistral_quota_node,
    ngx_http_mistral_quota_roll,
    ngx_http_mistral_quota_take,
    ngx_http_mistral_quota_more,
    ngx_http_mistral_quota_settle,
    ngx_http_mistral_quota_look,
    ngx_http_mistral_quota_holds,
    ngx_http_mistral_quota_idle
};


static void
ngx_http_mistral_quota_node(ngx_http_mistral_limit_node_t *node)
{
    mst_budget_init(&node->u.budget);
}


static void
ngx_http_mistral_quota_roll(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node, const mst_rate_t *rate)
{
    int64_t          now;
    struct timespec  ts;

    (void) clock_gettime(CLOCK_REALTIME, &ts);

    now = ts.tv_sec;
    node->now = (uint64_t) now * MST_S + (uint64_t) ts.tv_nsec;

    /* the calendar's window is everybody's, and takes its time to find */

    if (!zone->window.calendar || now < zone->span.start
        || now >= zone->span.end)
    {
        mst_budget_span(&zone->window, now, &zone->span);
    }

    mst_budget_roll(&node->u.budget, &zone->span, now);
}


static int
ngx_http_mistral_quota_take(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d, mst_hold_t *hold, uint64_t tokens)
{
    uint64_t  end;

    end = (uint64_t) node->u.budget.span.end * MST_S;
    d->wait_ns = end > node->now ? end - node->now : 0;

    return mst_budget_take(&node->u.budget, d->rate.burst, hold, tokens);
}


static uint64_t
ngx_http_mistral_quota_more(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d, mst_hold_t *hold, uint64_t tokens, int debt)
{
    return mst_budget_more(&node->u.budget, d->rate.burst, hold, tokens, debt);
}


static void
ngx_http_mistral_quota_settle(ngx_http_mistral_limit_node_t *node,
    const mst_rate_t *rate, mst_hold_t *hold, uint64_t tokens)
{
    mst_budget_settle(&node->u.budget, hold, tokens);
}


static void
ngx_http_mistral_quota_look(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d)
{
    uint64_t  end;

    end = (uint64_t) node->u.budget.span.end * MST_S;

    d->left = mst_budget_left(&node->u.budget, d->rate.burst);
    d->debt = 0;
    d->reset_ns = end > node->now ? end - node->now : 0;
}


static mst_list_t *
ngx_http_mistral_quota_holds(ngx_http_mistral_limit_node_t *node)
{
    return &node->u.budget.holds;
}


static ngx_uint_t
ngx_http_mistral_quota_idle(const ngx_http_mistral_limit_node_t *node)
{
    return node->u.budget.used == 0;
}

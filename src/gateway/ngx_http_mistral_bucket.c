
/*
 * Limits: each node of a zone is a bucket of tokens (base/mst_bucket.h) by
 * the monotonic clock.  Under the zone's lock.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include "base/mst_time.h"


static void ngx_http_mistral_bucket_init(ngx_http_mistral_limit_node_t *node);
static void ngx_http_mistral_bucket_roll(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node, const mst_rate_t *rate);
static int ngx_http_mistral_bucket_take(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d, mst_hold_t *hold, uint64_t tokens);
static uint64_t ngx_http_mistral_bucket_more(
    ngx_http_mistral_limit_node_t *node, ngx_http_mistral_debit_t *d,
    mst_hold_t *hold, uint64_t tokens, int debt);
static void ngx_http_mistral_bucket_settle(
    ngx_http_mistral_limit_node_t *node, const mst_rate_t *rate,
    mst_hold_t *hold, uint64_t tokens);
static void ngx_http_mistral_bucket_look(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d);
static mst_list_t *ngx_http_mistral_bucket_holds(
    ngx_http_mistral_limit_node_t *node);
static ngx_uint_t ngx_http_mistral_bucket_idle(
    const ngx_http_mistral_limit_node_t *node);


const ngx_http_mistral_limit_kind_t  ngx_http_mistral_limit_bucket = {
    "mistral_limit_zone",
    "mistral_limit",
    ngx_http_mistral_bucket_init,
    ngx_http_mistral_bucket_roll,
    ngx_http_mistral_bucket_take,
    ngx_http_mistral_bucket_more,
    ngx_http_mistral_bucket_settle,
    ngx_http_mistral_bucket_look,
    ngx_http_mistral_bucket_holds,
    ngx_http_mistral_bucket_idle
};


static void
ngx_http_mistral_bucket_init(ngx_http_mistral_limit_node_t *node)
{
    mst_bucket_init(&node->u.bucket, mst_time_ns());
}


/* the clock is read under the lock: it never goes back between two users */

static void
ngx_http_mistral_bucket_roll(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node, const mst_rate_t *rate)
{
    node->now = mst_time_ns();
    mst_bucket_refill(&node->u.bucket, rate, node->now);
}


static int
ngx_http_mistral_bucket_take(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d, mst_hold_t *hold, uint64_t tokens)
{
    return mst_bucket_take(&node->u.bucket, &d->rate, hold, tokens, node->now,
                           &d->wait_ns);
}


static uint64_t
ngx_http_mistral_bucket_more(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d, mst_hold_t *hold, uint64_t tokens, int debt)
{
    return mst_bucket_more(&node->u.bucket, &d->rate, hold, tokens, debt,
                           node->now);
}


static void
ngx_http_mistral_bucket_settle(ngx_http_mistral_limit_node_t *node,
    const mst_rate_t *rate, mst_hold_t *hold, uint64_t tokens)
{
    mst_bucket_settle(&node->u.bucket, rate, hold, tokens, node->now);
}


static void
ngx_http_mistral_bucket_look(ngx_http_mistral_limit_node_t *node,
    ngx_http_mistral_debit_t *d)
{
    d->left = mst_bucket_left(&node->u.bucket, &d->rate);
    d->debt = mst_bucket_debt(&node->u.bucket, &d->rate);
    d->reset_ns = mst_bucket_reset_ns(&node->u.bucket, &d->rate);
}


static mst_list_t *
ngx_http_mistral_bucket_holds(ngx_http_mistral_limit_node_t *node)
{
    return &node->u.bucket.holds;
}


static ngx_uint_t
ngx_http_mistral_bucket_idle(const ngx_http_mistral_limit_node_t *node)
{
    return node->u.bucket.lacks == 0;
}

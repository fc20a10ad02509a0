
/*
 * Shares: see mst_fair.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_fair.h"


#define MST_FAIR_BUCKETS  64       /* at first */


static mst_flow_t *mst_fair_create(mst_fair_t *f, uint32_t rank,
    uint64_t key);
static void mst_fair_grow(mst_fair_t *f);
static void mst_fair_forget(mst_fair_t *f);
static int mst_fair_reserve(mst_fair_t *f, mst_flow_t *flow);
static void mst_fair_advance(mst_fair_class_t *c);
static void mst_fair_pay(mst_fair_t *f, mst_flow_t *flow);


int
mst_fair_init(mst_fair_t *f)
{
    uint32_t  i;

    memset(f, 0, sizeof(mst_fair_t));

    mst_list_init(&f->idle);
    mst_list_init(&f->owing);

    for (i = 0; i < MST_CLASSES; i++) {
        mst_list_init(&f->classes[i].flows);
    }

    f->table = mst_calloc(MST_FAIR_BUCKETS, sizeof(mst_flow_t *));
    if (f->table == NULL) {
        return MST_ERROR;
    }

    f->mask = MST_FAIR_BUCKETS - 1;

    return MST_OK;
}


static void
mst_fair_destroy(mst_flow_t *flow)
{
    mst_heap_fini(&flow->waiting);
    mst_heap_fini(&flow->running);
    mst_free(flow);
}


void
mst_fair_fini(mst_fair_t *f)
{
    uint32_t     i;
    mst_flow_t  *flow;

    for (i = 0; f->table != NULL && i <= f->mask; i++) {
        while (f->table[i] != NULL) {
            flow = f->table[i];
            f->table[i] = flow->next;
            mst_fair_destroy(flow);
        }
    }

    for (i = 0; i < MST_CLASSES; i++) {
        mst_heap_fini(&f->classes[i].wanting);
        mst_heap_fini(&f->classes[i].lined);
    }

    mst_free(f->table);
    memset(f, 0, sizeof(mst_fair_t));
}


/* where a flow stands, or the end of its chain */

static mst_flow_t **
mst_fair_find(const mst_fair_t *f, uint32_t rank, uint64_t key)
{
    mst_flow_t  **p;

    p = &f->table[mst_hash_mix(key + rank) & f->mask];

    while (*p != NULL && ((*p)->key != key || (*p)->rank != rank)) {
        p = &(*p)->next;
    }

    return p;
}


mst_flow_t *
mst_fair_enter(mst_fair_t *f, const mst_claim_t *claim)
{
    uint32_t     rank;
    mst_flow_t  *flow;

    rank = mst_claim_rank(claim->priority);
    flow = *mst_fair_find(f, rank, claim->fair_key);

    if (flow == NULL) {
        flow = mst_fair_create(f, rank, claim->fair_key);
        if (flow == NULL) {
            return NULL;
        }
    }

    if (mst_fair_reserve(f, flow) != MST_OK) {
        return NULL;
    }

    flow->weight = claim->fair_weight ? claim->fair_weight : 1;

    if (flow->n++ == 0) {
        mst_list_remove(&flow->list);
        mst_list_insert_tail(&f->classes[rank].flows, &flow->list);

        f->n_idle--;
        f->classes[rank].n++;
    }

    return flow;
}


/* a new flow is an idle one */

static mst_flow_t *
mst_fair_create(mst_fair_t *f, uint32_t rank, uint64_t key)
{
    mst_flow_t  *flow;

    flow = mst_calloc(1, sizeof(mst_flow_t));
    if (flow == NULL) {
        return NULL;
    }

    mst_fair_grow(f);

    flow->key = key;
    flow->rank = rank;
    flow->weight = 1;

    mst_list_init(&flow->owing);
    mst_list_insert_tail(&f->idle, &flow->list);

    *mst_fair_find(f, rank, key) = flow;

    f->n_flows++;
    f->n_idle++;

    mst_fair_forget(f);

    return flow;
}


/* longer chains are all that happens without memory */

static void
mst_fair_grow(mst_fair_t *f)
{
    uint32_t      i, n;
    mst_flow_t   *flow, **old, **table;

    n = f->mask + 1;

    if (f->n_flows < n || n > UINT32_MAX / 2) {
        return;
    }

    table = mst_calloc(n * 2, sizeof(mst_flow_t *));
    if (table == NULL) {
        return;
    }

    old = f->table;
    f->table = table;
    f->mask = n * 2 - 1;

    for (i = 0; i < n; i++) {
        while (old[i] != NULL) {
            flow = old[i];
            old[i] = flow->next;
            flow->next = NULL;
            *mst_fair_find(f, flow->rank, flow->key) = flow;
        }
    }

    mst_free(old);
}


static void
mst_fair_forget(mst_fair_t *f)
{
    mst_flow_t  *flow, **p;

    while (f->n_idle > MST_FAIR_IDLE) {
        flow = mst_list_data(f->idle.next, mst_flow_t, list);
        p = mst_fair_find(f, flow->rank, flow->key);

        *p = flow->next;
        mst_list_remove(&flow->list);
        mst_fair_destroy(flow);

        f->n_flows--;
        f->n_idle--;
    }
}


/* so that no move of a sequence that is there can fail */

static int
mst_fair_reserve(mst_fair_t *f, mst_flow_t *flow)
{
    mst_fair_class_t  *c;

    c = &f->classes[flow->rank];

    if (mst_heap_reserve(&flow->waiting, flow->n + 1) != MST_OK
        || mst_heap_reserve(&flow->running, flow->n + 1) != MST_OK
        || mst_heap_reserve(&c->wanting, c->n + 1) != MST_OK
        || mst_heap_reserve(&c->lined, c->n + 1) != MST_OK)
    {
        return MST_ERROR;
    }

    return MST_OK;
}


void
mst_fair_leave(mst_fair_t *f, mst_flow_t *flow)
{
    if (--flow->n) {
        return;
    }

    mst_fair_pay(f, flow);

    mst_heap_fini(&flow->waiting);
    mst_heap_fini(&flow->running);

    f->classes[flow->rank].n--;
    f->n_idle++;

    mst_list_remove(&flow->list);
    mst_list_insert_tail(&f->idle, &flow->list);

    mst_fair_forget(f);
}


/* the class's time follows the one that was served least */

static void
mst_fair_advance(mst_fair_class_t *c)
{
    if (c->wanting.n && c->wanting.entries[0].major > c->vtime) {
        c->vtime = c->wanting.entries[0].major;
    }
}


void
mst_fair_want(mst_fair_t *f, mst_flow_t *flow)
{
    mst_fair_class_t  *c;

    if (flow->n_wants++) {
        return;
    }

    c = &f->classes[flow->rank];

    mst_fair_pay(f, flow);
    mst_fair_advance(c);

    if (flow->vtime < c->vtime) {
        flow->vtime = c->vtime;
    }

    flow->serial = ++f->serials;

    mst_heap_push(&c->wanting, &flow->wanting, flow->vtime, flow->serial);
}


void
mst_fair_rest(mst_fair_t *f, mst_flow_t *flow)
{
    mst_fair_class_t  *c;

    if (--flow->n_wants) {
        return;
    }

    c = &f->classes[flow->rank];

    mst_fair_pay(f, flow);
    mst_fair_advance(c);
    mst_heap_remove(&c->wanting, &flow->wanting);
}


void
mst_fair_line(mst_fair_t *f, mst_flow_t *flow, int lined)
{
    mst_fair_class_t  *c;

    c = &f->classes[flow->rank];

    mst_heap_remove(&c->lined, &flow->lined);

    if (lined) {
        mst_heap_push(&c->lined, &flow->lined, flow->vtime, flow->serial);
    }
}


mst_flow_t *
mst_fair_first(const mst_fair_t *f, uint32_t rank)
{
    mst_heap_node_t  *node;

    node = mst_heap_top(&f->classes[rank].lined);

    return node ? mst_list_data(node, mst_flow_t, lined) : NULL;
}


void
mst_fair_charge(mst_fair_t *f, mst_flow_t *flow, uint32_t tokens)
{
    flow->owed += tokens;

    if (mst_list_empty(&flow->owing)) {
        mst_list_insert_tail(&f->owing, &flow->owing);
    }
}


void
mst_fair_settle(mst_fair_t *f)
{
    while (!mst_list_empty(&f->owing)) {
        mst_fair_pay(f, mst_list_data(f->owing.next, mst_flow_t, owing));
    }
}


static void
mst_fair_pay(mst_fair_t *f, mst_flow_t *flow)
{
    mst_fair_class_t  *c;

    mst_list_remove(&flow->owing);

    if (flow->owed == 0) {
        return;
    }

    c = &f->classes[flow->rank];

    flow->vtime += (flow->owed << MST_FAIR_SHIFT) / flow->weight;
    flow->owed = 0;

    if (flow->wanting.pos) {
        mst_heap_remove(&c->wanting, &flow->wanting);
        mst_heap_push(&c->wanting, &flow->wanting, flow->vtime,
                      flow->serial);
    }

    if (flow->lined.pos) {
        mst_fair_line(f, flow, 1);
    }
}

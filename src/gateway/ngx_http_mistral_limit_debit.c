
/*
 * Debits, and who holds them.
 *
 * A worker that dies leaves its holds.  Each worker has a lock of the kernel
 * on the byte of an unnamed file that is its pid; the kernel gives it back
 * whatever happens, and a pid that is used again has none.  Who finds an
 * owner without its lock settles its holds for what it had noted: the next
 * worker when it starts, and anybody before a request is refused.
 *
 * Workers only.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include <fcntl.h>

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_LIMIT_SWEEP  MST_S    /* between looks at owners */


struct ngx_http_mistral_limit_owner_s {
    ngx_queue_t                      queue;
    ngx_queue_t                      holds;
    ngx_pid_t                        pid;
};


static ngx_int_t ngx_http_mistral_debit_try(ngx_http_mistral_debit_t *d,
    ngx_str_t *key, uint64_t tokens);
static ngx_http_mistral_limit_hold_t *ngx_http_mistral_debit_create(
    ngx_http_mistral_limit_zone_t *zone, ngx_http_mistral_limit_node_t *keep);
static ngx_http_mistral_limit_owner_t *ngx_http_mistral_debit_owner(
    ngx_http_mistral_limit_zone_t *zone, ngx_http_mistral_limit_node_t *keep);
static ngx_http_mistral_limit_hold_t *ngx_http_mistral_debit_held(
    ngx_http_mistral_debit_t *d);
static ngx_uint_t ngx_http_mistral_debit_sweep(
    ngx_http_mistral_limit_zone_t *zone, ngx_uint_t start);
static ngx_uint_t ngx_http_mistral_debit_dead(
    ngx_http_mistral_limit_zone_t *zone, ngx_pid_t pid);
static void ngx_http_mistral_debit_disown(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_owner_t *owner);
static void ngx_http_mistral_debit_end(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_hold_t *hold, uint64_t tokens);


/* a worker's start: nobody with our pid but us holds anything */

ngx_int_t
ngx_http_mistral_limit_enter(ngx_http_mistral_limit_zone_t *zone)
{
    struct flock  lock;

    ngx_memzero(&lock, sizeof(struct flock));

    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = ngx_pid;
    lock.l_len = 1;

    if (fcntl(zone->fd, F_SETLK, &lock) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "%s \"%V\": fcntl(F_SETLK) failed", zone->kind->zone,
                      &zone->name);
        return NGX_ERROR;
    }

    ngx_http_mistral_limit_lock(zone);
    (void) ngx_http_mistral_debit_sweep(zone, 1);
    ngx_http_mistral_limit_unlock(zone);

    return NGX_OK;
}


/* its end: what it holds is settled for what is known */

void
ngx_http_mistral_limit_leave(ngx_http_mistral_limit_zone_t *zone)
{
    ngx_http_mistral_limit_lock(zone);

    if (zone->owner && zone->generation == zone->table->generation) {
        ngx_http_mistral_debit_disown(zone, zone->owner);
    }

    zone->owner = NULL;

    ngx_http_mistral_limit_unlock(zone);
}


static ngx_http_mistral_limit_hold_t *
ngx_http_mistral_debit_create(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *keep)
{
    ngx_http_mistral_limit_hold_t   *hold;
    ngx_http_mistral_limit_owner_t  *owner;

    owner = ngx_http_mistral_debit_owner(zone, keep);
    if (owner == NULL) {
        return NULL;
    }

    hold = ngx_http_mistral_limit_alloc(zone,
                                        sizeof(ngx_http_mistral_limit_hold_t),
                                        keep);
    if (hold) {
        ngx_queue_insert_tail(&owner->holds, &hold->queue);
    }

    return hold;
}


static ngx_http_mistral_limit_owner_t *
ngx_http_mistral_debit_owner(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *keep)
{
    ngx_queue_t                     *q;
    ngx_http_mistral_limit_owner_t  *owner;
    ngx_http_mistral_limit_table_t  *table;

    table = zone->table;

    if (zone->owner && zone->generation == table->generation) {
        return zone->owner;
    }

    /* without a master a reload is a new zone of the same process */

    for (q = ngx_queue_head(&table->owners);
         q != ngx_queue_sentinel(&table->owners);
         q = ngx_queue_next(q))
    {
        owner = ngx_queue_data(q, ngx_http_mistral_limit_owner_t, queue);

        if (owner->pid == ngx_pid) {
            goto found;
        }
    }

    owner = ngx_http_mistral_limit_alloc(zone,
                                       sizeof(ngx_http_mistral_limit_owner_t),
                                       keep);
    if (owner == NULL) {
        return NULL;
    }

    owner->pid = ngx_pid;
    ngx_queue_init(&owner->holds);
    ngx_queue_insert_tail(&table->owners, &owner->queue);

found:

    zone->owner = owner;
    zone->generation = table->generation;

    return owner;
}


/* start: our own pid is a dead one's, too; 1: somebody's holds were settled */

static ngx_uint_t
ngx_http_mistral_debit_sweep(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t start)
{
    uint64_t                         now;
    ngx_uint_t                       swept;
    ngx_queue_t                     *q, *next;
    ngx_http_mistral_limit_owner_t  *owner;
    ngx_http_mistral_limit_table_t  *table;

    table = zone->table;
    now = mst_time_ns();

    if (!start && now - table->swept_ns < NGX_HTTP_MISTRAL_LIMIT_SWEEP) {
        return 0;
    }

    table->swept_ns = now;
    swept = 0;

    for (q = ngx_queue_head(&table->owners);
         q != ngx_queue_sentinel(&table->owners);
         q = next)
    {
        next = ngx_queue_next(q);
        owner = ngx_queue_data(q, ngx_http_mistral_limit_owner_t, queue);

        if (owner->pid == ngx_pid
            ? start : ngx_http_mistral_debit_dead(zone, owner->pid))
        {
            ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                          "%s \"%V\": debits of process %P, which is gone, "
                          "are settled", zone->kind->zone, &zone->name,
                          owner->pid);

            ngx_http_mistral_debit_disown(zone, owner);
            swept = 1;
        }
    }

    return swept;
}


static ngx_uint_t
ngx_http_mistral_debit_dead(ngx_http_mistral_limit_zone_t *zone, ngx_pid_t pid)
{
    struct flock  lock;

    ngx_memzero(&lock, sizeof(struct flock));

    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = pid;
    lock.l_len = 1;

    return fcntl(zone->fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}


static void
ngx_http_mistral_debit_disown(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_owner_t *owner)
{
    ngx_queue_t                    *q;
    ngx_http_mistral_limit_hold_t  *hold;

    while (!ngx_queue_empty(&owner->holds)) {

        q = ngx_queue_head(&owner->holds);
        hold = ngx_queue_data(q, ngx_http_mistral_limit_hold_t, queue);

        ngx_http_mistral_debit_end(zone, hold, atomic_load(&hold->used));
    }

    ngx_queue_remove(&owner->queue);
    ngx_slab_free_locked(zone->pool, owner);
}


static void
ngx_http_mistral_debit_end(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_hold_t *hold, uint64_t tokens)
{
    ngx_http_mistral_limit_node_t  *node;

    node = hold->node;

    if (node) {
        zone->kind->roll(zone, node, &hold->rate);
        zone->kind->settle(node, &hold->rate, &hold->hold, tokens);
        node->paced -= hold->paced;
    }

    ngx_queue_remove(&hold->queue);
    ngx_slab_free_locked(zone->pool, hold);

    zone->table->dirty = 1;
}


ngx_int_t
ngx_http_mistral_debit_take(ngx_http_mistral_debit_t *d, ngx_str_t *key,
    uint64_t tokens)
{
    ngx_int_t                       rc;
    ngx_http_mistral_limit_zone_t  *zone;

    zone = d->limit->zone;

    ngx_http_mistral_limit_lock(zone);

    rc = ngx_http_mistral_debit_try(d, key, tokens);

    if ((rc == NGX_BUSY || rc == NGX_ERROR)
        && ngx_http_mistral_debit_sweep(zone, 0)) {
        rc = ngx_http_mistral_debit_try(d, key, tokens);
    }

    ngx_http_mistral_limit_unlock(zone);

    return rc;
}


static ngx_int_t
ngx_http_mistral_debit_try(ngx_http_mistral_debit_t *d, ngx_str_t *key,
    uint64_t tokens)
{
    int                             rc;
    ngx_http_mistral_limit_zone_t  *zone;
    ngx_http_mistral_limit_node_t  *node;
    ngx_http_mistral_limit_hold_t  *hold;

    zone = d->limit->zone;

    node = ngx_http_mistral_limit_node(zone, key);
    if (node == NULL) {
        return NGX_ERROR;
    }

    hold = ngx_http_mistral_debit_create(zone, node);
    if (hold == NULL) {
        return NGX_ERROR;
    }

    node->rate = d->rate;
    zone->kind->roll(zone, node, &d->rate);
    rc = zone->kind->take(node, d, &hold->hold, tokens);
    zone->kind->look(node, d);
    d->paced = node->paced;

    if (rc != MST_OK) {
        ngx_queue_remove(&hold->queue);
        ngx_slab_free_locked(zone->pool, hold);
        return rc;
    }

    hold->node = node;
    hold->rate = d->rate;

    d->hold = hold;
    d->generation = zone->table->generation;
    d->tokens = tokens;

    zone->table->dirty = 1;

    return NGX_OK;
}


/* under the lock: NULL if it went with its zone or its key */

static ngx_http_mistral_limit_hold_t *
ngx_http_mistral_debit_held(ngx_http_mistral_debit_t *d)
{
    if (d->hold == NULL
        || d->generation != d->limit->zone->table->generation)
    {
        return NULL;
    }

    return d->hold;
}


uint64_t
ngx_http_mistral_debit_more(ngx_http_mistral_debit_t *d, uint64_t tokens,
    ngx_uint_t debt, uint32_t paced)
{
    uint64_t                        n;
    ngx_http_mistral_limit_zone_t  *zone;
    ngx_http_mistral_limit_hold_t  *hold;
    ngx_http_mistral_limit_node_t  *node;

    zone = d->limit->zone;
    n = tokens;

    ngx_http_mistral_limit_lock(zone);

    hold = ngx_http_mistral_debit_held(d);

    if (hold && hold->node) {
        node = hold->node;

        ngx_queue_remove(&node->lru);
        ngx_queue_insert_head(&zone->table->lru, &node->lru);

        zone->kind->roll(zone, node, &d->rate);
        n = zone->kind->more(node, d, &hold->hold, tokens, (int) debt);
        zone->kind->look(node, d);

        node->paced += paced - hold->paced;
        hold->paced = paced;
        d->paced = node->paced;

        zone->table->dirty = 1;
    }

    ngx_http_mistral_limit_unlock(zone);

    d->tokens += n;

    return n;
}


void
ngx_http_mistral_debit_note(ngx_http_mistral_debit_t *d, uint64_t tokens)
{
    /* a void one's memory may be somebody else's */

    if (d->hold && d->generation == d->limit->zone->table->generation) {
        atomic_store(&d->hold->used, tokens);
    }
}


void
ngx_http_mistral_debit_settle(ngx_http_mistral_debit_t *d, uint64_t tokens)
{
    ngx_http_mistral_limit_zone_t  *zone;
    ngx_http_mistral_limit_hold_t  *hold;
    ngx_http_mistral_limit_node_t  *node;

    if (d->hold == NULL) {
        return;
    }

    zone = d->limit->zone;

    ngx_http_mistral_limit_lock(zone);

    hold = ngx_http_mistral_debit_held(d);

    if (hold) {
        node = hold->node;

        ngx_http_mistral_debit_end(zone, hold, tokens);

        if (node) {
            zone->kind->look(node, d);
        }
    }

    ngx_http_mistral_limit_unlock(zone);

    d->hold = NULL;
}

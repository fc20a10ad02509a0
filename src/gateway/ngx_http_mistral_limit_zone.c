
/*
 * The shared memory of limits and quotas: a node for each key, in a tree and
 * in the order of use.
 *
 * One lock: the slab pool's, since the master frees only that one when a
 * worker was killed with it.  What such a worker left half done is not looked
 * at: "inside" says that somebody did not come out, and the zone is made
 * anew.  Holds of the generation before are void then.
 *
 * When memory is short the keys that were not used for the longest go, those
 * without holds first.  A hold whose key went is void, too.
 *
 * Master: init; workers: all else.
 */

#include "gateway/ngx_http_mistral_limit.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_LIMIT_LOOK  64        /* nodes, for one without a
                                                  hold */
#define NGX_HTTP_MISTRAL_LIMIT_WARN  (60 * MST_S)


static void ngx_http_mistral_limit_resized(ngx_http_mistral_limit_zone_t *zone,
    ngx_shm_zone_t *shm_zone);
static ngx_int_t ngx_http_mistral_limit_open(
    ngx_http_mistral_limit_zone_t *zone);
static ngx_int_t ngx_http_mistral_limit_create(
    ngx_http_mistral_limit_zone_t *zone);
static void ngx_http_mistral_limit_again(ngx_http_mistral_limit_zone_t *zone);
static ngx_int_t ngx_http_mistral_limit_compare(ngx_str_t *key,
    ngx_http_mistral_limit_node_t *node);
static void ngx_http_mistral_limit_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_http_mistral_limit_expire(ngx_http_mistral_limit_zone_t *zone);
static ngx_int_t ngx_http_mistral_limit_evict(
    ngx_http_mistral_limit_zone_t *zone, ngx_http_mistral_limit_node_t *keep);
static void ngx_http_mistral_limit_missed(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node);
static void ngx_http_mistral_limit_delete(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node);


ngx_int_t
ngx_http_mistral_limit_init_zone(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_mistral_limit_zone_t *old = data;

    ngx_str_t                      *was, *is;
    ngx_http_mistral_limit_zone_t  *zone;

    zone = shm_zone->data;
    zone->pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (old == NULL) {
        ngx_http_mistral_limit_resized(zone, shm_zone);

        if (ngx_http_mistral_limit_open(zone) != NGX_OK
            || ngx_http_mistral_limit_create(zone) != NGX_OK)
        {
            return NGX_ERROR;
        }

        return ngx_http_mistral_quota_init(zone, 1);
    }

    if (zone->kind != old->kind) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "%s \"%V\" was a %s previously", zone->kind->zone,
                      &shm_zone->shm.name, old->kind->zone);
        return NGX_ERROR;
    }

    was = &old->key.value;
    is = &zone->key.value;

    if (is->len != was->len || ngx_memcmp(is->data, was->data, is->len) != 0) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "%s \"%V\" uses the \"%V\" key while previously it used "
                      "the \"%V\" key", zone->kind->zone,
                      &shm_zone->shm.name, is, was);
        return NGX_ERROR;
    }

    if (zone->window.seconds != old->window.seconds
        || zone->window.calendar != old->window.calendar)
    {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "%s \"%V\" uses the window \"%V\" while previously it "
                      "used the window \"%V\"", zone->kind->zone,
                      &shm_zone->shm.name, &zone->window_text,
                      &old->window_text);
        return NGX_ERROR;
    }

    /* each cycle closes its own */

    zone->fd = fcntl(old->fd, F_DUPFD_CLOEXEC, 3);

    if (zone->fd == -1) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, ngx_errno,
                      "fcntl(F_DUPFD_CLOEXEC) failed");
        return NGX_ERROR;
    }

    zone->table = old->table;

    /* the state may be another file now; if it cannot be written, either, that
       is said again */

    atomic_store(&zone->table->unwritten, 0);

    return ngx_http_mistral_quota_init(zone, 0);
}


/* nginx gives a zone of another size new memory without a word */

static void
ngx_http_mistral_limit_resized(ngx_http_mistral_limit_zone_t *zone,
    ngx_shm_zone_t *shm_zone)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_shm_zone_t   *other;

    for (part = (ngx_list_part_t *) &ngx_cycle->shared_memory.part;
         part;
         part = part->next)
    {
        other = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (other[i].tag == shm_zone->tag
                && other[i].shm.name.len == shm_zone->shm.name.len
                && ngx_memcmp(other[i].shm.name.data, shm_zone->shm.name.data,
                              shm_zone->shm.name.len)
                   == 0
                && other[i].shm.size != shm_zone->shm.size)
            {
                ngx_log_error(NGX_LOG_WARN, shm_zone->shm.log, 0,
                              "%s \"%V\" had %uz bytes and has %uz now: %s",
                              zone->kind->zone, &shm_zone->shm.name,
                              other[i].shm.size, shm_zone->shm.size,
                              zone->state.len
                              ? "what its state file does not have is lost"
                              : "it begins anew");
            }
        }
    }
}


static ngx_int_t
ngx_http_mistral_limit_open(ngx_http_mistral_limit_zone_t *zone)
{
    zone->fd = memfd_create("mistral_limit", MFD_CLOEXEC);

    if (zone->fd == -1) {
        ngx_log_error(NGX_LOG_EMERG, zone->cycle->log, ngx_errno,
                      "memfd_create() failed");
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* the first that is allocated in the pool: its address is always the same */

static ngx_int_t
ngx_http_mistral_limit_create(ngx_http_mistral_limit_zone_t *zone)
{
    ngx_http_mistral_limit_table_t  *table;

    table = ngx_slab_calloc_locked(zone->pool,
                                   sizeof(ngx_http_mistral_limit_table_t));
    if (table == NULL) {
        return NGX_ERROR;
    }

    ngx_rbtree_init(&table->rbtree, &table->sentinel,
                    ngx_http_mistral_limit_insert);
    ngx_queue_init(&table->lru);
    ngx_queue_init(&table->owners);

    zone->pool->log_nomem = 0;
    zone->pool->data = table;
    zone->table = table;

    return NGX_OK;
}


void
ngx_http_mistral_limit_lock(ngx_http_mistral_limit_zone_t *zone)
{
    ngx_shmtx_lock(&zone->pool->mutex);

    if (atomic_load(&zone->table->inside)) {
        ngx_http_mistral_limit_again(zone);
    }

    atomic_store(&zone->table->inside, 1);
}


void
ngx_http_mistral_limit_unlock(ngx_http_mistral_limit_zone_t *zone)
{
    atomic_store(&zone->table->inside, 0);
    ngx_shmtx_unlock(&zone->pool->mutex);
}


/* tree, lists and the pool itself may be broken: nothing of them is used */

static void
ngx_http_mistral_limit_again(ngx_http_mistral_limit_zone_t *zone)
{
    ngx_uint_t                      i;
    ngx_http_mistral_limit_table_t  *table, old;

    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "a process died while it changed %s \"%V\": the zone "
                  "begins anew", zone->kind->zone, &zone->name);

    table = zone->table;
    old = *table;

    ngx_slab_init(zone->pool);

    if (ngx_http_mistral_limit_create(zone) != NGX_OK
        || zone->table != table)
    {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "%s \"%V\" cannot be made anew", zone->kind->zone,
                      &zone->name);
        ngx_abort();
    }

    table->generation = old.generation + 1;
    table->dirty = 1;

    for (i = 0; i < NGX_HTTP_MISTRAL_LIMIT_STATUSES; i++) {
        atomic_store(&table->counts[i], atomic_load(&old.counts[i]));
    }
}


ngx_http_mistral_limit_node_t *
ngx_http_mistral_limit_node(ngx_http_mistral_limit_zone_t *zone,
    ngx_str_t *key)
{
    ngx_http_mistral_limit_node_t   *node;
    ngx_http_mistral_limit_table_t  *table;

    table = zone->table;
    node = ngx_http_mistral_limit_find(zone, key);

    if (node) {
        ngx_queue_remove(&node->lru);
        ngx_queue_insert_head(&table->lru, &node->lru);
        return node;
    }

    ngx_http_mistral_limit_expire(zone);

    node = ngx_http_mistral_limit_alloc(zone,
                            offsetof(ngx_http_mistral_limit_node_t, data)
                            + key->len, NULL);
    if (node == NULL) {
        return NULL;
    }

    node->node.key = ngx_crc32_short(key->data, key->len);
    node->len = (u_short) key->len;
    ngx_memcpy(node->data, key->data, key->len);
    zone->kind->init(node);

    ngx_rbtree_insert(&table->rbtree, &node->node);
    ngx_queue_insert_head(&table->lru, &node->lru);

    return node;
}


ngx_http_mistral_limit_node_t *
ngx_http_mistral_limit_find(ngx_http_mistral_limit_zone_t *zone,
    ngx_str_t *key)
{
    uint32_t                        hash;
    ngx_int_t                       rc;
    ngx_rbtree_node_t              *node, *sentinel;
    ngx_http_mistral_limit_node_t  *n;

    hash = ngx_crc32_short(key->data, key->len);
    node = zone->table->rbtree.root;
    sentinel = zone->table->rbtree.sentinel;

    while (node != sentinel) {

        if (hash != node->key) {
            node = hash < node->key ? node->left : node->right;
            continue;
        }

        n = (ngx_http_mistral_limit_node_t *) node;
        rc = ngx_http_mistral_limit_compare(key, n);

        if (rc == 0) {
            return n;
        }

        node = rc < 0 ? node->left : node->right;
    }

    return NULL;
}


static ngx_int_t
ngx_http_mistral_limit_compare(ngx_str_t *key,
    ngx_http_mistral_limit_node_t *node)
{
    return ngx_memn2cmp(key->data, node->data, key->len, node->len);
}


static void
ngx_http_mistral_limit_insert(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_str_t                        key;
    ngx_rbtree_node_t              **p;
    ngx_http_mistral_limit_node_t   *n;

    n = (ngx_http_mistral_limit_node_t *) node;
    key.data = n->data;
    key.len = n->len;

    for ( ;; ) {
        n = (ngx_http_mistral_limit_node_t *) temp;

        p = node->key < temp->key
            || (node->key == temp->key
                && ngx_http_mistral_limit_compare(&key, n) < 0)
            ? &temp->left : &temp->right;

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


ngx_uint_t
ngx_http_mistral_limit_walk(ngx_http_mistral_limit_zone_t *zone,
    ngx_str_t *key, ngx_http_mistral_limit_node_t **nodes, ngx_uint_t max)
{
    uint32_t                        hash;
    ngx_uint_t                      n;
    ngx_rbtree_node_t              *node, *next, *sentinel;
    ngx_http_mistral_limit_node_t  *ln;

    node = zone->table->rbtree.root;
    sentinel = zone->table->rbtree.sentinel;
    hash = key->len ? ngx_crc32_short(key->data, key->len) : 0;
    next = NULL;

    if (node == sentinel) {
        return 0;
    }

    /* the least that is greater */

    if (key->len == 0) {
        next = ngx_rbtree_min(node, sentinel);
        node = sentinel;
    }

    while (node != sentinel) {
        ln = (ngx_http_mistral_limit_node_t *) node;

        if (hash < node->key
            || (hash == node->key
                && ngx_http_mistral_limit_compare(key, ln) < 0))
        {
            next = node;
            node = node->left;

        } else {
            node = node->right;
        }
    }

    for (n = 0; next && n < max; n++) {
        nodes[n] = (ngx_http_mistral_limit_node_t *) next;
        next = ngx_rbtree_next(&zone->table->rbtree, next);
    }

    return n;
}


void *
ngx_http_mistral_limit_alloc(ngx_http_mistral_limit_zone_t *zone, size_t size,
    ngx_http_mistral_limit_node_t *keep)
{
    void  *p;

    do {
        p = ngx_slab_calloc_locked(zone->pool, size);

    } while (p == NULL && ngx_http_mistral_limit_evict(zone, keep) == NGX_OK);

    if (p == NULL) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "%s \"%V\" is full of requests in work, it needs more "
                      "memory", zone->kind->zone, &zone->name);
    }

    return p;
}


/* those that nobody would miss, as they come: two for each that is new */

static void
ngx_http_mistral_limit_expire(ngx_http_mistral_limit_zone_t *zone)
{
    ngx_uint_t                       i;
    ngx_http_mistral_limit_node_t   *node;
    ngx_http_mistral_limit_table_t  *table;

    table = zone->table;

    for (i = 0; i < 2 && !ngx_queue_empty(&table->lru); i++) {

        node = ngx_queue_data(ngx_queue_last(&table->lru),
                              ngx_http_mistral_limit_node_t, lru);

        if (!mst_list_empty(zone->kind->holds(node))) {
            return;
        }

        zone->kind->roll(zone, node, &node->rate);

        if (!zone->kind->idle(node)) {
            return;
        }

        ngx_http_mistral_limit_delete(zone, node);
    }
}


static ngx_int_t
ngx_http_mistral_limit_evict(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *keep)
{
    ngx_uint_t                       i;
    ngx_queue_t                     *q, *last;
    ngx_http_mistral_limit_node_t   *node;
    ngx_http_mistral_limit_table_t  *table;

    table = zone->table;
    last = NULL;
    i = 0;

    for (q = ngx_queue_last(&table->lru);
         q != ngx_queue_sentinel(&table->lru)
         && i < NGX_HTTP_MISTRAL_LIMIT_LOOK;
         q = ngx_queue_prev(q), i++)
    {
        node = ngx_queue_data(q, ngx_http_mistral_limit_node_t, lru);

        if (node == keep) {
            continue;
        }

        if (last == NULL || mst_list_empty(zone->kind->holds(node))) {
            last = q;
        }

        if (mst_list_empty(zone->kind->holds(node))) {
            break;
        }
    }

    if (last == NULL) {
        return NGX_DECLINED;
    }

    node = ngx_queue_data(last, ngx_http_mistral_limit_node_t, lru);

    ngx_http_mistral_limit_missed(zone, node);
    ngx_http_mistral_limit_delete(zone, node);

    return NGX_OK;
}


/* whoever has this key gets back what it had used */

static void
ngx_http_mistral_limit_missed(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node)
{
    uint64_t  now;

    now = mst_time_ns();
    zone->kind->roll(zone, node, &node->rate);

    if ((zone->kind->idle(node) && mst_list_empty(zone->kind->holds(node)))
        || (zone->table->warned_ns
            && now - zone->table->warned_ns < NGX_HTTP_MISTRAL_LIMIT_WARN))
    {
        return;
    }

    zone->table->warned_ns = now;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "%s \"%V\" is too small: keys are forgotten before they "
                  "may be", zone->kind->zone, &zone->name);
}


static void
ngx_http_mistral_limit_delete(ngx_http_mistral_limit_zone_t *zone,
    ngx_http_mistral_limit_node_t *node)
{
    mst_list_t                     *l, *holds;
    ngx_http_mistral_limit_hold_t  *hold;

    holds = zone->kind->holds(node);

    for (l = holds->next; l != holds; l = l->next) {
        hold = mst_list_data(l, ngx_http_mistral_limit_hold_t, hold.link);
        hold->node = NULL;
    }

    ngx_queue_remove(&node->lru);
    ngx_rbtree_delete(&zone->table->rbtree, &node->node);
    ngx_slab_free_locked(zone->pool, node);
}

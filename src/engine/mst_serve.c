
/*
 * The engine process's loop: see mst_serve.h.
 *
 * A pass: look at all slots (new owners, leaving owners) and read what
 * their rings hold, one engine step, then tell what it brought: statistics,
 * outboxes into the rings, and a wake-up for each worker that sleeps.
 *
 * What this thread does between two steps keeps all that compute, and a
 * worker wakes up on one of their cores, which could be that of this thread:
 * with "late" it tells of a step when the next one has begun and the others
 * have something to do, and wakes in calls of their own, so that whose core it
 * will be has nothing in hand.  Worker and client need about 90 us of the cores
 * each time: tokens behind the first one are gathered for a few milliseconds,
 * which one step in two of a fast model is spared by.
 */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "engine/mst_serve_local.h"
#include "shm/mst_place.h"
#include "shm/mst_slot.h"


#define MST_SERVE_LOOK     (5 * MST_MS)        /* epoll while it computes */
#define MST_SERVE_TICK     MST_S               /* heartbeat, audit */
#define MST_SERVE_STAY     (1500 * MST_MS)     /* after the life pipe's end */


static int mst_serve_init(mst_serve_t *s, mst_err_t *err);
static int mst_serve_receive(mst_serve_t *s, uint64_t now_ns);
static void mst_serve_orders(mst_serve_t *s);
static void mst_serve_stats(mst_serve_t *s, uint64_t now_ns);
static void mst_serve_counts(mst_stat_t *st, const mst_engine_stats_t *e);
static uint64_t mst_serve_rate(double rate);
static void mst_serve_classes(mst_serve_t *s);
static void mst_serve_tick(mst_serve_t *s, uint64_t now_ns);
static void mst_serve_audit(mst_serve_t *s, uint64_t now_ns);
static void mst_serve_sleep(mst_serve_t *s, uint64_t wake_ns);
static int mst_serve_news(mst_serve_t *s);
static int mst_serve_wait(int epfd, struct epoll_event *ev, int n,
    uint64_t timeout_ns);


mst_serve_t *
mst_serve_create(const mst_serve_conf_t *conf, mst_err_t *err)
{
    mst_serve_t  *s;

    s = mst_calloc(1, sizeof(mst_serve_t));
    if (s == NULL) {
        (void) mst_err_set(err, "no memory for the engine's loop");
        return NULL;
    }

    s->conf = *conf;
    s->shm = conf->map->shm;
    s->epfd = -1;
    s->max_calls = MST_SERVE_CALLS;
    s->max_tokens = MST_SERVE_TOKENS;
    s->max_unread = MST_SERVE_UNREAD;
    s->gather_ns = MST_SERVE_GATHER;

    mst_list_init(&s->doomed);

    if (mst_serve_init(s, err) != MST_OK) {
        mst_serve_destroy(s);
        return NULL;
    }

    return s;
}


static int
mst_serve_init(mst_serve_t *s, mst_err_t *err)
{
    uint32_t  i, n;

    n = s->conf.map->n_slots;

    /* a system without it is none that we know; the table works all the same */

    (void) !getrandom(&s->key, sizeof(s->key), 0);

    s->n_table = 256;
    s->table = mst_calloc(s->n_table, sizeof(mst_serve_call_t *));
    s->slots = mst_calloc(n, sizeof(mst_serve_slot_t));
    s->copy = mst_alloc(s->conf.map->req_size);

    if (s->table == NULL || s->slots == NULL || s->copy == NULL) {
        return mst_err_set(err, "no memory for the engine's loop of %u slots",
                           n);
    }

    for (i = 0; i < n; i++) {
        s->slots[i].pidfd = -1;
        mst_list_init(&s->slots[i].calls);
        mst_list_init(&s->slots[i].dirty);
    }

    s->epfd = epoll_create1(EPOLL_CLOEXEC);

    if (s->epfd == -1) {
        return mst_err_errno(err, errno, "epoll_create1() failed");
    }

    /* of the life pipe only its end is news: nobody writes into it */

    if (mst_serve_watch(s, s->conf.wake_fd, EPOLLIN, MST_SERVE_WAKE)
        != MST_OK
        || (s->conf.life_fd != -1
            && mst_serve_watch(s, s->conf.life_fd, 0, MST_SERVE_LIFE)
               != MST_OK))
    {
        return mst_err_errno(err, errno, "epoll_ctl() failed");
    }

    return MST_OK;
}


void
mst_serve_destroy(mst_serve_t *s)
{
    size_t             i;
    mst_serve_call_t  *call;

    if (s == NULL) {
        return;
    }

    for (i = 0; s->table != NULL && i < s->n_table; i++) {
        while (s->table[i] != NULL) {
            call = s->table[i];
            s->table[i] = call->next;
            mst_outbox_fini(&call->out);
            mst_free(call);
        }
    }

    for (i = 0; s->slots != NULL && i < s->conf.map->n_slots; i++) {
        if (s->slots[i].pidfd > 0) {
            (void) close(s->slots[i].pidfd);
        }
    }

    if (s->epfd != -1) {
        (void) close(s->epfd);
    }

    mst_free(s->table);
    mst_free(s->slots);
    mst_free(s->copy);
    mst_free(s);
}


int
mst_serve_watch(mst_serve_t *s, int fd, uint32_t events, uint32_t data)
{
    struct epoll_event  ev;

    memset(&ev, 0, sizeof(ev));
    ev.events = events;
    ev.data.u32 = data;

    return epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev) == 0 ? MST_OK
                                                           : MST_ERROR;
}


int
mst_serve_run(mst_serve_t *s, mst_engine_t *e, const mst_serve_info_t *info,
    mst_err_t *err)
{
    int       rc;
    uint64_t  now, wake;

    if (mst_serve_start(s, e, info, err) != MST_OK) {
        return MST_ERROR;
    }

    for ( ;; ) {
        rc = mst_serve_pass(s, &wake, err);

        if (rc == MST_ERROR) {
            return MST_ERROR;
        }

        if (rc == MST_AGAIN) {
            mst_serve_sleep(s, wake);

        } else {
            now = mst_time_ns();

            if (now >= s->look_ns) {
                s->look_ns = now + MST_SERVE_LOOK;
                mst_serve_poll(s, 0);
            }
        }

        if (s->leave_ns && mst_time_ns() >= s->leave_ns) {
            return MST_DONE;
        }
    }
}


int
mst_serve_start(mst_serve_t *s, mst_engine_t *e, const mst_serve_info_t *info,
    mst_err_t *err)
{
    uint32_t     i;
    uint64_t     now;
    mst_stat_t  *st;

    (void) err;

    s->engine = e;
    s->info = *info;

    st = &s->shm->stat;
    now = mst_time_ns();

    s->base.steps = mst_stat_get(&st->total_steps);
    s->base.prompt_tokens = mst_stat_get(&st->prompt_tokens);
    s->base.cached_tokens = mst_stat_get(&st->cached_tokens);
    s->base.completion_tokens = mst_stat_get(&st->completion_tokens);
    s->base.preemptions = mst_stat_get(&st->preemptions);
    s->base.finished = mst_stat_get(&st->finished);
    s->base.refused = mst_stat_get(&st->refused);
    s->cancelled = mst_stat_get(&st->cancelled);

    mst_stat_set(&st->block_tokens, info->block_tokens);
    mst_stat_set(&st->weight_size, info->weight_size);
    mst_stat_set(&st->load_ns, info->load_ns);
    mst_stat_set(&st->ready_ns, now);
    mst_stat_set_backend(st, info->backend);

    memset(s->classes, 0xff, sizeof(s->classes));      /* not published */

    mst_place_restart(s->conf.map);
    s->audit = 1;
    s->audit_pause = MST_SERVE_RETRY;

    /* what was ordered of the engine before us is void */

    s->flush = atomic_load(&s->shm->flush);
    s->knock = atomic_load(&s->shm->knock);

    mst_serve_stats(s, now);

    atomic_store(&s->shm->max_batch, info->max_batch);
    atomic_store(&s->shm->context, info->context);
    atomic_store(&s->shm->state, MST_STATE_READY);

    /* all of them: a worker may have waited for this, awake or not */

    for (i = 0; i < s->conf.map->n_slots; i++) {
        mst_serve_call_notify(s, i);
    }

    return MST_OK;
}


int
mst_serve_pass(mst_serve_t *s, uint64_t *wake_ns, mst_err_t *err)
{
    int       rc, more;
    uint64_t  now;

    now = mst_time_ns();

    if (now >= s->tick_ns) {
        mst_serve_tick(s, now);
    }

    if (s->audit && now >= s->audit_ns) {
        mst_serve_audit(s, now);
    }

    mst_serve_orders(s);

    more = mst_serve_receive(s, now);

    s->token_ns = 0;
    s->begun = 0;

    rc = mst_engine_step(s->engine, mst_time_ns(), wake_ns, err);

    /* where no step has begun */

    while (mst_serve_tell(s)) { /* void */ }

    now = mst_time_ns();

    mst_serve_call_doom(s, now);

    s->due = 1;
    s->gather = s->conf.late && rc == MST_OK;

    if (!s->gather) {
        while (mst_serve_tell(s)) { /* void */ }
    }

    /* not by tell(), which may be within a step: sequences end */

    if (s->blocked) {
        mst_serve_call_choke(s, now);
    }

    return (rc == MST_AGAIN && more) ? MST_OK : rc;
}


int
mst_serve_tell(mst_serve_t *s)
{
    uint64_t  now;

    if (s->due) {
        s->due = 0;
        now = mst_time_ns();
        mst_serve_stats(s, now);
        mst_serve_call_flush(s, now);

    } else if (s->ring) {
        mst_serve_call_ring(s);

    } else if (s->kept_ns && mst_time_ns() - s->kept_ns >= s->gather_ns) {
        mst_serve_call_late(s);
    }

    return (int) s->ring;
}


/* again soon while a worker is in the middle of a step, which takes it no
   time unless it was stopped there, or lies */

static void
mst_serve_audit(mst_serve_t *s, uint64_t now_ns)
{
    if (mst_place_audit(s->conf.map) == MST_OK) {
        s->audit = 0;
        s->audit_pause = MST_SERVE_RETRY;
        return;
    }

    s->audit_ns = now_ns + s->audit_pause;

    if (s->audit_pause < MST_SERVE_TICK) {
        s->audit_pause *= 2;
    }
}


/* before the rings: an order is older than what its worker submits then */

static void
mst_serve_orders(mst_serve_t *s)
{
    uint32_t  i, n;

    n = atomic_load(&s->shm->flush);

    if (n != s->flush) {
        s->flush = n;

        mst_log(s->conf.log, MST_LOG_NOTICE, "the prefix cache is emptied, "
                "%u blocks were known", mst_engine_forget(s->engine));
    }

    n = atomic_load(&s->shm->knock);

    if (n != s->knock) {
        s->knock = n;

        for (i = 0; i < s->conf.map->n_slots; i++) {
            mst_serve_call_notify(s, i);
        }
    }
}


/* all slots; 1 = there may be more to read */

static int
mst_serve_receive(mst_serve_t *s, uint64_t now_ns)
{
    int       more;
    uint32_t  i;

    more = 0;

    for (i = 0; i < s->conf.map->n_slots; i++) {
        if (mst_serve_slot_look(s, i, now_ns)) {
            more |= mst_serve_slot_drain(s, i, now_ns);
        }
    }

    return more;
}


static void
mst_serve_stats(mst_serve_t *s, uint64_t now_ns)
{
    mst_stat_t          *st;
    mst_engine_stats_t   e;

    st = &s->shm->stat;

    mst_engine_stats(s->engine, &e);

    mst_stat_set(&st->beat_ns, now_ns);

    /* a pass makes one step at most */

    if (e.steps != mst_stat_get(&st->steps)) {
        if (e.steps != 0) {
            mst_stat_set(&st->stepped_ns, now_ns);
            mst_stat_observe(&st->step, e.last_step_ns, 1);
        }

        mst_stat_set(&st->steps, e.steps);
    }

    mst_stat_set(&st->last_step_ns, e.last_step_ns);

    mst_serve_counts(st, &e);

    mst_stat_set(&st->prompt_rate, mst_serve_rate(e.prompt_rate));
    mst_stat_set(&st->finish_rate, mst_serve_rate(e.finish_rate));
    mst_stat_set(&st->token_rate, mst_serve_rate(e.token_rate));
    mst_serve_classes(s);
    mst_stat_set(&st->blocks_total, e.blocks_total);
    mst_stat_set(&st->blocks_used, e.blocks_used);
    mst_stat_set(&st->blocks_cached, e.blocks_cached);

    mst_stat_set(&st->total_steps, s->base.steps + e.steps);
    mst_stat_set(&st->prompt_tokens, s->base.prompt_tokens + e.prompt_tokens);
    mst_stat_set(&st->cached_tokens, s->base.cached_tokens + e.cached_tokens);
    mst_stat_set(&st->completion_tokens,
                 s->base.completion_tokens + e.completion_tokens);
    mst_stat_set(&st->preemptions, s->base.preemptions + e.preemptions);
    mst_stat_set(&st->finished, s->base.finished + e.finished);
    mst_stat_set(&st->refused, s->base.refused + e.refused);
    mst_stat_set(&st->cancelled, s->cancelled);
}


static void
mst_serve_counts(mst_stat_t *st, const mst_engine_stats_t *e)
{
    mst_stat_set(&st->running, e->running);
    mst_stat_set(&st->waiting, e->waiting);
    mst_stat_set(&st->waiting_tokens, e->waiting_tokens);
    mst_stat_set(&st->paused, e->paused);
    mst_stat_set(&st->prefilling, e->prefilling);
}


/* a step that somebody begins with may be long: who looks meanwhile shall
   not see an idle engine, nor one whose last step was long ago */

void
mst_serve_begun(mst_serve_t *s)
{
    mst_stat_t          *st;
    mst_engine_stats_t   e;

    if (s->begun) {
        return;
    }

    s->begun = 1;
    st = &s->shm->stat;

    mst_engine_stats(s->engine, &e);

    if (mst_stat_get(&st->running) == 0) {
        mst_stat_set(&st->stepped_ns, mst_time_ns());
    }

    mst_serve_counts(st, &e);
}


static uint64_t
mst_serve_rate(double rate)
{
    return rate < 1e15 ? (uint64_t) (rate * 1000) : (uint64_t) 1e18;
}


/* most passes change nothing of it */

static void
mst_serve_classes(mst_serve_t *s)
{
    uint32_t                  i;
    mst_stat_class_t         *to;
    const mst_order_class_t  *from;

    from = mst_engine_classes(s->engine);

    if (memcmp(from, s->classes, sizeof(s->classes)) == 0) {
        return;
    }

    memcpy(s->classes, from, sizeof(s->classes));

    for (i = 0; i < MST_CLASSES; i++) {
        to = &s->shm->stat.classes[i];

        mst_stat_set(&to->n, from[i].n);
        mst_stat_set(&to->n_dated, from[i].n_dated);
        mst_stat_set(&to->tokens, from[i].tokens);
        mst_stat_set(&to->dated_tokens, from[i].dated_tokens);
        mst_stat_set(&to->last_ns, from[i].last_ns);
    }
}


/* once a second: what has no event */

static void
mst_serve_tick(mst_serve_t *s, uint64_t now_ns)
{
    uint32_t           i;
    mst_serve_slot_t  *slot;

    s->tick_ns = now_ns + MST_SERVE_TICK;
    s->audit = 1;

    mst_stat_set(&s->shm->stat.slack_tokens, mst_engine_slack(s->engine));

    for (i = 0; i < s->conf.map->n_slots; i++) {
        slot = &s->slots[i];

        if (slot->pid != 0 && slot->pidfd == -1
            && kill((pid_t) slot->pid, 0) == -1 && errno == ESRCH)
        {
            mst_serve_slot_reclaim(s, i, "it died", now_ns);
        }
    }
}


/* until an event, the engine's own time, a retry or the tick */

static void
mst_serve_sleep(mst_serve_t *s, uint64_t wake_ns)
{
    uint64_t  now, until;

    mst_shm_sleep(&s->shm->sleeping);

    now = mst_time_ns();
    until = s->tick_ns;

    if (wake_ns != 0 && wake_ns < until) {
        until = wake_ns;
    }

    if (s->blocked) {
        if (now + s->retry_ns < until) {
            until = now + s->retry_ns;
        }

        if (s->retry_ns < 16 * MST_SERVE_RETRY) {
            s->retry_ns *= 2;
        }
    }

    if (s->audit && s->audit_ns < until) {
        until = s->audit_ns;
    }

    if (s->leave_ns && s->leave_ns < until) {
        until = s->leave_ns;
    }

    /* this look comes after the word that we sleep: mst_shm_sleep() */

    if (mst_serve_news(s)) {
        until = now;
    }

    mst_serve_poll(s, until > now ? until - now : 0);

    atomic_store(&s->shm->sleeping, 0);
}


static int
mst_serve_news(mst_serve_t *s)
{
    uint32_t           i, state;
    uint64_t           owner;
    mst_serve_slot_t  *slot;

    if (atomic_load(&s->shm->flush) != s->flush
        || atomic_load(&s->shm->knock) != s->knock)
    {
        return 1;
    }

    for (i = 0; i < s->conf.map->n_slots; i++) {
        slot = &s->slots[i];

        owner = atomic_load(&s->conf.map->slots[i].owner);
        state = (uint32_t) (owner >> 32);

        if (state == MST_SLOT_FREE) {
            continue;
        }

        if (state == MST_SLOT_DEAD || (uint32_t) owner != slot->pid) {
            return 1;
        }

        if (slot->pid != 0 && !slot->broken && !mst_serve_slot_full(s, slot)
            && atomic_load(&slot->req.pos->tail) != slot->req.own)
        {
            return 1;
        }
    }

    return 0;
}


void
mst_serve_poll(mst_serve_t *s, uint64_t timeout_ns)
{
    int                 i, n;
    uint32_t            k;
    uint64_t            now, count;
    struct epoll_event  ev[32];

    n = mst_serve_wait(s->epfd, ev, 32, timeout_ns);
    now = mst_time_ns();

    for (i = 0; i < n; i++) {
        k = ev[i].data.u32;

        if (k == MST_SERVE_WAKE) {
            (void) !read(s->conf.wake_fd, &count, sizeof(count));

        } else if (k == MST_SERVE_LIFE) {
            (void) epoll_ctl(s->epfd, EPOLL_CTL_DEL, s->conf.life_fd, NULL);
            s->leave_ns = now + MST_SERVE_STAY;

        } else if (k < s->conf.map->n_slots && s->slots[k].pidfd != -1) {
            mst_serve_slot_reclaim(s, k, "it died", now);
        }
    }
}


/* to the nanosecond where the kernel can, else at most a millisecond late */

static int
mst_serve_wait(int epfd, struct epoll_event *ev, int n, uint64_t timeout_ns)
{
    int              rc;
    struct timespec  ts;

#ifdef SYS_epoll_pwait2
    ts.tv_sec = (time_t) (timeout_ns / MST_S);
    ts.tv_nsec = (long) (timeout_ns % MST_S);

    rc = (int) syscall(SYS_epoll_pwait2, epfd, ev, n, &ts, NULL, 0);

    if (rc != -1 || errno == EINTR) {
        return rc;
    }
#else
    (void) ts;
#endif

    rc = epoll_wait(epfd, ev, n,
                    (int) ((timeout_ns + MST_MS - 1) / MST_MS));
    return rc;
}

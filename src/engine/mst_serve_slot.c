
/*
 * Slots and their owners, and what comes out of their rings.
 */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/mst_serve_local.h"
#include "shm/mst_place.h"
#include "shm/mst_slot.h"


#define MST_SERVE_RECORDS  64                  /* of a slot in one pass */


static void mst_serve_slot_attach(mst_serve_t *s, uint32_t i, uint32_t pid,
    uint64_t now_ns);
static void mst_serve_slot_drop(mst_serve_t *s, uint32_t i, uint64_t now_ns);
static void mst_serve_slot_record(mst_serve_t *s, uint32_t i, uint32_t len,
    uint64_t now_ns);
static void mst_serve_slot_control(mst_serve_t *s, mst_serve_call_t *call,
    uint64_t now_ns);
static void mst_serve_slot_break(mst_serve_t *s, uint32_t i, const char *why,
    uint64_t now_ns);
static void mst_serve_slot_stop(mst_serve_t *s, uint32_t i, uint64_t now_ns);
static void mst_serve_slot_bad(mst_serve_t *s, uint32_t i, const char *why);
static void mst_serve_slot_submit(mst_serve_t *s, uint32_t i, uint32_t len,
    uint64_t now_ns);
static void mst_serve_slot_accept(mst_serve_t *s, mst_serve_call_t *call,
    uint32_t len, uint64_t now_ns);


int
mst_serve_slot_look(mst_serve_t *s, uint32_t i, uint64_t now_ns)
{
    uint64_t           owner;
    uint32_t           pid, state;
    mst_serve_slot_t  *slot;

    slot = &s->slots[i];

    owner = atomic_load(&s->conf.map->slots[i].owner);
    state = (uint32_t) (owner >> 32);
    pid = (uint32_t) owner;

    if (state == MST_SLOT_FREE) {

        if (slot->pid != 0) {                  /* only we should do that */
            mst_serve_slot_drop(s, i, now_ns);
        }

        return 0;
    }

    if (state == MST_SLOT_DEAD) {
        mst_serve_slot_reclaim(s, i, NULL, now_ns);
        return 0;
    }

    if (state != MST_SLOT_USED || pid == 0 || pid > INT32_MAX) {

        /* no worker wrote that, and no pidfd will ever tell its end */

        mst_serve_slot_reclaim(s, i, "its owner is no process", now_ns);
        return 0;
    }

    if (slot->pid != pid) {
        mst_serve_slot_attach(s, i, pid, now_ns);
    }

    return slot->pid != 0 && !slot->broken;
}


static void
mst_serve_slot_attach(mst_serve_t *s, uint32_t i, uint32_t pid, uint64_t now_ns)
{
    mst_serve_slot_t  *slot;

    slot = &s->slots[i];

    if (slot->pid != 0) {
        mst_serve_slot_drop(s, i, now_ns);
    }

    slot->pid = pid;
    slot->broken = 0;
    slot->choked = 0;
    slot->epoch = atomic_load(&s->conf.map->slots[i].epoch);

    mst_slot_rings(s->conf.map, i, 0, &slot->req, &slot->rsp);

#ifdef SYS_pidfd_open
    slot->pidfd = (int) syscall(SYS_pidfd_open, (pid_t) pid, 0);

    if (slot->pidfd == -1 && errno == ESRCH) {
        mst_serve_slot_reclaim(s, i, "it was gone before", now_ns);
        return;
    }

    if (slot->pidfd != -1) {
        (void) mst_serve_watch(s, slot->pidfd, EPOLLIN, i);
    }
#endif
}


void
mst_serve_slot_reclaim(mst_serve_t *s, uint32_t i, const char *why,
    uint64_t now_ns)
{
    mst_slot_t  *shared;
    mst_stat_t  *st;

    shared = &s->conf.map->slots[i];
    st = &s->shm->stat;

    if (mst_slot_state(shared) == MST_SLOT_DEAD) {
        why = NULL;                /* it said so before it went */
    }

    mst_log(s->conf.log, why ? MST_LOG_NOTICE : MST_LOG_DEBUG,
            "slot %u of worker %u is reclaimed: %s", i, mst_slot_pid(shared),
            why ? why : "it left");

    mst_serve_slot_drop(s, i, now_ns);

    if (mst_place_reclaim(s->shm, shared) != MST_OK) {
        s->audit = 1;
    }

    mst_slot_free(s->conf.map, i);

    if (why) {
        mst_stat_set(&st->slots_reclaimed,
                     mst_stat_get(&st->slots_reclaimed) + 1);
    }
}


/* ends all calls of a slot, without records and without their places */

static void
mst_serve_slot_drop(mst_serve_t *s, uint32_t i, uint64_t now_ns)
{
    mst_serve_call_t  *call;
    mst_serve_slot_t  *slot;

    slot = &s->slots[i];

    while (!mst_list_empty(&slot->calls)) {
        call = mst_list_data(slot->calls.next, mst_serve_call_t, in_slot);

        call->dropped = 1;

        if (!call->out.ended) {
            mst_engine_cancel(s->engine, (uintptr_t) call, now_ns);
        }

        mst_serve_call_free(s, call);
    }

    if (slot->pidfd != -1) {
        (void) close(slot->pidfd);             /* leaves epoll, too */
        slot->pidfd = -1;
    }

    slot->pid = 0;
}


int
mst_serve_slot_drain(mst_serve_t *s, uint32_t i, uint64_t now_ns)
{
    int                      n, rc;
    uint32_t                 len, tokens;
    mst_slot_t              *shared;
    mst_serve_slot_t        *slot;
    const mst_record_t      *rec;
    const mst_rec_submit_t  *submit;

    slot = &s->slots[i];
    shared = &s->conf.map->slots[i];

    for (n = 0; n < MST_SERVE_RECORDS && !slot->broken; n++) {

        if (mst_serve_slot_full(s, slot)) {
            return 0;
        }

        rc = mst_ring_peek(&slot->req, &rec, &len);

        if (rc == MST_AGAIN) {
            return 0;
        }

        if (rc != MST_OK) {
            mst_serve_slot_break(s, i, "its ring is inconsistent", now_ns);
            return 0;
        }

        mst_ring_copy(s->copy, rec, len);

        if (s->copy->type == MST_REC_SUBMIT
            && len >= sizeof(mst_rec_submit_t))
        {
            submit = (const mst_rec_submit_t *) s->copy;
            tokens = submit->place_tokens;

            mst_place_receive(shared, &slot->req, len, tokens);
        }

        mst_ring_consume(&slot->req, len);
        mst_serve_slot_record(s, i, len, now_ns);
    }

    return !slot->broken;
}


/* one record, which stands in s->copy */

static void
mst_serve_slot_record(mst_serve_t *s, uint32_t i, uint32_t len, uint64_t now_ns)
{
    mst_err_t          err;
    mst_record_t      *rec;
    mst_serve_call_t  *call;
    mst_serve_slot_t  *slot;

    rec = s->copy;
    slot = &s->slots[i];

    if (rec->type == MST_REC_SUBMIT && len >= sizeof(mst_rec_submit_t)) {
        mst_serve_slot_submit(s, i, len, now_ns);
        return;
    }

    err.text[0] = '\0';

    if (mst_record_check(rec, len, &err) != MST_OK
        || !mst_record_to_engine(rec))
    {
        mst_serve_slot_break(s, i, err.text[0] ? err.text
                                               : "a record that is not for us",
                             now_ns);
        return;
    }

    if (rec->slot_epoch != slot->epoch
        || rec->engine_epoch != s->conf.engine_epoch)
    {
        return;
    }

    call = *mst_serve_call_find(s, i, rec->id);

    if (call != NULL && !call->out.ended) {
        mst_serve_slot_control(s, call, now_ns);
    }
}


/* a checked record about a call in work */

static void
mst_serve_slot_control(mst_serve_t *s, mst_serve_call_t *call,
    uint64_t now_ns)
{
    uint64_t             tag;
    const mst_record_t  *rec;

    rec = s->copy;
    tag = (uintptr_t) call;

    switch (rec->type) {

    case MST_REC_CANCEL:
        mst_engine_cancel(s->engine, tag, now_ns);
        break;

    case MST_REC_PACE:
        mst_engine_pace(s->engine, tag, ((const mst_rec_pace_t *) rec)->pace,
                        now_ns);
        break;

    case MST_REC_PAUSE:
        mst_engine_pause(s->engine, tag, 1, now_ns);
        break;

    case MST_REC_RESUME:
        mst_engine_pause(s->engine, tag, 0, now_ns);
        break;
    }
}


/* its bytes make no sense any more: deaf until the owner is gone */

static void
mst_serve_slot_break(mst_serve_t *s, uint32_t i, const char *why,
    uint64_t now_ns)
{
    mst_serve_slot_t  *slot;

    slot = &s->slots[i];
    slot->broken = 1;

    mst_serve_slot_bad(s, i, why);

    mst_log(s->conf.log, MST_LOG_ALERT, "worker %u wrote nonsense into slot "
            "%u: %s; the slot is closed until it is gone", slot->pid, i, why);

    mst_serve_slot_stop(s, i, now_ns);
}


void
mst_serve_slot_choke(mst_serve_t *s, uint32_t i, uint64_t now_ns)
{
    s->slots[i].choked = 1;

    mst_log(s->conf.log, MST_LOG_ALERT, "worker %u does not read the answers "
            "in slot %u, over %llu MiB wait: its requests end, and new ones "
            "wait until it reads", s->slots[i].pid, i,
            (unsigned long long) (s->max_unread >> 20));

    mst_serve_slot_stop(s, i, now_ns);
}


/* what runs ends with a record, and gives its place back */

static void
mst_serve_slot_stop(mst_serve_t *s, uint32_t i, uint64_t now_ns)
{
    mst_list_t        *x, *next;
    mst_serve_call_t  *call;
    mst_serve_slot_t  *slot;

    slot = &s->slots[i];

    for (x = slot->calls.next; x != &slot->calls; x = next) {
        next = x->next;
        call = mst_list_data(x, mst_serve_call_t, in_slot);

        if (!call->out.ended) {
            mst_engine_cancel(s->engine, (uintptr_t) call, now_ns);
        }
    }
}


static void
mst_serve_slot_bad(mst_serve_t *s, uint32_t i, const char *why)
{
    mst_stat_t  *st;

    st = &s->shm->stat;

    mst_stat_set(&st->bad_records, mst_stat_get(&st->bad_records) + 1);

    mst_log(s->conf.log, MST_LOG_INFO, "bad record of worker %u in slot %u: "
            "%s", s->slots[i].pid, i, why);
}


static void
mst_serve_slot_submit(mst_serve_t *s, uint32_t i, uint32_t len, uint64_t now_ns)
{
    mst_slot_t              *shared;
    mst_serve_call_t        *call;
    const mst_rec_submit_t  *r;

    r = (const mst_rec_submit_t *) s->copy;
    shared = &s->conf.map->slots[i];

    if (r->head.slot_epoch != s->slots[i].epoch
        || r->head.engine_epoch != s->conf.engine_epoch)
    {
        mst_place_give(s->shm, shared, r->place_tokens);
        return;
    }

    if (*mst_serve_call_find(s, i, r->head.id) != NULL) {
        mst_serve_slot_bad(s, i, "SUBMIT of an id that is in work");
        mst_place_give(s->shm, shared, r->place_tokens);
        return;
    }

    call = mst_serve_call_create(s, i, r);

    if (call == NULL) {
        mst_log(s->conf.log, MST_LOG_ALERT, "no memory for a request of slot "
                "%u", i);
        mst_place_give(s->shm, shared, r->place_tokens);
        return;
    }

    mst_serve_slot_accept(s, call, len, now_ns);
}


static void
mst_serve_slot_accept(mst_serve_t *s, mst_serve_call_t *call, uint32_t len,
    uint64_t now_ns)
{
    mst_err_t                err;
    mst_event_t              ev;
    mst_submit_t             sub;
    const mst_rec_submit_t  *r;

    r = (const mst_rec_submit_t *) s->copy;

    memset(&sub, 0, sizeof(sub));
    err.text[0] = '\0';

    if (mst_record_check_submit(&r->head, len, s->info.n_vocab, &sub.prompt,
                                &sub.stop_ids, &sub.bias, &err)
        != MST_OK)
    {
        mst_serve_slot_bad(s, call->slot, err.text);

        memset(&ev, 0, sizeof(ev));
        ev.type = MST_EVENT_REFUSE;
        ev.tag = (uintptr_t) call;
        ev.refuse = MST_REFUSE_INVALID;
        ev.text = err.text;

        mst_serve_event(s, &ev);
        return;
    }

    sub.tag = (uintptr_t) call;
    sub.n_prompt = r->n_prompt;
    sub.params = r->params;
    sub.n_stop = r->n_stop;
    sub.n_bias = r->n_bias;
    sub.deadline_ns = r->deadline_ns;
    sub.claim = r->claim;
    sub.no_wait = r->no_wait != 0;

    memcpy(sub.salt, r->salt, sizeof(sub.salt));

    mst_engine_submit(s->engine, &sub, now_ns);
}

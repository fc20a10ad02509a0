
/*
 * A segment, a serving loop with the null model behind it, and the worker's
 * side of it, all in one process: for the tests of mst_serve*.c.
 */

#ifndef SERVE_H
#define SERVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "engine/mst_serve.h"
#include "shm/mst_place.h"
#include "shm/mst_slot.h"


#define N_SLOTS  4
#define RING     8192


typedef struct {
    mst_map_t       map;
    int             memfd;
    int             fd0;           /* of the eventfds: wake, slots */
    int             life[2];
    uint32_t        epoch;
    mst_serve_t    *serve;
    mst_engine_t   *engine;
    mst_runner_t    runner;        /* the null model, within world_step() */
    void          (*within)(mst_stat_t *st);   /* called by each step; NULL */
    int             late;          /* of the next engine: mst_serve_conf_t */
    int             telling;       /* from inside each step */
    mst_log_t       log;
    char            lines[8][256];
    int             n_lines;
} world_t;


typedef struct {                   /* a worker's view of its slot */
    uint32_t        i;
    mst_slot_t     *slot;
    mst_ring_t      req;
    mst_ring_t      rsp;
    _Alignas(8) char  copy[RING];
} worker_t;


static inline void
world_log(void *data, mst_log_level_t level, const char *text)
{
    world_t  *w;

    w = data;
    (void) snprintf(w->lines[w->n_lines++ % 8], 256, "<%d>%s", level, text);
}


static inline int
world_step(void *data, mst_step_t *step, mst_err_t *err)
{
    world_t  *w;

    w = data;

    if (w->telling && mst_serve_tell(w->serve)) {
        (void) mst_serve_tell(w->serve);
    }

    if (w->within) {
        w->within(&w->map.shm->stat);
    }

    return w->runner.step(w->runner.data, step, err);
}


static inline void
world_destroy(void *data)
{
    world_t  *w;

    w = data;
    w->runner.destroy(w->runner.data);
}


/* an engine, the next one; the first time: rings of RING bytes */

static inline void
world_engine(world_t *w, const mst_null_conf_t *null, uint32_t max_batch)
{
    mst_err_t          err;
    mst_runner_t       runner;
    mst_null_conf_t    conf;
    mst_serve_conf_t   sc;
    mst_serve_info_t   info;
    mst_engine_conf_t  ec;

    memset(&conf, 0, sizeof(conf));

    if (null != NULL) {
        conf = *null;
    }

    if (conf.context == 0) {
        conf.context = 4096;
    }

    memset(&err, 0, sizeof(err));

    w->epoch++;
    w->map.shm->engine_epoch = w->epoch;

    sc.map = &w->map;
    sc.wake_fd = w->fd0;
    sc.slot_fd = w->fd0 + 1;
    sc.life_fd = w->life[0];
    sc.engine_epoch = w->epoch;
    sc.log = &w->log;
    sc.late = w->late;

    w->serve = mst_serve_create(&sc, &err);
    assert_non_null(w->serve);

    assert_int_equal(mst_runner_null(&w->runner, &conf, &err), MST_OK);

    runner = w->runner;
    runner.data = w;
    runner.step = world_step;
    runner.destroy = world_destroy;

    memset(&ec, 0, sizeof(ec));
    ec.max_batch = max_batch;
    ec.prefill_chunk = 512;
    ec.handler = mst_serve_event;
    ec.data = w->serve;

    w->engine = mst_engine_create(&ec, &runner, &err);
    assert_non_null(w->engine);

    memset(&info, 0, sizeof(info));
    info.n_vocab = runner.info.n_vocab;
    info.context = runner.info.context;
    info.max_batch = max_batch;
    info.block_tokens = runner.info.block_tokens;
    info.backend = "null";

    assert_int_equal(mst_serve_start(w->serve, w->engine, &info, &err),
                     MST_OK);
}


static inline void
world_engine_dies(world_t *w)
{
    mst_serve_destroy(w->serve);
    mst_engine_destroy(w->engine);
}


static inline void
world_init(world_t *w, const mst_null_conf_t *null, uint32_t max_batch)
{
    int          i, fd;
    mst_err_t    err;

    memset(w, 0, sizeof(world_t));
    memset(&err, 0, sizeof(err));

    w->log.handler = world_log;
    w->log.data = w;
    w->log.level = MST_LOG_DEBUG;

    assert_int_equal(mst_shm_create(&w->map, &w->memfd, "demo", N_SLOTS,
                                    RING, RING, &err), MST_OK);
    assert_int_equal(pipe(w->life), 0);

    /* numbers in a row, wherever the process has its own */

    w->fd0 = 200;

    for (i = 0; i < 1 + N_SLOTS; i++) {
        fd = eventfd(0, EFD_NONBLOCK);
        assert_int_equal(dup2(fd, w->fd0 + i), w->fd0 + i);
        (void) close(fd);
    }

    world_engine(w, null, max_batch);
}


static inline void
world_fini(world_t *w)
{
    int  i;

    world_engine_dies(w);

    for (i = 0; i < 1 + N_SLOTS; i++) {
        (void) close(w->fd0 + i);
    }

    (void) close(w->life[0]);
    (void) close(w->life[1]);
    (void) close(w->memfd);

    mst_shm_detach(&w->map);
}


static inline void
pass(world_t *w, int n)
{
    uint64_t   wake;
    mst_err_t  err;

    memset(&err, 0, sizeof(err));

    while (n-- > 0) {
        assert_int_not_equal(mst_serve_pass(w->serve, &wake, &err),
                             MST_ERROR);
    }
}


/* passes until the engine has nothing to do, at most n */

static inline void
settle(world_t *w, int n)
{
    uint64_t   wake;
    mst_err_t  err;

    memset(&err, 0, sizeof(err));

    while (mst_serve_pass(w->serve, &wake, &err) == MST_OK) {
        assert_true(n-- > 0);
    }
}


static inline void
worker_claim(world_t *w, worker_t *k, uint32_t pid)
{
    int  i;

    i = mst_slot_claim(&w->map, pid);
    assert_true(i >= 0);

    k->i = (uint32_t) i;
    k->slot = &w->map.slots[i];

    mst_slot_rings(&w->map, k->i, 1, &k->req, &k->rsp);
}


/* a SUBMIT of n_prompt tokens with its place; the caller may change it
   before worker_send() */

static inline mst_rec_submit_t *
worker_submit(world_t *w, worker_t *k, uint64_t id, uint32_t n_prompt,
    uint32_t max_tokens)
{
    uint32_t           i, len;
    mst_rec_submit_t  *s;

    len = mst_record_submit_len(n_prompt, 0, 0);

    assert_int_equal(mst_place_take(w->map.shm, k->slot, n_prompt, 1000, 0),
                     MST_OK);

    s = (mst_rec_submit_t *) mst_ring_reserve(&k->req, len);
    assert_non_null(s);

    memset((char *) s + sizeof(mst_record_t), 0, len - sizeof(mst_record_t));

    s->head.type = MST_REC_SUBMIT;
    s->head.id = id;
    s->head.slot_epoch = k->slot->epoch;
    s->head.engine_epoch = w->epoch;
    s->n_prompt = n_prompt;
    s->place_tokens = n_prompt;

    mst_params_default(&s->params);
    s->params.max_tokens = max_tokens;

    for (i = 0; i < n_prompt; i++) {
        ((uint32_t *) (s + 1))[i] = 'a' + (uint32_t) (id + i) % 26;
    }

    return s;
}


static inline void
worker_send(worker_t *k, mst_rec_submit_t *s)
{
    mst_ring_publish(&k->req, &s->head);
}


/* CANCEL, PAUSE or RESUME */

static inline void
worker_control(world_t *w, worker_t *k, uint64_t id, uint16_t type)
{
    mst_record_t  *rec;

    rec = mst_ring_reserve(&k->req, sizeof(mst_record_t));
    assert_non_null(rec);

    rec->type = type;
    rec->id = id;
    rec->slot_epoch = k->slot->epoch;
    rec->engine_epoch = w->epoch;

    mst_ring_publish(&k->req, rec);
}


static inline void
worker_cancel(world_t *w, worker_t *k, uint64_t id)
{
    worker_control(w, k, id, MST_REC_CANCEL);
}


static inline void
worker_pace(world_t *w, worker_t *k, uint64_t id, uint32_t rate)
{
    mst_rec_pace_t  *rec;

    rec = (mst_rec_pace_t *) mst_ring_reserve(&k->req, sizeof(*rec));
    assert_non_null(rec);

    rec->head.type = MST_REC_PACE;
    rec->head.id = id;
    rec->head.slot_epoch = k->slot->epoch;
    rec->head.engine_epoch = w->epoch;
    rec->pace = rate;
    rec->unused = 0;

    mst_ring_publish(&k->req, &rec->head);
}


/* the next record, checked, as a copy; NULL: there is none */

static inline const mst_record_t *
worker_next(worker_t *k)
{
    int                  rc;
    uint32_t             len;
    mst_err_t            err;
    mst_record_t        *copy;
    const mst_record_t  *rec;

    rc = mst_ring_peek(&k->rsp, &rec, &len);

    if (rc == MST_AGAIN) {
        return NULL;
    }

    assert_int_equal(rc, MST_OK);
    memcpy(k->copy, rec, len);
    mst_ring_consume(&k->rsp, len);

    copy = (mst_record_t *) k->copy;
    memset(&err, 0, sizeof(err));

    if (mst_record_check(copy, len, &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    return copy;
}


static inline const mst_record_t *
worker_expect(worker_t *k, uint16_t type, uint64_t id)
{
    const mst_record_t  *rec;

    rec = worker_next(k);

    assert_non_null(rec);
    assert_int_equal(rec->type, type);
    assert_int_equal(rec->id, id);

    return rec;
}


static inline void
world_held(world_t *w, uint32_t requests, uint64_t tokens)
{
    uint32_t  r;
    uint64_t  t;

    mst_place_held(w->map.shm, &r, &t);

    assert_int_equal(r, requests);
    assert_int_equal(t, tokens);
}


#endif /* SERVE_H */

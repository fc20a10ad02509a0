
/*
 * What goes out: exact records for one and for many requests, gathering,
 * full rings, cancels, and memory that runs out.
 */

#include "serve.h"
#include "engine/mst_serve_local.h"


static const char  fox[] = "The quick brown fox jumps over the lazy dog. ";


static void
test_answer(void **state)
{
    world_t                  w;
    uint32_t                 k;
    worker_t                 a;
    uint64_t                 count;
    mst_rec_submit_t        *s;
    const mst_record_t      *rec;
    const mst_rec_top_t     *top;
    const unsigned char     *at;
    const mst_rec_done_t    *done;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *tokens;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());
    assert_true(read(w.fd0 + 1, &count, 8) == 8);    /* of READY */

    mst_shm_sleep(&a.slot->sleeping);
    s = worker_submit(&w, &a, 77, 10, 100);
    worker_send(&a, s);
    world_held(&w, 1, 10);
    settle(&w, 1000);

    /* many records, one wake-up: it said that it sleeps once */

    assert_true(read(w.fd0 + 1, &count, 8) == 8);
    assert_int_equal(count, 1);
    assert_int_equal(a.slot->sleeping, 0);

    (void) worker_expect(&a, MST_REC_ADMIT, 77);
    k = 0;

    for ( ;; ) {
        rec = worker_next(&a);
        assert_non_null(rec);

        if (rec->type == MST_REC_DONE) {
            break;
        }

        assert_int_equal(rec->type, MST_REC_TOKENS);
        assert_int_equal(rec->engine_epoch, w.epoch);
        tokens = (const mst_rec_tokens_t *) rec;
        assert_int_equal(tokens->first, k);
        at = (const unsigned char *) (tokens + 1);

        while ((token = mst_record_next_token(tokens, &at, &top)) != NULL) {
            assert_int_equal(token->id, fox[k++ % (sizeof(fox) - 1)]);
        }
    }

    done = (const mst_rec_done_t *) rec;
    assert_int_equal(k, 100);
    assert_int_equal(done->finish, MST_FINISH_LENGTH);
    assert_int_equal(done->usage.prompt, 10);
    assert_int_equal(done->usage.completion, 100);
    assert_null(worker_next(&a));

    world_held(&w, 0, 0);
    assert_int_equal(w.map.shm->stat.completion_tokens, 100);
    assert_int_equal(w.map.shm->stat.prompt_tokens, 10);
    assert_int_equal(w.map.shm->stat.finished, 1);

    world_fini(&w);
}


/* an engine with "late", and a worker that READY has woken */

static void
late(world_t *w, worker_t *a)
{
    uint64_t  count;

    world_init(w, NULL, 8);
    world_engine_dies(w);
    w->late = 1;
    world_engine(w, NULL, 8);

    worker_claim(w, a, (uint32_t) getpid());
    assert_true(read(w->fd0 + 1, &count, 8) == 8);
}


/* with "late" a step is told of when the next one has begun, or when there is
   none: records, numbers and one wake-up */

static void
test_late(void **state)
{
    world_t    w;
    worker_t   a;
    uint64_t   count;

    (void) state;

    late(&w, &a);

    mst_shm_sleep(&a.slot->sleeping);
    worker_send(&a, worker_submit(&w, &a, 77, 10, 3));
    pass(&w, 1);

    assert_null(worker_next(&a));
    assert_int_equal(w.map.shm->stat.completion_tokens, 0);
    assert_true(a.slot->sleeping >= 2);
    assert_true(read(w.fd0 + 1, &count, 8) == -1);

    /* as from inside the next: what there is, then the wake-up */

    assert_true(mst_serve_tell(w.serve) >= 2);
    assert_int_equal(w.map.shm->stat.completion_tokens, 1);
    assert_int_equal(w.map.shm->stat.steps, 1);
    assert_int_equal(a.slot->sleeping, 0);
    (void) worker_expect(&a, MST_REC_ADMIT, 77);
    (void) worker_expect(&a, MST_REC_TOKENS, 77);
    assert_true(read(w.fd0 + 1, &count, 8) == -1);

    assert_int_equal(mst_serve_tell(w.serve), 0);
    assert_true(read(w.fd0 + 1, &count, 8) == 8);
    assert_int_equal(count, 1);

    mst_shm_sleep(&a.slot->sleeping);
    assert_int_equal(mst_serve_tell(w.serve), 0);      /* it is told */
    assert_true(read(w.fd0 + 1, &count, 8) == -1);
    assert_true(a.slot->sleeping >= 2);
    assert_null(worker_next(&a));

    pass(&w, 1);
    assert_null(worker_next(&a));
    pass(&w, 1);                               /* nobody asked in this step */
    (void) worker_expect(&a, MST_REC_TOKENS, 77);
    (void) worker_expect(&a, MST_REC_DONE, 77);
    assert_true(read(w.fd0 + 1, &count, 8) == 8);

    mst_shm_sleep(&a.slot->sleeping);
    worker_send(&a, worker_submit(&w, &a, 78, 10, 1));
    settle(&w, 100);
    assert_true(read(w.fd0 + 1, &count, 8) == 8);
    assert_int_equal(a.slot->sleeping, 0);
    (void) worker_expect(&a, MST_REC_ADMIT, 78);
    (void) worker_expect(&a, MST_REC_TOKENS, 78);
    (void) worker_expect(&a, MST_REC_DONE, 78);
    assert_null(worker_next(&a));

    world_fini(&w);
}


/* a wake-up is due, and nothing behind it */

static void
woken(world_t *w)
{
    uint64_t  count;

    assert_true(mst_serve_tell(w->serve) >= 2);
    assert_int_equal(mst_serve_tell(w->serve), 0);
    assert_true(read(w->fd0 + 1, &count, 8) == 8);
}


/* tokens behind the first one are there, and a worker that was woken a short
   time before sleeps on: until it has slept long enough, or for other news */

static void
test_gather(void **state)
{
    world_t    w;
    worker_t   a;
    uint64_t   count;

    (void) state;

    late(&w, &a);
    w.serve->gather_ns = UINT64_MAX;

    mst_shm_sleep(&a.slot->sleeping);
    worker_send(&a, worker_submit(&w, &a, 77, 10, 5));
    pass(&w, 1);
    woken(&w);                                 /* the first one */
    (void) worker_expect(&a, MST_REC_ADMIT, 77);
    (void) worker_expect(&a, MST_REC_TOKENS, 77);

    mst_shm_sleep(&a.slot->sleeping);
    pass(&w, 1);
    assert_int_equal(mst_serve_tell(w.serve), 0);      /* kept */
    assert_int_equal(mst_serve_tell(w.serve), 0);
    assert_true(read(w.fd0 + 1, &count, 8) == -1);
    assert_true(a.slot->sleeping >= 2);
    (void) worker_expect(&a, MST_REC_TOKENS, 77);

    w.serve->gather_ns = 0;                            /* in a long step */
    woken(&w);

    mst_shm_sleep(&a.slot->sleeping);
    pass(&w, 1);
    woken(&w);                                 /* long ago */
    (void) worker_expect(&a, MST_REC_TOKENS, 77);

    w.serve->gather_ns = UINT64_MAX;
    mst_shm_sleep(&a.slot->sleeping);
    pass(&w, 1);
    assert_int_equal(mst_serve_tell(w.serve), 0);
    assert_true(read(w.fd0 + 1, &count, 8) == -1);
    pass(&w, 1);
    woken(&w);                                 /* the end of it */
    (void) worker_expect(&a, MST_REC_TOKENS, 77);
    (void) worker_expect(&a, MST_REC_TOKENS, 77);
    (void) worker_expect(&a, MST_REC_DONE, 77);

    world_fini(&w);
}


/* no step follows: nothing is kept */

static void
test_gather_idle(void **state)
{
    world_t   w;
    worker_t  a;

    (void) state;

    late(&w, &a);
    w.serve->gather_ns = UINT64_MAX;
    worker_send(&a, worker_submit(&w, &a, 77, 10, 1000));
    pass(&w, 1);
    assert_int_equal(mst_serve_tell(w.serve), 0);      /* it is awake */

    mst_shm_sleep(&a.slot->sleeping);
    pass(&w, 1);
    assert_int_equal(mst_serve_tell(w.serve), 0);
    assert_true(a.slot->sleeping >= 2);

    /* as a pass does in which there was nothing to compute */

    w.serve->gather = 0;
    w.serve->due = 1;
    woken(&w);

    world_fini(&w);
}


/* one wake-up with each call: first who takes this thread's own core */

static void
test_cores(void **state)
{
    world_t     w;
    uint32_t    own;
    uint64_t    count;
    worker_t    a[3];
    cpu_set_t   one, old;

    (void) state;

    assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
    own = mst_shm_core();
    CPU_ZERO(&one);
    CPU_SET(own - 2, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);

    world_init(&w, NULL, 8);
    world_engine_dies(&w);
    w.late = 1;
    world_engine(&w, NULL, 8);

    for (uint64_t i = 0; i < 3; i++) {
        worker_claim(&w, &a[i], (uint32_t) getpid());
        assert_true(read(w.fd0 + 1 + (int) i, &count, 8) == 8);
        worker_send(&a[i], worker_submit(&w, &a[i], 77, 10, 3));
    }

    a[0].slot->sleeping = own + 1;
    a[1].slot->sleeping = own;
    a[2].slot->sleeping = 1;
    pass(&w, 1);

    assert_int_equal(mst_serve_tell(w.serve), own);
    assert_true(read(w.fd0 + 2, &count, 8) == -1);
    assert_int_equal(mst_serve_tell(w.serve), 1);
    assert_true(read(w.fd0 + 2, &count, 8) == 8);
    assert_int_equal(mst_serve_tell(w.serve), own + 1);
    assert_true(read(w.fd0 + 3, &count, 8) == 8);
    assert_true(read(w.fd0 + 1, &count, 8) == -1);
    assert_int_equal(mst_serve_tell(w.serve), 0);
    assert_true(read(w.fd0 + 1, &count, 8) == 8);

    world_fini(&w);
    assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
}


/* counts what arrives until all n requests of ids 0 .. n-1 have ended */

static void
collect(worker_t *a, uint32_t *got, uint8_t *ends, uint32_t n,
    uint32_t *left)
{
    const mst_record_t      *rec;
    const mst_rec_tokens_t  *tokens;

    while ((rec = worker_next(a)) != NULL) {
        assert_true(rec->id < n);

        switch (rec->type) {

        case MST_REC_ADMIT:
            assert_int_equal(got[rec->id], 0);
            break;

        case MST_REC_TOKENS:
            tokens = (const mst_rec_tokens_t *) rec;
            assert_int_equal(ends[rec->id], 0);
            assert_int_equal(tokens->first, got[rec->id]);
            got[rec->id] += tokens->n;
            break;

        case MST_REC_DONE:
            assert_int_equal(ends[rec->id], 0);
            assert_int_equal(((const mst_rec_done_t *) rec)->usage.completion,
                             got[rec->id]);
            ends[rec->id] = 1;
            (*left)--;
            break;

        default:
            fail_msg("record %u", rec->type);
        }
    }
}


/* a worker that reads nothing for long: the engine goes on, all arrives */

static void
test_full_ring(void **state)
{
    int        i;
    world_t    w;
    uint32_t   got[40], left, passes;
    uint8_t    ends[40];
    worker_t   a, b;
    uint64_t   wake;
    mst_err_t  err;

    (void) state;

    world_init(&w, NULL, 64);
    worker_claim(&w, &a, (uint32_t) getpid());
    worker_claim(&w, &b, (uint32_t) getpid());

    memset(got, 0, sizeof(got));
    memset(ends, 0, sizeof(ends));

    for (i = 0; i < 39; i++) {
        worker_send(&a, worker_submit(&w, &a, (uint64_t) i, 8, 1000));
    }

    settle(&w, 3000);                          /* all is computed */

    assert_int_equal(w.map.shm->stat.completion_tokens, 39000);
    world_held(&w, 0, 0);                      /* and given back */
    assert_true(mst_ring_room(&a.rsp) < RING);

    /* the other worker is served meanwhile */

    worker_send(&b, worker_submit(&w, &b, 5, 8, 3));
    settle(&w, 100);
    (void) worker_expect(&b, MST_REC_ADMIT, 5);
    (void) worker_expect(&b, MST_REC_TOKENS, 5);

    left = 39;
    passes = 0;
    memset(&err, 0, sizeof(err));

    while (left > 0) {
        collect(&a, got, ends, 39, &left);
        (void) mst_serve_pass(w.serve, &wake, &err);
        assert_true(passes++ < 3000);
    }

    for (i = 0; i < 39; i++) {
        assert_int_equal(got[i], 1000);
    }

    /* gathered: 39 * 1000 tokens of 16 bytes through a ring of 8 KiB */

    assert_true(passes < 39000 * 16 / (RING / 2) * 2);

    world_fini(&w);
}


static void
test_cancel(void **state)
{
    world_t                w;
    worker_t               a;
    const mst_record_t    *rec;
    const mst_rec_done_t  *done;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());

    worker_send(&a, worker_submit(&w, &a, 1, 10, 1000));
    worker_send(&a, worker_submit(&w, &a, 2, 10, 4));
    pass(&w, 3);
    worker_cancel(&w, &a, 1);
    worker_cancel(&w, &a, 99);                 /* unknown: no word about it */
    settle(&w, 50);

    world_held(&w, 0, 0);
    done = NULL;

    while ((rec = worker_next(&a)) != NULL) {
        if (rec->type == MST_REC_DONE && rec->id == 1) {
            done = (const mst_rec_done_t *) rec;
            assert_int_equal(done->finish, MST_FINISH_CANCELLED);
            assert_true(done->usage.completion < 10);
        }
    }

    assert_non_null(done);
    assert_int_equal(w.map.shm->stat.cancelled, 1);
    assert_int_equal(w.map.shm->stat.running, 0);
    assert_int_equal(w.map.shm->stat.bad_records, 0);

    /* a second CANCEL is too late and harmless */

    worker_cancel(&w, &a, 1);
    settle(&w, 50);
    assert_null(worker_next(&a));

    world_fini(&w);
}


/* thousands of ids, over several growths of the table */

static void
test_many(void **state)
{
    world_t    w;
    uint32_t   i, sent, left, *got;
    uint8_t   *ends;
    worker_t   a;

    (void) state;

    world_init(&w, NULL, 1024);
    worker_claim(&w, &a, (uint32_t) getpid());

    got = calloc(3000, sizeof(uint32_t));
    ends = calloc(3000, 1);
    left = 3000;
    sent = 0;

    while (left > 0) {
        for (i = 0; i < 30 && sent < 3000 && mst_ring_room(&a.req) > 512; i++)
        {
            if (sent - (3000 - left) > 900) {
                break;
            }

            worker_send(&a, worker_submit(&w, &a, sent, 4, 40));
            sent++;
        }

        pass(&w, 1);
        collect(&a, got, ends, 3000, &left);
    }

    for (i = 0; i < 3000; i++) {
        assert_int_equal(got[i], 40);
    }

    world_held(&w, 0, 0);

    free(got);
    free(ends);
    world_fini(&w);
}


/* log-probabilities arrive where they were asked for */

static void
test_logprobs(void **state)
{
    world_t                  w;
    worker_t                 a;
    mst_rec_submit_t        *s;
    const mst_rec_top_t     *top;
    const unsigned char     *at;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *tokens;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());

    s = worker_submit(&w, &a, 1, 10, 2);
    s->params.flags = MST_PARAMS_LOGPROBS;
    s->params.n_top = 1;
    worker_send(&a, s);
    settle(&w, 50);

    (void) worker_expect(&a, MST_REC_ADMIT, 1);
    tokens = (const mst_rec_tokens_t *) worker_expect(&a, MST_REC_TOKENS, 1);
    at = (const unsigned char *) (tokens + 1);
    token = mst_record_next_token(tokens, &at, &top);
    assert_int_equal(token->n_top, 1);
    assert_int_equal(top[0].id, 'T');

    world_fini(&w);
}


/* memory fails from the n-th call on, for all n: no request is left without
   an end, and no place is lost */

static void
test_memory(void **state)
{
    int                    i, n, seen;
    world_t                w;
    worker_t               a;
    const mst_record_t    *rec;

    (void) state;

    for (n = 1; n < 60; n++) {
        world_init(&w, NULL, 8);
        worker_claim(&w, &a, (uint32_t) getpid());

        for (i = 0; i < 3; i++) {
            worker_send(&a, worker_submit(&w, &a, (uint64_t) i, 40, 300));
        }

        mst_mem_fail_after(n);
        pass(&w, 400);
        mst_mem_fail_after(0);
        pass(&w, 400);

        world_held(&w, 0, 0);
        assert_int_equal(w.map.shm->stat.running, 0);

        seen = 0;

        while ((rec = worker_next(&a)) != NULL || seen == 0) {
            if (rec == NULL) {
                break;                         /* not even a call for it */
            }

            seen |= rec->type == MST_REC_DONE || rec->type == MST_REC_REFUSE;
            pass(&w, 1);
        }

        world_fini(&w);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gather_idle),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_full_ring),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_serve_call", tests, NULL, NULL);
}

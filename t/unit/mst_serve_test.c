
/*
 * The loop itself, in a thread: it sleeps and is woken, beats, keeps time,
 * and ends with the life pipe.
 */

#include "serve.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>


typedef struct {
    world_t        *w;
    pthread_t       thread;
    _Atomic int     rc;
} run_t;


static void *
run_main(void *data)
{
    run_t             *r;
    mst_err_t          err;
    mst_serve_info_t   info;

    r = data;
    memset(&err, 0, sizeof(err));
    memset(&info, 0, sizeof(info));

    info.n_vocab = 256;
    info.context = 4096;
    info.max_batch = 8;
    info.block_tokens = 16;
    info.weight_size = 12345;
    info.load_ns = 678;
    info.backend = "null model";

    r->rc = mst_serve_run(r->w->serve, r->w->engine, &info, &err);

    return NULL;
}


static void
run_start(run_t *r, world_t *w)
{
    r->w = w;
    r->rc = 1;
    atomic_store(&w->map.shm->state, MST_STATE_LOADING);

    assert_int_equal(pthread_create(&r->thread, NULL, run_main, r), 0);

    while (atomic_load(&w->map.shm->state) != MST_STATE_READY) {
        (void) usleep(1000);
    }
}


static void
run_end(run_t *r)
{
    uint64_t  one, start;

    one = 1;
    start = mst_time_ns();

    (void) close(r->w->life[1]);
    r->w->life[1] = -1;
    (void) !write(r->w->fd0, &one, sizeof(one));

    assert_int_equal(pthread_join(r->thread, NULL), 0);
    assert_int_equal(r->rc, MST_DONE);
    assert_true(mst_time_ns() - start < 10000 * MST_MS);
}


/* as a worker does: sleep, look, wait for its eventfd */

static const mst_record_t *
wait_next(world_t *w, worker_t *k)
{
    int                  i;
    uint64_t             count;
    struct pollfd        pf;
    const mst_record_t  *rec;

    for (i = 0; i < 10; i++) {
        rec = worker_next(k);

        if (rec != NULL) {
            return rec;
        }

        mst_shm_sleep(&k->slot->sleeping);

        if (k->rsp.pos->tail != k->rsp.own) {
            continue;
        }

        pf.fd = w->fd0 + 1 + (int) k->i;
        pf.events = POLLIN;

        if (poll(&pf, 1, 3000) == 0) {
            break;
        }

        (void) !read(pf.fd, &count, 8);
    }

    fail_msg("no record in 3 s");

    return NULL;
}


static void
wake_engine(world_t *w)
{
    uint64_t  one;

    one = 1;

    if (mst_shm_wake(&w->map.shm->sleeping)) {
        assert_int_equal(write(w->fd0, &one, sizeof(one)), sizeof(one));
    }
}


/*
 * The whole protocol of sleep and wake: no request may ever hang.  Then
 * idle: it beats each second and costs next to nothing.
 */

static void
test_wake(void **state)
{
    int                  i;
    char                 name[64];
    run_t                r;
    world_t              w;
    worker_t             a;
    uint64_t             beat, cpu;
    mst_shm_t           *shm;
    clockid_t            clock;
    struct timespec      ts;
    const mst_record_t  *rec;

    (void) state;

    world_init(&w, NULL, 8);
    shm = w.map.shm;
    worker_claim(&w, &a, (uint32_t) getpid());
    run_start(&r, &w);

    for (i = 0; i < 3000; i++) {
        worker_send(&a, worker_submit(&w, &a, (uint64_t) i, 3, 2));
        wake_engine(&w);

        do {
            rec = wait_next(&w, &a);
            assert_int_equal(rec->id, i);
        } while (rec->type != MST_REC_DONE);
    }

    world_held(&w, 0, 0);

    assert_int_equal(shm->max_batch, 8);
    assert_int_equal(shm->context, 4096);
    assert_int_equal(shm->stat.block_tokens, 16);
    assert_int_equal(shm->stat.weight_size, 12345);
    assert_int_equal(shm->stat.load_ns, 678);
    assert_true(shm->stat.blocks_total > 0);
    mst_stat_backend(&shm->stat, name);
    assert_string_equal(name, "null model");

    assert_int_equal(pthread_getcpuclockid(r.thread, &clock), 0);
    (void) clock_gettime(clock, &ts);
    cpu = (uint64_t) ts.tv_sec * MST_S + (uint64_t) ts.tv_nsec;
    beat = shm->stat.beat_ns;

    (void) usleep(1200000);

    assert_true(shm->stat.beat_ns > beat);
    assert_true(mst_stat_beat_age(&shm->stat, mst_time_ns()) < 5000 * MST_MS);

    (void) clock_gettime(clock, &ts);
    cpu = (uint64_t) ts.tv_sec * MST_S + (uint64_t) ts.tv_nsec - cpu;
    print_message("idle for 1.2 s: cpu %llu us\n",
                  (unsigned long long) cpu / 1000);
    assert_true(cpu < 6 * MST_MS);             /* 0.5 % */

    run_end(&r);
    world_fini(&w);
}


/* tokens at a rate: the loop sleeps between them and does not drift */

static void
test_rate(void **state)
{
    run_t                   r;
    world_t                 w;
    worker_t                a;
    uint64_t                start, took;
    mst_null_conf_t         null;
    const mst_record_t     *rec;

    (void) state;

    memset(&null, 0, sizeof(null));
    null.rate = 200;
    null.delay_ns = 50 * MST_MS;

    world_init(&w, &null, 8);
    worker_claim(&w, &a, (uint32_t) getpid());
    run_start(&r, &w);

    start = mst_time_ns();
    worker_send(&a, worker_submit(&w, &a, 1, 3, 101));
    wake_engine(&w);

    do {
        rec = wait_next(&w, &a);
    } while (rec->type != MST_REC_DONE);

    took = (mst_time_ns() - start) / MST_MS;

    print_message("101 tokens in %llu ms\n", (unsigned long long) took);
    assert_true(took >= 549 && took < 10000);

    run_end(&r);
    world_fini(&w);
}


/* counters go on over engines; what is of one engine begins anew */

static void
test_counters(void **state)
{
    world_t   w;
    worker_t  a;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());
    worker_send(&a, worker_submit(&w, &a, 1, 10, 5));
    settle(&w, 50);
    assert_int_equal(w.map.shm->stat.completion_tokens, 5);
    assert_int_equal(w.map.shm->stat.steps, 5);

    world_engine_dies(&w);
    world_engine(&w, NULL, 8);
    assert_int_equal(w.map.shm->stat.steps, 0);
    worker_send(&a, worker_submit(&w, &a, 2, 10, 7));
    settle(&w, 50);

    assert_int_equal(w.map.shm->stat.completion_tokens, 12);
    assert_int_equal(w.map.shm->stat.prompt_tokens, 20);
    assert_int_equal(w.map.shm->stat.finished, 2);
    assert_int_equal(w.map.shm->stat.steps, 7);
    assert_int_equal(w.map.shm->stat.total_steps, 12);

    world_fini(&w);
}


/* orders of a worker: done before what it submits next, and each once */

static uint64_t
knocked(world_t *w, int i)
{
    uint64_t  n;

    n = 0;
    (void) !read(w->fd0 + 1 + i, &n, sizeof(n));

    return n;
}


static void
test_orders(void **state)
{
    int       i;
    world_t   w;
    worker_t  a;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());

    /* the same prompt for ids of the same remainder */

    for (i = 0; i < 2; i++) {
        worker_send(&a, worker_submit(&w, &a, (uint64_t) i * 26, 40, 2));
        settle(&w, 50);
    }

    assert_int_equal(w.map.shm->stat.cached_tokens, 32);
    assert_int_equal(w.map.shm->stat.blocks_cached, 2);

    atomic_fetch_add(&w.map.shm->flush, 1);
    worker_send(&a, worker_submit(&w, &a, 52, 40, 2));
    settle(&w, 50);
    assert_int_equal(w.map.shm->stat.cached_tokens, 32);

    worker_send(&a, worker_submit(&w, &a, 78, 40, 2));
    settle(&w, 50);
    assert_int_equal(w.map.shm->stat.cached_tokens, 64);
    assert_non_null(strstr(w.lines[(w.n_lines - 1) % 8],
                           "the prefix cache is emptied, 2 blocks were known"));

    /* a knock reaches the slots of nobody, too */

    for (i = 0; i < N_SLOTS; i++) {
        (void) knocked(&w, i);
    }

    pass(&w, 3);
    assert_int_equal(knocked(&w, 2), 0);

    atomic_fetch_add(&w.map.shm->knock, 1);
    pass(&w, 3);

    for (i = 0; i < N_SLOTS; i++) {
        assert_int_equal(knocked(&w, i), 1);
    }

    /* an engine that comes later has nothing to do for it */

    atomic_fetch_add(&w.map.shm->knock, 1);
    world_engine_dies(&w);
    world_engine(&w, NULL, 8);
    (void) knocked(&w, 2);
    pass(&w, 3);
    assert_int_equal(knocked(&w, 2), 0);

    world_fini(&w);
}


/* a sleeping engine is woken by an order */

static void
test_order_wakes(void **state)
{
    int            i;
    run_t          r;
    world_t        w;
    struct pollfd  pf;

    (void) state;

    world_init(&w, NULL, 8);
    run_start(&r, &w);

    for (i = 0; i < 1000; i++) {
        (void) knocked(&w, 1);

        atomic_fetch_add(&w.map.shm->knock, 1);
        wake_engine(&w);

        pf.fd = w.fd0 + 2;
        pf.events = POLLIN;
        assert_int_equal(poll(&pf, 1, 10000), 1);
    }

    run_end(&r);
    world_fini(&w);
}


/* creation gives everything back whichever allocation fails */

static void
test_create(void **state)
{
    int               n;
    world_t           w;
    mst_err_t         err;
    mst_serve_t      *s;
    mst_serve_conf_t  conf;

    (void) state;

    world_init(&w, NULL, 8);

    memset(&conf, 0, sizeof(conf));
    conf.map = &w.map;
    conf.wake_fd = w.fd0;
    conf.slot_fd = w.fd0 + 1;
    conf.life_fd = -1;

    for (n = 1; n < 100; n++) {
        memset(&err, 0, sizeof(err));
        mst_mem_fail_after(n);
        s = mst_serve_create(&conf, &err);
        mst_mem_fail_after(0);

        if (s != NULL) {
            break;
        }

        assert_true(err.text[0] != '\0');
    }

    assert_int_equal(n, 5);
    mst_serve_destroy(s);
    mst_serve_destroy(NULL);

    conf.wake_fd = 9999;
    assert_null(mst_serve_create(&conf, &err));

    world_fini(&w);
}


/* who waits and how fast it goes, for those who decide without a question */

static void
test_stats(void **state)
{
    int                      i;
    world_t                  w;
    worker_t                 a;
    mst_rec_submit_t        *s;
    const mst_stat_t        *st;
    const mst_stat_class_t  *c;

    (void) state;

    world_init(&w, NULL, 1);
    worker_claim(&w, &a, (uint32_t) getpid());
    st = &w.map.shm->stat;

    for (i = 0; i < 4; i++) {
        s = worker_submit(&w, &a, (uint64_t) i, 10, 20);
        s->claim.priority = i / 2;
        s->claim.ttft_ns = i == 3 ? UINT64_MAX / 2 : 0;
        worker_send(&a, s);
    }

    worker_control(&w, &a, 0, MST_REC_PAUSE);
    pass(&w, 1);

    /* the last is first: it has a date in the higher class */

    assert_int_equal(st->running, 1);
    assert_int_equal(st->waiting, 3);
    assert_int_equal(st->waiting_tokens, 30);
    assert_int_equal(st->paused, 1);

    c = &st->classes[mst_claim_rank(1)];
    assert_int_equal(c->n, 1);
    assert_int_equal(c->tokens, 10);
    assert_int_equal(c->n_dated, 0);
    assert_int_equal(st->classes[mst_claim_rank(0)].n, 1);

    worker_control(&w, &a, 0, MST_REC_RESUME);
    settle(&w, 200);

    assert_int_equal(st->paused, 0);
    assert_int_equal(c->n + st->classes[mst_claim_rank(0)].n, 0);
    assert_true(st->finish_rate > 0);
    assert_true(st->token_rate > 0);

    /* the next engine says it anew */

    world_engine_dies(&w);
    w.map.shm->stat.classes[3].n = 5;
    world_engine(&w, NULL, 1);
    pass(&w, 1);
    assert_int_equal(w.map.shm->stat.classes[3].n, 0);

    world_fini(&w);
}


/* who looks while a long step computes: it began from nothing, and others
   wait meanwhile */

static uint64_t  seen[3];


static void
look_within(mst_stat_t *st)
{
    seen[0] = mst_stat_get(&st->running);
    seen[1] = mst_stat_get(&st->waiting);
    seen[2] = mst_stat_get(&st->stepped_ns);
}


static void
test_within(void **state)
{
    int       i;
    world_t   w;
    worker_t  a;
    uint64_t  start;

    (void) state;

    world_init(&w, NULL, 2);
    worker_claim(&w, &a, (uint32_t) getpid());
    w.within = look_within;
    start = mst_time_ns();

    for (i = 0; i < 3; i++) {
        worker_send(&a, worker_submit(&w, &a, (uint64_t) i, 10, 1));
    }

    pass(&w, 1);

    assert_int_equal(seen[0], 2);
    assert_int_equal(seen[1], 1);
    assert_true(seen[2] >= start);

    settle(&w, 50);
    assert_int_equal(mst_stat_get(&w.map.shm->stat.running), 0);

    world_fini(&w);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_wake),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_order_wakes),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_within),
        cmocka_unit_test(test_create)
    };

    return cmocka_run_group_tests_name("mst_serve", tests, NULL, NULL);
}

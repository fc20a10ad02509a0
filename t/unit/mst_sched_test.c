
/*
 * The scheduler against a slow one (mst_sched_slow.h): random operations; the
 * seed is printed and may be given as the first argument.
 */

#include "mst_sched_slow.h"


static uint64_t  seed = 1;
static uint64_t  draws;

static mst_prefix_t      cache;
static mst_sched_t       sched;
static uint64_t          refusals[MST_REFUSE_YIELD + 1];


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static void
submit(uint64_t now)
{
    uint32_t      i, n, ids[200];
    mst_submit_t  s;

    for (i = 0; i < MAX && slow[i].q; i++) {
        /* void */
    }

    if (i == MAX) {
        return;
    }

    memset(&s, 0, sizeof(s));
    mst_params_default(&s.params);

    s.prompt = ids;
    s.n_prompt = 1 + rnd(rnd(4) ? 10 : 100);
    s.params.max_tokens = 1 + rnd(rnd(4) ? 20 : 150);
    s.claim.priority = rnd(3) ? 0 : (int32_t) rnd(5) - 2;
    s.claim.fair_key = rnd(3);
    s.claim.fair_weight = rnd(4);
    s.claim.ttft_ns = rnd(4) ? 0 : now + 1 + rnd(60);
    s.claim.kv_reserve = rnd(3) ? 0 : rnd(3) ? rnd(30) : MST_RESERVE_FULL;
    s.claim.flags = rnd(3) ? 0 : MST_CLAIM_PREEMPT;
    s.deadline_ns = rnd(5) ? 0 : now + rnd(40);
    s.no_wait = rnd(6) == 0;
    s.salt[3] = (uint8_t) rnd(2);

    if (s.n_prompt > pool.n * conf.block_tokens) {
        s.n_prompt = pool.n * conf.block_tokens;
    }

    for (n = 0; n < s.n_prompt; n++) {
        ids[n] = n < 12 ? n : rnd(3);
    }

    memset(&slow[i], 0, sizeof(slow_t));

    slow[i].q = mst_seq_create(&s, now);
    slow[i].q->arrival = ++arrivals;
    slow[i].n_tokens = s.n_prompt;
    slow[i].flow = slow_flow(&s.claim);
    slow[i].flow->n++;
    slow_line_up(&slow[i], now);

    assert_int_equal(mst_sched_reserve(&sched, MAX), MST_OK);
    assert_int_equal(mst_sched_add(&sched, slow[i].q, now), MST_OK);
}


static void
toggle(uint32_t i, uint64_t now)
{
    if (slow[i].q) {
        slow[i].paused = slow[i].paused ? 0 : ++turns;
        slow_line_up(&slow[i], now);
        mst_sched_pause(&sched, slow[i].q, slow[i].paused != 0, now);
    }
}


static slow_t *
find(const mst_seq_t *q)
{
    uint32_t  i;

    for (i = 0; slow[i].q != q; i++) {
        assert_true(i < MAX);
    }

    return &slow[i];
}


static void
gone(slow_t *x)
{
    slow_free += x->blocks;
    assert_int_equal(x->q->n_blocks, 0);
    mst_seq_destroy(x->q);
    memset(x, 0, sizeof(slow_t));
}


static void
cancel(uint32_t i)
{
    if (slow[i].q) {
        mst_sched_remove(&sched, slow[i].q);
        slow_quit(&slow[i]);
        gone(&slow[i]);
    }
}


/* both have planned: the same? */

static void
compare(void)
{
    uint32_t    i;
    mst_seq_t  *q;

    assert_int_equal(sched.n_items, n_items);

    for (i = 0; i < n_items; i++) {
        assert_ptr_equal(sched.items[i], items[i]->q);
        assert_int_equal(sched.items[i]->n_step, items[i]->step);
        assert_int_equal(sched.items[i]->n_computed, items[i]->computed);
    }

    assert_int_equal(sched.n_running, slow_running());
    assert_int_equal(pool.n_used, pool.n - slow_free);
    assert_int_equal(sched.preemptions, slow_preemptions);

    for (i = 0; !mst_list_empty(&sched.leaving); i++) {
        q = mst_list_data(sched.leaving.next, mst_seq_t, queue);
        mst_list_remove(&q->queue);

        assert_true(i < n_left);
        assert_ptr_equal(q, left_by[i]->q);
        assert_int_equal(q->refuse ? (int) q->refuse : 100 + (int) q->finish,
                         left_why[i]);
        refusals[q->refuse]++;
        left_by[i]->blocks = 0;
        gone(left_by[i]);
    }

    assert_int_equal(i, n_left);
}


/* what holds for any plan, with and without the cache */

static void
check_invariants(void)
{
    uint32_t    i, k, n, tokens, waiting;
    uint32_t    refs[512];
    uint64_t    waiting_tokens;
    mst_seq_t  *q, *first[512];

    memset(refs, 0, sizeof(refs));
    memset(first, 0, sizeof(first));
    tokens = 0;
    waiting = 0;
    waiting_tokens = 0;

    for (i = 0; i < sched.n_items; i++) {
        q = sched.items[i];
        tokens += q->n_step;
        assert_true(q->n_step >= 1);
        assert_int_equal(q->item, i);
        assert_true(q->n_computed + q->n_step <= q->n_tokens);
        assert_true((q->n_computed + q->n_step + conf.block_tokens - 1)
                    / conf.block_tokens <= q->n_blocks);
        assert_true(q->n_tokens < q->size_tokens);
    }

    assert_int_equal(tokens, sched.n_tokens);
    assert_true(tokens <= conf.budget);
    assert_true(sched.n_running <= conf.max_batch);

    for (i = 0; i < MAX; i++) {
        q = slow[i].q;

        if (q == NULL) {
            continue;
        }

        if (q->state == MST_SEQ_WAITING) {
            waiting++;
            waiting_tokens += q->n_tokens;
            assert_int_equal(q->n_blocks, 0);
        }

        for (k = 0; k < q->n_blocks; k++) {
            n = q->blocks[k];
            refs[n]++;

            if (first[n] == NULL) {
                first[n] = q;
                continue;
            }

            /* in two tables: the same place, tokens and tenant, all of it
               computed */

            assert_ptr_equal(conf.prefix, &cache);
            assert_int_equal(first[n]->blocks[k], n);
            assert_true(k < q->n_named && k < first[n]->n_named);
            assert_memory_equal(q->salt, first[n]->salt, MST_SALT_SIZE);
            assert_memory_equal(q->tokens, first[n]->tokens,
                                (k + 1) * conf.block_tokens * 4);
        }
    }

    for (i = 0; i < pool.n; i++) {
        assert_int_equal(pool.blocks[i].ref, refs[i]);
    }

    assert_int_equal(pool.n_used + pool.n_cached + pool.n_free, pool.n);
    assert_true(sched.room.promised <= mst_block_available(&pool));
    assert_int_equal(sched.n_waiting, waiting);
    assert_int_equal(sched.waiting_tokens, waiting_tokens);
}


/* the step is computed: tokens come, come later, or the answer ends */

static void
compute(uint64_t now)
{
    uint32_t        i, n;
    slow_t         *x;
    mst_seq_t      *q;
    mst_sampled_t   sampled;

    n = sched.n_items;

    for (i = 0; i < n; i++) {
        q = sched.items[i];
        x = find(q);

        if (q->n_computed + q->n_step == q->n_tokens) {
            q->ready_ns = rnd(3) ? 0 : now + rnd(5);

            if (rnd(5) == 0) {
                q->n_step--;                   /* not yet */
                mst_sched_computed(&sched, q);

            } else {
                mst_sched_computed(&sched, q);
                memset(&sampled, 0, sizeof(sampled));
                sampled.id = rnd(3);

                if (mst_seq_append(q, &sampled, 100000)) {
                    mst_sched_remove(&sched, q);
                    slow_quit(x);
                    gone(x);
                    continue;
                }
            }

        } else {
            mst_sched_computed(&sched, q);
        }

        mst_sched_requeue(&sched, q, now);

        x->computed = q->n_computed;
        x->n_tokens = q->n_tokens;
        x->ready_ns = q->ready_ns;
        x->step = 0;
        slow_line_up(x, now);
    }

    sched.n_items = 0;
    sched.n_tokens = 0;
}


static uint32_t
living(void)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < MAX; i++) {
        n += slow[i].q != NULL;
    }

    return n;
}


static uint32_t
awake(void)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < MAX; i++) {
        n += slow[i].q != NULL && !slow[i].q->paused;
    }

    return n;
}


static void
setup_run(int prefix)
{
    mst_prefix_hash_pt  hash;

    memset(slow, 0, sizeof(slow));
    memset(slow_flows, 0, sizeof(slow_flows));
    memset(slow_vtimes, 0, sizeof(slow_vtimes));
    memset(&conf, 0, sizeof(conf));

    turns = 0;
    slow_serials = 0;
    arrivals = 0;
    slow_preemptions = 0;

    conf.block_tokens = 1 + rnd(8);
    conf.max_batch = 1 + rnd(rnd(2) ? 8 : 40);
    conf.budget = 1 + rnd(rnd(2) ? 16 : 100);
    conf.pool = &pool;
    conf.prefix = prefix ? &cache : NULL;

    assert_int_equal(mst_block_init(&pool, 2 + rnd(rnd(2) ? 30 : 200)),
                     MST_OK);

    slow_free = pool.n;
    hash = mst_hash;

    assert_int_equal(mst_prefix_init(&cache, &pool, conf.block_tokens, hash),
                     MST_OK);
    assert_int_equal(mst_sched_init(&sched, &conf), MST_OK);

    /* so fast that no time is too short (mst_promise_test.c) */

    mst_reckon_add(&sched.reckon, 1000000000, 1000000000, 1, 0);
}


static void
finish_run(void)
{
    assert_int_equal(living(), 0);
    assert_int_equal(pool.n_used, 0);
    assert_int_equal(sched.n_running, 0);
    assert_int_equal(sched.n_waiting, 0);
    assert_int_equal(sched.waiting_tokens, 0);
    assert_int_equal(sched.timed.n + sched.deadlines.n, 0);
    assert_int_equal(sched.n_paused, 0);
    assert_int_equal(sched.room.promised, 0);
    assert_true(mst_list_empty(&sched.no_waits));
    assert_true(mst_list_empty(&sched.yields));
    assert_true(mst_list_empty(&sched.stalled));
    assert_null(mst_order_waiting(&sched.order));
    assert_null(mst_order_prefill(&sched.order));
    assert_null(mst_order_decode(&sched.order));
    assert_null(mst_order_last(&sched.order, NULL));

    mst_sched_fini(&sched);
    mst_prefix_fini(&cache);
    mst_block_fini(&pool);
}


/* with the cache the slow scheduler is not asked: it knows no hits */

static void
take_leave(void)
{
    mst_seq_t  *q;

    while (!mst_list_empty(&sched.leaving)) {
        q = mst_list_data(sched.leaving.next, mst_seq_t, queue);
        mst_list_remove(&q->queue);
        gone(find(q));
    }
}


static void
random_run(int prefix, uint32_t steps)
{
    uint32_t  k, i, idle;
    uint64_t  now;

    setup_run(prefix);

    now = 1000;
    idle = 0;

    for (k = 0; k < steps || living(); k++) {

        /* all finish, without new ones, before long */

        assert_true(k < steps + 40000);

        for (i = rnd(3); i && k < steps; i--) {
            submit(now);
        }

        if (rnd(40) == 0) {
            cancel(rnd(MAX));
        }

        if (rnd(10) == 0) {
            toggle(rnd(MAX), now);
        }

        for (i = 0; i < MAX && k >= steps; i++) {
            if (slow[i].paused) {
                toggle(i, now);
            }
        }

        if (!prefix) {
            slow_plan(now);
        }

        mst_sched_plan(&sched, now);

        if (prefix) {
            take_leave();

        } else {
            compare();
        }

        check_invariants();

        idle = sched.n_items || sched.moved ? 0 : idle + 1;

        if (idle && awake()) {
            assert_true(mst_sched_wake(&sched) > now);
        }

        compute(now);

        if (!prefix) {
            assert_int_equal(mst_sched_wake(&sched), slow_wake());
        }

        check_invariants();

        now += rnd(3);
    }

    finish_run();
}


static void
test_random(void **state)
{
    int  i;

    (void) state;

    for (i = 0; i < 150; i++) {
        random_run(0, 150);
    }

    /* all of it did happen */

    for (i = 0; i < 3; i++) {
        print_message("taken %u\n", (unsigned) slow_taken[i]);
        assert_true(slow_taken[i] > 20);
    }

    assert_true(refusals[MST_REFUSE_YIELD] > 20);
    assert_true(refusals[MST_REFUSE_KV_FULL] > 20);
    assert_true(refusals[MST_REFUSE_DEADLINE] > 20);
}


static void
test_random_cache(void **state)
{
    int  i;

    (void) state;

    for (i = 0; i < 150; i++) {
        random_run(1, 150);
    }
}


static void
test_memory(void **state)
{
    long  n;

    (void) state;

    memset(&conf, 0, sizeof(conf));
    conf.max_batch = 10;

    for (n = 1; n <= 2; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_sched_init(&sched, &conf), MST_ERROR);
        mst_mem_fail_after(0);
        mst_sched_fini(&sched);
    }

    assert_int_equal(mst_sched_init(&sched, &conf), MST_OK);

    for (n = 1; n <= 2; n++) {
        mst_mem_fail_after(n);
        assert_int_equal(mst_sched_reserve(&sched, 1000), MST_ERROR);
        mst_mem_fail_after(0);
        mst_sched_fini(&sched);
        assert_int_equal(mst_sched_init(&sched, &conf), MST_OK);
    }

    mst_sched_fini(&sched);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_random_cache),
        cmocka_unit_test(test_memory)
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}

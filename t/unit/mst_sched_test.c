
/*
 * The scheduler against a slow one that knows no queue and no heap: it looks
 * at everybody each time and picks by the rules of mst_sched.h.  Random
 * operations; the seed is printed and may be given as the first argument.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_sched.h"


#define MAX  64                /* sequences at once */


typedef struct {
    mst_seq_t  *q;             /* NULL: the place is free */
    int         running;
    int         started;
    uint32_t    n_tokens;
    uint32_t    computed;
    uint32_t    blocks;
    uint64_t    ready_ns;
    uint64_t    turn;          /* when it got in line, 0: sleeps */
    uint32_t    step;          /* tokens in this step */
} slow_t;


static uint64_t  seed = 1;
static uint64_t  draws;

static mst_block_pool_t  pool;
static mst_prefix_t      cache;
static mst_sched_t       sched;
static mst_sched_conf_t  conf;

static slow_t     slow[MAX];
static uint64_t   turns, arrivals;
static uint32_t   slow_free;
static uint64_t   slow_preemptions;

/* what the slow one planned */
static slow_t    *items[MAX];
static uint32_t   n_items;
static slow_t    *left_by[MAX];
static int        left_why[MAX];
static uint32_t   n_left;


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static int
before(const slow_t *a, const slow_t *b)
{
    return a->q->claim.priority > b->q->claim.priority
           || (a->q->claim.priority == b->q->claim.priority
               && a->q->arrival < b->q->arrival);
}


static uint32_t
needs(const slow_t *x)
{
    return (x->n_tokens + conf.block_tokens - 1) / conf.block_tokens;
}


static void
slow_leave(slow_t *x, int why)
{
    slow_free += x->blocks;
    x->blocks = 0;
    x->running = 0;

    left_by[n_left] = x;
    left_why[n_left++] = why;
    x->turn = UINT64_MAX;              /* gone, but still here to compare */
}


static int
slow_gone(const slow_t *x)
{
    return x->q == NULL || x->turn == UINT64_MAX;
}


/* mode 0: running and in line with one token; 1: with more; 2: waiting;
   3: last running; 4: earliest sleeper that is due; 5: earliest deadline */

static slow_t *
slow_pick(int mode, uint64_t now)
{
    slow_t  *x, *best;

    best = NULL;

    for (x = slow; x < slow + MAX; x++) {
        if (slow_gone(x)) {
            continue;
        }

        switch (mode) {

        case 0:
            if (x->running && x->turn && x->step == 0
                && x->n_tokens - x->computed == 1
                && (best == NULL || x->turn < best->turn))
            {
                best = x;
            }

            break;

        case 1:
            if (x->running && x->turn && x->step == 0
                && x->n_tokens - x->computed > 1
                && (best == NULL || before(x, best)))
            {
                best = x;
            }

            break;

        case 2:
            if (!x->running && x->turn
                && (best == NULL || before(x, best)))
            {
                best = x;
            }

            break;

        case 3:
            if (x->running && (best == NULL || before(best, x))) {
                best = x;
            }

            break;

        case 4:
            if (!x->turn && x->ready_ns <= now
                && (best == NULL || x->ready_ns < best->ready_ns
                    || (x->ready_ns == best->ready_ns
                        && x->q->arrival < best->q->arrival)))
            {
                best = x;
            }

            break;

        default:
            if (!x->started && x->q->deadline_ns
                && x->q->deadline_ns <= now
                && (best == NULL || x->q->deadline_ns < best->q->deadline_ns
                    || (x->q->deadline_ns == best->q->deadline_ns
                        && x->q->arrival < best->q->arrival)))
            {
                best = x;
            }
        }
    }

    return best;
}


static uint32_t
slow_running(void)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < MAX; i++) {
        n += !slow_gone(&slow[i]) && slow[i].running;
    }

    return n;
}


static void
slow_take(slow_t *x, uint32_t *left)
{
    x->step = x->n_tokens - x->computed;

    if (x->step > *left) {
        x->step = *left;
    }

    *left -= x->step;
    items[n_items++] = x;
}


static void
slow_preempt(slow_t *v, uint32_t *left, uint64_t now)
{
    uint32_t  i;

    for (i = 0; i < n_items; i++) {
        if (items[i] == v) {
            *left += v->step;
            n_items--;
            memmove(items + i, items + i + 1, (n_items - i) * sizeof(v));
            break;
        }
    }

    slow_free += v->blocks;
    slow_preemptions++;

    v->blocks = 0;
    v->computed = 0;
    v->running = 0;
    v->step = 0;
    v->turn = v->ready_ns > now ? 0 : ++turns;
}


static void
slow_plan(uint64_t now)
{
    int       preempted, full;
    slow_t   *x, *v;
    uint32_t  left, reserve;

    n_items = 0;
    n_left = 0;
    preempted = 0;
    full = 0;
    left = conf.budget;

    while ((x = slow_pick(5, now)) != NULL) {
        slow_leave(x, MST_REFUSE_DEADLINE);
    }

    while ((x = slow_pick(4, now)) != NULL) {
        x->turn = ++turns;
    }

    reserve = slow_pick(1, now)
              || (slow_pick(2, now) && slow_running() < conf.max_batch)
              ? conf.budget / 8 : 0;

    while (left > reserve && (x = slow_pick(0, now)) != NULL) {

        for ( ;; ) {
            if (x->blocks >= needs(x)) {
                slow_take(x, &left);
                break;
            }

            if (slow_free) {
                slow_free--;
                x->blocks++;
                continue;
            }

            if (slow_running() == 1) {
                slow_leave(x, 100 + MST_FINISH_LENGTH);
                break;
            }

            v = slow_pick(3, now);
            slow_preempt(v, &left, now);
            preempted = 1;

            if (v == x) {
                break;
            }
        }
    }

    while (left && (x = slow_pick(1, now)) != NULL) {
        slow_take(x, &left);
    }

    while (!preempted && left && (x = slow_pick(2, now)) != NULL) {

        if (slow_running() == conf.max_batch) {
            full = 1;
            break;
        }

        if (needs(x) > pool.n) {
            slow_leave(x, 100 + MST_FINISH_LENGTH);
            continue;
        }

        if (needs(x) > slow_free) {
            full = 1;
            break;
        }

        slow_free -= needs(x);
        x->blocks = needs(x);
        x->running = 1;
        x->started = 1;
        slow_take(x, &left);
    }

    for ( ;; ) {
        v = NULL;

        for (x = slow; x < slow + MAX && (full || preempted); x++) {
            if (!slow_gone(x) && x->q->no_wait && !x->started
                && (v == NULL || x->q->arrival < v->q->arrival))
            {
                v = x;
            }
        }

        if (v == NULL) {
            break;
        }

        slow_leave(v, MST_REFUSE_KV_FULL);
    }
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
    slow[i].turn = ++turns;

    assert_int_equal(mst_sched_reserve(&sched, MAX), MST_OK);
    mst_sched_add(&sched, slow[i].q);
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
        x->turn = x->ready_ns > now ? 0 : ++turns;
        x->step = 0;
    }

    sched.n_items = 0;
    sched.n_tokens = 0;
}


static uint64_t
slow_wake(void)
{
    uint32_t  i;
    uint64_t  wake, t;

    wake = 0;

    for (i = 0; i < MAX; i++) {
        if (slow[i].q == NULL) {
            continue;
        }

        t = slow[i].turn == 0 ? slow[i].ready_ns : 0;

        if (t && (wake == 0 || t < wake)) {
            wake = t;
        }

        t = slow[i].started ? 0 : slow[i].q->deadline_ns;

        if (t && (wake == 0 || t < wake)) {
            wake = t;
        }
    }

    return wake;
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


static void
setup_run(int prefix)
{
    mst_prefix_hash_pt  hash;

    memset(slow, 0, sizeof(slow));
    memset(&conf, 0, sizeof(conf));

    turns = 0;
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
}


static void
finish_run(void)
{
    assert_int_equal(living(), 0);
    assert_int_equal(pool.n_used, 0);
    assert_int_equal(sched.n_running, 0);
    assert_int_equal(sched.n_waiting, 0);
    assert_int_equal(sched.waiting_tokens, 0);
    assert_int_equal(sched.waiting.n + sched.victims.n + sched.timed.n
                     + sched.deadlines.n, 0);
    assert_true(mst_list_empty(&sched.no_waits));

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

        if (idle && living()) {
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


/* a decode is in every step although a long prefill is at work */

static void
test_prefill_starves_nobody(void **state)
{
    uint32_t        k, ids[1000] = { 0 };
    mst_seq_t      *a, *b;
    mst_submit_t    s;
    mst_sampled_t   sampled;

    (void) state;

    memset(&conf, 0, sizeof(conf));
    conf.block_tokens = 16;
    conf.max_batch = 4;
    conf.budget = 64;
    conf.pool = &pool;

    assert_int_equal(mst_block_init(&pool, 100), MST_OK);
    assert_int_equal(mst_sched_init(&sched, &conf), MST_OK);
    assert_int_equal(mst_sched_reserve(&sched, 2), MST_OK);

    memset(&s, 0, sizeof(s));
    memset(&sampled, 0, sizeof(sampled));
    mst_params_default(&s.params);
    s.params.max_tokens = 1000;
    s.prompt = ids;

    s.n_prompt = 3;
    a = mst_seq_create(&s, 0);
    a->arrival = 1;
    mst_sched_add(&sched, a);

    mst_sched_plan(&sched, 0);
    mst_sched_computed(&sched, a);
    mst_seq_append(a, &sampled, 10000);
    mst_sched_requeue(&sched, a, 0);

    s.n_prompt = 1000;
    b = mst_seq_create(&s, 0);
    b->arrival = 2;
    mst_sched_add(&sched, b);

    for (k = 0; k < 16; k++) {
        mst_sched_plan(&sched, 0);
        assert_int_equal(sched.n_items, 2);
        assert_ptr_equal(sched.items[0], a);
        assert_int_equal(a->n_step, 1);

        /* 63 a step: 1000 = 15 * 63 + 55 */

        assert_int_equal(b->n_step, k < 15 ? 63 : 55);

        mst_sched_computed(&sched, a);
        mst_seq_append(a, &sampled, 10000);
        mst_sched_requeue(&sched, a, 0);
        mst_sched_computed(&sched, b);
        mst_sched_requeue(&sched, b, 0);
    }

    mst_sched_remove(&sched, a);
    mst_sched_remove(&sched, b);
    mst_seq_destroy(a);
    mst_seq_destroy(b);
    mst_sched_fini(&sched);
    mst_block_fini(&pool);
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

    for (n = 1; n <= 3; n++) {
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
        cmocka_unit_test(test_prefill_starves_nobody),
        cmocka_unit_test(test_memory)
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}

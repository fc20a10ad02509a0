
/*
 * Steps ahead of their tokens: a runner made up here, whose tokens follow
 * from all that it finds through the block table, takes a step in two halves
 * and says nothing before the second.  Whatever the engine does meanwhile -
 * chunks, a pool too small for all, a window, cancels, pauses, stop tokens,
 * broken numbers - every answer is what it is alone and step by step, and
 * every token is counted once.
 */

#include "mst_engine_host.h"


#define V        40
#define BT       4
#define CONTEXT  120
#define BLOCKS   400
#define N        60
#define BATCH    6
#define CHUNK    9
#define NAN_ID   39


typedef struct {
    uint32_t       kv[BLOCKS * BT];
    uint32_t       window;
    uint32_t       fail_at;            /* the launch with this number */
    uint64_t       ns;                 /* of the clock: a step takes ... */
    uint64_t       step_ns;
    uint32_t       launched;
    uint32_t       waited;
    uint32_t       behind;             /* waits with another under way */
    uint32_t       spare;              /* tokens for nobody */
    uint32_t       ids[2][BATCH];
    uint32_t       n[2];
    mst_sampled_t  out[2][BATCH];
    mst_sampled_t *to[2][BATCH];
    mst_sampled_t  scores[2][CHUNK + 1];
    uint32_t       n_scores[2];
    mst_sampled_t *scored[2];
} device_t;

static device_t  dev;


static uint32_t
dev_id(uint32_t id)
{
    if (id & MST_SAMPLE_FED) {
        assert_int_equal(dev.launched - dev.waited, 1);
        assert_true((id ^ MST_SAMPLE_FED) < dev.n[(dev.launched - 1) % 2]);
        id = dev.ids[(dev.launched - 1) % 2][id ^ MST_SAMPLE_FED];
    }

    assert_true(id < V);

    return id;
}


/* what the device makes of a sequence's tokens; scores of those behind */

static void
dev_seq(const mst_batch_seq_t *b, const mst_sample_t *s, mst_sampled_t *out,
    mst_sampled_t *scores)
{
    int       broken;
    uint32_t  at, i, first, n;
    uint64_t  hash;

    hash = s->params->seed;
    broken = 0;
    n = b->position + b->n;
    first = dev.window && n > dev.window ? n - dev.window : 0;

    for (i = 0; i < n; i++) {

        /* a chunk's first rows look further back than its last one */

        if (i < first && i < b->position) {
            continue;
        }

        at = b->blocks[i / BT] * BT + i % BT;

        if (i >= b->position) {
            dev.kv[at] = dev_id(b->ids[i - b->position]);
        }

        if (b->logits == MST_LOGITS_ALL && i >= b->position) {
            scores[i - b->position].status = MST_OK;
            scores[i - b->position].id = dev.kv[at];
        }

        if (i >= first) {
            hash = mst_hash_mix(hash * 31 + dev.kv[at] + 1);
            broken |= dev.kv[at] == NAN_ID;
        }
    }

    /* the host may say no more of the last token than the device knows */

    assert_int_equal(dev_id(s->tokens[n - 1]),
                     dev_id(b->ids[b->n - 1]));

    memset(out, 0, sizeof(mst_sampled_t));
    out->status = broken ? MST_ERROR : MST_OK;
    out->id = mst_hash_mix(hash + s->n_tokens - s->n_prompt) % (V - 1);
}


static int
dev_launch(void *data, mst_step_t *step, mst_err_t *err)
{
    uint32_t          at, i, row;
    mst_batch_seq_t  *b;

    (void) data;

    at = dev.launched % 2;
    assert_true(dev.launched - dev.waited < 2);
    assert_true(step->batch.n_seqs <= BATCH);
    assert_true(step->batch.n_tokens <= CHUNK);

    if (dev.fail_at && dev.launched + 1 == dev.fail_at) {
        return mst_err_set(err, "the device is gone");
    }

    row = 0;
    memset(step->sampled, 0xee, step->batch.n_seqs * sizeof(mst_sampled_t));

    for (i = 0; i < step->batch.n_seqs; i++) {
        b = &step->batch.seqs[i];
        dev_seq(b, &step->samples[i], &dev.out[at][i], &dev.scores[at][row]);
        dev.to[at][i] = step->samples[i].silent ? NULL
                                                     : &step->sampled[i];
        row += b->n;
    }

    for (i = 0; i < step->batch.n_seqs; i++) {
        dev.ids[at][i] = dev.out[at][i].status == MST_OK ? dev.out[at][i].id
                                                         : 0;
    }

    dev.n[at] = step->batch.n_seqs;
    dev.n_scores[at] = row;
    dev.scored[at] = step->scored;
    dev.launched++;

    return MST_OK;
}


static int
dev_wait(void *data, mst_err_t *err)
{
    uint32_t  at, i;

    (void) data;
    (void) err;

    assert_true(dev.launched != dev.waited);

    dev.behind += dev.launched - dev.waited == 2;
    at = dev.waited++ % 2;
    dev.ns += dev.step_ns;

    for (i = 0; i < dev.n[at]; i++) {
        if (dev.to[at][i]) {
            *dev.to[at][i] = dev.out[at][i];
            dev.spare++;
        }
    }

    memcpy(dev.scored[at], dev.scores[at],
           dev.n_scores[at] * sizeof(mst_sampled_t));

    return MST_OK;
}


static int
dev_step(void *data, mst_step_t *step, mst_err_t *err)
{
    int  rc;

    rc = dev_launch(data, step, err);

    return rc == MST_OK ? dev_wait(data, err) : rc;
}


static void
dev_runner(mst_runner_t *r, uint32_t n_blocks, uint32_t window, int ahead)
{
    memset(r, 0, sizeof(mst_runner_t));
    memset(&dev, 0, sizeof(dev));

    dev.window = window;

    r->info.n_vocab = V;
    r->info.context = CONTEXT;
    r->info.block_tokens = BT;
    r->info.n_blocks = n_blocks;
    r->info.window = window;
    r->step = dev_step;
    r->destroy = fault_destroy;

    if (ahead) {
        r->launch = dev_launch;
        r->wait = dev_wait;
    }
}


/* the i-th request is the same whoever computes it */

static void
submit(host_t *h, uint32_t i)
{
    uint32_t      k, x, ids[CONTEXT], stop[2];
    mst_submit_t  s;

    x = (uint32_t) mst_hash_mix(i + 77);

    for (k = 0; k < CONTEXT; k++) {
        ids[k] = k < 13 ? k + i % 3 : (k * (i + 3)) % (V - 1);
    }

    host_submit_init(&s, i, ids, 1 + x % 50, x / 64 % 45);

    if (i % 11 == 10) {
        ids[x % 50 / 2] = NAN_ID;
    }

    if (i % 5 == 4) {
        s.params.max_tokens = CONTEXT;             /* the context ends it */
    }

    s.params.seed = i % 4;
    s.params.min_tokens = i % 3 ? 0 : x / 4096 % 20;
    s.params.flags = i % 7 == 6 ? MST_PARAMS_ECHO : 0;
    s.claim.pace = i % 9 == 8 ? 1000000 : 0;
    s.claim.kv_reserve = i % 6 ? 0 : 20;

    stop[0] = x / 256 % V;
    stop[1] = x / 512 % V;
    s.stop_ids = stop;
    s.n_stop = i % 2 ? 0 : 2;

    mst_engine_submit(h->e, &s, h->now);
}


static void
check(const answer_t *got, const answer_t *want, int cancelled)
{
    assert_int_equal(got->dones, 1);

    if (!cancelled) {
        assert_int_equal(got->finish, want->finish);
        assert_int_equal(got->n, want->n);
        assert_int_equal(got->n_echo, want->n_echo);
    }

    assert_true(got->n <= want->n);
    assert_memory_equal(got->ids, want->ids, got->n * sizeof(uint32_t));
    assert_memory_equal(got->echo_ids, want->echo_ids,
                        got->n_echo * sizeof(uint32_t));
}


static void
alone(answer_t *want, uint32_t window)
{
    host_t             h;
    uint32_t           i;
    mst_runner_t       r;
    mst_engine_conf_t  conf;

    for (i = 0; i < N; i++) {
        dev_runner(&r, BLOCKS, window, 0);
        host_conf(&h, &conf, 1, CHUNK);
        host_open_conf(&h, &r, &conf, N);
        submit(&h, i);
        host_run(&h, 1);

        assert_int_equal(h.answers[i].dones, 1);
        want[i] = h.answers[i];
        host_close(&h);
    }
}


typedef struct {
    const char  *name;
    uint32_t     n_blocks;
    uint32_t     window;
    int          no_prefix;
    int          meddle;               /* cancel and pause */
    int          preempts;
} case_t;


static void
run(const case_t *c, const answer_t *want, uint32_t seed)
{
    int                 cancelled[N] = { 0 }, paused[N] = { 0 };
    host_t              h;
    uint32_t            i, k, next;
    uint64_t            x;
    mst_runner_t        r;
    mst_engine_conf_t   conf;
    mst_engine_stats_t  st;

    dev_runner(&r, c->n_blocks, c->window, 1);
    host_conf(&h, &conf, BATCH, CHUNK);
    conf.no_prefix_cache = c->no_prefix;
    host_open_conf(&h, &r, &conf, N);

    next = 0;

    for (k = 0; k < 100000; k++) {
        x = mst_hash_mix(seed * 1000003ull + k);
        h.now += 1000000;

        if (next < N && x % 4 == 0) {
            submit(&h, next++);
        }

        if (c->meddle && next && x % 64 < 3) {
            i = (uint32_t) (x >> 20) % next;

            if (x % 64 == 0 && i % 4 == 1) {
                cancelled[i] |= h.answers[i].dones == 0;
                mst_engine_cancel(h.e, i, h.now);

            } else if (!h.answers[i].dones) {
                paused[i] = !paused[i];
                mst_engine_pause(h.e, i, paused[i], h.now);
            }
        }

        if (host_step(&h) == MST_AGAIN && next == N) {

            for (i = 0; i < N; i++) {
                mst_engine_pause(h.e, i, 0, h.now);
                paused[i] = 0;
            }

            mst_engine_stats(h.e, &st);

            if (st.running + st.waiting == 0) {
                break;
            }
        }
    }

    for (i = 0; i < N; i++) {
        check(&h.answers[i], &want[i], cancelled[i]);
        dev.spare -= h.answers[i].n;
    }

    mst_engine_stats(h.e, &st);
    assert_int_equal(st.steps, dev.launched);
    assert_int_equal(dev.launched, dev.waited);
    assert_true(dev.behind > dev.launched / 2);
    assert_true(!c->preempts || st.preemptions > 3);

    /* one at most for each stop token, cancel, or broken row */

    assert_true(dev.spare <= N + st.preemptions);

    host_check_counts(&h);
    host_close(&h);
}


static void
test_same(void **state)
{
    size_t     i;
    uint32_t   k, window;
    answer_t  *want;

    static const case_t  cases[] = {
        { "room for all", BLOCKS, 0, 0, 0, 0 },
        { "no prefixes", BLOCKS, 0, 1, 1, 0 },
        { "little room", 40, 0, 0, 0, 1 },
        { "little room, meddled with", 40, 0, 0, 1, 1 },
        { "for one", 31, 0, 1, 1, 1 },
        { "a window", BLOCKS, 10, 0, 1, 0 },
        { "a window, little room", 14, 10, 0, 1, 1 }
    };

    (void) state;

    want = calloc(N, sizeof(answer_t));

    for (window = 0; window <= 10; window += 10) {
        alone(want, window);

        for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
            for (k = 0; cases[i].window == window && k < 20; k++) {
                run(&cases[i], want, k + 1);
            }
        }
    }

    free(want);
}


/* a launch that fails: all end, and with what they were told */

static void
test_fail(void **state)
{
    host_t              h;
    uint32_t            i, k;
    mst_runner_t        r;
    mst_engine_stats_t  st;

    (void) state;

    for (k = 1; k < 12; k++) {
        dev_runner(&r, BLOCKS, 0, 1);
        dev.fail_at = k;
        host_open(&h, &r, BATCH, CHUNK, N);

        for (i = 0; i < 8; i++) {
            submit(&h, i);
        }

        while (host_step(&h) == MST_OK) { /* void */ }

        assert_string_equal(h.err.text, "the device is gone");
        assert_int_equal(host_step(&h), MST_ERROR);

        for (i = 0; i < 8; i++) {
            assert_int_equal(h.answers[i].dones, 1);
        }

        mst_engine_stats(h.e, &st);
        assert_int_equal(st.running + st.waiting, 0);
        host_close(&h);
    }
}


/* a sequence that certainly ends is in no further step; the engine that is
   closed with a step under way takes it with it */

static void
test_last(void **state)
{
    host_t        h;
    uint32_t      ids[4] = { 1, 2, 3, 4 };
    mst_runner_t  r;
    mst_submit_t  s;

    (void) state;

    dev_runner(&r, BLOCKS, 0, 1);
    host_open(&h, &r, BATCH, CHUNK, N);

    host_submit_init(&s, 1, ids, 4, 5);
    mst_engine_submit(h.e, &s, h.now);

    assert_int_equal(host_step(&h), MST_OK);       /* only launched */
    assert_int_equal(dev.launched, 1);
    assert_int_equal(h.answers[1].n, 0);
    assert_int_equal(host_step(&h), MST_OK);
    assert_int_equal(dev.launched, 2);
    assert_int_equal(h.answers[1].n, 1);

    host_run(&h, 0);
    assert_int_equal(h.answers[1].n, 5);
    assert_int_equal(h.answers[1].finish, MST_FINISH_LENGTH);
    assert_int_equal(dev.launched, 5);

    host_submit_init(&s, 2, ids, 4, 5);
    mst_engine_submit(h.e, &s, h.now);
    assert_int_equal(host_step(&h), MST_OK);
    assert_int_equal(dev.launched - dev.waited, 1);

    /* its blocks are free within the step */

    mst_engine_cancel(h.e, 2, h.now);
    assert_int_equal(h.answers[2].dones, 1);
    assert_int_equal(h.answers[2].usage.completion, 0);
    host_check_counts(&h);
    assert_int_equal(host_step(&h), MST_OK);
    assert_int_equal(host_step(&h), MST_AGAIN);
    assert_int_equal(dev.launched, dev.waited);

    host_submit_init(&s, 3, ids, 4, 5);
    mst_engine_submit(h.e, &s, h.now);
    assert_int_equal(host_step(&h), MST_OK);
    host_close(&h);
}


static uint64_t
dev_clock(void)
{
    return dev.ns;
}


/* a promise reckons with what is under way */

static void
test_promise(void **state)
{
    host_t             h;
    uint32_t           i, k, ids[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    mst_runner_t       r;
    mst_submit_t       s;
    mst_engine_conf_t  conf;

    (void) state;

    for (k = 0; k < 2; k++) {
        dev_runner(&r, BLOCKS, 0, 1);
        dev.step_ns = 10 * MST_MS;
        host_conf(&h, &conf, BATCH, CHUNK);
        conf.clock = dev_clock;
        host_open_conf(&h, &r, &conf, N);

        host_submit_init(&s, 0, ids, 8, 40);
        mst_engine_submit(h.e, &s, h.now);

        for (i = 0; i < 8; i++) {
            assert_int_equal(host_step(&h), MST_OK);
            h.now = 1000 + dev.ns;
        }

        assert_int_equal(dev.launched - dev.waited, 1);

        /* a step of 8 tokens takes 10 ms, 12 to be sure, after one of 10 */

        host_submit_init(&s, 1, ids, 8, 4);
        s.claim.ttft_ns = h.now + (k ? 30 : 15) * MST_MS;
        mst_engine_submit(h.e, &s, h.now);

        for (i = 0; i < 3; i++) {
            assert_int_equal(host_step(&h), MST_OK);
            h.now = 1000 + dev.ns;
        }

        assert_int_equal(h.answers[1].admits, k);
        assert_int_equal(h.answers[1].refuses, !k);

        if (k) {
            assert_true(h.answers[1].n > 0);
            assert_true(h.answers[1].times[0] <= s.claim.ttft_ns);
        }

        host_close(&h);
    }
}


static void
test_memory(void **state)
{
    long               n;
    host_t             h;
    mst_err_t          err;
    mst_runner_t       r;
    mst_engine_t      *e;
    mst_engine_conf_t  conf;

    (void) state;

    dev_runner(&r, BLOCKS, 0, 1);
    host_conf(&h, &conf, BATCH, CHUNK);

    for (n = 1, e = NULL; e == NULL; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        e = mst_engine_create(&conf, &r, &err);
        mst_mem_fail_after(0);
        assert_true(e != NULL || err.text[0] != '\0');
        assert_true(n < 100);
    }

    assert_true(n > 12);
    mst_engine_destroy(e);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_last),
        cmocka_unit_test(test_promise),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

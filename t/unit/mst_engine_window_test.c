
/*
 * A model with a sliding window through the whole engine: answers are the
 * same however small the pool, however many run at once and however they are
 * chunked, and a sequence never holds more blocks than its window and a step.
 *
 * What that saves, in blocks, steps and sequences of a CUDA device: the null
 * model computes, scheduler and pool are those of all models.
 */

#include "mst_engine_host.h"

#include "model/mst_check.h"
#include "model/mst_checkpoint.h"

#define N       6
#define PROMPT  90
#define LEN     30
#define VOCAB   320

/* sequences of 32,768 tokens, with blocks and chunks of a CUDA device */

#define LONG    4
#define FULL    32768
#define BLOCK   64
#define CHUNK   1024
#define WINDOW  4096
#define ANSWER  256


static uint32_t      prompts[N][PROMPT];

static mst_runner_t  long_null;
static host_t       *long_host;
static uint32_t      long_most;                /* blocks in use at once */


static void
open_host(host_t *h, uint32_t max_batch, uint32_t chunk, uint32_t n_blocks)
{
    mst_err_t           err = { "" };
    mst_model_t        *m;
    mst_runner_t        r;
    mst_checkpoint_t   *cp;
    mst_check_files_t   files;
    mst_model_conf_t    conf = {
        .max_rows = 128, .max_seqs = N, .kv_size = 4 << 20
    };

    static const char  path[] = "t/data/golden/tiny/mistral-window";

    assert_int_equal(mst_check_open(path, &files, &err), MST_OK);
    cp = mst_checkpoint_open(files.fd, files.n, path, &err);
    mst_check_close(&files);
    assert_string_equal(err.text, "");

    m = mst_model_create(cp, &conf, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(mst_runner_model(&r, m, &err), MST_OK);
    assert_int_equal(r.info.window, 16);

    if (n_blocks) {
        assert_true(n_blocks < r.info.n_blocks);
        r.info.n_blocks = n_blocks;
    }

    host_open(h, &r, max_batch, chunk, N);
}


static void
submit(host_t *h, uint32_t tag)
{
    mst_submit_t  s;

    host_submit_init(&s, tag, prompts[tag], PROMPT, LEN);
    s.params.flags = MST_PARAMS_LOGPROBS;
    mst_engine_submit(h->e, &s, h->now);
}


/* answers of all, and the most blocks that were used at once */

static uint32_t
run(host_t *h, uint32_t n)
{
    int                  rc;
    uint32_t             i, most;
    uint64_t             wake;
    mst_err_t            err = { "" };
    mst_engine_stats_t   s;

    for (i = 0; i < n; i++) {
        submit(h, i);
    }

    most = 0;

    do {
        rc = mst_engine_step(h->e, ++h->now, &wake, &err);
        assert_string_equal(err.text, "");
        mst_engine_stats(h->e, &s);
        most = s.blocks_used > most ? s.blocks_used : most;
    } while (rc == MST_OK);

    return most;
}


static void
same(const answer_t *a, const answer_t *b, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        assert_int_equal(a[i].n, LEN);
        assert_memory_equal(a[i].ids, b[i].ids, LEN * sizeof(uint32_t));
        assert_memory_equal(a[i].logprobs, b[i].logprobs,
                            LEN * sizeof(float));
    }
}


static void
test_window(void **state)
{
    host_t              h;
    uint32_t            i, k, most;
    static answer_t     want[N];
    mst_engine_stats_t  s;

    (void) state;

    for (i = 0; i < N; i++) {
        for (k = 0; k < PROMPT; k++) {
            prompts[i][k] = (i * 131 + k * k * 7 + k) % VOCAB;
        }
    }

    /* one after the other in one chunk each */

    open_host(&h, 1, 128, 0);
    (void) run(&h, N);
    memcpy(want, h.answers, sizeof(want));
    host_close(&h);

    /* blocks of 32: a window of 16 and a step of 8 are 2 of them at most,
       and the table's rounding allows one more */

    open_host(&h, 1, 8, 0);
    most = run(&h, 1);
    assert_true(most <= (16 + 8) / 32 + 2);
    same(h.answers, want, 1);
    host_close(&h);

    /* together, in small chunks, in a pool that could not hold two prompts
       of 120 tokens without the window */

    open_host(&h, N, 16, 7);
    most = run(&h, N);
    assert_true(most <= 7);
    same(h.answers, want, N);
    host_close(&h);

    open_host(&h, N, 16, 3);
    (void) run(&h, N);
    same(h.answers, want, N);
    mst_engine_stats(h.e, &s);
    assert_int_equal(s.blocks_used, 0);
    host_close(&h);
}


/* while a step computes it holds blocks for its own tokens too */

static int
long_step(void *data, mst_step_t *step, mst_err_t *err)
{
    mst_engine_stats_t  s;

    mst_engine_stats(long_host->e, &s);
    long_most = s.blocks_used > long_most ? s.blocks_used : long_most;

    return long_null.step(data, step, err);
}


static void
open_long(host_t *h, uint32_t window, uint32_t n_blocks)
{
    mst_err_t        err = { "" };
    mst_runner_t     r;
    mst_null_conf_t  conf = { .context = FULL, .n_blocks = 1 << 20 };

    assert_int_equal(mst_runner_null(&r, &conf, &err), MST_OK);
    assert_null(r.launch);

    long_null = r;
    long_host = h;
    long_most = 0;

    r.step = long_step;
    r.info.block_tokens = BLOCK;
    r.info.n_blocks = n_blocks;
    r.info.window = window;

    host_open(h, &r, LONG, CHUNK, LONG);
}


/* n at once, which fill the context; the most blocks that were used */

static uint32_t
run_long(host_t *h, uint32_t n)
{
    uint32_t             i, k;
    mst_submit_t         s;
    mst_engine_stats_t   st;
    static uint32_t      ids[FULL - ANSWER];

    for (i = 0; i < n; i++) {
        for (k = 0; k < FULL - ANSWER; k++) {
            ids[k] = (i * 31 + k * 7) % 251;
        }

        host_submit_init(&s, i, ids, FULL - ANSWER, ANSWER);
        mst_engine_submit(h->e, &s, h->now);
    }

    (void) host_run(h, 0);
    mst_engine_stats(h->e, &st);

    assert_int_equal(st.preemptions, 0);
    assert_int_equal(st.blocks_used, 0);

    for (i = 0; i < n; i++) {
        assert_int_equal(h->answers[i].n, ANSWER);
        assert_int_equal(h->answers[i].finish, MST_FINISH_LENGTH);
    }

    return long_most;
}


static void
test_memory(void **state)
{
    host_t          h;
    uint32_t        most;
    const uint32_t  full = FULL / BLOCK;       /* blocks of one */

    (void) state;

    /* what there would be to preallocate is what a model without a window
       needs */

    open_long(&h, 0, full);
    assert_int_equal(run_long(&h, 1), full);
    host_close(&h);

    open_long(&h, WINDOW, LONG * full);
    most = run_long(&h, 1);
    host_close(&h);

    print_message("window of %d, %d tokens: %u of %u blocks, %.3f\n", WINDOW,
                  FULL, most, full, (double) most / full);
    assert_true(most >= WINDOW / BLOCK);
    assert_true(most <= (WINDOW + CHUNK) / BLOCK + 2);
    assert_true(most * 100 <= full * 19);

    /* the goal is a quarter: four at once in the memory of one, from the
       first step to the last */

    open_long(&h, WINDOW, full);
    most = run_long(&h, LONG);
    host_close(&h);

    print_message("%d at once: %u of %u blocks, %.3f\n", LONG, most,
                  LONG * full, (double) most / (LONG * full));
    assert_true(most * 100 <= LONG * full * 19);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_engine_window", tests, NULL,
                                       NULL);
}

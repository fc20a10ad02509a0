
/*
 * The engine on a CUDA device: what a request is answered alone and in a
 * batch, in chunks of any size, from the cache and after preemption.  Each
 * token is the CPU's best for what stands before it, wherever that one leads
 * by more than the tolerance; with batch_invariant every way gives the same
 * bits.
 *
 *     mst_cuda_engine_test [libmst_cuda.so [MODEL...]]
 */

#include "cuda_rig.h"
#include "mst_engine_host.h"

#define N       12                 /* requests */
#define FEW     3
#define PROMPT  180                /* tokens at most */
#define LEN     48                 /* of an answer */


typedef struct {
    uint32_t  ids[PROMPT + LEN];
    uint32_t  n;
} prompt_t;


typedef struct {
    const char  *name;
    uint32_t     n;                /* requests */
    uint32_t     batch;
    uint32_t     chunk;
    uint32_t     pool;             /* blocks; 0: enough */
    int          twice;            /* the second time from the cache */
} way_t;


static const way_t  ways[] = {
    { "batch", N, N, RIG_ROWS, 0, 0 },
    { "alone", FEW, 1, 33, 0, 1 },
    { "in threes, chunks of 7", N, 3, 7, 0, 0 },
    { "preempted", N, N, 50, 11, 0 }
};

#define WAYS  (sizeof(ways) / sizeof(*ways))


static prompt_t   prompts[N];
static answer_t   answers[WAYS + 1][N];    /* and from the cache */


static void
make_prompts(uint32_t vocab, uint64_t seed)
{
    uint32_t  i;

    for (i = 0; i < N; i++) {
        prompts[i].n = 2 + mst_tiny_random(&seed) % (PROMPT - 1);
        rig_random_ids(prompts[i].ids, PROMPT, vocab, seed);
    }

    prompts[0].n = PROMPT;
    prompts[1].n = 64;                 /* a block, to the token */
    prompts[2].n = 1;
}


static void
submit(host_t *h, uint32_t tag, uint32_t i)
{
    mst_submit_t  s;

    host_submit_init(&s, tag, prompts[i].ids, prompts[i].n, LEN);
    s.params.flags = MST_PARAMS_LOGPROBS;
    s.params.temperature = 0;
    mst_engine_submit(h->e, &s, h->now);
}


static void
keep(void *data)
{
    (void) data;
}


/* an engine of its own for each way, the runner is the same */

static void
run_way(const mst_runner_t *runner, const way_t *way, answer_t *answer,
    answer_t *cached)
{
    host_t              h;
    uint32_t            i;
    mst_runner_t        r;
    mst_engine_stats_t  s;

    r = *runner;
    r.destroy = keep;

    if (way->pool) {
        assert_true(way->pool < r.info.n_blocks);
        r.info.n_blocks = way->pool;
    }

    host_open(&h, &r, way->batch, way->chunk, 2 * N);

    for (i = 0; i < way->n; i++) {
        submit(&h, i, i);

        if (way->twice) {
            host_run(&h, 0);
            submit(&h, N + i, i);
            host_run(&h, 0);
        }
    }

    host_run(&h, 0);
    mst_engine_stats(h.e, &s);
    assert_int_equal(s.blocks_used, 0);

    /* who has a window needs few blocks */

    assert_true(way->pool == 0 || s.preemptions > 0 || r.info.window);

    for (i = 0; i < way->n; i++) {
        if (h.answers[i].n != LEN
            || h.answers[i].finish != MST_FINISH_LENGTH)
        {
            fail_msg("%s: answer %u: %u tokens, finish %d, refuse %d %s",
                     way->name, i, h.answers[i].n, h.answers[i].finish,
                     h.answers[i].refuse, h.answers[i].text);
        }

        assert_true(!way->twice || prompts[i].n <= 64
                    || h.answers[N + i].cached >= 64);
    }

    memcpy(answer, h.answers, N * sizeof(answer_t));

    if (way->twice) {
        memcpy(cached, h.answers + N, N * sizeof(answer_t));
    }

    host_close(&h);
}


/* the number of tokens that are not the CPU's best, though as good */

static uint32_t
follow(const rig_t *cpu, const prompt_t *p, const answer_t *a, float *rows,
    const char *name)
{
    double        top;
    uint32_t      i, other;
    prompt_t      all;
    const float  *row;

    all = *p;
    memcpy(all.ids + p->n, a->ids, LEN * sizeof(uint32_t));
    rig_prefill(cpu, 0, all.ids, 0, p->n + LEN - 1, RIG_ROWS, rows);
    other = 0;

    for (i = 0; i < LEN; i++) {
        row = rows + (size_t) (p->n - 1 + i) * cpu->vocab;
        top = rig_top(row, cpu->vocab);

        if (!rig_good(row, a->ids[i], cpu->vocab, top)) {
            fail_msg("%s: token %u of an answer, %u, is not the best", name,
                     i, a->ids[i]);
        }

        other += a->ids[i] != rig_best(row, cpu->vocab);
    }

    return other;
}


static void
check_follow(const rig_t *cpu)
{
    float     *rows;
    uint32_t   all, i, other, w;

    rows = malloc((PROMPT + LEN) * (size_t) cpu->vocab * sizeof(float));
    all = other = 0;

    for (w = 0; w <= WAYS; w++) {
        for (i = 0; i < (w < WAYS ? ways[w].n : FEW); i++) {
            other += follow(cpu, &prompts[i], &answers[w][i], rows,
                            w < WAYS ? ways[w].name : "cached");
            all += LEN;
        }
    }

    print_message("    within the tolerance another token %u times of %u\n",
                  other, all);
    free(rows);
}


static void
check_same(void)
{
    uint32_t  i, w;

    for (w = 1; w <= WAYS; w++) {
        for (i = 0; i < (w < WAYS ? ways[w].n : FEW); i++) {
            if (memcmp(answers[w][i].ids, answers[0][i].ids,
                       LEN * sizeof(uint32_t)) != 0
                || memcmp(answers[w][i].logprobs, answers[0][i].logprobs,
                          LEN * sizeof(float)) != 0)
            {
                fail_msg("%s: answer %u has other bits",
                         w < WAYS ? ways[w].name : "cached", i);
            }
        }
    }
}


/* m is taken over */

static void
run_ways(mst_model_t *m)
{
    uint32_t      w;
    mst_err_t     err = { "" };
    mst_runner_t  r;

    assert_int_equal(mst_runner_model(&r, m, &err), MST_OK);

    for (w = 0; w < WAYS; w++) {
        run_way(&r, &ways[w], answers[w], answers[WAYS]);
    }

    r.destroy(r.data);
}


static void
test_tiny(rig_where_t where)
{
    rig_t   cpu, cuda;
    size_t  i;

    for (i = 0; i < RIG_SHAPES; i++) {
        if (!rig_shape_wanted(i)) {
            continue;
        }

        make_prompts(rig_shapes[i].tiny.vocab, i);
        rig_tiny(&cuda, &rig_shapes[i], 1234 + i, where);
        run_ways(cuda.m);
        mst_buf_fini(&cuda.file);

        rig_tiny(&cpu, &rig_shapes[i], 1234 + i, RIG_CPU);
        check_follow(&cpu);
        rig_close(&cpu);

        if (where >= RIG_INVARIANT) {
            check_same();
        }
    }
}


static void
test_models(rig_where_t where)
{
    rig_t     cpu, cuda;
    uint32_t  i;

    rig_needs_models();

    for (i = 0; i < rig_n_models; i++) {
        print_message("%s\n", rig_models[i]);
        rig_path(&cpu, rig_models[i], 0, RIG_CPU);
        make_prompts(cpu.vocab, 77 + i);

        rig_path(&cuda, rig_models[i], 0, where);
        run_ways(cuda.m);
        check_follow(&cpu);
        rig_close(&cpu);

        if (where >= RIG_INVARIANT) {
            check_same();
        }
    }
}


static void
test_greedy(void **state)
{
    (void) state;

    test_tiny(RIG_CUDA);
}


static void
test_greedy_models(void **state)
{
    (void) state;

    test_models(RIG_CUDA);
}


static void
test_invariant(void **state)
{
    (void) state;

    test_tiny(RIG_INVARIANT);
}


static void
test_invariant_models(void **state)
{
    (void) state;

    test_models(RIG_INVARIANT);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_greedy_models),
        cmocka_unit_test(test_invariant),
        cmocka_unit_test(test_invariant_models)
    };

    return rig_main(argc, argv, tests);
}

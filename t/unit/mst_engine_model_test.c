
/*
 * The engine with the real model: the stored float64 answers, and the same
 * bits alone, in a batch, in chunks, after preemption and from the cache.
 */

#include <math.h>

#include <jansson.h>

#include "mst_engine_host.h"
#include "mst_model_gguf.h"


#define TEST_MODEL   "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define TEST_GOLDEN  "t/data/golden/smollm2_greedy.jsonl"

/* the short ones of the cases, tokens of an answer at most, blocks of a pool
   that is too small for all, cases that are computed alone, and those with
   log-probabilities of all tokens; a sanitizer makes a row cost 40 ms */

#ifdef __SANITIZE_ADDRESS__
#define N            5
#define LEN          16
#define POOL         3
#define ALONE        2
#define ECHOES       1
#else
#define N            8
#define LEN          48
#define POOL         7
#define ALONE        3
#define ECHOES       2
#endif


typedef struct {
    uint32_t  prompt[128];
    uint32_t  n_prompt;
    uint32_t  ids[LEN];
    double    logprobs[LEN];
    uint32_t  n;
} case_t;


static case_t  cases[N];


static void
read_case(case_t *c, json_t *o)
{
    size_t   i;
    json_t  *a;

    a = json_object_get(o, "prompt_ids");
    c->n_prompt = (uint32_t) json_array_size(a);

    for (i = 0; i < c->n_prompt; i++) {
        c->prompt[i] = (uint32_t) json_integer_value(json_array_get(a, i));
    }

    a = json_object_get(o, "greedy_ids");
    c->n = json_array_size(a) < LEN ? (uint32_t) json_array_size(a) : LEN;

    for (i = 0; i < c->n; i++) {
        c->ids[i] = (uint32_t) json_integer_value(json_array_get(a, i));
        c->logprobs[i] = json_real_value(json_array_get(
            json_object_get(o, "greedy_logprobs"), i));
    }
}


static int
read_cases(void **state)
{
    FILE      *f;
    char      *line;
    size_t     size;
    json_t    *o;
    uint32_t   n;

    (void) state;

    f = fopen(TEST_GOLDEN, "r");
    if (f == NULL) {
        return -1;
    }

    line = NULL;
    size = 0;
    n = 0;

    while (n < N && getline(&line, &size, f) > 0) {
        o = json_loads(line, 0, NULL);

        if (json_array_size(json_object_get(o, "prompt_ids")) <= 128) {
            read_case(&cases[n++], o);
        }

        json_decref(o);
    }

    free(line);
    fclose(f);

    return n == N ? 0 : -1;
}


/* n_blocks: a smaller pool than the model's; 0: the model's */

static void
open_host(host_t *h, uint32_t max_batch, uint32_t chunk, uint32_t n_blocks)
{
    mst_err_t          err = { "" };
    mst_gguf_t        *g;
    mst_model_t       *m;
    mst_runner_t       r;
    mst_model_conf_t   conf = {
        .max_rows = 256, .max_seqs = N, .context = 2048, .kv_size = 64 << 20
    };

    g = mst_gguf_open(TEST_MODEL, &err);
    assert_string_equal(err.text, "");

    m = model_of_gguf(g, &conf, &err);
    assert_string_equal(err.text, "");

    assert_int_equal(mst_runner_model(&r, m, &err), MST_OK);

    if (n_blocks) {
        assert_true(n_blocks < r.info.n_blocks);
        r.info.n_blocks = n_blocks;
    }

    host_open(h, &r, max_batch, chunk, 64);
}


static void
submit(host_t *h, uint32_t tag, uint32_t i, int greedy)
{
    uint32_t      stop;
    mst_submit_t  s;

    host_submit_init(&s, tag, cases[i].prompt, cases[i].n_prompt, LEN);

    stop = 2;                          /* <|im_end|> */
    s.stop_ids = &stop;
    s.n_stop = 1;
    s.params.flags = MST_PARAMS_LOGPROBS;
    s.params.temperature = greedy ? 0 : 0.9f;
    s.params.top_p = i % 2 ? 0.95f : 1;
    s.params.top_k = i % 3 ? 0 : 100;
    s.params.seed = i;

    mst_engine_submit(h->e, &s, h->now);
}


static void
check_golden(const answer_t *a, const case_t *c)
{
    uint32_t  k;

    assert_int_equal(a->n, c->n);

    for (k = 0; k < c->n; k++) {
        assert_int_equal(a->ids[k], c->ids[k]);
        assert_true(fabs(a->logprobs[k] - c->logprobs[k]) < 2e-3);
    }

    assert_int_equal(a->finish, a->ids[a->n - 1] == 2 ? MST_FINISH_STOP
                                                      : MST_FINISH_LENGTH);
}


static void
check_same(const answer_t *a, const answer_t *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof(uint32_t));
    assert_memory_equal(a->logprobs, b->logprobs, a->n * sizeof(float));
}


static answer_t  batch[2 * N];         /* greedy, and drawn */


/* all in one batch, in large chunks, from an empty cache */

static void
test_batch(void **state)
{
    host_t    h;
    uint32_t  i;

    (void) state;

    open_host(&h, N, 256, 0);

    for (i = 0; i < N; i++) {
        submit(&h, i, i, 1);
        submit(&h, N + i, i, 0);
    }

    host_run(&h, 0);

    for (i = 0; i < N; i++) {
        check_golden(&h.answers[i], &cases[i]);
    }

    assert_non_null(mst_engine_logits(h.e));
    memcpy(batch, h.answers, sizeof(batch));
    host_close(&h);
}


static void
test_alone(void **state)
{
    host_t    h;
    uint32_t  i;

    (void) state;

    open_host(&h, 1, 7, 0);

    for (i = 0; i < ALONE; i++) {
        submit(&h, i, i, 1);
        host_run(&h, 0);
        check_same(&h.answers[i], &batch[i]);

        submit(&h, N + i, i, 0);
        host_run(&h, 0);
        check_same(&h.answers[N + i], &batch[N + i]);

        /* the second found its prompt */

        assert_int_equal(h.answers[i].cached, 0);
        assert_int_not_equal(h.answers[N + i].cached, 0);
    }

    host_close(&h);
}


/* a pool for few: all others wait or are computed again */

static void
test_preemption(void **state)
{
    host_t              h;
    uint32_t            i;
    mst_engine_stats_t  s;

    (void) state;

    open_host(&h, N, 50, POOL);

    for (i = 0; i < N; i++) {
        submit(&h, i, i, i % 2);
    }

    host_run(&h, 0);

    for (i = 0; i < N; i++) {
        check_same(&h.answers[i], &batch[i % 2 ? i : N + i]);
    }

    mst_engine_stats(h.e, &s);
    print_message("preemptions %llu\n", (unsigned long long) s.preemptions);
    assert_true(s.preemptions > 0);
    assert_int_equal(s.blocks_used, 0);

    host_close(&h);
}


/*
 * The prompt's tokens with their log-probabilities: of a prompt that holds
 * an answer the same bits as when it was sampled, in whatever chunks, in a
 * batch, with a cache that knows the prompt, with a pool that is too small.
 */

static void
test_echo(void **state)
{
    host_t               h;
    answer_t            *a;
    uint32_t             i, k, round, n, ids[128 + LEN];
    mst_submit_t         s;
    static float         first[ECHOES][128 + LEN];
    static const struct {
        uint32_t  batch, chunk, pool;
    } rounds[] = { { N, 256, 0 }, { 2, 7, POOL } };

    (void) state;

    for (round = 0; round < 2; round++) {
        open_host(&h, rounds[round].batch, rounds[round].chunk,
                  rounds[round].pool);

        submit(&h, N, 0, 1);               /* an answer among them */

        for (i = 0; i < ECHOES; i++) {
            n = cases[i].n_prompt + cases[i].n;

            memcpy(ids, cases[i].prompt, cases[i].n_prompt * sizeof(*ids));
            memcpy(ids + cases[i].n_prompt, cases[i].ids,
                   cases[i].n * sizeof(*ids));

            host_submit_init(&s, i, ids, n, i % 2);
            s.params.flags = MST_PARAMS_LOGPROBS | MST_PARAMS_ECHO;
            s.params.n_top = 3;
            mst_engine_submit(h.e, &s, h.now);
        }

        host_run(&h, 0);
        check_same(&h.answers[N], &batch[0]);
        assert_int_equal(h.answers[N].n_echo, 0);

        for (i = 0; i < ECHOES; i++) {
            a = &h.answers[i];
            n = cases[i].n_prompt + cases[i].n;

            assert_int_equal(a->finish, MST_FINISH_LENGTH);
            assert_int_equal(a->n, i % 2);
            assert_int_equal(a->n_echo, n);
            assert_int_equal(a->cached, 0);
            assert_int_equal(a->echo_n_top, 3);
            assert_int_equal(a->usage.prompt, n);
            assert_true(a->echo_logprobs[0] == 0);

            for (k = 0; k < n; k++) {
                assert_int_equal(a->echo_ids[k], k < cases[i].n_prompt
                                 ? cases[i].prompt[k]
                                 : cases[i].ids[k - cases[i].n_prompt]);
            }

            assert_memory_equal(a->echo_logprobs + cases[i].n_prompt,
                                batch[i].logprobs,
                                cases[i].n * sizeof(float));

            if (round == 0) {
                memcpy(first[i], a->echo_logprobs, n * sizeof(float));
            }

            assert_memory_equal(a->echo_logprobs, first[i],
                                n * sizeof(float));
        }

        host_close(&h);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_preemption),
        cmocka_unit_test(test_echo)
    };

    return cmocka_run_group_tests(tests, read_cases, NULL);
}

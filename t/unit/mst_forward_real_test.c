
/*
 * The forward step with the real model: stored float64 results, the same bits
 * in all ways and by all instruction sets, and a heartbeat while it computes.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "mst_forward_rig.h"

#define TEST_MODEL   "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define TEST_GOLDEN  "t/data/golden/smollm2_greedy.jsonl"


typedef struct {
    uint32_t  prompt[2048], n_prompt;
    uint32_t  answer[128], n_answer;
    double    logprob[128];
    uint32_t  top_id[20];
    double    top[20];
} golden_t;


static uint32_t
golden_ids(json_t *line, const char *name, uint32_t *ids)
{
    size_t   i;
    json_t  *a;

    a = json_object_get(line, name);

    for (i = 0; i < json_array_size(a); i++) {
        ids[i] = (uint32_t) json_integer_value(json_array_get(a, i));
    }

    return (uint32_t) i;
}


static void
golden_line(const char *text, golden_t *g)
{
    size_t   i;
    json_t  *a, *line;

    line = json_loads(text, 0, NULL);
    assert_non_null(line);
    g->n_prompt = golden_ids(line, "prompt_ids", g->prompt);
    g->n_answer = golden_ids(line, "greedy_ids", g->answer);

    for (i = 0; i < g->n_answer; i++) {
        a = json_array_get(json_object_get(line, "greedy_logprobs"), i);
        g->logprob[i] = json_number_value(a);
    }

    for (i = 0; i < 20; i++) {
        a = json_array_get(json_object_get(line, "first_top20"), i);
        g->top_id[i] = (uint32_t) json_integer_value(json_array_get(a, 0));
        g->top[i] = json_number_value(json_array_get(a, 1));
    }

    assert_true(g->n_prompt > 0 && g->n_answer > 0);
    json_decref(line);
}


static uint32_t
golden_read(golden_t *g, uint32_t max)
{
    char      *line;
    FILE      *f;
    size_t     size;
    uint32_t   n;

    line = NULL;
    size = 0;
    f = fopen(TEST_GOLDEN, "r");
    assert_non_null(f);

    for (n = 0; n < max && getline(&line, &size, f) > 0; n++) {
        golden_line(line, &g[n]);
    }

    free(line);
    fclose(f);

    return n;
}


static double  progress_last, progress_gap;


/* of this thread: other processes do not count */

static double
cpu_time(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);

    return (double) ts.tv_sec + 1e-9 * (double) ts.tv_nsec;
}


static int
on_progress(void *data)
{
    double  now;

    (void) data;

    now = cpu_time();

    if (now - progress_last > progress_gap) {
        progress_gap = now - progress_last;
    }

    progress_last = now;

    return 1;                      /* as if each call had to wake somebody */
}


static mst_kv_type_t  real_kv = MST_KV_AUTO;   /* of open_real() */


static mst_model_t *
open_real(const char *isa, uint32_t threads)
{
    mst_err_t         err = { "" };
    mst_gguf_t       *g;
    mst_model_t      *m;
    mst_model_conf_t  conf = {
        .threads = threads, .max_rows = 512, .max_seqs = 16,
        .progress = on_progress, .isa = isa, .activations = activations,
        .kv_type = real_kv
    };

    g = mst_gguf_open(TEST_MODEL, &err);

    if (g == NULL) {
        print_message("%s\n", err.text);
    }

    assert_non_null(g);
    m = model_of_gguf(g, &conf, &err);

    if (m == NULL) {
        print_message("%s\n", err.text);
        mst_gguf_close(g);
    }

    return m;
}


/* greedy choice; *sum is the logarithm of the sum of exponentials */

static uint32_t
greedy(const float *logits, uint32_t n, double *sum)
{
    uint32_t  best, i;

    for (best = 0, i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }

    for (*sum = 0, i = 0; i < n; i++) {
        *sum += exp((double) logits[i] - (double) logits[best]);
    }

    *sum = log(*sum) + (double) logits[best];

    return best;
}


static uint32_t  golden_wrong;     /* ids that the reference did not have */


static double
golden_compare(const golden_t *g, uint32_t at, const float *logits,
    uint32_t vocab)
{
    double    diff, sum, worst;
    uint32_t  i;

    golden_wrong += greedy(logits, vocab, &sum) != g->answer[at];
    worst = fabs((double) logits[g->answer[at]] - sum - g->logprob[at]);

    for (i = 0; at == 0 && i < 20; i++) {
        diff = fabs((double) logits[g->top_id[i]] - sum - g->top[i]);
        assert_true(diff >= 0);
        worst = diff > worst ? diff : worst;
    }

    return worst;
}


typedef struct {
    const char    *isa;            /* NULL: the best */
    mst_kv_type_t  kv;
    double         limit;          /* of the error of log-probabilities */
    uint32_t       wrong;          /* ids that another may win */
    uint32_t       lines;          /* 0: all */
} golden_how_t;


/* the reference's answers, each id after the reference's, all at once as an
   engine would; returns the largest error of a log-probability */

static double
golden_run(const golden_how_t *how)
{
    double            diff, worst;
    test_t            t;
    uint32_t          i, k, n, s, who[TEST_SEQS];
    golden_t         *g;
    const float      *logits;
    mst_batch_seq_t   q[TEST_SEQS];

    g = calloc(TEST_SEQS, sizeof(golden_t));
    n = golden_read(g, TEST_SEQS);
    assert_int_equal(n, 15);
    n = TEST_SLOW ? 3 : how->lines ? how->lines : n;
    golden_wrong = 0;

    real_kv = how->kv;
    t.m = open_real(how->isa, 2);
    real_kv = MST_KV_AUTO;

    if (t.m == NULL) {                         /* an older machine */
        assert_non_null(how->isa);
        free(g);
        return 0;
    }

    start(&t, t.m);
    worst = 0;

    for (i = 0; i < n; i++) {
        logits = prefill(&t, i, g[i].prompt, g[i].n_prompt, 512);
        diff = golden_compare(&g[i], 0, logits, t.vocab);
        worst = diff > worst ? diff : worst;
    }

    print_message("first tokens: largest difference %.3g\n", worst);

    for (k = 0; /* void */ ; k++) {
        for (s = 0, i = 0; i < n; i++) {
            if (k + 1 < g[i].n_answer) {
                who[s] = i;
                q[s++] = seq_of(&t, i, &g[i].answer[k], 1, g[i].n_prompt + k,
                                MST_LOGITS_LAST);
            }
        }

        if (s == 0) {
            break;
        }

        logits = step(&t, q, s);

        for (i = 0; i < s; i++) {
            diff = golden_compare(&g[who[i]], k + 1,
                                  logits + (size_t) i * t.vocab, t.vocab);
            worst = diff > worst ? diff : worst;
        }
    }

    print_message("%u answers: largest difference of a log-probability "
                  "%.3g, %u other ids\n", n, worst, golden_wrong);
    assert_int_equal(k, n == 15 ? 63 : n == 2 ? 11 : 12);
    assert_true(worst < how->limit);
    assert_true(golden_wrong <= how->wrong);

    mst_model_destroy(t.m);
    free(g);

    return worst;
}


/* what the design is for: the error of f32, not of 8 bits */

static void
golden_test(void **state)
{
    golden_how_t  how = { NULL, MST_KV_AUTO, 5e-5, 0, 0 };

    (void) state;

    (void) golden_run(&how);

    /* the kernels of older machines: they have the same bits, and are slow */

    if (TEST_SLOW) {
        return;
    }

    how.isa = "avx2";
    how.lines = 3;
    (void) golden_run(&how);

    how.isa = "c";
    how.lines = 2;
    (void) golden_run(&how);
}


/* less, but the same answers; an error as small as without the setting would
   mean that it did nothing */

static void
golden_16_test(void **state)
{
    golden_how_t  how = { NULL, MST_KV_AUTO, 5e-3, 0, 0 };

    (void) state;

    activations = 16;
    assert_true(golden_run(&how) > 1e-4);
    activations = 0;
}


static void
golden_f16_test(void **state)
{
    golden_how_t  how = { NULL, MST_KV_F16, 1e-2, 0, 0 };

    (void) state;

    (void) golden_run(&how);
}


static void
golden_q8_test(void **state)
{
    golden_how_t  how = { NULL, MST_KV_Q8, 3e-1, 9, 0 };

    (void) state;

    (void) golden_run(&how);
}


static void
real_bits_test(void **state)
{
    int           filled;
    float        *want;
    size_t        k;
    test_t        t;
    uint32_t      n;
    golden_t     *g;
    mst_model_t  *m;
    const float  *logits;

    (void) state;

    g = calloc(1, sizeof(golden_t));
    assert_int_equal(golden_read(g, 1), 1);
    n = g->n_prompt;
    want = NULL;
    filled = 0;

    for (k = TEST_SLOW; k < 3 - TEST_SLOW; k++) {
        m = open_real(isas[k], k == 1 ? 1 : 2);

        if (m == NULL) {
            continue;
        }

        start(&t, m);

        if (want == NULL) {
            want = malloc(t.vocab * sizeof(float));
        }

        if (TEST_SLOW) {
            memcpy(want, prefill(&t, 1, g->prompt, n, 7),
                   t.vocab * sizeof(float));

        } else if (k < 2) {
            ways(&t, g->prompt, n, want, &filled, k == 0 ? 5 : 9);
        }

        /* portable C is slow: one way */

        logits = prefill(&t, 0, g->prompt, n, 64);
        assert_memory_equal(logits, want, t.vocab * sizeof(float));
        mst_model_destroy(m);
    }

    free(want);
    free(g);
}


/* it comes while the step computes, not before: it is a heartbeat */

static void
progress_test(void **state)
{
    test_t           t;
    double           began;
    uint32_t         i, ids[64];
    mst_batch_seq_t  q;

    (void) state;

    for (i = 0; i < 64; i++) {
        ids[i] = 1000 + i;
    }

    start(&t, open_real(NULL, 1));
    q = seq_of(&t, 0, ids, 64, 0, MST_LOGITS_LAST);

    began = cpu_time();
    progress_last = began;
    progress_gap = 0;

    (void) step(&t, &q, 1);

    (void) on_progress(NULL);      /* the last part of the step counts, too */

    assert_true(progress_gap < (progress_last - began) / 4);

    mst_model_destroy(t.m);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(progress_test),
        cmocka_unit_test(golden_test),
        cmocka_unit_test(golden_16_test),
        cmocka_unit_test(golden_f16_test),
        cmocka_unit_test(golden_q8_test),
        cmocka_unit_test(real_bits_test)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * The sampler against a slow one that sorts, against long double sums, and
 * against chi-square.  PRINTS its seed; give another as the first argument.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_sampler.h"


#define V  1283


static uint64_t  seed = 20240607;
static uint64_t  draws;

static mst_sampler_t  sampler;


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static float
rndf(float low, float high)
{
    return low + (high - low) * (float) rnd(1 << 20) / (float) (1 << 20);
}


static void
sample_init(mst_sample_t *sample, mst_params_t *p)
{
    mst_params_default(p);
    memset(sample, 0, sizeof(mst_sample_t));

    sample->params = p;
}


static int
setup(void **state)
{
    mst_err_t  err;

    (void) state;

    err.text[0] = '\0';

    return mst_sampler_init(&sampler, V, &err);
}


static int
teardown(void **state)
{
    (void) state;

    mst_sampler_fini(&sampler);

    return 0;
}


/* the slow sampler: sort, cut, draw */

static float  slow_row[V];
static double slow_weight[V];


static int
slow_cmp(const void *a, const void *b)
{
    uint32_t  x, y;

    x = *(const uint32_t *) a;
    y = *(const uint32_t *) b;

    if (slow_row[x] != slow_row[y]) {
        return slow_row[x] > slow_row[y] ? -1 : 1;
    }

    return x < y ? -1 : 1;
}


static void
slow_adjust(const float *logits, const mst_sample_t *s)
{
    int                  seen;
    uint32_t             i, j, n;
    const mst_params_t  *p;

    p = s->params;

    for (i = 0; i < V; i++) {
        slow_row[i] = logits[i];
        seen = 0;
        n = 0;

        for (j = 0; j < s->n_tokens; j++) {
            if (s->tokens[j] == i) {
                seen = 1;
                n += j >= s->n_prompt;
            }
        }

        if (seen) {
            slow_row[i] = slow_row[i] > 0
                          ? slow_row[i] / p->repetition_penalty
                          : slow_row[i] * p->repetition_penalty;
        }

        slow_row[i] -= p->frequency_penalty * (float) n;
        slow_row[i] -= n ? p->presence_penalty : 0;

        for (j = 0; j < s->n_bias; j++) {
            slow_row[i] += s->bias[j].id == i ? s->bias[j].value : 0;
        }

        for (j = 0; j < s->n_stop; j++) {
            if (s->stop_ids[j] == i
                && s->n_tokens - s->n_prompt < p->min_tokens)
            {
                slow_row[i] = -INFINITY;
            }
        }
    }
}


static uint32_t
slow_draw(const mst_sample_t *s)
{
    double               sum, total, u;
    uint32_t             i, n, last, order[V];
    const mst_params_t  *p;

    p = s->params;

    for (i = 0; i < V; i++) {
        order[i] = i;
    }

    qsort(order, V, sizeof(uint32_t), slow_cmp);

    if (p->temperature == 0 || s->greedy) {
        return order[0];
    }

    n = p->top_k ? (uint32_t) p->top_k : V;
    n = n > V ? V : n;

    total = 0;

    for (i = 0; i < V; i++) {
        slow_weight[order[i]] = i < n ? exp(((double) slow_row[order[i]]
            - slow_row[order[0]]) / p->temperature) : 0;
        total += slow_weight[order[i]];
    }

    sum = 0;

    for (i = 0; i < V; i++) {
        if (p->top_p < 1 && sum >= p->top_p * total) {
            slow_weight[order[i]] = 0;
        }

        sum += slow_weight[order[i]];
    }

    sum = 0;

    for (i = 0; i < V; i++) {
        if (slow_weight[i] < p->min_p) {
            slow_weight[i] = 0;
        }

        sum += slow_weight[i];
    }

    u = sum * mst_sampler_uniform(p->seed, s->n_tokens - s->n_prompt);
    sum = 0;
    last = 0;

    for (i = 0; i < V; i++) {
        if (slow_weight[i] > 0) {
            sum += slow_weight[i];
            last = i;

            if (sum > u) {
                break;
            }
        }
    }

    return last;
}


static void
check_logprobs(const mst_sample_t *s, const mst_sampled_t *out)
{
    uint32_t     i, order[V], finite;
    long double  sum;

    sum = 0;
    finite = 0;

    for (i = 0; i < V; i++) {
        order[i] = i;
        sum += expl((long double) slow_row[i]);
        finite += slow_row[i] > -INFINITY;
    }

    qsort(order, V, sizeof(uint32_t), slow_cmp);

    assert_true(fabsl(slow_row[out->id] - logl(sum) - out->logprob) < 1e-5);
    assert_int_equal(out->n_top,
                     s->params->n_top < finite ? s->params->n_top : finite);

    for (i = 0; i < out->n_top; i++) {
        assert_int_equal(out->top_ids[i], order[i]);
        assert_true(fabsl(slow_row[order[i]] - logl(sum)
                          - out->top_logprobs[i]) < 1e-5);
    }
}


static void
random_params(mst_params_t *p)
{
    static const float  tops[] = { 1, 1, 0.9f, 0.5f, 0.1f, 1e-6f, 0.999f };
    static const float  mins[] = { 0, 0, 0, 0.05f, 0.5f, 1 };
    static const float  temps[] = { 1, 1, 0.7f, 2, 1e-3f, 1e-30f, 0 };

    p->temperature = temps[rnd(7)];
    p->top_p = tops[rnd(7)];
    p->min_p = mins[rnd(6)];
    p->top_k = rnd(2) ? 0 : (int32_t) (1 + rnd(rnd(2) ? 10 : 2 * V));
    p->seed = rnd(1u << 31);
    p->n_top = rnd(MST_MAX_TOP_LOGPROBS + 1);
    p->flags = rnd(2) ? MST_PARAMS_LOGPROBS : 0;
    p->min_tokens = rnd(3) ? 0 : rnd(30);

    if (rnd(2)) {
        p->repetition_penalty = rndf(0.5f, 2);
        p->frequency_penalty = rndf(-2, 2);
        p->presence_penalty = rndf(-2, 2);
    }
}


static void
test_slow(void **state)
{
    int            k, kind;
    float          row[V];
    uint32_t       i, stops[4], tokens[64];
    mst_bias_t     bias[4];
    mst_params_t   p;
    mst_sample_t   s;
    mst_sampled_t  out;

    (void) state;

    for (k = 0; k < 4000; k++) {
        sample_init(&s, &p);
        random_params(&p);
        kind = (int) rnd(4);

        for (i = 0; i < V; i++) {
            row[i] = kind == 0 ? (float) rnd(4)          /* ties */
                   : kind == 1 ? rndf(-20, 20)
                   : kind == 2 ? rndf(-1, 1) * 1e-3f
                   : rnd(3) ? -INFINITY : rndf(-30, 5);
        }

        row[rnd(V)] = 1;                       /* one is finite */

        s.tokens = tokens;
        s.n_prompt = 1 + rnd(30);
        s.n_tokens = s.n_prompt + rnd(30);

        for (i = 0; i < 64; i++) {
            tokens[i] = rnd(rnd(2) ? 8 : V);
        }

        s.bias = bias;
        s.n_bias = rnd(4);

        for (i = 0; i < s.n_bias; i++) {
            bias[i].id = rnd(V);
            bias[i].value = rndf(-100, 100);
        }

        s.stop_ids = stops;
        s.n_stop = rnd(4);

        for (i = 0; i < s.n_stop; i++) {
            stops[i] = rnd(V);
        }

        s.greedy = rnd(8) == 0;

        slow_adjust(row, &s);
        mst_sampler_run(&sampler, row, &s, &out);

        for (i = 0; i < V && slow_row[i] == -INFINITY; i++) {
            /* void */
        }

        if (i == V) {
            assert_int_equal(out.status, MST_ERROR);
            continue;
        }

        assert_int_equal(out.status, MST_OK);
        assert_int_equal(out.ready_ns, 0);
        assert_int_equal(out.end, 0);

        if (p.flags & MST_PARAMS_LOGPROBS) {
            assert_int_equal(out.id, slow_draw(&s));
            check_logprobs(&s, &out);

        } else {
            assert_int_equal(out.id, slow_draw(&s));
            assert_int_equal(out.n_top, 0);
            assert_true(out.logprob == 0);
        }
    }
}


static void
test_greedy_ties(void **state)
{
    float          row[V];
    uint32_t       i;
    mst_params_t   p;
    mst_sample_t   s;
    mst_sampled_t  out;

    (void) state;

    sample_init(&s, &p);
    p.temperature = 0;

    for (i = 0; i < V; i++) {
        row[i] = -1;
    }

    row[200] = row[100] = row[250] = 3;

    mst_sampler_run(&sampler, row, &s, &out);
    assert_int_equal(out.id, 100);

    /* top_k 1, a tiny top_p and min_p 1 of one best are greedy too */

    row[100] = 3.001f;
    p.temperature = 2;

    for (i = 0; i < 300; i++) {
        p.seed = i;
        p.top_k = i % 3 == 0;
        p.top_p = i % 3 == 1 ? 1e-9f : 1;
        p.min_p = i % 3 == 2;

        mst_sampler_run(&sampler, row, &s, &out);
        assert_int_equal(out.id, 100);
    }

    /* the soft limit */

    p.top_k = 0;
    p.min_p = 0;
    s.greedy = 1;

    mst_sampler_run(&sampler, row, &s, &out);
    assert_int_equal(out.id, 100);
}


/* the one pass of plain greedy rows finds what the long way finds, over blocks
   and ties, and refuses the same rows */

static void
test_plain(void **state)
{
    enum { N = 5000 };

    float          *row;
    uint32_t        at, i, k;
    mst_err_t       err = { "" };
    mst_params_t    p;
    mst_sample_t    s;
    mst_sampled_t   fast, slow;
    mst_sampler_t   big;

    (void) state;

    row = malloc(N * sizeof(float));
    assert_int_equal(mst_sampler_init(&big, N, &err), MST_OK);
    sample_init(&s, &p);
    p.temperature = 0;

    for (k = 0; k < 300; k++) {
        for (i = 0; i < N; i++) {
            row[i] = k % 7 == 6 ? -INFINITY
                                : (float) rnd(k % 3 ? 40000 : 40) - 20000.0f;
        }

        /* the largest in one or two places, or what is no number */

        for (i = 0; i < k % 3; i++) {
            row[rnd(N)] = 30000;
        }

        at = rnd(N);
        row[at] = k % 10 == 0 ? NAN : k % 10 == 1 ? INFINITY
                  : k % 10 == 2 ? -INFINITY : row[at];

        p.flags = 0;
        mst_sampler_run(&big, row, &s, &fast);
        p.flags = MST_PARAMS_LOGPROBS;
        mst_sampler_run(&big, row, &s, &slow);

        assert_int_equal(fast.status, slow.status);

        if (slow.status == MST_OK) {
            assert_int_equal(fast.id, slow.id);
        }
    }

    mst_sampler_fini(&big);
    free(row);
}


static void
test_numeric(void **state)
{
    float          row[V];
    uint32_t       i, k, stop;
    mst_params_t   p;
    mst_sample_t   s;
    mst_sampled_t  out;
    static const float  bad[] = { NAN, INFINITY, -NAN };

    (void) state;

    sample_init(&s, &p);
    memset(row, 0, sizeof(row));

    for (k = 0; k < 6; k++) {
        p.temperature = (float) (k % 2);

        for (i = 0; i < V; i++) {
            row[i] = bad[k % 3];
            mst_sampler_run(&sampler, row, &s, &out);
            assert_int_equal(out.status, MST_ERROR);
            row[i] = 0;
        }
    }

    /* a ban does not hide it */

    row[7] = NAN;
    stop = 7;
    s.stop_ids = &stop;
    s.n_stop = 1;
    p.min_tokens = 5;

    mst_sampler_run(&sampler, row, &s, &out);
    assert_int_equal(out.status, MST_ERROR);

    /* -inf is a number that is never drawn, but one must be left */

    for (i = 0; i < V; i++) {
        row[i] = -INFINITY;
    }

    mst_sampler_run(&sampler, row, &s, &out);
    assert_int_equal(out.status, MST_ERROR);

    row[9] = -3e38f;

    for (i = 0; i < 10; i++) {
        p.seed = i;
        mst_sampler_run(&sampler, row, &s, &out);
        assert_int_equal(out.status, MST_OK);
        assert_int_equal(out.id, 9);
    }
}


/* draws of 8 tokens with known probabilities */

static double
chi_square(const float *row, mst_params_t *p, const double *want, int n,
    int positions)
{
    int            i, hits[V] = { 0 };
    double         chi, expected;
    uint32_t       tokens[1];
    mst_sample_t   s;
    mst_sampled_t  out;

    memset(&s, 0, sizeof(s));

    s.params = p;
    s.tokens = tokens;

    for (i = 0; i < n; i++) {

        /* over seeds, or over the positions of one answer */

        p->seed = positions ? 42 : (uint64_t) i;
        s.n_tokens = s.n_prompt + (positions ? (uint32_t) i : 0);

        mst_sampler_run(&sampler, row, &s, &out);
        hits[out.id]++;
    }

    chi = 0;

    for (i = 0; i < V; i++) {
        expected = want[i] * n;

        if (want[i] == 0) {
            assert_int_equal(hits[i], 0);
            continue;
        }

        chi += (hits[i] - expected) * (hits[i] - expected) / expected;
    }

    return chi;
}


static void
test_distribution(void **state)
{
    int           i, k;
    float         row[V];
    double        want[V], sum, t, chi;
    mst_params_t  p;

    (void) state;

    for (i = 0; i < V; i++) {
        row[i] = -INFINITY;
    }

    for (i = 0; i < 8; i++) {
        row[i * 32] = (float) i * 0.4f;
    }

    for (k = 0; k < 10; k++) {
        mst_params_default(&p);
        t = k % 2 ? 0.7 : 1;
        p.temperature = (float) t;
        p.top_k = k / 2 == 1 ? 5 : 0;
        p.top_p = k / 2 == 2 ? 0.8f : 1;
        p.min_p = k / 2 == 3 ? 0.2f : 0;

        sum = 0;

        for (i = 7; i >= 0; i--) {
            sum += exp(i * 0.4 / t);
        }

        memset(want, 0, sizeof(want));

        {
            double  above, total;

            above = 0;
            total = 0;

            for (i = 7; i >= 0; i--) {
                if ((p.top_k && i < 3)
                    || above / sum >= (double) p.top_p
                    || exp((i - 7) * 0.4 / t) < (double) p.min_p)
                {
                    break;
                }

                want[i * 32] = exp(i * 0.4 / t);
                above += want[i * 32];
                total += want[i * 32];
            }

            for (i = 0; i < V; i++) {
                want[i] /= total;
            }
        }

        /* 7 degrees of freedom at most: 24.3 has p = 0.001; the seeds are
           fixed, so this passes always or never */

        chi = chi_square(row, &p, want, 20000, k / 2 == 4);
        print_message("chi-square %.2f\n", chi);
        assert_true(chi < 24.3);
    }
}


static void
test_uniform(void **state)
{
    int     i, buckets[64] = { 0 };
    double  u, sum, chi;

    (void) state;

    sum = 0;
    chi = 0;

    for (i = 0; i < 100000; i++) {
        u = mst_sampler_uniform((uint64_t) (i / 1000), (uint32_t) (i % 1000));
        assert_true(u >= 0 && u < 1);
        sum += u;
        buckets[(int) (u * 64)]++;
    }

    for (i = 0; i < 64; i++) {
        chi += pow(buckets[i] - 1562.5, 2) / 1562.5;
    }

    assert_true(fabs(sum / 100000 - 0.5) < 0.003);
    assert_true(chi < 103);                    /* 63 degrees, p = 0.001 */

    assert_true(mst_sampler_uniform(1, 2) != mst_sampler_uniform(2, 1));
    assert_true(mst_sampler_uniform(1, 2) == mst_sampler_uniform(1, 2));
}


/* nothing of one sequence stays behind for the next */

static void
test_no_memory_of_others(void **state)
{
    float          row[V];
    uint32_t       i, tokens[40];
    mst_params_t   p, other;
    mst_sample_t   s, o;
    mst_sampled_t  alone, after, noise;

    (void) state;

    sample_init(&s, &p);
    sample_init(&o, &other);

    for (i = 0; i < V; i++) {
        row[i] = rndf(-3, 3);
    }

    for (i = 0; i < 40; i++) {
        tokens[i] = rnd(V);
    }

    p.repetition_penalty = 1.3f;
    p.flags = MST_PARAMS_LOGPROBS;
    p.n_top = 5;
    s.tokens = tokens;
    s.n_prompt = 10;
    s.n_tokens = 20;

    other = p;
    other.presence_penalty = 2;
    other.top_k = 3;
    o.tokens = tokens + 15;
    o.n_prompt = 0;
    o.n_tokens = 25;

    memset(&alone, 0, sizeof(alone));
    memset(&after, 0, sizeof(after));

    mst_sampler_run(&sampler, row, &s, &alone);
    mst_sampler_run(&sampler, row, &o, &noise);
    mst_sampler_run(&sampler, row, &s, &after);

    assert_memory_equal(&alone, &after, sizeof(alone));
}


/* of a token that is known: by the numbers of the model alone */

static void
test_score(void **state)
{
    float          logits[V];
    double         sum;
    uint32_t       i, id;
    mst_sampled_t  out;

    (void) state;

    for (i = 0; i < V; i++) {
        logits[i] = rndf(-5, 5);
    }

    logits[3] = 7;
    logits[5] = 6;
    sum = 0;

    for (i = 0; i < V; i++) {
        sum += exp((double) logits[i]);
    }

    for (id = 0; id < V; id += 5) {
        mst_sampler_score(&sampler, logits, id, 2, &out);

        assert_int_equal(out.status, MST_OK);
        assert_int_equal(out.id, id);
        assert_true(fabs(out.logprob - (logits[id] - log(sum))) < 1e-4);
        assert_int_equal(out.n_top, 2);
        assert_int_equal(out.top_ids[0], 3);
        assert_int_equal(out.top_ids[1], 5);
        assert_true(fabs(out.top_logprobs[0] - (7 - log(sum))) < 1e-4);
    }

    mst_sampler_score(&sampler, logits, 3, 0, &out);
    assert_int_equal(out.n_top, 0);
    assert_true(out.logprob < 0);

    logits[9] = -INFINITY;
    mst_sampler_score(&sampler, logits, 9, 0, &out);
    assert_int_equal(out.status, MST_OK);
    assert_true(out.logprob == -INFINITY);

    logits[9] = NAN;
    mst_sampler_score(&sampler, logits, 3, 0, &out);
    assert_int_equal(out.status, MST_ERROR);

    logits[9] = INFINITY;
    mst_sampler_score(&sampler, logits, 3, 0, &out);
    assert_int_equal(out.status, MST_ERROR);

    for (i = 0; i < V; i++) {
        logits[i] = -INFINITY;
    }

    mst_sampler_score(&sampler, logits, 3, 0, &out);
    assert_int_equal(out.status, MST_ERROR);
}


static void
test_memory(void **state)
{
    long           n;
    mst_err_t      err;
    mst_sampler_t  s;

    (void) state;

    for (n = 1; n <= 7; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        assert_int_equal(mst_sampler_init(&s, 100, &err), MST_ERROR);
        mst_mem_fail_after(0);
        assert_string_not_equal(err.text, "");
        mst_sampler_fini(&s);
    }
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_greedy_ties),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_numeric),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_no_memory_of_others),
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_memory)
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, setup, teardown);
}

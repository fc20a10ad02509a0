
/*
 * The arithmetic of sampling on a device (kernels/mst_k_sample_map.h): each
 * function by itself, then the steps of the kernel in a slow way, one after
 * the other and with the integers of the device, against the sampler of the
 * CPU.  PRINTS its seed; give another as the first argument.
 */

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/mst_sampler.h"
#include "kernels/mst_k_sample_map.h"


#define V      521
#define WORDS  4096


typedef struct {
    uint64_t  rank;
    double    weight;
    uint64_t  fixed;
} mst_entry_t;


static uint64_t  seed = 20261130;
static uint64_t  draws;


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
mst_k_sample_powers(void **state)
{
    int     i;
    double  z, want, got;

    (void) state;

    assert_true(mst_k_sample_exp2(0) == 1);

    for (i = 0; i < 200000; i++) {
        z = -(double) rndf(0, i % 2 ? 1 : 900);
        want = exp2(z);
        got = mst_k_sample_exp2(z);

        assert_true(fabs(got - want) <= 1e-14 * want);
    }

    assert_true(mst_k_sample_exp2(-0.5) > 0.70710678118654);
    assert_true(mst_k_sample_exp2(-1) == 0.5);
    assert_true(mst_k_sample_exp2(-999) == ldexp(1, -999));
}


static void
mst_k_sample_weights(void **state)
{
    int       i;
    float     x;
    double    w, t;

    (void) state;

    for (i = 0; i < 100000; i++) {
        x = rndf(-30, 0);
        t = (double) rndf(0.1f, 2);
        w = mst_k_sample_weight(x, 0, MST_K_SAMPLE_LOG2E / t);

        assert_true(fabs(w - exp((double) x / t)) <= 1e-13);
        assert_true(fabs((double) mst_k_sample_fixed(w, 46) - ldexp(w, 46))
                    <= 0.5);
    }

    assert_true(mst_k_sample_fixed(1, 46) == 1ull << 46);
    assert_true(mst_k_sample_fixed(0, 46) == 0);

    /* far below, and further than a float's difference goes */

    for (i = 0; i < 3; i++) {
        x = i == 0 ? -1000 : i == 1 ? -FLT_MAX : -INFINITY;
        w = mst_k_sample_weight(x, i == 1 ? FLT_MAX : 0, 1e40);

        assert_true(w == ldexp(1, -64));
        assert_true(mst_k_sample_fixed(w, 46) == 0);
    }

    assert_true(mst_k_sample_weight(3, 3, 1e40) == 1);

    /* a whole vocabulary of the best does not overflow a signed number */

    assert_true((uint64_t) MST_K_SAMPLE_VOCAB << mst_k_sample_bits(262144)
                < 1ull << 63);
    assert_true(65536ull << mst_k_sample_bits(65536) < 1ull << 63);
}


static void
mst_k_sample_ranks(void **state)
{
    int       i;
    float     x, y;
    uint32_t  a, b;
    uint64_t  r, s;

    (void) state;

    assert_true(mst_k_sample_rank(-0.0f, 3) == mst_k_sample_rank(0.0f, 3));
    assert_true(mst_k_sample_rank(1, 3) > mst_k_sample_rank(1, 4));
    assert_true(mst_k_sample_rank(-INFINITY, 0)
                < mst_k_sample_rank(-FLT_MAX, 77));

    for (i = 0; i < 100000; i++) {
        x = rndf(-8, 8);
        y = rnd(4) ? rndf(-8, 8) : x;
        a = rnd(MST_K_SAMPLE_VOCAB);
        b = a + 1 + rnd(10);

        r = mst_k_sample_rank(x, a);
        s = mst_k_sample_rank(y, b);

        assert_true((r > s) == (x >= y));
        assert_true(mst_k_sample_rank_id(r) == a);
        assert_true(mst_k_sample_rank_logit(r) == x);
    }
}


/* a greater logit is in no greater bin, whatever the scale */

static void
mst_k_sample_bins(void **state)
{
    int                 i;
    size_t              k;
    float               x, y, t;
    static const float  scales[] = { 0, 1e-30f, 0.7f, 64, 1e30f, INFINITY };

    (void) state;

    for (i = 0; i < 100000; i++) {
        x = rnd(8) ? rndf(-50, 8) : -FLT_MAX;
        y = rnd(8) ? rndf(-50, 8) : 8;

        if (x < y) {
            t = x;
            x = y;
            y = t;
        }

        for (k = 0; k < sizeof(scales) / sizeof(*scales) - 1; k++) {
            assert_true(mst_k_sample_bin(8, x, scales[k], 2048)
                        <= mst_k_sample_bin(8, y, scales[k], 2048));
            assert_true(mst_k_sample_bin(8, y, scales[k], 2048) < 2048);
        }
    }

    /* 0 times infinity: the best one comes to where all are */

    assert_int_equal(mst_k_sample_bin(8, 8, INFINITY, 2048), 2047);
    assert_int_equal(mst_k_sample_bin(8, 7, INFINITY, 2048), 2047);
}


static int
mst_entry_cmp(const void *a, const void *b)
{
    const mst_entry_t  *x = a, *y = b;

    return x->rank < y->rank ? 1 : -1;
}


static int
mst_entry_by_id(const void *a, const void *b)
{
    const mst_entry_t  *x = a, *y = b;

    return x->rank << 32 < y->rank << 32 ? 1 : -1;
}


static void
slow_adjust(const mst_k_sample_order_t *o, const uint32_t *words, float *x)
{
    float            value;
    uint32_t         i;
    const uint32_t  *w;
    static uint32_t  counts[V];

    memset(counts, 0, sizeof(counts));
    w = words + o->words;

    for (i = 0; i < o->n_history; i++) {
        if (i < o->n_prompt) {
            counts[w[i]] |= MST_K_SAMPLE_PROMPT;

        } else {
            counts[w[i]]++;
        }
    }

    for (i = 0; i < V; i++) {
        if (counts[i]) {
            x[i] = mst_k_sample_penalise(x[i], o, counts[i]);
        }
    }

    w += o->n_history + o->n_ban;

    for (i = 0; i < o->n_bias; i++) {
        memcpy(&value, &w[2 * i + 1], sizeof(float));
        x[w[2 * i]] += value;
    }

    for (w -= o->n_ban, i = 0; i < o->n_ban; i++) {
        x[w[i]] = -INFINITY;
    }
}


/* the smallest set of the best that reaches "need"; how many they are */

static uint32_t
slow_cut(const mst_entry_t *e, uint32_t n, uint64_t need)
{
    uint32_t  i;
    uint64_t  sum;

    sum = 0;

    for (i = 0; i < n && sum < need; i++) {
        sum += e[i].fixed;
    }

    return i;
}


static uint32_t
slow_draw(const mst_k_sample_order_t *o, mst_entry_t *e, uint32_t n)
{
    uint32_t   i;
    uint64_t   sum, target;

    if (o->top_k > 0 && o->top_k < n) {
        n = o->top_k;
    }

    if (o->top_p < 1) {
        for (sum = 0, i = 0; i < n; i++) {
            sum += e[i].fixed;
        }

        n = slow_cut(e, n, (uint64_t) ceil((double) o->top_p * (double) sum));
    }

    for (sum = 0, i = 0; i < n; i++) {
        if (e[i].weight < (double) o->min_p) {
            e[i].fixed = 0;
        }

        sum += e[i].fixed;
    }

    target = (uint64_t) ((unsigned __int128) sum
                         * mst_draw_bits(o->seed, o->n) >> MST_DRAW_BITS);

    qsort(e, n, sizeof(mst_entry_t), mst_entry_by_id);

    for (sum = 0, i = 0; i < n; i++) {
        sum += e[i].fixed;

        if (sum > target) {
            return mst_k_sample_rank_id(e[i].rank);
        }
    }

    return UINT32_MAX;
}


static uint32_t
slow(const mst_k_sample_order_t *o, const uint32_t *words,
    const float *logits, double *logprob)
{
    float               max;
    double              sum;
    uint32_t            i, n, id;
    static float        x[V];
    static mst_entry_t  e[V];

    memcpy(x, logits, sizeof(x));
    slow_adjust(o, words, x);

    for (n = 0, i = 0; i < V; i++) {
        if (x[i] > -INFINITY) {
            e[n++].rank = mst_k_sample_rank(x[i], i);
        }
    }

    qsort(e, n, sizeof(mst_entry_t), mst_entry_cmp);

    id = mst_k_sample_rank_id(e[0].rank);
    max = x[id];

    for (sum = 0, i = 0; i < n; i++) {
        sum += (double) mst_k_sample_fixed(mst_k_sample_weight(
                   mst_k_sample_rank_logit(e[i].rank), max,
                   MST_K_SAMPLE_LOG2E), mst_k_sample_bits(V));
    }

    for (i = 0; o->temperature > 0 && i < n; i++) {
        e[i].weight = mst_k_sample_weight(mst_k_sample_rank_logit(e[i].rank),
                                          max, MST_K_SAMPLE_LOG2E
                                               / (double) o->temperature);
        e[i].fixed = mst_k_sample_fixed(e[i].weight, mst_k_sample_bits(V));
    }

    if (o->temperature > 0) {
        id = slow_draw(o, e, n);
    }

    *logprob = (double) x[id] - (double) max
               - log(ldexp(sum, -mst_k_sample_bits(V)));

    return id;
}


static float
maybe(float off, float low, float high)
{
    return rnd(3) ? off : rndf(low, high);
}


static void
params_random(mst_params_t *p)
{
    mst_params_default(p);

    p->temperature = rnd(6) ? rndf(0.1f, 2) : 0;
    p->top_p = maybe(1, 0.01f, 1);
    p->top_k = rnd(3) ? 0 : (int32_t) rnd(V + 20);
    p->min_p = maybe(0, 0, 1);
    p->repetition_penalty = maybe(1, 0.5f, 2);
    p->frequency_penalty = maybe(0, -2, 2);
    p->presence_penalty = maybe(0, -2, 2);
    p->flags = MST_PARAMS_LOGPROBS;
    p->seed = rnd(1000);
    p->min_tokens = rnd(3) ? 0 : rnd(40);
    p->n_top = rnd(MST_MAX_TOP_LOGPROBS + 1);
}


static void
mst_k_sample_same(void **state)
{
    int                   i, k;
    double                logprob;
    uint32_t              id;
    mst_err_t             err;
    mst_bias_t            bias[10];
    mst_params_t          p;
    mst_sample_t          s;
    mst_sampled_t         sampled;
    mst_sampler_t         sampler;
    mst_k_sample_order_t  o;
    static float          x[V];
    static uint32_t       words[WORDS], tokens[300], stop[5];

    (void) state;

    err.text[0] = '\0';
    assert_int_equal(mst_sampler_init(&sampler, V, &err), MST_OK);

    for (i = 0; i < 4000; i++) {
        params_random(&p);

        for (k = 0; k < V; k++) {

            /* few values: many are equal */

            x[k] = i % 3 ? rndf(-10, 10) : (float) rnd(6) - 2;
        }

        memset(&s, 0, sizeof(s));

        s.params = &p;
        s.n_tokens = rnd(300);
        s.n_prompt = rnd(s.n_tokens + 1);
        s.tokens = tokens;
        s.n_bias = rnd(2) ? 0 : rnd(10);
        s.bias = bias;
        s.n_stop = rnd(5);
        s.stop_ids = stop;
        s.greedy = rnd(9) == 0;

        for (k = 0; k < 300; k++) {
            tokens[k] = rnd(i % 2 ? V : 30);
        }

        for (k = 0; k < 10; k++) {
            stop[k / 2] = rnd(V);
            bias[k].id = rnd(k % 3 ? V : 4);
            bias[k].value = rndf(-100, 20);
        }

        assert_int_equal(mst_k_sample_draw(&o, &s, 7, words, 9),
                         9 + mst_k_sample_words(&s));

        mst_sampler_run(&sampler, x, &s, &sampled);
        id = slow(&o, words, x, &logprob);

        assert_int_equal(sampled.status, MST_OK);
        assert_int_equal(sampled.id, id);
        assert_true(fabs((double) sampled.logprob - logprob)
                    <= 1e-6 * (1 + fabs(logprob)));
        assert_int_equal(o.row, 7);
        assert_int_equal(o.n_top, p.n_top);
    }

    mst_sampler_fini(&sampler);
}


static void
mst_k_sample_orders(void **state)
{
    mst_params_t          p;
    mst_sample_t          s;
    mst_sampled_t         sampled;
    mst_k_sampled_t       r = { MST_OK, 7, -1.5f, 2 };
    mst_k_sample_top_t    top;
    mst_k_sample_order_t  o;

    (void) state;

    mst_params_default(&p);
    memset(&s, 0, sizeof(s));
    s.params = &p;

    /* no penalty, no list; logprobs only where they are asked for */

    s.n_tokens = 5;
    s.n_prompt = 3;
    p.n_top = 4;

    assert_int_equal(mst_k_sample_words(&s), 0);
    assert_int_equal(mst_k_sample_draw(&o, &s, 1, NULL, 2), 2);
    assert_int_equal(o.flags, 0);
    assert_int_equal(o.n_top, 0);
    assert_int_equal(o.n, 2);

    mst_k_sample_score(&o, 3, 44, 5);
    assert_int_equal(o.flags, MST_K_SAMPLE_SCORE);
    assert_int_equal(o.row, 3);
    assert_int_equal(o.id, 44);
    assert_int_equal(o.n_top, 5);
    assert_int_equal(o.n_history + o.n_ban + o.n_bias, 0);

    memset(&sampled, 0xff, sizeof(sampled));
    top.ids[0] = 9;
    top.ids[1] = 7;
    top.logprobs[0] = -1;
    top.logprobs[1] = -1.5f;

    mst_k_sample_result(&r, &top, &sampled);

    assert_int_equal(sampled.status, MST_OK);
    assert_int_equal(sampled.id, 7);
    assert_int_equal(sampled.ready_ns, 0);
    assert_int_equal(sampled.end, 0);
    assert_int_equal(sampled.n_top, 2);
    assert_int_equal(sampled.top_ids[1], 7);
    assert_true(sampled.top_logprobs[0] == -1);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(mst_k_sample_powers),
        cmocka_unit_test(mst_k_sample_weights),
        cmocka_unit_test(mst_k_sample_ranks),
        cmocka_unit_test(mst_k_sample_bins),
        cmocka_unit_test(mst_k_sample_same),
        cmocka_unit_test(mst_k_sample_orders),
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 0);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * What a claim gives to a request: shares, classes and memory, exact to the
 * token.  What it says of time: mst_engine_time_test.c.
 */

#include "mst_engine_claim.h"


/* (sum x)^2 / (n sum x^2) */

static double
jain(const double *x, uint32_t n)
{
    double    sum, squares;
    uint32_t  i;

    sum = 0;
    squares = 0;

    for (i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }

    return sum * sum / (n * squares);
}


/* eight keys that always want more; what each got, by its weight */

static double
shares(uint32_t max_batch, const uint32_t *prompt, const uint32_t *answer,
    const uint32_t *backlog, const uint32_t *weight, int keys)
{
    double        got[8] = { 0 };
    uint32_t      i, k, live[8];
    mst_claim_t   c;

    memset(&c, 0, sizeof(c));
    begin(max_batch, 256, 4000, 0);

    for (k = 0; k < 6000; k++) {

        memset(live, 0, sizeof(live));

        for (i = n_tags > 2000 ? n_tags - 2000 : 0; i < n_tags; i++) {
            live[tags[i].key - 1] += !tags[i].done;
        }

        for (i = 0; i < 8; i++) {
            c.fair_key = i + 1;
            c.fair_weight = weight[i];

            for ( /* void */ ; live[i] < backlog[i]; live[i]++) {
                if (!keys) {
                    c.fair_key = 0;
                }

                tags[submit(&c, prompt[i], answer[i])].key = i + 1;
            }
        }

        steps(1);
    }

    for (i = 0; i < n_tags; i++) {
        if (tags[i].admitted) {
            got[tags[i].key - 1] += (double) (tags[i].n_prompt + tags[i].n)
                                    / weight[tags[i].key - 1];
        }
    }

    end();

    return jain(got, 8);
}


static void
test_fair(void **state)
{
    double    fair, unfair;
    uint32_t  i;
    static const uint32_t  prompt[8] = { 10, 200, 30, 700, 5, 64, 100, 1 };
    static const uint32_t  answer[8] = { 100, 20, 300, 10, 5, 64, 1, 200 };
    static const uint32_t  backlog[8] = { 2, 9, 3, 30, 8, 4, 20, 2 };
    static const uint32_t  even[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    static const uint32_t  odd[8] = { 1, 2, 1, 4, 1, 2, 3, 1 };
    static const uint32_t  batch[3] = { 2, 4, 6 };

    (void) state;

    for (i = 0; i < 3; i++) {
        fair = shares(batch[i], prompt, answer, backlog, even, 1);
        unfair = shares(batch[i], prompt, answer, backlog, even, 0);

        print_message("batch %u: Jain's index %.4f, without keys %.4f\n",
                      batch[i], fair, unfair);

        assert_true(fair >= 0.95);
        assert_true(unfair < 0.7);             /* the test can fail */

        fair = shares(batch[i], prompt, answer, backlog, odd, 1);
        print_message("by weights %.4f\n", fair);
        assert_true(fair >= 0.95);
    }
}


/* a flood of a lower class does not touch a higher one */

static void
test_classes(void **state)
{
    uint32_t     i, k, high;
    mst_claim_t  c, vip;

    (void) state;

    memset(&c, 0, sizeof(c));
    memset(&vip, 0, sizeof(vip));
    vip.priority = 3;

    begin(4, 256, 4000, 0);

    for (i = 0; i < 400; i++) {
        (void) submit(&c, 50, 40);
    }

    steps(100);

    /* in the queue it is first: it waits for one place and no more */

    high = submit(&vip, 50, 40);
    steps(50);
    assert_true(tags[high].first && tags[high].first - 101 <= 41);

    /* with preemption not even that */

    vip.flags = MST_CLAIM_PREEMPT;

    steps(50);

    for (k = 0; k < 10; k++) {
        steps(11);
        high = submit(&vip, 50, 40);
        i = (uint32_t) step;
        steps(1);
        assert_int_equal(tags[high].first, i);
    }

    steps(10000);

    for (i = 0; i < n_tags; i++) {
        assert_int_equal(tags[i].done, MST_FINISH_LENGTH);
        assert_int_equal(tags[i].n, 40);
    }

    end();
}


/* a claim that holds the whole answer is never preempted */

static void
burst(uint32_t reserve, uint32_t *most, uint64_t *preemptions)
{
    uint32_t            i;
    mst_claim_t         c;
    mst_engine_stats_t  s;

    memset(&c, 0, sizeof(c));
    c.kv_reserve = reserve;

    /* 32 + 97 - 1 tokens: 8 blocks each, 40 of them fill the pool */

    begin(400, 1024, 320, 1);

    for (i = 0; i < 200; i++) {
        (void) submit(&c, 32, 97);
    }

    *most = 0;

    do {
        steps(1);
        mst_engine_stats(engine, &s);
        *most = s.running > *most ? s.running : *most;
    } while (s.running);

    for (i = 0; i < n_tags; i++) {
        assert_int_equal(tags[i].n, 97);
    }

    *preemptions = s.preemptions;
    end();
}


static void
test_reserve(void **state)
{
    uint32_t  most;
    uint64_t  full, part, none;

    (void) state;

    burst(MST_RESERVE_FULL, &most, &full);
    assert_int_equal(full, 0);
    assert_int_equal(most, 40);

    burst(48, &most, &part);                   /* 5 blocks */
    assert_int_equal(most, 64);
    assert_true(part > 0);

    burst(0, &most, &none);
    assert_true(most > 64);
    assert_true(none > part);

    print_message("preemptions: full %u, half %u, prompt %u\n",
                  (unsigned) full, (unsigned) part, (unsigned) none);
}


/* classes below 0 give way to those who would have to wait otherwise */

static void
test_yield(void **state)
{
    uint32_t     i, low[4], high;
    mst_claim_t  c, batch;

    (void) state;

    memset(&c, 0, sizeof(c));
    memset(&batch, 0, sizeof(batch));
    batch.priority = -1;

    begin(2, 256, 400, 0);

    for (i = 0; i < 4; i++) {
        low[i] = submit(&batch, 10, 30);
    }

    steps(5);
    assert_true(tags[low[1]].admitted != 0);
    assert_int_equal(tags[low[2]].refused, 0);

    high = submit(&c, 10, 30);
    steps(1);

    /* what runs goes on */

    assert_int_equal(tags[low[2]].refused, MST_REFUSE_YIELD);
    assert_int_equal(tags[low[3]].refused, MST_REFUSE_YIELD);
    assert_int_equal(tags[high].refused + tags[low[0]].refused, 0);

    steps(100);
    assert_int_equal(tags[low[0]].n, 30);
    assert_int_equal(tags[high].n, 30);

    end();
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_fair),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_yield)
    };

    return cmocka_run_group_tests_name("mst_engine_policy", tests, NULL,
                                       NULL);
}


#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/mst_params.h"


static void
test_default(void **state)
{
    mst_err_t     err = { "" };
    mst_params_t  p;

    (void) state;

    memset(&p, 0xff, sizeof(p));
    mst_params_default(&p);

    assert_true(p.temperature == 1 && p.top_p == 1 && p.min_p == 0);
    assert_true(p.repetition_penalty == 1 && p.frequency_penalty == 0);
    assert_int_equal(p.top_k, 0);
    assert_int_equal(p.flags, 0);
    assert_int_equal(p.max_tokens, 16);
    assert_int_equal(p.soft_tokens, 0);
    assert_int_equal(p.n_top, 0);
    assert_int_equal(mst_params_check(&p, &err), MST_OK);
    assert_string_equal(err.text, "");
}


static void
test_floats(void **state)
{
    float         value, bad[6];
    size_t        i, k;
    mst_err_t     err;
    mst_params_t  p;

    static const struct {
        size_t       offset;
        float        low;
        float        high;
        const char  *text;         /* for a value of 1000001 */
    } cases[] = {
        { offsetof(mst_params_t, temperature), 0, 2,
          "temperature 1e+06 is outside 0 .. 2" },
        { offsetof(mst_params_t, top_p), 1e-6f, 1,
          "top_p 1e+06 is outside 1e-09 .. 1" },
        { offsetof(mst_params_t, min_p), 0, 1,
          "min_p 1e+06 is outside 0 .. 1" },
        { offsetof(mst_params_t, frequency_penalty), -2, 2,
          "frequency_penalty 1e+06 is outside -2 .. 2" },
        { offsetof(mst_params_t, presence_penalty), -2, 2,
          "presence_penalty 1e+06 is outside -2 .. 2" },
        { offsetof(mst_params_t, repetition_penalty), 1e-5f, 1e6f,
          "repetition_penalty 1e+06 is outside 1e-06 .. 1e+06" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bad[0] = nextafterf(cases[i].high, INFINITY);
        bad[1] = -2.5f;
        bad[2] = NAN;
        bad[3] = INFINITY;
        bad[4] = -INFINITY;
        bad[5] = 1000001;

        for (k = 0; k < 6; k++) {
            mst_params_default(&p);
            memcpy((char *) &p + cases[i].offset, &bad[k], sizeof(float));
            err.text[0] = '\0';
            assert_int_equal(mst_params_check(&p, &err), MST_ERROR);
        }

        assert_string_equal(err.text, cases[i].text);

        for (k = 0; k < 2; k++) {
            value = k ? cases[i].high : cases[i].low;
            mst_params_default(&p);
            memcpy((char *) &p + cases[i].offset, &value, sizeof(float));
            assert_int_equal(mst_params_check(&p, &err), MST_OK);
        }
    }

    mst_params_default(&p);
    p.top_p = 0;
    assert_int_equal(mst_params_check(&p, NULL), MST_ERROR);
}


static void
test_counts(void **state)
{
    mst_err_t     err = { "" };
    mst_params_t  p;

    (void) state;

    mst_params_default(&p);
    p.top_k = -1;
    assert_int_equal(mst_params_check(&p, &err), MST_ERROR);
    assert_string_equal(err.text, "top_k -1 is negative");

    mst_params_default(&p);
    p.n_top = 20;
    assert_int_equal(mst_params_check(&p, NULL), MST_OK);
    p.n_top = 21;
    err.text[0] = '\0';
    assert_int_equal(mst_params_check(&p, &err), MST_ERROR);
    assert_string_equal(err.text, "top_logprobs 21 is over 20");

    mst_params_default(&p);
    p.max_tokens = p.soft_tokens = p.min_tokens = INT32_MAX;
    assert_int_equal(mst_params_check(&p, NULL), MST_OK);
    p.max_tokens = 1u << 31;
    assert_int_equal(mst_params_check(&p, NULL), MST_ERROR);
    p.max_tokens = 0;
    p.soft_tokens = UINT32_MAX;
    assert_int_equal(mst_params_check(&p, NULL), MST_ERROR);
    p.soft_tokens = 0;
    p.min_tokens = UINT32_MAX;
    assert_int_equal(mst_params_check(&p, NULL), MST_ERROR);
    p.min_tokens = 0;
    assert_int_equal(mst_params_check(&p, NULL), MST_OK);
}


static void
test_claim(void **state)
{
    mst_err_t    err = { "" };
    mst_claim_t  c;

    (void) state;

    memset(&c, 0, sizeof(c));
    assert_int_equal(mst_claim_check(&c, NULL), MST_OK);

    memset(&c, 0xff, sizeof(c));
    c.flags = MST_CLAIM_PREEMPT;
    c.fair_weight = 1000;
    c.priority = -8;
    assert_int_equal(mst_claim_check(&c, NULL), MST_OK);

    c.priority = -9;
    assert_int_equal(mst_claim_check(&c, &err), MST_ERROR);
    assert_string_equal(err.text, "priority -9 is outside -8 .. 7");
    c.priority = 8;
    assert_int_equal(mst_claim_check(&c, NULL), MST_ERROR);
    c.priority = 7;
    assert_int_equal(mst_claim_check(&c, NULL), MST_OK);

    c.fair_weight = 1001;
    err.text[0] = '\0';
    assert_int_equal(mst_claim_check(&c, &err), MST_ERROR);
    assert_string_equal(err.text, "weight 1001 is over 1000");
    c.fair_weight = 1;

    c.flags = 3;
    err.text[0] = '\0';
    assert_int_equal(mst_claim_check(&c, &err), MST_ERROR);
    assert_string_equal(err.text, "claim with unknown flags 3");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_claim)
    };

    return cmocka_run_group_tests_name("mst_params", tests, NULL, NULL);
}

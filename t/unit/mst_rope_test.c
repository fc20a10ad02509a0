
/*
 * Frequencies against numbers of transformers' modeling_rope_utils, computed
 * by its published formulas in double precision.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "model/mst_rope.h"


static void
near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fabs(want))) {
        fail_msg("%.17g, expected %.17g", got, want);
    }
}


static void
test_plain_linear(void **state)
{
    double       f[8];
    mst_rope_t   r;

    (void) state;

    mst_rope_init(&r, 10000);
    mst_rope_frequencies(&r, 16, f);
    near(f[0], 1);
    near(f[4], 0.01);
    near(f[7], 0.00031622776601683794);

    r.kind = MST_ROPE_LINEAR;
    r.factor = 4;
    mst_rope_frequencies(&r, 16, f);
    near(f[0], 0.25);
    near(f[4], 0.0025);
}


/* factor 8, original 32, theta 500000: the first pair is kept, a middle one
   is mixed, the last ones are divided */

static void
test_llama3(void **state)
{
    double       f[8], kept, s, wave;
    mst_rope_t   r;

    (void) state;

    mst_rope_init(&r, 500000);
    r.kind = MST_ROPE_LLAMA3;
    r.factor = 8;
    r.original = 32;
    mst_rope_frequencies(&r, 16, f);

    near(f[0], 1);                             /* wave 6.3 < 32 / 4 */
    kept = pow(500000, -2.0 / 16);             /* wave 32.4 > 32: divided */
    near(f[1], kept / 8);
    near(f[7], pow(500000, -14.0 / 16) / 8);

    r.original = 64;                           /* 16 < 32.4 < 64: mixed */
    mst_rope_frequencies(&r, 16, f);
    wave = 2 * M_PI / kept;
    s = (64 / wave - 1) / 3;
    near(f[1], (1 - s) * kept / 8 + s * kept);
    assert_true(f[1] < kept && f[1] > kept / 8);
}


static void
test_yarn(void **state)
{
    double       f[8], plain[8];
    mst_rope_t   r;

    (void) state;

    mst_rope_init(&r, 10000);
    mst_rope_frequencies(&r, 16, plain);
    r.kind = MST_ROPE_YARN;
    r.factor = 4;
    r.original = 32;
    mst_rope_frequencies(&r, 16, f);

    /* bounds: floor(16 ln(32 / (32 * 2 pi)) / (2 ln 10000)) = -2 -> 0 and
       ceil(16 ln(32 / (2 pi)) / (2 ln 10000)) = ceil(1.41) = 2 */

    near(f[0], plain[0]);
    near(f[1], plain[1] / 4 * 0.5 + plain[1] * 0.5);
    near(f[2], plain[2] / 4);
    near(f[7], plain[7] / 4);

    near(mst_rope_mscale(4, 1), 0.1 * log(4) + 1);
    near(mst_rope_mscale(1, 1), 1);

    r.smooth = 1;                              /* 0 and 1.41 */
    mst_rope_frequencies(&r, 16, f);
    near(f[1], 0.14849024701094485);
}


static void
test_dynamic(void **state)
{
    mst_rope_t  r;

    (void) state;

    mst_rope_init(&r, 10000);
    near(mst_rope_base(&r, 16, 1000), 10000);

    r.kind = MST_ROPE_DYNAMIC;
    r.factor = 2;
    r.original = 100;

    near(mst_rope_base(&r, 16, 1), 10000);
    near(mst_rope_base(&r, 16, 100), 10000);
    near(mst_rope_base(&r, 16, 200), 10000 * pow(2.0 * 2 - 1, 16.0 / 14));
}


static void
test_check(void **state)
{
    size_t       i;
    mst_err_t    err;
    mst_rope_t   r;

    static const struct {
        mst_rope_kind_t  kind;
        double           base, factor, original, low, high, slow, attention;
        const char      *text;
    } cases[] = {
        { MST_ROPE_PLAIN, 10000, 1, 0, 1, 4, 1, 1, NULL },
        { MST_ROPE_PLAIN, NAN, 1, 0, 1, 4, 1, 1, "rope theta is nan" },
        { MST_ROPE_PLAIN, 1, 1, 0, 1, 4, 1, 1, "rope theta is 1" },
        { MST_ROPE_LINEAR, 10000, 0.5, 0, 1, 4, 1, 1, "rope factor is 0.5" },
        { MST_ROPE_LINEAR, 10000, INFINITY, 0, 1, 4, 1, 1,
          "rope factor is inf" },
        { MST_ROPE_DYNAMIC, 10000, 2, 0, 1, 4, 1, 1, "original" },
        { MST_ROPE_YARN, 10000, 2, NAN, 1, 4, 1, 1, "original" },
        { MST_ROPE_YARN, 10000, 2, 32, 1, 4, 0, 1, "beta_slow 0" },
        { MST_ROPE_YARN, 10000, 2, 32, 1, 4, 1, 0, "attention_factor 0" },
        { MST_ROPE_YARN, 10000, 2, 32, 1, 4, 1, 1, NULL },
        { MST_ROPE_LLAMA3, 10000, 2, 32, 4, 4, 1, 1, "low_freq_factor 4" },
        { MST_ROPE_LLAMA3, 10000, 2, 32, 1, 4, 1, 1, NULL }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        mst_rope_init(&r, cases[i].base);
        r.kind = cases[i].kind;
        r.factor = cases[i].factor;
        r.original = cases[i].original;
        r.low_freq = cases[i].low;
        r.high_freq = cases[i].high;
        r.beta_slow = cases[i].slow;
        r.attention = cases[i].attention;
        err.text[0] = '\0';

        if (cases[i].text == NULL) {
            assert_int_equal(mst_rope_check(&r, &err), MST_OK);
            continue;
        }

        assert_int_equal(mst_rope_check(&r, &err), MST_ERROR);

        if (strstr(err.text, cases[i].text) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].text);
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_plain_linear),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_dynamic),
        cmocka_unit_test(test_check)
    };

    return cmocka_run_group_tests_name("mst_rope", tests, NULL, NULL);
}

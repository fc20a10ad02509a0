
/*
 * An operator's scaling is that of a file which says the same: those of
 * t/data/golden/tiny, whose logits mst_checkpoint_test.c compares with the
 * reference implementation.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "model/mst_check.h"
#include "model/mst_checkpoint.h"

#define TINY  "t/data/golden/tiny/"


static void
config_of(const char *name, mst_config_t *c)
{
    char               path[128];
    mst_err_t          err = { "" };
    mst_checkpoint_t  *cp;
    mst_check_files_t  files;

    (void) snprintf(path, sizeof(path), TINY "%s", name);
    assert_int_equal(mst_check_open(path, &files, &err), MST_OK);
    cp = mst_checkpoint_open(files.fd, files.n, path, &err);
    assert_non_null(cp);
    *c = *mst_checkpoint_config(cp);
    mst_checkpoint_close(cp);
    mst_check_close(&files);
}


static void
test_files(void **state)
{
    size_t        i;
    double        want[MST_ROPE_MAX_PAIRS], got[MST_ROPE_MAX_PAIRS];
    mst_err_t     err = { "" };
    mst_config_t  own, c;

    static const struct {
        const char  *name;
        double       original;         /* of the model without scaling */
        mst_tune_t   tune;
    } cases[] = {
        { "rope-linear", 32, { .rope = MST_TUNE_LINEAR, .factor = 4 } },
        { "rope-yarn", 32, { .rope = MST_TUNE_YARN, .factor = 4 } },
        { "rope-yarn", 128, { .rope = MST_TUNE_YARN, .factor = 4,
                              .original = 32, .beta_fast = 32,
                              .beta_slow = 1 } },
        { "rope-llama3", 16, { .rope = MST_TUNE_LLAMA3, .factor = 8,
                               .original = 32, .low_freq = 1,
                               .high_freq = 4 } }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        config_of(cases[i].name, &own);
        c = own;
        mst_rope_init(&c.rope, own.rope.base);
        c.context = (uint32_t) cases[i].original;

        assert_int_equal(mst_config_tune(&c, &cases[i].tune, &err), MST_OK);
        assert_int_equal(c.context, cases[i].tune.factor * 32);
        assert_int_equal(c.rope.kind, own.rope.kind);
        assert_true(c.rope.attention == own.rope.attention);
        assert_true(c.retuned);

        mst_rope_frequencies(&own.rope, own.rope_dim, want);
        mst_rope_frequencies(&c.rope, c.rope_dim, got);
        assert_memory_equal(got, want, own.rope_dim / 2 * sizeof(double));
    }
}


/* what a file says is replaced, not multiplied */

static void
test_replaced(void **state)
{
    uint32_t      i;
    double        got[MST_ROPE_MAX_PAIRS];
    mst_err_t     err = { "" };
    mst_tune_t    t = { .rope = MST_TUNE_LINEAR, .factor = 2.5 };
    mst_config_t  c;

    (void) state;

    config_of("rope-yarn", &c);
    assert_int_equal(mst_config_tune(&c, &t, &err), MST_OK);
    assert_int_equal(c.context, 80);
    assert_true(c.rope.attention == 1);
    mst_rope_frequencies(&c.rope, c.rope_dim, got);

    for (i = 0; i < c.rope_dim / 2; i++) {
        assert_true(got[i] == pow(c.rope.base, -2.0 * i / c.rope_dim) / 2.5);
    }

    /* a window as wide as the model's context hides something now */

    config_of("mistral-window", &c);
    c.windows[0] = c.context;
    t.rope = MST_TUNE_DYNAMIC;
    assert_int_equal(mst_config_check(&c, &err), MST_OK);
    assert_int_equal(mst_config_tune(&c, &t, &err), MST_OK);
    assert_int_equal(c.context, 320);
    assert_int_equal(c.windows[0], 128);
    assert_true(mst_rope_base(&c.rope, c.rope_dim, 128) == c.rope.base);
    assert_true(mst_rope_base(&c.rope, c.rope_dim, 129) > c.rope.base);
}


static void
test_refused(void **state)
{
    size_t        i;
    mst_err_t     err;
    mst_config_t  c;

    static const struct {
        const char  *name;
        mst_tune_t   tune;
        const char  *why;
    } cases[] = {
        { "mistral-plain", { .rope = 5, .factor = 2 },
          "rope scaling of kind 5 is not known" },
        { "mistral-plain", { .rope = MST_TUNE_LINEAR, .factor = 0.5 },
          "rope factor is 0.5, limits are 1 and 1024" },
        { "mistral-plain", { .rope = MST_TUNE_LINEAR, .factor = NAN },
          "rope factor is nan, limits are 1 and 1024" },
        { "mistral-plain", { .rope = MST_TUNE_LINEAR, .factor = 1000,
                             .original = 20000 },
          "rope scaling makes a context of 2e+07 tokens, limits are 1 and "
          "16777216" },
        { "mistral-plain", { .rope = MST_TUNE_LINEAR, .factor = 2,
                             .original = NAN },
          "rope scaling makes a context of nan tokens, limits are 1 and "
          "16777216" },
        { "mistral-plain", { .rope = MST_TUNE_YARN, .factor = 2,
                             .beta_fast = 1, .beta_slow = 2 },
          "rope beta_slow 2 must be above 0, beta_fast 1 not below it, "
          "attention_factor 1.06931 from 0 to 100" },
        { "mistral-plain", { .experts = 2 },
          "2 experts for a token: the model has none" },
        { "mixtral-4x", { .experts = 5 },
          "5 experts for a token: the model has 4" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        config_of(cases[i].name, &c);
        err.text[0] = '\0';
        assert_int_equal(mst_config_tune(&c, &cases[i].tune, &err),
                         MST_ERROR);
        assert_string_equal(err.text, cases[i].why);
    }
}


static void
test_experts(void **state)
{
    mst_err_t     err = { "" };
    mst_tune_t    t = { .experts = 4 };
    mst_config_t  c;

    (void) state;

    config_of("mixtral-4x", &c);
    assert_int_equal(c.n_used, 2);
    assert_int_equal(mst_config_tune(&c, &t, &err), MST_OK);
    assert_int_equal(c.n_used, 4);
    assert_false(c.retuned);

    t.experts = 0;
    assert_int_equal(mst_config_tune(&c, &t, &err), MST_OK);
    assert_int_equal(c.n_used, 4);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_experts)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

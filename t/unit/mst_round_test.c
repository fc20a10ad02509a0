
/*
 * What bf16 costs the golden checkpoints, and how well it can be foretold: a
 * model in double (round.h) is the stored reference where nothing is rounded,
 * and where everything is that a CUDA device rounds, a small error before each
 * rounding moves logits by far less than the roundings do.  The tests of the
 * device (t/cuda) take their tolerance from here.
 */

#include "round.h"

#include <jansson.h>
#include <stdio.h>

#include "golden.h"
#include "model/mst_check.h"


/* the roundings alone, of all rows, and of one in its own largest logit: what
   t/cuda/cuda_rig.h allows beside the CPU, which rounds nothing */

#define WITHOUT      0.06
#define WITHOUT_RMS  0.04
#define ROW          0.07


static mst_checkpoint_t *
open_tiny(const char *name)
{
    char               path[256];
    mst_err_t          err = { "" };
    mst_checkpoint_t  *cp;
    mst_check_files_t  files;

    (void) snprintf(path, sizeof(path), GOLDEN_TINY "%s", name);

    if (mst_check_open(path, &files, &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    cp = mst_checkpoint_open(files.fd, files.n, path, &err);
    mst_check_close(&files);
    assert_non_null(cp);

    return cp;
}


static void
compare(const char *name)
{
    double            d, *exact, *got, rms, *rounded;
    size_t            n;
    uint32_t          seed, vocab;
    golden_t          g;
    mst_checkpoint_t *cp;

    golden_load(&g, name);
    cp = open_tiny(name);
    vocab = mst_checkpoint_config(cp)->n_vocab;
    n = (size_t) g.n * vocab;

    exact = round_logits(&(round_t) { .cp = cp }, 1, g.ids, g.n);
    rounded = round_logits(&(round_t) { .cp = cp, .rounded = 1 }, 1, g.ids,
                           g.n);

    d = round_distance(exact + (size_t) g.mid * vocab, g.mid_logits, vocab,
                       &rms);
    assert_true(d < 2e-6);
    d = round_distance(exact + (size_t) (g.prompt - 1) * vocab, g.last_logits,
                       vocab, &rms);
    assert_true(d < 2e-6);

    d = round_distance(rounded, exact, n, &rms);
    assert_true(d < WITHOUT && rms < WITHOUT_RMS);
    print_message("%s: %.4f, rms %.4f", name, d, rms);

    d = round_distance(rounded + (size_t) g.mid * vocab, g.mid_logits, vocab,
                       &rms);
    assert_true(d < ROW);
    print_message("; a row %.4f", d);
    d = round_distance(rounded + (size_t) (g.prompt - 1) * vocab,
                       g.last_logits, vocab, &rms);
    assert_true(d < ROW);
    print_message(", %.4f; noise", d);

    for (seed = 1; seed <= 4; seed++) {
        got = round_logits(&(round_t) { .cp = cp, .rounded = 1,
                                        .noise = ROUND_NOISE,
                                        .random = seed }, 1, g.ids, g.n);
        d = round_distance(got, rounded, n, &rms);
        assert_true(d < ROUND_TOLERANCE / 2 && rms < ROUND_RMS / 2);
        assert_true(d > 0);
        print_message(" %.4f/%.4f", d, rms);
        free(got);
    }

    print_message("\n");
    free(exact);
    free(rounded);
    mst_checkpoint_close(cp);
    golden_free(&g);
}


static void
test_golden(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; golden_dense[i]; i++) {
        compare(golden_dense[i]);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_golden)
    };

    return cmocka_run_group_tests_name("round", tests, NULL, NULL);
}

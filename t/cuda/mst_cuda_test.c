
/*
 * The CUDA backend beside the CPU's: tiny random models of many shapes, the
 * checkpoints of t/data/golden, and those whose paths are given.  The same
 * tokens go in one chunk, in several, one by one in batches of any size and
 * beside others' prompts.
 *
 *     mst_cuda_test [libmst_cuda.so [MODEL...]]
 */

#include "cuda_rig.h"
#include "golden.h"
#include "round.h"

#define IDS   150
#define LONG  1500                 /* tokens of the long one */


/* sequences of different lengths decode together */

static void
decodes(const rig_t *cuda, const uint32_t *ids, uint32_t n, const float *want)
{
    float            *got;
    size_t            row;
    uint32_t          i, k, s;
    mst_batch_seq_t   q[RIG_SEQS];

    row = cuda->vocab;
    got = malloc(RIG_SEQS * row * sizeof(float));

    for (s = 0; s < RIG_SEQS; s++) {
        q[0] = rig_part(cuda, s, ids, 0, n - 1 - s, MST_LOGITS_NONE);
        (void) rig_step(cuda, q, 1);
    }

    for (k = 1; k <= RIG_SEQS; k = k < 20 ? k + k / 2 + 1 : k + 9) {

        for (s = 0; s < k; s++) {
            q[s] = rig_part(cuda, s, ids, n - 1 - s, 1, MST_LOGITS_LAST);
        }

        memcpy(got, rig_step(cuda, q, k), k * row * sizeof(float));

        for (i = 0; i < k; i++) {
            rig_compare("decodes", got + i * row, want + (n - 1 - i) * row, 1,
                        cuda->vocab);
        }

        /* the same step gives the same bits */

        assert_memory_equal(got, rig_step(cuda, q, k), k * row
                                                       * sizeof(float));
    }

    free(got);
}


/* prompts' chunks beside decodes, in any order */

static void
mixed(const rig_t *cuda, const uint32_t *ids, uint32_t n, const float *want)
{
    float            *prompt;
    size_t            row;
    uint32_t          third;
    const float      *got;
    mst_batch_seq_t   q[4];

    row = cuda->vocab;
    third = n / 3;
    prompt = malloc(n * row * sizeof(float));

    rig_prefill(cuda, 2, ids, 0, third, 64, prompt);
    rig_prefill(cuda, 3, ids, 0, n - 4, 99, prompt);
    rig_prefill(cuda, 4, ids, 0, n - 1, 99, prompt);

    q[0] = rig_part(cuda, 3, ids, n - 4, 1, MST_LOGITS_LAST);
    q[1] = rig_part(cuda, 2, ids, third, third, MST_LOGITS_ALL);
    q[2] = rig_part(cuda, 4, ids, n - 1, 1, MST_LOGITS_LAST);
    q[3] = rig_part(cuda, 5, ids, 0, third, MST_LOGITS_ALL);
    got = rig_step(cuda, q, 4);

    rig_compare("mixed: a decode", got, want + (n - 4) * row, 1, cuda->vocab);
    rig_compare("mixed: a second chunk", got + row, want + third * row,
                third, cuda->vocab);
    rig_compare("mixed: a later decode", got + (third + 1) * row,
                want + (n - 1) * row, 1, cuda->vocab);
    rig_compare("mixed: a first chunk", got + (third + 2) * row, want, third,
                cuda->vocab);
    free(prompt);
}


static void
beside(rig_t *cpu, rig_t *cuda, const uint32_t *ids, uint32_t n)
{
    float     *got, *want;
    size_t     size;
    uint32_t   i;

    static const uint32_t  chunks[] = { 256, 1, 2, 7, 64, 100 };

    size = (size_t) n * cpu->vocab * sizeof(float);
    want = malloc(size);
    got = malloc(size);
    rig_prefill(cpu, 0, ids, 0, n, RIG_ROWS, want);

    for (i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
        rig_prefill(cuda, i, ids, 0, n, chunks[i], got);
        rig_compare("chunks", got, want, n, cpu->vocab);
    }

    decodes(cuda, ids, n, want);
    mixed(cuda, ids, n, want);

    free(got);
    free(want);
    rig_close(cuda);
    rig_close(cpu);
}


static void
test_shapes(void **state)
{
    size_t    i;
    rig_t     cpu, cuda;
    uint32_t  ids[IDS];

    (void) state;

    for (i = 0; i < RIG_SHAPES; i++) {
        if (!rig_shape_wanted(i)) {
            continue;
        }

        rig_tiny(&cpu, &rig_shapes[i], 4711 + i, RIG_CPU);
        rig_tiny(&cuda, &rig_shapes[i], 4711 + i, RIG_CUDA);
        rig_random_ids(ids, IDS, rig_shapes[i].tiny.vocab, i);
        beside(&cpu, &cuda, ids, IDS);
    }
}


/* many pages, some of which windows leave */

static void
test_long(void **state)
{
    float     *got, *want;
    rig_t      cpu, cuda;
    size_t     i, size;
    uint32_t   ids[LONG];

    (void) state;

    for (i = 0; i < 5; i += 2) {
        rig_tiny(&cpu, &rig_shapes[i], 815, RIG_CPU);
        rig_tiny(&cuda, &rig_shapes[i], 815, RIG_CUDA);
        rig_random_ids(ids, LONG, cpu.vocab, 16 + i);

        size = (size_t) LONG * cpu.vocab * sizeof(float);
        want = malloc(size);
        got = malloc(size);

        rig_prefill(&cpu, 0, ids, 0, LONG, RIG_ROWS, want);
        rig_prefill(&cuda, 0, ids, 0, LONG - 20, 250, got);
        rig_prefill(&cuda, 0, ids, LONG - 20, 20, 1,
                    got + (size_t) (LONG - 20) * cpu.vocab);
        rig_compare(rig_shapes[i].name, got, want, LONG, cpu.vocab);

        free(got);
        free(want);
        rig_close(&cuda);
        rig_close(&cpu);
    }
}


/* logits of a model in double, with the roundings of a device or without */

static double *
in_double(const char *path, int rounded, const golden_t *g)
{
    double             *logits;
    mst_err_t           err = { "" };
    mst_checkpoint_t   *cp;
    mst_check_files_t   files;

    assert_int_equal(mst_check_open(path, &files, &err), MST_OK);
    cp = mst_checkpoint_open(files.fd, files.n, path, &err);
    mst_check_close(&files);
    assert_non_null(cp);

    logits = round_logits(&(round_t) { .cp = cp, .rounded = rounded }, 1,
                          g->ids, g->n);
    mst_checkpoint_close(cp);

    return logits;
}


static float *
narrow(const double *x, size_t n)
{
    float   *f;
    size_t   i;

    f = malloc(n * sizeof(float));

    for (i = 0; i < n; i++) {
        f[i] = (float) x[i];
    }

    return f;
}


/* a step of many rows is what the model in double with the same roundings is,
   but for the few that sums in float32 turn */

static void
golden_rounded(const char *name, const char *path, const golden_t *g,
    const float *got, uint32_t vocab)
{
    double   d, *own, rms, *want;
    size_t   i, n;

    n = (size_t) g->n * vocab;
    want = in_double(path, 1, g);
    own = round_new(n);

    for (i = 0; i < n; i++) {
        own[i] = (double) got[i];
    }

    d = round_distance(own, want, n, &rms);
    print_message("    %.4f, rms %.4f, %s with its roundings\n", d, rms, name);
    assert_true(d < ROUND_TOLERANCE && rms < ROUND_RMS);

    free(own);
    free(want);
}


/* token by token, and the stored answer where its margin counts */

static void
golden_answer(const char *name, const rig_t *cuda, const golden_t *g,
    const float *want)
{
    float            *got;
    size_t            row;
    double            top;
    uint32_t          i, n;
    mst_batch_seq_t   q;

    row = cuda->vocab;
    n = g->n - g->prompt;
    top = rig_top(want, g->n * row);
    got = malloc((n + 1) * row * sizeof(float));

    for (i = 0; i <= n; i++) {
        q = i ? rig_part(cuda, 0, g->ids, g->prompt + i - 1, 1,
                         MST_LOGITS_LAST)
              : rig_part(cuda, 0, g->ids, 0, g->prompt, MST_LOGITS_LAST);
        memcpy(got + i * row, rig_step(cuda, &q, 1), row * sizeof(float));

        if (i < n && g->margins[g->prompt + i] > 2 * RIG_TOLERANCE * top) {
            assert_int_equal(rig_best(got + i * row, cuda->vocab),
                             g->ids[g->prompt + i]);
        }
    }

    rig_compare(name, got, want + (g->prompt - 1) * row, n + 1, cuda->vocab);
    free(got);
}


static void
golden(const char *name)
{
    char       path[256];
    float     *got, *want;
    rig_t      cuda;
    double    *exact;
    golden_t   g;

    golden_load(&g, name);
    (void) snprintf(path, sizeof(path), GOLDEN_TINY "%s", name);
    rig_path(&cuda, path, 1, RIG_CUDA);

    /* which is the stored one: t/unit/mst_round_test.c */

    exact = in_double(path, 0, &g);
    want = narrow(exact, (size_t) g.n * cuda.vocab);
    got = malloc((size_t) g.n * cuda.vocab * sizeof(float));

    rig_prefill(&cuda, 0, g.ids, 0, g.n, 13, got);
    rig_compare(name, got, want, g.n, cuda.vocab);
    rig_prefill(&cuda, 0, g.ids, 0, g.n, RIG_ROWS, got);
    rig_compare(name, got, want, g.n, cuda.vocab);
    golden_rounded(name, path, &g, got, cuda.vocab);
    golden_answer(name, &cuda, &g, want);

    free(got);
    free(want);
    free(exact);
    golden_free(&g);
    rig_close(&cuda);
}


static void
test_golden(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; golden_dense[i]; i++) {
        golden(golden_dense[i]);
    }
}


/* the stored rows of a mixture of experts */

static void
golden_mixture(const char *name)
{
    char       path[256];
    float     *got, *want;
    rig_t      cuda;
    golden_t   g;

    golden_load(&g, name);
    (void) snprintf(path, sizeof(path), GOLDEN_TINY "%s", name);
    rig_path(&cuda, path, 1, RIG_CUDA);
    got = malloc((size_t) g.prompt * cuda.vocab * sizeof(float));
    rig_prefill(&cuda, 0, g.ids, 0, g.prompt, RIG_ROWS, got);

    want = narrow(g.mid_logits, cuda.vocab);
    rig_compare(name, got + (size_t) g.mid * cuda.vocab, want, 1, cuda.vocab);
    free(want);
    want = narrow(g.last_logits, cuda.vocab);
    rig_compare(name, got + (size_t) (g.prompt - 1) * cuda.vocab, want, 1,
                cuda.vocab);
    free(want);

    free(got);
    golden_free(&g);
    rig_close(&cuda);
}


/* sequences of one step with 1, 2 .. 4 experts a token */

static void
experts(const rig_t *cpu, const rig_t *cuda, const uint32_t *ids, uint32_t n)
{
    float            *want;
    uint32_t          rows, s, turn;
    mst_batch_seq_t   q[4], r[4];

    want = malloc(4 * (size_t) n * cpu->vocab * sizeof(float));

    for (turn = 0; turn < 2; turn++) {
        rows = turn ? 1 : n - 1;

        for (s = 0; s < 4; s++) {
            q[s] = rig_part(cpu, s, ids, turn ? n - 1 : 0, rows,
                            MST_LOGITS_ALL);
            q[s].experts = s + 1;
            r[s] = q[s];
            r[s].blocks = cuda->blocks[s];
        }

        memcpy(want, rig_step(cpu, q, 4), 4 * (size_t) rows * cpu->vocab
                                          * sizeof(float));
        rig_compare("numbers of experts", rig_step(cuda, r, 4), want,
                    4 * rows, cpu->vocab);
    }

    /* they count */

    assert_true(rig_distance(want, want + cpu->vocab, 1, cpu->vocab)
                > 2 * RIG_TOLERANCE);
    free(want);
}


static void
test_mixture(void **state)
{
    rig_t     cpu, cuda;
    uint32_t  ids[60];

    (void) state;

    golden_mixture("mixtral-4x");
    rig_strays_begin();

    rig_path(&cpu, GOLDEN_TINY "mixtral-4x", 0, RIG_CPU);
    rig_path(&cuda, GOLDEN_TINY "mixtral-4x", 0, RIG_CUDA);
    rig_random_ids(ids, 60, cpu.vocab, 5);
    experts(&cpu, &cuda, ids, 60);
    beside(&cpu, &cuda, ids, 60);
    rig_strays_end(10);
}


static void
test_models(void **state)
{
    rig_t     cpu, cuda;
    uint32_t  i, ids[IDS];

    (void) state;

    rig_needs_models();

    for (i = 0; i < rig_n_models; i++) {
        print_message("%s\n", rig_models[i]);
        rig_path(&cpu, rig_models[i], 0, RIG_CPU);
        rig_path(&cuda, rig_models[i], 0, RIG_CUDA);
        rig_random_ids(ids, IDS, mst_model_info(cpu.m)->n_vocab, 99 + i);
        rig_strays_begin();
        beside(&cpu, &cuda, ids, IDS);
        rig_strays_end(8);
    }
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_mixture),
        cmocka_unit_test(test_models)
    };

    return rig_main(argc, argv, tests);
}


/*
 * batch_invariant on: the bits of a row's logits depend on its sequence's
 * tokens alone, whatever the chunks, whoever else is in the step and however
 * many, and they are near the CPU's.
 *
 *     mst_cuda_invariant_test [libmst_cuda.so [MODEL...]]
 */

#include "cuda_rig.h"

#define IDS  220                   /* tokens, or as many as there is room for */


static void
same(const char *what, const float *got, const float *want, uint32_t rows,
    uint32_t vocab)
{
    if (memcmp(got, want, (size_t) rows * vocab * sizeof(float)) != 0) {
        fail_msg("%s: other bits, %.1e of the largest", what,
                 rig_distance(got, want, rows, vocab));
    }
}


/* the last tokens of sequences of different lengths in steps of any size */

static void
decodes(const rig_t *cuda, const uint32_t *ids, uint32_t n,
    const float *want)
{
    size_t            row;
    uint32_t          i, k, s;
    const float      *got;
    mst_batch_seq_t   q[RIG_SEQS];

    row = cuda->vocab;

    for (s = 0; s < RIG_SEQS; s++) {
        q[0] = rig_part(cuda, s, ids, 0, n - 1 - s, MST_LOGITS_NONE);
        (void) rig_step(cuda, q, 1);
    }

    for (k = 1; k <= RIG_SEQS; k += k < 17 ? 1 : 5) {

        for (s = 0; s < k; s++) {
            q[s] = rig_part(cuda, s, ids, n - 1 - s, 1, MST_LOGITS_LAST);
        }

        got = rig_step(cuda, q, k);

        for (i = 0; i < k; i++) {
            same("decodes", got + i * row, want + (n - 1 - i) * row, 1,
                 cuda->vocab);
        }
    }
}


/* a prompt's end beside another's beginning and decodes */

static void
mixed(const rig_t *cuda, const uint32_t *ids, uint32_t n, const float *want)
{
    float            *unused;
    size_t            row;
    uint32_t          k;
    const float      *got;
    mst_batch_seq_t   q[4];

    row = cuda->vocab;
    unused = malloc(n * row * sizeof(float));

    for (k = 2; k < n / 2; k = k * 2 + 1) {
        rig_prefill(cuda, 5, ids, 0, n - k, 33, unused);
        rig_prefill(cuda, 3, ids, 0, n - 1, 100, unused);

        q[0] = rig_part(cuda, 1, ids, 0, k + 9, MST_LOGITS_ALL);
        q[1] = rig_part(cuda, 5, ids, n - k, k, MST_LOGITS_ALL);
        q[2] = rig_part(cuda, 3, ids, n - 1, 1, MST_LOGITS_LAST);
        q[3] = rig_part(cuda, 6, ids, 0, 1, MST_LOGITS_LAST);
        got = rig_step(cuda, q, 4);

        same("mixed: a beginning", got, want, k + 9, cuda->vocab);
        got += (k + 9) * row;
        same("mixed: an end", got, want + (n - k) * row, k, cuda->vocab);
        got += k * row;
        same("mixed: a decode", got, want + (n - 1) * row, 1, cuda->vocab);
        got += row;
        same("mixed: a first token", got, want, 1, cuda->vocab);
    }

    free(unused);
}


static void
all_ways(rig_t *cpu, rig_t *cuda)
{
    float     *got, *want;
    size_t     size;
    uint32_t   i, ids[IDS], n;

    static const uint32_t  chunks[] = {
        1, 2, 3, 8, 15, 16, 17, 33, 63, 64, 65, 100, 128, 130
    };

    n = mst_model_info(cpu->m)->context;
    n = n < IDS ? n : IDS;
    size = (size_t) n * cpu->vocab * sizeof(float);
    want = malloc(size);
    got = malloc(size);

    rig_random_ids(ids, n, cpu->vocab, 3);
    rig_prefill(cpu, 0, ids, 0, n, RIG_ROWS, got);
    rig_prefill(cuda, 0, ids, 0, n, RIG_ROWS, want);
    rig_compare("beside the CPU", want, got, n, cpu->vocab);

    for (i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
        rig_prefill(cuda, i, ids, 0, n, chunks[i], got);
        same("chunks", got, want, n, cuda->vocab);
    }

    decodes(cuda, ids, n, want);
    mixed(cuda, ids, n, want);

    free(got);
    free(want);
    rig_close(cuda);
    rig_close(cpu);
}


static void
shapes(rig_where_t where)
{
    size_t  i;
    rig_t   cpu, cuda;

    for (i = 0; i < RIG_SHAPES; i++) {
        if (!rig_shape_wanted(i)) {
            continue;
        }

        rig_tiny(&cuda, &rig_shapes[i], 99 + i, where);
        rig_tiny(&cpu, &rig_shapes[i], 99 + i, RIG_CPU);
        all_ways(&cpu, &cuda);
    }
}


static void
test_shapes(void **state)
{
    (void) state;

    shapes(RIG_INVARIANT);
}


static void
test_once(void **state)
{
    (void) state;

    shapes(RIG_INVARIANT_ONCE);
}


static void
test_mixture(void **state)
{
    rig_t  cpu, cuda;

    (void) state;

    rig_strays_begin();
    rig_path(&cuda, "t/data/golden/tiny/mixtral-4x", 0, RIG_INVARIANT);
    rig_path(&cpu, "t/data/golden/tiny/mixtral-4x", 0, RIG_CPU);
    all_ways(&cpu, &cuda);
    rig_strays_end(10);
}


static void
test_models(void **state)
{
    rig_t     cpu, cuda;
    uint32_t  i;

    (void) state;

    rig_needs_models();

    for (i = 0; i < rig_n_models; i++) {
        print_message("%s\n", rig_models[i]);
        rig_strays_begin();
        rig_path(&cuda, rig_models[i], 0, RIG_INVARIANT);
        rig_path(&cpu, rig_models[i], 0, RIG_CPU);
        all_ways(&cpu, &cuda);
        rig_strays_end(25);
    }
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_mixture),
        cmocka_unit_test(test_models)
    };

    return rig_main(argc, argv, tests);
}


/*
 * How weights are kept on a device makes no difference that matters: bf16
 * once (library GEMMs alone) and twice (decode GEMMs up to 64 rows), fp8 the
 * same, each beside the CPU's logits, in chunks of many sizes.
 *
 *     mst_cuda_type_test [libmst_cuda.so]
 */

#include "cuda_rig.h"

#define IDS        150

/*
 * e4m3 has four bits less than bf16, in weights and in activations: it is off
 * by 10 to 25 times as much as bf16 with the same model.  Logits that have
 * nothing in common are 1.4 of their size apart.
 */
#define TYPE_FP8   32
#define TYPE_MOST  0.7


static void
type_tiny(rig_t *t, const rig_shape_t *shape, mst_dtype_t dtype,
    uint32_t layouts)
{
    mst_model_conf_t  conf;

    rig_conf(&conf, RIG_CUDA);
    conf.kv_type = MST_KV_AUTO;
    conf.dtype = dtype;
    conf.weight_layouts = layouts;
    rig_tiny_conf(t, shape, 4711, &conf);
}


/* returns the distance, of the logits' size */

static double
type_beside(const rig_shape_t *shape, const uint32_t *ids, const float *want,
    mst_dtype_t dtype, uint32_t layouts, double limit)
{
    float     *got;
    rig_t      cuda;
    double     d, worst;
    uint32_t   i;

    static const uint32_t  chunks[] = { 1, 9, 17, 33, 64, 65, 150 };

    type_tiny(&cuda, shape, dtype, layouts);
    got = malloc((size_t) IDS * cuda.vocab * sizeof(float));
    worst = 0;

    for (i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
        rig_prefill(&cuda, i, ids, 0, IDS, chunks[i], got);
        d = rig_rms(got, want, IDS, cuda.vocab);
        worst = d > worst ? d : worst;

        print_message("%s, %s, %u layouts, chunks of %u: rms %.4f\n",
                      shape->name, dtype == MST_DTYPE_FP8 ? "fp8" : "bf16",
                      layouts, chunks[i], d);
        assert_true(d <= limit);
    }

    free(got);
    rig_close(&cuda);

    return worst;
}


static void
test_types(void **state)
{
    float     *want;
    rig_t      cpu;
    double     d;
    uint32_t   i, ids[IDS], k;

    (void) state;

    for (i = 0; i < 4; i++) {
        rig_tiny(&cpu, &rig_shapes[i], 4711, RIG_CPU);
        rig_random_ids(ids, IDS, cpu.vocab, 3 + i);
        want = malloc((size_t) IDS * cpu.vocab * sizeof(float));
        rig_prefill(&cpu, 0, ids, 0, IDS, RIG_ROWS, want);

        for (k = 1; k <= 2; k++) {
            d = type_beside(&rig_shapes[i], ids, want, MST_DTYPE_BF16, k,
                            RIG_RMS);
            (void) type_beside(&rig_shapes[i], ids, want, MST_DTYPE_FP8, k,
                               fmin(TYPE_FP8 * d, TYPE_MOST));
        }

        free(want);
        rig_close(&cpu);
    }
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_types)
    };

    return rig_main(argc, argv, tests);
}

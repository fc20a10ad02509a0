
/*
 * Matrices times rows: every row and output is computed once, for any number
 * of rows and threads.
 */

#include "mst_cpu_rig.h"


/* logits of embedded tokens without any layer between */

static void
check(mst_backend_t *b, const float *embd, const float *norm,
    const float *head, uint32_t rows, const mst_matrix_t *const *m,
    const mst_vector_t *v)
{
    double               rms, size, want, w;
    uint32_t             blocks[2] = { 1, 0 }, i, ids[64], k, r, wanted[64];
    mst_err_t            err = { "" };
    const float         *logits, *x;
    mst_backend_seq_t    seq = { ids, rows, 0, blocks, 0, 0 };
    mst_backend_step_t   step = { &seq, 1, rows, wanted, 0 };

    for (r = 0; r < rows; r++) {
        ids[r] = rig_random() % 100;

        if (r % 3 != 1 || rows < 4) {
            wanted[step.n_wanted++] = r;
        }
    }

    mst_cpu_ops.begin(b, &step);
    mst_cpu_ops.embed(b, m[0]);
    mst_cpu_ops.logits(b, v, m[1]);
    assert_int_equal(mst_cpu_ops.sync(b, &logits, &err), MST_OK);

    for (r = 0; r < step.n_wanted; r++) {
        x = embd + ids[wanted[r]] * 64;

        for (rms = 0, k = 0; k < 64; k++) {
            rms += (double) x[k] * (double) x[k];
        }

        rms = 1 / sqrt(rms / 64 + (double) 1e-5f);

        for (i = 0; i < 100; i++) {
            for (size = 0, want = 0, k = 0; k < 64; k++) {
                w = (double) x[k] * rms * (double) norm[k]
                    * (double) head[i * 64 + k];
                want += w;
                size += fabs(w);
            }

            assert_true(fabs((double) logits[r * 100 + i] - want)
                        < 2e-6 * size);
        }
    }
}


static void
rows_test(void **state)
{
    size_t               t;
    float               *embd, *head, *norm;
    void                *data[3];
    uint32_t             rows, threads;
    mst_err_t            err = { "" };
    mst_backend_t       *b;
    const mst_matrix_t  *m[2];
    mst_matrix_part_t    part;
    mst_backend_conf_t   conf;

    static const mst_type_t  types[] = {
        MST_TYPE_Q4_1, MST_TYPE_Q8_0, MST_TYPE_F16
    };

    (void) state;

    for (threads = 1; threads <= 3; threads++) {
        for (t = 0; t < 3; t++) {
            conf = rig_conf(threads);
            conf.isa = t == 0 ? "c" : NULL;
            b = rig_create(&conf);

            data[0] = rig_tensor(MST_TYPE_F32, 100, 64, &embd);
            part = (mst_matrix_part_t) { MST_TYPE_F32, 100, data[0] };
            m[0] = mst_cpu_ops.matrix(b, MST_MATRIX_STACK, &part, 1, 64, &err);
            data[1] = rig_tensor(types[t], 100, 64, &head);
            part = (mst_matrix_part_t) { types[t], 100, data[1] };
            m[1] = mst_cpu_ops.matrix(b, MST_MATRIX_STACK, &part, 1, 64, &err);
            data[2] = rig_tensor(MST_TYPE_F32, 1, 64, &norm);

            for (rows = 1; rows <= 64; rows += 1 + rows / 20) {
                check(b, embd, norm, head, rows, m,
                      mst_cpu_ops.vector(b, data[2], 64, &err));
            }

            for (rows = 0; rows < 3; rows++) {
                free(data[rows]);
            }

            free(embd);
            free(head);
            free(norm);
            mst_cpu_ops.destroy(b);
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = { cmocka_unit_test(rows_test) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * A layer of experts against double precision, and the same bits for a row
 * whatever stands beside it.
 */

#include "mst_cpu_rig.h"

#define EXPERTS  5
#define USED     2
#define DIM      64
#define FF       96
#define ROWS     23


typedef struct {
    float  *gate[EXPERTS], *up[EXPERTS], *down[EXPERTS];
    float   router[EXPERTS * DIM], norm[DIM];
    void   *raw[3 * EXPERTS];

    const mst_matrix_t  *ups[EXPERTS], *downs[EXPERTS];
    mst_backend_layer_t  w;
} layer_t;


static void
open_layer(mst_backend_t *b, layer_t *l, mst_type_t type)
{
    uint32_t           e, i;
    mst_err_t          err = { "" };
    mst_matrix_part_t  up[2], down[1];

    for (e = 0; e < EXPERTS; e++) {
        l->raw[3 * e] = rig_tensor(type, FF, DIM, &l->gate[e]);
        l->raw[3 * e + 1] = rig_tensor(type, FF, DIM, &l->up[e]);
        l->raw[3 * e + 2] = rig_tensor(type, DIM, FF, &l->down[e]);

        up[0].type = up[1].type = down[0].type = type;
        up[0].rows = up[1].rows = FF;
        down[0].rows = DIM;
        up[0].data = l->raw[3 * e];
        up[1].data = l->raw[3 * e + 1];
        down[0].data = l->raw[3 * e + 2];

        l->ups[e] = mst_cpu_ops.matrix(b, MST_MATRIX_GATE, up, 2, DIM, &err);
        l->downs[e] = mst_cpu_ops.matrix(b, MST_MATRIX_STACK, down, 1, FF,
                                         &err);
        assert_non_null(l->ups[e]);
        assert_non_null(l->downs[e]);
    }

    for (i = 0; i < EXPERTS * DIM; i++) {
        l->router[i] = rig_float();
    }

    for (i = 0; i < DIM; i++) {
        l->norm[i] = 1 + rig_float() / 2;
    }

    memset(&l->w, 0, sizeof(l->w));
    l->w.router = mst_cpu_ops.vector(b, l->router, EXPERTS * DIM, &err);
    l->w.ffn_norm = mst_cpu_ops.vector(b, l->norm, DIM, &err);
    l->w.experts_up = l->ups;
    l->w.experts_down = l->downs;
}


static void
close_layer(layer_t *l)
{
    uint32_t  e;

    for (e = 0; e < EXPERTS; e++) {
        free(l->raw[3 * e]);
        free(l->raw[3 * e + 1]);
        free(l->raw[3 * e + 2]);
        free(l->gate[e]);
        free(l->up[e]);
        free(l->down[e]);
    }
}


/* x[DIM] += its experts */

static void
expert(const layer_t *l, uint32_t e, const double *h, double weight,
    double *x)
{
    double    f[FF], g, u;
    uint32_t  i, k;

    for (i = 0; i < FF; i++) {
        for (g = u = 0, k = 0; k < DIM; k++) {
            g += (double) l->gate[e][i * DIM + k] * h[k];
            u += (double) l->up[e][i * DIM + k] * h[k];
        }

        f[i] = g / (1 + exp(-g)) * u;
    }

    for (i = 0; i < DIM; i++) {
        for (k = 0; k < FF; k++) {
            x[i] += weight * (double) l->down[e][i * FF + k] * f[k];
        }
    }
}


static void
reference(const layer_t *l, const float *from, uint32_t used, double *x)
{
    double    h[DIM], logits[EXPERTS], weight[EXPERTS], sum;
    uint32_t  best[EXPERTS], e, i, k;

    for (sum = 0, i = 0; i < DIM; i++) {
        x[i] = (double) from[i];
        sum += x[i] * x[i];
    }

    for (i = 0; i < DIM; i++) {
        h[i] = x[i] / sqrt(sum / DIM + 1e-5) * (double) l->norm[i];
    }

    for (e = 0; e < EXPERTS; e++) {
        for (logits[e] = 0, i = 0; i < DIM; i++) {
            logits[e] += h[i] * (double) l->router[e * DIM + i];
        }

        /* the best so far stay in order */

        for (k = e; k > 0 && logits[e] > logits[best[k - 1]]; k--) {
            best[k] = best[k - 1];
        }

        best[k] = e;
    }

    for (sum = 0, k = 0; k < used; k++) {
        weight[k] = exp(logits[best[k]]);
        sum += weight[k];
    }

    for (k = 0; k < used; k++) {
        expert(l, best[k], h, weight[k] / sum, x);
    }
}


/* the rows' residuals go in and out through b->x, which begin() leaves */

static void
run_seqs(mst_backend_t *b, const layer_t *l, const float *x,
    mst_backend_seq_t *seqs, uint32_t n, float *y)
{
    uint32_t             blocks[4] = { 0, 1, 2, 3 }, ids[ROWS] = { 0 }, i;
    uint32_t             rows;
    const float         *logits;
    mst_err_t            err = { "" };
    mst_backend_step_t   step = { seqs, n, 0, NULL, 0 };

    for (i = 0; i < n; i++) {
        seqs[i].ids = ids;
        seqs[i].blocks = blocks;
        step.n_rows += seqs[i].n;
    }

    rows = step.n_rows;

    mst_cpu_ops.begin(b, &step);
    memcpy(b->x, x, rows * DIM * sizeof(float));
    mst_cpu_ops.experts(b, &l->w);
    assert_int_equal(mst_cpu_ops.sync(b, &logits, &err), MST_OK);
    memcpy(y, b->x, rows * DIM * sizeof(float));
}


static void
run(mst_backend_t *b, const layer_t *l, const float *x, uint32_t rows,
    float *y)
{
    mst_backend_seq_t  seq = { .n = rows };

    run_seqs(b, l, x, &seq, 1, y);
}


static void
test_experts(void **state)
{
    float               all[ROWS * DIM], one[DIM], x[ROWS * DIM];
    double              top, want[DIM];
    size_t              t;
    layer_t             l;
    uint32_t            i, r, threads;
    mst_backend_t      *b;
    mst_backend_conf_t  conf;

    static const mst_type_t  types[] = {
        MST_TYPE_F32, MST_TYPE_BF16, MST_TYPE_Q8_0, MST_TYPE_Q4_0
    };

    (void) state;

    for (t = 0; t < sizeof(types) / sizeof(*types); t++) {
        for (threads = 1; threads <= 3; threads++) {
            conf = rig_conf(threads);
            conf.n_experts = EXPERTS;
            conf.n_used = USED;
            b = rig_create(&conf);
            open_layer(b, &l, types[t]);

            for (i = 0; i < ROWS * DIM; i++) {
                x[i] = rig_float();
            }

            run(b, &l, x, ROWS, all);

            for (r = 0; r < ROWS; r++) {
                reference(&l, x + r * DIM, USED, want);

                for (top = 0, i = 0; i < DIM; i++) {
                    top = fmax(top, fabs(want[i]));
                }

                for (i = 0; i < DIM; i++) {
                    assert_true(fabs((double) all[r * DIM + i] - want[i])
                                <= 5e-6 * top);
                }

                run(b, &l, x + r * DIM, 1, one);
                assert_memory_equal(one, all + r * DIM, sizeof(one));
            }

            close_layer(&l);
            mst_cpu_ops.destroy(b);
        }
    }
}


/* each sequence has its number of experts, and the same bits alone */

static void
test_used(void **state)
{
    float               all[ROWS * DIM], one[DIM], x[ROWS * DIM];
    double              top, want[DIM];
    layer_t             l;
    uint32_t            i, r, used;
    mst_backend_t      *b;
    mst_backend_seq_t   seqs[EXPERTS + 1] = { { .n = 1 } }, alone;
    mst_backend_conf_t  conf;

    (void) state;

    conf = rig_conf(2);
    conf.n_experts = EXPERTS;
    conf.n_used = USED;
    b = rig_create(&conf);
    open_layer(b, &l, MST_TYPE_Q8_0);

    for (i = 0; i < ROWS * DIM; i++) {
        x[i] = rig_float();
    }

    /* 0: as many as the model has, USED */

    for (i = 0; i <= EXPERTS; i++) {
        seqs[i].n = 3;
        seqs[i].n_used = i;
    }

    run_seqs(b, &l, x, seqs, EXPERTS + 1, all);

    for (r = 0; r < 3 * (EXPERTS + 1); r++) {
        used = r / 3 ? r / 3 : USED;
        reference(&l, x + r * DIM, used, want);

        for (top = 0, i = 0; i < DIM; i++) {
            top = fmax(top, fabs(want[i]));
        }

        for (i = 0; i < DIM; i++) {
            assert_true(fabs((double) all[r * DIM + i] - want[i])
                        <= 5e-6 * top);
        }

        memset(&alone, 0, sizeof(alone));
        alone.n = 1;
        alone.n_used = used;
        run_seqs(b, &l, x + r * DIM, &alone, 1, one);
        assert_memory_equal(one, all + r * DIM, sizeof(one));
    }

    close_layer(&l);
    mst_cpu_ops.destroy(b);
}


/* a row that is no number harms no other and ends nothing */

static void
test_nan(void **state)
{
    float               x[2 * DIM], y[2 * DIM], z[DIM];
    layer_t             l;
    uint32_t            i;
    mst_backend_t      *b;
    mst_backend_conf_t  conf;

    (void) state;

    conf = rig_conf(2);
    conf.n_experts = EXPERTS;
    conf.n_used = USED;
    b = rig_create(&conf);
    open_layer(b, &l, MST_TYPE_Q4_0);

    for (i = 0; i < DIM; i++) {
        x[i] = NAN;
        x[DIM + i] = rig_float();
    }

    run(b, &l, x, 2, y);
    run(b, &l, x + DIM, 1, z);
    assert_memory_equal(z, y + DIM, sizeof(z));
    assert_true(isnan(y[0]));

    close_layer(&l);
    mst_cpu_ops.destroy(b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_used),
        cmocka_unit_test(test_nan)
    };

    return cmocka_run_group_tests_name("mst_cpu_expert", tests, NULL, NULL);
}


/*
 * Quantised matrices: packed from the bytes of a file and taken out again as
 * bf16 rows, which are compared with file/mst_quant.c's; and multiplied by
 * every operation of the decode GEMM at numbers of tokens around every edge,
 * compared with float64 over the tiles' own scales.
 *
 * What an output may differ by comes from the arithmetic (truth()): 7 times
 * the standard deviation of what rounding x to 1 / 32,512 of its group's
 * largest does, and 2^-20 of all that is added up in float.  That is 1e-4 of
 * a row's norm.
 */

#include <math.h>
#include <thread>

#include "quant_rig.cuh"


/* how far a row of bf16 may be from the file's: bf16's rounding, that of a
   scale and a min to f16; of int4 half a step, too */

static float
matrix_slack(const matrix_t *m, const std::vector<uint8_t> &file, size_t i)
{
    float           high, low;
    size_t          group, k, row;
    uint32_t        type;
    const uint8_t  *src;

    type = types[m->type].type;
    row = i / m->width;
    k = i % m->width;

    if (type != MST_K_QUANT_BF16) {
        src = &file[row * mst_k_quant_file_size(type, m->width)];
        low = fabsf(mst_k_quant_min(type, src, (uint32_t) k));

        return fabsf(m->w[i]) / 256 + (fabsf(m->w[i]) + 2 * low) / 2048
               + 1e-6f;
    }

    high = -1e9f;
    low = 1e9f;

    group = mst_k_quant_group(types[m->type].form);

    for (i = k / group * group; i < k / group * group + group && i < m->width;
         i++)
    {
        high = std::max(high, m->w[row * m->width + i]);
        low = std::min(low, m->w[row * m->width + i]);
    }

    return types[m->type].form == MST_K_QUANT_W4_128
           ? (high - low) / 15 * 0.51f
             + std::max(fabsf(high), fabsf(low)) / 200
           : std::max(high, -low) / 127 * 0.57f + fabsf(m->w[row * m->width
                                                             + k]) / 250;
}


static int
matrix_rows(const matrix_t *m, const std::vector<uint8_t> &file)
{
    int                    bad;
    size_t                 i;
    uint16_t              *y;
    mst_k_quant_rows_t     a;
    std::vector<uint16_t>  got;

    y = poisoned<uint16_t>(m->w.size());

    memset(&a, 0, sizeof(a));

    a.w = m->tiles;
    a.form = types[m->type].form;
    a.rows = m->rows;
    a.width = m->width;
    a.gate = m->gate;
    a.y = y;

    CHECK(mst_k_quant_rows(&a, 0));
    got = download(y, m->w.size());
    CHECK(cudaFree(y));

    bad = 0;

    for (i = 0; i < m->w.size(); i++) {
        if (!(fabsf(f32_of(got[i]) - m->w[i]) <= matrix_slack(m, file, i))
            && bad++ < 3)
        {
            printf("# %s row %zu column %zu: %g, wanted %g\n",
                   types[m->type].name, i / m->width, i % m->width,
                   f32_of(got[i]), m->w[i]);
        }
    }

    return bad;
}


/* a matrix without the rounding to bf16, from its tiles */

static void
matrix_exact(matrix_t *m)
{
    int                    code;
    float                  min;
    uint32_t               k, part, row, t, word;
    mst_k_quant_at_t       at;
    mst_k_quant_form_t     form;
    std::vector<uint8_t>   tiles;
    const uint8_t         *unit;

    form = types[m->type].form;
    tiles = download(m->tiles, mst_k_quant_size(form, m->rows, m->width));

    for (row = 0; row < m->rows; row++) {
        part = m->gate && row >= m->rows / 2;
        t = m->gate ? mst_k_gemm_gate_row(part, row - part * (m->rows / 2))
                    : mst_k_gemm_row(row);
        unit = &tiles[t / 16 * mst_k_quant_unit_size(form, m->width)];

        for (k = 0; k < m->width; k++) {
            at = mst_k_quant_at(form, m->width, t % 16, k);
            memcpy(&word, unit + at.byte, 4);

            code = mst_k_quant_bits(form) == 4
                   ? (int) (word >> at.shift & 15)
                   : (int) (int8_t) (word >> at.shift & 255);
            min = mst_k_quant_bits(form) == 4
                  ? mst_k_quant_f16(unit + at.scale + 2) : 0;

            m->w[(size_t) row * m->width + k]
                = (float) code * mst_k_quant_f16(unit + at.scale) + min;
            m->low[(size_t) row * m->width + k] = min;
        }
    }
}


/* rows by their numbers, against those of the tiles */

static int
matrix_embed(const matrix_t *m)
{
    int                    bad;
    size_t                 at, i;
    mst_k_quant_embed_t    a;
    std::vector<float>     got;
    std::vector<int32_t>   id(7);

    for (i = 0; i < id.size(); i++) {
        id[i] = (int32_t) (i == 0 ? m->rows - 1 : rnd(m->rows));
    }

    memset(&a, 0, sizeof(a));

    a.id = upload(id, 16);
    a.w = m->tiles;
    a.form = types[m->type].form;
    a.width = m->width;
    a.n = (uint32_t) id.size();

    a.h = poisoned<float>(a.n * a.width);
    CHECK(mst_k_quant_embed(&a, 0));

    got = download(a.h, a.n * a.width);
    release({ a.h, a.id });

    for (bad = 0, i = 0; i < got.size(); i++) {
        at = (size_t) id[i / a.width] * a.width + i % a.width;
        bad += !(fabsf(got[i] - m->w[at])
                 <= (fabsf(m->w[at]) + 2 * fabsf(m->low[at])) * 1e-6f);
    }

    if (bad) {
        printf("# %s: %d numbers of an embedding differ\n",
               types[m->type].name, bad);
    }

    return bad;
}


typedef struct {
    uint32_t               n;
    uint32_t               pad;
    std::vector<float>     x;          /* [n][width] */
    std::vector<uint8_t>   blocked;
    std::vector<float>     sums, h, gain, bias, bias_up;
    std::vector<double>    rs;         /* [n] */
} input_t;


static void
input_fill(const matrix_t *m, uint32_t n, input_t *in)
{
    size_t    at;
    uint16_t  v;
    uint32_t  i, k, units;

    in->n = n;
    in->pad = mst_k_gemm_pad(n);
    in->x.resize((size_t) n * m->width);
    in->blocked.assign(mst_k_gemm_x_size(in->pad, m->width, 2), 0);

    /* rows that only pad are poison */

    for (i = 0; i < in->pad; i++) {
        for (k = 0; k < m->width; k++) {
            v = i < n ? bf16_of(rndf(-2, 2)) : 0x7fc0;
            at = mst_k_gemm_x_at(i, k, in->pad, 2);
            memcpy(&in->blocked[at], &v, 2);

            if (i < n) {
                in->x[(size_t) i * m->width + k] = f32_of(v);
            }
        }
    }

    units = mst_k_gemm_units(m->width);
    in->sums.resize((size_t) units * in->pad);
    in->rs.assign(in->pad, 0);

    for (i = 0; i < units * in->pad; i++) {
        in->sums[i] = rndf(1, 40);
        in->rs[i % in->pad] += in->sums[i];
    }

    for (i = 0; i < in->pad; i++) {
        in->rs[i] = 1 / sqrt(in->rs[i] / m->width + 1e-5);
    }

    in->h.resize((size_t) n * m->rows);
    in->gain.resize(m->rows);
    in->bias.resize(m->rows);
    in->bias_up.resize(m->rows);

    for (i = 0; i < in->h.size(); i++) {
        in->h[i] = rndf(-9, 9);
    }

    for (i = 0; i < m->rows; i++) {
        in->gain[i] = rndf(0.5f, 1.5f);
        in->bias[i] = rndf(-1, 1);
        in->bias_up[i] = rndf(-1, 1);
    }
}


/* a sum over the width, in float64, and what it may differ by */
typedef struct {
    double  y;
    double  slack;
} sum_t;


static void
truth_rows(const matrix_t *m, const float *x, const double *step,
    double scale, uint32_t from, uint32_t to, sum_t *y)
{
    double        added, round, s;
    uint32_t      k, row;
    const float  *low, *w;

    for (row = from; row < to; row++) {
        w = &m->w[(size_t) row * m->width];
        low = &m->low[(size_t) row * m->width];
        s = added = round = 0;

        for (k = 0; k < m->width; k++) {
            s += (double) w[k] * x[k];
            added += (fabs(w[k] - low[k]) + fabs(low[k])) * fabs(x[k]);
            round += w[k] * step[k] * w[k] * step[k];
        }

        y[row].y = s * scale;
        y[row].slack = scale * (7 * sqrt(round / 12) + added / 1048576);
    }
}


/* of a token's rows */

static std::vector<sum_t>
truth(const matrix_t *m, const input_t *in, uint32_t t, double scale)
{
    float                      most;
    uint32_t                   group, i, k;
    const float               *x;
    std::vector<sum_t>         y(m->rows);
    std::vector<double>        step(m->width);
    std::vector<std::thread>   threads;

    x = &in->x[(size_t) t * m->width];
    group = types[m->type].form == MST_K_QUANT_W4_128 ? 128 : 32;

    for (k = 0; k < m->width; k += group) {
        for (most = 0, i = k; i < k + group && i < m->width; i++) {
            most = std::max(most, fabsf(x[i]));
        }

        for (i = k; i < k + group && i < m->width; i++) {
            step[i] = most / 32512;
        }
    }

    for (i = 0; i < 8; i++) {
        threads.emplace_back(truth_rows, m, x, step.data(), scale,
                             m->rows * i / 8, m->rows * (i + 1) / 8,
                             y.data());
    }

    for (i = 0; i < 8; i++) {
        threads[i].join();
    }

    return y;
}


/* the largest |error| / tolerance */

static void
compare(double *worst, double got, double want, double slack)
{
    if (!(fabs(got - want) <= slack * 1e9)) {
        *worst = 1e9;                  /* NaN, too */
        return;
    }

    if (got != want) {
        *worst = std::max(*worst, fabs(got - want) / slack);
    }
}


static uint16_t
blocked_at(const std::vector<uint8_t> &y, uint32_t t, uint32_t k,
    uint32_t pad)
{
    uint16_t  v;

    memcpy(&v, &y[mst_k_gemm_x_at(t, k, pad, 2)], 2);

    return v;
}


static void
check_residual(const matrix_t *m, const input_t *in, const mst_k_gemm_t *a,
    double *e)
{
    double                 s;
    uint32_t               i, row, t, units;
    std::vector<float>     h, sums;
    std::vector<sum_t>     y;
    std::vector<uint8_t>   next;

    units = mst_k_gemm_units(m->rows);
    h = download(a->h, (size_t) in->n * m->rows);
    sums = download(a->y_sums, (size_t) units * in->pad);
    next = download((uint8_t *) a->y,
                    mst_k_gemm_x_size(in->pad, m->rows, 2));

    for (t = 0; t < in->n; t++) {
        y = truth(m, in, t, 1);

        for (row = 0; row < m->rows; row++) {
            s = in->h[(size_t) t * m->rows + row] + in->bias[row];
            compare(e, h[(size_t) t * m->rows + row], s + y[row].y,
                    y[row].slack + (fabs(s) + 9) * 1e-6);

            s = h[(size_t) t * m->rows + row] * in->gain[row];
            compare(e, f32_of(blocked_at(next, t, row, in->pad)), s,
                    fabs(s) / 250);
        }

        for (i = 0; i < units; i++) {
            for (s = 0, row = i * 16; row < i * 16 + 16; row++) {
                s += (double) h[(size_t) t * m->rows + row]
                     * h[(size_t) t * m->rows + row];
            }

            compare(e, sums[i * in->pad + t], s, s * 1e-5);
        }

        for (row = m->rows; row < mst_k_gemm_slots(m->rows, 2) * 128; row++) {
            compare(e, f32_of(blocked_at(next, t, row, in->pad)), 0, 0);
        }
    }
}


static void
check_rows(const matrix_t *m, const input_t *in, const mst_k_gemm_t *a,
    double *e)
{
    double                 g, u;
    uint32_t               row, t;
    const sum_t           *p;
    std::vector<float>     logits;
    std::vector<sum_t>     y;
    std::vector<uint8_t>   bytes;

    if (a->op == MST_K_GEMM_HEAD) {
        logits = download((float *) a->y, (size_t) in->n * a->pitch);

    } else if (a->op == MST_K_GEMM_QKV) {
        bytes = download((uint8_t *) a->y, (size_t) in->n * a->pitch * 2);

    } else {
        bytes = download((uint8_t *) a->y,
                         mst_k_gemm_x_size(in->pad, m->rows / 2, 2));
    }

    for (t = 0; t < in->n; t++) {
        y = truth(m, in, t, in->rs[t]);

        for (row = 0; row < m->rows; row++) {
            if (a->op == MST_K_GEMM_HEAD) {
                compare(e, logits[t * a->pitch + row], y[row].y,
                        y[row].slack + fabs(y[row].y) * 1e-6);

            } else if (a->op == MST_K_GEMM_QKV) {
                u = y[row].y + in->bias[row];
                compare(e, f32_of(((uint16_t *) bytes.data())
                                  [(size_t) t * a->pitch + row]),
                        u, y[row].slack + fabs(u) / 250);

            } else if (row < m->rows / 2) {
                p = &y[row];
                g = p->y + in->bias[row];
                u = y[m->rows / 2 + row].y + in->bias_up[row];

                /* silu's slope is below 1.1; its exponential and division
                   are the device's fast ones */

                compare(e, f32_of(blocked_at(bytes, t, row, in->pad)),
                        g / (1 + exp(-g)) * u,
                        1.1 * p->slack * fabs(u)
                        + fabs(g) * y[m->rows / 2 + row].slack
                        + fabs(g / (1 + exp(-g)) * u) / 240 + 1e-6);
            }
        }
    }
}


static int
multiply(const matrix_t *m, mst_k_gemm_op_t op, uint32_t n)
{
    double        e;
    input_t       in;
    mst_k_gemm_t  a;

    input_fill(m, n, &in);
    memset(&a, 0, sizeof(a));

    a.op = op;
    a.n = n;
    a.rows = m->rows;
    a.width = m->width;
    a.w = m->tiles;
    a.bias = upload(in.bias, 16);
    a.bias_up = upload(in.bias_up, 16);
    a.x = upload(in.blocked, 16);
    a.x_sums = op == MST_K_GEMM_RESIDUAL ? NULL : upload(in.sums, 16);
    a.eps = 1e-5f;
    a.h = upload(in.h, 16);
    a.gain = upload(in.gain, 16);
    a.pitch = m->rows + 4;

    a.y = poisoned<float>((size_t) 128 * (m->rows + 256));
    CHECK(cudaMalloc((void **) &a.y_sums,
                     mst_k_gemm_sums_size(m->rows) * 4));

    CHECK(mst_k_quant_gemm(&a, types[m->type].form, 0));
    CHECK(cudaDeviceSynchronize());

    e = 0;
    (op == MST_K_GEMM_RESIDUAL ? check_residual : check_rows)(m, &in, &a, &e);

    release({ a.bias, a.bias_up, a.x, a.x_sums, a.h, a.gain, a.y, a.y_sums });

    if (e > 1) {
        printf("# %s %u x %u, operation %d, %u tokens: %.3g of the "
               "tolerance\n", types[m->type].name, m->rows, m->width, op, n,
               e);
    }

    return e > 1;
}


static int
test(int type, uint32_t rows, uint32_t width, int few)
{
    int                    bad, op;
    size_t                 i;
    matrix_t               m;
    std::vector<uint8_t>   file;

    static const uint32_t  tokens[] = { 1, 8, 17, 3, 4, 5, 9, 16, 33, 64 };

    bad = 0;

    for (op = 0; op < 4; op++) {
        m.type = type;
        m.gate = op == MST_K_GEMM_GATE_UP;
        m.rows = rows;
        m.width = width;

        matrix_fill(&m, &file);
        matrix_truth(&m, file);
        matrix_pack(&m, file);

        bad += matrix_rows(&m, file);
        matrix_exact(&m);
        bad += m.gate ? 0 : matrix_embed(&m);

        for (i = 0; i < (few ? 3 : sizeof(tokens) / sizeof(*tokens)); i++) {
            bad += multiply(&m, (mst_k_gemm_op_t) op, tokens[i]);
        }

        CHECK(cudaFree(m.tiles));
    }

    printf("%s - %s, %u x %u\n", bad ? "not ok" : "ok", types[type].name,
           rows, width);
    fflush(stdout);

    return bad;
}


int
main(int argc, char **argv)
{
    int  bad, i;

    if (!device_found(0)) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    if (argc > 1 && strcmp(argv[1], "small") == 0) {
        return test(2, 96, 512, 1) + test(6, 96, 512, 1) ? 1 : 0;
    }

    bad = 0;

    for (i = 0; i < (int) (sizeof(types) / sizeof(*types)); i++) {
        bad += test(i, 144, 512, 0);
        bad += test(i, 2320, 768, 1);
        bad += test(i, 64, 14336, 1);

        if (types[i].block < 256) {
            bad += test(i, 272, 96, 0);
            bad += test(i, 576, 576, 1);
        }
    }

    return bad ? 1 : 0;
}

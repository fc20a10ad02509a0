
/*
 * Rows of e4m3 (kernels/mst_k_e4m3.h) against double: every element within
 * half a step of e4m3 of what it should be, every scale that of the largest.
 * Outputs are poisoned before, rows and widths ragged, one row is of zeros.
 */

#include "gemm_rig.h"
#include "kernels/mst_k_e4m3.h"


static int  passed, failed;


typedef std::vector<float>  floats;


static float
random_float(void)
{
    return (float) (int32_t) (random32() * 2 + 1) * 0x1p-31f;
}


static floats
random_floats(size_t n, float scale)
{
    floats  v(n);

    for (float &f : v) {
        f = scale * random_float() * random_float();
    }

    return v;
}


static float
bf16(float f)
{
    return __bfloat162float(__float2bfloat16(f));
}


static __nv_bfloat16 *
upload_bf16(floats &v)
{
    std::vector<__nv_bfloat16>  b(v.size());

    for (size_t i = 0; i < v.size(); i++) {
        v[i] = bf16(v[i]);
        b[i] = __float2bfloat16(v[i]);
    }

    return upload(b);
}


static float
value(uint8_t v)
{
    __nv_fp8_e4m3  f;

    f.__x = v;

    return (float) f;
}


/* rows of e4m3 against what they should be; tolerance: of the reference */
static void
compare(const char *what, uint32_t rows, uint32_t width, uint8_t *to,
    float *scale, const std::vector<double> &want, double tolerance)
{
    uint32_t              r, i, bad;
    double                most, step, w, worst;
    floats                s;
    std::vector<uint8_t>  v;

    v = download(to, (size_t) rows * width);
    s = download(scale, rows);
    bad = 0;
    worst = 0;

    for (r = 0; r < rows; r++) {
        most = 0;

        for (i = 0; i < width; i++) {
            most = std::max(most, fabs(want[(size_t) r * width + i]));
        }

        bad += !(fabs(s[r] - most / 448) <= most / 448 * (tolerance + 1e-6));

        for (i = 0; i < width; i++) {
            w = want[(size_t) r * width + i];

            /* half of a step: 3 bits behind the first, 2^-9 is the least */
            step = std::max(fabs(w) / 16, s[r] * 0x1p-10);
            step += most * tolerance + 1e-30;
            w = fabs(value(v[(size_t) r * width + i]) * s[r] - w) / step;
            worst = std::max(worst, w);
            bad += !(w <= 1.001);
        }
    }

    failed += bad != 0;
    passed += bad == 0;

    if (bad || verbose) {
        printf("%s %s %u x %u: %u wrong, worst %.3f of half a step\n",
               bad ? "FAIL" : "ok", what, rows, width, bad, worst);
    }
}


struct outputs {
    uint8_t  *to;
    float    *scale;

    outputs(uint32_t rows, uint32_t width)
    {
        CHECK(cudaMalloc(&to, (size_t) rows * width));
        CHECK(cudaMalloc(&scale, rows * 4));
        CHECK(cudaMemset(to, 0xff, (size_t) rows * width));
        CHECK(cudaMemset(scale, 0xff, rows * 4));
    }

    ~outputs(void)
    {
        release({ to, scale });
    }
};


static void
check_rows(uint32_t rows, uint32_t width)
{
    floats               v;
    outputs              o(rows, width);
    std::vector<double>  want;
    mst_k_e4m3_rows_t    a = {};

    v = random_floats((size_t) rows * width, 3);

    for (uint32_t i = 0; i < width; i++) {
        v[i] = 0;
    }

    a.from = (const uint16_t *) upload_bf16(v);
    a.to = o.to;
    a.scale = o.scale;
    a.width = width;
    a.rows = rows;
    CHECK(mst_k_e4m3_rows(&a, 0));
    CHECK(cudaDeviceSynchronize());

    want.assign(v.begin(), v.end());
    compare("rows", rows, width, o.to, o.scale, want, 0);
    CHECK(cudaFree((void *) a.from));
}


/* product: 0 = the norm alone, 1 = with a product before, 2 = that alone;
   mul: of the product's x, all rows, 0: they have scales */
static void
check_norm(uint32_t rows, uint32_t dim, int product, int biased, float mul)
{
    size_t               i, r, at, bad;
    double               sum;
    floats               h, y, ws, xs, bias, gain, after;
    outputs              o(rows, dim);
    std::vector<double>  hw, want;
    mst_k_e4m3_norm_t    a = {};

    h = random_floats((size_t) rows * dim, 2);
    y = random_floats((size_t) rows * dim, 9000);
    ws = random_floats(dim, 0.01f);
    xs = random_floats(rows, 0.02f);
    bias = random_floats(dim, 1);
    gain = random_floats(dim, 2);

    a.h = upload(h);
    a.y = product ? (const uint16_t *) upload_bf16(y) : NULL;
    a.y_scale = product ? upload(ws) : NULL;
    a.bias = biased ? upload(bias) : NULL;
    a.gain = product == 2 ? NULL : upload(gain);
    a.to = product == 2 ? NULL : o.to;
    a.scale = o.scale;
    a.y_mul = mul;
    a.eps = EPS;
    a.dim = dim;
    a.rows = rows;
    CHECK(cudaMemcpy(o.scale, xs.data(), rows * 4, cudaMemcpyHostToDevice));
    CHECK(mst_k_e4m3_norm(&a, 0));
    CHECK(cudaDeviceSynchronize());
    after = download(a.h, h.size());
    hw.resize(h.size());
    want.resize(h.size());
    bad = 0;

    for (r = 0; r < rows; r++) {
        sum = 0;

        for (i = 0; i < dim; i++) {
            at = r * dim + i;
            hw[at] = h[at];

            if (product) {
                hw[at] += (double) y[at] * (mul != 0 ? mul : xs[r]) * ws[i]
                          + (biased ? bias[i] : 0);
            }

            bad += !(fabs(after[at] - hw[at]) <= 1e-5 * (1 + fabs(hw[at])));
            sum += hw[at] * hw[at];
        }

        for (i = 0; i < dim; i++) {
            want[r * dim + i] = hw[r * dim + i] * gain[i]
                                / sqrt(sum / dim + EPS);
        }
    }

    failed += bad != 0;
    passed += bad == 0;

    if (bad) {
        printf("FAIL sum %u x %u: %zu wrong\n", rows, dim, bad);
    }

    if (product != 2) {
        compare(product ? "sum and norm" : "norm", rows, dim, o.to, o.scale,
                want, 1e-5);
    }

    release({ a.h, a.y, a.y_scale, a.bias, a.gain });
}


static void
check_gate(uint32_t rows, uint32_t ff, int biased)
{
    size_t               i, r;
    double               g, u;
    floats               v, bg, bu;
    outputs              o(rows, ff);
    std::vector<double>  want;
    mst_k_e4m3_gate_t    a = {};

    v = random_floats((size_t) rows * 2 * ff, 4);
    bg = random_floats(ff, 1);
    bu = random_floats(ff, 1);

    a.gate_up = (const uint16_t *) upload_bf16(v);
    a.gate_bias = biased ? upload(bg) : NULL;
    a.up_bias = biased ? upload(bu) : NULL;
    a.to = o.to;
    a.scale = o.scale;
    a.ff_dim = ff;
    a.rows = rows;
    CHECK(mst_k_e4m3_gate(&a, 0));
    CHECK(cudaDeviceSynchronize());
    want.resize((size_t) rows * ff);

    for (r = 0; r < rows; r++) {
        for (i = 0; i < ff; i++) {
            g = v[r * 2 * ff + i];
            u = v[r * 2 * ff + ff + i];

            if (biased) {
                g += bg[i];
                u += bu[i];
            }

            want[r * ff + i] = g / (1 + exp(-g)) * u;
        }
    }

    compare("gate", rows, ff, o.to, o.scale, want, 1e-5);

    release({ a.gate_up, a.gate_bias, a.up_bias });
}


int
main(int argc, char **argv)
{
    int  k;

    (void) argv;
    verbose = argc > 1;

    if (!device_found(8)) {
        printf("skipped: no device of compute capability 8.0 or later\n");
        return 0;
    }

    for (uint32_t width : { 16u, 48u, 576u, 4096u, 14336u, 17408u }) {
        check_rows(1, width);
        check_rows(37, width);
        check_gate(5, width, 0);
        check_gate(17, width, 1);

        check_norm(3, width, 0, 0, 0);

        for (k = 0; k < 4; k++) {
            check_norm(33, width, 1 + (k & 1), k >> 1, 0);
            check_norm(19, width, 1 + (k & 1), k >> 1, 0x1p-6f);
        }
    }

    printf("%d passed, %d failed\n", passed, failed);

    return failed != 0;
}

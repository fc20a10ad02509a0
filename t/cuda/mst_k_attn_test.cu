
/*
 * Attention kernels against float64 on the device, with random inputs,
 * shuffled pages and poison wherever nothing may be read or written; then,
 * with "time", what they take.  Prints one line a case; exit code 1 when one
 * is wrong.
 */

#include "attn_rig.h"


static double
test_compare(test_t *t, const std::vector<float> &ref, double *worst)
{
    double              e, err, row_err, row_sum, sum;
    float              *d;
    uint32_t            i, j, width;
    std::vector<float>  got;

    width = t->a.shape.n_heads * t->a.shape.head_dim;
    d = poisoned<float>((size_t) t->rows * width);
    test_floats<<<t->rows, 256, 0, test_stream>>>(t->a, d);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(test_stream));
    got.resize((size_t) t->rows * width);
    CHECK(cudaMemcpy(got.data(), d, got.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d));

    err = sum = *worst = 0;

    for (i = 0; i < t->rows; i++) {
        row_err = row_sum = 0;

        for (j = 0; j < width; j++) {
            e = (double) got[(size_t) i * width + j]
                - ref[(size_t) i * width + j];
            row_err += e * e;
            row_sum += (double) ref[(size_t) i * width + j]
                       * ref[(size_t) i * width + j];
        }

        e = sqrt(row_err / row_sum);
        *worst = e <= *worst ? *worst : e;
        err += row_err;
        sum += row_sum;
    }

    return sqrt(err / sum);
}


static void
test_case(const test_case_t *c, uint32_t grid)
{
    int                  bits, ok;
    double               e, err[2], *d_err, kv, limit, worst;
    test_t               t;
    uint32_t             i, width;
    std::vector<float>   ref;
    std::vector<uint8_t> one, two;

    test_make(c, 1, grid, &t);
    width = c->heads * c->dim;
    t.k = poisoned<float>((size_t) t.tokens * c->kv_heads * c->dim);
    t.v = poisoned<float>((size_t) t.tokens * c->kv_heads * c->dim);
    t.ref = poisoned<float>((size_t) t.rows * width);

    test_truth<<<dim3(t.tokens, c->kv_heads, 2), c->dim, 0, test_stream>>>(t);
    test_reference<<<dim3(t.rows, c->heads), c->dim, 0, test_stream>>>(t);
    CHECK(cudaGetLastError());

    bits = 1;

    for (i = 0; i < 4; i++) {
        CHECK(cudaMemsetAsync(t.a.out, 0xff, t.out_size, test_stream));
        CHECK(cudaMemsetAsync(t.a.work, 0xff, t.work_size, test_stream));
        test_plan(&t);
        test_layer(&t, 0, i & 1, 7);
        CHECK(cudaStreamSynchronize(test_stream));
        two.resize(t.out_size);
        CHECK(cudaMemcpy(two.data(), t.a.out, t.out_size,
                         cudaMemcpyDeviceToHost));
        bits &= i == 0 || one == two;
        one = two;
    }

    ref.resize((size_t) t.rows * width);
    CHECK(cudaMemcpy(ref.data(), t.ref, ref.size() * 4,
                     cudaMemcpyDeviceToHost));
    e = test_compare(&t, ref, &worst);

    d_err = poisoned<double>(2);
    CHECK(cudaMemset(d_err, 0, 16));
    test_pages<<<dim3(t.tokens, c->kv_heads, 2), c->dim, 0, test_stream>>>(
        t, d_err);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(test_stream));
    CHECK(cudaMemcpy(err, d_err, 16, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_err));
    kv = sqrt(err[0] / err[1]);

    /* rows that only fill the bucket stay as they were (row-major) */

    ok = 1;

    for (i = 0; c->out == MST_K_OUT_BF16 && i < width * 4; i++) {
        ok &= one[(size_t) t.rows * width * 2 + i] == 0xff;
    }

    limit = c->out == MST_K_OUT_FP8 || c->out == MST_K_OUT_FP8_LINES
            ? 4e-2 : 6e-3;
    ok &= e < limit && worst < 3 * limit && bits && kv < 2e-3;
    test_bad += !ok;
    printf("%-34s %3u/%u x %-3u %s ctas %-3u err %.1e worst row %.1e kv %.1e "
           "%s%s\n", c->name.c_str(), c->heads, c->kv_heads, c->dim,
           c->kv == MST_K_KV_FP8 ? "fp8 " : "bf16", t.a.shape.ctas, e, worst,
           kv, bits ? "bits=" : "BITS DIFFER", ok ? "" : " WRONG");
    fflush(stdout);
    test_free(&t);
}


/* microseconds / layers */

static float
test_time(test_t *t, uint32_t layers, int pdl, int what)
{
    return time_us(test_stream, 11, [&] {
        for (uint32_t l = 0; l < layers; l++) {
            test_layer(t, l, pdl && l > 0, what);
        }
    }) / layers;
}


static test_case_t
test_uniform(uint32_t seqs, int before, int n, mst_k_kv_t kv)
{
    test_case_t  c = { "", 32, 8, 128, kv, 0, 64, MST_K_OUT_BF16, {} };

    c.seqs.assign(seqs, { before, n });

    return c;
}


static void
test_time_decode(uint32_t seqs, int len, mst_k_kv_t kv, uint32_t grid)
{
    float              plain, pdl;
    double             bytes;
    test_t             t;
    test_case_t        c;
    const uint32_t     layers = seqs * len > 300000 ? 8 : 32;

    c = test_uniform(seqs, len - 1, 1, kv);
    test_make(&c, layers, grid, &t);
    test_fill<<<1024, 256, 0, test_stream>>>((uint16_t *) t.a.kv,
                                             t.kv_size * layers / 2, 1);
    CHECK(cudaGetLastError());
    bytes = (double) (t.n_blocks - 3) * t.a.block_stride;
    test_plan(&t);
    plain = test_time(&t, layers, 0, 4);
    pdl = test_time(&t, layers, 1, 4);
    printf("decode %s batch %3u context %5d ctas %3u: plain %7.2f pdl %7.2f us"
           " a layer, %4.1f %% of 4.56 TB/s\n",
           kv == MST_K_KV_FP8 ? "fp8 " : "bf16", seqs, len, t.a.shape.ctas,
           plain, pdl, bytes / pdl * 1e-6 / 4.56 * 100);
    fflush(stdout);
    test_free(&t);
}


static void
test_time_prefill(uint32_t seqs, int before, int n, mst_k_kv_t kv,
    uint32_t window)
{
    float           us, rope;
    double          flop, see;
    test_t          t;
    test_case_t     c;
    const uint32_t  layers = 8;

    c = test_uniform(seqs, before, n, kv);
    c.window = window;
    test_make(&c, layers, 0, &t);
    test_fill<<<1024, 256, 0, test_stream>>>((uint16_t *) t.a.kv,
                                             t.kv_size * layers / 2, 1);
    CHECK(cudaGetLastError());
    test_plan(&t);
    rope = test_time(&t, layers, 1, 1);
    us = test_time(&t, layers, 1, 2);
    flop = 0;

    for (int i = 0; i < n; i++) {
        see = before + i + 1;
        flop += 4.0 * 128 * 32 * (window && see > window ? window : see);
    }

    printf("prefill %s %u x %d after %d window %u: %.1f us a layer, %.0f "
           "TFLOP/s; rope + kv %.1f us\n",
           kv == MST_K_KV_FP8 ? "fp8 " : "bf16", seqs, n, before, window, us,
           flop * seqs / us * 1e-6, rope);
    fflush(stdout);
    test_free(&t);
}


static float
test_time_plan(uint32_t seqs, int before, int n)
{
    int           i;
    float         ms;
    test_t        t;
    test_case_t   c;
    cudaEvent_t   a, b;

    c = test_uniform(seqs, before, n, MST_K_KV_BF16);
    test_make(&c, 1, 0, &t);
    test_plan(&t);
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaEventRecord(a, test_stream));

    for (i = 0; i < 50; i++) {
        test_plan(&t);
    }

    CHECK(cudaEventRecord(b, test_stream));
    CHECK(cudaStreamSynchronize(test_stream));
    CHECK(cudaEventElapsedTime(&ms, a, b));
    test_free(&t);

    return ms * 1000 / 50;
}


static void
test_cases(int quick, int small)
{
    uint32_t  i, j;

    const struct {
        uint32_t  heads;
        uint32_t  kv_heads;
        uint32_t  dim;
        uint32_t  pairs;
    } heads[] = {
        { 32, 8, 128, 64 },
        { 9, 3, 64, 32 },
        { 8, 8, 64, 32 },
        { 16, 2, 128, 64 },
        { 24, 2, 128, 48 },
        { 16, 16, 128, 64 },
        { 24, 2, 64, 32 }
    };

    const struct {
        const char              *name;
        uint32_t                 window;
        std::vector<test_seq_t>  seqs;
    } steps[] = {
        { "decode ragged", 0,
          { { 0, 1 }, { 62, 1 }, { 63, 1 }, { 64, 1 }, { 574, 1 }, { 575, 1 },
            { 576, 1 }, { 999, 1 } } },
        { "decode 1", 0, { { 575, 1 } } },
        { "decode 1 long", 0, { { 9000, 1 } } },
        { "decode window", 100,
          { { 0, 1 }, { 99, 1 }, { 100, 1 }, { 163, 1 }, { 164, 1 }, { 227, 1 },
            { 700, 1 }, { 4000, 1 } } },
        { "prefill", 0, { { 0, 2 }, { 0, 63 }, { 0, 64 }, { 0, 65 },
                          { 0, 200 } } },
        { "prefill chunks", 0, { { 1, 33 }, { 63, 64 }, { 64, 130 },
                                 { 500, 77 } } },
        { "prefill window", 100, { { 0, 300 }, { 77, 150 }, { 400, 70 } } },
        { "mixed", 0, { { 300, 1 }, { 100, 50 }, { 0, 1 }, { 0, 129 },
                        { 64, 1 } } },
        { "mixed window", 64, { { 300, 1 }, { 100, 90 }, { 63, 1 }, { 0, 129 },
                                { 65, 1 } } }
    };

    for (i = small; i < sizeof(heads) / sizeof(heads[0]); i += 1 + 9 * small) {
        for (j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
            int          k;
            test_case_t  c = { steps[j].name, heads[i].heads,
                               heads[i].kv_heads, heads[i].dim, MST_K_KV_BF16,
                               steps[j].window, heads[i].pairs,
                               MST_K_OUT_BF16, steps[j].seqs };

            if ((quick || small) && j != 7) {
                continue;
            }

            for (k = 0; k < 2; k++) {
                c.kv = k ? MST_K_KV_FP8 : MST_K_KV_BF16;
                test_case(&c, 0);
            }
        }
    }

    if (small) {
        return;
    }

    test_case_t  c = { "mixed, other outputs", 32, 8, 128, MST_K_KV_BF16, 0,
                       64, MST_K_OUT_FP8, steps[7].seqs };

    test_case(&c, 0);
    c.out = MST_K_OUT_BF16_LINES;
    test_case(&c, 0);
    c.out = MST_K_OUT_FP8_LINES;
    test_case(&c, 0);

    /* few CTAs: items are cut anywhere; 32 sequences: they are not */

    c.out = MST_K_OUT_BF16;
    c.seqs = steps[0].seqs;
    c.name = "decode ragged, 7 CTAs";
    test_case(&c, 7);
    c.name = "decode ragged, 264 CTAs";
    test_case(&c, 264);
    c.name = "decode 32 x 576";
    c.seqs.assign(32, { 575, 1 });
    test_case(&c, 0);
}


/* chunks of many tiles, and graphs of several layers */

static void
test_long(void)
{
    test_case_t  c;

    c = test_uniform(1, 0, 512, MST_K_KV_BF16);
    c.name = "prefill 512";
    test_case(&c, 0);
    c = test_uniform(1, 0, 2048, MST_K_KV_BF16);
    c.name = "prefill 2048";
    test_case(&c, 0);
    c = test_uniform(2, 700, 1000, MST_K_KV_BF16);
    c.name = "prefill 2 x 1000 after 700";
    test_case(&c, 0);
    c.window = 500;
    c.name = "the same, window 500";
    test_case(&c, 0);
    test_time_prefill(1, 0, 512, MST_K_KV_BF16, 0);
    test_time_prefill(1, 0, 2048, MST_K_KV_BF16, 0);
    test_time_prefill(4, 0, 2048, MST_K_KV_FP8, 0);
}


int
main(int argc, char **argv)
{
    uint32_t            i;
    cudaDeviceProp      prop;
    const mst_k_kv_t    kv[] = { MST_K_KV_BF16, MST_K_KV_FP8 };
    const uint32_t      batch[] = { 1, 8, 16, 32, 64, 128, 256 };

    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    printf("%s, %d SMs\n", prop.name, prop.multiProcessorCount);
    CHECK(cudaStreamCreateWithFlags(&test_stream, cudaStreamNonBlocking));

    if (argc > 1 && strcmp(argv[1], "time") == 0) {

        for (i = 0; i < 14; i++) {
            test_time_decode(batch[i / 2], 576, kv[i & 1], 0);
        }

        for (i = 8; i <= 256; i *= 2) {
            test_time_decode(i, 576, MST_K_KV_BF16, i < 256 ? 264 : 132);
            test_time_decode(i, 576, MST_K_KV_FP8, i < 32 ? 264 : 132);
        }

        test_time_decode(32, 4096, MST_K_KV_FP8, 132);
        test_time_decode(1, 8192, MST_K_KV_BF16, 0);
        test_time_decode(1, 32768, MST_K_KV_BF16, 0);
        test_time_decode(32, 4096, MST_K_KV_BF16, 0);

        for (i = 0; i < 2; i++) {
            test_time_prefill(1, 0, 512, kv[i], 0);
            test_time_prefill(1, 0, 2048, kv[i], 0);
            test_time_prefill(4, 0, 2048, kv[i], 0);
            test_time_prefill(1, 6144, 2048, kv[i], 0);
            test_time_prefill(1, 0, 8192, kv[i], 4096);
        }

        printf("plan: 1 seq %.1f, 32 %.1f, 256 %.1f, prefill 8 x 1024 %.1f us"
               "\n", test_time_plan(1, 575, 1), test_time_plan(32, 575, 1),
               test_time_plan(256, 575, 1), test_time_plan(8, 0, 1024));
        return 0;
    }

    if (argc > 1 && strcmp(argv[1], "long") == 0) {
        test_long();
        printf("%d wrong\n", test_bad);
        return test_bad != 0;
    }

    /* "small": what compute-sanitizer does in a minute */

    test_cases(argc > 1 && strcmp(argv[1], "quick") == 0,
               argc > 1 && strcmp(argv[1], "small") == 0);
    printf("%d wrong\n", test_bad);

    return test_bad != 0;
}

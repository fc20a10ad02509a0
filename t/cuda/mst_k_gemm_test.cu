
/*
 * The decode GEMMs on a device: each operation against float64 from the very
 * inputs that it read, outputs poisoned before; equal bits of a token alone
 * and among others, over replays, plain and with programmatic launch.
 *
 *     mst_k_gemm_test        checks; the last line is "N passed, N failed"
 *     mst_k_gemm_test one    the smallest shape only (compute-sanitizer)
 */

#include "gemm_rig.h"
#include "kernels/mst_k_gemm_run.h"


#define SAMPLES  512


static int  passed, failed;


static void
check(int ok, const char *fmt, ...)
{
    va_list  args;

    ok ? passed++ : failed++;

    if (ok && !verbose) {
        return;
    }

    printf(ok ? "ok   " : "FAIL ");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}


/* sum over k of w[row] * x[token], a warp per sample; t: row in tile order */
static __global__ void
dots(matrix m, const char *x, uint32_t pad, const uint32_t *tokens,
    const uint32_t *t, double *out)
{
    double       s, a, b;
    uint32_t     i, k, size;
    const void  *pw, *px;

    i = blockIdx.x;
    size = m.scale != NULL ? 1 : 2;
    s = 0;

    for (k = threadIdx.x; k < m.width; k += 32) {
        pw = (char *) m.w + mst_k_gemm_w_at(t[i], k, m.rows, m.width, size);
        px = x + mst_k_gemm_x_at(tokens[i], k, pad, size);
        a = size == 1 ? (double) (float) *(const __nv_fp8_e4m3 *) pw
                      : (double) __bfloat162float(*(const __nv_bfloat16 *) pw);
        b = size == 1 ? (double) (float) *(const __nv_fp8_e4m3 *) px
                      : (double) __bfloat162float(*(const __nv_bfloat16 *) px);
        s += a * b;
    }

    for (k = 16; k > 0; k /= 2) {
        s += __shfl_xor_sync(~0u, s, k);
    }

    if (threadIdx.x == 0) {
        out[i] = s * (m.scale != NULL ? m.scale[t[i]] : 1);
    }
}


typedef std::vector<double> vec;


static vec
dot(const matrix &m, const void *x, uint32_t pad,
    const std::vector<uint32_t> &tokens, const std::vector<uint32_t> &t)
{
    vec        v(t.size());
    double    *out;
    uint32_t  *dt, *dn;

    dt = upload(t);
    dn = upload(tokens);
    CHECK(cudaMalloc(&out, t.size() * 8));
    dots<<<t.size(), 32>>>(m, (const char *) x, pad, dn, dt, out);
    CHECK(cudaMemcpy(v.data(), out, t.size() * 8, cudaMemcpyDeviceToHost));
    release({ out, dt, dn });

    return v;
}


static double
bf16(const void *p)
{
    return __bfloat162float(*(const __nv_bfloat16 *) p);
}


static double
e4m3(const void *p)
{
    return (float) *(const __nv_fp8_e4m3 *) p;
}


/* relative error of all: sqrt(sum of squares of differences / of values) */
typedef struct {
    double  d, v;
} error;


static void
add(error &e, double got, double want)
{
    e.d += got == got ? (got - want) * (got - want) : 1e300;
    e.v += want * want;
}


static double
relative(const error &e)
{
    return sqrt(e.d / e.v);
}


/* 1 / rms of a token's residual, and what x was multiplied with */
static double
per_rms(const std::vector<float> &h, uint32_t dim, uint32_t n)
{
    double    s;
    uint32_t  i;

    s = 0;

    for (i = 0; i < dim; i++) {
        s += (double) h[(size_t) n * dim + i] * h[(size_t) n * dim + i];
    }

    return 1 / sqrt(s / dim + EPS);
}


static const char *names[] = { "qkv", "residual", "gate-up", "head" };


/* samples of an operation's output; they are at the edges, too */
static void
samples(uint32_t n, uint32_t outputs, std::vector<uint32_t> &tokens,
    std::vector<uint32_t> &rows)
{
    uint32_t  i;

    for (i = 0; i < SAMPLES; i++) {
        tokens.push_back(i < 8 ? n - 1 : random32() % n);
        rows.push_back(i < 8 ? outputs - 1 - i : i < 16 ? i - 8
                       : random32() % outputs);
    }
}


/* an operation that has run: its arguments, what it read, what it wrote */
typedef struct {
    mst_k_gemm_t          a;
    matrix                m;
    bench_state           s;
    int                   fp8, y8;
    uint32_t              pad, dim;
    std::vector<float>    h0, h1, muls, muls2, bias, gain;
    std::vector<uint8_t>  y;
} ran;


static double
blocked(const ran &r, uint32_t token, uint32_t k)
{
    return r.y8 ? e4m3(&r.y[mst_k_gemm_x_at(token, k, r.pad, 1)])
                : bf16(&r.y[mst_k_gemm_x_at(token, k, r.pad, 2)]);
}


/* h, x and sums are as the first operation of a step makes them */
static void
run_op(ran &r, mst_k_gemm_op_t op, uint32_t n, mst_k_gemm_way_t way, int bias)
{
    r.pad = mst_k_gemm_pad(n);
    r.dim = op == MST_K_GEMM_RESIDUAL ? r.m.rows : r.m.width;
    r.s.make(r.dim, std::max(r.m.width, r.m.rows), r.m.rows, r.pad);
    r.a = r.s.op(op, r.m, n);
    r.a.way = way;
    r.y8 = r.fp8 && (op == MST_K_GEMM_RESIDUAL || op == MST_K_GEMM_GATE_UP);
    r.a.y_e4m3 = r.y8;
    r.a.bias = bias ? r.s.bias : NULL;
    r.a.bias_up = bias ? r.s.bias + r.m.rows / 2 : NULL;
    r.s.first(n, r.fp8, way);

    if (op == MST_K_GEMM_RESIDUAL) {
        r.s.random_x(r.m.width, r.pad, r.fp8);
    }

    r.h0 = download(r.s.h, (size_t) n * r.dim);
    r.muls = download(r.s.muls, r.pad);
    r.s.poison();
    CHECK(mst_k_gemm(&r.a, 0));
    CHECK(cudaDeviceSynchronize());
    r.y = download((uint8_t *) r.a.y, r.s.y_size);
    r.h1 = download(r.s.h, (size_t) n * r.dim);
    r.muls2 = download(r.s.muls2, r.pad);
    r.bias = download(r.s.bias, r.m.rows);
    r.gain = download(r.s.gain, r.dim);
}


/* e: y; next: the next x of a residual */
static void
compare(const ran &r, const std::vector<uint32_t> &tokens,
    const std::vector<uint32_t> &rows, error &e, error &next)
{
    double                 v, u, g, b;
    size_t                 at, i;
    uint32_t               n, row;
    std::vector<uint32_t>  t, t2;
    vec                    d, d2;

    for (uint32_t k : rows) {
        t.push_back(r.a.op == MST_K_GEMM_GATE_UP ? mst_k_gemm_gate_row(0, k)
                                                 : mst_k_gemm_row(k));
        t2.push_back(mst_k_gemm_gate_row(1, k));
    }

    d = dot(r.m, r.a.x, r.pad, tokens, t);
    d2 = r.a.op == MST_K_GEMM_GATE_UP ? dot(r.m, r.a.x, r.pad, tokens, t2) : d;

    for (i = 0; i < rows.size(); i++) {
        n = tokens[i];
        row = rows[i];
        g = per_rms(r.h0, r.dim, n);
        b = r.a.bias ? r.bias[row] : 0;
        u = !r.fp8 ? 1
            : r.a.op == MST_K_GEMM_RESIDUAL ? 1 / r.a.x_mul : 1 / r.muls[n];
        v = d[i] * u;

        switch (r.a.op) {

        case MST_K_GEMM_QKV:
            add(e, bf16(&r.y[((size_t) n * r.m.rows + row) * 2]), v * g + b);
            break;

        case MST_K_GEMM_HEAD:
            add(e, ((float *) r.y.data())[(size_t) n * r.a.pitch + row],
                v * g);
            break;

        case MST_K_GEMM_GATE_UP:
            u = d2[i] * u * g
                + (r.a.bias ? r.bias[r.m.rows / 2 + row] : 0);
            v = v * g + b;
            add(e, blocked(r, n, row) / (r.y8 ? r.a.y_mul : 1),
                v / (1 + exp(-v)) * u);
            break;

        default:
            at = (size_t) n * r.dim + row;
            add(e, r.h1[at] - (double) r.h0[at], v + b);
            add(next, blocked(r, n, row) / (r.y8 ? r.muls2[n] : 1),
                r.h1[at] * (double) r.gain[row]);

            if (r.y8 && !(fabs(r.muls2[n] / (0.25 * g) - 1) < 1e-5)) {
                add(next, NAN, 1);
            }
        }
    }
}


static void
check_op(mst_k_gemm_op_t op, uint32_t rows, uint32_t width, uint32_t n,
    int fp8, mst_k_gemm_way_t way, int bias)
{
    ran                    r;
    error                  e = {}, next = {};
    double                 lim;
    std::vector<uint32_t>  tokens, s;

    r.fp8 = fp8;
    r.m.make(op, rows, width, fp8);
    run_op(r, op, n, way, bias);
    samples(n, op == MST_K_GEMM_GATE_UP ? rows / 2 : rows, tokens, s);
    compare(r, tokens, s, e, next);

    /* e4m3 sums have 14 bits; h is fp32, but a difference has lost digits */
    lim = r.y8 && op == MST_K_GEMM_GATE_UP ? 4e-2
          : op == MST_K_GEMM_HEAD ? (fp8 ? 3e-3 : 2e-5)
          : op == MST_K_GEMM_RESIDUAL ? (fp8 ? 3e-3 : 1e-5) : 4e-3;
    check(relative(e) < lim, "%s %ux%u n %u %s%s%s: %.1e (limit %.0e)",
          names[op], rows, width, n, fp8 ? "e4m3" : "bf16",
          way ? " mma" : "", bias ? " bias" : "", relative(e), lim);

    if (op == MST_K_GEMM_RESIDUAL) {
        check(relative(next) < (r.y8 ? 4e-2 : 3e-3), "  next x: %.1e",
              relative(next));
        check(r.s.sums_ok(n, way, r.h1), "  sums of squares");
    }

    r.s.done();
    r.m.done();
}


/* so many of them */
static void
check_shapes(size_t shape)
{
    int       fp8, w;
    size_t    i, j;

    static const struct {
        mst_k_gemm_op_t  op;
        uint32_t         rows, width;
        int              bias;
    } shapes[] = {
        { MST_K_GEMM_QKV, 960, 576, 1 },
        { MST_K_GEMM_RESIDUAL, 576, 576, 1 },
        { MST_K_GEMM_GATE_UP, 3072, 576, 1 },
        { MST_K_GEMM_RESIDUAL, 576, 1536, 0 },
        { MST_K_GEMM_HEAD, 49153, 576, 0 },        /* no multiple of 16 */
        { MST_K_GEMM_QKV, 64, 64, 0 },
        { MST_K_GEMM_RESIDUAL, 64, 64, 0 },
        { MST_K_GEMM_GATE_UP, 128, 64, 0 },
        { MST_K_GEMM_QKV, 10240, 192, 0 },
        { MST_K_GEMM_QKV, 6144, 4096, 0 },
        { MST_K_GEMM_RESIDUAL, 4096, 4096, 0 },
        { MST_K_GEMM_GATE_UP, 28672, 4096, 0 },
        { MST_K_GEMM_RESIDUAL, 4096, 14336, 0 },
        { MST_K_GEMM_HEAD, 32768, 4096, 0 },
        { MST_K_GEMM_RESIDUAL, 8704, 256, 0 }
    };

    static const uint32_t  ns[] = { 1, 8, 13, 32, 50, 128 };

    for (i = 0; i < std::min(shape, sizeof(shapes) / sizeof(shapes[0])); i++) {
        for (j = 0; j < sizeof(ns) / sizeof(ns[0]); j++) {
            for (fp8 = 0; fp8 < 2; fp8++) {
                for (w = 0; w < 2; w++) {
                    check_op(shapes[i].op, shapes[i].rows, shapes[i].width,
                             ns[j], fp8, (mst_k_gemm_way_t) w,
                             shapes[i].bias);
                }
            }
        }
    }
}


/*
 * A model of 2 layers without attention (what stands for it is the first dim
 * columns of qkv): the logits of a token alone, among others, at another
 * place; plain, with programmatic launch, again.
 */
static void
check_bits(uint32_t dim, uint32_t ff, int fp8, mst_k_gemm_way_t way)
{
    int                  pdl;
    model                m;
    uint32_t             n, i, id, bad, again;
    std::vector<float>   one, y, y2;

    static const uint32_t  ns[] = { 1, 5, 8, 16, 17, 32, 64, 100, 128 };

    m.make(dim, ff, dim * 3 / 2, 4096 + 16, 2, fp8);

    for (uint32_t k = 0; k < sizeof(ns) / sizeof(ns[0]); k++) {
        for (pdl = 0; pdl < 2; pdl++) {
            n = ns[k];
            y = m.run(n, way, pdl, k);
            y2 = m.run(n, way, pdl, k);
            again = memcmp(y.data(), y2.data(), y.size() * 4) != 0;

            if (k == 0 && !pdl) {
                one = m.all_alone(way);
            }

            bad = 0;

            for (i = 0; i < n; i++) {
                id = model::id(i, k);
                bad += memcmp(&y[(size_t) i * m.vocab],
                              &one[(size_t) id * m.vocab], m.vocab * 4) != 0;
            }

            check(!bad && !again, "bits dim %u %s%s n %u %s: %u tokens differ "
                  "from alone, replay %s", dim, fp8 ? "e4m3" : "bf16",
                  way ? " mma" : "", n, pdl ? "pdl" : "plain", bad,
                  again ? "differs" : "equal");
        }
    }

    m.done();
}


/* what e4m3 costs: logits of the same weights and tokens in bf16 */
static void
check_e4m3(uint32_t dim, uint32_t ff)
{
    int                 fp8;
    error               e = {};
    model               m;
    std::vector<float>  y[2];

    for (fp8 = 0; fp8 < 2; fp8++) {
        m.make(dim, ff, dim * 3 / 2, 4096, 2, fp8);
        y[fp8] = m.run(32, MST_K_GEMM_AUTO, 0, 0);
        m.done();
    }

    for (size_t i = 0; i < y[0].size(); i++) {
        add(e, y[1][i], y[0][i]);
    }

    check(relative(e) < 0.12, "e4m3 against bf16, 2 layers of dim %u, logits:"
          " %.1e", dim, relative(e));
}


/* a ring of activations that leaves weights no room waited for ever */
static void
check_rings(void)
{
    int          rc;
    matrix       w;
    bench_state  s;

    w.make(MST_K_GEMM_RESIDUAL, 4096, 4096, 0);
    s.make(4096, 4096, 4096, 128);

    mst_k_gemm_t  a = s.op(MST_K_GEMM_RESIDUAL, w, 128);

    mst_k_gemm_tune.x_ring = 6;
    rc = mst_k_gemm(&a, 0);
    CHECK(cudaDeviceSynchronize());
    mst_k_gemm_tune.x_ring = 0;

    check(rc == cudaErrorInvalidValue, "rings that do not fit: rc %d", rc);

    CHECK(mst_k_gemm(&a, 0));
    CHECK(cudaDeviceSynchronize());
    s.done();
    w.done();
}


int
main(int argc, char **argv)
{
    int  all, small;

    /* "small": what compute-sanitizer does in a minute */

    small = argc > 1 && strcmp(argv[1], "small") == 0;
    all = !small && (argc < 2 || strcmp(argv[1], "one") != 0);
    verbose = argc > 1 && !small;

    if (!device_found(8)) {
        printf("skipped: no device of compute capability 8.0 or later\n");
        return 0;
    }

    for (int i = 0; !small && i < 4; i++) {
        check_bits(576, 1536, i & 1, i < 2 ? MST_K_GEMM_AUTO : MST_K_GEMM_MMA);
    }

    if (all) {
        check_bits(4096, 14336, 0, MST_K_GEMM_AUTO);
        check_bits(4096, 14336, 1, MST_K_GEMM_AUTO);
        check_e4m3(576, 1536);
        check_e4m3(4096, 14336);
    }

    check_shapes(all ? SIZE_MAX : 4);

    if (!small) {
        check_rings();
    }

    printf("%d passed, %d failed\n", passed, failed);

    return failed != 0;
}

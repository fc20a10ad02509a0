
/*
 * Products over lists and what else a mixture of experts and batch_invariant
 * need, against float64: ragged numbers of places, outputs and elements,
 * poison around the outputs, and the same bits for a place wherever it
 * stands.
 *
 *     mst_k_list_test [quick]
 */

#include <math.h>

#include "device_rig.cuh"
#include "kernels/mst_k_block.h"
#include "kernels/mst_k_gemm_map.h"
#include "kernels/mst_k_list.h"
#include "kernels/mst_k_moe.h"


static int  passed, failed;


static void
check(int good, const char *what, uint32_t a, uint32_t b, uint32_t c)
{
    passed += good;
    failed += !good;

    if (!good) {
        printf("FAIL %s: %u, %u, %u\n", what, a, b, c);
    }
}


static float
random_float(void)
{
    return (float) random32() / 1073741824.f - 1;
}


static std::vector<uint16_t>
random_bf16(size_t n)
{
    std::vector<uint16_t>  v(n);

    for (size_t i = 0; i < n; i++) {
        v[i] = bf16_of(random_float());
    }

    return v;
}


static double
dot(const uint16_t *x, const uint16_t *w, uint32_t n, double *size)
{
    double  a, sum;

    sum = 0;
    *size = 0;

    for (uint32_t i = 0; i < n; i++) {
        a = (double) f32_of(x[i]) * f32_of(w[i]);
        sum += a;
        *size += fabs(a);
    }

    return sum;
}


/* one list of all rows; "add" onto random floats */

static void
test_dense(uint32_t rows, uint32_t outputs, uint32_t width,
    mst_k_list_out_t out)
{
    int                    good, same;
    double                 size, sum, was;
    mst_k_list_t           a = {};
    std::vector<float>     one, y(rows * outputs + 64, NAN), before;
    std::vector<uint16_t>  x, w, half(rows * outputs + 64, 0x7fff);

    x = random_bf16(rows * width);
    w = random_bf16(outputs * width);

    for (size_t i = 0; out == MST_K_LIST_ADD && i < rows * outputs; i++) {
        y[i] = random_float();
    }

    before = y;
    a.w = up(w);
    a.x = up(x);
    a.y = out == MST_K_LIST_BF16 ? (void *) up(half) : (void *) up(y);
    a.out = out;
    a.outputs = outputs;
    a.width = width;
    a.places = rows;
    CHECK(mst_k_list(&a, 0));

    if (out == MST_K_LIST_BF16) {
        half = download((uint16_t *) a.y, half.size());

        for (size_t i = 0; i < y.size(); i++) {
            y[i] = f32_of(half[i]);
        }

    } else {
        y = download((float *) a.y, y.size());
    }

    good = 1;

    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t o = 0; o < outputs; o++) {
            sum = dot(&x[r * width], &w[o * width], width, &size);
            was = out == MST_K_LIST_ADD ? before[r * outputs + o] : 0;
            good &= fabs(y[r * outputs + o] - (sum + was))
                    <= 1e-5 * size + 1e-6
                       + (out == MST_K_LIST_BF16 ? fabs(sum) / 200 : 0);
        }
    }

    for (size_t i = rows * outputs; i < y.size(); i++) {
        good &= isnan(y[i]);
    }

    check(good, "a product", rows, outputs, width);

    /* the last row alone */

    if (out == MST_K_LIST_F32) {
        a.x += (size_t) (rows - 1) * width;
        a.places = 1;
        CHECK(mst_k_list(&a, 0));
        one = download((float *) a.y, outputs);
        same = memcmp(one.data(), &y[(rows - 1) * outputs], outputs * 4) == 0;
        check(same, "the same bits alone", rows, outputs, width);
        a.x -= (size_t) (rows - 1) * width;
    }

    release({ a.w, a.x, a.y });
}


/* what a mixture has on the device */
typedef struct {
    mst_k_route_t          route;
    mst_k_moe_sum_t        sum;
    std::vector<float>     h, gain, router;
    std::vector<int32_t>   used;           /* of a sequence of one row */
    uint32_t               filled;         /* rows of the step */
} mixture_t;


static void
mixture_make(mixture_t *m, uint32_t rows, uint32_t filled, uint32_t dim,
    uint32_t experts, uint32_t stride)
{
    mst_k_route_t         *a;
    std::vector<int32_t>   counts(MST_K_COUNTS), seq(rows);
    std::vector<int32_t>   none(rows * stride + 8, -7);

    a = &m->route;
    memset((void *) a, 0, sizeof(*a));
    m->filled = filled;
    m->h.resize(rows * dim);
    m->gain.resize(dim);
    m->router.resize(experts * dim);
    m->used.resize(rows);

    for (float &f : m->h) { f = random_float(); }
    for (float &f : m->gain) { f = 1 + random_float() / 2; }
    for (float &f : m->router) { f = random_float() / 4; }

    for (uint32_t i = 0; i < rows; i++) {
        seq[i] = (int32_t) i;
        m->used[i] = 1 + (int32_t) (random32() % stride);
    }

    counts[MST_K_ROWS] = (int32_t) filled;
    a->step.counts = up(counts);
    a->step.seq = up(seq);
    a->step.seq_used = up(m->used);
    a->h = up(m->h);
    a->gain = up(m->gain);
    a->router = up(m->router);
    a->x = up(std::vector<uint16_t>(rows * dim));
    a->expert = up(none);
    a->weight = up(std::vector<float>(rows * stride));
    a->first = up(std::vector<int32_t>(experts + 1));
    a->pair = up(none);
    a->place = up(none);
    a->eps = 1e-5f;
    a->dim = dim;
    a->n_experts = experts;
    a->stride = stride;
    a->rows = rows;
}


static void
mixture_free(mixture_t *m)
{
    mst_k_route_t  *a;

    a = &m->route;

    release({ a->step.counts, a->step.seq, a->step.seq_used, a->h, a->gain,
              a->router, a->x, a->expert, a->weight, a->first, a->pair,
              a->place });
}


/* experts and weights of a row in float64, likeliest first */

static void
mixture_row(const mixture_t *m, uint32_t row, std::vector<int> *order,
    std::vector<double> *weight)
{
    double               r, sum;
    uint32_t             dim, i;
    std::vector<double>  logits;

    dim = m->route.dim;

    for (i = 0, sum = 0; i < dim; i++) {
        sum += (double) m->h[row * dim + i] * m->h[row * dim + i];
    }

    r = 1 / sqrt(sum / dim + m->route.eps);

    for (uint32_t e = 0; e < m->route.n_experts; e++) {
        for (i = 0, sum = 0; i < dim; i++) {
            sum += m->h[row * dim + i] * r * m->gain[i]
                   * m->router[e * dim + i];
        }

        order->push_back((int) e);
        logits.push_back(sum);
    }

    std::stable_sort(order->begin(), order->end(), [&](int a, int b) {
        return logits[a] > logits[b];
    });

    order->resize(m->used[row]);

    for (int e : *order) {
        weight->push_back(exp(logits[e] - logits[(*order)[0]]));
    }

    sum = 0;

    for (double w : *weight) { sum += w; }
    for (double &w : *weight) { w /= sum; }
}


/* places of an expert's pairs follow one another, in the pairs' order */

static int
mixture_lists(const mixture_t *m, const std::vector<int32_t> &expert,
    uint32_t row0)
{
    int                   good;
    int32_t               at;
    const mst_k_route_t  *a;
    std::vector<int32_t>  first, pair, place;

    a = &m->route;
    first = download(a->first, a->n_experts + 1);
    pair = download(a->pair, a->rows * a->stride);
    place = download(a->place, a->rows * a->stride);
    good = first[0] == 0;
    at = 0;

    for (uint32_t e = 0; e < a->n_experts; e++) {
        good &= first[e] == at;

        for (uint32_t p = 0; p < a->rows * a->stride; p++) {
            if (expert[p] == (int32_t) e) {
                good &= pair[at] == (int32_t) (p + row0 * a->stride);
                good &= place[p] == at++;
            }
        }
    }

    return good && first[a->n_experts] == at;
}


static int
mixture_sum(mixture_t *m, const std::vector<int32_t> &expert)
{
    int                   good;
    double                want;
    mst_k_route_t        *a;
    std::vector<int32_t>  place;
    std::vector<float>    h, weight, y;

    a = &m->route;
    m->sum = {};
    y.resize(a->rows * a->stride * a->dim);

    for (float &f : y) { f = random_float(); }

    m->sum.y = up(y);
    m->sum.expert = a->expert;
    m->sum.weight = a->weight;
    m->sum.place = a->place;
    m->sum.h = (float *) a->h;
    m->sum.dim = a->dim;
    m->sum.stride = a->stride;
    m->sum.row0 = a->row0;
    m->sum.rows = a->rows;
    CHECK(mst_k_moe_sum(&m->sum, 0));

    h = download(a->h, m->h.size());
    weight = download(a->weight, a->rows * a->stride);
    place = download(a->place, a->rows * a->stride);
    good = 1;

    for (size_t i = 0; i < h.size(); i++) {
        uint32_t  row = i / a->dim;

        want = m->h[i];

        for (uint32_t k = 0; row >= a->row0 && row < a->row0 + a->rows
                             && k < a->stride; k++)
        {
            uint32_t  p = (row - a->row0) * a->stride + k;

            if (expert[p] >= 0) {
                want += weight[p] * y[place[p] * a->dim + i % a->dim];
            }
        }

        good &= fabs(h[i] - want) < 1e-5;
    }

    CHECK(cudaFree((void *) m->sum.y));

    return good;
}


/* a step of rows, of which the slice from row0 on is looked at */

static void
test_mixture(uint32_t rows, uint32_t row0, uint32_t dim, uint32_t experts,
    uint32_t stride)
{
    int                    good;
    uint32_t               filled, n;
    mixture_t              m;
    std::vector<float>     weight;
    std::vector<int32_t>   expert;

    filled = rows > 4 ? rows - 3 : rows;
    mixture_make(&m, rows, filled, dim, experts, stride);
    m.route.row0 = row0;
    m.route.rows = rows - row0;
    CHECK(mst_k_route(&m.route, 0));

    expert = download(m.route.expert, m.route.rows * stride);
    weight = download(m.route.weight, m.route.rows * stride);
    good = 1;

    for (uint32_t r = row0; r < rows; r++) {
        std::vector<int>     order;
        std::vector<double>  w;

        if (r < filled) {
            mixture_row(&m, r, &order, &w);
        }

        for (uint32_t k = 0; k < stride; k++) {
            n = (r - row0) * stride + k;
            good &= expert[n] == (k < order.size() ? order[k] : -1);
            good &= k >= w.size() || fabs(weight[n] - w[k]) < 1e-5;
        }
    }

    check(good, "a router", rows, experts, stride);
    check(mixture_lists(&m, expert, row0), "its lists", rows, experts,
          stride);
    check(mixture_sum(&m, expert), "a weighed sum", rows, experts, stride);
    mixture_free(&m);
}


/* products of several matrices over lists, one of which may be empty */

static void
test_lists(uint32_t rows, uint32_t outputs, uint32_t width, uint32_t lists)
{
    int                              good;
    double                           size, sum;
    uint32_t                         places;
    mst_k_list_t                     a = {};
    std::vector<float>               y;
    std::vector<int32_t>             first, pair;
    std::vector<uint16_t>            x;
    std::vector<const uint16_t *>    ws;
    std::vector<std::vector<uint16_t>>  w;

    x = random_bf16(rows * width);
    first.push_back(0);

    for (uint32_t e = 0; e < lists; e++) {
        w.push_back(random_bf16(outputs * width));
        ws.push_back(up(w[e]));

        for (uint32_t r = 0; r < rows; r++) {
            if (e != 1 && (random32() & 1)) {
                pair.push_back((int32_t) (r * 2 + e % 2));
            }
        }

        first.push_back((int32_t) pair.size());
    }

    places = pair.size();

    if (places) {
        y.assign(places * outputs + 64, NAN);
        a.ws = up(ws);
        a.x = up(x);
        a.first = up(first);
        a.pair = up(pair);
        a.y = up(y);
        a.out = MST_K_LIST_F32;
        a.outputs = outputs;
        a.width = width;
        a.lists = lists;
        a.n_used = 2;
        a.places = places + 5;
        CHECK(mst_k_list(&a, 0));
        y = download((float *) a.y, y.size());
        good = 1;

        for (uint32_t e = 0; e < lists; e++) {
            for (int32_t p = first[e]; p < first[e + 1]; p++) {
                for (uint32_t o = 0; o < outputs; o++) {
                    sum = dot(&x[pair[p] / 2 * width], &w[e][o * width],
                              width, &size);
                    good &= fabs(y[p * outputs + o] - sum)
                            <= 1e-5 * size + 1e-6;
                }
            }
        }

        for (size_t i = places * outputs; i < y.size(); i++) {
            good &= isnan(y[i]);
        }

        check(good, "lists", rows, outputs, width);

        release({ a.ws, a.x, a.first, a.pair, a.y });
    }

    for (const uint16_t *p : ws) { CHECK(cudaFree((void *) p)); }
}


/* rows into the blocked form; what pads a width is zero */

static void
test_block(uint32_t n, uint32_t width)
{
    int                    good;
    uint32_t               pad, w;
    mst_k_block_rows_t     a = {};
    std::vector<uint16_t>  x, y;

    pad = mst_k_gemm_pad(n);
    x = random_bf16(n * width);
    y.assign(mst_k_gemm_x_size(pad, width, 2) / 2, 0x7fff);
    w = y.size() / pad;
    a.from = up(x);
    a.to = up(y);
    a.width = width;
    a.n = n;
    CHECK(mst_k_block_rows(&a, 0));
    y = download((uint16_t *) a.to, y.size());
    good = 1;

    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t k = 0; k < w; k++) {
            good &= y[mst_k_gemm_x_at(t, k, pad, 2) / 2]
                    == (k < width ? x[t * width + k] : 0);
        }
    }

    check(good, "blocked rows", n, width, pad);
    release({ a.from, a.to });
}


int
main(int argc, char **argv)
{
    int  quick;

    if (!device_found(0)) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    quick = argc > 1 && strcmp(argv[1], "quick") == 0;

    /* what compute-sanitizer does in a minute */

    if (argc > 1 && strcmp(argv[1], "small") == 0) {
        test_dense(65, 65, 72, MST_K_LIST_F32);
        test_dense(7, 48, 56, MST_K_LIST_ADD);
        test_dense(16, 320, 192, MST_K_LIST_BF16);
        test_block(7, 576);
        test_lists(65, 130, 136, 8);
        test_mixture(16, 5, 100, 8, 3);
        printf("%d passed, %d failed\n", passed, failed);
        return failed != 0;
    }


    for (uint32_t rows : { 1, 2, 7, 16, 63, 64, 65, 129, 200 }) {
        for (uint32_t outputs : { 1, 48, 63, 64, 65, 320 }) {
            for (uint32_t width : { 8, 56, 64, 72, 192, 576 }) {

                if (quick && (rows + outputs + width) % 5) {
                    continue;
                }

                test_dense(rows, outputs, width, MST_K_LIST_F32);
                test_dense(rows, outputs, width, MST_K_LIST_ADD);
                test_dense(rows, outputs, width, MST_K_LIST_BF16);
            }
        }

        if (rows <= 128) {
            test_block(rows, 576);
            test_block(rows, 1024);
        }

        test_lists(rows, 96, 64, 2);
        test_lists(rows, 130, 136, 8);

        test_mixture(rows, 0, 64, 4, 2);
        test_mixture(rows, rows / 3, 100, 8, 3);
        test_mixture(rows, 0, 256, 64, 64);
    }

    printf("%d passed, %d failed\n", passed, failed);

    return failed != 0;
}

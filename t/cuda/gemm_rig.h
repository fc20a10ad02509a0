
/*
 * What the test and the benchmark of the decode GEMMs share: random weights
 * and activations on the device, a small model of their operations.
 */

#ifndef GEMM_RIG_H
#define GEMM_RIG_H

#include <math.h>
#include <stdarg.h>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#define RIG_SEED  1

#include "device_rig.cuh"
#include "kernels/mst_k_gemm.h"


#define EPS  1e-5f


static int  verbose;


static __device__ float
normal(uint64_t i)
{
    uint32_t  u[2];

    for (int k = 0; k < 2; k++) {
        uint64_t  x = 2 * i + k + 1;

        x = (x ^ x >> 31) * 0x7fb5d329728ea185ull;
        x = (x ^ x >> 27) * 0x81dadef4bc2dd44dull;
        u[k] = (uint32_t) (x >> 32);
    }

    return sqrtf(-2 * __logf((u[0] + 1.f) * 2.3283064e-10f))
           * __cosf(6.2831853f * u[1] * 2.3283064e-10f);
}


static __global__ void
fill_bf16(__nv_bfloat16 *p, size_t n, float sd, uint64_t from)
{
    size_t  i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;

    for ( /* void */ ; i < n; i += (size_t) gridDim.x * blockDim.x) {
        p[i] = __float2bfloat16(sd * normal(from + i));
    }
}


static __global__ void
fill_f32(float *p, size_t n, float mean, float sd, uint64_t from)
{
    size_t  i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;

    for ( /* void */ ; i < n; i += (size_t) gridDim.x * blockDim.x) {
        p[i] = mean + sd * normal(from + i);
    }
}


/* blocked e4m3 or bf16 of any shape: the order of random numbers is free,
   but what pads is zero */
static __global__ void
fill_x(void *x, uint32_t width, uint32_t pad, int fp8, float sd, uint64_t from)
{
    uint32_t  i, n, k;

    for (i = blockIdx.x * blockDim.x + threadIdx.x; i < width * pad;
         i += gridDim.x * blockDim.x)
    {
        n = i / width;
        k = i % width;

        if (fp8) {
            *(__nv_fp8_e4m3 *) ((char *) x + mst_k_gemm_x_at(n, k, pad, 1))
                = (__nv_fp8_e4m3) (sd * normal(from + i));
        } else {
            *(__nv_bfloat16 *) ((char *) x + mst_k_gemm_x_at(n, k, pad, 2))
                = __float2bfloat16(sd * normal(from + i));
        }
    }
}


/* stands for attention: the first width columns of qkv */
static __global__ void
block_x(const __nv_bfloat16 *qkv, uint32_t rows, uint32_t width, uint32_t pad,
    int fp8, float mul, void *x)
{
    uint32_t  n, k;

    n = blockIdx.x;

    for (k = threadIdx.x; k < width; k += blockDim.x) {
        float  v = __bfloat162float(qkv[(size_t) n * rows + k]);

        if (fp8) {
            *(__nv_fp8_e4m3 *) ((char *) x + mst_k_gemm_x_at(n, k, pad, 1))
                = (__nv_fp8_e4m3) (v * mul);
        } else {
            *(__nv_bfloat16 *) ((char *) x + mst_k_gemm_x_at(n, k, pad, 2))
                = __float2bfloat16(v);
        }
    }
}


/* random weights in tiles; rows of the same seed are equal in all types */
struct matrix {
    void           *w;
    float          *scale;
    __nv_bfloat16  *plain;         /* row-major, if kept */
    uint32_t        rows, width;
    size_t          size;

    void
    make(mst_k_gemm_op_t op, uint32_t r, uint32_t k, int fp8,
        uint64_t from = 0, int keep = 0)
    {
        int                i, gate;
        mst_k_gemm_pack_t  a = {};

        rows = r;
        width = k;
        size = mst_k_gemm_w_size(rows, width, fp8 ? 1 : 2);
        gate = op == MST_K_GEMM_GATE_UP;
        scale = NULL;

        CHECK(cudaMalloc(&w, size));
        CHECK(cudaMemset(w, 0, size));

        if (fp8) {
            CHECK(cudaMalloc(&scale, mst_k_gemm_units(rows) * 64));
            CHECK(cudaMemset(scale, 0, mst_k_gemm_units(rows) * 64));
        }

        CHECK(cudaMalloc(&plain, (size_t) rows * width * 2));
        fill_bf16<<<1056, 256>>>(plain, (size_t) rows * width,
                                 1 / sqrtf(width), from + (1ull << 33));

        for (i = 0; i < 1 + gate; i++) {
            a.src = plain + (size_t) i * (rows / 2) * width;
            a.rows = gate ? rows / 2 : rows;
            a.width = width;
            a.of = rows;
            a.gate = gate ? 1 + i : 0;
            a.w = w;
            a.w_scale = scale;
            CHECK(mst_k_gemm_pack(&a, 0));
        }

        CHECK(cudaDeviceSynchronize());

        if (!keep) {
            CHECK(cudaFree(plain));
            plain = NULL;
        }
    }

    void
    done(void)
    {
        release({ w, scale, plain });
    }
};


/* buffers of one step */
struct bench_state {
    float     *h, *gain, *bias, *sums, *sums2, *muls, *muls2;
    void      *x, *y, *work;
    uint32_t  *tickets, dim;
    size_t     x_size, y_size, work_size;

    void
    make(uint32_t d, uint32_t widest, uint32_t rows, uint32_t pad)
    {
        dim = d;
        x_size = mst_k_gemm_x_size(pad, widest, 2);
        y_size = (size_t) pad * rows * 4 + x_size;
        work_size = mst_k_gemm_work_size(rows, pad);

        CHECK(cudaMalloc(&h, (size_t) pad * dim * 4));
        CHECK(cudaMalloc(&gain, dim * 4));
        CHECK(cudaMalloc(&bias, rows * 4));
        CHECK(cudaMalloc(&sums, mst_k_gemm_sums_size(dim) * 4));
        CHECK(cudaMalloc(&sums2, mst_k_gemm_sums_size(dim) * 4));
        CHECK(cudaMalloc(&muls, pad * 4));
        CHECK(cudaMalloc(&muls2, pad * 4));
        CHECK(cudaMalloc(&x, x_size));
        CHECK(cudaMalloc(&y, y_size));
        CHECK(cudaMalloc(&work, work_size));
        CHECK(cudaMalloc(&tickets, mst_k_gemm_passes(rows) * 33 * 4));
        CHECK(cudaMemset(tickets, 0, mst_k_gemm_passes(rows) * 33 * 4));
        CHECK(cudaMemset(x, 0, x_size));
        fill_f32<<<256, 256>>>(h, (size_t) pad * dim, 0, 0.3f, random32());
        fill_f32<<<64, 256>>>(gain, dim, 1, 0.2f, random32());
        fill_f32<<<64, 256>>>(bias, rows, 0, 0.5f, random32());
        poison();
    }

    void
    poison(void)
    {
        CHECK(cudaMemset(y, 0xff, y_size));
        CHECK(cudaMemset(work, 0xff, work_size));
        CHECK(cudaMemset(sums2, 0xff, mst_k_gemm_sums_size(dim) * 4));
    }

    mst_k_gemm_t
    op(mst_k_gemm_op_t o, const matrix &m, uint32_t n)
    {
        mst_k_gemm_t  a = {};

        a.op = o;
        a.n = n;
        a.rows = m.rows;
        a.width = m.width;
        a.w = m.w;
        a.w_scale = m.scale;
        a.x = x;
        a.x_sums = sums;
        a.x_muls = m.scale && o != MST_K_GEMM_RESIDUAL ? muls : NULL;
        a.x_mul = 2;
        a.eps = EPS;
        a.y = y;
        a.h = h;
        a.gain = gain;
        a.y_sums = sums2;
        a.y_muls = muls2;
        a.y_mul = 2;
        a.pitch = m.rows;
        a.work = work;
        a.tickets = tickets;

        return a;
    }

    void
    first(uint32_t n, int fp8, mst_k_gemm_way_t way)
    {
        mst_k_gemm_first_t  a = {};

        CHECK(cudaMemset(sums, 0xff, mst_k_gemm_sums_size(dim) * 4));
        a.way = way;
        a.n = n;
        a.dim = dim;
        a.h = h;
        a.gain = gain;
        a.y = x;
        a.y_sums = sums;
        a.y_muls = muls;
        a.y_e4m3 = fp8;
        a.eps = EPS;
        CHECK(mst_k_gemm_first(&a, 0));
        CHECK(cudaDeviceSynchronize());
    }

    void
    random_x(uint32_t width, uint32_t pad, int fp8)
    {
        CHECK(cudaMemset(x, 0, x_size));
        fill_x<<<256, 256>>>(x, width, pad, fp8, 1, random32());
        CHECK(cudaDeviceSynchronize());
    }

    /* partial sums of squares against the residual */
    int
    sums_ok(uint32_t n, mst_k_gemm_way_t way, const std::vector<float> &v)
    {
        int                 units;
        double              a, b;
        uint32_t            pad, i, t, m;
        std::vector<float>  s;

        pad = mst_k_gemm_pad(n);
        units = n <= MST_K_GEMM_THIN || way == MST_K_GEMM_MMA;
        m = units ? dim / 16 : std::min(33u, dim / 16);
        s = download(sums2, (size_t) m * pad);

        for (t = 0; t < n; t++) {
            a = b = 0;

            for (i = 0; i < m; i++) {
                a += s[i * pad + t];
            }

            for (i = 0; i < dim; i++) {
                b += (double) v[(size_t) t * dim + i]
                     * v[(size_t) t * dim + i];
            }

            if (!(fabs(a / b - 1) < 1e-5)) {
                return 0;
            }
        }

        return 1;
    }

    void
    done(void)
    {
        release({ h, gain, bias, sums, sums2, muls, muls2, x, y, work,
                  tickets });
    }
};


/* layers without attention between embedding and head */
struct model {
    uint32_t             dim, ff, qkv_rows, vocab;
    int                  fp8;
    std::vector<matrix>  qkv, out, up, down;
    matrix               head;
    __nv_bfloat16       *embd, *q;
    float               *gains, *h, *sums[2], *muls[2], *logits;
    void                *x, *xa, *act, *work;
    uint32_t            *tickets, *ids;
    size_t               n_floats;

    /* token i of run k */
    static uint32_t
    id(uint32_t i, uint32_t k)
    {
        return (i * 37 + k * 11) % 64;
    }

    void
    make(uint32_t d, uint32_t f, uint32_t qr, uint32_t v, uint32_t layers,
        int e4m3, int keep = 0)
    {
        uint32_t  i;

        dim = d;
        ff = f;
        qkv_rows = qr;
        vocab = v;
        fp8 = e4m3;
        qkv.resize(layers);
        out.resize(layers);
        up.resize(layers);
        down.resize(layers);

        for (i = 0; i < layers; i++) {
            uint64_t  s = (uint64_t) (i + 1) << 36;

            qkv[i].make(MST_K_GEMM_QKV, qr, dim, fp8, s, keep);
            out[i].make(MST_K_GEMM_RESIDUAL, dim, dim, fp8, s + (1ull << 34),
                        keep);
            up[i].make(MST_K_GEMM_GATE_UP, 2 * ff, dim, fp8,
                       s + (2ull << 34), keep);
            down[i].make(MST_K_GEMM_RESIDUAL, dim, ff, fp8, s + (3ull << 34),
                         keep);
        }

        head.make(MST_K_GEMM_HEAD, vocab, dim, 0, 77, keep);
        CHECK(cudaMalloc(&embd, (size_t) 64 * dim * 2));
        fill_bf16<<<256, 256>>>(embd, (size_t) 64 * dim, 0.5f, 5);
        CHECK(cudaMalloc(&gains, (size_t) (2 * layers + 1) * dim * 4));
        fill_f32<<<256, 256>>>(gains, (size_t) (2 * layers + 1) * dim, 1,
                               0.2f, 1ull << 30);
        CHECK(cudaMalloc(&q, (size_t) 128 * qr * 2));
        CHECK(cudaMalloc(&h, (size_t) 128 * dim * 4));
        CHECK(cudaMalloc(&logits, (size_t) 128 * vocab * 4));

        for (i = 0; i < 2; i++) {
            CHECK(cudaMalloc(&sums[i], mst_k_gemm_sums_size(dim) * 4));
            CHECK(cudaMalloc(&muls[i], 128 * 4));
        }

        CHECK(cudaMalloc(&x, mst_k_gemm_x_size(128, dim, 2)));
        CHECK(cudaMalloc(&xa, mst_k_gemm_x_size(128, dim, 2)));
        CHECK(cudaMalloc(&act, mst_k_gemm_x_size(128, ff, 2)));
        CHECK(cudaMemset(xa, 0, mst_k_gemm_x_size(128, dim, 2)));
        fill_x<<<256, 256>>>(xa, dim, 128, fp8, 1, 99);
        CHECK(cudaMalloc(&work, work_size()));
        CHECK(cudaMalloc(&tickets, 33 * 8 * 4));
        CHECK(cudaMemset(tickets, 0, 33 * 8 * 4));
        CHECK(cudaMalloc(&ids, 128 * 4));
        CHECK(cudaMemset(ids, 0, 128 * 4));
        CHECK(cudaDeviceSynchronize());
    }

    size_t
    work_size(void)
    {
        return mst_k_gemm_work_size(std::max(qkv_rows, dim), 128);
    }

    /* kinds of operations: 1 first, 2 qkv, 4 out, 8 gate-up, 16 down,
       32 head, 64 what stands for attention */
    void
    step(uint32_t n, mst_k_gemm_way_t way, int pdl, int kinds,
        cudaStream_t stream)
    {
        int                 some;
        size_t              i;
        uint32_t            pad;
        mst_k_gemm_t        z = {}, a;
        mst_k_gemm_first_t  f = {};

        pad = mst_k_gemm_pad(n);
        some = 0;

        f.way = z.way = way;
        f.n = z.n = n;
        f.eps = z.eps = EPS;
        f.dim = dim;
        f.ids = ids;
        f.embd = embd;
        f.h = z.h = h;
        f.gain = gains;
        f.y = x;
        f.y_sums = sums[0];
        f.y_muls = muls[0];
        f.y_e4m3 = fp8;
        z.work = work;
        z.tickets = tickets;
        z.x_mul = z.y_mul = 2;

        if (kinds & 1) {
            CHECK(mst_k_gemm_first(&f, stream));
            some = 1;
        }

        auto  go = [&](mst_k_gemm_op_t op, const matrix &m, const void *in,
                       void *to) {
            a.op = op;
            a.rows = m.rows;
            a.width = m.width;
            a.w = m.w;
            a.w_scale = m.scale;
            a.x = in;
            a.y = to;
            a.pdl = pdl && some;
            some = 1;
            CHECK(mst_k_gemm(&a, stream));
        };

        for (i = 0; i < qkv.size(); i++) {
            a = z;
            a.x_sums = sums[0];
            a.x_muls = muls[0];

            if (kinds & 2) {
                go(MST_K_GEMM_QKV, qkv[i], x, q);
            }

            if (kinds & 64) {
                block_x<<<n, 256, 0, stream>>>(q, qkv_rows, dim, pad, fp8, 2,
                                               xa);
                CHECK(cudaGetLastError());
                some = 0;
            }

            a = z;
            a.gain = gains + (2 * i + 1) * dim;
            a.x_sums = sums[0];
            a.y_sums = sums[1];
            a.y_muls = muls[1];
            a.y_e4m3 = fp8;

            if (kinds & 4) {
                go(MST_K_GEMM_RESIDUAL, out[i], xa, x);
            }

            a = z;
            a.x_sums = sums[1];
            a.x_muls = muls[1];
            a.y_e4m3 = fp8;

            if (kinds & 8) {
                go(MST_K_GEMM_GATE_UP, up[i], x, act);
            }

            a = z;
            a.gain = gains + (2 * i + 2) * dim;
            a.x_sums = sums[1];
            a.y_sums = sums[0];
            a.y_muls = muls[0];
            a.y_e4m3 = fp8 && i + 1 < qkv.size();

            if (kinds & 16) {
                go(MST_K_GEMM_RESIDUAL, down[i], act, x);
            }
        }

        a = z;
        a.x_sums = sums[0];
        a.pitch = vocab;

        if (kinds & 32) {
            go(MST_K_GEMM_HEAD, head, x, logits);
        }
    }

    void
    poison(void)
    {
        CHECK(cudaMemset(q, 0xff, (size_t) 128 * qkv_rows * 2));
        CHECK(cudaMemset(h, 0xff, (size_t) 128 * dim * 4));
        CHECK(cudaMemset(logits, 0xff, (size_t) 128 * vocab * 4));
        CHECK(cudaMemset(x, 0xff, mst_k_gemm_x_size(128, dim, 2)));
        CHECK(cudaMemset(xa, 0, mst_k_gemm_x_size(128, dim, 2)));
        CHECK(cudaMemset(act, 0xff, mst_k_gemm_x_size(128, ff, 2)));
        CHECK(cudaMemset(work, 0xff, work_size()));

        for (int i = 0; i < 2; i++) {
            CHECK(cudaMemset(sums[i], 0xff, mst_k_gemm_sums_size(dim) * 4));
            CHECK(cudaMemset(muls[i], 0xff, 128 * 4));
        }
    }

    std::vector<float>
    run(uint32_t n, mst_k_gemm_way_t way, int pdl, uint32_t k)
    {
        uint32_t               i;
        std::vector<uint32_t>  v(n);

        for (i = 0; i < n; i++) {
            v[i] = id(i, k);
        }

        poison();
        CHECK(cudaMemcpy(ids, v.data(), n * 4, cudaMemcpyHostToDevice));
        step(n, way, pdl, 127, 0);
        CHECK(cudaDeviceSynchronize());

        return download(logits, (size_t) n * vocab);
    }

    /* logits of ids 0..63, each a step of its own */
    std::vector<float>
    all_alone(mst_k_gemm_way_t way)
    {
        uint32_t            i;
        std::vector<float>  y, v;

        for (i = 0; i < 64; i++) {
            poison();
            CHECK(cudaMemcpy(ids, &i, 4, cudaMemcpyHostToDevice));
            step(1, way, 0, 127, 0);
            CHECK(cudaDeviceSynchronize());
            v = download(logits, vocab);
            y.insert(y.end(), v.begin(), v.end());
        }

        return y;
    }

    void
    done(void)
    {
        for (auto *v : { &qkv, &out, &up, &down }) {
            for (matrix &m : *v) {
                m.done();
            }

            v->clear();
        }

        head.done();
        release({ embd, gains, q, h, logits, sums[0], sums[1], muls[0],
                  muls[1], x, xa, act, work, tickets, ids });
    }
};


#endif /* GEMM_RIG_H */

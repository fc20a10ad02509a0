
/*
 * What the decode GEMM over quantised weights takes: the matrices of a step
 * at a Mistral-7B's shape, all distinct, as a graph with programmatic
 * launches, no attention, a launch for each and one for four of them; and
 * what making all of them bf16 rows takes.  Weights are random bits.
 */

#include "device_rig.cuh"
#include "fill_rig.cuh"
#include "kernels/mst_k_quant.h"


static const struct {
    const char       *name;
    mst_k_gemm_op_t   op;
    uint32_t          rows;
    uint32_t          width;
    int               times;
} shapes[] = {
    { "qkv", MST_K_GEMM_QKV, 6144, 4096, 32 },
    { "out", MST_K_GEMM_RESIDUAL, 4096, 4096, 32 },
    { "gate_up", MST_K_GEMM_GATE_UP, 28672, 4096, 32 },
    { "down", MST_K_GEMM_RESIDUAL, 4096, 14336, 32 },
    { "head", MST_K_GEMM_HEAD, 32768, 4096, 1 },
};


/* microseconds of a graph of these operations, PDL; met: the first, the last,
   and those between by four */

static float
replay(const std::vector<mst_k_gemm_t> &ops, mst_k_quant_form_t form,
    uint32_t *met)
{
    float         us;
    cudaStream_t  stream;

    CHECK(cudaStreamCreate(&stream));

    us = time_us(stream, 9, [&] {
        size_t        n;
        mst_k_gemm_t  a[4];

        for (size_t k = 0; k < ops.size(); k += n) {
            n = met && k ? std::min((size_t) 4, ops.size() - k) : 1;
            std::copy(&ops[k], &ops[k] + n, a);
            a[0].pdl = k > 0;
            CHECK(mst_k_quant_gemms(a, (uint32_t) n, form, met, stream));
        }
    });

    CHECK(cudaStreamDestroy(stream));

    return us;
}


/* all of a layer's matrices to one place, 32 times; microseconds */

static float
rows(mst_k_quant_form_t form, uint8_t *const *w, uint16_t *y)
{
    int                 i, s;
    float               ms;
    cudaEvent_t         from, to;
    mst_k_quant_rows_t  a;

    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    memset(&a, 0, sizeof(a));

    a.form = form;
    a.y = y;

    for (i = 0; i < 36; i++) {
        if (i == 4) {
            CHECK(cudaEventRecord(from, 0));
        }

        for (s = 0; s < 4; s++) {
            a.rows = shapes[s].rows;
            a.width = shapes[s].width;
            a.gate = shapes[s].op == MST_K_GEMM_GATE_UP;
            a.w = w[s] + mst_k_quant_size(form, a.rows, a.width) * (i % 32);
            CHECK(mst_k_quant_rows(&a, 0));
        }
    }

    CHECK(cudaEventRecord(to, 0));
    CHECK(cudaEventSynchronize(to));
    CHECK(cudaEventElapsedTime(&ms, from, to));

    return ms * 1000;
}


static void
bench(mst_k_quant_form_t form, const char *name, uint32_t most)
{
    int                        i, j, s;
    float                      us;
    double                     bytes, sum;
    size_t                     size;
    uint8_t                   *w[5];
    uint32_t                   n, *met;
    mst_k_gemm_t               a;
    std::vector<mst_k_gemm_t>  all, ops[5];

    memset(&a, 0, sizeof(a));

    a.x = filled(mst_k_gemm_x_size(128, 14336, 2));
    a.y = filled((size_t) 28672 * 4096 * 2);
    a.h = (float *) filled(128 * 4096 * 4);
    a.gain = (float *) filled(4096 * 4);
    a.x_sums = (float *) filled(mst_k_gemm_sums_size(14336) * 4);
    a.y_sums = (float *) filled(mst_k_gemm_sums_size(14336) * 4);
    a.eps = 1e-5f;
    a.pitch = 32768;
    bytes = 0;
    CHECK(cudaMalloc((void **) &met, 4));
    CHECK(cudaMemset(met, 0, 4));

    for (s = 0; s < 5; s++) {
        size = mst_k_quant_size(form, shapes[s].rows, shapes[s].width);
        bytes += (double) size * shapes[s].times;
        w[s] = (uint8_t *) filled(size * shapes[s].times);
    }

    CHECK(cudaDeviceSynchronize());
    printf("# %s: %.3f GB, %.3f ms at 4.56 TB/s\n", name, bytes * 1e-9,
           bytes / 4.56e9);

    for (n = 1; n <= most; n *= n == 1 ? 4 : 2) {
        all.clear();

        for (s = 0; s < 5; s++) {
            ops[s].clear();
        }

        a.n = n;

        for (i = 0; i < 32; i++) {
            for (s = 0; s < 5; s++) {
                size = mst_k_quant_size(form, shapes[s].rows,
                                        shapes[s].width);
                j = shapes[s].times == 1 ? 0 : i;

                a.op = shapes[s].op;
                a.rows = shapes[s].rows;
                a.width = shapes[s].width;
                a.w = w[s] + size * j;

                ops[s].push_back(a);

                if (s < 4 || i == 31) {
                    all.push_back(a);
                }
            }
        }

        sum = replay(all, form, NULL);
        printf("# %s, %2u tokens: step %8.1f us (%.0f%%), by four", name, n,
               sum, bytes / 4.56e6 / sum * 100);
        sum = replay(all, form, met);
        printf(" %.1f us (%.0f%%);", sum, bytes / 4.56e6 / sum * 100);

        for (s = 0; s < 5; s++) {
            us = replay(ops[s], form, NULL) / 32;
            printf(" %s %.1f", shapes[s].name, us);
        }

        printf("\n");
        fflush(stdout);
    }

    printf("# %s: as bf16 %.0f us\n", name, rows(form, w, (uint16_t *) a.y));

    for (s = 0; s < 5; s++) {
        CHECK(cudaFree(w[s]));
    }

    release({ a.x, a.y, met });
}


int
main(int argc, char **argv)
{
    int       forms, n;
    uint32_t  most;

    static const struct {
        mst_k_quant_form_t   form;
        const char          *name;
    } all[] = {
        { MST_K_QUANT_W4_128, "int4 group 128" },
        { MST_K_QUANT_W4_32, "4 bits, groups of 32" },
        { MST_K_QUANT_W8_32, "8 bits, groups of 32" },
        { MST_K_QUANT_W8_16, "8 bits, groups of 16" }
    };

    if (!device_found(0)) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    most = argc > 1 ? (uint32_t) atoi(argv[1]) : 64;

    forms = argc > 2 ? atoi(argv[2]) : 4;

    for (n = 0; n < forms && n < 4; n++) {
        bench(all[n].form, all[n].name, most);
    }

    return 0;
}

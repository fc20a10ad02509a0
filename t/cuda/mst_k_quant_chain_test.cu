
/*
 * Operations over quantised matrices that are one launch: the bits of one
 * launch for each, time and again, for every type, at numbers of tokens around
 * every edge.  (One launch for each: mst_k_quant_test.cu.)
 */

#include "quant_rig.cuh"


/* a layer's end and the next one's beginning: out, gate and up, down, qkv */
typedef struct {
    uint32_t   n;
    uint32_t   rows[4];
    uint32_t   width[4];
    void      *tiles[4];
    void      *mix;
    float     *h;
    float     *gain;
    float     *sums[2];
    void      *x;
    void      *act;
    uint16_t  *qkv;
    uint32_t  *met;
    float     *first;          /* h before */
    size_t     x_size;
    size_t     act_size;
} chain_t;


static const mst_k_gemm_op_t  chain_ops[4] = {
    MST_K_GEMM_RESIDUAL, MST_K_GEMM_GATE_UP, MST_K_GEMM_RESIDUAL,
    MST_K_GEMM_QKV
};


static void
chain_fill(chain_t *c, int type, uint32_t n, uint32_t dim, uint32_t q_dim,
    uint32_t ff_dim)
{
    int                    i;
    matrix_t               m;
    std::vector<float>     h((size_t) n * dim), gain(dim);
    std::vector<uint8_t>   file, mix;

    const uint32_t  rows[4] = { dim, 2 * ff_dim, dim, q_dim + 64 };
    const uint32_t  width[4] = { q_dim, dim, ff_dim, dim };

    c->n = n;
    c->x_size = mst_k_gemm_x_size(mst_k_gemm_pad(n), dim, 2);
    c->act_size = mst_k_gemm_x_size(mst_k_gemm_pad(n), ff_dim, 2);

    for (i = 0; i < 4; i++) {
        m.type = type;
        m.gate = i == 1;
        m.rows = c->rows[i] = rows[i];
        m.width = c->width[i] = width[i];
        matrix_fill(&m, &file);
        matrix_pack(&m, file);
        c->tiles[i] = m.tiles;
    }

    mix.assign(mst_k_gemm_x_size(mst_k_gemm_pad(n), q_dim, 2), 0);

    for (size_t k = 0; k < (size_t) n * q_dim; k++) {
        uint16_t  v = bf16_of(rndf(-2, 2));

        memcpy(&mix[mst_k_gemm_x_at(k / q_dim, k % q_dim, mst_k_gemm_pad(n),
                                    2)], &v, 2);
    }

    for (float &f : h) {
        f = rndf(-9, 9);
    }

    for (float &f : gain) {
        f = rndf(0.5f, 1.5f);
    }

    c->mix = upload(mix, 16);
    c->first = upload(h, 16);
    c->h = upload(h, 16);
    c->gain = upload(gain, 16);
    c->x = poisoned<uint8_t>(c->x_size);
    c->act = poisoned<uint8_t>(c->act_size);
    c->qkv = poisoned<uint16_t>((size_t) n * rows[3]);
    CHECK(cudaMalloc((void **) &c->met, 4));
    CHECK(cudaMemset(c->met, 0, 4));

    for (i = 0; i < 2; i++) {
        CHECK(cudaMalloc((void **) &c->sums[i],
                         mst_k_gemm_sums_size(dim) * 4));
        CHECK(cudaMemset(c->sums[i], 0, mst_k_gemm_sums_size(dim) * 4));
    }
}


/* what is left of a run: h, act, x, qkv.  met: one launch */

static std::vector<uint8_t>
chain_run(const chain_t *c, mst_k_quant_form_t form, uint32_t *met)
{
    int                    i;
    mst_k_gemm_t           a[4];
    std::vector<uint8_t>   all, part;

    CHECK(cudaMemcpy(c->h, c->first, (size_t) c->n * c->rows[0] * 4,
                     cudaMemcpyDeviceToDevice));
    CHECK(cudaMemset(c->x, 0xff, c->x_size));
    CHECK(cudaMemset(c->act, 0xff, c->act_size));
    CHECK(cudaMemset(c->qkv, 0xff, (size_t) c->n * c->rows[3] * 2));
    memset(a, 0, sizeof(a));

    for (i = 0; i < 4; i++) {
        a[i].op = chain_ops[i];
        a[i].n = c->n;
        a[i].rows = c->rows[i];
        a[i].width = c->width[i];
        a[i].w = c->tiles[i];
        a[i].x = i == 0 ? c->mix : i == 2 ? c->act : c->x;
        a[i].x_sums = c->sums[i == 1 || i == 2];
        a[i].eps = 1e-5f;
        a[i].y = i == 1 ? c->act : i == 3 ? (void *) c->qkv : c->x;
        a[i].h = c->h;
        a[i].gain = c->gain;
        a[i].y_sums = c->sums[i == 0];
        a[i].pdl = i > 0;
    }

    CHECK(mst_k_quant_gemms(a, 4, form, met, 0));
    CHECK(cudaDeviceSynchronize());

    all = download((uint8_t *) c->h, (size_t) c->n * c->rows[0] * 4);

    part = download((uint8_t *) c->act, c->act_size);
    all.insert(all.end(), part.begin(), part.end());
    part = download((uint8_t *) c->x, c->x_size);
    all.insert(all.end(), part.begin(), part.end());
    part = download((uint8_t *) c->qkv, (size_t) c->n * c->rows[3] * 2);
    all.insert(all.end(), part.begin(), part.end());

    return all;
}


static int
chain(int type, uint32_t n, uint32_t dim, uint32_t q_dim, uint32_t ff_dim)
{
    int                    bad, i;
    size_t                 k;
    chain_t                c;
    std::vector<uint8_t>   got, want;

    chain_fill(&c, type, n, dim, q_dim, ff_dim);
    want = chain_run(&c, types[type].form, NULL);

    for (bad = 0, i = 0; i < 20 && bad == 0; i++) {
        got = chain_run(&c, types[type].form, c.met);

        for (k = 0; k < got.size() && got[k] == want[k]; k++) {
            /* void */
        }

        if (k < got.size()) {
            printf("# run %d differs from byte %zu of %zu on\n", i, k,
                   got.size());
            bad = 1;
        }
    }

    for (i = 0; i < 4; i++) {
        CHECK(cudaFree(c.tiles[i]));
    }

    release({ c.mix, c.h, c.gain, c.sums[0], c.sums[1], c.x, c.act, c.qkv,
              c.met, c.first });

    printf("%s - %s, %u tokens, %u, %u, %u as one launch\n",
           bad ? "not ok" : "ok", types[type].name, n, dim, q_dim, ff_dim);
    fflush(stdout);

    return bad;
}


/* less than a unit for each CTA, and more; widths that end within a block */

static int
chains(int type)
{
    int       bad;
    uint32_t  n, wide;

    bad = 0;
    wide = types[type].block < 256 ? 576 : 768;

    for (n = 1; n <= 17; n += n < 3 ? 2 : n < 8 ? 5 : 1) {
        bad += chain(type, n, wide, 512, 1536);
    }

    bad += chain(type, 1, 4096, 4096, 14336);
    bad += chain(type, 16, 2304, 1024, 9216);

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
        return chain(2, 1, 768, 512, 1024);
    }

    bad = 0;

    for (i = 0; i < (int) (sizeof(types) / sizeof(*types)); i++) {
        bad += chains(i);
    }

    return bad ? 1 : 0;
}

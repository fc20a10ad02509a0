
/*
 * What the tests of quantised matrices share: the types, and matrices of random
 * bytes as a file has them, packed into tiles.
 */

#ifndef QUANT_RIG_CUH
#define QUANT_RIG_CUH

#include "device_rig.cuh"
extern "C" {
#include "file/mst_quant.h"
}
#include "kernels/mst_k_quant.h"


static const struct {
    uint32_t             type;
    mst_k_quant_form_t   form;
    uint32_t             block;        /* elements, bytes */
    uint32_t             size;
    int                  scale[2];     /* where f16 stand; -1: none */
    const char          *name;
} types[] = {
    { MST_K_QUANT_Q4_0, MST_K_QUANT_W4_32, 32, 18, { 0, -1 }, "Q4_0" },
    { MST_K_QUANT_Q4_1, MST_K_QUANT_W4_32, 32, 20, { 0, 2 }, "Q4_1" },
    { MST_K_QUANT_Q4_K, MST_K_QUANT_W4_32, 256, 144, { 0, 2 }, "Q4_K" },
    { MST_K_QUANT_BF16, MST_K_QUANT_W4_128, 1, 2, { 0, -1 },
      "bf16 to 4 bits" },
    { MST_K_QUANT_BF16, MST_K_QUANT_W8_32, 1, 2, { 0, -1 },
      "bf16 to 8 bits" },
    { MST_K_QUANT_Q8_0, MST_K_QUANT_W8_32, 32, 34, { 0, -1 }, "Q8_0" },
    { MST_K_QUANT_Q6_K, MST_K_QUANT_W8_16, 256, 210, { 208, -1 }, "Q6_K" },
};


/* an f16 of 2^-8 .. 2^-5 */

static uint16_t
f16_random(void)
{
    return (uint16_t) (rnd(2) << 15 | (7 + rnd(3)) << 10 | rnd(1024));
}


typedef struct {
    int                    type;       /* of types[] */
    int                    gate;
    uint32_t               rows;
    uint32_t               width;
    std::vector<float>     w;          /* [rows][width], stack or gates, ups */
    std::vector<float>     low;        /* [rows][width] min of the group */
    uint8_t               *tiles;
} matrix_t;


static void
matrix_fill(const matrix_t *m, std::vector<uint8_t> *file)
{
    int       e;
    size_t    i, n;
    uint16_t  h;

    n = (size_t) m->rows * m->width / types[m->type].block;
    file->resize(n * types[m->type].size);

    for (i = 0; i < file->size(); i++) {
        (*file)[i] = (uint8_t) rnd(256);
    }

    for (i = 0; i < n; i++) {
        for (e = 0; e < 2 && types[m->type].scale[e] >= 0; e++) {
            h = types[m->type].type == MST_K_QUANT_BF16
                ? bf16_of(rndf(-1, 1) * rndf(0, 1)) : f16_random();
            memcpy(&(*file)[i * types[m->type].size
                            + types[m->type].scale[e]], &h, 2);
        }
    }
}


/* the rows as the file has them */

static void
matrix_truth(matrix_t *m, const std::vector<uint8_t> &file)
{
    uint32_t  row, type;

    type = types[m->type].type;
    m->w.resize((size_t) m->rows * m->width);
    m->low.resize(m->w.size());

    for (row = 0; row < m->rows; row++) {
        if (mst_quant_decode((mst_type_t) type,
                             &file[row * mst_k_quant_file_size(type,
                                                               m->width)],
                             &m->w[(size_t) row * m->width], m->width)
            != MST_OK)
        {
            printf("not ok - %s has no decoder\n", types[m->type].name);
            exit(1);
        }
    }
}


static void
matrix_pack(const matrix_t *m, const std::vector<uint8_t> &file)
{
    size_t              size;
    uint8_t            *src;
    uint32_t            half, row;
    mst_k_quant_pack_t  a;

    size = mst_k_quant_size(types[m->type].form, m->rows, m->width);
    CHECK(cudaMalloc((void **) &m->tiles, size));
    CHECK(cudaMemset(m->tiles, 0, size));

    src = upload(file, 16);

    memset(&a, 0, sizeof(a));

    a.type = types[m->type].type;
    a.form = types[m->type].form;
    a.width = m->width;
    a.w = m->tiles;

    /* in pieces of 37 rows at most */

    for (row = 0; row < m->rows; row += a.rows) {
        half = m->gate ? m->rows / 2 : m->rows;
        a.gate = m->gate ? 1 + (row >= half) : 0;
        a.first = row % half;
        a.rows = std::min(37u, half - a.first);
        a.src = src + mst_k_quant_file_size(a.type, m->width) * row;

        CHECK(mst_k_quant_pack(&a, 0));
    }

    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(src));
}


#endif /* QUANT_RIG_CUH */

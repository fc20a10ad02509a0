
/*
 * Weights of the CPU backend: from rows as they lie in a file to tiles of 16
 * rows (mst_cpu_isa.h), without growth, by all threads; and of a head of Q8_0 a
 * coarse copy beside it (mst_cpu_coarse.c).
 */

#include <math.h>
#include <string.h>

#include "base/mst_mem.h"
#include "file/mst_quant.h"
#include "backend/mst_cpu.h"
#include "backend/mst_cpu_store.h"


typedef struct {
    const mst_matrix_t       *matrix;
    const mst_matrix_part_t  *parts;
    mst_backend_t            *backend;
    uint32_t                  job;
} mst_cpu_pack_t;


size_t
mst_cpu_matrix_tile_size(mst_cpu_type_t type, uint32_t width)
{
    size_t  blocks, size;

    blocks = width / MST_CPU_BLOCK;

    switch (type) {

    case MST_CPU_Q4_1:
        return blocks * MST_CPU_Q4_1_SIZE;

    case MST_CPU_Q4_0:
        size = blocks * MST_CPU_Q4_0_SIZE;
        break;

    case MST_CPU_Q8_0:
        size = blocks * MST_CPU_Q8_0_SIZE;
        break;

    case MST_CPU_F32:
        return (size_t) width * MST_CPU_LANES * 4;

    case MST_CPU_F16:
    case MST_CPU_BF16:
        size = (size_t) width * MST_CPU_LANES * 2;
        break;

    default:
        size = mst_cpu_codes_size(type, width);
    }

    return (size + 63) / 64 * 64;
}


/* nibbles of one block of one row */

static void
mst_cpu_matrix_nibbles(const uint8_t *src, uint8_t *tile, uint32_t lane)
{
    int  i;

    for (i = 0; i < 4; i++) {
        memcpy(tile + 64 * i + 4 * lane, src + 4 * i, 4);
    }
}


static void
mst_cpu_matrix_q4_1(const uint8_t *src, uint8_t *tile, uint32_t lane,
    uint32_t blocks)
{
    uint32_t  b;

    for (b = 0; b < blocks; b++) {
        memcpy(tile + 256 + 2 * lane, src, 2);
        memcpy(tile + 288 + 2 * lane, src + 2, 2);
        mst_cpu_matrix_nibbles(src + 4, tile, lane);
        src += 20;
        tile += MST_CPU_Q4_1_SIZE;
    }
}


static void
mst_cpu_matrix_q4_0(const uint8_t *src, uint8_t *tile, uint32_t lane,
    uint32_t blocks)
{
    uint32_t  b;

    for (b = 0; b < blocks; b++) {
        memcpy(tile + 256 + 2 * lane, src, 2);
        mst_cpu_matrix_nibbles(src + 2, tile, lane);
        src += 18;
        tile += MST_CPU_Q4_0_SIZE;
    }
}


static void
mst_cpu_matrix_q8_0(const uint8_t *src, uint8_t *tile, uint32_t lane,
    uint32_t blocks)
{
    uint32_t  b, four, i;

    for (b = 0; b < blocks; b++) {
        memcpy(tile + 512 + 2 * lane, src, 2);

        for (i = 0; i < 8; i++) {
            memcpy(&four, src + 2 + 4 * i, 4);
            four ^= 0x80808080;                /* + 128 in each byte */
            memcpy(tile + 64 * i + 4 * lane, &four, 4);
        }

        src += 34;
        tile += MST_CPU_Q8_0_SIZE;
    }
}


static void
mst_cpu_matrix_plain(const uint8_t *src, uint8_t *tile, uint32_t lane,
    uint32_t width, uint32_t size)
{
    uint32_t  k;

    for (k = 0; k < width; k++) {
        memcpy(tile + ((size_t) k * MST_CPU_LANES + lane) * size,
               src + (size_t) k * size, size);
    }
}


static void
mst_cpu_matrix_pack_row(mst_cpu_type_t type, const uint8_t *src,
    uint8_t *tile, uint32_t lane, uint32_t width)
{
    switch (type) {

    case MST_CPU_Q4_1:
        mst_cpu_matrix_q4_1(src, tile, lane, width / MST_CPU_BLOCK);
        return;

    case MST_CPU_Q4_0:
        mst_cpu_matrix_q4_0(src, tile, lane, width / MST_CPU_BLOCK);
        return;

    case MST_CPU_Q8_0:
        mst_cpu_matrix_q8_0(src, tile, lane, width / MST_CPU_BLOCK);
        return;

    case MST_CPU_F32:
        mst_cpu_matrix_plain(src, tile, lane, width, 4);
        return;

    case MST_CPU_F16:
    case MST_CPU_BF16:
        mst_cpu_matrix_plain(src, tile, lane, width, 2);
        return;

    default:
        mst_cpu_codes_pack(type, src, tile, lane, width);
    }
}


const uint8_t *
mst_cpu_matrix_tile(const mst_cpu_part_t *part, uint32_t tile)
{
    return part->base + (tile >> 1) * part->pair_size
           + (tile & 1) * part->tile_size;
}


/* rows behind the last stay zero, as the memory came */

static void
mst_cpu_matrix_pack_tile(const mst_cpu_part_t *part,
    const mst_matrix_part_t *from, uint32_t tile, uint32_t width)
{
    size_t                  row_size;
    uint8_t                *to;
    uint32_t                i, n, row;
    const uint8_t          *src;
    const mst_type_info_t  *info;

    info = mst_type_info(from->type);
    row_size = (size_t) width / info->block * info->size;
    row = tile * MST_CPU_LANES;
    n = mst_cpu_min(MST_CPU_LANES, part->rows - row);
    to = (uint8_t *) mst_cpu_matrix_tile(part, tile);

    for (i = 0; i < n; i++) {
        src = (const uint8_t *) from->data + (row + i) * row_size;

        mst_cpu_matrix_pack_row(part->type, src, to, i, width);
    }
}


static void
mst_cpu_matrix_pack_unit(const mst_cpu_pack_t *pack, uint32_t unit)
{
    uint32_t               i, tile;
    const mst_matrix_t    *m;
    const mst_cpu_part_t  *p;

    m = pack->matrix;
    p = m->parts;

    if (m->kind == MST_MATRIX_GATE) {
        for (i = 0; i < 4; i++) {
            tile = 2 * unit + i % 2;

            if (tile < p[i / 2].n_tiles) {
                mst_cpu_matrix_pack_tile(&p[i / 2], &pack->parts[i / 2],
                                         tile, m->width);
            }
        }

        return;
    }

    for (i = 0; unit >= p[i].n_tiles; i++) {
        unit -= p[i].n_tiles;
    }

    mst_cpu_matrix_pack_tile(&p[i], &pack->parts[i], unit, m->width);
}


/* by the threads that will read them, if they come in time: who touches memory
   first has it on its node */

static void
mst_cpu_matrix_pack(void *data, uint32_t phase, uint32_t thread, int last)
{
    uint32_t              at, n;
    mst_backend_t        *b;
    mst_cpu_pack_t       *pack;
    mst_cpu_split_job_t   job;

    (void) phase;

    pack = data;
    b = pack->backend;

    job.number = pack->job;
    job.total = pack->matrix->n_units;
    job.piece = 8;
    job.all = last;

    while ((n = mst_cpu_split_take(b->splits, b->threads, thread, &job, &at))
           != 0)
    {
        for ( /* void */ ; n; n--, at++) {
            mst_cpu_matrix_pack_unit(pack, at);

            if (pack->matrix->coarse.base) {
                mst_cpu_coarse_tile(
                    mst_cpu_matrix_tile(pack->matrix->parts, at),
                    (uint8_t *) mst_cpu_matrix_tile(&pack->matrix->coarse, at),
                    pack->matrix->width, b->prepared[thread]);
            }
        }
    }
}


static int
mst_cpu_matrix_type(uint32_t type, mst_cpu_type_t *t, mst_err_t *err)
{
    size_t  i;

    static const struct {
        mst_type_t      file;
        mst_cpu_type_t  type;
    } types[] = {
        { MST_TYPE_Q4_1, MST_CPU_Q4_1 }, { MST_TYPE_Q4_0, MST_CPU_Q4_0 },
        { MST_TYPE_Q8_0, MST_CPU_Q8_0 }, { MST_TYPE_Q5_1, MST_CPU_Q5_1 },
        { MST_TYPE_Q5_0, MST_CPU_Q5_0 }, { MST_TYPE_Q4_K, MST_CPU_Q4_K },
        { MST_TYPE_Q5_K, MST_CPU_Q5_K }, { MST_TYPE_Q6_K, MST_CPU_Q6_K },
        { MST_TYPE_F32, MST_CPU_F32 }, { MST_TYPE_F16, MST_CPU_F16 },
        { MST_TYPE_BF16, MST_CPU_BF16 }
    };

    for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (types[i].file == type) {
            *t = types[i].type;
            return MST_OK;
        }
    }

    return mst_err_set(err, "weights of type %s are not computed on the CPU",
                       mst_type_name(type));
}


/* sizes of the parts; *size is that of all tiles together */

static int
mst_cpu_matrix_layout(mst_matrix_t *m, const mst_matrix_part_t *parts,
    uint64_t *size, mst_err_t *err)
{
    uint32_t               i;
    mst_cpu_part_t        *p;
    const mst_type_info_t *info;

    *size = 0;

    for (i = 0; i < m->n_parts; i++) {
        p = &m->parts[i];

        if (mst_cpu_matrix_type(parts[i].type, &p->type, err) != MST_OK) {
            return MST_ERROR;
        }

        info = mst_type_info(parts[i].type);

        if (m->width % info->block) {
            return mst_err_set(err, "rows of %u are no multiple of the %u of "
                               "a %s block", m->width, info->block,
                               info->name);
        }

        p->rows = parts[i].rows;
        p->n_tiles = (p->rows + MST_CPU_LANES - 1) / MST_CPU_LANES;
        p->tile_size = mst_cpu_matrix_tile_size(p->type, m->width);
        p->pair_size = 2 * p->tile_size;
        m->forms |= p->type < MST_CPU_F32 ? MST_CPU_DIGIT_FORM
                                          : MST_CPU_FLOAT_FORM;
        m->n_units += p->n_tiles;

        /* an even number of tiles, so that pairs are whole */
        *size += (p->n_tiles + 1) / 2 * (uint64_t) p->pair_size;
    }

    if (m->kind == MST_MATRIX_GATE) {
        m->n_units = (m->parts[0].n_tiles + 1) / 2;
    }

    return MST_OK;
}


static void
mst_cpu_matrix_place(mst_matrix_t *m, uint8_t *base)
{
    uint32_t         i;
    mst_cpu_part_t  *p;

    p = m->parts;

    if (m->kind == MST_MATRIX_GATE) {
        p[0].base = base;
        p[1].base = base + p[0].pair_size;
        p[0].pair_size += p[1].pair_size;
        p[1].pair_size = p[0].pair_size;
        return;
    }

    for (i = 0; i < m->n_parts; i++) {
        p[i].base = base;
        base += (p[i].n_tiles + 1) / 2 * p[i].pair_size;
    }

    m->coarse.base = m->coarse.n_tiles ? base : NULL;
}


/* memory of our own, or that others will read; *filled: or have filled */

static uint8_t *
mst_cpu_matrix_memory(mst_backend_t *b, uint64_t size, int *filled,
    mst_err_t *err)
{
    mst_cpu_store_t  *s;

    s = mst_cpu_mem_store(&b->weights);
    *filled = s && mst_cpu_store_ready(s);

    return s ? mst_cpu_store_take(s, b, size, err)
             : mst_cpu_mem_take(&b->weights, size, err);
}


/* as the threads pack it; the copy too, where there is one: tile_size of both,
   then what it wants meanwhile */

static int
mst_cpu_matrix_same_tile(const mst_matrix_t *m, uint32_t part,
    const mst_matrix_part_t *from, uint8_t *tile)
{
    size_t           size;
    uint8_t         *copy;
    mst_cpu_part_t   p;

    p = m->parts[part];
    p.base = tile;
    mst_cpu_matrix_pack_tile(&p, from, 0, m->width);

    if (memcmp(tile, mst_cpu_matrix_tile(&m->parts[part], 0), p.tile_size)) {
        return 0;
    }

    if (m->coarse.base == NULL) {
        return 1;
    }

    size = m->coarse.tile_size;
    copy = tile + p.tile_size;
    mst_cpu_coarse_tile(tile, copy, m->width, (float *) (void *) (copy + size));

    return memcmp(copy, m->coarse.base, size) == 0;
}


/* is what others filled what we would have?  The first tile of each part
   shows it: a layout that has changed, another order of matrices */

static int
mst_cpu_matrix_same(const mst_matrix_t *m, const mst_matrix_part_t *parts,
    mst_err_t *err)
{
    int        same;
    size_t     size;
    uint8_t   *tile;
    uint32_t   i;

    for (i = 0; i < m->n_parts; i++) {

        if (parts[i].data == NULL) {
            continue;
        }

        size = m->parts[i].tile_size + m->coarse.tile_size;
        size += m->width / MST_CPU_BLOCK * MST_CPU_LANES * sizeof(float);
        tile = mst_calloc(1, size);

        if (tile == NULL) {
            return mst_err_set(err, "out of memory for a tile");
        }

        same = mst_cpu_matrix_same_tile(m, i, &parts[i], tile);
        mst_free(tile);

        if (!same) {
            return mst_err_set(err, "the shared weights are not of these "
                               "files: they differ");
        }
    }

    return MST_OK;
}


/* a head of Q8_0 has a coarse copy, whatever the settings are: engines with
   others may share it; *size grows */

static void
mst_cpu_matrix_coarse(const mst_backend_t *b, mst_matrix_t *m, uint32_t type,
    uint64_t *size)
{
    uint64_t         bytes;
    mst_cpu_part_t  *c;

    bytes = mst_cpu_coarse_bytes(type, m->parts[0].rows, m->width);

    if (m->kind != MST_MATRIX_HEAD || bytes == 0
        || m->parts[0].rows != b->conf.n_vocab || m->width != b->conf.dim)
    {
        return;
    }

    c = &m->coarse;
    *c = m->parts[0];
    c->type = MST_CPU_Q5_0;
    c->tile_size = mst_cpu_coarse_size(m->width);
    c->pair_size = 2 * c->tile_size;
    *size += bytes;
}


/* the copy is used where all norms are finite */

static void
mst_cpu_matrix_norm_max(mst_matrix_t *m)
{
    size_t          behind;
    float           norm[MST_CPU_LANES];
    uint32_t        i, tile;

    behind = (size_t) m->width / MST_CPU_BLOCK * MST_CPU_Q5_0_SIZE;

    for (tile = 0; m->coarse.base && tile < m->coarse.n_tiles; tile++) {
        memcpy(norm, mst_cpu_matrix_tile(&m->coarse, tile) + behind,
               sizeof(norm));

        for (i = 0; i < MST_CPU_LANES; i++) {
            if (!isfinite(norm[i])) {
                m->coarse.base = NULL;
                return;
            }

            m->norm_max = fmaxf(m->norm_max, norm[i]);
        }
    }
}


mst_matrix_t *
mst_cpu_matrix(mst_backend_t *b, mst_matrix_kind_t kind,
    const mst_matrix_part_t *parts, uint32_t n_parts, uint32_t width,
    mst_err_t *err)
{
    int                  filled;
    uint8_t             *base;
    uint64_t             size;
    mst_matrix_t        *m;
    mst_cpu_pack_t       pack;
    mst_cpu_pool_job_t   job = { 0 };

    m = mst_calloc(1, sizeof(mst_matrix_t));

    if (m == NULL) {
        (void) mst_err_set(err, "out of memory for a matrix");
        return NULL;
    }

    m->next = b->matrices;
    b->matrices = m;
    m->kind = kind;
    m->width = width;
    m->n_parts = n_parts;

    if (mst_cpu_matrix_layout(m, parts, &size, err) != MST_OK) {
        return NULL;
    }

    mst_cpu_matrix_coarse(b, m, parts[0].type, &size);

    if (b->info.weight_size + size > b->ram) {
        (void) mst_err_set(err, "the weights need more than the %llu MiB of "
                           "memory that this process may use",
                           (unsigned long long) (b->ram >> 20));
        return NULL;
    }

    base = mst_cpu_matrix_memory(b, size, &filled, err);

    if (base == NULL) {
        return NULL;
    }

    b->info.weight_size += size;
    mst_cpu_matrix_place(m, base);

    if (filled) {
        mst_cpu_matrix_norm_max(m);
        return mst_cpu_matrix_same(m, parts, err) == MST_OK ? m : NULL;
    }

    pack.matrix = m;
    pack.parts = parts;
    pack.backend = b;
    pack.job = ++b->jobs;

    job.run = mst_cpu_matrix_pack;
    job.data = &pack;
    job.n_phases = 1;

    mst_cpu_pool_run(b->pool, &job);
    mst_cpu_matrix_norm_max(m);

    return m;
}


/* one block of a row, from a tile back to the order of a file */

static void
mst_cpu_matrix_unpack(const mst_cpu_part_t *p, const uint8_t *tile,
    uint32_t lane, uint32_t block, uint8_t *to)
{
    uint32_t        four, i;
    const uint8_t  *from;

    if (p->type == MST_CPU_Q8_0) {
        from = tile + MST_CPU_Q8_0_SIZE * (size_t) block;
        memcpy(to, from + 512 + 2 * lane, 2);

        for (i = 0; i < 8; i++) {
            memcpy(&four, from + 64 * i + 4 * lane, 4);
            four ^= 0x80808080;
            memcpy(to + 2 + 4 * i, &four, 4);
        }

        return;
    }

    if (p->type == MST_CPU_Q4_1) {
        from = tile + (size_t) MST_CPU_Q4_1_SIZE * block;
        memcpy(to, from + 256 + 2 * lane, 2);
        memcpy(to + 2, from + 288 + 2 * lane, 2);
        to += 4;

    } else {
        from = tile + MST_CPU_Q4_0_SIZE * (size_t) block;
        memcpy(to, from + 256 + 2 * lane, 2);
        to += 2;
    }

    for (i = 0; i < 4; i++) {
        memcpy(to + 4 * i, from + 64 * i + 4 * lane, 4);
    }
}


void
mst_cpu_matrix_row(const mst_matrix_t *m, uint32_t row, float *y)
{
    uint8_t                block[64];
    uint32_t               i, lane;
    const uint8_t         *tile;
    const mst_cpu_part_t  *p;

    static const struct {
        mst_type_t  type;
        uint32_t    n;
        uint32_t    size;
    } types[] = {
        [MST_CPU_Q4_1] = { MST_TYPE_Q4_1, 32, 0 },
        [MST_CPU_Q4_0] = { MST_TYPE_Q4_0, 32, 0 },
        [MST_CPU_Q8_0] = { MST_TYPE_Q8_0, 32, 0 },
        [MST_CPU_F32] = { MST_TYPE_F32, 1, 4 },
        [MST_CPU_F16] = { MST_TYPE_F16, 1, 2 },
        [MST_CPU_BF16] = { MST_TYPE_BF16, 1, 2 }
    };

    p = &m->parts[0];
    tile = mst_cpu_matrix_tile(p, row / MST_CPU_LANES);
    lane = row % MST_CPU_LANES;

    if (types[p->type].n == 0) {
        mst_cpu_codes_row(p->type, tile, lane, m->width, y);
        return;
    }

    for (i = 0; i < m->width / types[p->type].n; i++) {

        if (types[p->type].n == 1) {
            memcpy(block, tile + ((size_t) i * MST_CPU_LANES + lane)
                                 * types[p->type].size,
                   types[p->type].size);
        } else {
            mst_cpu_matrix_unpack(p, tile, lane, i, block);
        }

        (void) mst_quant_decode(types[p->type].type, block,
                                y + i * types[p->type].n, types[p->type].n);
    }
}

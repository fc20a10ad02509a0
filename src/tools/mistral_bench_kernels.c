
/*
 * mistral bench --kernels: what one core makes of each type of weights and
 * cache, beside what it can: floats multiplied and added in registers, and
 * memory read in order.
 *
 * Tiles of 16 rows and 1,536 inputs against 1, 4 and 8 rows of a step: "in
 * cache" the same few tiles again and again, "memory" all of a buffer that no
 * cache holds, for one row.  The best of some runs counts: what else the
 * machine does only makes them longer.
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "backend/mst_cpu.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "tools/mistral_bench.h"
#include "tools/mistral_device.h"
#include "tools/mistral_tool.h"

#define MISTRAL_KERNELS_WIDTH   1536
#define MISTRAL_KERNELS_MEMORY  ((size_t) 96 << 20)
#define MISTRAL_KERNELS_RUN     (2 * MST_MS)   /* at least */
#define MISTRAL_KERNELS_REPEAT  5
#define MISTRAL_KERNELS_QUERIES 48


typedef struct {
    const mst_cpu_isa_t  *isa;
    uint8_t              *memory;  /* [MISTRAL_KERNELS_MEMORY] */
    float                *x;       /* [8][WIDTH], also of attention */
    int8_t               *q;       /* a panel of 8 columns */
    mst_cpu_scale_t      *s;
    float                *y;
    mst_cpu_type_t        type;
    size_t                size;    /* bytes of a tile */
    uint32_t              cols;
    uint32_t              digits;  /* of an activation */
    mst_cpu_attend_t      attend;
    volatile uint64_t     sink;
} mistral_kernels_t;


typedef void (*mistral_kernels_pt)(mistral_kernels_t *k);


static const struct {
    const char      *name;
    mst_cpu_type_t   type;
} mistral_kernels_types[] = {
    { "Q4_0", MST_CPU_Q4_0 }, { "Q4_1", MST_CPU_Q4_1 },
    { "Q5_0", MST_CPU_Q5_0 }, { "Q5_1", MST_CPU_Q5_1 },
    { "Q8_0", MST_CPU_Q8_0 }, { "Q4_K", MST_CPU_Q4_K },
    { "Q5_K", MST_CPU_Q5_K }, { "Q6_K", MST_CPU_Q6_K },
    { "F32", MST_CPU_F32 }, { "F16", MST_CPU_F16 }, { "BF16", MST_CPU_BF16 }
};

static const struct {
    const char     *name;
    mst_kv_type_t   type;
} mistral_kernels_caches[] = {
    { "kv_f32", MST_KV_F32 }, { "kv_f16", MST_KV_F16 }, { "kv_q8", MST_KV_Q8 }
};


/* seconds that one call takes */

static double
mistral_kernels_time(mistral_kernels_t *k, mistral_kernels_pt run)
{
    double    best;
    uint32_t  i, n, r;
    uint64_t  start, took;

    best = 0;

    /* first, and to know how often: enough for the clock */

    n = 1;

    for ( ;; ) {
        start = mst_time_ns();

        for (i = 0; i < n; i++) {
            run(k);
        }

        if (mst_time_ns() - start >= MISTRAL_KERNELS_RUN) {
            break;
        }

        n *= 2;
    }

    for (r = 0; r < MISTRAL_KERNELS_REPEAT && !mistral_bench_stop; r++) {
        start = mst_time_ns();

        for (i = 0; i < n; i++) {
            run(k);
        }

        took = mst_time_ns() - start;

        if (r == 0 || (double) took / n * 1e-9 < best) {
            best = (double) took / n * 1e-9;
        }
    }

    return best;
}


static void
mistral_kernels_read(mistral_kernels_t *k)
{
    size_t           i;
    uint64_t         a, b, c, d;
    const uint64_t  *p;

    a = b = c = d = 0;
    p = (const uint64_t *) k->memory;

    for (i = 0; i < MISTRAL_KERNELS_MEMORY / 8; i += 8) {
        a ^= p[i] ^ p[i + 4];
        b ^= p[i + 1] ^ p[i + 5];
        c ^= p[i + 2] ^ p[i + 6];
        d ^= p[i + 3] ^ p[i + 7];
    }

    k->sink = a ^ b ^ c ^ d;
}


static void
mistral_kernels_peak(mistral_kernels_t *k)
{
    k->isa->peak(1000, k->y);
}


static void
mistral_kernels_peak_bytes(mistral_kernels_t *k)
{
    k->isa->peak_bytes(1000, k->y);
}


static void
mistral_kernels_panel(const mistral_kernels_t *k, mst_cpu_panel_t *panel)
{
    panel->q = k->q;
    panel->s = k->s;
    panel->f = k->x;
    panel->cols = k->cols;
    panel->width = MISTRAL_KERNELS_WIDTH;
    panel->digits = k->digits;
}


static void
mistral_kernels_tile(mistral_kernels_t *k)
{
    mst_cpu_panel_t  panel;

    mistral_kernels_panel(k, &panel);
    k->isa->tile[k->type](k->memory, &panel, k->y);
}


static void
mistral_kernels_all(mistral_kernels_t *k)
{
    size_t           at;
    mst_cpu_panel_t  panel;

    mistral_kernels_panel(k, &panel);

    for (at = 0; at + k->size <= MISTRAL_KERNELS_MEMORY; at += k->size) {
        k->isa->tile[k->type](k->memory + at, &panel, k->y);
    }
}


static void
mistral_kernels_attend(mistral_kernels_t *k)
{
    k->isa->attend(&k->attend);
}


static void
mistral_kernels_show(const mistral_bench_conf_t *conf, json_t *report,
    const char *name, const char *const *keys, const double *values, int n)
{
    int      i;
    json_t  *o;

    o = json_object();

    for (i = 0; i < n; i++) {
        (void) json_object_set_new(o, keys[i], json_real(values[i]));
    }

    (void) json_object_set_new(report, name, o);

    if (conf->json && strcmp(conf->json, "-") == 0) {
        return;
    }

    (void) printf("%-8s", name);

    for (i = 0; i < n; i++) {
        (void) printf(" %10.1f", values[i]);
    }

    (void) putchar('\n');
    (void) fflush(stdout);
}


/* a core's own limits; those of whole tiles follow from the file's types */

static void
mistral_kernels_limits(mistral_kernels_t *k, const mistral_bench_conf_t *conf,
    json_t *report)
{
    int     n;
    double  values[3];

    static const char *const  keys[] = {
        "float_gmac_s", "read_gb_s", "digits_gmac_s"
    };

    n = 2;

    values[0] = 1000.0 * MST_CPU_PEAK
                / mistral_kernels_time(k, mistral_kernels_peak) * 1e-9;
    values[1] = (double) MISTRAL_KERNELS_MEMORY
                / mistral_kernels_time(k, mistral_kernels_read) * 1e-9;

    if (k->isa->peak_bytes) {
        values[n++] = 1000.0 * MST_CPU_PEAK / k->digits
                      / mistral_kernels_time(k, mistral_kernels_peak_bytes)
                      * 1e-9;
    }

    if (conf->json == NULL || strcmp(conf->json, "-") != 0) {
        (void) printf("%s, one core\n\n"
                      "         G multiply-adds of floats/s, GB/s read%s\n",
                      k->isa->name,
                      n == 3 ? ", G of quantised weights" : "");
    }

    mistral_kernels_show(conf, report, "limits", keys, values, n);
}


static void
mistral_kernels_weights(mistral_kernels_t *k,
    const mistral_bench_conf_t *conf, json_t *report)
{
    int       i;
    double    macs, t, values[5];
    size_t    n;

    static const uint32_t     cols[] = { 1, 4, 8 };
    static const char *const  keys[] = {
        "gmac_s_1", "gmac_s_4", "gmac_s_8", "memory_gmac_s", "memory_gb_s"
    };

    if (conf->json == NULL || strcmp(conf->json, "-") != 0) {
        (void) puts("\n         G multiply-adds/s in cache, of 1, 4, 8 rows;"
                    " of 1 from memory, and GB/s");
    }

    for (n = 0; n < sizeof(mistral_kernels_types)
                    / sizeof(*mistral_kernels_types); n++)
    {
        k->type = mistral_kernels_types[n].type;
        k->size = mst_cpu_matrix_tile_size(k->type, MISTRAL_KERNELS_WIDTH);
        macs = 1e-9 * MST_CPU_LANES * MISTRAL_KERNELS_WIDTH;

        for (i = 0; i < 3; i++) {
            k->cols = cols[i];
            values[i] = macs * cols[i]
                        / mistral_kernels_time(k, mistral_kernels_tile);
        }

        k->cols = 1;
        t = mistral_kernels_time(k, mistral_kernels_all)
            / (double) (MISTRAL_KERNELS_MEMORY / k->size);
        values[3] = macs / t;
        values[4] = (double) k->size * 1e-9 / t;

        mistral_kernels_show(conf, report, mistral_kernels_types[n].name,
                             keys, values, 5);
    }
}


static void
mistral_kernels_cache(mistral_kernels_t *k, const mistral_bench_conf_t *conf,
    json_t *report)
{
    int               i;
    double            values[3];
    size_t            n;

    static uint32_t           limits[MISTRAL_KERNELS_QUERIES];
    static const uint32_t     queries[] = { 1, 3, MISTRAL_KERNELS_QUERIES };
    static const char *const  keys[] = {
        "gmac_s_1", "gmac_s_3", "gmac_s_48"
    };

    if (conf->json == NULL || strcmp(conf->json, "-") != 0) {
        (void) puts("\n         G multiply-adds/s of attention in cache, heads"
                    " of 64, 1, 3, 48 queries");
    }

    for (i = 0; i < MISTRAL_KERNELS_QUERIES; i++) {
        limits[i] = MST_CPU_KV;
    }

    k->attend.k = k->memory;
    k->attend.v = k->memory + 64 * MST_CPU_KV * 4;
    k->attend.k_scale = (const uint16_t *) k->memory;
    k->attend.v_scale = k->attend.k_scale;
    k->attend.q = k->x;
    k->attend.state = k->y;
    k->attend.limit = limits;
    k->attend.first = NULL;
    k->attend.head_dim = 64;
    k->attend.stride = 64;

    for (n = 0; n < 3; n++) {
        k->attend.type = mistral_kernels_caches[n].type;

        for (i = 0; i < 3; i++) {
            k->attend.n = queries[i];
            memset(k->y, 0, MISTRAL_KERNELS_QUERIES * (MST_CPU_STATE + 64)
                            * sizeof(float));
            values[i] = 2e-9 * queries[i] * 64 * MST_CPU_KV
                        / mistral_kernels_time(k, mistral_kernels_attend);
        }

        mistral_kernels_show(conf, report, mistral_kernels_caches[n].name,
                             keys, values, 3);
    }
}


static int
mistral_kernels_write(const mistral_bench_conf_t *conf, const json_t *report)
{
    int    rc;
    FILE  *f;

    f = strcmp(conf->json, "-") == 0 ? stdout : fopen(conf->json, "we");

    if (f == NULL) {
        return mistral_complain(MISTRAL_FAILED, "bench", "%s: %s",
                                conf->json, strerror(errno));
    }

    rc = json_dumpf(report, f, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    rc |= fputc('\n', f) == EOF;
    rc |= f == stdout ? fflush(f) : fclose(f);

    return rc ? mistral_complain(MISTRAL_FAILED, "bench", "the report cannot "
                                 "be written: %s", strerror(errno))
              : MISTRAL_OK;
}


static int
mistral_kernels_memory(mistral_kernels_t *k, mst_cpu_mem_t *mem,
    mst_err_t *err)
{
    size_t  i, n;

    n = (size_t) MST_CPU_COLS * MISTRAL_KERNELS_WIDTH;

    /* what lies behind it is prefetched, no more */

    k->memory = mst_cpu_mem_take(mem, MISTRAL_KERNELS_MEMORY, err);
    k->x = mst_cpu_mem_take(mem, n * sizeof(float), err);
    k->y = mst_cpu_mem_take(mem, MISTRAL_KERNELS_QUERIES
                                 * (MST_CPU_STATE + 64) * sizeof(float), err);
    k->q = mst_cpu_mem_take(mem, n * k->digits, err);
    k->s = mst_cpu_mem_take(mem, n / MST_CPU_BLOCK * sizeof(mst_cpu_scale_t),
                            err);

    if (!k->memory || !k->x || !k->y || !k->q || !k->s) {
        return MST_ERROR;
    }

    /* no number in it is special, in any type */

    memset(k->memory, 0x35, MISTRAL_KERNELS_MEMORY);

    for (i = 0; i < n; i++) {
        k->x[i] = (float) (i % 61) / 30.5f - 1;
    }

    k->isa->digits(k->x, (uint32_t) (n / MST_CPU_BLOCK), k->digits, k->q,
                   k->s, 1);

    return MST_OK;
}


int
mistral_bench_kernels(const mistral_bench_conf_t *conf)
{
    int                rc;
    json_t            *report;
    mst_err_t          err = { "" };
    mst_cpu_mem_t      mem = { NULL };
    mistral_kernels_t  k = { 0 };

    k.isa = mst_cpu_isa(mistral_isa(conf->isa), &err);
    k.digits = conf->activations == 16 ? 2 : 3;

    if (k.isa == NULL || mistral_kernels_memory(&k, &mem, &err) != MST_OK) {
        mst_cpu_mem_fini(&mem);
        return mistral_complain(MISTRAL_REFUSED, "bench", "%s", err.text);
    }

    report = json_pack("{s:s}", "isa", k.isa->name);

    mistral_kernels_limits(&k, conf, report);
    mistral_kernels_weights(&k, conf, report);
    mistral_kernels_cache(&k, conf, report);

    rc = conf->json ? mistral_kernels_write(conf, report) : MISTRAL_OK;

    json_decref(report);
    mst_cpu_mem_fini(&mem);

    if (rc == MISTRAL_OK && mistral_bench_stop) {
        return mistral_complain(MISTRAL_FAILED, "bench", "interrupted");
    }

    return rc;
}

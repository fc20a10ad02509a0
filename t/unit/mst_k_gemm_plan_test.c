
/*
 * How the decode GEMMs cut their work: every unit of rows exactly once, in
 * tiles that fit rings that fit an SM, for shapes of real models and odd
 * ones, all numbers of tokens, and devices of fewer multiprocessors.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../kernels/mst_k_gemm_plan.h"


static const struct {
    mst_k_gemm_op_t  op;
    uint32_t         rows;
    uint32_t         width;
} shapes[] = {
    { MST_K_GEMM_QKV, 6144, 4096 }, { MST_K_GEMM_RESIDUAL, 4096, 4096 },
    { MST_K_GEMM_GATE_UP, 28672, 4096 }, { MST_K_GEMM_RESIDUAL, 4096, 14336 },
    { MST_K_GEMM_HEAD, 32768, 4096 },                         /* 7B */
    { MST_K_GEMM_QKV, 6144, 5120 }, { MST_K_GEMM_RESIDUAL, 5120, 4096 },
    { MST_K_GEMM_GATE_UP, 65536, 5120 }, { MST_K_GEMM_RESIDUAL, 5120, 32768 },
    { MST_K_GEMM_HEAD, 131072, 5120 },                        /* Small */
    { MST_K_GEMM_QKV, 14336, 12288 }, { MST_K_GEMM_GATE_UP, 57344, 12288 },
    { MST_K_GEMM_RESIDUAL, 12288, 28672 },                    /* Large */
    { MST_K_GEMM_QKV, 960, 576 }, { MST_K_GEMM_RESIDUAL, 576, 1536 },
    { MST_K_GEMM_HEAD, 49152, 576 },                          /* SmolLM2 */
    { MST_K_GEMM_QKV, 16, 64 }, { MST_K_GEMM_RESIDUAL, 64, 64 },
    { MST_K_GEMM_GATE_UP, 64, 64 }, { MST_K_GEMM_HEAD, 32003, 64 },
    { MST_K_GEMM_RESIDUAL, 16384, 64 }, { MST_K_GEMM_RESIDUAL, 64, 16384 }
};

static const uint32_t  sms[] = { 132, 114, 78, 4 };

static const mst_k_gemm_run_t  as_planned;


/* of a pass the four tiles: two warpgroups, at most two each */

static void
check_tiles(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape, uint32_t n)
{
    uint32_t       i, k, tiles, sum;
    mst_k_share_t  s, t;

    if (shape == MST_K_THIN) {
        assert_true(n <= 4 && n <= r->tile);
        return;
    }

    sum = 0;

    for (i = 0; i < 2; i++) {
        s = mst_k_share(n, 2, i);
        tiles = (s.n + 3) / 4;
        assert_true(tiles <= 2);

        for (k = 0; k < tiles; k++) {
            t = mst_k_share(s.n, tiles, k);
            assert_true(t.n > 0 && t.n <= 4 && t.n <= r->tile);
            sum += t.n;
        }
    }

    assert_int_equal(sum, n);
}


/* all CTAs that are at work */

static void
check_units(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape)
{
    uint32_t       first, i, j, parts, passes, rank, slab, unit;
    uint8_t       *seen;
    mst_k_share_t  p, s;

    seen = calloc(1, r->units + 1);
    assert_non_null(seen);
    parts = 0;

    for (first = 0; first < r->step; first++) {
        for (slab = first; slab < MST_K_GEMM_SLABS; slab += r->step) {
            for (rank = 0; rank < MST_K_GEMM_PARTS; rank++) {
                s = mst_k_gemm_rows(r->units, shape, slab, rank);
                passes = (s.n + r->most - 1) / r->most;
                assert_true(shape != MST_K_SPLIT || passes <= r->passes);

                for (i = 0; i < passes; i++) {
                    p = mst_k_share(s.n, passes, i);
                    assert_true(p.n > 0 && p.n <= r->most);
                    check_tiles(r, shape, p.n);

                    for (j = 0; j < p.n; j++) {
                        unit = s.first + p.first + j;
                        assert_true(unit < r->units);
                        seen[unit]++;
                    }
                }

                parts++;
            }
        }
    }

    assert_int_equal(parts, MST_K_GEMM_SLABS * MST_K_GEMM_PARTS);

    /* of SPLIT each of the four CTAs has a quarter of the width */

    for (i = 0; i < r->units; i++) {
        assert_int_equal(seen[i], shape == MST_K_SPLIT ? MST_K_GEMM_PARTS : 1);
    }

    free(seen);
}


static void
check_rings(const mst_k_gemm_run_t *r, mst_k_gemm_shape_t shape)
{
    uint32_t  pad, room;

    pad = mst_k_gemm_pad(r->a.n);
    room = mst_k_gemm_room(r, pad, shape);

    /* at least two, so that one is on its way while one is multiplied */

    assert_true(r->ring >= 2 && r->x_ring >= 2);
    assert_true(room <= MST_K_GEMM_SHARED);

    /* two CTAs of a kernel must not meet on an SM */

    assert_true(room > MST_K_GEMM_SHARED / 2);

    assert_true(2 * r->ring * r->tile * MST_K_GEMM_PIECE <= MST_K_GEMM_RING);

    /* a ring that waits for more than it has never goes on */

    assert_true(r->ahead == 0 || r->ahead < r->ring);
    assert_true(r->a.pdl || r->ahead == 0);
}


static void
check(mst_k_gemm_run_t *r, uint32_t n_sms)
{
    size_t              at, size;
    uint32_t            groups;
    mst_k_gemm_shape_t  shape;

    shape = mst_k_gemm_plan(r, &as_planned, n_sms);

    assert_int_equal(shape == MST_K_WIDE, r->a.op == MST_K_GEMM_GATE_UP
                                          || r->a.op == MST_K_GEMM_HEAD);
    assert_true(shape == MST_K_WIDE
                || (shape == MST_K_THIN) == (r->a.n <= MST_K_GEMM_THIN));

    assert_true(r->step > 0 && r->step <= MST_K_GEMM_SLABS);
    assert_true(r->step * MST_K_GEMM_PARTS <= n_sms);

    check_units(r, shape);
    check_rings(r, shape);

    if (shape != MST_K_SPLIT) {
        return;
    }

    /* sums of the last pass of the last slab: [to][from][tile][group][thread]
       of 16 bytes */

    groups = mst_k_gemm_pad(r->a.n) / 32;
    at = (size_t) MST_K_GEMM_SLABS * r->passes - 1;
    size = (at + 1) * 16 * 2 * groups * 256 * 16;
    assert_true(size <= mst_k_gemm_work_size(r->a.rows, r->a.n > 64 ? 128
                                             : r->a.n > 32 ? 64 : 32));
}


static void
test_all(void **state)
{
    size_t            i, k;
    float             scale;
    uint32_t          n, pdl;
    mst_k_gemm_run_t  r;

    static const uint32_t  tokens[] = { 1, 8, 9, 16, 17, 32, 33, 64, 65, 128 };

    (void) state;

    for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        for (k = 0; k < 10 * sizeof(sms) / sizeof(*sms); k++) {
            for (pdl = 0; pdl < 4; pdl++) {
                n = tokens[k % 10];
                memset(&r, 0, sizeof(r));
                r.a.op = shapes[i].op;
                r.a.rows = shapes[i].rows;
                r.a.width = shapes[i].width;
                r.a.n = n;
                r.a.pdl = (int) pdl & 1;
                r.a.w_scale = pdl & 2 ? &scale : NULL;

                check(&r, sms[k / 10]);
            }
        }
    }
}


/* what the figures of mst_k_gemm_sm90.h were measured with */

static void
test_known(void **state)
{
    size_t            i;
    mst_k_gemm_run_t  r;

    static const struct {
        mst_k_gemm_op_t  op;
        uint32_t         rows;
        uint32_t         width;
        uint32_t         n;
        uint32_t         tile;
        uint32_t         ring;
        uint32_t         x_ring;
        uint32_t         ahead;
    } known[] = {
        { MST_K_GEMM_QKV, 6144, 4096, 1, 3, 5, 2, 2 },
        { MST_K_GEMM_GATE_UP, 28672, 4096, 8, 4, 4, 4, 1 },
        { MST_K_GEMM_RESIDUAL, 4096, 14336, 32, 4, 4, 4, 1 },
        { MST_K_GEMM_QKV, 6144, 4096, 128, 3, 5, 3, 2 }
    };

    (void) state;

    for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
        memset(&r, 0, sizeof(r));
        r.a.op = known[i].op;
        r.a.rows = known[i].rows;
        r.a.width = known[i].width;
        r.a.n = known[i].n;
        r.a.pdl = 1;

        (void) mst_k_gemm_plan(&r, &as_planned, 132);

        assert_int_equal(r.tile, known[i].tile);
        assert_int_equal(r.ring, known[i].ring);
        assert_int_equal(r.x_ring, known[i].x_ring);
        assert_int_equal(r.ahead, known[i].ahead);
    }
}


/* measurements choose within what is possible */

static void
test_tuned(void **state)
{
    mst_k_gemm_run_t  r = { 0 }, tune = { 0 };

    (void) state;

    r.a.op = MST_K_GEMM_QKV;
    r.a.rows = 6144;
    r.a.width = 4096;
    r.a.n = 32;
    r.a.pdl = 1;

    tune.ring = 3;
    tune.ahead = 2;
    tune.x_ring = 2;
    (void) mst_k_gemm_plan(&r, &tune, 132);
    assert_int_equal(r.ring, 3);
    assert_int_equal(r.ahead, 2);
    assert_int_equal(r.x_ring, 2);

    /* as many as the ring would stand still */

    tune.ahead = 3;
    (void) mst_k_gemm_plan(&r, &tune, 132);
    assert_int_equal(r.ahead, 0);

    /* no room for weights: no plan */

    r.a.n = 128;
    tune.x_ring = 7;
    (void) mst_k_gemm_plan(&r, &tune, 132);
    assert_int_equal(r.ring, 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_tuned)
    };

    return cmocka_run_group_tests_name("mst_k_gemm_plan", tests, NULL, NULL);
}

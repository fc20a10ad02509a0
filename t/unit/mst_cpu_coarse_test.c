
/*
 * The coarse copy of a head: by the description in mst_cpu_coarse.c its bounds
 * hold, in double precision, and are not far off; each instruction set gets
 * the same bits of it, and what it says no logit exceeds.
 */

#include "mst_cpu_rig.h"

#define BLOCKS  5
#define WIDTH   (32 * BLOCKS)


static double
coarse_weight(const uint8_t *t, uint32_t lane, uint32_t k)
{
    int        code;
    uint16_t   d;
    uint32_t   i, v;

    t += 352 * (k / 32);
    i = k % 32;
    memcpy(&d, t + 320 + 2 * lane, 2);
    v = t[64 * (i % 16 / 4) + 4 * lane + i % 4];
    code = (int) (i < 16 ? v & 15 : v >> 4);
    code |= (t[256 + 4 * lane + i % 4] >> i / 4 & 1) << 4;

    return (code - 16) * (double) mst_f16_to_f32(d);
}


static double
head_weight(const uint8_t *t, uint32_t lane, uint32_t k)
{
    uint16_t  d;

    t += 544 * (k / 32);
    memcpy(&d, t + 512 + 2 * lane, 2);

    return (t[64 * (k % 32 / 4) + 4 * lane + k % 4] - 128)
           * (double) mst_f16_to_f32(d);
}


static void
make_tile(uint8_t *t, uint32_t n)
{
    uint16_t  d;
    uint32_t  b, i;

    for (b = 0; b < BLOCKS; b++, t += 544) {
        for (i = 0; i < 512; i++) {
            t[i] = (uint8_t) (rig_random() >> 7);

            /* smaller ones, so that blocks are turned and not; extremes; up to
               the largest that are not turned */

            t[i] = n % 4 == 1 ? (uint8_t) (128 + (t[i] - 128) / 9)
                   : n % 4 == 2 ? t[i] & 1 ? 255 : 0
                   : n % 4 == 3 ? (uint8_t) (251 - t[i] % 180) : t[i];
        }

        for (i = 0; i < 16; i++) {
            d = mst_f32_to_f16(rig_float() / (i == 3 ? 1e6f : 16));
            memcpy(t + 512 + 2 * i, &d, 2);
        }
    }
}


static void
check_lane(const uint8_t *tile, const uint8_t *coarse, uint32_t lane)
{
    float           norm, scale;
    double          c, e, left, left_all, size[2], w;
    uint32_t        b, k;
    const uint8_t  *t;

    t = coarse + 352 * BLOCKS;
    memcpy(&norm, t + 4 * lane, 4);
    memcpy(&scale, t + 64 + 4 * lane, 4);
    left_all = 0;
    size[0] = 0;
    size[1] = 0;

    for (b = 0; b < BLOCKS; b++) {
        left = 0;

        for (k = 32 * b; k < 32 * b + 32; k++) {
            w = head_weight(tile, lane, k);
            c = coarse_weight(coarse, lane, k);
            size[0] += w * w;
            size[1] += c * c;
            left += (w - c) * (w - c);
        }

        e = (double) scale * t[128 + 16 * b + lane];
        assert_true(e >= sqrt(left));
        assert_true(e <= sqrt(left) + (double) scale * 1.01);
        left_all += left;
    }

    assert_true((double) norm >= sqrt(fmax(size[0], size[1])));
    assert_true((double) norm
                <= (sqrt(size[0]) + sqrt(left_all)) * 1.00001);

    /* a sixteenth of the largest weight of a block, and less for most */

    assert_true(left_all <= size[0] / 4);
}


/* 8 d * h, or -8 d * -h where some q of the block is above 123 */

static void
check_codes(const uint8_t *tile, const uint8_t *coarse, uint32_t lane)
{
    int        h, q[32], turn;
    float      d;
    uint16_t   f16;
    uint32_t   b, k;

    for (b = 0; b < BLOCKS; b++, tile += 544, coarse += 352) {
        memcpy(&f16, tile + 512 + 2 * lane, 2);
        d = 8 * mst_f16_to_f32(f16);
        turn = 0;

        for (k = 0; k < 32; k++) {
            q[k] = tile[64 * (k / 4) + 4 * lane + k % 4] - 128;
            turn |= q[k] > 123;
        }

        for (k = 0; k < 32; k++) {
            h = (int) floor(((turn ? -q[k] : q[k]) + 4) / 8.0);
            h = h > 15 ? 15 : h;
            assert_true(coarse_weight(coarse, lane, k)
                        == h * (double) (turn ? -d : d));
        }
    }
}


static void
test_bounds(void **state)
{
    float      norms[16 * BLOCKS];
    uint8_t   *coarse, *tile;
    uint32_t   lane, n;

    (void) state;

    tile = malloc(544 * BLOCKS);
    coarse = malloc(mst_cpu_coarse_size(WIDTH));

    for (n = 0; n < 100; n++) {
        make_tile(tile, n);
        mst_cpu_coarse_tile(tile, coarse, WIDTH, norms);

        for (lane = 0; lane < 16; lane++) {
            check_lane(tile, coarse, lane);
            check_codes(tile, coarse, lane);
        }
    }

    free(tile);
    free(coarse);
}


static void
run(const mst_cpu_isa_t *isa, const uint8_t *coarse, const int8_t *q,
    const mst_cpu_scale_t *s, const mst_cpu_bound_t *x, float *y)
{
    mst_cpu_panel_t  panel = { 0 };

    panel.q = q;
    panel.s = s;
    panel.cols = x->cols;
    panel.digits = 1;
    panel.width = WIDTH;
    isa->coarse(coarse, &panel, y);
    isa->bound(coarse + 352 * BLOCKS, x, y, (mst_cpu_most_t *) (y + 128));
}


/* sums are right; all instruction sets give the same */

static void
test_same(void **state)
{
    int8_t            q[8 * WIDTH];
    float             norms[16 * BLOCKS], slack[8], size[8 * BLOCKS], top;
    float             want[144], y[144];
    double            sum;
    size_t            i;
    uint8_t          *coarse, *tile;
    uint32_t          at, c, k, n, lane;
    mst_err_t         err = { "" };
    mst_cpu_bound_t   x = { size, slack, 0, WIDTH };
    mst_cpu_scale_t   s[8 * BLOCKS];
    const char       *names[] = { "c", "avx2", "avx512" };

    (void) state;

    tile = malloc(544 * BLOCKS);
    coarse = malloc(mst_cpu_coarse_size(WIDTH));

    for (n = 0; n < 24; n++) {
        make_tile(tile, n);
        mst_cpu_coarse_tile(tile, coarse, WIDTH, norms);
        x.cols = 1 + n % 8;
        memset(s, 0, sizeof(s));

        for (i = 0; i < x.cols * WIDTH; i++) {
            q[i] = (int8_t) (rig_random() % 129 - 64);
            s[i / 32].low += q[i];
            s[i / 32].d = rig_float();
            size[i / 32] = 1 + rig_float();
            slack[i % 8] = 1 + rig_float();
        }

        memset(want, 0, sizeof(want));
        run(mst_cpu_isa("c", &err), coarse, q, s, &x, want);

        for (i = 1; i < 3; i++) {
            if (mst_cpu_isa(names[i], &err)) {
                memset(y, 0, sizeof(y));
                run(mst_cpu_isa(names[i], &err), coarse, q, s, &x, y);
                assert_memory_equal(y, want, sizeof(y));
            }
        }

        for (c = 0; c < x.cols; c++) {
            top = -INFINITY;

            for (lane = 0; lane < 16; lane++) {
                sum = 0;

                for (k = 0; k < WIDTH; k++) {
                    at = k / 32 * x.cols + c;
                    sum += coarse_weight(coarse, lane, k)
                           * q[32 * at + k % 32] * (double) s[at].d;
                }

                assert_true(fabs(sum - (double) want[16 * c + lane])
                            < 1e-4 * (1 + fabs(sum)));
                top = fmaxf(top, want[16 * c + lane]);
            }

            assert_true(want[128 + 2 * c] == top);
            assert_true(want[129 + 2 * c] > top);
        }
    }

    free(tile);
    free(coarse);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_same)
    };

    return cmocka_run_group_tests_name("mst_cpu_coarse", tests, NULL, NULL);
}

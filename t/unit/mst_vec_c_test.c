
/*
 * The fused multiply-add that portable C makes of doubles, against the
 * library's.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "backend/mst_vec_c.h"

#define LANES  16


/* mode 0: numbers of like size; 1: with few bits, so that sums lie in the
   middle of two floats; 2: sums below the normal floats; 3: any bits */

static float
fma_float(uint64_t *state, int mode)
{
    float     f;
    uint32_t  u;

    *state = *state * 6364136223846793005u + 1442695040888963407u;
    u = (uint32_t) (*state >> 32);

    if (mode == 0) {
        u = (u & 0x807fffff) | (120 + (u >> 23 & 7)) << 23;

    } else if (mode == 1) {
        u = (u & 0x80700001) | (115 + (u >> 23 & 15)) << 23;

    } else if (mode == 2) {
        u = (u & 0x807ff001) | (50 + (u >> 23 & 3)) << 23;
    }

    memcpy(&f, &u, sizeof(f));

    return f;
}


static void
fma_once(uint64_t *state, int mode)
{
    float      a[LANES], b[LANES], c[LANES], r[LANES], want;
    mst_vec_t  v;

    for (int i = 0; i < LANES; i++) {
        a[i] = fma_float(state, mode);
        b[i] = fma_float(state, mode);
        c[i] = fma_float(state, mode);

        if (mode == 2) {
            c[i] *= 0x1p-74f;
        }

        if (i % 4 == 3) {
            c[i] = -a[i] * b[i];               /* what rounding left */
        }
    }

    v = mst_vec_fma(mst_vec_load(a), mst_vec_load(b), mst_vec_load(c));
    mst_vec_store(r, v);

    for (int i = 0; i < LANES; i++) {
        want = fmaf(a[i], b[i], c[i]);

        if (isnan(want)) {
            assert_true(isnan(r[i]));
            continue;
        }

        assert_memory_equal(&r[i], &want, sizeof(want));
    }
}


static void
test_fma(void **state)
{
    uint64_t  seed;

    (void) state;

    seed = 20261130;

    for (int i = 0; i < 100000; i++) {
        fma_once(&seed, i % 4);
    }
}


/* what rounding to double first gets wrong: beside the middle by less than a
   double tells, in normal and in subnormal floats */

static void
test_fma_middle(void **state)
{
    float      a[LANES], b[LANES], c[LANES], r[LANES], want;
    mst_vec_t  v;

    (void) state;

    /* products are 1 + 2^-36 and 1 - 2^-46 of half of c's last place, which is
       even and odd; lanes of four are alike, since one mark counts for four */

    for (int i = 0; i < LANES; i++) {
        a[i] = i & 4 ? 1 + 0x1p-23f : 1 + 0x1p-12f;
        b[i] = i & 4 ? 1 - 0x1p-23f : 1 - 0x1p-12f + 0x1p-24f;

        a[i] *= i & 8 ? 0x1p-75f : 0x1p-12f;
        b[i] *= i & 8 ? 0x1p-75f : 0x1p-12f;
        c[i] = i & 8 ? 0x1p-127f : 1;

        if (i & 4) {
            c[i] += i & 8 ? 0x1p-149f : 0x1p-23f;
        }

        if (i & 1) {
            a[i] = -a[i];
            c[i] = -c[i];
        }
    }

    v = mst_vec_fma(mst_vec_load(a), mst_vec_load(b), mst_vec_load(c));
    mst_vec_store(r, v);

    for (int i = 0; i < LANES; i++) {
        want = fmaf(a[i], b[i], c[i]);
        assert_memory_equal(&r[i], &want, sizeof(want));
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_fma),
        cmocka_unit_test(test_fma_middle)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

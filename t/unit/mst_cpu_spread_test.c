
/*
 * Others' work over the threads of the CPU backend.
 */

#include "mst_cpu_rig.h"

#include <unistd.h>


#define WORK  200

typedef struct {
    uint32_t  done[WORK];
    uint32_t  used[3];             /* slots, now */
    uint32_t  wrong;
} work_t;


static void
piece(void *data, uint32_t slot, uint32_t i)
{
    work_t  *w;

    w = data;

    if (slot >= 3
        || __atomic_fetch_add(&w->used[slot], 1, __ATOMIC_SEQ_CST) != 0)
    {
        (void) __atomic_fetch_add(&w->wrong, 1, __ATOMIC_SEQ_CST);
        return;
    }

    if (i % 16 == 0) {
        usleep(100);                           /* others come */
    }

    (void) __atomic_fetch_add(&w->done[i], 1, __ATOMIC_SEQ_CST);
    (void) __atomic_fetch_sub(&w->used[slot], 1, __ATOMIC_SEQ_CST);
}


/* others' work: each piece once, no slot by two threads at once */

static void
spread_test(void **state)
{
    work_t               w;
    uint32_t             i, k, n, threads;
    mst_backend_t       *b;
    mst_backend_conf_t   c;
    mst_backend_work_t   work = { piece, &w, 0, 3 };

    (void) state;

    for (threads = 1; threads <= 9; threads += 2) {
        c = rig_conf(threads);
        b = rig_create(&c);

        for (k = 0; k < 20; k++) {
            n = k * k % (WORK + 1);
            memset(&w, 0, sizeof(w));
            work.n = n;
            work.slots = 1 + k % 3;
            mst_cpu_ops.spread(b, &work);
            assert_int_equal(w.wrong, 0);

            for (i = 0; i < WORK; i++) {
                assert_int_equal(w.done[i], i < n);
            }
        }

        mst_cpu_ops.destroy(b);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(spread_test),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

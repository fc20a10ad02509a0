
/*
 * Slots: claim, leave, free, and many processes that claim at once.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "shm/mst_slot.h"


#define N_SLOTS  16


static int
create(mst_map_t *m)
{
    int          fd;
    mst_err_t    err;

    assert_int_equal(mst_shm_create(m, &fd, "demo", N_SLOTS, 4096, 4096,
                                    &err), MST_OK);
    return fd;
}


static void
test_life(void **state)
{
    int                  fd, i, k;
    uint32_t             len, epoch;
    mst_map_t            m;
    mst_ring_t           req, rsp, ereq, ersp;
    mst_record_t        *rec;
    const mst_record_t  *r;

    (void) state;

    fd = create(&m);

    for (i = 0; i < N_SLOTS; i++) {
        k = mst_slot_claim(&m, 1000u + (unsigned) i);
        assert_int_equal(k, i);
        assert_int_equal(mst_slot_state(&m.slots[k]), MST_SLOT_USED);
        assert_int_equal(mst_slot_pid(&m.slots[k]), 1000 + i);
        assert_int_equal(m.slots[k].master, getppid());
    }

    assert_int_equal(mst_slot_claim(&m, 1), MST_BUSY);

    mst_slot_rings(&m, 3, 1, &req, &rsp);
    mst_slot_rings(&m, 3, 0, &ereq, &ersp);

    rec = mst_ring_reserve(&req, 64);
    rec->type = MST_REC_CANCEL;
    mst_ring_publish(&req, rec);
    assert_int_equal(mst_ring_peek(&ereq, &r, &len), MST_OK);
    assert_ptr_equal(r, rec);
    assert_int_equal(mst_ring_peek(&rsp, &r, &len), MST_AGAIN);

    rec = mst_ring_reserve(&ersp, 64);
    rec->type = MST_REC_ADMIT;
    mst_ring_publish(&ersp, rec);
    assert_int_equal(mst_ring_peek(&rsp, &r, &len), MST_OK);

    epoch = m.slots[3].epoch;
    m.slots[3].intent = 1;
    m.slots[3].held = 2;
    mst_slot_leave(&m, 3);
    assert_int_equal(mst_slot_state(&m.slots[3]), MST_SLOT_DEAD);
    assert_int_equal(mst_slot_pid(&m.slots[3]), 1003);
    assert_int_equal(mst_slot_claim(&m, 1), MST_BUSY);

    mst_slot_free(&m, 3);
    assert_int_equal(mst_slot_state(&m.slots[3]), MST_SLOT_FREE);
    assert_int_equal(mst_slot_pid(&m.slots[3]), 0);
    assert_int_equal(m.slots[3].epoch, epoch + 1);
    assert_int_equal(m.slots[3].intent, 0);
    assert_int_equal(m.slots[3].held, 0);
    assert_int_equal(m.slots[3].master, getppid());

    assert_int_equal(mst_slot_claim(&m, 77), 3);
    mst_slot_rings(&m, 3, 1, &req, &rsp);
    mst_slot_rings(&m, 3, 0, &ereq, &ersp);
    assert_int_equal(mst_ring_peek(&ereq, &r, &len), MST_AGAIN);
    assert_int_equal(mst_ring_peek(&rsp, &r, &len), MST_AGAIN);

    mst_shm_detach(&m);
    (void) close(fd);
}


/* rings of neighbours do not overlap */

static void
test_rings(void **state)
{
    int              fd;
    uint32_t         i;
    unsigned char   *end;
    mst_map_t        m;
    mst_ring_t       req, rsp;

    (void) state;

    fd = create(&m);
    end = m.rings;

    for (i = 0; i < N_SLOTS; i++) {
        mst_slot_rings(&m, i, 0, &req, &rsp);
        assert_ptr_equal(req.data, end);
        assert_ptr_equal(rsp.data, end + 4096);
        end += 8192;
    }

    assert_ptr_equal(end, (unsigned char *) m.shm + m.size);

    mst_shm_detach(&m);
    (void) close(fd);
}


static void
test_race(void **state)
{
    int        fd, i, k, n, round, status, seen[N_SLOTS];
    pid_t      pids[N_SLOTS + 4];
    mst_map_t  m;

    (void) state;

    fd = create(&m);

    for (round = 0; round < 20; round++) {
        for (i = 0; i < N_SLOTS + 4; i++) {
            pids[i] = fork();

            if (pids[i] == 0) {
                k = mst_slot_claim(&m, (uint32_t) getpid());
                _exit(k == MST_BUSY ? 100 : k);
            }

            assert_true(pids[i] > 0);
        }

        memset(seen, 0, sizeof(seen));
        n = 0;

        for (i = 0; i < N_SLOTS + 4; i++) {
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFEXITED(status));
            k = WEXITSTATUS(status);

            if (k == 100) {
                n++;
                continue;
            }

            assert_true(k < N_SLOTS);
            assert_int_equal(seen[k], 0);
            seen[k] = 1;
            assert_int_equal(mst_slot_pid(&m.slots[k]), pids[i]);
        }

        assert_int_equal(n, 4);

        for (i = 0; i < N_SLOTS; i++) {
            mst_slot_free(&m, (uint32_t) i);
        }
    }

    mst_shm_detach(&m);
    (void) close(fd);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_race)
    };

    return cmocka_run_group_tests_name("mst_slot", tests, NULL, NULL);
}

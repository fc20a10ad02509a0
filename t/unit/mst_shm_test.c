
/*
 * The segment: sizes, creation, seals, and every reason to refuse one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/mst_record.h"
#include "shm/mst_shm.h"
#include "shm/mst_slot.h"


static int
create(mst_map_t *m, mst_err_t *err)
{
    int          fd;

    memset(err, 0, sizeof(mst_err_t));

    assert_int_equal(mst_shm_create(m, &fd, "demo", 8, 65536, 4096,
                                    err), MST_OK);
    return fd;
}


static void
test_sizes(void **state)
{
    size_t    i;
    uint32_t  req, rsp, len;
    uint32_t  contexts[] = { 0, 1, 2048, 8192, 32768, 131072, 1u << 20 };

    (void) state;

    for (i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        mst_shm_sizes(contexts[i], &req, &rsp);

        len = mst_record_submit_len(contexts[i], MST_MAX_STOP_IDS,
                                    MST_MAX_BIAS);

        assert_int_equal(req & (req - 1), 0);
        assert_int_equal(rsp & (rsp - 1), 0);
        assert_true(req / 3 >= len);
        assert_true(rsp >= 65536);
    }

    mst_shm_sizes(UINT32_MAX, &req, &rsp);
    assert_int_equal(req, 1u << 30);
}


static void
test_create(void **state)
{
    int         fd, i;
    mst_err_t   err;
    mst_map_t   a, b;

    (void) state;

    fd = create(&a, &err);

    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 30), -1);

    a.shm->hash = 0x1234;

    assert_int_equal(mst_shm_attach(&b, fd, &err), MST_OK);
    assert_ptr_not_equal(a.shm, b.shm);
    assert_int_equal(a.size, b.size);
    assert_int_equal(b.n_slots, 8);
    assert_int_equal(b.req_size, 65536);
    assert_int_equal(b.rsp_size, 4096);
    assert_int_equal(b.shm->hash, 0x1234);
    assert_string_equal(b.shm->name, "demo");
    assert_int_equal((uintptr_t) b.slots % MST_CACHE_LINE, 0);
    assert_ptr_equal(b.rings + 8 * (65536 + 4096),
                     (unsigned char *) b.shm + b.size);

    /* both see the same memory; the last byte is there */

    for (i = 0; i < 8; i++) {
        atomic_store(&a.slots[i].epoch, 100u + (unsigned) i);
        assert_int_equal(b.slots[i].epoch, 100 + i);
    }

    a.rings[8 * (65536 + 4096) - 1] = 42;
    assert_int_equal(b.rings[8 * (65536 + 4096) - 1], 42);

    mst_shm_detach(&a);
    mst_shm_detach(&b);
    mst_shm_detach(&b);
    assert_null(b.shm);
    (void) close(fd);
}


static void
refused(int fd, const char *text)
{
    mst_map_t  m;
    mst_err_t  err;

    memset(&err, 0, sizeof(err));

    assert_int_equal(mst_shm_attach(&m, fd, &err), MST_ERROR);

    if (strstr(err.text, text) == NULL) {
        fail_msg("\"%s\" not in \"%s\"", text, err.text);
    }

    mst_shm_detach(&m);
}


static void
test_refused(void **state)
{
    int         fd;
    char        text[64];
    uint64_t    layout;
    mst_err_t   err;
    mst_map_t   m;

    (void) state;

    fd = create(&m, &err);
    layout = m.shm->layout;
    assert_int_equal(layout, mst_shm_layout());
    assert_true(layout != 0);

    m.shm->layout = 0xabcdef0123456789ull;
    refused(fd, "layout abcdef0123456789");
    (void) snprintf(text, sizeof(text), "%016llx",
                    (unsigned long long) layout);
    refused(fd, text);
    m.shm->layout = layout;

    m.shm->magic++;
    refused(fd, "not the shared memory");
    m.shm->magic--;

    m.shm->size += 4096;
    refused(fd, "claims");
    m.shm->size -= 4096;

    m.shm->n_slots = 9;
    refused(fd, "its parts need");
    m.shm->n_slots = 0;
    refused(fd, "0 slots");
    m.shm->n_slots = MST_MAX_SLOTS + 1;
    refused(fd, "513 slots");
    m.shm->n_slots = 8;

    m.shm->req_size = 65537;
    refused(fd, "powers of two");
    m.shm->req_size = 0;
    refused(fd, "powers of two");
    m.shm->req_size = 0x80000000u;
    refused(fd, "powers of two");
    m.shm->req_size = 65536;

    m.shm->rsp_size = 2048;
    refused(fd, "powers of two");
    m.shm->rsp_size = 4096;

    assert_int_equal(mst_shm_attach(&m, fd, &err), MST_OK);
    (void) close(fd);

    refused(fd, "cannot read descriptor");
}


static void
test_unsealed(void **state)
{
    int        fd, copy;
    mst_err_t  err;
    mst_map_t  m;

    (void) state;

    fd = create(&m, &err);

    copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(copy, (off_t) m.size), 0);
    assert_int_equal(pwrite(copy, m.shm, 4096, 0), 4096);
    refused(copy, "not sealed");

    /* a short file */

    assert_int_equal(ftruncate(copy, 4096), 0);
    refused(copy, "its parts need");
    assert_int_equal(ftruncate(copy, 12), 0);
    refused(copy, "not the shared memory");
    assert_int_equal(ftruncate(copy, 0), 0);
    refused(copy, "not the shared memory");

    (void) close(copy);
    (void) close(fd);
    mst_shm_detach(&m);
}


static void
test_create_refused(void **state)
{
    int          fd;
    size_t       i;
    mst_err_t    err;
    mst_map_t    m;
    uint32_t     bad[][3] = {
        { 0, 4096, 4096 }, { MST_MAX_SLOTS + 1, 4096, 4096 },
        { 1, 4095, 4096 }, { 1, 4096, 5000 }, { 1, 4096, 0x80000000u }
    };

    (void) state;


    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memset(&err, 0, sizeof(err));
        fd = -1;
        assert_int_equal(mst_shm_create(&m, &fd, "demo", bad[i][0],
                                        bad[i][1], bad[i][2], &err),
                         MST_ERROR);
        assert_true(err.text[0] != '\0');
        assert_int_equal(fd, -1);
    }
}


static void
test_sleep(void **state)
{
    _Atomic uint32_t  word;

    (void) state;

    word = 0;

    assert_int_equal(mst_shm_wake(&word), 0);
    mst_shm_sleep(&word);
    assert_true(word >= 2 && word < 2 + (uint32_t) get_nprocs_conf());
    assert_true(mst_shm_wake(&word) >= 2);
    assert_int_equal(mst_shm_wake(&word), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unsealed),
        cmocka_unit_test(test_create_refused),
        cmocka_unit_test(test_sleep)
    };

    return cmocka_run_group_tests_name("mst_shm", tests, NULL, NULL);
}

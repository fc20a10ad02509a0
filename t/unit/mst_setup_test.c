
/*
 * The setup's sealed file: what is written is read, nobody can change it, and
 * every reason to refuse one.
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
#include <unistd.h>

#include "shm/mst_setup.h"


static int
create(mst_setup_t *setup)
{
    int        fd;
    mst_err_t  err;

    err.text[0] = '\0';

    assert_int_equal(mst_setup_create(setup, &fd, &err), MST_OK);

    return fd;
}


static void
test_sealed(void **state)
{
    int          fd;
    mst_err_t    err;
    mst_setup_t  a, b;

    (void) state;

    memset(&a, 0, sizeof(a));
    memset(a.name, 'n', sizeof(a.name));
    memset(a.path, 'p', sizeof(a.path));
    memset(a.tuned, 't', sizeof(a.tuned));
    a.uid = 33;
    a.n_files = MST_SETUP_FILES;
    a.n_groups = MST_SETUP_GROUPS;
    a.library = 1;
    a.null_rate = 1.5;

    fd = create(&a);

    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(pwrite(fd, &b, 1, 0), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    assert_ptr_equal(mmap(NULL, sizeof(a), PROT_READ | PROT_WRITE, MAP_SHARED,
                          fd, 0), MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);

    err.text[0] = '\0';
    memset(&b, 0xff, sizeof(b));

    assert_int_equal(mst_setup_read(&b, fd, &err), MST_OK);
    assert_int_equal(strlen(b.name), sizeof(b.name) - 1);
    assert_int_equal(strlen(b.path), sizeof(b.path) - 1);
    assert_int_equal(strlen(b.tuned), sizeof(b.tuned) - 1);
    assert_string_equal(b.program, "");
    assert_int_equal(b.uid, 33);
    assert_int_equal(b.n_files, MST_SETUP_FILES);
    assert_int_equal(b.library, 1);
    assert_true(b.null_rate > 1.4 && b.null_rate < 1.6);

    /* the offset is nobody's: a second reader gets the same */

    assert_int_equal(mst_setup_read(&b, fd, &err), MST_OK);

    (void) close(fd);
}


static void
refused(int fd, const char *text)
{
    mst_err_t    err;
    mst_setup_t  s;

    err.text[0] = '\0';

    assert_int_equal(mst_setup_read(&s, fd, &err), MST_ERROR);

    if (strstr(err.text, text) == NULL) {
        fail_msg("\"%s\" not in \"%s\"", text, err.text);
    }

    (void) close(fd);
}


static void
test_refused(void **state)
{
    int          fd;
    mst_setup_t  s;

    (void) state;

    memset(&s, 0, sizeof(s));

    s.n_files = MST_SETUP_FILES + 1;
    refused(create(&s), "65 files");

    s.n_files = 1;
    s.n_groups = UINT32_MAX;
    refused(create(&s), "4294967295 groups");

    s.n_groups = 0;

    /* the library is one of the files */

    s.library = 2;
    refused(create(&s), "1 files, 2 of them a library");

    s.n_files = 0;
    s.library = 1;
    refused(create(&s), "0 files, 1 of them a library");

    s.library = 0;

    /* nobody sealed it, or not against writers */

    fd = memfd_create("setup", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, &s, sizeof(s)), sizeof(s));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    refused(dup(fd), "sealed bytes");
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL), 0);
    assert_int_equal(mst_setup_read(&s, fd, NULL), MST_OK);
    (void) close(fd);

    /* another size; a file that has no seals; no file */

    fd = memfd_create("setup", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, &s, sizeof(s) - 8), sizeof(s) - 8);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW
                                            | F_SEAL_WRITE | F_SEAL_SEAL), 0);
    refused(fd, "sealed bytes");

    refused(open("/dev/null", O_RDONLY | O_CLOEXEC), "sealed bytes");
    refused(-1, "no engine's setup");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_refused)
    };

    return cmocka_run_group_tests_name("mst_setup", tests, NULL, NULL);
}

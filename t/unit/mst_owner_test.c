
/*
 * Owners: one process at a time, seen by all, gone with the process.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/mst_owner.h"


/* a child that takes what it can, says what came of it, and waits */

static pid_t
child(int fd, mst_owner_t who, int *rc)
{
    int    fds[2];
    pid_t  pid;

    assert_int_equal(pipe(fds), 0);

    pid = fork();

    if (pid == 0) {
        *rc = mst_owner_take(fd, who);
        (void) !write(fds[1], rc, sizeof(*rc));
        (void) pause();
        _exit(0);
    }

    assert_int_equal(read(fds[0], rc, sizeof(*rc)), sizeof(*rc));
    (void) close(fds[0]);
    (void) close(fds[1]);

    return pid;
}


static void
end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}


static void
test_owner(void **state)
{
    int    fd, rc;
    pid_t  a, b;

    (void) state;

    /* two bytes need not be there to be locked */

    fd = memfd_create("owner", MFD_CLOEXEC);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_ENGINE), 0);

    a = child(fd, MST_OWNER_ENGINE, &rc);
    assert_int_equal(rc, MST_OK);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_ENGINE), a);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_SUPERVISOR), 0);
    assert_int_equal(mst_owner_take(fd, MST_OWNER_ENGINE), MST_BUSY);

    /* the other byte is another one's; a second taker gets neither */

    b = child(fd, MST_OWNER_SUPERVISOR, &rc);
    assert_int_equal(rc, MST_OK);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_SUPERVISOR), b);
    end(b);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_SUPERVISOR), 0);

    b = child(fd, MST_OWNER_ENGINE, &rc);
    assert_int_equal(rc, MST_BUSY);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_ENGINE), a);

    /* one that stands still keeps it, one that is killed does not */

    assert_int_equal(kill(a, SIGSTOP), 0);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_ENGINE), a);
    end(a);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_ENGINE), 0);
    assert_int_equal(mst_owner_take(fd, MST_OWNER_ENGINE), MST_OK);
    assert_int_equal(mst_owner_take(fd, MST_OWNER_ENGINE), MST_OK);

    /* one's own is none that stands in the way */

    assert_int_equal(mst_owner_pid(fd, MST_OWNER_ENGINE), 0);
    end(b);

    (void) close(fd);
    assert_int_equal(mst_owner_take(fd, MST_OWNER_ENGINE), MST_ERROR);
    assert_int_equal(mst_owner_pid(fd, MST_OWNER_ENGINE), -1);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_owner)
    };

    return cmocka_run_group_tests_name("mst_owner", tests, NULL, NULL);
}

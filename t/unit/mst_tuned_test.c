
/*
 * Choices that are kept in a file: what was added comes back, and nothing of
 * a file that another wrote, that is cut, changed, of another key or version,
 * or no file at all.  A directory that cannot be used costs one line.
 */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mst_mem.h"
#include "backend/mst_tuned.h"

#define KEY  "a device, a driver, a library"


static int   lines;
static char  said[1000], dir[64];


static void
handler(void *data, mst_log_level_t level, const char *text)
{
    (void) data;

    assert_int_equal(level, MST_LOG_NOTICE);
    snprintf(said, sizeof(said), "%s", text);
    lines++;
}


static const mst_log_t  own_log = { handler, NULL, MST_LOG_DEBUG };


static mst_tuned_entry_t
entry(uint32_t i, uint32_t choice)
{
    mst_tuned_entry_t  e = { 6144 + i, 4096, 128, i % 3, choice };

    return e;
}


static void
start(mst_tuned_t *t, const char *key)
{
    lines = 0;
    said[0] = '\0';
    mst_tuned_init(t, dir, key, &own_log);
}


/* a file with n entries; its path */

static char *
make(uint32_t n)
{
    uint32_t            i;
    mst_tuned_t         t;
    mst_tuned_entry_t   e;
    static char         path[MST_TUNED_PATH];

    start(&t, KEY);
    (void) unlink(t.path);
    t.n = 0;

    for (i = 0; i < n; i++) {
        e = entry(i, i % 8);
        mst_tuned_add(&t, &e);
    }

    mst_tuned_save(&t);
    assert_int_equal(t.added, 0);
    snprintf(path, sizeof(path), "%s", t.path);
    mst_tuned_fini(&t);

    return path;
}


/* nothing of the file counts, and one line says why, if there is a reason */

static void
refused(const char *why)
{
    mst_tuned_t        t;
    mst_tuned_entry_t  e;

    start(&t, KEY);
    e = entry(0, 0);
    assert_int_equal(mst_tuned_find(&t, &e), -1);
    assert_int_equal(t.n, 0);
    assert_int_equal(lines, why ? 1 : 0);

    if (why) {
        assert_non_null(strstr(said, why));
    }

    mst_tuned_fini(&t);
}


static void
test_kept(void **state)
{
    uint32_t            i;
    struct stat         st;
    mst_tuned_t         t;
    mst_tuned_entry_t   e;

    (void) state;

    refused(NULL);                             /* there is none yet */
    assert_int_equal(stat(make(100), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    start(&t, KEY);
    assert_int_equal(lines, 0);

    for (i = 0; i < 100; i++) {
        e = entry(i, 77);
        assert_int_equal(mst_tuned_find(&t, &e), i % 8);
        e.kind += 3;
        assert_int_equal(mst_tuned_find(&t, &e), -1);
    }

    /* nothing new, nothing written */

    assert_int_equal(unlink(t.path), 0);
    mst_tuned_save(&t);
    assert_int_equal(stat(t.path, &st), -1);

    /* another choice takes the place of the old one */

    e = entry(5, 6);
    mst_tuned_add(&t, &e);
    assert_int_equal(t.n, 100);
    mst_tuned_save(&t);
    mst_tuned_fini(&t);

    start(&t, KEY);
    assert_int_equal(t.n, 100);
    assert_int_equal(mst_tuned_find(&t, &e), 6);
    mst_tuned_fini(&t);

    /* another key has a file of its own */

    start(&t, KEY "!");
    assert_int_equal(mst_tuned_find(&t, &e), -1);
    assert_int_equal(lines, 0);
    mst_tuned_fini(&t);
}


static void
test_full(void **state)
{
    uint32_t            i;
    mst_tuned_t         t;
    mst_tuned_entry_t   e;

    (void) state;

    make(MST_TUNED_MAX);
    start(&t, KEY);
    assert_int_equal(t.n, MST_TUNED_MAX);

    for (i = 0; i < 3; i++) {
        e = entry(MST_TUNED_MAX + i, 1);
        mst_tuned_add(&t, &e);
        assert_int_equal(mst_tuned_find(&t, &e), -1);
    }

    mst_tuned_fini(&t);
}


/* each byte counts, and so does each one that is missing */

static void
test_damaged(void **state)
{
    int          fd;
    char        *path;
    uint8_t      byte, other;
    off_t        i, size;
    struct stat  st;

    (void) state;

    path = make(3);
    assert_int_equal(stat(path, &st), 0);
    size = st.st_size;

    fd = open(path, O_RDWR);
    assert_true(fd != -1);

    for (i = 0; i < size; i++) {
        assert_int_equal(pread(fd, &byte, 1, i), 1);
        other = byte ^ (uint8_t) (1 << i % 8);
        assert_int_equal(pwrite(fd, &other, 1, i), 1);

        refused(i < 24 ? "none of this version" : "damaged");

        assert_int_equal(pwrite(fd, &byte, 1, i), 1);
    }

    close(fd);

    for (i = size - 1; i >= 0; i--) {
        assert_int_equal(truncate(path, i), 0);
        refused("none of this version");
    }

    path = make(3);
    assert_int_equal(truncate(path, size + 20), 0);
    refused("none of this version");
}


static void
test_others(void **state)
{
    char         *path;
    mst_tuned_t   t;

    (void) state;

    path = make(3);
    assert_int_equal(chmod(path, 0620), 0);
    refused("user's alone");

    if (geteuid() == 0) {
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(chown(path, 65534, (gid_t) -1), 0);
        refused("user's alone");
    }

    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    refused("open()");

    /* must not be waited for */

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused("no regular file");

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    refused("no regular file");

    /* it stands in the way of the new one, which is dropped whole */

    start(&t, KEY);
    lines = 0;
    t.n = 0;
    mst_tuned_add(&t, &(mst_tuned_entry_t) { 1, 2, 3, 4, 5 });
    mst_tuned_save(&t);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, "is not kept"));
    mst_tuned_fini(&t);
    assert_int_equal(rmdir(path), 0);
}


/* a killed engine's half file does not stop the next one */

static void
test_left(void **state)
{
    int          fd;
    char         left[MST_TUNED_PATH + 4], *path;
    struct stat  st;

    (void) state;

    path = make(1);
    snprintf(left, sizeof(left), "%s.new", path);
    fd = open(left, O_WRONLY|O_CREAT, 0600);
    assert_true(fd != -1);
    close(fd);

    make(2);
    assert_int_equal(lines, 0);
    assert_int_equal(stat(left, &st), -1);
    assert_int_equal(unlink(path), 0);
}


static void
test_nowhere(void **state)
{
    size_t              i;
    char                path[2 * MST_TUNED_PATH];
    mst_tuned_t         t;
    mst_tuned_entry_t   e;

    (void) state;

    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';

    const char *const  dirs[] = { NULL, "", path, "/proc/no/where" };

    for (i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
        lines = 0;
        mst_tuned_init(&t, dirs[i], KEY, &own_log);
        e = entry(0, 1);
        mst_tuned_add(&t, &e);
        mst_tuned_save(&t);
        assert_int_equal(lines, i == 3);       /* only what was asked for */
        mst_tuned_fini(&t);
    }

    mst_mem_fail_after(1);
    mst_tuned_init(&t, dir, KEY, &own_log);
    mst_mem_fail_after(0);
    e = entry(0, 1);
    mst_tuned_add(&t, &e);
    assert_int_equal(mst_tuned_find(&t, &e), -1);
    mst_tuned_save(&t);
    mst_tuned_fini(&t);
}


static int
setup(void **state)
{
    (void) state;

    snprintf(dir, sizeof(dir), "/tmp/mst_tuned_test.XXXXXX");

    return mkdtemp(dir) ? 0 : -1;
}


static int
teardown(void **state)
{
    (void) state;

    return rmdir(dir);                         /* nothing is left in it */
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_nowhere)
    };

    return cmocka_run_group_tests_name("mst_tuned", tests, setup, teardown);
}

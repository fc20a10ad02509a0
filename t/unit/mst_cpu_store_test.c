
/*
 * Shared weights: who fills them, who reads them, and what is not believed.
 * Where the system has no MADV_COLLAPSE there are none, and a sentence.
 */

#include "mst_cpu_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/mst_cpu_store.h"

#define ROWS   250
#define WIDTH  256


static int
memory(void)
{
    int  fd;

    fd = memfd_create("mistral-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd != -1);

    return fd;
}


/* is there anything to test?  NULL: this system cannot */

static mst_cpu_store_t *
begin(int fd, uint64_t id)
{
    mst_err_t         err = { "" };
    mst_cpu_store_t  *s;

    s = mst_cpu_store_open(fd, id, &err);

    if (s == NULL) {
        print_message("%s\n", err.text);
        assert_true(strstr(err.text, "no huge pages")
                    || strstr(err.text, "memory is limited"));
    }

    return s;
}


/* two matrices of this store, or of the backend's own memory; *y: rows */

static int
fill(mst_cpu_store_t *s, const void *data, float *y, mst_err_t *err)
{
    int                  rc;
    uint32_t             i;
    mst_matrix_t        *m[2];
    mst_backend_t       *b;
    mst_matrix_part_t    part;
    mst_backend_conf_t   conf;

    conf = rig_conf(3);
    b = rig_create(&conf);
    rc = s ? mst_cpu_store_use(s, b, err) : MST_OK;
    assert_int_equal(rc, MST_OK);

    for (i = 0; i < 2; i++) {
        part = (mst_matrix_part_t) { MST_TYPE_Q4_1, ROWS - i, data };
        m[i] = mst_cpu_matrix(b, MST_MATRIX_STACK, &part, 1, WIDTH, err);

        if (m[i] == NULL) {
            mst_cpu_ops.destroy(b);
            return MST_ERROR;
        }
    }

    rc = s ? mst_cpu_store_seal(s, err) : MST_OK;

    /* what was sealed is where it was */

    for (i = 0; i < ROWS - 1; i++) {
        mst_cpu_matrix_row(m[i % 2], i, y + (size_t) i * WIDTH);
    }

    mst_cpu_ops.destroy(b);

    return rc;
}


static void
test_share(void **state)
{
    int               fd;
    float            *f, *other, *y, *z;
    void             *data, *foreign;
    size_t            size;
    mst_err_t         err = { "" };
    struct stat       st;
    mst_cpu_store_t  *s;

    (void) state;

    size = (size_t) ROWS * WIDTH * sizeof(float);
    y = calloc(1, size);
    z = calloc(1, size);
    data = rig_tensor(MST_TYPE_Q4_1, ROWS, WIDTH, &f);
    foreign = rig_tensor(MST_TYPE_Q4_1, ROWS, WIDTH, &other);
    fd = memory();

    assert_int_equal(fill(NULL, data, y, &err), MST_OK);
    s = begin(fd, 7);

    if (s) {
        assert_false(mst_cpu_store_ready(s));
        assert_int_equal(fill(s, data, z, &err), MST_OK);
        assert_string_equal(err.text, "");
        assert_memory_equal(y, z, size);
        assert_true(mst_cpu_store_ready(s));
        mst_cpu_store_close(s);

        /* nobody writes any more */

        assert_int_equal(pwrite(fd, "x", 1, 0), -1);
        assert_int_equal(ftruncate(fd, 0), -1);

        /* read, data or not: NULL is what is known to be there */

        memset(z, 0, size);
        s = begin(fd, 7);
        assert_true(mst_cpu_store_ready(s));
        assert_int_equal(fill(s, data, z, &err), MST_OK);
        assert_memory_equal(y, z, size);
        mst_cpu_store_close(s);

        memset(z, 0, size);
        s = begin(fd, 7);
        assert_int_equal(fill(s, NULL, z, &err), MST_OK);
        assert_memory_equal(y, z, size);
        mst_cpu_store_close(s);

        /* of other files; and of these by their head, but not so */

        assert_null(mst_cpu_store_open(fd, 8, &err));
        assert_non_null(strstr(err.text, "are not of these files"));

        err.text[0] = '\0';
        s = begin(fd, 7);
        assert_int_equal(fill(s, foreign, z, &err), MST_ERROR);
        assert_non_null(strstr(err.text, "they differ"));
        mst_cpu_store_close(s);

        assert_int_equal(fstat(fd, &st), 0);
        assert_true(st.st_size <= 6 << 20);
    }

    (void) close(fd);
    free(data);
    free(foreign);
    free(f);
    free(other);
    free(y);
    free(z);
}


/* kill -9 in the middle: the next one fills it */

static void
test_killed(void **state)
{
    int               fd, pipefd[2];
    char              c;
    float            *f, *y;
    void             *data;
    pid_t             pid;
    mst_err_t         err = { "" };
    mst_cpu_store_t  *s;

    (void) state;

    fd = memory();
    y = calloc(ROWS * WIDTH, sizeof(float));
    data = rig_tensor(MST_TYPE_Q4_1, ROWS, WIDTH, &f);
    assert_int_equal(pipe(pipefd), 0);

    pid = fork();
    assert_true(pid != -1);

    if (pid == 0) {
        s = mst_cpu_store_open(fd, 7, &err);
        memset(y, 0xff, ROWS * WIDTH * sizeof(float));
        (void) !write(pipefd[1], s ? "1" : "0", 1);

        for ( ;; ) {
            (void) pause();
        }
    }

    assert_int_equal(read(pipefd[0], &c, 1), 1);

    if (c == '1') {

        /* only who may write waits for it; killed while we do */

        if (fork() == 0) {
            (void) usleep(200000);
            (void) kill(pid, SIGKILL);
            _exit(0);
        }

        s = mst_cpu_store_open(fd, 7, &err);
        assert_string_equal(err.text, "");
        assert_non_null(s);
        assert_false(mst_cpu_store_ready(s));
        assert_int_equal(fill(s, data, y, &err), MST_OK);
        mst_cpu_store_close(s);

    } else {
        (void) kill(pid, SIGKILL);
    }

    while (wait(NULL) > 0) { /* void */ }

    (void) close(pipefd[0]);
    (void) close(pipefd[1]);
    (void) close(fd);
    free(data);
    free(f);
    free(y);
}


/* bytes of anybody */

static void
test_hostile(void **state)
{
    int        fd, ro, seals;
    char       head[4096], path[64];
    uint32_t   i;
    mst_err_t  err = { "" };

    (void) state;

    seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

    for (i = 0; i < 3; i++) {
        fd = memory();

        memset(head, i == 1 ? 0 : 0x5a, sizeof(head));
        memcpy(head, "MTSTORE2", i == 1 ? 8 : 0);

        assert_int_equal(pwrite(fd, head, i == 0 ? 0 : sizeof(head), 0),
                         i == 0 ? 0 : sizeof(head));
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);

        err.text[0] = '\0';
        assert_null(mst_cpu_store_open(fd, 7, &err));
        assert_non_null(strstr(err.text, "are not of these files"));
        (void) close(fd);
    }

    /* for reading, and nobody has filled it */

    fd = memory();
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ro = open(path, O_RDONLY);
    assert_true(ro != -1);

    err.text[0] = '\0';
    assert_null(mst_cpu_store_open(ro, 7, &err));
    assert_non_null(strstr(err.text, "were not completed"));

    (void) close(ro);
    (void) close(fd);

    /* no memory at all */

    fd = open("/dev/null", O_RDWR);
    err.text[0] = '\0';
    assert_null(mst_cpu_store_open(fd, 7, &err));
    assert_non_null(strstr(err.text, "there is no memory"));
    (void) close(fd);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_hostile)
    };

    return cmocka_run_group_tests_name("mst_cpu_store", tests, NULL, NULL);
}

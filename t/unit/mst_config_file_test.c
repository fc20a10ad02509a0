
/*
 * Files of a configuration: what is read, what is refused, and which form
 * they have.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "model/mst_config_file.h"


/* a file without a name that holds text */

static int
file_of(const char *text, size_t len)
{
    int   fd;
    char  path[] = "/tmp/mst_config_file_XXXXXX";

    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(write(fd, text, len), len);

    return fd;
}


static void
test_read(void **state)
{
    int        fd;
    char      *text;
    size_t     len;
    mst_err_t  err = { "" };

    (void) state;

    fd = file_of("{\"a\":1}", 7);
    assert_int_equal(lseek(fd, 3, SEEK_SET), 3);

    text = mst_config_file_read(fd, "dir", &len, &err);
    assert_non_null(text);
    assert_int_equal(len, 7);
    assert_memory_equal(text, "{\"a\":1}", 7);
    mst_free(text);

    /* others may share it */

    assert_int_equal(lseek(fd, 0, SEEK_CUR), 3);

    mst_mem_fail_after(1);
    assert_null(mst_config_file_read(fd, "dir", &len, &err));
    mst_mem_fail_after(0);
    assert_string_equal(err.text, "dir: no memory for its configuration");

    (void) close(fd);
}


static void
refused(int fd)
{
    size_t     len;
    mst_err_t  err = { "" };

    assert_null(mst_config_file_read(fd, "dir", &len, &err));
    assert_string_equal(err.text, "dir: its configuration is no file of 2 "
                        "bytes to 8 MiB");
    (void) close(fd);
}


static void
test_refused(void **state)
{
    int  fd, fds[2];

    (void) state;

    refused(file_of("{", 1));

    fd = file_of("", 0);
    assert_int_equal(ftruncate(fd, (8 << 20) + 1), 0);
    refused(fd);

    assert_int_equal(pipe(fds), 0);
    (void) close(fds[1]);
    refused(fds[0]);

    refused(open("/tmp", O_RDONLY | O_CLOEXEC));
    refused(-1);
}


/* both are too short to be a model: who complains is who read it */

static void
test_form(void **state)
{
    mst_err_t     err;
    mst_names_t   names;
    mst_config_t  config;

    (void) state;

    err.text[0] = '\0';
    names = MST_NAMES_GGUF;
    assert_int_equal(mst_config_file_parse("{\"dim\":64}", 10, "dir", &names,
                                           &config, NULL, &err),
                     MST_ERROR);
    assert_int_equal(names, MST_NAMES_MISTRAL);
    assert_non_null(strstr(err.text, "dir: "));

    err.text[0] = '\0';
    assert_int_equal(mst_config_file_parse("{\"hidden_size\":64}", 18, "dir",
                                           &names, &config, NULL, &err),
                     MST_ERROR);
    assert_int_equal(names, MST_NAMES_HF);
    assert_non_null(strstr(err.text, "dir: "));
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_form)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

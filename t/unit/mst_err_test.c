
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mst_err.h"


static void
test_first_cause(void **state)
{
    mst_err_t  err = { "" };

    (void) state;

    assert_int_equal(mst_err_set(&err, "%s is %d", "a", 1), MST_ERROR);
    assert_string_equal(err.text, "a is 1");

    assert_int_equal(mst_err_set(&err, "later"), MST_ERROR);
    assert_int_equal(mst_err_errno(&err, ENOENT, "later"), MST_ERROR);
    assert_string_equal(err.text, "a is 1");
}


static void
test_errno(void **state)
{
    mst_err_t  err = { "" };

    (void) state;

    assert_int_equal(mst_err_errno(&err, ENOENT, "open \"%s\"", "f"),
                     MST_ERROR);
    assert_string_equal(err.text, "open \"f\": No such file or directory");
}


static void
test_null(void **state)
{
    (void) state;

    assert_int_equal(mst_err_set(NULL, "x"), MST_ERROR);
    assert_int_equal(mst_err_errno(NULL, EIO, "x"), MST_ERROR);
    assert_int_equal(mst_err_prefix(NULL, "x"), MST_ERROR);
}


static void
test_prefix(void **state)
{
    char       path[1000];
    mst_err_t  err = { "" };

    (void) state;

    (void) mst_err_set(&err, "bad");
    assert_int_equal(mst_err_prefix(&err, "file"), MST_ERROR);
    assert_string_equal(err.text, "file: bad");

    /* of a long path the end is kept, and the cause stays readable */

    memset(path, 'p', sizeof(path));
    strcpy(path + sizeof(path) - 6, "/name");
    (void) mst_err_prefix(&err, path);

    assert_non_null(strstr(err.text, "/name: file: bad"));
    assert_int_equal(strlen(err.text), sizeof(err.text) / 2 + 11);
}


static void
say(mst_err_t *err, const char *where, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    assert_int_equal(mst_err_vset(err, where, fmt, args), MST_ERROR);
    va_end(args);
}


static void
test_where(void **state)
{
    char       path[1000];
    mst_err_t  err = { "" };

    (void) state;

    say(NULL, "f", "x");
    say(&err, "f", "%d is %s", 1, "odd");
    assert_string_equal(err.text, "f: 1 is odd");
    say(&err, "g", "later");
    assert_string_equal(err.text, "f: 1 is odd");

    err.text[0] = '\0';
    say(&err, NULL, "%d", 2);
    assert_string_equal(err.text, "2");

    /* the cause can be read, however long the path */

    memset(path, 'p', sizeof(path));
    strcpy(path + sizeof(path) - 6, "/name");
    err.text[0] = '\0';
    say(&err, path, "no %s", "weights");
    assert_non_null(strstr(err.text, "/name: no weights"));
}


static void
test_long(void **state)
{
    char       text[2000];
    mst_err_t  err;

    (void) state;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';

    err.text[0] = '\0';
    (void) mst_err_set(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);

    err.text[0] = '\0';
    (void) mst_err_errno(&err, EIO, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);

    (void) mst_err_prefix(&err, "prefix");
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_memory_equal(err.text, "prefix: xxx", 11);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_first_cause),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_long)
    };

    return cmocka_run_group_tests_name("mst_err", tests, NULL, NULL);
}

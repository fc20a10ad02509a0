
/*
 * Opening backends by name.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <stdint.h>
#include <cmocka.h>

#include "backend/mst_backend.h"


static void
open_test(void **state)
{
    mst_err_t                 err = { "" };
    const mst_backend_ops_t  *ops;

    (void) state;

    ops = mst_backend_open("cpu", NULL, &err);
    assert_non_null(ops);
    assert_string_equal(ops->name, "cpu");
    assert_string_equal(err.text, "");

    assert_null(mst_backend_open("cuda", NULL, &err));
    assert_string_equal(err.text, "backend \"cuda\" is not in this build");

    err.text[0] = '\0';
    assert_null(mst_backend_open("cuda", "/nowhere.so", &err));
    assert_non_null(strstr(err.text, "/nowhere.so"));

    err.text[0] = '\0';
    assert_null(mst_backend_open("cuda", "libm.so.6", &err));
    assert_string_equal(err.text, "libm.so.6 exports no mst_cuda_open");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = { cmocka_unit_test(open_test) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

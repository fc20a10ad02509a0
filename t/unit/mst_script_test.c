
/*
 * Scripts of the null model: what is taken, what is not, and why.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/mst_mem.h"
#include "file/mst_script.h"


static void
test_good(void **state)
{
    mst_err_t     err;
    mst_script_t  s;

    static const uint32_t  ids[] = { 0, 99, 7, 7, 2 };
    static const char      text[] = " [[0, 99], [7],\n [7, 2]] ";

    (void) state;

    assert_int_equal(mst_script_parse(&s, text, sizeof(text) - 1, 100, &err),
                     MST_OK);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.ends[0], 2);
    assert_int_equal(s.ends[1], 3);
    assert_int_equal(s.ends[2], 5);
    assert_memory_equal(s.ids, ids, sizeof(ids));

    mst_script_fini(&s);
    mst_script_fini(&s);
}


static void
test_bad(void **state)
{
    size_t        i;
    mst_err_t     err;
    mst_script_t  s;

    static const struct {
        const char  *text;
        const char  *part;
    } cases[] = {
        { "", "no JSON" },
        { "[[1]", "no JSON" },
        { "[]", "list of lists" },
        { "{}", "list of lists" },
        { "[1]", "entry 0 is no list" },
        { "[[1], []]", "entry 1 is no list of token ids, or is empty" },
        { "[[1], [1, 100]]", "entry 1 has no token id below 100 at 1" },
        { "[[-1]]", "at 0" },
        { "[[1.5]]", "at 0" },
        { "[[\"1\"]]", "at 0" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        err.text[0] = '\0';
        assert_int_equal(mst_script_parse(&s, cases[i].text,
                                          strlen(cases[i].text), 100, &err),
                         MST_ERROR);
        assert_null(s.ids);
        assert_null(s.ends);

        if (strstr(err.text, cases[i].part) == NULL) {
            fail_msg("%s: %s", cases[i].text, err.text);
        }
    }
}


static void
test_memory(void **state)
{
    long          i;
    mst_err_t     err;
    mst_script_t  s;

    (void) state;

    for (i = 1; i < 3; i++) {
        mst_mem_fail_after(i);
        assert_int_equal(mst_script_parse(&s, "[[1]]", 5, 2, &err),
                         MST_ERROR);
        mst_mem_fail_after(0);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_script", tests, NULL, NULL);
}

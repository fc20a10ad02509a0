
/* Claims by name and path, and as text. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_claim.h"
#include "base/mst_mem.h"


typedef struct {
    const char  *name;
    const char  *text;                 /* NULL: nothing is shown */
} mst_case_t;


static json_t  *claims;


static int
setup(void **state)
{
    (void) state;

    claims = json_loads(
        "{\"sub\":\"me\",\"empty\":\"\",\"n\":12,\"x\":1.5,\"yes\":true,"
        "\"no\":false,\"nil\":null,\"list\":[\"a\",\"b\",3],\"none\":[],"
        "\"realm_access\":{\"roles\":[\"user\",\"admin\"],\"n\":{\"m\":7}},"
        "\"a__b\":\"flat\",\"a\":{\"b\":\"deep\",\"c\":\"d\"},"
        "\"o\":{\"z\":1,\"y\":[1,2]},\"deep\":[[1,2],{\"k\":\"v\"}],"
        "\"line\":\"a\\nb\",\"del\":\"a\\u007f\",\"lines\":[\"a\",\"b\\r\"],"
        "\"nils\":[\"a\",null],\"quote\":\"\\\"\\\\\",\"utf8\":\"\\u00e9\","
        "\"https://example.com/tier\":\"gold\"}", 0, NULL);
    assert_non_null(claims);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;
    json_decref(claims);

    return 0;
}


static void
is(const json_t *value, const char *text)
{
    int        rc;
    mst_buf_t  out;

    mst_buf_init(&out);
    rc = mst_claim_text(value, &out);

    assert_int_equal(rc, text ? MST_OK : MST_DECLINED);

    if (text) {
        assert_int_equal(out.len, strlen(text));
        assert_memory_equal(out.data ? out.data : "", text, out.len);
    }

    mst_buf_fini(&out);
}


static void
test_name(void **state)
{
    size_t  i;

    static const mst_case_t  cases[] = {
        { "sub", "me" }, { "empty", "" }, { "n", "12" }, { "x", "1.5" },
        { "yes", "true" }, { "no", "false" }, { "nil", NULL },
        { "absent", NULL }, { "Sub", NULL }, { "list", "a,b,3" },
        { "none", "" },
        { "realm_access__roles", "user,admin" },
        { "realm_access__n__m", "7" },
        { "realm_access__roles__x", NULL }, { "realm_access__", NULL },
        { "__roles", NULL }, { "sub__x", NULL }, { "__", NULL }, { "", NULL },
        { "a__b", "flat" }, { "a__c", "d" },
        { "o", "{\"y\":[1,2],\"z\":1}" }, { "deep", "[1,2],{\"k\":\"v\"}" },
        { "line", NULL }, { "del", NULL }, { "lines", NULL },
        { "nils", NULL }, { "quote", "\"\\" }, { "utf8", "\xc3\xa9" },
        { "https://example.com/tier", "gold" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        is(mst_claim_name(claims, mst_str(cases[i].name,
                                          strlen(cases[i].name))),
           cases[i].text);
    }
}


static void
test_path(void **state)
{
    static const mst_str_t  path[] = {
        mst_string("realm_access"), mst_string("n"), mst_string("m")
    };
    static const mst_str_t  url[] = { mst_string("https://example.com/tier") };
    static const mst_str_t  wrong[] = { mst_string("sub"), mst_string("x") };

    (void) state;

    is(mst_claim_path(claims, path, 3), "7");
    is(mst_claim_path(claims, path, 2), "{\"m\":7}");
    is(mst_claim_path(claims, url, 1), "gold");
    is(mst_claim_path(claims, wrong, 2), NULL);
    is(mst_claim_path(claims, wrong + 1, 1), "1.5");
    is(mst_claim_path(claims, path + 1, 2), NULL);
}


static void
test_memory(void **state)
{
    long         n;
    size_t       i;
    mst_buf_t    out;
    mst_str_t    name;

    static const char *const  names[] = { "sub", "list", "o", "n" };

    (void) state;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (n = 1; ; n++) {
            name = mst_str(names[i], strlen(names[i]));
            mst_buf_init(&out);
            mst_mem_fail_after(n);

            if (mst_claim_text(mst_claim_name(claims, name), &out) == MST_OK) {
                break;
            }

            assert_true(out.failed);
            mst_mem_fail_after(0);
            mst_buf_fini(&out);
        }

        mst_mem_fail_after(0);
        assert_true(n > 1);
        mst_buf_fini(&out);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

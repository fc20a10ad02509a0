
/* Verified tokens: found again, bounded, and only as a whole. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_jwt_cache.h"
#include "base/mst_mem.h"


static mst_str_t
token(int n)
{
    static char  text[64];

    (void) snprintf(text, sizeof(text), "header.payload%04d.signature", n);

    return mst_str(text, strlen(text));
}


static void
add(mst_jwt_cache_t *cache, int n)
{
    json_t  *claims;

    claims = json_integer(n);
    mst_jwt_cache_add(cache, token(n), claims);
    json_decref(claims);
}


static int
find(mst_jwt_cache_t *cache, int n)
{
    json_t  *claims;

    claims = mst_jwt_cache_find(cache, token(n));

    if (claims) {
        assert_int_equal(json_integer_value(claims), n);
    }

    return claims != NULL;
}


static void
test_find(void **state)
{
    int               i;
    mst_str_t         t;
    mst_jwt_cache_t  *cache;

    (void) state;

    cache = mst_jwt_cache_create(100, 100000, 7);
    assert_non_null(cache);

    /* these have one tail, so that all of them are in one bucket */

    for (i = 0; i < 50; i++) {
        assert_false(find(cache, i));
        add(cache, i);
    }

    for (i = 0; i < 50; i++) {
        assert_true(find(cache, i));
    }

    t = token(7);
    assert_null(mst_jwt_cache_find(cache, mst_str(t.data, t.len - 1)));
    assert_null(mst_jwt_cache_find(cache, mst_str(t.data + 1, t.len - 1)));
    assert_null(mst_jwt_cache_find(cache, mst_str("x", 1)));
    assert_null(mst_jwt_cache_find(cache, mst_str("", 0)));

    assert_int_equal(mst_jwt_cache_count(cache), 50);
    mst_jwt_cache_destroy(cache);
    mst_jwt_cache_destroy(NULL);
}


static void
test_bounds(void **state)
{
    int               i, n;
    mst_jwt_cache_t  *cache;

    (void) state;

    cache = mst_jwt_cache_create(5, 100000, 7);

    for (i = 0; i < 5; i++) {
        add(cache, i);
    }

    /* who was asked for stays */

    assert_true(find(cache, 0));
    add(cache, 5);
    assert_false(find(cache, 1));
    assert_true(find(cache, 0));
    assert_int_equal(mst_jwt_cache_count(cache), 5);

    for (i = 100; i < 1000; i++) {
        add(cache, i);
        assert_true(find(cache, i));
    }

    assert_int_equal(mst_jwt_cache_count(cache), 5);
    mst_jwt_cache_destroy(cache);

    /* three tokens' bytes and a half */

    cache = mst_jwt_cache_create(100, token(0).len * 7 / 2, 7);

    for (i = 0; i < 100; i++) {
        add(cache, i);
    }

    for (i = 0, n = 0; i < 100; i++) {
        n += find(cache, i);
    }

    assert_int_equal(n, 3);
    assert_true(find(cache, 97) && find(cache, 98) && find(cache, 99));
    mst_jwt_cache_destroy(cache);

    /* larger than all of it */

    cache = mst_jwt_cache_create(100, 10, 7);
    add(cache, 1);
    assert_int_equal(mst_jwt_cache_count(cache), 0);
    mst_jwt_cache_destroy(cache);

    cache = mst_jwt_cache_create(0, 1000, 7);
    add(cache, 1);
    assert_false(find(cache, 1));
    mst_jwt_cache_destroy(cache);
}


static void
test_memory(void **state)
{
    mst_jwt_cache_t  *cache;

    (void) state;

    mst_mem_fail_after(1);
    assert_null(mst_jwt_cache_create(5, 1000, 7));
    mst_mem_fail_after(0);

    cache = mst_jwt_cache_create(5, 1000, 7);
    add(cache, 1);

    mst_mem_fail_after(1);
    add(cache, 2);
    mst_mem_fail_after(0);

    assert_true(find(cache, 1));
    assert_false(find(cache, 2));
    mst_jwt_cache_destroy(cache);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/* Salts of tenants: the same for the same, another for anything else. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_salt.h"
#include "base/mst_err.h"
#include "base/mst_mem.h"


static const uint8_t  key[MST_SALT_KEY_SIZE] = "the key of the first server";
static const uint8_t  other[MST_SALT_KEY_SIZE] = "the key of another server";


/* Python's hmac.new(key, pack('<Q', 4) + b'acme' + b'u1', sha256) */

static void
test_value(void **state)
{
    uint8_t      salt[MST_SALT_SIZE];
    mst_salt_t  *s;

    static const uint8_t  expected[MST_SALT_SIZE] = {
        0xd1, 0x1c, 0xfc, 0x5d, 0x8e, 0xad, 0x30, 0xb2,
        0x21, 0x53, 0xd9, 0xc2, 0x83, 0xaa, 0x15, 0x10
    };

    (void) state;

    s = mst_salt_create(key);
    assert_non_null(s);

    assert_int_equal(mst_salt_make(s, mst_str("acme", 4), mst_str("u1", 2),
                                   salt),
                     MST_OK);
    assert_memory_equal(salt, expected, MST_SALT_SIZE);

    mst_salt_destroy(s);
    mst_salt_destroy(NULL);
}


static void
test_common(void **state)
{
    uint8_t      salt[MST_SALT_SIZE];
    mst_salt_t  *s;

    static const uint8_t  zero[MST_SALT_SIZE];

    (void) state;

    memset(salt, 1, sizeof(salt));

    s = mst_salt_create(key);
    assert_int_equal(mst_salt_make(s, mst_str("", 0), mst_str("", 0), salt),
                     MST_OK);
    assert_memory_equal(salt, zero, MST_SALT_SIZE);
    mst_salt_destroy(s);
}


static void
test_pairs(void **state)
{
    size_t       i, j, n;
    uint8_t      salts[16][MST_SALT_SIZE], again[MST_SALT_SIZE];
    mst_salt_t  *s;

    static const struct {
        const uint8_t  *key;
        mst_str_t       tenant;
        mst_str_t       client;
    } names[] = {
        { key, mst_string("a"), mst_string("") },
        { key, mst_string(""), mst_string("a") },
        { key, mst_string("b"), mst_string("") },
        { key, mst_string("ab"), mst_string("c") },
        { key, mst_string("a"), mst_string("bc") },
        { key, mst_string("abc"), mst_string("") },
        { key, mst_string("a\0"), mst_string("") },
        { key, mst_string("a"), mst_string("\0") },
        { key, mst_string("a"), mst_string("a") },
        { other, mst_string("a"), mst_string("") },
        { other, mst_string(""), mst_string("a") }
    };

    (void) state;

    n = sizeof(names) / sizeof(names[0]);

    for (i = 0; i < n; i++) {
        s = mst_salt_create(names[i].key);
        assert_non_null(s);

        assert_int_equal(mst_salt_make(s, names[i].tenant, names[i].client,
                                       salts[i]),
                         MST_OK);
        assert_int_equal(mst_salt_make(s, mst_str("x", 1), mst_str("y", 1),
                                       again),
                         MST_OK);
        assert_int_equal(mst_salt_make(s, names[i].tenant, names[i].client,
                                       again),
                         MST_OK);
        assert_memory_equal(salts[i], again, MST_SALT_SIZE);
        mst_salt_destroy(s);

        for (j = 0; j < i; j++) {
            assert_memory_not_equal(salts[i], salts[j], MST_SALT_SIZE);
        }
    }
}


static void
test_memory(void **state)
{
    (void) state;

    mst_mem_fail_after(1);
    assert_null(mst_salt_create(key));
    mst_mem_fail_after(0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_value),
        cmocka_unit_test(test_common),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

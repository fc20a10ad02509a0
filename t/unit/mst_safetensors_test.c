
/*
 * Headers that tell the truth and headers that lie.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "file/mst_safetensors.h"


/* header, then n bytes of data 0, 1, 2, ...; freed by the caller */

static unsigned char *
file_of(const char *header, size_t n, size_t *size)
{
    size_t          i, len;
    unsigned char  *p;

    len = strlen(header);
    *size = 8 + len + n;
    p = malloc(*size);
    assert_non_null(p);

    for (i = 0; i < 8; i++) {
        p[i] = (unsigned char) (len >> 8 * i);
    }

    memcpy(p + 8, header, len);

    for (i = 0; i < n; i++) {
        p[8 + len + i] = (unsigned char) i;
    }

    return p;
}


static void
test_good(void **state)
{
    size_t               size;
    mst_err_t            err = { "" };
    unsigned char       *p;
    mst_safetensors_t   *s;
    const mst_tensor_t  *t;

    (void) state;

    p = file_of("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":"
                "[4,28]},\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\""
                ":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},\"c\":{"
                "\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[28,30]}}   ",
                30, &size);
    s = mst_safetensors_open_memory(p, size, "x", &err);
    assert_string_equal(err.text, "");
    assert_int_equal(mst_safetensors_n_tensors(s), 3);
    assert_int_equal(mst_safetensors_size(s), size);

    t = mst_safetensors_tensor_at(s, 0);
    assert_true(mst_str_eq(t->name, "a"));
    assert_int_equal(t->type, MST_TYPE_BF16);
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->dims[0], 2);
    assert_int_equal(*(const unsigned char *) t->data, 0);

    t = mst_safetensors_tensor_at(s, 1);
    assert_true(mst_str_eq(t->name, "b"));
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 3);           /* fastest first */
    assert_int_equal(t->dims[1], 2);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->size, 24);
    assert_int_equal(*(const unsigned char *) t->data, 4);

    t = mst_safetensors_tensor_at(s, 2);
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->dims[0], 1);

    mst_safetensors_close(s);
    free(p);
}


static void
test_bad(void **state)
{
    size_t              i, size;
    mst_err_t           err;
    unsigned char      *p;

    static const struct {
        const char  *header;
        size_t       n;
        const char  *text;
    } cases[] = {
        { "{\"a\":1}", 0, "tensor \"a\" is no object" },
        { "[]", 0, "no header" },
        { "{\"a\":", 0, "no JSON object" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          4, "duplicate" },
        { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype" },
        { "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]"
          "}}", 1, "dtype F8_E4M3, which is not supported; F32, F16 and BF16" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4,
          "no shape" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":"
          "[0,4]}}", 4, "no shape of at most 4" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
          4, "its shape is damaged" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
          "\"data_offsets\":[0,4]}}", 4, "too large" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],"
          "\"data_offsets\":[0,0]}}", 0, "elements of type F32 has 0 bytes" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
          "data_offsets" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
          4, "cut off" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
          4, "cut off" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}",
          4, "cut off" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
          4, "has 4 bytes" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          8, "belong to no tensor" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          8, "does not begin where" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          4, "does not begin where" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        p = file_of(cases[i].header, cases[i].n, &size);
        err.text[0] = '\0';

        assert_null(mst_safetensors_open_memory(p, size, "f", &err));

        if (strncmp(err.text, "f: ", 3) != 0
            || strstr(err.text, cases[i].text) == NULL)
        {
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text,
                     cases[i].text);
        }

        free(p);
    }
}


/* any byte may be cut off or changed: no bad access (ASan), no success with
   another end */

static void
test_damage(void **state)
{
    size_t              i, size;
    mst_err_t           err;
    unsigned char      *copy, *p;
    mst_safetensors_t  *s;

    (void) state;

    p = file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
                "[0,8]}}", 8, &size);

    for (i = 0; i < size; i++) {
        copy = malloc(i ? i : 1);
        assert_non_null(copy);
        memcpy(copy, p, i);
        err.text[0] = '\0';
        assert_null(mst_safetensors_open_memory(copy, i, "f", &err));
        assert_true(err.text[0] != '\0');
        free(copy);
    }

    for (i = 0; i < 8 * size; i++) {
        p[i / 8] ^= (unsigned char) (1 << i % 8);
        s = mst_safetensors_open_memory(p, size, "f", NULL);
        mst_safetensors_close(s);
        p[i / 8] ^= (unsigned char) (1 << i % 8);
    }

    free(p);
}


/* lists that no tensor needs: refused before a tree is made of them */

static void
test_bloat(void **state)
{
    char       *header;
    void       *p;
    size_t      i, k, size;
    mst_err_t   err;

    static const struct {
        const char  *first;
        const char  *unit;
        const char  *last;
    } cases[] = {
        { "{\"a\":[[]", ",[]", "]}" },
        { "{\"a\":[{}", ",{}", "]}" },
        { "{\"a\":[1", ",1", "]}" },
        { "{\"a\":0", ",\"a\":0", "}" },
        { "{\"a\":{\"b\":[[1", ",\"]\\\"\"", "]]}}" }
    };

    (void) state;

    header = malloc(12 << 20);
    assert_non_null(header);

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        k = strlen(cases[i].first);
        memcpy(header, cases[i].first, k);

        while (k < (11 << 20)) {
            memcpy(header + k, cases[i].unit, strlen(cases[i].unit));
            k += strlen(cases[i].unit);
        }

        (void) strcpy(header + k, cases[i].last);

        err.text[0] = '\0';
        p = file_of(header, 0, &size);
        assert_null(mst_safetensors_open_memory(p, size, "F", &err));
        assert_non_null(strstr(err.text, "F: its header is no list of at "
                               "most 131072 tensors: byte "));
        free(p);
    }

    free(header);
}


static void
test_files(void **state)
{
    int                 fds[2];
    char                name[] = "/tmp/mst_safetensors_XXXXXX";
    int                 fd;
    size_t              size;
    mst_err_t           err = { "" };
    unsigned char      *p;
    mst_safetensors_t  *s;

    (void) state;

    p = file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
                "[0,8]}}", 8, &size);
    fd = mkstemp(name);
    assert_true(fd != -1);
    assert_null(mst_safetensors_open_fd(fd, "f", &err));
    assert_string_equal(err.text, "f: empty, or no regular file");
    assert_int_equal(write(fd, p, size), size);
    s = mst_safetensors_open_fd(fd, "f", &err);
    assert_non_null(s);
    (void) close(fd);
    (void) unlink(name);
    assert_int_equal(mst_safetensors_tensor_at(s, 0)->size, 8);
    mst_safetensors_close(s);
    mst_safetensors_close(NULL);

    assert_int_equal(pipe(fds), 0);
    assert_null(mst_safetensors_open_fd(fds[0], "f", NULL));
    (void) close(fds[0]);
    (void) close(fds[1]);
    free(p);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_bloat),
        cmocka_unit_test(test_files)
    };

    return cmocka_run_group_tests_name("mst_safetensors", tests, NULL, NULL);
}


/*
 * Damaged files: each yields one sentence and no bad access.  Every file is
 * read where it ends at a page that may not be touched.  Cut files and changed
 * bytes: mst_gguf_cut_test.c.
 */

#include <time.h>

#include "guard.h"
#include "mst_gguf_build.h"


static void
matrix(build_t *b, const char *name, uint64_t in, uint64_t out, uint32_t type,
    uint64_t offset)
{
    uint64_t  dims[2];

    dims[0] = in;
    dims[1] = out;

    build_entry(b, name, 2, dims, type, offset);
}


static void
bad_version_1(build_t *b)
{
    b->version = 1;
}


static void
bad_version_4(build_t *b)
{
    b->version = 4;
}


static void
bad_endian(build_t *b)
{
    b->version = 0x03000000;
}


static void
bad_key_count(build_t *b)
{
    b->n_keys = 65537;
}


static void
bad_key_count_huge(build_t *b)
{
    b->n_keys = UINT64_MAX;
}


static void
bad_key_count_size(build_t *b)
{
    b->n_keys = 1000;
}


static void
bad_tensor_count(build_t *b)
{
    b->n_tensors = 65537;
}


static void
bad_tensor_count_size(build_t *b)
{
    b->n_tensors = 400;
}


static void
bad_key_empty(build_t *b)
{
    build_u32(b, "", 1);
}


static void
bad_key_long(build_t *b)
{
    char  *name;

    name = malloc(65537);
    assert_non_null(name);
    memset(name, 'k', 65536);
    name[65536] = '\0';

    build_u32(b, name, 1);
    free(name);
}


static void
bad_key_length(build_t *b)
{
    build_le(&b->keys, UINT64_MAX, 8);
    build_le(&b->keys, 0, 8);
    b->n_keys++;
}


static void
bad_key_twice(build_t *b)
{
    build_u32(b, "same.key", 1);
    build_u32(b, "other", 1);
    build_string(b, "same.key", "x");
}


static void
bad_type(build_t *b)
{
    build_number(b, "key", 13, 0, 8);
}


static void
bad_type_huge(build_t *b)
{
    build_number(b, "key", 0x80000001, 0, 8);
}


static void
bad_bool(build_t *b)
{
    build_number(b, "flag", MST_GGUF_BOOL, 2, 1);
}


static void
bad_string_length(build_t *b)
{
    build_key(b, "text", MST_GGUF_STRING);
    build_le(&b->keys, 1ull << 40, 8);
}


static void
bad_array_nested(build_t *b)
{
    build_array(b, "nest", MST_GGUF_ARRAY, 1);
    build_le(&b->keys, MST_GGUF_U8, 4);
    build_le(&b->keys, 0, 8);
}


static void
bad_array_type(build_t *b)
{
    build_array(b, "arr", 99, 1);
    build_le(&b->keys, 0, 8);
}


static void
bad_array_count(build_t *b)
{
    build_array(b, "arr", MST_GGUF_U64, 1000000);
}


static void
bad_array_overflow(build_t *b)
{
    build_array(b, "arr", MST_GGUF_U64, 1ull << 61);
}


static void
bad_array_bool(build_t *b)
{
    build_array(b, "arr", MST_GGUF_BOOL, 2);
    build_le(&b->keys, 0x0701, 2);
}


static void
bad_array_strings(build_t *b)
{
    build_array(b, "arr", MST_GGUF_STRING, UINT64_MAX);
    build_text(&b->keys, "one");
}


static void
bad_align_zero(build_t *b)
{
    build_u32(b, "general.alignment", 0);
}


static void
bad_align_odd(build_t *b)
{
    build_u32(b, "general.alignment", 48);
}


static void
bad_align_small(build_t *b)
{
    build_u32(b, "general.alignment", 4);
}


static void
bad_align_huge(build_t *b)
{
    build_number(b, "general.alignment", MST_GGUF_U64, 1ull << 63, 8);
}


static void
bad_align_type(build_t *b)
{
    build_string(b, "general.alignment", "32");
}


static void
bad_tensor_empty(build_t *b)
{
    matrix(b, "", 32, 1, MST_TYPE_F32, 0);
}


static void
bad_tensor_long(build_t *b)
{
    matrix(b, "tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt"
           "t", 32, 1, MST_TYPE_F32, 0);
}


static void
bad_tensor_twice(build_t *b)
{
    matrix(b, "twin", 8, 1, MST_TYPE_F32, 0);
    matrix(b, "w\n", 8, 1, MST_TYPE_F32, 0);
    matrix(b, "twin", 32, 1, MST_TYPE_Q4_0, 0);
}


static void
bad_dims_none(build_t *b)
{
    build_entry(b, "t", 0, NULL, MST_TYPE_F32, 0);
    build_le(&b->tensors, 0, 8);
}


static void
bad_dims_many(build_t *b)
{
    uint64_t  dims[5] = { 1, 1, 1, 1, 1 };

    build_entry(b, "t", 5, dims, MST_TYPE_F32, 0);
}


static void
bad_dims_zero(build_t *b)
{
    matrix(b, "t", 32, 0, MST_TYPE_F32, 0);
}


static void
bad_dims_overflow(build_t *b)
{
    matrix(b, "t", 1ull << 32, 1ull << 32, MST_TYPE_F32, 0);
}


static void
bad_dims_sign(build_t *b)
{
    matrix(b, "t", 1ull << 62, 2, 16, 0);
}


static void
bad_dims_bytes(build_t *b)
{
    matrix(b, "t", 1ull << 62, 1, MST_TYPE_F32, 0);
}


static void
bad_row(build_t *b)
{
    matrix(b, "t", 48, 2, MST_TYPE_Q4_1, 0);
}


static void
bad_offset_odd(build_t *b)
{
    matrix(b, "t", 8, 1, MST_TYPE_F32, 16);
}


static void
bad_offset_outside(build_t *b)
{
    matrix(b, "t", 8, 1, MST_TYPE_F32, 96);
}


static void
bad_offset_huge(build_t *b)
{
    matrix(b, "t", 8, 1, MST_TYPE_F32, UINT64_MAX - 31);
}


static void
bad_end(build_t *b)
{
    matrix(b, "t", 17, 1, MST_TYPE_F32, 32);
}


static void
bad_unknown_outside(build_t *b)
{
    matrix(b, "t", 256, 1, 16, 4096);
}


static void
bad_escape(build_t *b)
{
    build_number(b, "a\nb\x1b[0m\xc3\xa9", 200, 0, 8);
}


/* '#' in the pattern is any number; the text may go on behind it */

static int
begins(const char *text, const char *pattern)
{
    for ( /* void */ ; *pattern; pattern++) {
        if (*pattern == '#') {
            if (*text < '0' || *text > '9') {
                return 0;
            }

            text += strspn(text, "0123456789");

        } else if (*text++ != *pattern) {
            return 0;
        }
    }

    return 1;
}


/* every case is added to a file that holds 96 bytes of data */

static void
test_damaged(void **state)
{
    char        *p;
    size_t       i, mapped;
    build_t      b;
    mst_err_t    err;
    mst_gguf_t  *g;

    static const struct {
        void        (*damage)(build_t *b);
        const char   *text;        /* behind the file's name */
    } cases[] = {
        { bad_version_1, "GGUF version 1, supported are 2 and 3" },
        { bad_version_4, "GGUF version 4, supported are 2 and 3" },
        { bad_endian, "a big-endian GGUF file, which is not supported" },
        { bad_key_count, "65537 keys and 1 tensors, limits are 65536 and "
          "65536" },
        { bad_key_count_huge, "18446744073709551615 keys and 1 tensors, "
          "limits are 65536 and 65536" },
        { bad_key_count_size, "1000 keys and 1 tensors cannot fit into the "
          "file of # bytes" },
        { bad_tensor_count, "1 keys and 65537 tensors, limits are 65536 and "
          "65536" },
        { bad_tensor_count_size, "1 keys and 400 tensors cannot fit into the "
          "file of # bytes" },
        { bad_key_empty, "key 1 has a name of 0 bytes, limits are 1 and "
          "65535" },
        { bad_key_long, "key 1 has a name of 65536 bytes, limits are 1 and "
          "65535" },
        { bad_key_length, "the file ends after # bytes, inside key 1, which "
          "needs 18446744073709551615 more at byte #" },
        { bad_key_twice, "key \"same.key\" is there twice" },
        { bad_type, "key \"key\" has type 13, known are 0 to 12" },
        { bad_type_huge, "key \"key\" has type 2147483649, known are 0 to "
          "12" },
        { bad_bool, "key \"flag\" is a bool of value 2" },
        { bad_string_length, "the file ends after # bytes, inside key "
          "\"text\", which needs 1099511627776 more at byte #" },
        { bad_array_nested, "key \"nest\" is an array of arrays, which is "
          "not supported" },
        { bad_array_type, "key \"arr\" is an array of type 99, known are 0 to "
          "12" },
        { bad_array_count, "the file ends after # bytes, inside key "
          "\"arr\", which needs 8000000 more at byte #" },
        { bad_array_overflow, "the file ends after # bytes, inside key "
          "\"arr\", which needs 18446744073709551615 more at byte #" },
        { bad_array_bool, "key \"arr\" is a bool of value 7" },
        { bad_array_strings, "the file ends after # bytes, inside key "
          "\"arr\", which needs " },
        { bad_align_zero, "general.alignment is 0, a power of two from 8 to "
          "65536 is needed" },
        { bad_align_odd, "general.alignment is 48, a power of two from 8 to "
          "65536 is needed" },
        { bad_align_small, "general.alignment is 4, a power of two from 8 to "
          "65536 is needed" },
        { bad_align_huge, "general.alignment is 9223372036854775808, a power "
          "of two from 8 to 65536 is needed" },
        { bad_align_type, "general.alignment has type STRING, an integer is "
          "needed" },
        { bad_tensor_empty, "tensor 1 has a name of 0 bytes, limits are 1 and "
          "64" },
        { bad_tensor_long, "tensor 1 has a name of 65 bytes, limits are 1 and "
          "64" },
        { bad_tensor_twice, "tensor \"twin\" is there twice" },
        { bad_dims_none, "tensor \"t\" has 0 dimensions, limits are 1 and "
          "4" },
        { bad_dims_many, "tensor \"t\" has 5 dimensions, limits are 1 and "
          "4" },
        { bad_dims_zero, "tensor \"t\": dimension 1 is 0" },
        { bad_dims_overflow, "tensor \"t\" has more than 2^63 elements" },
        { bad_dims_sign, "tensor \"t\" has more than 2^63 elements" },
        { bad_dims_bytes, "tensor \"t\" has more than 2^64 bytes" },
        { bad_row, "tensor \"t\": a row of 48 elements is no multiple of 32, "
          "the block of Q4_1" },
        { bad_offset_odd, "tensor \"t\": offset 16 is no multiple of the "
          "alignment 32" },
        { bad_offset_outside, "tensor \"t\": 32 bytes at offset 96 of the "
          "data end behind the file of " },
        { bad_offset_huge, "tensor \"t\": 32 bytes at offset "
          "18446744073709551584 of the data end behind the file of " },
        { bad_end, "tensor \"t\": 68 bytes at offset 32 of the data end "
          "behind the file of " },
        { bad_unknown_outside, "tensor \"t\": 0 bytes at offset 4096 of the "
          "data end behind the file of " },
        { bad_escape, "key \"a?b?[0m??\" has type 200, known are 0 to 12" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        build_init(&b);
        build_string(&b, "first", "");
        matrix(&b, "data", 24, 1, MST_TYPE_F32, 0);

        while (b.data.len < 96) {
            build_le(&b.data, 0, 1);
        }

        cases[i].damage(&b);
        build_file(&b);
        err.text[0] = '\0';

        p = guard(b.file.data, b.file.len, &mapped);
        g = mst_gguf_open_memory(p, b.file.len, "f", &err);

        assert_null(g);
        assert_null(mst_gguf_open_memory(p, b.file.len, "f", NULL));

        if (!begins(err.text, "f: ") || !begins(err.text + 3, cases[i].text)) {
            fail_msg("case %zu: \"%s\", expected \"%s\"", i, err.text,
                     cases[i].text);
        }

        unguard(p, b.file.len, mapped);
        build_fini(&b);
    }
}


static void
test_version_2(void **state)
{
    build_t      b;
    uint64_t     v;
    mst_err_t    err = { "" };
    mst_gguf_t  *g;

    (void) state;

    build_init(&b);
    b.version = 2;
    build_u32(&b, "k", 9);
    g = build_open(&b);

    assert_int_equal(mst_gguf_uint(g, "k", &v, &err), MST_OK);
    assert_int_equal(v, 9);

    mst_gguf_close(g);
    build_fini(&b);
}


static uint64_t
cpu_ms(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);

    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}


/* as many keys and tensors as are allowed, in the worst order: not slow */

static void
test_limits(void **state)
{
    char         name[32];
    uint32_t     i;
    build_t      b;
    uint64_t     v, start;
    mst_err_t    err = { "" };
    mst_gguf_t  *g;

    (void) state;

    build_init(&b);

    for (i = 0; i < 65536; i++) {
        (void) snprintf(name, sizeof(name), "the.same.beginning.%u",
                        65535 - i);
        build_number(&b, name, MST_GGUF_U16, 65535 - i, 2);
        matrix(&b, name, 8, 1, MST_TYPE_F32, 0);
    }

    build_le(&b.data, 0, 32);

    build_file(&b);

    /* of this thread's own time: whoever else is busy here */

    start = cpu_ms();
    g = build_open(&b);
    start = cpu_ms() - start;

    if (start > 5000) {
        fail_msg("65536 keys took %llu ms of CPU time",
                 (unsigned long long) start);
    }

    for (i = 0; i < 65536; i += 97) {
        (void) snprintf(name, sizeof(name), "the.same.beginning.%u", i);
        assert_int_equal(mst_gguf_uint(g, name, &v, &err), MST_OK);
        assert_int_equal(v, i);
        assert_ptr_equal(mst_gguf_tensor(g, name),
                         mst_gguf_tensor_at(g, 65535 - i));
    }

    mst_gguf_close(g);
    build_fini(&b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_limits)
    };

    return cmocka_run_group_tests_name("mst_gguf_parse", tests, NULL, NULL);
}


/*
 * A good file that is cut at every length, has bytes of it changed, or is read
 * where memory fails: one sentence or a file that can be read to its end, and
 * no bad access.
 */

#include "guard.h"
#include "mst_gguf_build.h"
#include "base/mst_mem.h"


/* a small file with everything in it, which ends with its last tensor */

static void
whole(build_t *b)
{
    int  i;

    build_init(b);
    build_u32(b, "general.alignment", 32);
    build_string(b, "general.architecture", "llama");
    build_number(b, "flag", MST_GGUF_BOOL, 1, 1);
    build_number(b, "byte", MST_GGUF_I8, 0xff, 1);
    build_number(b, "double", MST_GGUF_F64, 0x3ff0000000000000, 8);
    build_array(b, "numbers", MST_GGUF_I16, 3);
    build_le(&b->keys, 0x0003fffe0001, 6);
    build_array(b, "strings", MST_GGUF_STRING, 3);

    for (i = 0; i < 3; i++) {
        build_text(&b->keys, i == 1 ? "" : "word");
    }

    build_array(b, "flags", MST_GGUF_BOOL, 2);
    build_le(&b->keys, 0x0001, 2);
    build_tensor(b, "token_embd.weight", MST_TYPE_Q8_0, 64, 3);
    build_tensor(b, "norm", MST_TYPE_F32, 9, 0);
    build_tensor(b, "w", MST_TYPE_Q4_1, 32, 2);
    build_file(b);
}


static void
test_truncated(void **state)
{
    char        *p;
    size_t       n, mapped;
    build_t      b;
    mst_err_t    err;
    mst_gguf_t  *g;

    (void) state;

    whole(&b);

    for (n = 0; n <= b.file.len; n++) {
        err.text[0] = '\0';

        p = guard(b.file.data, n, &mapped);
        g = mst_gguf_open_memory(p, n, "f", &err);

        if (n < b.file.len) {
            assert_null(g);
            assert_int_equal(strncmp(err.text, "f: ", 3), 0);

        } else {
            assert_non_null(g);
            mst_gguf_close(g);
        }

        unguard(p, n, mapped);
    }

    build_fini(&b);
}


/* reads all that the file says is there */

static uint64_t
read_all(const mst_gguf_t *g)
{
    size_t                i, k;
    double                d;
    uint64_t              sum, v;
    mst_str_t             s;
    mst_gguf_array_t      a;
    const mst_tensor_t   *t;
    const unsigned char  *p;

    static const char *const  keys[] = {
        "general.alignment", "general.architecture", "flag", "byte", "double",
        "numbers", "strings", "flags"
    };

    sum = 0;

    for (i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        sum += (uint64_t) mst_gguf_uint(g, keys[i], &v, NULL);
        sum += (uint64_t) mst_gguf_float(g, keys[i], &d, NULL);

        if (mst_gguf_string(g, keys[i], &s, NULL) == MST_OK) {
            for (k = 0; k < s.len; k++) {
                sum += (uint64_t) s.data[k];
            }
        }

        if (mst_gguf_array(g, keys[i], &a, NULL) != MST_OK) {
            continue;
        }

        if (a.type != MST_GGUF_STRING) {
            for (k = 0; k < a.n; k++) {
                sum += mst_gguf_number(&a, k) > 1;
            }

            continue;
        }

        while (mst_gguf_next_string(&a, &s) == MST_OK) {
            for (k = 0; k < s.len; k++) {
                sum += (uint64_t) s.data[k];
            }
        }
    }

    for (i = 0; i < mst_gguf_n_tensors(g); i++) {
        t = mst_gguf_tensor_at(g, i);
        p = t->data;

        for (k = 0; k < t->size; k++) {
            sum += p[k];
        }
    }

    return sum;
}


/* every byte of the file replaced: a sentence, or a file that can be read */

static void
test_flipped(void **state)
{
    char            *p, old;
    size_t           i, k, mapped, opened, refused;
    build_t          b;
    uint64_t         sum;
    mst_err_t        err;
    mst_gguf_t      *g;

    static const unsigned char  xors[] = {
        0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff, 0x7f
    };

    (void) state;

    whole(&b);
    p = guard(b.file.data, b.file.len, &mapped);
    opened = refused = 0;
    sum = 0;

    for (i = 0; i < b.file.len; i++) {
        for (k = 0; k < sizeof(xors); k++) {
            err.text[0] = '\0';
            old = p[i];
            p[i] = (char) (old ^ (char) xors[k]);

            g = mst_gguf_open_memory(p, b.file.len, "f", &err);

            if (g != NULL) {
                sum += read_all(g);
                mst_gguf_close(g);
                opened++;

            } else {
                assert_true(strlen(err.text) > 10);
                assert_null(strchr(err.text, '\n'));
                refused++;
            }

            p[i] = old;
        }
    }

    assert_true(opened > 100);
    assert_true(refused > 100);
    assert_true(sum > 0);

    unguard(p, b.file.len, mapped);
    build_fini(&b);
}


static void
test_memory(void **state)
{
    long         n;
    build_t      b;
    mst_err_t    err;
    mst_gguf_t  *g;

    (void) state;

    whole(&b);

    for (n = 1; n < 100; n++) {
        err.text[0] = '\0';

        mst_mem_fail_after(n);
        g = mst_gguf_open_memory(b.file.data, b.file.len, "f", &err);
        mst_mem_fail_after(0);

        if (g != NULL) {
            break;
        }

        assert_non_null(strstr(err.text, "f: no memory "));
    }

    assert_in_range(n, 5, 20);

    mst_gguf_close(g);
    build_fini(&b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_gguf_cut", tests, NULL, NULL);
}

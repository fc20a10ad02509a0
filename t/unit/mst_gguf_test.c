
/*
 * Opening, and the values of keys, arrays and tensors.
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mst_gguf_build.h"
#include "base/mst_mem.h"

#define MODEL  "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"


static void
test_integers(void **state)
{
    size_t       i;
    build_t      b;
    uint64_t     v;
    mst_err_t    err;
    mst_gguf_t  *g;

    static const struct {
        const char  *key;
        uint32_t     type;
        size_t       size;
        uint64_t     bits;
        int          rc;
        uint64_t     value;
    } cases[] = {
        { "u8", MST_GGUF_U8, 1, 255, MST_OK, 255 },
        { "u16", MST_GGUF_U16, 2, 65535, MST_OK, 65535 },
        { "u32", MST_GGUF_U32, 4, UINT32_MAX, MST_OK, UINT32_MAX },
        { "u64", MST_GGUF_U64, 8, UINT64_MAX, MST_OK, UINT64_MAX },
        { "i8", MST_GGUF_I8, 1, 127, MST_OK, 127 },
        { "i16", MST_GGUF_I16, 2, 32767, MST_OK, 32767 },
        { "i32", MST_GGUF_I32, 4, INT32_MAX, MST_OK, INT32_MAX },
        { "i64", MST_GGUF_I64, 8, INT64_MAX, MST_OK, INT64_MAX },
        { "i8-", MST_GGUF_I8, 1, 0xff, MST_ERROR, 0 },
        { "i16-", MST_GGUF_I16, 2, 0x8000, MST_ERROR, 0 },
        { "i32-", MST_GGUF_I32, 4, 0xfffffff9, MST_ERROR, 0 },
        { "i64-", MST_GGUF_I64, 8, UINT64_MAX, MST_ERROR, 0 },
        { "f32", MST_GGUF_F32, 4, 0, MST_ERROR, 0 },
        { "bool", MST_GGUF_BOOL, 1, 1, MST_ERROR, 0 }
    };

    (void) state;

    build_init(&b);

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        build_number(&b, cases[i].key, cases[i].type, cases[i].bits,
                     cases[i].size);
    }

    g = build_open(&b);

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        err.text[0] = '\0';
        v = 77;

        assert_int_equal(mst_gguf_uint(g, cases[i].key, &v, &err),
                         cases[i].rc);

        if (cases[i].rc == MST_OK) {
            assert_int_equal(v, cases[i].value);
            assert_string_equal(err.text, "");

        } else {
            assert_int_equal(v, 77);
        }
    }

    err.text[0] = '\0';
    (void) mst_gguf_uint(g, "i32-", &v, &err);
    assert_string_equal(err.text, "test.gguf: i32- is -7, below 0");

    err.text[0] = '\0';
    (void) mst_gguf_uint(g, "f32", &v, &err);
    assert_string_equal(err.text,
                        "test.gguf: f32 has type F32, an integer is needed");

    err.text[0] = '\0';
    assert_int_equal(mst_gguf_uint(g, "u", &v, &err), MST_DECLINED);
    assert_int_equal(mst_gguf_uint(g, "", &v, &err), MST_DECLINED);
    assert_string_equal(err.text, "");
    assert_int_equal(mst_gguf_uint(g, "i8-", &v, NULL), MST_ERROR);

    mst_gguf_close(g);
    build_fini(&b);
}


/* each accessor against a value of each kind */

static void
test_kinds(void **state)
{
    int                i, k, rc, flag;
    double             d;
    build_t            b;
    uint64_t           u;
    mst_str_t          s;
    mst_err_t          err;
    mst_gguf_t        *g;
    mst_gguf_array_t   a;

    static const char *const  keys[] = {
        "int", "float", "double", "bool", "string", "array"
    };
    static const int  fits[5][6] = {
        { 1, 0, 0, 0, 0, 0 },
        { 0, 1, 1, 0, 0, 0 },
        { 0, 0, 0, 1, 0, 0 },
        { 0, 0, 0, 0, 1, 0 },
        { 0, 0, 0, 0, 0, 1 }
    };

    (void) state;

    build_init(&b);
    build_u32(&b, "int", 5);
    build_f32(&b, "float", 0.5f);
    build_number(&b, "double", MST_GGUF_F64, 0xbfd0000000000000, 8);
    build_number(&b, "bool", MST_GGUF_BOOL, 1, 1);
    build_string(&b, "string", "text");
    build_array(&b, "array", MST_GGUF_U8, 0);
    g = build_open(&b);

    for (i = 0; i < 5; i++) {
        for (k = 0; k < 6; k++) {
            err.text[0] = '\0';

            switch (i) {
            case 0:
                rc = mst_gguf_uint(g, keys[k], &u, &err);
                break;
            case 1:
                rc = mst_gguf_float(g, keys[k], &d, &err);
                break;
            case 2:
                rc = mst_gguf_bool(g, keys[k], &flag, &err);
                break;
            case 3:
                rc = mst_gguf_string(g, keys[k], &s, &err);
                break;
            default:
                rc = mst_gguf_array(g, keys[k], &a, &err);
            }

            assert_int_equal(rc, fits[i][k] ? MST_OK : MST_ERROR);
            assert_int_equal(err.text[0] == '\0', fits[i][k]);
        }
    }

    assert_int_equal(mst_gguf_float(g, "float", &d, &err), MST_OK);
    assert_true(d == 0.5);
    assert_int_equal(mst_gguf_float(g, "double", &d, &err), MST_OK);
    assert_true(d == -0.25);
    assert_int_equal(flag, 1);
    assert_true(mst_str_eq(s, "text"));
    assert_int_equal(a.n, 0);

    assert_int_equal(mst_gguf_float(g, "no", &d, &err), MST_DECLINED);
    assert_int_equal(mst_gguf_bool(g, "no", &flag, &err), MST_DECLINED);
    assert_int_equal(mst_gguf_string(g, "no", &s, &err), MST_DECLINED);
    assert_int_equal(mst_gguf_array(g, "no", &a, &err), MST_DECLINED);

    mst_gguf_close(g);
    build_fini(&b);
}


static void
test_arrays(void **state)
{
    size_t             i;
    build_t            b;
    mst_str_t          s;
    mst_err_t          err = { "" };
    mst_gguf_t        *g;
    mst_gguf_array_t   a, copy;

    static const struct {
        const char  *key;
        uint32_t     type;
        size_t       size;
        uint64_t     bits[3];
        double       values[3];
    } cases[] = {
        { "u8", MST_GGUF_U8, 1, { 0, 1, 255 }, { 0, 1, 255 } },
        { "i8", MST_GGUF_I8, 1, { 0, 127, 128 }, { 0, 127, -128 } },
        { "u16", MST_GGUF_U16, 2, { 0, 1, 65535 }, { 0, 1, 65535 } },
        { "i16", MST_GGUF_I16, 2, { 5, 1, 65535 }, { 5, 1, -1 } },
        { "u32", MST_GGUF_U32, 4, { 0, 7, UINT32_MAX }, { 0, 7, 4294967295. } },
        { "i32", MST_GGUF_I32, 4, { 0, 7, UINT32_MAX }, { 0, 7, -1 } },
        { "u64", MST_GGUF_U64, 8, { 0, 7, 1ull << 63 }, { 0, 7, 0x1p63 } },
        { "i64", MST_GGUF_I64, 8, { 0, 7, 1ull << 63 }, { 0, 7, -0x1p63 } },
        { "f32", MST_GGUF_F32, 4, { 0, 0x3f800000, 0xc0200000 },
          { 0, 1, -2.5 } },
        { "f64", MST_GGUF_F64, 8,
          { 0, 0x3ff0000000000000, 0xc004000000000000 }, { 0, 1, -2.5 } },
        { "bool", MST_GGUF_BOOL, 1, { 0, 1, 1 }, { 0, 1, 1 } }
    };

    (void) state;

    build_init(&b);

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        build_array(&b, cases[i].key, cases[i].type, 3);
        build_le(&b.keys, cases[i].bits[0], cases[i].size);
        build_le(&b.keys, cases[i].bits[1], cases[i].size);
        build_le(&b.keys, cases[i].bits[2], cases[i].size);
    }

    build_array(&b, "s", MST_GGUF_STRING, 3);
    build_text(&b.keys, "one");
    build_text(&b.keys, "");
    build_text(&b.keys, "three");
    build_array(&b, "none", MST_GGUF_STRING, 0);

    g = build_open(&b);

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(mst_gguf_array(g, cases[i].key, &a, &err), MST_OK);
        assert_int_equal(a.n, 3);
        assert_int_equal(a.type, cases[i].type);
        assert_int_equal(a.end - a.data, 3 * cases[i].size);
        assert_true(mst_gguf_number(&a, 0) == cases[i].values[0]);
        assert_true(mst_gguf_number(&a, 1) == cases[i].values[1]);
        assert_true(mst_gguf_number(&a, 2) == cases[i].values[2]);
        assert_int_equal(mst_gguf_next_string(&a, &s), MST_DONE);
    }

    assert_int_equal(mst_gguf_array(g, "s", &a, &err), MST_OK);
    assert_int_equal(a.n, 3);
    copy = a;

    assert_int_equal(mst_gguf_next_string(&a, &s), MST_OK);
    assert_true(mst_str_eq(s, "one"));
    assert_int_equal(mst_gguf_next_string(&a, &s), MST_OK);
    assert_true(mst_str_eq(s, ""));
    assert_int_equal(mst_gguf_next_string(&a, &s), MST_OK);
    assert_true(mst_str_eq(s, "three"));
    assert_int_equal(mst_gguf_next_string(&a, &s), MST_DONE);
    assert_int_equal(mst_gguf_next_string(&a, &s), MST_DONE);

    /* the walk is the copy's, not the file's */

    assert_int_equal(mst_gguf_next_string(&copy, &s), MST_OK);
    assert_true(mst_str_eq(s, "one"));

    assert_int_equal(mst_gguf_array(g, "none", &a, &err), MST_OK);
    assert_int_equal(mst_gguf_next_string(&a, &s), MST_DONE);

    mst_gguf_close(g);
    build_fini(&b);
}


static void
test_tensors(void **state)
{
    build_t              b;
    uint64_t             dims[] = { 4, 3, 2, 5 };
    mst_gguf_t          *g;
    const mst_tensor_t  *t;

    (void) state;

    build_init(&b);
    b.align = 64;
    build_u32(&b, "general.alignment", 64);
    build_tensor(&b, "z", MST_TYPE_Q4_1, 64, 3);
    build_tensor(&b, "a", MST_TYPE_F32, 5, 0);
    build_tensor(&b, "strange", 16, 256, 2);
    build_entry(&b, "deep", 4, dims, MST_TYPE_F16, 0);
    build_le(&b.data, 0, 8);

    while (b.data.len < 512) {
        build_le(&b.data, 0, 1);
    }

    b.data.data[0] = 'Z';
    b.data.data[128] = 'A';
    g = build_open(&b);

    assert_int_equal(mst_gguf_n_tensors(g), 4);
    assert_string_equal(mst_gguf_name(g), "test.gguf");
    assert_int_equal(mst_gguf_size(g), b.file.len);

    t = mst_gguf_tensor(g, "z");
    assert_ptr_equal(t, mst_gguf_tensor_at(g, 0));
    assert_true(mst_str_eq(t->name, "z"));
    assert_int_equal(t->type, MST_TYPE_Q4_1);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 64);
    assert_int_equal(t->dims[1], 3);
    assert_int_equal(t->dims[2], 1);
    assert_int_equal(t->dims[3], 1);
    assert_int_equal(t->size, 120);
    assert_int_equal(*(const char *) t->data, 'Z');

    t = mst_gguf_tensor(g, "a");
    assert_ptr_equal(t, mst_gguf_tensor_at(g, 1));
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->dims[1], 1);
    assert_int_equal(t->size, 20);
    assert_int_equal(*(const char *) t->data, 'A');

    /* a type that nobody decodes is there, without data */

    t = mst_gguf_tensor(g, "strange");
    assert_int_equal(t->type, 16);
    assert_null(t->data);
    assert_int_equal(t->size, 0);

    t = mst_gguf_tensor(g, "deep");
    assert_int_equal(t->n_dims, 4);
    assert_int_equal(t->dims[3], 5);
    assert_int_equal(t->size, 240);

    assert_null(mst_gguf_tensor(g, "b"));
    assert_null(mst_gguf_tensor(g, ""));

    mst_gguf_close(g);
    build_fini(&b);

    build_init(&b);
    g = build_open(&b);
    assert_int_equal(mst_gguf_n_tensors(g), 0);
    assert_null(mst_gguf_tensor(g, "a"));
    mst_gguf_close(g);
    build_fini(&b);
}


static void
expect_open(const char *path, const char *text)
{
    mst_err_t  err = { "" };

    assert_null(mst_gguf_open(path, &err));
    assert_string_equal(err.text, text);
    assert_null(mst_gguf_open(path, NULL));
}


static void
test_open(void **state)
{
    int          fd;
    char         dir[] = "/tmp/mst_gguf.XXXXXX", path[64], text[128];
    build_t      b;
    uint64_t     v;
    mst_err_t    err = { "" };
    mst_gguf_t  *g;

    (void) state;

    assert_non_null(mkdtemp(dir));

    snprintf(path, sizeof(path), "%s/f", dir);
    snprintf(text, sizeof(text),
             "%s: cannot be opened: No such file or directory", path);
    expect_open(path, text);

    snprintf(text, sizeof(text), "%s: no regular file", dir);
    expect_open(dir, text);

    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(text, sizeof(text), "%s: no regular file", path);
    expect_open(path, text);
    assert_int_equal(unlink(path), 0);

    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd != -1);
    snprintf(text, sizeof(text), "%s: the file is empty", path);
    expect_open(path, text);

    build_init(&b);
    build_u32(&b, "answer", 42);
    build_file(&b);
    assert_int_equal(write(fd, b.file.data, b.file.len), b.file.len);
    build_fini(&b);

    g = mst_gguf_open(path, &err);
    assert_non_null(g);
    assert_string_equal(mst_gguf_name(g), path);
    mst_gguf_close(g);

    g = mst_gguf_open_fd(fd, "by number", &err);
    assert_non_null(g);
    assert_int_equal(close(fd), 0);            /* the caller's own, still */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mst_gguf_uint(g, "answer", &v, &err), MST_OK);
    assert_int_equal(v, 42);
    assert_string_equal(mst_gguf_name(g), "by number");
    mst_gguf_close(g);

    assert_null(mst_gguf_open_fd(-1, "nothing", &err));
    assert_string_equal(err.text,
                        "nothing: fstat() failed: Bad file descriptor");

    mst_gguf_close(NULL);
    assert_int_equal(rmdir(dir), 0);
}


/* a name with control characters must not forge a line of a log */

static void
test_show(void **state)
{
    char  buf[MST_GGUF_SHOW];
    char  name[100];

    (void) state;

    assert_string_equal(mst_gguf_show(buf, mst_str("a\nb\0\xff~ ", 7)),
                        "a?b??~ ");
    assert_string_equal(mst_gguf_show(buf, mst_str("", 0)), "");

    memset(name, 'x', sizeof(name));
    assert_int_equal(strlen(mst_gguf_show(buf, mst_str(name, 68))), 68);
    assert_int_equal(strlen(mst_gguf_show(buf, mst_str(name, 69))), 71);
    assert_string_equal(mst_gguf_show(buf, mst_str(name, 100)) + 68, "...");
}


static void
test_model(void **state)
{
    uint64_t             v;
    mst_err_t            err = { "" };
    mst_gguf_t          *g;
    mst_gguf_array_t     a;
    const mst_tensor_t  *t;

    (void) state;

    g = mst_gguf_open(MODEL, &err);

    if (g == NULL) {
        fail_msg("%s (see \"make model\")", err.text);
    }

    assert_int_equal(mst_gguf_size(g), 98362432);
    assert_int_equal(mst_gguf_n_tensors(g), 272);
    assert_int_equal(mst_gguf_uint(g, "llama.block_count", &v, &err), MST_OK);
    assert_int_equal(v, 30);
    assert_int_equal(mst_gguf_array(g, "tokenizer.ggml.merges", &a, &err),
                     MST_OK);
    assert_int_equal(a.n, 48900);

    t = mst_gguf_tensor(g, "token_embd.weight");
    assert_non_null(t);
    assert_int_equal(t->type, MST_TYPE_Q8_0);
    assert_int_equal(t->dims[0], 576);
    assert_int_equal(t->dims[1], 49152);

    mst_gguf_close(g);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_model)
    };

    return cmocka_run_group_tests_name("mst_gguf", tests, NULL, NULL);
}

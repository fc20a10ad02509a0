
/*
 * Hand-built GGUF files for tests: metadata and tensors are appended to
 * parts of their own, build_file() puts the parts together.
 */

#ifndef MST_GGUF_BUILD_H
#define MST_GGUF_BUILD_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_buf.h"
#include "file/mst_gguf.h"


typedef struct {
    mst_buf_t  keys;
    mst_buf_t  tensors;
    mst_buf_t  data;
    mst_buf_t  file;
    uint64_t   n_keys;
    uint64_t   n_tensors;
    uint32_t   version;
    uint64_t   align;          /* of the data; the key is the test's */
} build_t;


static inline void
build_init(build_t *b)
{
    memset(b, 0, sizeof(build_t));

    b->version = 3;
    b->align = 32;
}


static inline void
build_fini(build_t *b)
{
    mst_buf_fini(&b->keys);
    mst_buf_fini(&b->tensors);
    mst_buf_fini(&b->data);
    mst_buf_fini(&b->file);
}


static inline void
build_le(mst_buf_t *to, uint64_t v, size_t n)
{
    for ( /* void */ ; n; n--) {
        assert_int_equal(mst_buf_char(to, (char) (v & 0xff)), MST_OK);
        v >>= 8;
    }
}


static inline void
build_text(mst_buf_t *to, const char *text)
{
    build_le(to, strlen(text), 8);
    assert_int_equal(mst_buf_text(to, text), MST_OK);
}


/* a key without its value, which the caller appends to b->keys */

static inline void
build_key(build_t *b, const char *key, uint32_t type)
{
    build_text(&b->keys, key);
    build_le(&b->keys, type, 4);
    b->n_keys++;
}


static inline void
build_number(build_t *b, const char *key, uint32_t type, uint64_t v, size_t n)
{
    build_key(b, key, type);
    build_le(&b->keys, v, n);
}


static inline void
build_u32(build_t *b, const char *key, uint32_t v)
{
    build_number(b, key, MST_GGUF_U32, v, 4);
}


static inline void
build_f32(build_t *b, const char *key, float f)
{
    uint32_t  u;

    memcpy(&u, &f, sizeof(u));
    build_number(b, key, MST_GGUF_F32, u, 4);
}


static inline void
build_string(build_t *b, const char *key, const char *value)
{
    build_key(b, key, MST_GGUF_STRING);
    build_text(&b->keys, value);
}


/* the head of an array; n elements follow */

static inline void
build_array(build_t *b, const char *key, uint32_t type, uint64_t n)
{
    build_key(b, key, MST_GGUF_ARRAY);
    build_le(&b->keys, type, 4);
    build_le(&b->keys, n, 8);
}


/* the entry of a tensor alone */

static inline void
build_entry(build_t *b, const char *name, uint32_t n_dims,
    const uint64_t *dims, uint32_t type, uint64_t offset)
{
    uint32_t  d;

    build_text(&b->tensors, name);
    build_le(&b->tensors, n_dims, 4);

    for (d = 0; d < n_dims; d++) {
        build_le(&b->tensors, dims[d], 8);
    }

    build_le(&b->tensors, type, 4);
    build_le(&b->tensors, offset, 8);
    b->n_tensors++;
}


/* a vector (out = 0) or matrix of zeros behind what is there */

static inline void
build_tensor(build_t *b, const char *name, uint32_t type, uint64_t in,
    uint64_t out)
{
    uint64_t                dims[2], size;
    const mst_type_info_t  *info;

    while (b->data.len % b->align) {
        build_le(&b->data, 0, 1);
    }

    dims[0] = in;
    dims[1] = out;

    build_entry(b, name, out ? 2 : 1, dims, type, b->data.len);

    info = mst_type_info(type);
    size = info ? in / info->block * info->size * (out ? out : 1) : 8;

    build_le(&b->data, 0, (size_t) size);
}


static inline void
build_file(build_t *b)
{
    mst_buf_t  *f;

    f = &b->file;
    mst_buf_reset(f);

    build_le(f, 0x46554747, 4);
    build_le(f, b->version, 4);
    build_le(f, b->n_tensors, 8);
    build_le(f, b->n_keys, 8);

    assert_int_equal(mst_buf_append(f, b->keys.data, b->keys.len), MST_OK);
    assert_int_equal(mst_buf_append(f, b->tensors.data, b->tensors.len),
                     MST_OK);

    while (f->len % b->align) {
        build_le(f, 0, 1);
    }

    assert_int_equal(mst_buf_append(f, b->data.data, b->data.len), MST_OK);
}


/* the file, which must be good */

static inline mst_gguf_t *
build_open(build_t *b)
{
    mst_err_t    err = { "" };
    mst_gguf_t  *g;

    build_file(b);
    g = mst_gguf_open_memory(b->file.data, b->file.len, "test.gguf", &err);

    if (g == NULL) {
        fail_msg("%s", err.text);
    }

    return g;
}


#endif /* MST_GGUF_BUILD_H */

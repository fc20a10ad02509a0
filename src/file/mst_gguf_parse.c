
/*
 * The head of a GGUF file to tables: see mst_gguf.h.
 *
 * One pass with a cursor that never leaves the file.  Keys and tensors are
 * found by binary search in sorted tables rather than by hash, so that no
 * choice of names makes opening quadratic, and equal names become
 * neighbours.  Counts are held against the bytes that so many entries need
 * at least before anything is allocated for them.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "file/mst_gguf_parse.h"

#define MST_GGUF_MAX_KEYS     65536
#define MST_GGUF_MAX_TENSORS  65536
#define MST_GGUF_KEY_LEN      65535    /* bytes of a key; the format's limit */
#define MST_GGUF_NAME_LEN     64       /* bytes of a tensor's name; too */
#define MST_GGUF_KEY_MIN      14       /* bytes of the smallest entry */
#define MST_GGUF_TENSOR_MIN   33
#define MST_GGUF_ALIGN        32       /* where general.alignment is absent */
#define MST_GGUF_ALIGN_MIN    8
#define MST_GGUF_ALIGN_MAX    65536
#define MST_GGUF_TYPES        (MST_GGUF_F64 + 1)


typedef struct {
    mst_gguf_t           *g;
    const unsigned char  *p;       /* next byte */
    const unsigned char  *end;
    char                  where[MST_GGUF_SHOW + 16];  /* for messages */
} mst_gguf_cursor_t;


const uint8_t  mst_gguf_sizes[MST_GGUF_F64 + 1] = {
    1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8
};


int
mst_gguf_error(const mst_gguf_t *g, mst_err_t *err, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) mst_err_vset(err, g->name, fmt, args);
    va_end(args);

    return MST_ERROR;
}


const char *
mst_gguf_show(char *buf, mst_str_t s)
{
    size_t  i, n;

    n = s.len < MST_GGUF_SHOW - 4 ? s.len : MST_GGUF_SHOW - 4;

    for (i = 0; i < n; i++) {
        buf[i] = (s.data[i] >= ' ' && s.data[i] <= '~') ? s.data[i] : '?';
    }

    (void) strcpy(buf + n, n < s.len ? "..." : "");

    return buf;
}


uint64_t
mst_gguf_le(const unsigned char *p, size_t n)
{
    uint64_t  v;

    for (v = 0; n; n--) {
        v = v << 8 | p[n - 1];
    }

    return v;
}


static const unsigned char *
mst_gguf_take(mst_gguf_cursor_t *c, uint64_t n, mst_err_t *err)
{
    const unsigned char  *p;

    if (n > (uint64_t) (c->end - c->p)) {
        (void) mst_gguf_error(c->g, err, "the file ends after %zu bytes, "
                              "inside %s, which needs %llu more at byte %zu",
                              c->g->size, c->where, (unsigned long long) n,
                              (size_t) (c->p - c->g->data));
        return NULL;
    }

    p = c->p;
    c->p += n;

    return p;
}


static int
mst_gguf_take_uint(mst_gguf_cursor_t *c, size_t n, uint64_t *v,
    mst_err_t *err)
{
    const unsigned char  *p;

    p = mst_gguf_take(c, n, err);
    if (p == NULL) {
        return MST_ERROR;
    }

    *v = mst_gguf_le(p, n);

    return MST_OK;
}


static int
mst_gguf_take_string(mst_gguf_cursor_t *c, mst_str_t *s, mst_err_t *err)
{
    uint64_t              n;
    const unsigned char  *p;

    if (mst_gguf_take_uint(c, 8, &n, err) != MST_OK) {
        return MST_ERROR;
    }

    p = mst_gguf_take(c, n, err);
    if (p == NULL) {
        return MST_ERROR;
    }

    *s = mst_str((const char *) p, (size_t) n);

    return MST_OK;
}


/* a string of 1 .. max bytes */

static int
mst_gguf_take_name(mst_gguf_cursor_t *c, mst_str_t *s, size_t max,
    mst_err_t *err)
{
    if (mst_gguf_take_string(c, s, err) != MST_OK) {
        return MST_ERROR;
    }

    if (s->len == 0 || s->len > max) {
        return mst_gguf_error(c->g, err, "%s has a name of %zu bytes, "
                              "limits are 1 and %zu", c->where, s->len, max);
    }

    return MST_OK;
}


static int
mst_gguf_check_bools(mst_gguf_cursor_t *c, const unsigned char *p, uint64_t n,
    mst_err_t *err)
{
    uint64_t  i;

    for (i = 0; i < n; i++) {
        if (p[i] > 1) {
            return mst_gguf_error(c->g, err, "%s is a bool of value %u",
                                  c->where, p[i]);
        }
    }

    return MST_OK;
}


static int
mst_gguf_parse_array(mst_gguf_cursor_t *c, mst_gguf_array_t *a,
    mst_err_t *err)
{
    uint64_t   type, size, i;
    mst_str_t  s;

    if (mst_gguf_take_uint(c, 4, &type, err) != MST_OK
        || mst_gguf_take_uint(c, 8, &a->n, err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (type == MST_GGUF_ARRAY) {
        return mst_gguf_error(c->g, err, "%s is an array of arrays, which is "
                              "not supported", c->where);
    }

    if (type >= MST_GGUF_TYPES) {
        return mst_gguf_error(c->g, err, "%s is an array of type %llu, known "
                              "are 0 to %d", c->where,
                              (unsigned long long) type, MST_GGUF_TYPES - 1);
    }

    a->type = (mst_gguf_type_t) type;
    a->data = c->p;

    if (type == MST_GGUF_STRING) {
        for (i = 0; i < a->n; i++) {
            if (mst_gguf_take_string(c, &s, err) != MST_OK) {
                return MST_ERROR;
            }
        }

    } else {
        if (__builtin_mul_overflow(a->n, mst_gguf_sizes[type], &size)) {
            size = UINT64_MAX;
        }

        if (mst_gguf_take(c, size, err) == NULL) {
            return MST_ERROR;
        }

        if (type == MST_GGUF_BOOL
            && mst_gguf_check_bools(c, a->data, a->n, err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    a->end = c->p;

    return MST_OK;
}


static int
mst_gguf_parse_key(mst_gguf_cursor_t *c, mst_gguf_key_t *k, size_t i,
    mst_err_t *err)
{
    char      show[MST_GGUF_SHOW];
    uint64_t  type;

    (void) snprintf(c->where, sizeof(c->where), "key %zu", i);

    if (mst_gguf_take_name(c, &k->key, MST_GGUF_KEY_LEN, err) != MST_OK) {
        return MST_ERROR;
    }

    (void) snprintf(c->where, sizeof(c->where), "key \"%s\"",
                    mst_gguf_show(show, k->key));

    if (mst_gguf_take_uint(c, 4, &type, err) != MST_OK) {
        return MST_ERROR;
    }

    if (type >= MST_GGUF_TYPES) {
        return mst_gguf_error(c->g, err, "%s has type %llu, known are 0 to "
                              "%d", c->where, (unsigned long long) type,
                              MST_GGUF_TYPES - 1);
    }

    k->type = (mst_gguf_type_t) type;

    if (type == MST_GGUF_STRING) {
        return mst_gguf_take_string(c, &k->string, err);
    }

    if (type == MST_GGUF_ARRAY) {
        return mst_gguf_parse_array(c, &k->array, err);
    }

    k->value = mst_gguf_take(c, mst_gguf_sizes[type], err);
    if (k->value == NULL) {
        return MST_ERROR;
    }

    if (type == MST_GGUF_BOOL) {
        return mst_gguf_check_bools(c, k->value, 1, err);
    }

    return MST_OK;
}


/* the bytes of all elements, or MST_ERROR with a sentence */

static int
mst_gguf_tensor_size(mst_gguf_cursor_t *c, mst_tensor_t *t, mst_err_t *err)
{
    uint32_t                d;
    uint64_t                n;
    const mst_type_info_t  *info;

    for (n = 1, d = 0; d < t->n_dims; d++) {

        if (t->dims[d] == 0) {
            return mst_gguf_error(c->g, err, "%s: dimension %u is 0",
                                  c->where, d);
        }

        if (__builtin_mul_overflow(n, t->dims[d], &n) || n > INT64_MAX) {
            return mst_gguf_error(c->g, err, "%s has more than 2^63 elements",
                                  c->where);
        }
    }

    info = mst_type_info(t->type);

    if (info == NULL) {
        t->size = 0;
        return MST_OK;
    }

    if (t->dims[0] % info->block) {
        return mst_gguf_error(c->g, err, "%s: a row of %llu elements is no "
                              "multiple of %u, the block of %s", c->where,
                              (unsigned long long) t->dims[0], info->block,
                              info->name);
    }

    if (__builtin_mul_overflow(n / info->block, info->size, &t->size)) {
        return mst_gguf_error(c->g, err, "%s has more than 2^64 bytes",
                              c->where);
    }

    return MST_OK;
}


static int
mst_gguf_parse_tensor(mst_gguf_cursor_t *c, mst_tensor_t *t,
    uint64_t *offset, size_t i, mst_err_t *err)
{
    char      show[MST_GGUF_SHOW];
    uint32_t  d;
    uint64_t  v;

    (void) snprintf(c->where, sizeof(c->where), "tensor %zu", i);

    if (mst_gguf_take_name(c, &t->name, MST_GGUF_NAME_LEN, err) != MST_OK) {
        return MST_ERROR;
    }

    (void) snprintf(c->where, sizeof(c->where), "tensor \"%s\"",
                    mst_gguf_show(show, t->name));

    if (mst_gguf_take_uint(c, 4, &v, err) != MST_OK) {
        return MST_ERROR;
    }

    if (v == 0 || v > MST_TENSOR_DIMS) {
        return mst_gguf_error(c->g, err, "%s has %llu dimensions, limits are "
                              "1 and %d", c->where, (unsigned long long) v,
                              MST_TENSOR_DIMS);
    }

    t->n_dims = (uint32_t) v;

    for (d = 0; d < MST_TENSOR_DIMS; d++) {
        t->dims[d] = 1;

        if (d < t->n_dims
            && mst_gguf_take_uint(c, 8, &t->dims[d], err) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_gguf_take_uint(c, 4, &v, err) != MST_OK
        || mst_gguf_take_uint(c, 8, offset, err) != MST_OK)
    {
        return MST_ERROR;
    }

    t->type = (uint32_t) v;

    return mst_gguf_tensor_size(c, t, err);
}


static int
mst_gguf_place_tensor(mst_gguf_t *g, mst_tensor_t *t, uint64_t start,
    uint64_t offset, uint64_t align, mst_err_t *err)
{
    char      show[MST_GGUF_SHOW];
    uint64_t  end;

    if (offset % align) {
        return mst_gguf_error(g, err, "tensor \"%s\": offset %llu is no "
                              "multiple of the alignment %llu",
                              mst_gguf_show(show, t->name),
                              (unsigned long long) offset,
                              (unsigned long long) align);
    }

    if (__builtin_add_overflow(start, offset, &start)
        || __builtin_add_overflow(start, t->size, &end)
        || end > g->size)
    {
        return mst_gguf_error(g, err, "tensor \"%s\": %llu bytes at offset "
                              "%llu of the data end behind the file of %zu "
                              "bytes", mst_gguf_show(show, t->name),
                              (unsigned long long) t->size,
                              (unsigned long long) offset, g->size);
    }

    t->data = mst_type_info(t->type) ? g->data + start : NULL;

    return MST_OK;
}


int
mst_gguf_compare(const void *one, const void *two)
{
    int               rc;
    size_t            n;
    const mst_str_t  *a, *b;

    a = *(const mst_str_t *const *) one;
    b = *(const mst_str_t *const *) two;

    n = a->len < b->len ? a->len : b->len;
    rc = memcmp(a->data, b->data, n);

    if (rc) {
        return rc;
    }

    return (a->len > b->len) - (a->len < b->len);
}


/* a sorted table over n structs of "size" bytes that begin with a name */

static const mst_str_t **
mst_gguf_sort(mst_gguf_t *g, const void *first, size_t n, size_t size,
    const char *what, mst_err_t *err)
{
    char              show[MST_GGUF_SHOW];
    size_t            i;
    const mst_str_t **index;

    index = mst_calloc(n, sizeof(*index));

    if (index == NULL) {
        (void) mst_gguf_error(g, err, "no memory for %zu %ss", n, what);
        return NULL;
    }

    for (i = 0; i < n; i++) {
        index[i] = (const mst_str_t *)
                       (const void *) ((const char *) first + i * size);
    }

    qsort(index, n, sizeof(*index), mst_gguf_compare);

    for (i = 1; i < n; i++) {
        if (mst_gguf_compare(&index[i - 1], &index[i]) == 0) {
            (void) mst_gguf_error(g, err, "%s \"%s\" is there twice", what,
                                  mst_gguf_show(show, *index[i]));
            mst_free(index);
            return NULL;
        }
    }

    return index;
}


static int
mst_gguf_parse_head(mst_gguf_cursor_t *c, mst_err_t *err)
{
    uint64_t              version, n_keys, n_tensors, left;
    const unsigned char  *magic;

    (void) strcpy(c->where, "the header");

    magic = mst_gguf_take(c, 4, err);
    if (magic == NULL) {
        return MST_ERROR;
    }

    if (memcmp(magic, "GGUF", 4) != 0) {
        return mst_gguf_error(c->g, err, "no GGUF file: begins with bytes "
                              "%02x %02x %02x %02x", magic[0], magic[1],
                              magic[2], magic[3]);
    }

    if (mst_gguf_take_uint(c, 4, &version, err) != MST_OK) {
        return MST_ERROR;
    }

    if (version != 0 && (version & 0xffff) == 0) {
        return mst_gguf_error(c->g, err, "a big-endian GGUF file, which is "
                              "not supported");
    }

    if (version != 2 && version != 3) {
        return mst_gguf_error(c->g, err, "GGUF version %llu, supported are 2 "
                              "and 3", (unsigned long long) version);
    }

    if (mst_gguf_take_uint(c, 8, &n_tensors, err) != MST_OK
        || mst_gguf_take_uint(c, 8, &n_keys, err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (n_keys > MST_GGUF_MAX_KEYS || n_tensors > MST_GGUF_MAX_TENSORS) {
        return mst_gguf_error(c->g, err, "%llu keys and %llu tensors, limits "
                              "are %d and %d", (unsigned long long) n_keys,
                              (unsigned long long) n_tensors,
                              MST_GGUF_MAX_KEYS, MST_GGUF_MAX_TENSORS);
    }

    left = (uint64_t) (c->end - c->p);

    if (n_keys * MST_GGUF_KEY_MIN + n_tensors * MST_GGUF_TENSOR_MIN > left) {
        return mst_gguf_error(c->g, err, "%llu keys and %llu tensors cannot "
                              "fit into the file of %zu bytes",
                              (unsigned long long) n_keys,
                              (unsigned long long) n_tensors, c->g->size);
    }

    c->g->n_keys = (size_t) n_keys;
    c->g->n_tensors = (size_t) n_tensors;

    return MST_OK;
}


static int
mst_gguf_parse_keys(mst_gguf_cursor_t *c, mst_err_t *err)
{
    size_t       i;
    mst_gguf_t  *g;

    g = c->g;
    g->keys = mst_calloc(g->n_keys, sizeof(mst_gguf_key_t));

    if (g->keys == NULL) {
        return mst_gguf_error(g, err, "no memory for %zu keys", g->n_keys);
    }

    for (i = 0; i < g->n_keys; i++) {
        if (mst_gguf_parse_key(c, &g->keys[i], i, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    g->by_key = mst_gguf_sort(g, g->keys, g->n_keys, sizeof(mst_gguf_key_t),
                              "key", err);

    return g->by_key ? MST_OK : MST_ERROR;
}


static int
mst_gguf_alignment(const mst_gguf_t *g, uint64_t *align, mst_err_t *err)
{
    int  rc;

    *align = MST_GGUF_ALIGN;
    rc = mst_gguf_uint(g, "general.alignment", align, err);

    if (rc == MST_ERROR) {
        return rc;
    }

    if (*align < MST_GGUF_ALIGN_MIN || *align > MST_GGUF_ALIGN_MAX
        || (*align & (*align - 1)))
    {
        return mst_gguf_error(g, err, "general.alignment is %llu, a power of "
                              "two from %d to %d is needed",
                              (unsigned long long) *align,
                              MST_GGUF_ALIGN_MIN, MST_GGUF_ALIGN_MAX);
    }

    return MST_OK;
}


static int
mst_gguf_parse_tensors(mst_gguf_cursor_t *c, uint64_t *offsets,
    mst_err_t *err)
{
    size_t       i;
    uint64_t     align, start;
    mst_gguf_t  *g;

    g = c->g;

    if (mst_gguf_alignment(g, &align, err) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < g->n_tensors; i++) {
        if (mst_gguf_parse_tensor(c, &g->tensors[i], &offsets[i], i, err)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    start = (uint64_t) (c->p - g->data);
    start = (start + align - 1) & ~(align - 1);

    for (i = 0; i < g->n_tensors; i++) {
        if (mst_gguf_place_tensor(g, &g->tensors[i], start, offsets[i], align,
                                  err)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    g->by_name = mst_gguf_sort(g, g->tensors, g->n_tensors,
                               sizeof(mst_tensor_t), "tensor", err);

    return g->by_name ? MST_OK : MST_ERROR;
}


int
mst_gguf_parse(mst_gguf_t *g, mst_err_t *err)
{
    int                rc;
    uint64_t          *offsets;
    mst_gguf_cursor_t  c;

    c.g = g;
    c.p = g->data;
    c.end = g->data + g->size;

    if (mst_gguf_parse_head(&c, err) != MST_OK
        || mst_gguf_parse_keys(&c, err) != MST_OK)
    {
        return MST_ERROR;
    }

    g->tensors = mst_calloc(g->n_tensors, sizeof(mst_tensor_t));
    offsets = mst_calloc(g->n_tensors, sizeof(uint64_t));

    if (g->tensors == NULL || offsets == NULL) {
        rc = mst_gguf_error(g, err, "no memory for %zu tensors",
                            g->n_tensors);
    } else {
        rc = mst_gguf_parse_tensors(&c, offsets, err);
    }

    mst_free(offsets);

    return rc;
}

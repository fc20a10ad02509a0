
/*
 * GGUF files: opening and looking up; see mst_gguf.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "file/mst_gguf_parse.h"


static const char *const  mst_gguf_type_names[] = {
    "U8", "I8", "U16", "I16", "U32", "I32", "F32", "BOOL", "STRING", "ARRAY",
    "U64", "I64", "F64"
};


const char *
mst_gguf_name(const mst_gguf_t *g)
{
    return g->name;
}


uint64_t
mst_gguf_size(const mst_gguf_t *g)
{
    return g->size;
}


/* the struct that begins with this name, or NULL */

static const void *
mst_gguf_find(const mst_str_t *const *index, size_t n, const char *name)
{
    mst_str_t                s;
    const mst_str_t         *p;
    const mst_str_t *const  *found;

    s = mst_str(name, strlen(name));
    p = &s;

    found = n ? bsearch(&p, index, n, sizeof(*index), mst_gguf_compare)
              : NULL;

    return found ? *found : NULL;
}


static const mst_gguf_key_t *
mst_gguf_key(const mst_gguf_t *g, const char *key)
{
    return mst_gguf_find(g->by_key, g->n_keys, key);
}


static int
mst_gguf_mismatch(const mst_gguf_t *g, const mst_gguf_key_t *k,
    const char *wanted, mst_err_t *err)
{
    char  show[MST_GGUF_SHOW];

    return mst_gguf_error(g, err, "%s has type %s, %s is needed",
                          mst_gguf_show(show, k->key),
                          mst_gguf_type_names[k->type], wanted);
}


static int
mst_gguf_is_signed(mst_gguf_type_t type)
{
    return type == MST_GGUF_I8 || type == MST_GGUF_I16 || type == MST_GGUF_I32
           || type == MST_GGUF_I64;
}


static int64_t
mst_gguf_signed(const unsigned char *p, mst_gguf_type_t type)
{
    int  shift;

    shift = 64 - 8 * mst_gguf_sizes[type];

    return (int64_t) (mst_gguf_le(p, mst_gguf_sizes[type]) << shift) >> shift;
}


/* a number of any type */

static double
mst_gguf_double(const unsigned char *p, mst_gguf_type_t type)
{
    float     f;
    double    d;
    uint32_t  u;
    uint64_t  v;

    if (mst_gguf_is_signed(type)) {
        return (double) mst_gguf_signed(p, type);
    }

    v = mst_gguf_le(p, mst_gguf_sizes[type]);

    if (type == MST_GGUF_F32) {
        u = (uint32_t) v;
        memcpy(&f, &u, sizeof(f));
        return (double) f;
    }

    if (type == MST_GGUF_F64) {
        memcpy(&d, &v, sizeof(d));
        return d;
    }

    return (double) v;
}


int
mst_gguf_uint(const mst_gguf_t *g, const char *key, uint64_t *value,
    mst_err_t *err)
{
    int64_t                v;
    const mst_gguf_key_t  *k;

    k = mst_gguf_key(g, key);
    if (k == NULL) {
        return MST_DECLINED;
    }

    switch (k->type) {

    case MST_GGUF_U8:
    case MST_GGUF_U16:
    case MST_GGUF_U32:
    case MST_GGUF_U64:
        *value = mst_gguf_le(k->value, mst_gguf_sizes[k->type]);
        return MST_OK;

    case MST_GGUF_I8:
    case MST_GGUF_I16:
    case MST_GGUF_I32:
    case MST_GGUF_I64:
        v = mst_gguf_signed(k->value, k->type);

        if (v < 0) {
            return mst_gguf_error(g, err, "%s is %lld, below 0", key,
                                  (long long) v);
        }

        *value = (uint64_t) v;
        return MST_OK;

    default:
        return mst_gguf_mismatch(g, k, "an integer", err);
    }
}


int
mst_gguf_float(const mst_gguf_t *g, const char *key, double *value,
    mst_err_t *err)
{
    const mst_gguf_key_t  *k;

    k = mst_gguf_key(g, key);
    if (k == NULL) {
        return MST_DECLINED;
    }

    if (k->type != MST_GGUF_F32 && k->type != MST_GGUF_F64) {
        return mst_gguf_mismatch(g, k, "F32 or F64", err);
    }

    *value = mst_gguf_double(k->value, k->type);

    return MST_OK;
}


int
mst_gguf_bool(const mst_gguf_t *g, const char *key, int *value,
    mst_err_t *err)
{
    const mst_gguf_key_t  *k;

    k = mst_gguf_key(g, key);
    if (k == NULL) {
        return MST_DECLINED;
    }

    if (k->type != MST_GGUF_BOOL) {
        return mst_gguf_mismatch(g, k, "BOOL", err);
    }

    *value = k->value[0];

    return MST_OK;
}


int
mst_gguf_string(const mst_gguf_t *g, const char *key, mst_str_t *value,
    mst_err_t *err)
{
    const mst_gguf_key_t  *k;

    k = mst_gguf_key(g, key);
    if (k == NULL) {
        return MST_DECLINED;
    }

    if (k->type != MST_GGUF_STRING) {
        return mst_gguf_mismatch(g, k, "STRING", err);
    }

    *value = k->string;

    return MST_OK;
}


int
mst_gguf_array(const mst_gguf_t *g, const char *key, mst_gguf_array_t *value,
    mst_err_t *err)
{
    const mst_gguf_key_t  *k;

    k = mst_gguf_key(g, key);
    if (k == NULL) {
        return MST_DECLINED;
    }

    if (k->type != MST_GGUF_ARRAY) {
        return mst_gguf_mismatch(g, k, "ARRAY", err);
    }

    *value = k->array;

    return MST_OK;
}


int
mst_gguf_next_string(mst_gguf_array_t *a, mst_str_t *s)
{
    if (a->type != MST_GGUF_STRING || a->data == a->end) {
        return MST_DONE;
    }

    s->len = (size_t) mst_gguf_le(a->data, 8);
    s->data = (const char *) a->data + 8;

    a->data += 8 + s->len;

    return MST_OK;
}


double
mst_gguf_number(const mst_gguf_array_t *a, uint64_t i)
{
    return mst_gguf_double(a->data + i * mst_gguf_sizes[a->type], a->type);
}


size_t
mst_gguf_n_tensors(const mst_gguf_t *g)
{
    return g->n_tensors;
}


const mst_tensor_t *
mst_gguf_tensor_at(const mst_gguf_t *g, size_t i)
{
    return &g->tensors[i];
}


const mst_tensor_t *
mst_gguf_tensor(const mst_gguf_t *g, const char *name)
{
    return mst_gguf_find(g->by_name, g->n_tensors, name);
}


mst_gguf_t *
mst_gguf_open(const char *path, mst_err_t *err)
{
    int          fd;
    mst_gguf_t  *g;

    /* O_NONBLOCK: a FIFO must be refused, not waited for */

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd == -1) {
        (void) mst_err_errno(err, errno, "%s: cannot be opened", path);
        return NULL;
    }

    g = mst_gguf_open_fd(fd, path, err);

    (void) close(fd);

    return g;
}


mst_gguf_t *
mst_gguf_open_fd(int fd, const char *name, mst_err_t *err)
{
    void         *data;
    mst_gguf_t   *g;
    struct stat   st;

    if (fstat(fd, &st) == -1) {
        (void) mst_err_errno(err, errno, "%s: fstat() failed", name);
        return NULL;
    }

    if (!S_ISREG(st.st_mode)) {
        (void) mst_err_set(err, "%s: no regular file", name);
        return NULL;
    }

    if (st.st_size == 0) {
        (void) mst_err_set(err, "%s: the file is empty", name);
        return NULL;
    }

    data = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

    if (data == MAP_FAILED) {
        (void) mst_err_errno(err, errno, "%s: cannot be mapped", name);
        return NULL;
    }

    g = mst_gguf_open_memory(data, (size_t) st.st_size, name, err);

    if (g == NULL) {
        (void) munmap(data, (size_t) st.st_size);
        return NULL;
    }

    g->mapped = 1;

    return g;
}


mst_gguf_t *
mst_gguf_open_memory(const void *data, size_t size, const char *name,
    mst_err_t *err)
{
    size_t       n;
    mst_gguf_t  *g;

    n = strlen(name) + 1;
    g = mst_calloc(1, sizeof(mst_gguf_t));

    if (g == NULL || (g->name = mst_alloc(n)) == NULL) {
        (void) mst_err_set(err, "%s: no memory to open it", name);
        mst_gguf_close(g);
        return NULL;
    }

    memcpy(g->name, name, n);
    g->data = data;
    g->size = size;

    if (mst_gguf_parse(g, err) != MST_OK) {
        mst_gguf_close(g);
        return NULL;
    }

    return g;
}


void
mst_gguf_close(mst_gguf_t *g)
{
    if (g == NULL) {
        return;
    }

    if (g->mapped) {
        (void) munmap((void *) (uintptr_t) g->data, g->size);
    }

    mst_free(g->by_name);
    mst_free(g->by_key);
    mst_free(g->tensors);
    mst_free(g->keys);
    mst_free(g->name);
    mst_free(g);
}

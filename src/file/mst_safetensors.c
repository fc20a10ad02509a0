
/*
 * The safetensors reader: see mst_safetensors.h.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/mst_mem.h"
#include "file/mst_safetensors.h"

#define MST_SAFETENSORS_HEADER   100000000     /* bytes at most, by the
                                                  format */
#define MST_SAFETENSORS_TENSORS  (1 << 17)
#define MST_SAFETENSORS_DEPTH    3             /* of a shape */
#define MST_SAFETENSORS_LISTS    (3 * MST_SAFETENSORS_TENSORS + 2)
#define MST_SAFETENSORS_VALUES   (12 * MST_SAFETENSORS_TENSORS)
#define MST_SAFETENSORS_NAME     256           /* bytes */


struct mst_safetensors_s {
    char                 *name;    /* owned */
    const unsigned char  *data;    /* [size] the whole file */
    size_t                size;
    int                   mapped;  /* data is ours to unmap */
    json_t               *header;  /* names point into it */
    mst_tensor_t         *tensors; /* [n_tensors] in the order of their
                                      bytes */
    size_t                n_tensors;
};


typedef struct {
    const char  *name;
    uint32_t     type;             /* mst_type_t */
} mst_safetensors_type_t;


static const mst_safetensors_type_t  mst_safetensors_types[] = {
    { "F32", MST_TYPE_F32 },
    { "F16", MST_TYPE_F16 },
    { "BF16", MST_TYPE_BF16 }
};


static int mst_safetensors_error(const mst_safetensors_t *s, mst_err_t *err,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));


static int
mst_safetensors_error(const mst_safetensors_t *s, mst_err_t *err,
    const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) mst_err_vset(err, s->name, fmt, args);
    va_end(args);

    return MST_ERROR;
}


/* a name from the file, fit for a message */

static const char *
mst_safetensors_show(char *buf, size_t size, const char *name)
{
    size_t  i;

    for (i = 0; i < size - 1 && name[i]; i++) {
        buf[i] = (name[i] >= ' ' && name[i] <= '~') ? name[i] : '?';
    }

    buf[i] = '\0';

    return buf;
}


static int
mst_safetensors_type(const mst_safetensors_t *s, const char *show,
    const json_t *entry, mst_tensor_t *t, mst_err_t *err)
{
    char         type[24];
    size_t       i;
    const char  *dtype;

    dtype = json_string_value(json_object_get(entry, "dtype"));

    if (dtype == NULL) {
        return mst_safetensors_error(s, err, "tensor \"%s\" has no dtype",
                                     show);
    }

    for (i = 0;
         i < sizeof(mst_safetensors_types) / sizeof(*mst_safetensors_types);
         i++)
    {
        if (strcmp(dtype, mst_safetensors_types[i].name) == 0) {
            t->type = mst_safetensors_types[i].type;
            return MST_OK;
        }
    }

    return mst_safetensors_error(s, err, "tensor \"%s\" has dtype %s, which "
                                 "is not supported; F32, F16 and BF16 are",
                                 show, mst_safetensors_show(type, sizeof(type),
                                                            dtype));
}


/* dims and the number of elements */

static int
mst_safetensors_shape(const mst_safetensors_t *s, const char *show,
    const json_t *entry, mst_tensor_t *t, uint64_t *n, mst_err_t *err)
{
    size_t         i, n_dims;
    json_int_t     dim;
    const json_t  *shape, *value;

    shape = json_object_get(entry, "shape");
    n_dims = json_array_size(shape);

    if (!json_is_array(shape) || n_dims > MST_TENSOR_DIMS) {
        return mst_safetensors_error(s, err, "tensor \"%s\" has no shape of "
                                     "at most %d dimensions", show,
                                     MST_TENSOR_DIMS);
    }

    for (i = 0; i < MST_TENSOR_DIMS; i++) {
        t->dims[i] = 1;
    }

    *n = 1;

    for (i = 0; i < n_dims; i++) {
        value = json_array_get(shape, i);
        dim = json_is_integer(value) ? json_integer_value(value) : -1;

        if (dim < 0 || __builtin_mul_overflow(*n, (uint64_t) dim, n)) {
            return mst_safetensors_error(s, err, "tensor \"%s\": its shape is "
                                         "damaged or too large", show);
        }

        t->dims[n_dims - 1 - i] = (uint64_t) dim;
    }

    t->n_dims = n_dims ? (uint32_t) n_dims : 1;

    return MST_OK;
}


static int
mst_safetensors_place(const mst_safetensors_t *s, const char *show,
    const json_t *entry, uint64_t n, mst_tensor_t *t, mst_err_t *err)
{
    uint64_t       size, start;
    json_int_t     from, to;
    const json_t  *range, *a, *b;

    range = json_object_get(entry, "data_offsets");
    a = json_array_get(range, 0);
    b = json_array_get(range, 1);

    if (json_array_size(range) != 2 || !json_is_integer(a)
        || !json_is_integer(b))
    {
        return mst_safetensors_error(s, err, "tensor \"%s\" has no "
                                     "data_offsets of two numbers", show);
    }

    from = json_integer_value(a);
    to = json_integer_value(b);
    start = (uint64_t) ((const unsigned char *) t->data - s->data);

    if (from < 0 || to < from || (uint64_t) to > s->size - start) {
        return mst_safetensors_error(s, err, "tensor \"%s\" lies at bytes "
                                     "%lld to %lld of %llu: the file is cut "
                                     "off or its header is damaged", show,
                                     (long long) from, (long long) to,
                                     (unsigned long long) (s->size - start));
    }

    t->size = (uint64_t) (to - from);

    if (__builtin_mul_overflow(n, (uint64_t) mst_type_info(t->type)->size,
                               &size)
        || size != t->size)
    {
        return mst_safetensors_error(s, err, "tensor \"%s\" of %llu elements "
                                     "of type %s has %llu bytes", show,
                                     (unsigned long long) n,
                                     mst_type_name(t->type),
                                     (unsigned long long) t->size);
    }

    t->data = (const unsigned char *) t->data + from;

    return MST_OK;
}


/* "start": where the bytes begin */

static int
mst_safetensors_tensor(const mst_safetensors_t *s, const char *name,
    const json_t *entry, size_t start, mst_tensor_t *t, mst_err_t *err)
{
    char      show[72];
    uint64_t  n;

    (void) mst_safetensors_show(show, sizeof(show), name);

    n = 0;
    t->name = mst_str(name, strlen(name));
    t->data = s->data + start;

    if (t->name.len > MST_SAFETENSORS_NAME) {
        return mst_safetensors_error(s, err, "a tensor's name has %zu bytes, "
                                     "the limit is %d", t->name.len,
                                     MST_SAFETENSORS_NAME);
    }

    if (!json_is_object(entry)) {
        return mst_safetensors_error(s, err, "tensor \"%s\" is no object",
                                     show);
    }

    if (mst_safetensors_type(s, show, entry, t, err) != MST_OK
        || mst_safetensors_shape(s, show, entry, t, &n, err) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_safetensors_place(s, show, entry, n, t, err);
}


static int
mst_safetensors_compare(const void *one, const void *two)
{
    const mst_tensor_t  *a, *b;

    a = one;
    b = two;

    if (a->data != b->data) {
        return (uintptr_t) a->data < (uintptr_t) b->data ? -1 : 1;
    }

    return a->size < b->size ? -1 : a->size > b->size;
}


/* no holes and no shared bytes: a small file cannot ask for much memory */

static int
mst_safetensors_order(const mst_safetensors_t *s, size_t start, mst_err_t *err)
{
    char                  show[72];
    size_t                i;
    const mst_tensor_t   *t;
    const unsigned char  *end;

    qsort(s->tensors, s->n_tensors, sizeof(mst_tensor_t),
          mst_safetensors_compare);

    end = s->data + start;

    for (i = 0; i < s->n_tensors; i++) {
        t = &s->tensors[i];

        if (t->data != end) {
            return mst_safetensors_error(s, err, "tensor \"%s\" does not "
                                         "begin where the one before it ends",
                                         mst_safetensors_show(show,
                                             sizeof(show), t->name.data));
        }

        end += t->size;
    }

    if (end != s->data + s->size) {
        return mst_safetensors_error(s, err, "%llu bytes belong to no tensor",
                                     (unsigned long long)
                                     (s->data + s->size - end));
    }

    return MST_OK;
}


/*
 * One look at the bytes before a tree is made of them, whose memory may be
 * fifty times theirs.  What is no JSON is left to the parser.
 */

static int
mst_safetensors_scan(const mst_safetensors_t *s, const char *p, size_t len,
    mst_err_t *err)
{
    int       quoted;
    size_t    i;
    uint32_t  depth, lists, values;

    quoted = 0;
    depth = 0;
    lists = 0;
    values = 0;

    for (i = 0; i < len; i++) {

        if (p[i] == '"') {
            quoted = !quoted;

        } else if (quoted) {
            i += p[i] == '\\';

        } else if (p[i] == '{' || p[i] == '[') {
            depth++;
            lists++;

        } else if (p[i] == '}' || p[i] == ']') {
            depth -= depth != 0;

        } else if (p[i] == ',') {
            values++;
        }

        if (depth > MST_SAFETENSORS_DEPTH || lists > MST_SAFETENSORS_LISTS
            || values > MST_SAFETENSORS_VALUES)
        {
            return mst_safetensors_error(s, err, "its header is no list of at "
                                         "most %d tensors: byte %zu",
                                         MST_SAFETENSORS_TENSORS, i);
        }
    }

    return MST_OK;
}


static int
mst_safetensors_header(mst_safetensors_t *s, size_t *start, mst_err_t *err)
{
    int           i;
    uint64_t      len;
    json_error_t  e;

    if (s->size < 8) {
        return mst_safetensors_error(s, err, "%zu bytes are no safetensors "
                                     "file", s->size);
    }

    len = 0;

    for (i = 7; i >= 0; i--) {
        len = len << 8 | s->data[i];
    }

    if (len < 2 || len > MST_SAFETENSORS_HEADER || len > s->size - 8
        || s->data[8] != '{')
    {
        return mst_safetensors_error(s, err, "no header of a safetensors "
                                     "file, or one that is cut off (%llu "
                                     "bytes, the file has %zu)",
                                     (unsigned long long) len, s->size);
    }

    if (mst_safetensors_scan(s, (const char *) s->data + 8, (size_t) len, err)
        != MST_OK)
    {
        return MST_ERROR;
    }

    s->header = json_loadb((const char *) s->data + 8, (size_t) len,
                           JSON_REJECT_DUPLICATES, &e);

    if (!json_is_object(s->header)) {
        return mst_safetensors_error(s, err, "its header is no JSON object: "
                                     "%.120s", e.text);
    }

    *start = 8 + (size_t) len;

    return MST_OK;
}


static int
mst_safetensors_parse(mst_safetensors_t *s, mst_err_t *err)
{
    size_t       n, start;
    json_t      *entry;
    const char  *name;

    if (mst_safetensors_header(s, &start, err) != MST_OK) {
        return MST_ERROR;
    }

    n = json_object_size(s->header);

    if (n > MST_SAFETENSORS_TENSORS) {
        return mst_safetensors_error(s, err, "%zu tensors, the limit is %d",
                                     n, MST_SAFETENSORS_TENSORS);
    }

    s->tensors = mst_calloc(n ? n : 1, sizeof(mst_tensor_t));

    if (s->tensors == NULL) {
        return mst_safetensors_error(s, err, "no memory for %zu tensors", n);
    }

    json_object_foreach(s->header, name, entry) {

        if (strcmp(name, "__metadata__") == 0) {
            continue;
        }

        if (mst_safetensors_tensor(s, name, entry, start,
                                   &s->tensors[s->n_tensors], err)
            != MST_OK)
        {
            return MST_ERROR;
        }

        s->n_tensors++;
    }

    return mst_safetensors_order(s, start, err);
}


mst_safetensors_t *
mst_safetensors_open_memory(const void *data, size_t size, const char *name,
    mst_err_t *err)
{
    size_t              n;
    mst_safetensors_t  *s;

    n = strlen(name) + 1;
    s = mst_calloc(1, sizeof(mst_safetensors_t));

    if (s == NULL || (s->name = mst_alloc(n)) == NULL) {
        (void) mst_err_set(err, "%s: no memory to open it", name);
        mst_safetensors_close(s);
        return NULL;
    }

    memcpy(s->name, name, n);
    s->data = data;
    s->size = size;

    if (mst_safetensors_parse(s, err) != MST_OK) {
        mst_safetensors_close(s);
        return NULL;
    }

    return s;
}


mst_safetensors_t *
mst_safetensors_open_fd(int fd, const char *name, mst_err_t *err)
{
    void               *data;
    struct stat         st;
    mst_safetensors_t  *s;

    if (fstat(fd, &st) == -1) {
        (void) mst_err_errno(err, errno, "%s: fstat() failed", name);
        return NULL;
    }

    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        (void) mst_err_set(err, "%s: empty, or no regular file", name);
        return NULL;
    }

    data = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

    if (data == MAP_FAILED) {
        (void) mst_err_errno(err, errno, "%s: cannot be mapped", name);
        return NULL;
    }

    s = mst_safetensors_open_memory(data, (size_t) st.st_size, name, err);

    if (s == NULL) {
        (void) munmap(data, (size_t) st.st_size);
        return NULL;
    }

    s->mapped = 1;

    return s;
}


void
mst_safetensors_close(mst_safetensors_t *s)
{
    if (s == NULL) {
        return;
    }

    if (s->mapped) {
        (void) munmap((void *) (uintptr_t) s->data, s->size);
    }

    json_decref(s->header);
    mst_free(s->tensors);
    mst_free(s->name);
    mst_free(s);
}


uint64_t
mst_safetensors_size(const mst_safetensors_t *s)
{
    return s->size;
}


size_t
mst_safetensors_n_tensors(const mst_safetensors_t *s)
{
    return s->n_tensors;
}


const mst_tensor_t *
mst_safetensors_tensor_at(const mst_safetensors_t *s, size_t i)
{
    return &s->tensors[i];
}


/*
 * A random model of a given shape: see mistral_random.h.
 *
 * Matrices are uniform with a variance of 1 / inputs, so that activations
 * keep their size through any number of layers; norms are 1.  Each tensor
 * has its own stream of numbers.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "model/mst_config_file.h"
#include "tools/mistral_random.h"
#include "tools/mistral_random_local.h"


#define MISTRAL_RANDOM_CHUNK  (4u << 20)       /* elements at a time */


static int
mistral_random_read(mistral_random_t *r, const char *path)
{
    int  fd;

    fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd == -1) {
        return mst_err_errno(r->err, errno, "%s: cannot be opened", path);
    }

    r->text = mst_config_file_read(fd, path, &r->text_len, r->err);
    (void) close(fd);

    if (r->text == NULL) {
        return MST_ERROR;
    }

    return mst_config_file_parse(r->text, r->text_len, path, &r->names,
                                 &r->config, NULL, r->err);
}


static void
mistral_random_add(mistral_random_t *r, mst_weight_t role, uint32_t layer,
    uint32_t expert)
{
    mistral_random_tensor_t  t;

    if (!mst_weight_has(&r->config, role) || role == MST_WEIGHT_FREQS) {
        return;
    }

    t.role = role;
    t.layer = layer;
    t.expert = expert;
    t.type = r->type;

    mst_weight_shape(&r->config, role, &t.in, &t.out);

    /* vectors are F32 in GGUF; what does not split into blocks stays F16 */

    if (t.out == 0 && r->names == MST_NAMES_GGUF) {
        t.type = MST_TYPE_F32;

    } else if (t.in % mst_type_info(r->type)->block) {
        t.type = MST_TYPE_F16;
    }

    (void) mst_buf_append(&r->tensors, &t, sizeof(t));
}


/* every tensor that such a model has */

static int
mistral_random_list(mistral_random_t *r)
{
    uint32_t      l, e, n_experts;
    mst_weight_t  role;

    n_experts = r->config.n_experts ? r->config.n_experts : 1;

    for (role = 0; role < MST_WEIGHT_GLOBALS; role++) {
        mistral_random_add(r, role, 0, 0);
    }

    for (l = 0; l < r->config.n_layers; l++) {

        for (role = MST_WEIGHT_GLOBALS; role < MST_WEIGHT_LAYERS; role++) {
            mistral_random_add(r, role, l, 0);
        }

        for (e = 0; e < n_experts; e++) {

            for (role = MST_WEIGHT_LAYERS; role < MST_WEIGHTS; role++) {
                mistral_random_add(r, role, l, e);
            }
        }
    }

    return r->tensors.failed ? mst_err_set(r->err, "no memory") : MST_OK;
}


static int
mistral_random_write(mistral_random_t *r, const void *data, size_t n)
{
    ssize_t               done;
    const unsigned char  *p;

    for (p = data; n; p += done, n -= (size_t) done) {
        done = write(r->fd, p, n);

        if (done <= 0) {
            return mst_err_errno(r->err, errno, "%s: cannot be written",
                                 r->path);
        }
    }

    return MST_OK;
}


static int
mistral_random_data(mistral_random_t *r, const mistral_random_tensor_t *t,
    uint64_t number)
{
    float                   a;
    uint32_t                n;
    uint64_t                left, state;
    const mst_type_info_t  *info;

    info = mst_type_info(t->type);
    a = sqrtf(3.0f / (float) t->in);
    state = r->seed ^ (number + 1) * 0xd1342543de82ef95ull;

    for (left = mistral_random_elements(t); left; left -= n) {
        n = left < MISTRAL_RANDOM_CHUNK ? (uint32_t) left
                                        : MISTRAL_RANDOM_CHUNK;

        if (t->out) {
            mistral_random_values(t->type, &state, a, n, r->chunk);
        } else {
            mistral_random_ones(t->type, n, r->chunk);
        }

        if (mistral_random_write(r, r->chunk, n / info->block * info->size)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* head, then all tensors, each filled up to a multiple of "align" */

static int
mistral_random_file(mistral_random_t *r, size_t align)
{
    size_t                          i, n, pad;
    const mistral_random_tensor_t  *t;

    static const unsigned char  zeros[MISTRAL_RANDOM_ALIGN];

    if (r->head.failed) {
        return mst_err_set(r->err, "no memory");
    }

    r->fd = open(r->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (r->fd == -1) {
        return mst_err_errno(r->err, errno, "%s: cannot be created", r->path);
    }

    if (mistral_random_write(r, r->head.data, r->head.len) != MST_OK) {
        return MST_ERROR;
    }

    t = mistral_random_tensors(r, &n);

    for (i = 0; i < n; i++) {
        pad = (align - mistral_random_size(&t[i]) % align) % align;

        if (mistral_random_data(r, &t[i], i) != MST_OK
            || mistral_random_write(r, zeros, pad) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    i = (size_t) close(r->fd);
    r->fd = -1;

    return i == 0 ? MST_OK : mst_err_errno(r->err, errno,
                                           "%s: cannot be written", r->path);
}


static int
mistral_random_gguf(mistral_random_t *r, const char *out)
{
    r->names = MST_NAMES_GGUF;
    r->path = out;

    if (mistral_random_list(r) != MST_OK
        || mistral_random_head_gguf(r) != MST_OK)
    {
        return MST_ERROR;
    }

    return mistral_random_file(r, MISTRAL_RANDOM_ALIGN);
}


static int
mistral_random_safetensors(mistral_random_t *r, const char *out)
{
    int   mistral;
    char  path[PATH_MAX];

    if (mst_type_info(r->type)->block != 1) {
        (void) mst_err_set(r->err, "type %s is not written as safetensors, "
                           "bf16, f16 and f32 are", mst_type_name(r->type));
        return MST_DECLINED;
    }

    if (mistral_random_list(r) != MST_OK) {
        return MST_ERROR;
    }

    if (mkdir(out, 0755) == -1 && errno != EEXIST) {
        return mst_err_errno(r->err, errno, "%s: cannot be made", out);
    }

    mistral = r->names == MST_NAMES_MISTRAL;
    r->path = path;
    (void) snprintf(path, sizeof(path), "%s/%s", out,
                    mistral ? "params.json" : "config.json");
    r->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (r->fd == -1) {
        return mst_err_errno(r->err, errno, "%s: cannot be created", path);
    }

    if (mistral_random_write(r, r->text, r->text_len) != MST_OK) {
        return MST_ERROR;
    }

    (void) close(r->fd);
    r->fd = -1;
    (void) snprintf(path, sizeof(path), "%s/%s", out,
                    mistral ? "consolidated.safetensors"
                            : "model.safetensors");
    mistral_random_head_safetensors(r);

    return mistral_random_file(r, 1);
}


static int
mistral_random_type(mistral_random_t *r, const char *name)
{
    uint32_t  type;

    for (type = 0; type < 64; type++) {
        if (mistral_random_able((mst_type_t) type)
            && strcasecmp(name, mst_type_name(type)) == 0)
        {
            r->type = (mst_type_t) type;
            return MST_OK;
        }
    }

    (void) mst_err_set(r->err, "type \"%s\" is not written; bf16, f16, f32, "
                       "q8_0, q6_k, q5_k, q4_k and q4_0 .. q5_1 are", name);

    return MST_DECLINED;
}


int
mistral_random(const char *config, const char *format, const char *type,
    const char *out, uint64_t seed, mst_err_t *err)
{
    int               rc;
    mistral_random_t  r;

    memset(&r, 0, sizeof(r));
    mst_buf_init(&r.tensors);
    mst_buf_init(&r.head);

    r.err = err;
    r.seed = seed;
    r.fd = -1;
    r.chunk = mst_alloc(MISTRAL_RANDOM_CHUNK * sizeof(float));

    if (r.chunk == NULL) {
        return mst_err_set(err, "no memory");
    }

    rc = mistral_random_type(&r, type);

    if (rc == MST_OK) {
        rc = mistral_random_read(&r, config);
    }

    if (rc != MST_OK) {
        /* err has the reason */

    } else if (strcmp(format, "gguf") == 0) {
        rc = mistral_random_gguf(&r, out);

    } else if (strcmp(format, "safetensors") == 0) {
        rc = mistral_random_safetensors(&r, out);

    } else {
        (void) mst_err_set(err, "format \"%s\" is neither gguf nor "
                           "safetensors", format);
        rc = MST_DECLINED;
    }

    if (r.fd != -1) {
        (void) close(r.fd);
    }

    mst_free(r.chunk);
    mst_free(r.text);
    mst_buf_fini(&r.tensors);
    mst_buf_fini(&r.head);

    return rc;
}

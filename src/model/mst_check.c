
/*
 * Can this path be run?  See mst_check.h.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu_coarse.h"
#include "model/mst_check.h"
#include "model/mst_checkpoint.h"

#define MST_CHECK_INDEX  (64 << 20)            /* bytes of an index */


_Static_assert(sizeof(((mst_check_t *) 0)->stop_ids)
               == sizeof(((mst_config_t *) 0)->stop_ids),
               "both hold the ids that end an answer");


/* the layouts of a directory, the preferred one first */

static const struct {
    const char  *config;
    const char  *index;
    const char  *single;
} mst_check_layouts[] = {
    { "config.json", "model.safetensors.index.json", "model.safetensors" },
    { "params.json", "consolidated.safetensors.index.json",
      "consolidated.safetensors" }
};


/* -1 with errno; O_NONBLOCK: a FIFO must be refused, not waited for */

static int
mst_check_file(int dir, const char *name)
{
    int          fd, e;
    struct stat  st;

    fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd == -1) {
        return -1;
    }

    if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
        e = S_ISREG(st.st_mode) ? errno : EINVAL;
        (void) close(fd);
        errno = e;
        return -1;
    }

    return fd;
}


static int
mst_check_add(int dir, const char *path, const char *name,
    mst_check_files_t *f, mst_err_t *err)
{
    if (f->n == MST_CHECK_FILES) {
        return mst_err_set(err, "%s: more than %d files", path,
                           MST_CHECK_FILES);
    }

    f->fd[f->n] = mst_check_file(dir, name);

    if (f->fd[f->n] == -1) {
        return mst_err_errno(err, errno, "%s/%s: cannot be opened as a "
                             "regular file", path, name);
    }

    f->n++;

    return MST_OK;
}


static int
mst_check_compare(const void *one, const void *two)
{
    return strcmp(*(const char *const *) one, *(const char *const *) two);
}


/* the shards that an index names, each once, in the order of their names */

static int
mst_check_index(int dir, const char *path, const json_t *map,
    mst_check_files_t *f, mst_err_t *err)
{
    int           rc;
    size_t        i, n;
    void         *at;
    const char  **names;

    n = json_object_size(map);
    names = mst_calloc(n ? n : 1, sizeof(char *));

    if (names == NULL) {
        return mst_err_set(err, "%s: no memory for its index", path);
    }

    rc = MST_OK;
    i = 0;

    for (at = json_object_iter((json_t *) (uintptr_t) map); at && i < n;
         at = json_object_iter_next((json_t *) (uintptr_t) map, at))
    {
        names[i] = json_string_value(json_object_iter_value(at));

        if (names[i] == NULL || names[i][0] == '.' || names[i][0] == '\0'
            || strchr(names[i], '/') || strlen(names[i]) > 255)
        {
            rc = mst_err_set(err, "%s: the index names no file for "
                             "\"%.100s\"", path, json_object_iter_key(at));
            goto done;
        }

        i++;
    }

    qsort(names, n, sizeof(char *), mst_check_compare);

    for (i = 0; i < n && rc == MST_OK; i++) {
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0) {
            rc = mst_check_add(dir, path, names[i], f, err);

            if (rc != MST_OK && f->n < MST_CHECK_FILES
                && mst_fault_tell(f->faults, err))
            {
                rc = MST_OK;
            }
        }
    }

done:

    mst_free(names);

    return rc;
}


static int
mst_check_shards(int dir, const char *path, const char *index,
    mst_check_files_t *f, mst_err_t *err)
{
    int            fd, rc;
    json_t        *root;
    json_error_t   e;
    const json_t  *map;
    struct stat    st;

    fd = mst_check_file(dir, index);

    if (fd == -1) {
        return MST_DECLINED;
    }

    root = NULL;
    (void) strcpy(e.text, "its size");

    if (fstat(fd, &st) == 0 && st.st_size <= MST_CHECK_INDEX) {
        root = json_loadfd(fd, 0, &e);
    }

    (void) close(fd);
    map = json_object_get(root, "weight_map");

    rc = json_is_object(map)
         ? mst_check_index(dir, path, map, f, err)
         : mst_err_set(err, "%s/%s: no weight_map (%.80s)", path, index,
                       root ? "no such object" : e.text);

    json_decref(root);

    return rc;
}


/* a .gguf file in it: "path" may have been meant to name that one */

static int
mst_check_named(int dir, char *name, size_t size)
{
    int             fd, found;
    DIR            *d;
    size_t          len;
    struct dirent  *e;

    fd = openat(dir, ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    d = (fd == -1) ? NULL : fdopendir(fd);

    if (d == NULL) {
        if (fd != -1) {
            (void) close(fd);
        }

        return 0;
    }

    found = 0;

    while (!found && (e = readdir(d)) != NULL) {
        len = strlen(e->d_name);

        if (len > 5 && len < size
            && strcmp(e->d_name + len - 5, ".gguf") == 0)
        {
            (void) strcpy(name, e->d_name);
            found = 1;
        }
    }

    (void) closedir(d);

    return found;
}


static int
mst_check_directory(int dir, const char *path, mst_check_files_t *f,
    mst_err_t *err)
{
    int     rc;
    char    name[256];
    size_t  i;

    for (i = 0;
         i < sizeof(mst_check_layouts) / sizeof(*mst_check_layouts);
         i++)
    {
        if (faccessat(dir, mst_check_layouts[i].config, F_OK, 0) == -1
            || (faccessat(dir, mst_check_layouts[i].index, F_OK, 0) == -1
                && faccessat(dir, mst_check_layouts[i].single, F_OK, 0)
                   == -1))
        {
            continue;
        }

        if (mst_check_add(dir, path, mst_check_layouts[i].config, f, err)
            != MST_OK)
        {
            return MST_ERROR;
        }

        rc = mst_check_shards(dir, path, mst_check_layouts[i].index, f, err);

        return rc == MST_DECLINED
               ? mst_check_add(dir, path, mst_check_layouts[i].single, f, err)
               : rc;
    }

    if (mst_check_named(dir, name, sizeof(name))) {
        return mst_err_set(err, "%s: a directory without config.json, but "
                           "with %s: name that file", path, name);
    }

    return mst_err_set(err, "%s: a directory without config.json and "
                       "model.safetensors (or its index), or params.json and "
                       "consolidated.safetensors", path);
}


int
mst_check_open(const char *path, mst_check_files_t *f, mst_err_t *err)
{
    return mst_check_open_most(path, f, NULL, err);
}


int
mst_check_open_most(const char *path, mst_check_files_t *f,
    mst_faults_t *faults, mst_err_t *err)
{
    int          fd, rc;
    struct stat  st;

    f->n = 0;
    f->directory = 0;
    f->faults = faults;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd == -1) {
        return mst_err_errno(err, errno, "%s: cannot be opened", path);
    }

    if (fstat(fd, &st) == -1) {
        rc = mst_err_errno(err, errno, "%s: fstat() failed", path);
        (void) close(fd);
        return rc;
    }

    if (S_ISDIR(st.st_mode)) {
        f->directory = 1;
        rc = mst_check_directory(fd, path, f, err);
        (void) close(fd);

        if (rc != MST_OK) {
            mst_check_close(f);
        }

        return rc;
    }

    if (!S_ISREG(st.st_mode)) {
        (void) close(fd);
        return mst_err_set(err, "%s: no regular file", path);
    }

    f->fd[0] = fd;
    f->n = 1;

    return MST_OK;
}


void
mst_check_close(mst_check_files_t *f)
{
    while (f->n) {
        (void) close(f->fd[--f->n]);
    }
}


/* a string for people: cut, and free of control characters */

static int
mst_check_string(const mst_gguf_t *g, const char *key, char *buf, size_t size,
    mst_err_t *err)
{
    int        rc;
    size_t     i;
    mst_str_t  s;

    buf[0] = '\0';
    rc = mst_gguf_string(g, key, &s, err);

    if (rc != MST_OK) {
        return rc == MST_DECLINED ? MST_OK : rc;
    }

    for (i = 0; i < s.len && i < size - 1; i++) {
        buf[i] = (s.data[i] >= ' ' && s.data[i] <= '~') ? s.data[i] : '?';
    }

    buf[i] = '\0';

    return MST_OK;
}


static int
mst_check_result(mst_checkpoint_t *cp, const mst_tune_t *tune,
    mst_check_t *c, mst_err_t *err)
{
    const mst_gguf_t    *g;
    const mst_tensor_t  *head;
    const mst_config_t  *config;

    memset(c, 0, sizeof(mst_check_t));

    if (tune && mst_checkpoint_tune(cp, tune, err) != MST_OK) {
        return MST_ERROR;
    }

    config = mst_checkpoint_config(cp);
    memcpy(c->arch, config->arch, sizeof(c->arch));

    c->context = config->context;
    c->n_vocab = config->n_vocab;
    c->n_layers = config->n_layers;
    c->n_experts = config->n_experts;
    c->weights = mst_checkpoint_weights(cp);

    head = mst_checkpoint_tensor(cp, config->tied ? MST_WEIGHT_EMBD
                                                  : MST_WEIGHT_HEAD, 0, 0);
    c->coarse = mst_cpu_coarse_bytes(head->type, head->dims[1], head->dims[0]);

    c->n_stop = config->n_stop;
    memcpy(c->stop_ids, config->stop_ids, sizeof(c->stop_ids));

    g = mst_checkpoint_container(cp);

    return g ? mst_check_string(g, "general.name", c->name, sizeof(c->name),
                                err) : MST_OK;
}


int
mst_check_gguf(mst_gguf_t *g, const mst_tune_t *tune, mst_check_t *c,
    mst_err_t *err)
{
    int                rc;
    mst_checkpoint_t  *cp;

    cp = mst_checkpoint_gguf(g, err);

    if (cp == NULL) {
        return MST_ERROR;
    }

    rc = mst_check_result(cp, tune, c, err);

    mst_checkpoint_release(cp);

    return rc;
}


int
mst_check_files(const mst_check_files_t *f, const char *path,
    const mst_tune_t *tune, mst_check_t *c, mst_err_t *err)
{
    int                rc;
    mst_checkpoint_t  *cp;

    cp = mst_checkpoint_open(f->fd, f->n, path, err);

    if (cp == NULL) {
        return MST_ERROR;
    }

    rc = mst_check_result(cp, tune, c, err);

    mst_checkpoint_close(cp);

    return rc;
}

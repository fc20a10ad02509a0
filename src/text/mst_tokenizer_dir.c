
/*
 * The tokenizer of a directory: see mst_tokenizer_dir.h.
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
#include "text/mst_tokenizer_dir.h"

#define MST_DIR_MAX   (64 << 20)               /* bytes of a file */
#define MST_DIR_NAME  1280                     /* of a file, for sentences */


/* MST_DECLINED: there is no such file; the text ends with a NUL that *len
   does not count, and is the caller's to mst_free() */

static int
mst_tokenizer_dir_read(int dir, const char *name, const char *file,
    char **text, size_t *len, mst_err_t *err)
{
    int           fd, rc;
    size_t        n;
    ssize_t       got;
    struct stat   st;

    fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd == -1) {
        return errno == ENOENT ? MST_DECLINED
               : mst_err_errno(err, errno, "%s/%s: cannot be opened", name,
                               file);
    }

    *text = NULL;

    if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)
        || st.st_size > MST_DIR_MAX
        || (*text = mst_alloc((size_t) st.st_size + 1)) == NULL)
    {
        (void) close(fd);
        return mst_err_set(err, "%s/%s: no regular file of at most %d MiB, or "
                           "no memory for it", name, file, MST_DIR_MAX >> 20);
    }

    rc = MST_OK;

    for (n = 0; n < (size_t) st.st_size; n += (size_t) got) {
        got = read(fd, *text + n, (size_t) st.st_size - n);

        if (got <= 0) {
            rc = mst_err_errno(err, got ? errno : EIO, "%s/%s: cannot be read",
                               name, file);
            break;
        }
    }

    (void) close(fd);

    if (rc != MST_OK) {
        mst_free(*text);
        return rc;
    }

    (*text)[n] = '\0';
    *len = n;

    return MST_OK;
}


static char *
mst_tokenizer_dir_copy(const char *s)
{
    char    *copy;
    size_t   n;

    n = strlen(s) + 1;
    copy = mst_alloc(n);

    return copy ? memcpy(copy, s, n) : NULL;
}


/* a token as "text" or as {"content": "text"} */

static int
mst_tokenizer_dir_token(const json_t *o, const char *key, char **token)
{
    const char    *s;
    const json_t  *v;

    v = json_object_get(o, key);
    s = json_string_value(json_is_object(v) ? json_object_get(v, "content")
                                            : v);

    if (s == NULL || *token != NULL) {
        return MST_OK;
    }

    *token = mst_tokenizer_dir_copy(s);

    return *token ? MST_OK : MST_ERROR;
}


/* one template, or of several the one named "default" */

static const char *
mst_tokenizer_dir_chat(const json_t *v)
{
    size_t         i;
    const char    *s;
    const json_t  *o;

    for (i = 0; i < json_array_size(v); i++) {
        o = json_array_get(v, i);
        s = json_string_value(json_object_get(o, "name"));

        if (s && strcmp(s, "default") == 0) {
            return json_string_value(json_object_get(o, "template"));
        }
    }

    return json_string_value(v);
}


static int
mst_tokenizer_dir_config(mst_tokenizer_dir_t *d, int dir, const char *name,
    mst_err_t *err)
{
    int            rc;
    char          *text;
    size_t         len;
    json_t        *o;
    const char    *chat;
    json_error_t   e;

    rc = mst_tokenizer_dir_read(dir, name, "chat_template.jinja", &d->chat,
                                &len, err);

    if (rc == MST_ERROR) {
        d->chat = NULL;
        return rc;
    }

    rc = mst_tokenizer_dir_read(dir, name, "tokenizer_config.json", &text,
                                &len, err);

    if (rc != MST_OK) {
        return rc == MST_DECLINED ? MST_OK : rc;
    }

    o = json_loadb(text, len, 0, &e);
    mst_free(text);

    if (!json_is_object(o)) {
        json_decref(o);
        return mst_err_set(err, "%s/tokenizer_config.json: no JSON object: "
                           "%.100s", name, e.text);
    }

    chat = mst_tokenizer_dir_chat(json_object_get(o, "chat_template"));
    rc = MST_OK;

    if (chat && d->chat == NULL) {
        d->chat = mst_tokenizer_dir_copy(chat);
        rc = d->chat ? MST_OK : MST_ERROR;
    }

    if (rc != MST_OK
        || mst_tokenizer_dir_token(o, "bos_token", &d->bos) != MST_OK
        || mst_tokenizer_dir_token(o, "eos_token", &d->eos) != MST_OK)
    {
        rc = mst_err_set(err, "%s: no memory for its tokenizer", name);
    }

    json_decref(o);

    return rc;
}


/* "tokenizer.model.v3", also with "m1" behind it; 0: no such name */

static uint32_t
mst_tokenizer_dir_version(const char *file)
{
    char           *end;
    const char     *p;
    unsigned long   v;

    p = strstr(file, ".model.v");

    if (p == NULL) {
        return 0;
    }

    v = strtoul(p + 8, &end, 10);

    return (*end == '\0' || strcmp(end, "m1") == 0) && v >= 1 && v <= 99
           ? (uint32_t) v : 0;
}


/* the file of the highest version, "" = there is none */

static uint32_t
mst_tokenizer_dir_find(int dir, char *file, size_t size)
{
    int             fd;
    DIR            *list;
    uint32_t        best, v;
    struct dirent  *entry;

    best = 0;
    file[0] = '\0';
    fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    list = fd == -1 ? NULL : fdopendir(fd);

    if (list == NULL) {
        if (fd != -1) {
            (void) close(fd);
        }

        return 0;
    }

    while ((entry = readdir(list)) != NULL) {
        v = mst_tokenizer_dir_version(entry->d_name);

        if (v > best && strlen(entry->d_name) < size) {
            best = v;
            (void) strcpy(file, entry->d_name);
        }
    }

    (void) closedir(list);

    return best;
}


/* what a SentencePiece model without a version in its name can do */

static uint32_t
mst_tokenizer_dir_guess(const mst_tokenizer_t *t, const char *arch)
{
    if (mst_tokenizer_control(t, "[INST]") < 0) {
        return strncmp(arch, "mistral", 7) == 0 || strcmp(arch, "mixtral") == 0
               ? 1 : 0;
    }

    if (mst_tokenizer_control(t, "[SYSTEM_PROMPT]") >= 0) {
        return 7;
    }

    return mst_tokenizer_control(t, "[PREFIX]") >= 0 ? 3 : 2;
}


static int
mst_tokenizer_dir_spm(mst_tokenizer_dir_t *d, int dir, const char *name,
    const char *file, mst_err_t *err)
{
    int     rc;
    char   *text, path[MST_DIR_NAME];
    size_t  len;

    rc = mst_tokenizer_dir_read(dir, name, file, &text, &len, err);

    if (rc != MST_OK) {
        return rc;
    }

    (void) snprintf(path, sizeof(path), "%s/%s", name, file);
    d->tokenizer = mst_tokenizer_create_spm(text, len, path, err);
    d->file = "SentencePiece";
    mst_free(text);

    return d->tokenizer ? MST_OK : MST_ERROR;
}


static int
mst_tokenizer_dir_tekken(mst_tokenizer_dir_t *d, int dir, const char *name,
    const char *file, mst_err_t *err)
{
    int     rc;
    char   *text, path[MST_DIR_NAME];
    size_t  len;

    rc = mst_tokenizer_dir_read(dir, name, file, &text, &len, err);

    if (rc != MST_OK) {
        return rc;
    }

    (void) snprintf(path, sizeof(path), "%s/%s", name, file);
    d->tokenizer = mst_tokenizer_create_tekken(text, len, path, &d->version,
                                               err);
    d->file = "tekken.json";
    mst_free(text);

    return d->tokenizer ? MST_OK : MST_ERROR;
}


static int
mst_tokenizer_dir_hf(mst_tokenizer_dir_t *d, int dir, const char *name,
    mst_err_t *err)
{
    int     rc;
    char   *text, path[MST_DIR_NAME];
    size_t  len;

    rc = mst_tokenizer_dir_read(dir, name, "tokenizer.json", &text, &len,
                                err);

    if (rc != MST_OK) {
        return rc;
    }

    (void) snprintf(path, sizeof(path), "%s/tokenizer.json", name);
    d->tokenizer = mst_tokenizer_create_hf(text, len, path, d->bos, d->eos,
                                           err);
    d->file = "tokenizer.json";
    mst_free(text);

    return d->tokenizer ? MST_OK : MST_ERROR;
}


static int
mst_tokenizer_dir_pick(mst_tokenizer_dir_t *d, int dir, const char *name,
    const char *arch, mst_err_t *err)
{
    int       rc;
    char      file[256];
    uint32_t  version;

    rc = mst_tokenizer_dir_tekken(d, dir, name, "tekken.json", err);

    if (rc != MST_DECLINED) {
        return rc;
    }

    version = mst_tokenizer_dir_find(dir, file, sizeof(file));

    if (version) {
        d->version = version;
        return mst_tokenizer_dir_spm(d, dir, name, file, err);
    }

    rc = mst_tokenizer_dir_spm(d, dir, name, "tokenizer.model", err);

    if (rc == MST_OK) {
        d->version = mst_tokenizer_dir_guess(d->tokenizer, arch);
        d->guessed = 1;
    }

    if (rc == MST_DECLINED) {
        rc = mst_tokenizer_dir_hf(d, dir, name, err);
    }

    if (rc == MST_DECLINED) {
        (void) mst_err_set(err, "%s: neither tekken.json, tokenizer.model nor "
                           "tokenizer.json is there", name);
    }

    return rc;
}


int
mst_tokenizer_dir_open(mst_tokenizer_dir_t *d, int dir, const char *name,
    const char *arch, mst_err_t *err)
{
    int  rc;

    memset(d, 0, sizeof(mst_tokenizer_dir_t));

    rc = mst_tokenizer_dir_config(d, dir, name, err);

    if (rc == MST_OK) {
        rc = mst_tokenizer_dir_pick(d, dir, name, arch, err);
    }

    if (rc != MST_OK) {
        mst_tokenizer_dir_close(d);
    }

    return rc;
}


int
mst_tokenizer_dir_open_file(mst_tokenizer_dir_t *d, int dir,
    const char *name, const char *file, const char *arch, mst_err_t *err)
{
    int          rc;
    const char  *end;

    memset(d, 0, sizeof(mst_tokenizer_dir_t));

    end = strrchr(file, '.');
    rc = MST_ERROR;

    if (strstr(file, "tekken") && end && strcmp(end, ".json") == 0) {
        rc = mst_tokenizer_dir_tekken(d, dir, name, file, err);

    } else if (strstr(file, ".model")) {
        rc = mst_tokenizer_dir_spm(d, dir, name, file, err);
        d->version = mst_tokenizer_dir_version(file);

        if (rc == MST_OK && d->version == 0) {
            d->version = mst_tokenizer_dir_guess(d->tokenizer, arch);
            d->guessed = 1;
        }

    } else {
        (void) mst_err_set(err, "%s/%s: is no tokenizer by its name: it must "
                           "have \"tekken\" and \".json\", or \".model\", in "
                           "it", name, file);
    }

    if (rc == MST_DECLINED) {
        rc = mst_err_set(err, "%s/%s: is not there", name, file);
    }

    if (rc != MST_OK) {
        mst_tokenizer_dir_close(d);
    }

    return rc;
}


void
mst_tokenizer_dir_close(mst_tokenizer_dir_t *d)
{
    mst_tokenizer_destroy(d->tokenizer);
    mst_free(d->chat);
    mst_free(d->bos);
    mst_free(d->eos);
    memset(d, 0, sizeof(mst_tokenizer_dir_t));
}

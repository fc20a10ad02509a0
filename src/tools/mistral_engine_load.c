
/*
 * What the engine computes with: a model from the descriptors that the
 * master opened, or the null model.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/mst_cpu_mem.h"
#include "backend/mst_cpu_pool.h"
#include "backend/mst_cpu_store.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "model/mst_checkpoint.h"
#include "model/mst_forward.h"
#include "tools/mistral_device.h"
#include "tools/mistral_engine.h"


#define MISTRAL_LOAD_NODE        "/dev/nvidiactl"  /* of a driver */
#define MISTRAL_LOAD_CONTEXT     32768         /* context of the null model */
#define MISTRAL_LOAD_PROMPT      4096          /* its blocks: for so many tokens
                                                  of each sequence ... */
#define MISTRAL_LOAD_BLOCKS      (1u << 20)    /* ... and at most this */


/* max_batch auto, prefill_chunk auto: a device that reads its weights once for
   all is for many at a time; a chunk of a prompt is what the others' next
   token waits for */

typedef struct {
    uint32_t  batch;
    uint32_t  chunk;               /* tokens of a step, and while prompts ... */
    uint32_t  most;                /* ... wait long */
} mistral_load_auto_t;


static const mistral_load_auto_t  mistral_load_of_cpu = { 16, 512, 512 };
static const mistral_load_auto_t  mistral_load_of_cuda = { 256, 1024,
                                                           1536 };
static const mistral_load_auto_t  mistral_load_of_null = { 256, 512, 512 };


static void mistral_load_shape(const mistral_engine_t *e,
    const mistral_load_auto_t *a, mistral_engine_load_t *l);
static void mistral_load_fit(const mistral_engine_t *e,
    mistral_engine_load_t *l);
static int mistral_load_null(const mistral_engine_t *e,
    mistral_engine_load_t *l, mst_err_t *err);
static int mistral_load_text(const mistral_engine_t *e, char **text,
    size_t *len, mst_err_t *err);
static int mistral_load_model(const mistral_engine_t *e,
    mistral_engine_load_t *l, mst_err_t *err);
static int mistral_load_able(const mst_setup_t *setup, mst_err_t *err);
static int mistral_load_runner(const mistral_engine_t *e,
    mst_checkpoint_t *cp, mistral_engine_load_t *l, mst_err_t *err);
static mst_model_t *mistral_load_cpu(const mistral_engine_t *e,
    mst_checkpoint_t *cp, mst_model_conf_t *conf, mst_err_t *err);
static mst_cpu_store_t *mistral_load_store(const mistral_engine_t *e);
static void mistral_load_conf(const mistral_engine_t *e,
    mistral_engine_load_t *l, const char *library, mst_model_conf_t *conf);
static int mistral_load_progress(void *data);
static void mistral_load_loaded(void *data, uint32_t percent);
static uint64_t mistral_load_kv_size(const mst_setup_t *setup);
static uint64_t mistral_load_free(void);


int
mistral_engine_load(const mistral_engine_t *e, mistral_engine_load_t *l,
    mst_err_t *err)
{
    if ((e->setup.null ? mistral_load_null(e, l, err)
                       : mistral_load_model(e, l, err)) != MST_OK)
    {
        return MST_ERROR;
    }

    mistral_load_fit(e, l);

    return MST_OK;
}


/* all that run at once move on in each step */

static void
mistral_load_shape(const mistral_engine_t *e, const mistral_load_auto_t *a,
    mistral_engine_load_t *l)
{
    l->max_batch = e->setup.max_batch;
    l->prefill_chunk = e->setup.prefill_chunk;

    if (l->max_batch == 0) {
        l->max_batch = (l->prefill_chunk && l->prefill_chunk < a->batch)
                       ? l->prefill_chunk : a->batch;
    }

    l->prefill_most = l->prefill_chunk;

    if (l->prefill_chunk == 0) {
        l->prefill_chunk = (l->max_batch > a->chunk) ? l->max_batch
                                                     : a->chunk;
        l->prefill_most = (l->prefill_chunk > a->most) ? l->prefill_chunk
                                                       : a->most;
    }
}


/* a sequence that the whole pool cannot hold is none that could be served */

static void
mistral_load_fit(const mistral_engine_t *e, mistral_engine_load_t *l)
{
    uint64_t           pool;
    mst_model_info_t  *info;

    info = &l->runner.info;
    pool = (uint64_t) info->n_blocks * info->block_tokens;

    if (pool >= info->context) {
        return;
    }

    /* with a window nobody holds more than it, whatever the length */

    if (info->window
        && pool >= (uint64_t) info->window + l->prefill_most
                   + 2 * info->block_tokens)
    {
        return;
    }

    mst_log(&mistral_engine_log, MST_LOG_ERR, "the KV cache holds %llu "
            "tokens, less than the context of %u: the context is %llu, see "
            "\"kv_cache ... size=\" and \"context\" of \"%s\"",
            (unsigned long long) pool, info->context,
            (unsigned long long) pool, e->setup.name);

    info->context = (uint32_t) pool;
}


static int
mistral_load_null(const mistral_engine_t *e, mistral_engine_load_t *l,
    mst_err_t *err)
{
    int              rc;
    char            *text;
    uint64_t         n, need;
    mst_script_t     script;
    mst_null_conf_t  conf;

    memset(&conf, 0, sizeof(conf));
    memset(&script, 0, sizeof(script));

    text = NULL;
    mistral_load_shape(e, &mistral_load_of_null, l);

    if (e->setup.n_files != 0
        && mistral_load_text(e, &text, &conf.text_len, err) != MST_OK)
    {
        return MST_ERROR;
    }

    conf.text = text;

    if (e->setup.null_vocab) {
        conf.n_vocab = e->setup.null_vocab;
        conf.script = &script;
        conf.text = NULL;

        if (mst_script_parse(&script, text, conf.text_len, conf.n_vocab, err)
            != MST_OK)
        {
            mst_free(text);
            return MST_ERROR;
        }
    }

    conf.rate = e->setup.null_rate;
    conf.delay_ns = e->setup.null_delay_ns;
    conf.len = e->setup.null_len;
    conf.context = e->setup.context ? e->setup.context : MISTRAL_LOAD_CONTEXT;

    n = (conf.context < MISTRAL_LOAD_PROMPT) ? conf.context
                                             : MISTRAL_LOAD_PROMPT;
    n = (n - 1) / MST_NULL_BLOCK_TOKENS + 1;
    n *= l->max_batch;
    n = (n < MISTRAL_LOAD_BLOCKS) ? n : MISTRAL_LOAD_BLOCKS;

    /* one of each length that is allowed must be able to run */

    need = ((uint64_t) conf.context - 1) / MST_NULL_BLOCK_TOKENS + 1;

    conf.n_blocks = (uint32_t) (n > need ? n : need);

    rc = mst_runner_null(&l->runner, &conf, err);

    mst_free(text);
    mst_script_fini(&script);

    (void) snprintf(l->backend, sizeof(l->backend), "null");

    return rc;
}


static int
mistral_load_text(const mistral_engine_t *e, char **text, size_t *len,
    mst_err_t *err)
{
    int          fd;
    size_t       n;
    ssize_t      got;
    struct stat  st;

    fd = MST_FD_FILES(e->map.n_slots);

    if (fstat(fd, &st) == -1) {
        return mst_err_errno(err, errno, "the null model's text: fstat() "
                             "failed");
    }

    if (st.st_size < 1 || st.st_size > MST_SETUP_TEXT) {
        return mst_err_set(err, "the null model's text has %lld bytes, must "
                           "be 1 .. %d", (long long) st.st_size,
                           MST_SETUP_TEXT);
    }

    *text = mst_alloc((size_t) st.st_size);
    if (*text == NULL) {
        return mst_err_set(err, "no memory for the null model's text of %lld "
                           "bytes", (long long) st.st_size);
    }

    for (n = 0; n < (size_t) st.st_size; n += (size_t) got) {

        /* not read(): the offset is shared with all who have this file */

        got = pread(fd, *text + n, (size_t) st.st_size - n, (off_t) n);

        if (got <= 0) {
            mst_free(*text);
            return mst_err_errno(err, got ? errno : EIO,
                                 "cannot read the null model's text");
        }
    }

    *len = n;

    return MST_OK;
}


static int
mistral_load_model(const mistral_engine_t *e, mistral_engine_load_t *l,
    mst_err_t *err)
{
    int                fds[MST_SETUP_FILES];
    uint32_t           i, n;
    mst_checkpoint_t  *cp;

    if (mistral_load_able(&e->setup, err) != MST_OK) {
        return MST_ERROR;
    }

    n = e->setup.n_files - e->setup.library;

    for (i = 0; i < n; i++) {
        fds[i] = MST_FD_FILES(e->map.n_slots) + (int) i;
    }

    cp = mst_checkpoint_open(fds, n, e->setup.path, err);
    if (cp == NULL) {
        return MST_ERROR;
    }

    if (mst_checkpoint_tune(cp, &e->setup.tune, err) != MST_OK) {
        mst_checkpoint_close(cp);
        return MST_ERROR;
    }

    return mistral_load_runner(e, cp, l, err);
}


/* the gateway refuses these when it reads its configuration; a segment may
   come from elsewhere */

static int
mistral_load_able(const mst_setup_t *setup, mst_err_t *err)
{
    uint32_t  n;

    n = setup->n_files - setup->library;

    if (strncmp(setup->device, "cuda:", 5) == 0 && !setup->library) {
        return mst_err_set(err, "device %s: the engine was given no "
                           "libmst_cuda.so", setup->device);
    }

    if (n < 1 || n > MST_SETUP_FILES) {
        return mst_err_set(err, "%s: a model of %u files, 1 .. %d are read",
                           setup->path, n, MST_SETUP_FILES);
    }

    return MST_OK;
}


/* takes cp over */

static int
mistral_load_runner(const mistral_engine_t *e, mst_checkpoint_t *cp,
    mistral_engine_load_t *l, mst_err_t *err)
{
    char               library[32];
    mst_model_t       *model;
    mst_model_conf_t   conf;

    model = NULL;

    if (e->setup.library && strcmp(e->setup.device, "cpu") != 0) {
        (void) snprintf(library, sizeof(library), "/proc/self/fd/%d",
                        MST_FD_FILES(e->map.n_slots)
                        + (int) e->setup.n_files - 1);

        mistral_load_shape(e, &mistral_load_of_cuda, l);
        mistral_load_conf(e, l, library, &conf);
        model = mst_model_create(cp, &conf, err);

        l->device = conf.device;
        (void) snprintf(l->backend, sizeof(l->backend), "cuda:%u",
                        conf.device);
    }

    /* "auto": what the device cannot do the CPU does.  Nobody need be warned
       where there is no driver */

    if (model == NULL && strncmp(e->setup.device, "cuda:", 5) != 0) {

        if (err->text[0]) {
            mst_log(&mistral_engine_log, access(MISTRAL_LOAD_NODE, F_OK) == 0
                                         ? MST_LOG_WARN : MST_LOG_NOTICE,
                    "device auto: %s; the CPU computes \"%s\"", err->text,
                    e->setup.name);

            err->text[0] = '\0';
        }

        mistral_load_shape(e, &mistral_load_of_cpu, l);
        mistral_load_conf(e, l, NULL, &conf);
        model = mistral_load_cpu(e, cp, &conf, err);

        (void) snprintf(l->backend, sizeof(l->backend), "cpu, %u threads",
                        conf.threads ? conf.threads : mst_cpu_pool_cores());
    }

    if (model == NULL) {
        mst_checkpoint_close(cp);
        return MST_ERROR;
    }

    if (mst_runner_model(&l->runner, model, err) != MST_OK) {
        mst_model_destroy(model);
        return MST_ERROR;
    }

    return MST_OK;
}


/* in memory that engines of these files share, or else in our own */

static mst_model_t *
mistral_load_cpu(const mistral_engine_t *e, mst_checkpoint_t *cp,
    mst_model_conf_t *conf, mst_err_t *err)
{
    int               ready;
    mst_err_t         why;
    mst_model_t      *model;
    mst_cpu_store_t  *store;

    store = mistral_load_store(e);

    if (store == NULL) {
        return mst_model_create(cp, conf, err);
    }

    why.text[0] = '\0';
    ready = mst_cpu_store_ready(store);
    conf->store = store;
    model = mst_model_create(cp, conf, &why);
    conf->store = NULL;

    if (model == NULL) {
        mst_cpu_store_close(store);
        mst_log(&mistral_engine_log, MST_LOG_WARN, "%s; the weights stand in "
                "memory of this engine's own", why.text);
        return mst_model_create(cp, conf, err);
    }

    if (mst_cpu_store_seal(store, &why) != MST_OK) {
        mst_log(&mistral_engine_log, MST_LOG_WARN, "%s", why.text);
        return model;
    }

    mst_log(&mistral_engine_log, MST_LOG_NOTICE, ready
            ? "%llu MiB of weights stood in memory already"
            : "%llu MiB of weights stand in memory for others, too",
            (unsigned long long) mst_cpu_store_size(store) >> 20);

    return model;
}


/* NULL: there is none, or none that could be used */

static mst_cpu_store_t *
mistral_load_store(const mistral_engine_t *e)
{
    uint32_t          n;
    uint64_t          id;
    mst_err_t         err;
    mst_cpu_store_t  *store;

    if (fcntl(MST_FD_WEIGHTS, F_GET_SEALS) == -1) {
        return NULL;
    }

    n = e->setup.n_files - e->setup.library;
    id = mst_hash(n, e->setup.files, n * sizeof(mst_setup_file_t));

    err.text[0] = '\0';
    store = mst_cpu_store_open(MST_FD_WEIGHTS, id, &err);

    if (store == NULL) {
        mst_log(&mistral_engine_log, MST_LOG_NOTICE, "%s: the weights stand "
                "in memory of this engine's own", err.text);
    }

    return store;
}


/* library: of a CUDA device, or NULL */

static void
mistral_load_conf(const mistral_engine_t *e, mistral_engine_load_t *l,
    const char *library, mst_model_conf_t *conf)
{
    const mst_setup_t  *setup;

    setup = &e->setup;
    memset(conf, 0, sizeof(mst_model_conf_t));

    if (strncmp(setup->device, "cuda:", 5) == 0) {
        conf->device = (uint32_t) strtoul(setup->device + 5, NULL, 10);
    }

    /* a device knows best what it has left */

    conf->library = library;
    conf->kv_percent = library ? setup->kv_percent : 0;
    conf->kv_size = library ? setup->kv_size : mistral_load_kv_size(setup);

    conf->dtype = strcmp(setup->dtype, "bf16") == 0 ? MST_DTYPE_BF16
                  : strcmp(setup->dtype, "fp8") == 0 ? MST_DTYPE_FP8
                  : strcmp(setup->dtype, "int4") == 0 ? MST_DTYPE_INT4
                  : MST_DTYPE_AUTO;
    conf->weight_layouts = setup->weight_layouts;
    conf->batch_invariant = (int) setup->batch_invariant;
    conf->tuned = setup->tuned[0] ? setup->tuned : NULL;
    conf->threads = setup->threads;
    conf->activations = setup->activations;
    conf->isa = mistral_isa(NULL);
    conf->kv_type = (setup->kv_type == UINT32_MAX) ? MST_KV_AUTO
                                          : (mst_kv_type_t) setup->kv_type;
    conf->context = setup->context;
    conf->max_rows = l->prefill_most;
    conf->max_seqs = l->max_batch;
    conf->log = &mistral_engine_log;
    conf->progress = mistral_load_progress;
    conf->loaded = mistral_load_loaded;
    conf->progress_data = l;
    l->stat = &e->map.shm->stat;
}


/* a step of many tokens on a slow machine is no hung engine; and what the step
   before brought may be read now */

static int
mistral_load_progress(void *data)
{
    mistral_engine_load_t  *l;

    l = data;

    mst_stat_set(&l->stat->beat_ns, mst_time_ns());

    return l->serve ? mst_serve_tell(l->serve) : 0;
}


static void
mistral_load_loaded(void *data, uint32_t percent)
{
    mistral_engine_load_t  *l;

    l = data;

    mst_stat_set(&l->stat->loaded, percent);
}


static uint64_t
mistral_load_kv_size(const mst_setup_t *setup)
{
    uint32_t  percent;

    if (setup->kv_percent == 0) {
        return setup->kv_size;
    }

    percent = (setup->kv_percent < 100) ? setup->kv_percent : 100;

    return mistral_load_free() / 100 * percent;
}


/* bytes of memory that could be had now */

static uint64_t
mistral_load_free(void)
{
    char                 line[128];
    FILE                *f;
    uint64_t             limit, n;
    unsigned long long   kb;

    limit = mst_cpu_mem_limit();
    n = limit;

    f = fopen("/proc/meminfo", "re");

    if (f != NULL) {
        while (fgets(line, sizeof(line), f) != NULL) {
            if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) {
                n = (uint64_t) kb * 1024;
                break;
            }
        }

        (void) fclose(f);
    }

    return n < limit ? n : limit;
}

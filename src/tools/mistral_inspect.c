
/*
 * mistral inspect FILE|DIR: what a model holds, what memory it needs, and every
 * reason why it would not run.  Reads no weights.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/mst_cpu_mem.h"
#include "file/mst_safetensors.h"
#include "model/mst_forward.h"
#include "tools/mistral_inspect.h"
#include "tools/mistral_option.h"
#include "tools/mistral_random.h"
#include "tools/mistral_tool.h"

#define MISTRAL_INSPECT_BATCH  16              /* as max_batch auto */
#define MISTRAL_INSPECT_ROWS   512             /* as prefill_chunk auto */


static struct {
    int       help;
    int       json;
    uint64_t  context;
    uint64_t  batch;

    const char  *random;       /* configuration of a random model */
    const char  *format;
    const char  *type;
    uint64_t     seed;
} mistral_inspect_args = { .format = "gguf", .type = "bf16" };


static const mistral_option_t  mistral_inspect_options[] = {
    { "--help", MISTRAL_FLAG, &mistral_inspect_args.help, 0, 0 },
    { "-h", MISTRAL_FLAG, &mistral_inspect_args.help, 0, 0 },
    { "--json", MISTRAL_FLAG, &mistral_inspect_args.json, 0, 0 },
    { "--context", MISTRAL_UINT, &mistral_inspect_args.context, 2,
      INT32_MAX },
    { "--batch", MISTRAL_UINT, &mistral_inspect_args.batch, 1, 16384 },
    { "--make-random", MISTRAL_TEXT, &mistral_inspect_args.random, 0, 0 },
    { "--format", MISTRAL_TEXT, &mistral_inspect_args.format, 0, 0 },
    { "--type", MISTRAL_TEXT, &mistral_inspect_args.type, 0, 0 },
    { "--seed", MISTRAL_UINT, &mistral_inspect_args.seed, 0, INT32_MAX }
};

#define MISTRAL_INSPECT_OPTIONS                                               \
    (sizeof(mistral_inspect_options) / sizeof(*mistral_inspect_options))


static const char  mistral_inspect_help[] =
    "usage: mistral inspect FILE|DIR [OPTION...]\n"
    "\n"
    "Shows what a GGUF file or a directory of safetensors holds:\n"
    "architecture, shapes, types of the weights, tokenizer, chat template,\n"
    "and the memory that it needs.\n"
    "\n"
    "  --context N  tokens of one sequence (default: what the model was made\n"
    "               for)\n"
    "  --batch N    sequences at once (default 16)\n"
    "  --json       print one object\n"
    "\n"
    "  --make-random CONFIG   first write a random model of this shape to\n"
    "                         FILE or DIR, to measure with; CONFIG is a\n"
    "                         config.json or a params.json\n"
    "  --format gguf|safetensors   (default gguf)\n"
    "  --type T     of its matrices: bf16 (default), f16, f32; GGUF also\n"
    "               q8_0, q6_k, q5_k, q4_k, q5_1, q5_0, q4_1, q4_0\n"
    "  --seed N     the same seed, the same weights (default 0)\n"
    "\n"
    "Exits with 78 when the model would not run, with a line on stderr for\n"
    "each reason.  Without a tokenizer it does not run in nginx, only in\n"
    "\"mistral bench --engine\" and \"mistral generate --prompt-ids\": no\n"
    "reason right after --make-random.\n";


/* the next reason's room; the last one's is used again when there are many,
   to say how many */

static mst_err_t *
mistral_inspect_reason(mistral_inspect_t *m)
{
    mst_err_t  *err;

    if (m->n_reasons < MISTRAL_INSPECT_REASONS) {
        m->n_reasons++;

    } else {
        m->n_more++;
    }

    err = &m->reasons[m->n_reasons - 1];
    err->text[0] = '\0';

    return err;
}


static void
mistral_inspect_fault(void *data, const mst_err_t *why)
{
    *mistral_inspect_reason(data) = *why;
}


static void
mistral_inspect_string(const mistral_inspect_t *m, const char *key, char *buf,
    size_t size)
{
    size_t     i;
    mst_str_t  s;

    buf[0] = '\0';

    if (mst_gguf_string(m->gguf, key, &s, NULL) != MST_OK) {
        return;
    }

    for (i = 0; i < s.len && i < size - 1; i++) {
        buf[i] = (s.data[i] >= ' ' && s.data[i] <= '~') ? s.data[i] : '?';
    }

    buf[i] = '\0';
}


static void
mistral_inspect_tensor(mistral_inspect_t *m, const mst_tensor_t *t)
{
    size_t                   i;
    uint64_t                 n;
    mistral_inspect_type_t  *type;

    /* of a type we cannot size nobody has multiplied these */

    n = 1;

    for (i = 0; i < MST_TENSOR_DIMS; i++) {
        if (__builtin_mul_overflow(n, t->dims[i], &n)) {
            n = 0;
            break;
        }
    }

    for (i = 0; i < m->n_types; i++) {
        if (m->types[i].type == t->type) {
            break;
        }
    }

    if (i == MISTRAL_INSPECT_TYPES) {
        i--;                                   /* the format has fewer */
    }

    type = &m->types[i];

    if (i == m->n_types) {
        type->type = t->type;
        m->n_types++;
    }

    type->tensors++;
    type->parameters += n;
    type->size += t->size;

    m->tensors++;
    m->parameters += n;
    m->weights += t->size;
}


static void
mistral_inspect_tensors(mistral_inspect_t *m)
{
    size_t  i;

    for (i = 0; i < mst_gguf_n_tensors(m->gguf); i++) {
        mistral_inspect_tensor(m, mst_gguf_tensor_at(m->gguf, i));
    }
}


static void
mistral_inspect_template(mistral_inspect_t *m)
{
    mst_err_t  err;

    err.text[0] = '\0';
    m->template = mistral_words_template(&m->words, &err);

    if (m->template == NULL) {
        *mistral_inspect_reason(m) = err;
        return;
    }

    mst_template_marks(m->template, m->words.tokenizer, &m->marks);
}


static void
mistral_inspect_words(mistral_inspect_t *m)
{
    char       pre[32];
    size_t     n;
    mst_err_t  err;

    mistral_inspect_string(m, "tokenizer.ggml.model", m->vocabulary,
                           sizeof(m->vocabulary) / 2);
    mistral_inspect_string(m, "tokenizer.ggml.pre", pre, sizeof(pre));

    n = strlen(m->vocabulary);

    (void) snprintf(m->vocabulary + n, sizeof(m->vocabulary) - n, "%s%s",
                    n && pre[0] ? ", " : "", pre);

    err.text[0] = '\0';

    if (mistral_words_gguf(&m->words, m->gguf, m->path, &err) != MST_OK) {
        *mistral_inspect_reason(m) = err;
        return;                        /* a template needs its tokens */
    }

    mistral_inspect_template(m);
}


/* without a template it still completes texts */

static void
mistral_inspect_directory(mistral_inspect_t *m)
{
    int                         rc;
    mst_err_t                   err;
    const mst_tokenizer_dir_t  *d;

    err.text[0] = '\0';
    rc = mistral_words_directory(&m->words, &m->config, m->path, &err);

    if (rc != MST_OK) {
        m->ids_only = (rc == MST_DECLINED);

        if (!m->ids_only || mistral_inspect_args.random == NULL) {
            *mistral_inspect_reason(m) = err;
        }

        return;
    }

    d = &m->words.dir;
    (void) snprintf(m->vocabulary, sizeof(m->vocabulary),
                    d->version ? "%s, version %u" : "%s", d->file,
                    d->version);

    if (d->version == 0 && d->chat == NULL) {
        return;
    }

    mistral_inspect_template(m);
}


/* the backend itself is asked: a pool that nobody touches costs nothing */

static void
mistral_inspect_memory(mistral_inspect_t *m)
{
    double                    freqs[MST_CONFIG_MAX_HEAD / 2];
    uint64_t                  tokens;
    mst_err_t                 err;
    mst_backend_t            *b;
    mst_backend_conf_t        bc;
    const mst_config_t       *c;
    const mst_backend_ops_t  *ops;

    c = &m->config;
    err.text[0] = '\0';
    mst_rope_frequencies(&c->rope, c->rope_dim, freqs);

    mst_model_shape(c, &bc);
    bc.context = (uint32_t) m->context;
    bc.rope_freqs = freqs;
    bc.threads = 1;
    bc.max_seqs = (uint32_t) m->batch;
    bc.max_rows = bc.max_seqs > MISTRAL_INSPECT_ROWS ? bc.max_seqs
                                                     : MISTRAL_INSPECT_ROWS;
    bc.kv_type = MST_KV_F32;

    ops = mst_backend_open("cpu", NULL, &err);
    b = ops ? ops->create(&bc, &err) : NULL;

    if (b == NULL) {
        *mistral_inspect_reason(m) = err;
        return;
    }

    ops->info(b, &m->memory);
    ops->destroy(b);

    tokens = m->memory.block_tokens;
    m->kv_full = (m->context + tokens - 1) / tokens * m->batch
                 * m->memory.block_size;
    m->has_memory = 1;
}


/* shape and memory, where they are known */

static void
mistral_inspect_model(mistral_inspect_t *m)
{
    if (!m->has_config) {
        return;
    }

    if (m->context == 0) {
        m->context = m->config.context;
    }

    if (m->context > m->config.context) {
        (void) mst_err_set(mistral_inspect_reason(m), "--context %llu is over "
                           "the %u tokens that the model was made for",
                           (unsigned long long) m->context,
                           m->config.context);
        m->context = m->config.context;
    }

    if (m->weights + m->coarse > m->ram) {
        (void) mst_err_set(mistral_inspect_reason(m), "%s: weights of %llu "
                           "MiB, this machine or control group has %llu MiB",
                           m->path,
                           (unsigned long long) (m->weights + m->coarse) >> 20,
                           (unsigned long long) m->ram >> 20);
    }

    mistral_inspect_memory(m);
}


static void
mistral_inspect_gguf(mistral_inspect_t *m, const mst_check_files_t *files)
{
    uint32_t     told;
    mst_err_t    err;
    mst_str_t    s;
    mst_check_t  check;

    err.text[0] = '\0';
    m->gguf = mst_gguf_open_fd(files->fd[0], m->path, &err);

    if (m->gguf == NULL) {
        *mistral_inspect_reason(m) = err;
        return;
    }

    m->size = mst_gguf_size(m->gguf);

    mistral_inspect_string(m, "general.architecture", m->arch,
                           sizeof(m->arch));
    mistral_inspect_string(m, "general.name", m->name, sizeof(m->name));
    mistral_inspect_tensors(m);

    /* once for the first reason, and then for all that are like it */

    told = files->faults->n;

    if (mst_check_gguf(m->gguf, NULL, &check, &err) != MST_OK) {
        mst_checkpoint_examine_gguf(m->gguf, files->faults);

        if (files->faults->n == told) {
            *mistral_inspect_reason(m) = err;
        }

    } else {
        m->coarse = check.coarse;
    }

    /* a file with one strange tensor has a shape all the same */

    m->has_config = (mst_config_gguf(m->gguf, &m->config, NULL, NULL)
                     == MST_OK);

    mistral_inspect_model(m);

    m->ids_only = (mst_gguf_string(m->gguf, "tokenizer.ggml.model", &s, NULL)
                   == MST_DECLINED);

    /* a model that was just made for measuring has none */

    if (mistral_inspect_args.random == NULL) {
        mistral_inspect_words(m);
    }
}


/* shards that can be read are counted, though the whole may be refused; a
   tokenizer is looked for whatever else there is */

static void
mistral_inspect_shards(mistral_inspect_t *m, const mst_check_files_t *files)
{
    size_t              k;
    uint32_t            i;
    mst_safetensors_t  *s;

    m->n_shards = files->n - 1;

    for (i = 1; i < files->n; i++) {
        s = mst_safetensors_open_fd(files->fd[i], m->path, NULL);

        for (k = 0; s && k < mst_safetensors_n_tensors(s); k++) {
            mistral_inspect_tensor(m, mst_safetensors_tensor_at(s, k));
        }

        m->size += s ? mst_safetensors_size(s) : 0;
        mst_safetensors_close(s);
    }

    m->has_config = mst_checkpoint_examine(files->fd, files->n, m->path,
                                           &m->config, files->faults)
                    == MST_OK;

    if (m->has_config) {
        (void) snprintf(m->arch, sizeof(m->arch), "%s", m->config.arch);

    } else {
        m->config.n_vocab = UINT32_MAX;        /* nobody knows */
    }

    mistral_inspect_model(m);
    mistral_inspect_directory(m);
}


static void
mistral_inspect_look(mistral_inspect_t *m)
{
    mst_err_t          err;
    mst_faults_t       faults;
    mst_check_files_t  files;

    err.text[0] = '\0';
    m->ram = mst_cpu_mem_limit();

    faults.tell = mistral_inspect_fault;
    faults.data = m;
    faults.n = 0;

    if (mst_check_open_most(m->path, &files, &faults, &err) != MST_OK) {
        *mistral_inspect_reason(m) = err;
        return;
    }

    if (files.directory) {
        mistral_inspect_shards(m, &files);
    } else {
        mistral_inspect_gguf(m, &files);
    }

    if (m->n_more) {
        (void) snprintf(m->reasons[m->n_reasons - 1].text,
                        sizeof(m->reasons[0].text), "%s: %zu reasons more",
                        m->path, m->n_more + 1);
    }

    if (m->n_reasons > (mistral_inspect_args.random == NULL)) {
        m->ids_only = 0;
    }

    mst_check_close(&files);
}


int
mistral_inspect(int argc, char **argv)
{
    int        rc;
    size_t     i;
    mst_err_t  err;

    static mistral_inspect_t  m;

    m.path = mistral_option_operand(mistral_inspect_options,
                                    MISTRAL_INSPECT_OPTIONS, &argc, argv);

    rc = mistral_option_parse(mistral_inspect_options,
                              MISTRAL_INSPECT_OPTIONS, argc, argv);

    if (rc != MISTRAL_OK) {
        return rc;
    }

    if (mistral_inspect_args.help) {
        (void) fputs(mistral_inspect_help, stdout);
        return MISTRAL_OK;
    }

    if (m.path == NULL) {
        return mistral_complain(MISTRAL_USAGE, argv[0], "one FILE is needed, "
                                "see \"mistral inspect --help\"");
    }

    err.text[0] = '\0';

    if (mistral_inspect_args.random) {
        rc = mistral_random(mistral_inspect_args.random,
                            mistral_inspect_args.format,
                            mistral_inspect_args.type, m.path,
                            mistral_inspect_args.seed, &err);
    }

    if (rc != MST_OK) {
        return mistral_complain(rc == MST_DECLINED ? MISTRAL_USAGE
                                                   : MISTRAL_FAILED,
                                argv[0], "%s", err.text);
    }

    m.context = mistral_inspect_args.context;
    m.batch = mistral_inspect_args.batch ? mistral_inspect_args.batch
                                         : MISTRAL_INSPECT_BATCH;

    mistral_inspect_look(&m);

    rc = mistral_inspect_args.json ? mistral_inspect_json(&m)
                                   : mistral_inspect_text(&m);

    if (rc != MST_OK || fflush(stdout) == EOF || ferror(stdout)) {
        rc = mistral_complain(MISTRAL_FAILED, argv[0], "stdout: %s",
                              strerror(errno));
    }

    for (i = 0; i < m.n_reasons; i++) {
        rc = mistral_complain(MISTRAL_REFUSED, argv[0], "%s",
                              m.reasons[i].text);
    }

    mst_template_destroy(m.template);
    mistral_words_close(&m.words);
    mst_gguf_close(m.gguf);

    return rc;
}

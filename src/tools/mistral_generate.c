
/*
 * mistral generate: one prompt from the shell, through the same engine that
 * nginx talks to.
 *
 * The answer goes to stdout as it comes, or as one JSON object; progress and
 * speed go to stderr.  One thread; the state is static because there is one
 * answer per process.
 */

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "model/mst_check.h"
#include "tools/mistral_generate.h"
#include "tools/mistral_option.h"
#include "tools/mistral_device.h"
#include "tools/mistral_tool.h"

#define MISTRAL_GENERATE_TOKENS  256            /* --max-tokens */


mistral_generate_conf_t  mistral_generate_conf = {
    .max_tokens = MISTRAL_GENERATE_TOKENS,
    .top_p = 1
};

static volatile sig_atomic_t  mistral_generate_stop;


static const mistral_option_t  mistral_generate_options[] = {
    { "--help", MISTRAL_FLAG, &mistral_generate_conf.help, 0, 0 },
    { "-h", MISTRAL_FLAG, &mistral_generate_conf.help, 0, 0 },
    { "--model", MISTRAL_TEXT, &mistral_generate_conf.model, 0, 0 },
    { "--prompt", MISTRAL_TEXT, &mistral_generate_conf.prompt, 0, 0 },
    { "--prompt-ids", MISTRAL_TEXT, &mistral_generate_conf.prompt_ids, 0, 0 },
    { "--chat", MISTRAL_FLAG, &mistral_generate_conf.chat, 0, 0 },
    { "--rope", MISTRAL_TEXT, &mistral_generate_conf.rope, 0, 0 },
    { "--max-tokens", MISTRAL_UINT, &mistral_generate_conf.max_tokens,
      0, INT32_MAX },
    { "--temperature", MISTRAL_REAL, &mistral_generate_conf.temperature,
      0, 2 },
    { "--top-p", MISTRAL_REAL, &mistral_generate_conf.top_p, 1e-6, 1 },
    { "--top-k", MISTRAL_UINT, &mistral_generate_conf.top_k, 0, INT32_MAX },
    { "--min-p", MISTRAL_REAL, &mistral_generate_conf.min_p, 0, 1 },
    { "--seed", MISTRAL_UINT, &mistral_generate_conf.seed, 0, 0x1p64 },
    { "--ignore-eos", MISTRAL_FLAG, &mistral_generate_conf.ignore_eos, 0, 0 },
    { "--threads", MISTRAL_UINT, &mistral_generate_conf.threads, 1, 64 },
    { "--context", MISTRAL_UINT, &mistral_generate_conf.context,
      2, INT32_MAX },
    { "--device", MISTRAL_TEXT, &mistral_generate_conf.device, 0, 0 },
    { "--dtype", MISTRAL_TEXT, &mistral_generate_conf.dtype, 0, 0 },
    { "--kv-cache", MISTRAL_TEXT, &mistral_generate_conf.kv_cache, 0, 0 },
    { "--weight-layouts", MISTRAL_UINT, &mistral_generate_conf.weight_layouts,
      1, 2 },
    { "--isa", MISTRAL_TEXT, &mistral_generate_conf.isa, 0, 0 },
    { "--activations", MISTRAL_UINT, &mistral_generate_conf.activations,
      16, 22 },
    { "--json", MISTRAL_FLAG, &mistral_generate_conf.json, 0, 0 },
    { "--logits", MISTRAL_TEXT, &mistral_generate_conf.logits, 0, 0 }
};


static const char  mistral_generate_help[] =
    "usage: mistral generate --model FILE --prompt TEXT [OPTION...]\n"
    "       mistral generate --model FILE --prompt-ids FILE [OPTION...]\n"
    "\n"
    "Answers one prompt on the terminal.\n"
    "\n"
    "  --model FILE       a GGUF file, or a directory of safetensors\n"
    "  --prompt TEXT      the prompt; \"-\" reads it from stdin\n"
    "  --prompt-ids FILE  the prompt as token ids, a JSON array or numbers\n"
    "                     with blanks or commas between them, \"-\" from\n"
    "                     stdin; needs no tokenizer\n"
    "  --chat             the prompt is what a user says: render it with the\n"
    "                     model's chat template\n"
    "  --max-tokens N     end after N tokens (default 256)\n"
    "  --temperature T    0 .. 2 (default 0: always the likeliest token)\n"
    "  --top-p P          sample from the likeliest tokens that make up P\n"
    "                     (default 1: all)\n"
    "  --top-k K          sample from the K likeliest tokens (default 0: all)\n"
    "  --min-p P          drop tokens less likely than P times the likeliest\n"
    "                     (default 0: none)\n"
    "  --seed N           of the sampling; the same seed, the same answer\n"
    "                     (default 0)\n"
    "  --ignore-eos       go on when the model would end\n"
    "  --context N        room for N tokens (default: prompt and answer, at\n"
    "                     most what the model was made for)\n"
    "  --threads N        1 .. 64 (default: one per core that we may use)\n"
    "  --device NAME      cpu or cuda:N (default: cpu)\n"
    "  --dtype NAME       of the weights: auto, bf16, fp8 or int4 (default:\n"
    "                     auto)\n"
    "  --kv-cache NAME    f32, f16 or q8; with a device bf16 or fp8\n"
    "                     (default: f32; bf16)\n"
    "  --weight-layouts N 1 or 2: how often a device has them (default: as\n"
    "                     memory allows); not for cpu\n"
    "  --isa NAME         avx512, avx2 or c (default: MISTRAL_ISA of the\n"
    "                     environment, else the best there is)\n"
    "  --activations N    bits of what quantised weights are multiplied by on\n"
    "                     the CPU: 22, or 16, faster and inexact (default:\n"
    "                     22)\n"
    "  --rope exact|cast  rotary frequencies as they are, which the engine\n"
    "                     has and transformers when it loads a checkpoint; or\n"
    "                     rounded to the type of the weights, which a model\n"
    "                     has that was made in memory and cast as a whole\n"
    "                     (default: cast for such a one, saved with Hugging\n"
    "                     Face's names and no tokenizer, else exact)\n"
    "  --json             print one object: {\"ids\": [new ids],\n"
    "                     \"logprobs\": [...], \"finish_reason\": \"stop\" or\n"
    "                     \"length\"}\n"
    "  --logits last|all  with --json, add \"logits\": [[...], ...], the row\n"
    "                     after the last token of the prompt, or a row for\n"
    "                     each token of it\n"
    "\n"
    "Numbers of tokens and tokens per second follow on stderr.\n";


static void
mistral_generate_signal(int sig)
{
    (void) sig;

    mistral_generate_stop = 1;
}


static int
mistral_generate_check(const mistral_generate_conf_t *c)
{
    static const char  name[] = "generate";

    if (c->model == NULL) {
        return mistral_complain(MISTRAL_USAGE, name, "--model is needed, see "
                                "\"mistral generate --help\"");
    }

    if (c->prompt == NULL && c->prompt_ids == NULL) {
        return mistral_complain(MISTRAL_USAGE, name, "one of --prompt and "
                                "--prompt-ids is needed");
    }

    if (c->prompt && c->prompt_ids) {
        return mistral_complain(MISTRAL_USAGE, name, "--prompt and "
                                "--prompt-ids are both given, one prompt is "
                                "answered");
    }

    if (c->chat && c->prompt_ids) {
        return mistral_complain(MISTRAL_USAGE, name, "--chat renders a text, "
                                "which --prompt-ids is not");
    }

    if (c->logits && !c->json) {
        return mistral_complain(MISTRAL_USAGE, name, "--logits needs --json");
    }

    if (c->logits && strcmp(c->logits, "last") != 0
        && strcmp(c->logits, "all") != 0)
    {
        return mistral_complain(MISTRAL_USAGE, name, "--logits \"%s\" is "
                                "neither \"last\" nor \"all\"", c->logits);
    }

    if (c->rope && strcmp(c->rope, "exact") != 0
        && strcmp(c->rope, "cast") != 0)
    {
        return mistral_complain(MISTRAL_USAGE, name, "--rope \"%s\" is "
                                "neither \"exact\" nor \"cast\"", c->rope);
    }

    return MISTRAL_OK;
}


static void
mistral_generate_log(void *data, mst_log_level_t level, const char *text)
{
    mistral_report_progress(data, NULL);

    (void) level;
    (void) fprintf(stderr, "mistral generate: %s\n", text);
}


/* the ids that end an answer, from the tokenizer or else as the file says */

static void
mistral_generate_stops(mistral_generate_t *g)
{
    const mst_tokenizer_info_t  *info;

    if (mistral_generate_conf.ignore_eos) {
        return;
    }

    if (g->words.tokenizer) {
        info = mst_tokenizer_info(g->words.tokenizer);

        memcpy(g->stop_ids, info->stop_ids, sizeof(g->stop_ids));
        g->n_stop = info->n_stop;
        return;
    }

    memcpy(g->stop_ids, g->config->stop_ids, sizeof(g->config->stop_ids));
    g->n_stop = g->config->n_stop;
}


/* ids need no tokenizer, so a missing or strange one is no error there */

static int
mistral_generate_words(mistral_generate_t *g, mst_err_t *err)
{
    const char  *path;

    path = mistral_generate_conf.model;

    if (mst_checkpoint_container(g->checkpoint)) {
        return mistral_words_gguf(&g->words,
                                  mst_checkpoint_container(g->checkpoint),
                                  path, err);
    }

    return mistral_words_directory(&g->words, g->config, path, err);
}


/* the file, its tokenizer and the prompt: all that is cheap */

static int
mistral_generate_open(mistral_generate_t *g)
{
    int                             rc;
    mst_buf_t                       text;
    mst_check_files_t               files;
    const mistral_generate_conf_t  *c;

    c = &mistral_generate_conf;
    if (mst_check_open(c->model, &files, &g->err) != MST_OK) {
        return MISTRAL_REFUSED;
    }

    g->checkpoint = mst_checkpoint_open(files.fd, files.n, c->model, &g->err);
    mst_check_close(&files);

    if (g->checkpoint == NULL) {
        return MISTRAL_REFUSED;
    }

    g->config = mst_checkpoint_config(g->checkpoint);

    rc = mistral_generate_words(g, c->prompt_ids ? NULL : &g->err);
    g->wordless = (rc == MST_DECLINED);

    mistral_generate_stops(g);

    if (c->prompt_ids) {
        rc = mistral_prompt_ids(c->prompt_ids, g->config->n_vocab, &g->prompt,
                                &g->err);
        return rc == MST_OK ? MISTRAL_OK : MISTRAL_FAILED;
    }

    if (rc != MST_OK) {
        return MISTRAL_REFUSED;
    }

    mst_buf_init(&text);
    rc = mistral_prompt_text(c->prompt, &text, &g->err);

    if (rc == MST_OK) {
        rc = mistral_prompt_encode(&g->words, &text, c->chat, &g->prompt,
                                   &g->err);
    }

    mst_buf_fini(&text);

    if (rc == MST_DECLINED) {
        return MISTRAL_REFUSED;
    }

    return rc == MST_OK ? MISTRAL_OK : MISTRAL_FAILED;
}


/* how many tokens the answer's cache must hold; 0 with a sentence */

static uint32_t
mistral_generate_context(mistral_generate_t *g)
{
    uint64_t                        n;
    const mistral_generate_conf_t  *c;

    c = &mistral_generate_conf;

    if (g->prompt.n == 0) {
        (void) mst_err_set(&g->err, "the prompt is empty");
        return 0;
    }

    if (c->context > g->config->context) {
        (void) mst_err_set(&g->err, "--context %llu is over the %u tokens "
                           "that the model was made for",
                           (unsigned long long) c->context, g->config->context);
        return 0;
    }

    n = c->context;

    if (n == 0) {
        n = g->prompt.n + (c->max_tokens ? c->max_tokens : 1);
        n = n < g->config->context ? n : g->config->context;
    }

    if (g->prompt.n >= n) {
        (void) mst_err_set(&g->err, "the prompt has %zu tokens, which leaves "
                           "no room in a context of %llu", g->prompt.n,
                           (unsigned long long) n);
        return 0;
    }

    return (uint32_t) n;
}


static void
mistral_generate_event(void *data, const mst_event_t *ev)
{
    mistral_token_t      token;
    mistral_generate_t  *g;

    g = data;

    switch (ev->type) {

    case MST_EVENT_TOKEN:
        token.id = ev->sampled->id;
        token.logprob = ev->sampled->logprob;

        (void) mst_buf_append(&g->tokens, &token, sizeof(token));
        g->n_tokens++;
        break;

    case MST_EVENT_REFUSE:
        g->finish = MST_FINISH_ERROR;
        (void) mst_err_set(&g->err, "refused: %s", ev->text ? ev->text
                           : "there is no memory for it");
        break;

    case MST_EVENT_DONE:
        g->finish = ev->finish;
        g->usage = *ev->usage;
        break;

    case MST_EVENT_PROMPT:
    case MST_EVENT_ADMIT:
        break;
    }
}


/*
 * A checkpoint that was published has a tokenizer, and its frequencies were
 * never rounded: transformers keeps them in float32 when it loads one.  One
 * without was made in memory: model.to(dtype) rounds all that it holds, and
 * the logits of that model, saved beside, are those to compare with.
 */

static int
mistral_generate_cast(const mistral_generate_t *g)
{
    if (mistral_generate_conf.rope) {
        return strcmp(mistral_generate_conf.rope, "cast") == 0;
    }

    return g->wordless && g->config->half_split;
}


static int
mistral_generate_load(mistral_generate_t *g, const mst_log_t *log)
{
    mst_runner_t                    runner;
    mst_model_conf_t                mc;
    mst_engine_conf_t               ec;
    const mistral_generate_conf_t  *c;

    c = &mistral_generate_conf;
    memset(&mc, 0, sizeof(mc));
    memset(&ec, 0, sizeof(ec));

    mc.threads = (uint32_t) c->threads;
    mc.context = mistral_generate_context(g);
    mc.max_rows = MISTRAL_GENERATE_CHUNK;
    mc.max_seqs = 1;
    mc.isa = mistral_isa(c->isa);
    mc.activations = (uint32_t) c->activations;
    mc.rope_cast = mistral_generate_cast(g);
    mc.log = log;

    if (mc.context == 0) {
        return MISTRAL_FAILED;
    }

    mc.weight_layouts = (uint32_t) c->weight_layouts;

    if (mistral_device(c->device, c->dtype, c->kv_cache, &mc, &g->err)
        != MISTRAL_OK)
    {
        return MISTRAL_USAGE;
    }

    mistral_report_progress(g, "loading %llu MiB",
                            (unsigned long long)
                            mst_checkpoint_weights(g->checkpoint) >> 20);
    g->model = mst_model_create(g->checkpoint, &mc, &g->err);
    mistral_report_progress(g, NULL);

    if (g->model == NULL) {
        return MISTRAL_REFUSED;
    }

    g->checkpoint = NULL;

    if (mst_runner_model(&runner, g->model, &g->err) != MST_OK) {
        mst_model_destroy(g->model);
        return MISTRAL_FAILED;
    }

    ec.max_batch = 1;
    ec.prefill_chunk = MISTRAL_GENERATE_CHUNK;
    ec.keep_logits = mistral_generate_conf.logits != NULL;
    ec.handler = mistral_generate_event;
    ec.data = g;
    ec.log = log;

    g->engine = mst_engine_create(&ec, &runner, &g->err);

    if (g->engine == NULL) {
        runner.destroy(runner.data);
        return MISTRAL_FAILED;
    }

    return MISTRAL_OK;
}


static void
mistral_generate_submit(mistral_generate_t *g)
{
    mst_submit_t                    s;
    const mistral_generate_conf_t  *c;

    c = &mistral_generate_conf;
    memset(&s, 0, sizeof(s));

    s.tag = 1;
    s.prompt = g->prompt.ids;
    s.n_prompt = (uint32_t) g->prompt.n;
    s.stop_ids = g->stop_ids;
    s.n_stop = g->n_stop;

    mst_params_default(&s.params);
    s.params.temperature = (float) c->temperature;
    s.params.top_p = (float) c->top_p;
    s.params.min_p = (float) c->min_p;
    s.params.top_k = (int32_t) c->top_k;
    s.params.seed = c->seed;
    s.params.max_tokens = (uint32_t) c->max_tokens;
    s.params.flags = (c->json ? MST_PARAMS_LOGPROBS : 0)
                     | (c->ignore_eos ? MST_PARAMS_IGNORE_EOS : 0);

    mst_engine_submit(g->engine, &s, mst_time_ns());
}


/* what is to be done after each step besides the next one */

static int
mistral_generate_follow(mistral_generate_t *g, uint64_t first, uint64_t start)
{
    size_t              size;
    uint64_t            n;
    const float        *row;
    mst_engine_stats_t  stats;

    if (g->tokens.failed) {
        return mst_err_set(&g->err, "no memory for the answer");
    }

    row = mst_engine_logits(g->engine);

    if (g->last == NULL && row && mistral_generate_conf.logits
        && strcmp(mistral_generate_conf.logits, "last") == 0
        && (g->n_tokens || g->finish == MST_FINISH_LENGTH))
    {
        size = g->config->n_vocab * sizeof(float);
        g->last = mst_alloc(size);

        if (g->last == NULL) {
            return mst_err_set(&g->err, "no memory for the logits");
        }

        memcpy(g->last, row, size);
    }

    if (g->n_tokens == first && !g->finish) {

        if (mst_time_ns() - start > MST_S) {
            mst_engine_stats(g->engine, &stats);

            n = stats.steps * MISTRAL_GENERATE_CHUNK;
            n = n < g->prompt.n ? n : g->prompt.n;
            mistral_report_progress(g, "prompt: %llu of %zu tokens",
                                    (unsigned long long) n, g->prompt.n);
        }

        return MST_OK;
    }

    if (mistral_generate_conf.json) {
        if (mst_time_ns() - start > MST_S) {
            mistral_report_progress(g, "answer: %llu tokens",
                                    (unsigned long long) g->n_tokens);
        }

        return MST_OK;
    }

    mistral_report_progress(g, NULL);

    return mistral_report_text(g, first);
}


static int
mistral_generate_run(mistral_generate_t *g)
{
    int       rc;
    uint64_t  first, start, wake;

    start = mst_time_ns();
    mistral_generate_submit(g);

    while (!g->finish) {

        if (mistral_generate_stop) {
            mst_engine_cancel(g->engine, 1, mst_time_ns());
            (void) mst_err_set(&g->err, "interrupted");
        }

        first = g->n_tokens;
        rc = mst_engine_step(g->engine, mst_time_ns(), &wake, &g->err);

        if (rc == MST_AGAIN && !g->finish) {

            /* a model computes at once or never */

            return mst_err_set(&g->err, "the engine has nothing to do and no "
                               "answer either");
        }

        if (rc == MST_ERROR
            || mistral_generate_follow(g, first, start) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    mistral_report_progress(g, NULL);

    if (g->finish != MST_FINISH_STOP && g->finish != MST_FINISH_LENGTH) {
        return mst_err_set(&g->err, g->finish == MST_FINISH_NUMERIC
                           ? "the model's numbers are not finite"
                           : "the engine failed");
    }

    return MST_OK;
}


static void
mistral_generate_close(mistral_generate_t *g)
{
    mst_engine_destroy(g->engine);
    mistral_words_close(&g->words);
    mst_checkpoint_close(g->checkpoint);
    mst_buf_fini(&g->tokens);
    mst_buf_fini(&g->text);
    mst_free(g->prompt.ids);
    mst_free(g->last);
}


static int
mistral_generate_answer(mistral_generate_t *g, const mst_log_t *log)
{
    int  rc;

    rc = mistral_generate_open(g);

    if (rc == MISTRAL_OK) {
        rc = mistral_generate_load(g, log);
    }

    if (rc != MISTRAL_OK) {
        return rc;
    }

    if (g->words.tokenizer) {
        mst_detok_init(&g->detok, g->words.tokenizer);
    }

    if (mistral_generate_run(g) != MST_OK
        || (mistral_generate_conf.json && mistral_report_json(g) != MST_OK))
    {
        return MISTRAL_FAILED;
    }

    mistral_report_speed(g);

    return MISTRAL_OK;
}


int
mistral_generate(int argc, char **argv)
{
    int                 rc;
    mst_log_t           log;
    struct sigaction    action;
    mistral_generate_t  g;

    rc = mistral_option_parse(mistral_generate_options,
                              sizeof(mistral_generate_options)
                              / sizeof(*mistral_generate_options),
                              argc, argv);

    if (rc == MISTRAL_OK && mistral_generate_conf.help) {
        (void) fputs(mistral_generate_help, stdout);
        return MISTRAL_OK;
    }

    if (rc == MISTRAL_OK) {
        rc = mistral_generate_check(&mistral_generate_conf);
    }

    if (rc != MISTRAL_OK) {
        return rc;
    }

    /* the first ^C ends the answer, the second one the process */

    memset(&action, 0, sizeof(action));
    action.sa_handler = mistral_generate_signal;
    action.sa_flags = (int) SA_RESETHAND;
    (void) sigaction(SIGINT, &action, NULL);

    memset(&g, 0, sizeof(g));

    log.handler = mistral_generate_log;
    log.data = &g;
    log.level = MST_LOG_WARN;

    rc = mistral_generate_answer(&g, &log);

    if (rc != MISTRAL_OK) {
        mistral_report_progress(&g, NULL);
        (void) mistral_complain(rc, argv[0], "%s", g.err.text);
    }

    mistral_generate_close(&g);

    return rc;
}

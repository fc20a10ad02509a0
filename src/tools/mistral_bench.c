
/*
 * mistral bench: how fast is a server, or the engine without one.
 */

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mst_time.h"
#include "tools/mistral_bench.h"
#include "tools/mistral_device.h"
#include "tools/mistral_option.h"
#include "tools/mistral_tool.h"


volatile sig_atomic_t  mistral_bench_stop;

static mistral_bench_conf_t  mistral_bench_conf = {
    .seed = MISTRAL_BENCH_NO_SEED
};


#define MISTRAL_BENCH_OPTION(name, kind, field, low, high)                    \
    { name, MISTRAL_ ## kind, &mistral_bench_conf.field, low, high }

static const mistral_option_t  mistral_bench_options[] = {
    MISTRAL_BENCH_OPTION("--help", FLAG, help, 0, 0),
    MISTRAL_BENCH_OPTION("-h", FLAG, help, 0, 0),
    MISTRAL_BENCH_OPTION("--json", TEXT, json, 0, 0),
    MISTRAL_BENCH_OPTION("--model", TEXT, model, 0, 0),

    /* "mistral bench URL" */
    MISTRAL_BENCH_OPTION("--concurrency", UINT, concurrency, 1,
                         MISTRAL_BENCH_CONNECTIONS),
    MISTRAL_BENCH_OPTION("--requests", UINT, requests, 1, 1e12),
    MISTRAL_BENCH_OPTION("--duration", REAL, duration, 0.01, 1e7),
    MISTRAL_BENCH_OPTION("--rate", REAL, rate, 1e-3, 1e6),
    MISTRAL_BENCH_OPTION("--seed", UINT, seed, 0, 0x1p53),
    MISTRAL_BENCH_OPTION("--prompt-tokens", UINT, prompt_tokens, 1, 1e6),
    MISTRAL_BENCH_OPTION("--max-tokens", UINT, max_tokens, 1, INT32_MAX),
    MISTRAL_BENCH_OPTION("--profile", TEXT, profile, 0, 0),
    MISTRAL_BENCH_OPTION("--warmup", UINT, warmup, 1, 1e9),
    MISTRAL_BENCH_OPTION("--timeout", REAL, timeout, 0.01, 1e6),
    MISTRAL_BENCH_OPTION("--stream", FLAG, stream, 0, 0),
    MISTRAL_BENCH_OPTION("--no-stream", FLAG, no_stream, 0, 0),
    MISTRAL_BENCH_OPTION("--ignore-eos", FLAG, ignore_eos, 0, 0),
    MISTRAL_BENCH_OPTION("--header", LIST, headers, 0, MISTRAL_BENCH_HEADERS),

    /* "mistral bench --engine" */
    MISTRAL_BENCH_OPTION("--engine", FLAG, engine, 0, 0),
    MISTRAL_BENCH_OPTION("--kernels", FLAG, kernels, 0, 0),
    MISTRAL_BENCH_OPTION("--threads", UINT, threads, 1, 64),
    MISTRAL_BENCH_OPTION("--device", TEXT, device, 0, 0),
    MISTRAL_BENCH_OPTION("--dtype", TEXT, dtype, 0, 0),
    MISTRAL_BENCH_OPTION("--weight-layouts", UINT, weight_layouts, 1, 2),
    MISTRAL_BENCH_OPTION("--batch-invariant", FLAG, batch_invariant, 0, 0),
    MISTRAL_BENCH_OPTION("--isa", TEXT, isa, 0, 0),
    MISTRAL_BENCH_OPTION("--activations", UINT, activations, 16, 22),
    MISTRAL_BENCH_OPTION("--kv-cache", TEXT, kv_cache, 0, 0),
    MISTRAL_BENCH_OPTION("--temperature", REAL, temperature, 0, 2),
    MISTRAL_BENCH_OPTION("--cases", TEXT, cases, 0, 0),
    MISTRAL_BENCH_OPTION("--prompts", TEXT, prompts, 0, 0),
    MISTRAL_BENCH_OPTION("--repeat", UINT, repeat, 1, 1000)
};

#undef MISTRAL_BENCH_OPTION

#define MISTRAL_BENCH_OPTIONS                                                 \
    (sizeof(mistral_bench_options) / sizeof(*mistral_bench_options))


static const char  mistral_bench_help[] =
    "usage: mistral bench URL [OPTION...]\n"
    "       mistral bench --engine --model FILE [OPTION...]\n"
    "       mistral bench --kernels [--isa NAME] [--activations N]\n"
    "                               [--json FILE]\n"
    "       mistral bench --kernels --device cuda:N [--json FILE]\n"
    "\n"
    "Sends chat requests to an OpenAI server and measures the time to the\n"
    "first token, between tokens and to the end, tokens per second, and\n"
    "errors.  URL is http://HOST[:PORT][/PATH]; no path is \"/v1\", and one\n"
    "that does not end in \"/completions\" gets \"/chat/completions\".\n"
    "\n"
    "  --concurrency N    connections, each with one request at a time\n"
    "                     (default 1; with --rate at most 1024)\n"
    "  --requests N       end after N requests (default 100)\n"
    "  --duration S       start no request after S seconds\n"
    "  --rate R           R requests per second at random times (Poisson),\n"
    "                     whether or not earlier ones are answered; times\n"
    "                     count from when a request was due\n"
    "  --prompt-tokens N  prompts of N random words, about N tokens\n"
    "                     (default 128)\n"
    "  --max-tokens N     length of an answer (default 64)\n"
    "  --profile FILE     a JSON list of {\"weight\": 1, \"prompt_tokens\": N\n"
    "                     or \"prompt\": TEXT, \"max_tokens\": N}; each\n"
    "                     request is drawn from it by weight; whole weights\n"
    "                     are dealt out: so many requests, so many of each\n"
    "  --seed N           of words, times and draws (default: another one\n"
    "                     each time, since a server may know the prompts of\n"
    "                     an earlier run)\n"
    "  --model NAME       the request's \"model\" (default: none)\n"
    "  --ignore-eos       ask for answers of full length\n"
    "  --no-stream        whole answers instead of event streams\n"
    "  --stream           event streams, the default\n"
    "  --warmup N         requests before the measured ones (default: none)\n"
    "  --header LINE      \"Name: value\", a header of every request, as\n"
    "                     \"Authorization: Bearer KEY\"; up to 8 of them\n"
    "  --timeout S        of one request (default 300)\n"
    "  --json FILE        write the report as JSON, \"-\": to stdout and\n"
    "                     nothing else\n"
    "\n"
    "With --engine, the engine alone, in this process:\n"
    "\n"
    "  --model FILE       a GGUF file, or a directory of safetensors\n"
    "  --cases LIST       of decode_N: N answers of 128 tokens at once, from\n"
    "                     --prompt-tokens (default 128) of context on;\n"
    "                     prefill_N: a prompt of N tokens\n"
    "                     (default decode_1,prefill_512,prefill_2048,\n"
    "                     decode_8,decode_16)\n"
    "  --prompts FILE     a JSON list of lists of token ids: those of\n"
    "                     decode_N, in turn, in place of random ones\n"
    "  --repeat N         the median of N runs is shown (default 5)\n"
    "  --threads N        1 .. 64 (default: one per core that we may use)\n"
    "  --device NAME      cpu or cuda:N (default: cpu)\n"
    "  --dtype NAME       of the weights: auto, bf16, fp8 or int4 (default:\n"
    "                     auto)\n"
    "  --weight-layouts N 1 or 2: how often a device has them (default: as\n"
    "                     memory allows); not for cpu\n"
    "  --batch-invariant  the same bits at every batch size, on a device; the\n"
    "                     CPU always has them\n"
    "  --isa NAME         avx512, avx2 or c (default: MISTRAL_ISA of the\n"
    "                     environment, else the best there is)\n"
    "  --activations N    bits of what quantised weights are multiplied by on\n"
    "                     the CPU: 22, or 16, faster and inexact (default:\n"
    "                     22)\n"
    "  --kv-cache NAME    f32, f16 or q8; with a device bf16 or fp8\n"
    "                     (default: f32; bf16)\n"
    "  --temperature T    draw the answers' tokens, 0 .. 2 (default 0:\n"
    "                     always the likeliest)\n"
    "  --json FILE        an object with a number for each case\n"
    "\n"
    "With --kernels, what one core makes of each type of weights, beside\n"
    "what it can multiply and read; with --device cuda:N how long each of\n"
    "its kernels takes, and what part of the device's limit that is.\n"
    "\n"
    "Exits with 1 when no request succeeded.\n";


static void
mistral_bench_signal(int sig)
{
    (void) sig;

    mistral_bench_stop = 1;
}


/* options of the other kind of bench are a mistake, not a wish */

static int
mistral_bench_check_engine(const mistral_bench_conf_t *c)
{
    mst_err_t         err;
    mst_model_conf_t  mc;

    if (c->url) {
        return mistral_complain(MISTRAL_USAGE, "bench", "--engine asks no "
                                "server, \"%s\" is one too many", c->url);
    }

    if (c->model == NULL) {
        return mistral_complain(MISTRAL_USAGE, "bench", "--engine needs "
                                "--model FILE");
    }

    memset(&mc, 0, sizeof(mc));
    err.text[0] = '\0';
    mc.weight_layouts = (uint32_t) c->weight_layouts;

    if (mistral_device(c->device, c->dtype, c->kv_cache, &mc, &err)
        != MISTRAL_OK)
    {
        return mistral_complain(MISTRAL_USAGE, "bench", "%s", err.text);
    }

    if (c->prompts && c->prompt_tokens) {
        return mistral_complain(MISTRAL_USAGE, "bench", "--prompts says how "
                                "long prompts are, not --prompt-tokens");
    }

    if (c->concurrency || c->requests || c->duration > 0 || c->rate > 0
        || c->max_tokens || c->profile || c->warmup
        || c->timeout > 0 || c->stream || c->no_stream || c->ignore_eos
        || c->headers[0]
        || c->seed != MISTRAL_BENCH_NO_SEED)
    {
        return mistral_complain(MISTRAL_USAGE, "bench", "--engine goes with "
                                "--model, --cases, --prompt-tokens, "
                                "--prompts, --repeat, --device, "
                                "--dtype, --weight-layouts, "
                                "--batch-invariant, --threads, "
                                "--isa, --activations, --kv-cache, "
                                "--temperature and --json only");
    }

    return MISTRAL_OK;
}


static int
mistral_bench_on_device(const mistral_bench_conf_t *c)
{
    return c->device != NULL && strcmp(c->device, "cpu") != 0;
}


static int
mistral_bench_check_kernels(const mistral_bench_conf_t *c)
{
    mistral_bench_conf_t  own;

    memset(&own, 0, sizeof(own));
    own.kernels = 1;
    own.isa = c->isa;
    own.activations = c->activations;
    own.device = c->device;
    own.json = c->json;
    own.seed = MISTRAL_BENCH_NO_SEED;

    if (memcmp(&own, c, sizeof(own)) != 0
        || (mistral_bench_on_device(c) && (c->isa || c->activations)))
    {
        return mistral_complain(MISTRAL_USAGE, "bench", "--kernels goes with "
                                "--isa, --activations and --json only, or "
                                "with --device and --json");
    }

    return MISTRAL_OK;
}


/* a name of RFC 9110's letters, and a value on the same line; what we write
   ourselves is not for others */

static int
mistral_bench_check_header(const char *line)
{
    size_t  i, n;

    static const char        letters[] =
        "!#$%&'*+-.^_`|~0123456789"
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char *const  own[] = {
        "Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect",
        "Content-Type", "User-Agent", "Accept"
    };

    n = strspn(line, letters);

    if (n == 0 || line[n] != ':') {
        return mistral_complain(MISTRAL_USAGE, "bench", "--header is not "
                                "\"Name: value\"");
    }

    for (i = n; line[i]; i++) {
        if (((unsigned char) line[i] < ' ' && line[i] != '\t')
            || line[i] == 0x7f)
        {
            return mistral_complain(MISTRAL_USAGE, "bench", "--header "
                                    "\"%.*s\" has a control character in "
                                    "its value", (int) n, line);
        }
    }

    for (i = 0; i < sizeof(own) / sizeof(*own); i++) {
        if (strlen(own[i]) == n && strncasecmp(line, own[i], n) == 0) {
            return mistral_complain(MISTRAL_USAGE, "bench", "--header "
                                    "\"%s\" is not to be chosen", own[i]);
        }
    }

    return MISTRAL_OK;
}


static int
mistral_bench_check_http(const mistral_bench_conf_t *c)
{
    size_t  i;

    for (i = 0; c->headers[i]; i++) {
        if (mistral_bench_check_header(c->headers[i]) != MISTRAL_OK) {
            return MISTRAL_USAGE;
        }
    }

    if (c->url == NULL) {
        return mistral_complain(MISTRAL_USAGE, "bench", "a URL or --engine is "
                                "needed, see \"mistral bench --help\"");
    }

    if (c->threads || c->device || c->isa || c->activations || c->kv_cache
        || c->temperature > 0 || c->cases || c->prompts || c->repeat
        || c->dtype || c->weight_layouts || c->batch_invariant)
    {
        return mistral_complain(MISTRAL_USAGE, "bench", "--device, "
                                "--dtype, --weight-layouts, "
                                "--batch-invariant, --threads, "
                                "--isa, --activations, --kv-cache, "
                                "--temperature, --cases, --prompts and "
                                "--repeat go with --engine");
    }

    if (c->requests && c->duration > 0) {
        return mistral_complain(MISTRAL_USAGE, "bench", "one of --requests "
                                "and --duration, not both");
    }

    if (c->stream && c->no_stream) {
        return mistral_complain(MISTRAL_USAGE, "bench", "one of --stream and "
                                "--no-stream, not both");
    }

    if (c->profile && (c->prompt_tokens || c->max_tokens)) {
        return mistral_complain(MISTRAL_USAGE, "bench", "--profile says how "
                                "long prompts and answers are, not "
                                "--prompt-tokens or --max-tokens");
    }

    return MISTRAL_OK;
}


int
mistral_bench(int argc, char **argv)
{
    int                    rc;
    struct sigaction       action;
    mistral_bench_conf_t  *c;

    c = &mistral_bench_conf;

    c->url = mistral_option_operand(mistral_bench_options,
                                    MISTRAL_BENCH_OPTIONS, &argc, argv);

    rc = mistral_option_parse(mistral_bench_options, MISTRAL_BENCH_OPTIONS,
                              argc, argv);

    if (rc == MISTRAL_OK && c->help) {
        (void) fputs(mistral_bench_help, stdout);
        return MISTRAL_OK;
    }

    if (rc == MISTRAL_OK) {
        rc = c->kernels ? mistral_bench_check_kernels(c)
             : c->engine ? mistral_bench_check_engine(c)
             : mistral_bench_check_http(c);
    }

    if (rc != MISTRAL_OK) {
        return rc;
    }

    /* the first ^C ends the run and shows what there is, the second one the
       process */

    memset(&action, 0, sizeof(action));
    action.sa_handler = mistral_bench_signal;
    action.sa_flags = (int) SA_RESETHAND;
    (void) sigaction(SIGINT, &action, NULL);
    (void) sigaction(SIGTERM, &action, NULL);

    if (c->seed == MISTRAL_BENCH_NO_SEED) {
        c->seed = mst_time_ns() & 0xffffffff;
    }

    if (c->kernels) {
        return mistral_bench_on_device(c) ? mistral_bench_device(c)
                                          : mistral_bench_kernels(c);
    }

    return c->engine ? mistral_bench_engine(c) : mistral_bench_http(c);
}


/*
 * What "mistral generate" prints: text as it comes, JSON, progress, speed.
 */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "tools/mistral_generate.h"

#define MISTRAL_REPORT_ROWS  64                /* of logits in a step */


void
mistral_report_progress(mistral_generate_t *g, const char *fmt, ...)
{
    va_list  args;

    if (!isatty(STDERR_FILENO) || (fmt == NULL && !g->progress)) {
        return;
    }

    (void) fputs("\r\033[K", stderr);
    g->progress = (fmt != NULL);

    if (fmt) {
        va_start(args, fmt);
        (void) vfprintf(stderr, fmt, args);
        va_end(args);
    }

    (void) fflush(stderr);
}


int
mistral_report_text(mistral_generate_t *g, uint64_t first)
{
    int                     rc;
    const mistral_token_t  *t;

    t = (const mistral_token_t *) (const void *) g->tokens.data;
    mst_buf_reset(&g->text);

    for (rc = MST_OK; first < g->n_tokens && rc == MST_OK; first++) {
        rc = g->words.tokenizer
             ? mst_detok_push(&g->detok, t[first].id, &g->text)
             : mst_buf_printf(&g->text, first ? " %u" : "%u", t[first].id);
    }

    if (g->finish && rc == MST_OK) {
        rc = g->words.tokenizer ? mst_detok_finish(&g->detok, &g->text)
                                : MST_OK;
        rc = rc == MST_OK ? mst_buf_char(&g->text, '\n') : rc;
    }

    if (rc != MST_OK) {
        return mst_err_set(&g->err, "no memory for the answer");
    }

    /* a control token has no text, and the buffer no memory yet */

    if ((g->text.len
         && fwrite(g->text.data, 1, g->text.len, stdout) != g->text.len)
        || fflush(stdout) == EOF)
    {
        return mst_err_errno(&g->err, errno, "stdout");
    }

    return MST_OK;
}


static void
mistral_report_number(float f, const char *comma)
{
    if (isfinite(f)) {
        (void) printf("%s%.9g", comma, (double) f);

    } else {
        (void) printf("%snull", comma);        /* JSON has no infinities */
    }
}


static void
mistral_report_row(const float *row, uint32_t n, const char *comma)
{
    uint32_t  i;

    (void) printf("%s[", comma);

    for (i = 0; i < n; i++) {
        mistral_report_number(row[i], i ? "," : "");
    }

    (void) printf("]");
}


/*
 * The rows of the whole prompt, computed once more: the engine asks the model
 * for the last one only.  The answer is complete and the engine idle, so its
 * blocks are free to be used here.
 */

static int
mistral_report_rows(mistral_generate_t *g)
{
    int                      rc;
    size_t                   at;
    uint32_t                 i, n, *blocks;
    mst_batch_t              batch;
    const float             *rows;
    mst_batch_seq_t          seq;
    const mst_model_info_t  *info;

    info = mst_model_info(g->model);
    n = (uint32_t) ((g->prompt.n - 1) / info->block_tokens + 1);

    if (n > info->n_blocks || (blocks = mst_calloc(n, sizeof(*blocks))) == NULL)
    {
        return mst_err_set(&g->err, "no memory for the logits");
    }

    for (i = 0; i < n; i++) {
        blocks[i] = i;
    }

    rc = MST_OK;

    memset(&seq, 0, sizeof(mst_batch_seq_t));
    seq.length = (uint32_t) g->prompt.n;
    seq.blocks = blocks;
    seq.logits = MST_LOGITS_ALL;

    for (at = 0; at < g->prompt.n && rc == MST_OK; at += seq.n) {
        n = (uint32_t) (g->prompt.n - at);

        seq.ids = g->prompt.ids + at;
        seq.n = n < MISTRAL_REPORT_ROWS ? n : MISTRAL_REPORT_ROWS;
        seq.position = (uint32_t) at;

        batch.seqs = &seq;
        batch.n_seqs = 1;
        batch.n_tokens = seq.n;

        rc = mst_forward(g->model, &batch, &rows, &g->err);

        for (i = 0; i < seq.n && rc == MST_OK; i++) {
            mistral_report_row(rows + (size_t) i * info->n_vocab,
                                 info->n_vocab, at + i ? ",\n" : "");
        }
    }

    mst_free(blocks);

    return rc;
}


int
mistral_report_json(mistral_generate_t *g)
{
    int                     rc;
    uint64_t                i;
    const mistral_token_t  *t;

    t = (const mistral_token_t *) (const void *) g->tokens.data;
    rc = MST_OK;

    (void) printf("{\"ids\":[");

    for (i = 0; i < g->n_tokens; i++) {
        (void) printf("%s%u", i ? "," : "", t[i].id);
    }

    (void) printf("],\"logprobs\":[");

    for (i = 0; i < g->n_tokens; i++) {
        mistral_report_number(t[i].logprob, i ? "," : "");
    }

    (void) printf("],\"finish_reason\":\"%s\"",
                  g->finish == MST_FINISH_STOP ? "stop" : "length");

    if (g->last) {
        (void) printf(",\"logits\":[");
        mistral_report_row(g->last, g->config->n_vocab, "");
        (void) printf("]");

    } else if (mistral_generate_conf.logits) {
        (void) printf(",\"logits\":[");
        rc = mistral_report_rows(g);
        (void) printf("]");
    }

    (void) printf("}\n");

    if (rc == MST_OK && (fflush(stdout) == EOF || ferror(stdout))) {
        return mst_err_errno(&g->err, errno, "stdout");
    }

    return rc;
}


void
mistral_report_speed(const mistral_generate_t *g)
{
    double  prefill, decode;

    prefill = (double) g->usage.prefill_ns / 1e9;
    decode = (double) g->usage.decode_ns / 1e9;

    (void) fprintf(stderr, "prompt: %u tokens in %.3f s", g->usage.prompt,
                   prefill);

    if (prefill > 0) {
        (void) fprintf(stderr, ", %.1f tokens/s", g->usage.prompt / prefill);
    }

    (void) fprintf(stderr, "; answer: %u tokens in %.3f s",
                   g->usage.completion, decode);

    /* the first token came out of the prompt's last step */

    if (decode > 0 && g->usage.completion > 1) {
        (void) fprintf(stderr, ", %.1f tokens/s",
                       (g->usage.completion - 1) / decode);
    }

    (void) fputc('\n', stderr);

    /* without --context, only the model's own bounds an answer */

    if (g->finish == MST_FINISH_LENGTH
        && g->n_tokens < mistral_generate_conf.max_tokens)
    {
        (void) fprintf(stderr, "the answer was cut: it and its prompt fill "
                       "the context of %llu tokens\n",
                       mistral_generate_conf.context
                       ? (unsigned long long) mistral_generate_conf.context
                       : (unsigned long long) g->config->context);
    }
}

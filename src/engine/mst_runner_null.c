
/*
 * The null model: real scheduling, real blocks, no numbers (mst_runner.h).
 *
 * A token is a function of its place in the answer and of time alone, so an
 * answer does not depend on batches, chunks or preemption.  With a rate,
 * token k comes not before the first one's time + k / rate: measured from
 * the first, the rate does not drift by what the host is late.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "engine/mst_runner.h"


#define MST_NULL_VOCAB     256
#define MST_NULL_SEQS      64          /* that fill the context, by default */
#define MST_NULL_FOREVER   (UINT64_MAX / 4)


typedef struct {
    double     interval;               /* ns between tokens; 0 = at once */
    uint64_t   delay_ns;
    uint32_t   len;                    /* 0 = does not end itself */
    uint32_t   n_entries;              /* of a script; 0 = none */
    uint32_t  *ends;                   /* [n_entries] in this allocation */
    uint32_t  *ids;                    /* of all entries, too */
    uint32_t   text_len;
    _Alignas(8) char  text[];          /* repeated */
} mst_runner_null_t;


static const char  mst_runner_null_fox[] =
    "The quick brown fox jumps over the lazy dog. ";


static uint64_t
mst_runner_null_add(uint64_t base, double ns)
{
    return ns < (double) MST_NULL_FOREVER ? base + (uint64_t) ns
                                          : MST_NULL_FOREVER;
}


/* token k of an answer; returns whether the answer ends with it */

static int
mst_runner_null_token(const mst_runner_null_t *n, uint32_t turn, uint32_t k,
    uint32_t *id)
{
    uint32_t  first, end;

    if (n->n_entries == 0) {
        *id = (unsigned char) n->text[k % n->text_len];
        return n->len && k + 1 >= n->len;
    }

    turn = turn < n->n_entries ? turn : n->n_entries - 1;
    first = turn ? n->ends[turn - 1] : 0;
    end = n->ends[turn] - first;
    end = n->len && n->len < end ? n->len : end;

    *id = n->ids[first + (k < end ? k : end - 1)];

    return k + 1 >= end;
}


static void
mst_runner_null_sample(const mst_runner_null_t *n, const mst_sample_t *sample,
    uint64_t now_ns, mst_sampled_t *sampled)
{
    uint32_t  k;
    uint64_t  due, first;

    k = sample->n_tokens - sample->n_prompt;

    if (k == 0) {
        due = mst_runner_null_add(sample->start_ns, (double) n->delay_ns);
        first = now_ns;

    } else {
        first = sample->first_ns;
        due = mst_runner_null_add(first, k * n->interval);
    }

    sampled->n_top = 0;
    sampled->logprob = 0;

    if (due > now_ns) {
        sampled->status = MST_AGAIN;
        sampled->ready_ns = due;
        return;
    }

    sampled->status = MST_OK;
    sampled->ready_ns = mst_runner_null_add(first,
                                            ((double) k + 1) * n->interval);
    sampled->end = mst_runner_null_token(n, sample->params->turn, k,
                                         &sampled->id);

    if (sample->params->n_top) {

        /* the only token that it could have been */

        sampled->n_top = 1;
        sampled->top_ids[0] = sampled->id;
        sampled->top_logprobs[0] = 0;
    }
}


/* it expected whatever came */

static void
mst_runner_null_score(const mst_batch_seq_t *seq, const mst_sample_t *sample,
    mst_sampled_t *scored)
{
    uint32_t  k, at;

    for (k = 0; k < seq->n; k++) {
        at = seq->position + k + 1;

        if (at >= sample->n_prompt) {
            break;
        }

        memset(&scored[k], 0, sizeof(mst_sampled_t));

        scored[k].status = MST_OK;
        scored[k].id = sample->tokens[at];
        scored[k].n_top = sample->params->n_top != 0;
        scored[k].top_ids[0] = scored[k].id;
    }
}


static int
mst_runner_null_step(void *data, mst_step_t *step, mst_err_t *err)
{
    uint32_t            i, at;
    mst_sample_t       *sample;
    mst_batch_seq_t    *seq;
    mst_runner_null_t  *n;

    (void) err;

    n = data;
    at = 0;

    for (i = 0; i < step->batch.n_seqs; i++) {
        seq = &step->batch.seqs[i];
        sample = &step->samples[i];

        if (seq->logits == MST_LOGITS_ALL) {
            mst_runner_null_score(seq, sample, step->scored + at);
        }

        if (seq->logits == MST_LOGITS_LAST
            || (seq->logits == MST_LOGITS_ALL && !sample->silent))
        {
            mst_runner_null_sample(n, sample, step->now_ns,
                                   &step->sampled[i]);
        }

        at += seq->n;
    }

    return MST_OK;
}


static int
mst_runner_null_check(const mst_null_conf_t *conf, mst_err_t *err)
{
    /* written so that NaN fails */

    if (!(conf->rate >= 0 && conf->rate <= 1e9)) {
        return mst_err_set(err, "null model: rate %g is outside 0 .. 1e9",
                           conf->rate);
    }

    if (conf->text && (conf->text_len == 0 || conf->text_len > INT32_MAX)) {
        return mst_err_set(err, "null model: a text of %zu bytes, expected "
                           "1 .. %d", conf->text_len, INT32_MAX);
    }

    if (conf->context < 2 || conf->context > INT32_MAX) {
        return mst_err_set(err, "null model: context %u is outside 2 .. %d",
                           conf->context, INT32_MAX);
    }

    return MST_OK;
}


static void
mst_runner_null_info(mst_model_info_t *info, const mst_null_conf_t *conf)
{
    uint64_t  n;

    n = conf->n_blocks;

    if (n == 0) {
        n = ((uint64_t) conf->context - 1) / MST_NULL_BLOCK_TOKENS + 1;
        n *= MST_NULL_SEQS;
    }

    /* context is below 2^31, so this fits */

    info->n_vocab = conf->n_vocab ? conf->n_vocab : MST_NULL_VOCAB;
    info->context = conf->context;
    info->block_tokens = MST_NULL_BLOCK_TOKENS;
    info->n_blocks = (uint32_t) n;
    info->block_size = 0;
    info->weight_size = 0;
}


static size_t
mst_runner_null_script_size(const mst_script_t *s)
{
    return s ? ((size_t) s->n + s->ends[s->n - 1]) * sizeof(uint32_t) : 0;
}


static void
mst_runner_null_script(mst_runner_null_t *n, const mst_script_t *s,
    uint32_t *room)
{
    n->n_entries = s->n;
    n->ends = room;
    n->ids = room + s->n;

    memcpy(n->ends, s->ends, s->n * sizeof(uint32_t));
    memcpy(n->ids, s->ids, s->ends[s->n - 1] * sizeof(uint32_t));
}


int
mst_runner_null(mst_runner_t *r, const mst_null_conf_t *conf, mst_err_t *err)
{
    size_t              len, room;
    const char         *text;
    mst_runner_null_t  *n;

    if (mst_runner_null_check(conf, err) != MST_OK) {
        return MST_ERROR;
    }

    text = conf->text ? conf->text : mst_runner_null_fox;
    len = conf->text ? conf->text_len : sizeof(mst_runner_null_fox) - 1;

    /* the text's end, where the numbers begin */

    room = (len + 7) & ~(size_t) 7;

    n = mst_calloc(1, sizeof(mst_runner_null_t) + room
                   + mst_runner_null_script_size(conf->script));
    if (n == NULL) {
        return mst_err_set(err, "null model: out of memory");
    }

    memcpy(n->text, text, len);

    if (conf->script) {
        mst_runner_null_script(n, conf->script,
                               (uint32_t *) (n->text + room));
    }

    n->text_len = (uint32_t) len;
    n->interval = conf->rate > 0 ? 1e9 / conf->rate : 0;
    n->delay_ns = conf->delay_ns;
    n->len = conf->len;

    if (conf->text && (n->len == 0 || n->len > n->text_len)) {
        n->len = n->text_len;
    }

    memset(r, 0, sizeof(mst_runner_t));

    mst_runner_null_info(&r->info, conf);

    r->data = n;
    r->step = mst_runner_null_step;
    r->destroy = mst_free;

    return MST_OK;
}

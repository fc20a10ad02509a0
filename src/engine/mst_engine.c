
/*
 * The engine: see mst_engine.h.  Here a submit becomes a sequence; a plan of
 * the scheduler becomes a batch, and what the runner sampled becomes events,
 * in mst_run.c.
 */

#include <string.h>

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "engine/mst_engine_local.h"
#include "engine/mst_submit.h"


#define MST_ENGINE_MAX_BATCH  (1u << 20)
#define MST_ENGINE_MAX_CHUNK  (1u << 24)
#define MST_ENGINE_MAX_SEQS   (1u << 24)


static int mst_engine_conf_check(const mst_engine_conf_t *conf,
    const mst_model_info_t *info, mst_err_t *err);
static int mst_engine_init(mst_engine_t *e);
static void mst_engine_measure(mst_engine_t *e, uint64_t now_ns);
static int mst_engine_die(mst_engine_t *e, uint64_t now_ns, mst_err_t *err);


mst_engine_t *
mst_engine_create(const mst_engine_conf_t *conf, mst_runner_t *runner,
    mst_err_t *err)
{
    mst_engine_t  *e;

    if (mst_engine_conf_check(conf, &runner->info, err) != MST_OK) {
        return NULL;
    }

    e = mst_calloc(1, sizeof(mst_engine_t));
    if (e == NULL) {
        goto failed;
    }

    mst_list_init(&e->all);

    e->conf = *conf;
    e->runner.info = runner->info;

    e->ahead = runner->launch != NULL && !conf->keep_logits;

    if (e->conf.clock == NULL) {
        e->conf.clock = mst_time_ns;
    }

    if (mst_engine_init(e) != MST_OK) {
        goto failed;
    }

    e->runner = *runner;

    return e;

failed:

    mst_engine_destroy(e);

    (void) mst_err_set(err, "no memory for an engine of %u sequences and "
                       "%u KV blocks", conf->max_batch,
                       runner->info.n_blocks);
    return NULL;
}


static int
mst_engine_conf_check(const mst_engine_conf_t *conf,
    const mst_model_info_t *info, mst_err_t *err)
{
    if (conf->max_batch < 1 || conf->max_batch > MST_ENGINE_MAX_BATCH) {
        return mst_err_set(err, "max_batch %u is outside 1 .. %u",
                           conf->max_batch, MST_ENGINE_MAX_BATCH);
    }

    if (conf->prefill_chunk < 1
        || conf->prefill_chunk > MST_ENGINE_MAX_CHUNK)
    {
        return mst_err_set(err, "prefill_chunk %u is outside 1 .. %u",
                           conf->prefill_chunk, MST_ENGINE_MAX_CHUNK);
    }

    if (conf->prefill_most > MST_ENGINE_MAX_CHUNK) {
        return mst_err_set(err, "steps of %u tokens are more than %u",
                           conf->prefill_most, MST_ENGINE_MAX_CHUNK);
    }

    if (info->n_blocks < 1 || info->n_blocks == MST_BLOCK_NONE
        || info->block_tokens < 1 || info->n_vocab < 1)
    {
        return mst_err_set(err, "a KV pool of %u blocks of %u tokens and a "
                           "vocabulary of %u cannot be used",
                           info->n_blocks, info->block_tokens,
                           info->n_vocab);
    }

    return MST_OK;
}


static int
mst_engine_init(mst_engine_t *e)
{
    uint32_t                 n;
    mst_sched_conf_t         sc;
    const mst_model_info_t  *info;

    info = &e->runner.info;
    n = e->conf.max_batch;

    mst_meter_init(&e->meter);

    if (mst_block_init(&e->pool, info->n_blocks) != MST_OK
        || mst_tag_init(&e->tags) != MST_OK)
    {
        return MST_ERROR;
    }

    if (!e->conf.no_prefix_cache
        && mst_prefix_init(&e->prefix, &e->pool, info->block_tokens,
                           mst_hash) != MST_OK)
    {
        return MST_ERROR;
    }

    sc.max_batch = n;
    sc.budget = e->conf.prefill_chunk;
    sc.most = e->conf.prefill_most;
    sc.block_tokens = info->block_tokens;
    sc.context = info->context;
    sc.window = info->window;
    sc.pool = &e->pool;
    sc.prefix = e->conf.no_prefix_cache ? NULL : &e->prefix;

    if (mst_sched_init(&e->sched, &sc) != MST_OK) {
        return MST_ERROR;
    }

    return mst_run_init(e);
}


static void
mst_engine_drop(mst_engine_t *e, mst_seq_t *q)
{
    mst_run_forget(e, q);
    mst_tag_remove(&e->tags, q);
    mst_list_remove(&q->all);
    mst_seq_destroy(q);
}


void
mst_engine_destroy(mst_engine_t *e)
{
    if (e == NULL) {
        return;
    }

    while (!mst_list_empty(&e->all)) {
        mst_engine_drop(e, mst_list_data(e->all.next, mst_seq_t, all));
    }

    if (e->runner.destroy) {
        e->runner.destroy(e->runner.data);
    }

    mst_sched_fini(&e->sched);
    mst_prefix_fini(&e->prefix);
    mst_block_fini(&e->pool);
    mst_tag_fini(&e->tags);

    mst_run_fini(e);
    mst_free(e);
}


void
mst_engine_event(mst_engine_t *e, const mst_event_t *ev)
{
    if (e->conf.handler) {
        e->conf.handler(e->conf.data, ev);
    }
}


static void
mst_engine_refuse(mst_engine_t *e, uint64_t tag, mst_refuse_t why,
    const char *text)
{
    mst_event_t  ev;

    memset(&ev, 0, sizeof(mst_event_t));

    ev.type = MST_EVENT_REFUSE;
    ev.tag = tag;
    ev.refuse = why;
    ev.text = text;

    e->stats.refused++;

    mst_engine_event(e, &ev);
}


void
mst_engine_done(mst_engine_t *e, mst_seq_t *q, mst_finish_t finish,
    uint64_t now_ns)
{
    mst_event_t  ev;

    memset(&ev, 0, sizeof(mst_event_t));

    ev.type = MST_EVENT_DONE;
    ev.tag = q->tag;
    ev.finish = finish;
    ev.usage = mst_seq_close(q, now_ns);

    e->stats.finished++;

    mst_engine_event(e, &ev);
    mst_engine_drop(e, q);
}


/*
 * Dynamic rope turns a long prompt at a speed of its own, and so for all of
 * its answer: what the cache holds of it is no use to prompts of another
 * length, nor what some experts made of it to those of other ones.
 */

static void
mst_engine_apart(const mst_engine_t *e, mst_seq_t *q)
{
    uint32_t                 salt[2];
    const mst_model_info_t  *info;

    info = &e->runner.info;

    memcpy(salt, q->salt, sizeof(salt));

    if (info->rope_length != 0 && q->n_prompt > info->rope_length) {
        salt[0] ^= q->n_prompt;
    }

    if (q->params.experts != info->n_used) {
        salt[1] ^= q->params.experts;
    }

    memcpy(q->salt, salt, sizeof(salt));
}


void
mst_engine_submit(mst_engine_t *e, const mst_submit_t *s, uint64_t now_ns)
{
    int                      rc;
    mst_seq_t               *q;
    const mst_model_info_t  *info;

    info = &e->runner.info;

    if (e->dead) {
        mst_engine_refuse(e, s->tag, MST_REFUSE_DRAINING, NULL);
        return;
    }

    e->err.text[0] = '\0';

    if (mst_submit_check(s, info->n_vocab, &e->err) != MST_OK) {
        mst_engine_refuse(e, s->tag, MST_REFUSE_INVALID, e->err.text);
        return;
    }

    if (mst_tag_find(&e->tags, s->tag)) {
        (void) mst_err_set(&e->err, "tag %llu is in use",
                           (unsigned long long) s->tag);
        mst_engine_refuse(e, s->tag, MST_REFUSE_INVALID, e->err.text);
        return;
    }

    if (s->params.experts > info->n_experts) {
        (void) mst_err_set(&e->err, "%u experts for a token, the model has "
                           "%u", s->params.experts, info->n_experts);
        mst_engine_refuse(e, s->tag, MST_REFUSE_INVALID, e->err.text);
        return;
    }

    if (s->n_prompt >= info->context) {
        mst_engine_refuse(e, s->tag, MST_REFUSE_TOO_LONG, NULL);
        return;
    }

    if (mst_room_most(&e->sched.room, s->n_prompt) > info->n_blocks) {
        mst_engine_refuse(e, s->tag, MST_REFUSE_KV_FULL, NULL);
        return;
    }

    if (e->tags.n >= MST_ENGINE_MAX_SEQS
        || mst_sched_reserve(&e->sched, e->tags.n + 1) != MST_OK
        || (q = mst_seq_create(s, now_ns)) == NULL)
    {
        mst_engine_refuse(e, s->tag, MST_REFUSE_MEMORY, NULL);
        return;
    }

    q->arrival = ++e->arrivals;
    mst_engine_apart(e, q);

    rc = mst_sched_add(&e->sched, q, now_ns);

    if (rc != MST_OK) {
        mst_engine_refuse(e, s->tag, rc == MST_DECLINED ? MST_REFUSE_DEADLINE
                                                        : MST_REFUSE_MEMORY,
                          NULL);
        mst_seq_destroy(q);
        return;
    }

    mst_tag_insert(&e->tags, q);
    mst_list_insert_tail(&e->all, &q->all);
}


void
mst_engine_cancel(mst_engine_t *e, uint64_t tag, uint64_t now_ns)
{
    mst_seq_t  *q;

    q = mst_tag_find(&e->tags, tag);
    if (q == NULL) {
        return;
    }

    mst_sched_remove(&e->sched, q);
    mst_engine_done(e, q, MST_FINISH_CANCELLED, now_ns);
}


void
mst_engine_pace(mst_engine_t *e, uint64_t tag, uint32_t pace,
    uint64_t now_ns)
{
    mst_seq_t  *q;

    q = mst_tag_find(&e->tags, tag);

    if (q != NULL) {
        mst_seq_set_pace(q, pace);
        mst_sched_retime(&e->sched, q, now_ns);
    }
}


void
mst_engine_pause(mst_engine_t *e, uint64_t tag, int on, uint64_t now_ns)
{
    mst_seq_t  *q;

    q = mst_tag_find(&e->tags, tag);

    if (q != NULL) {
        mst_sched_pause(&e->sched, q, on, now_ns);
    }
}


/* tells of those that left in the plan, and of those that start */

static void
mst_engine_announce(mst_engine_t *e, uint64_t now_ns)
{
    uint32_t      i;
    mst_seq_t    *q;
    mst_event_t   ev;
    mst_sched_t  *s;

    s = &e->sched;

    while (!mst_list_empty(&s->leaving)) {
        q = mst_list_data(s->leaving.next, mst_seq_t, queue);

        mst_list_remove(&q->queue);

        if (q->refuse) {
            mst_engine_refuse(e, q->tag, q->refuse, NULL);
            mst_engine_drop(e, q);

        } else {
            mst_engine_done(e, q, q->finish, now_ns);
        }
    }

    for (i = 0; i < s->n_items; i++) {
        q = s->items[i];

        if (!q->admitted) {
            continue;
        }

        q->admitted = 0;

        e->stats.prompt_tokens += q->usage.prompt;
        e->stats.cached_tokens += q->usage.cached;

        memset(&ev, 0, sizeof(mst_event_t));

        ev.type = MST_EVENT_ADMIT;
        ev.tag = q->tag;
        ev.cached = q->usage.cached;

        mst_engine_event(e, &ev);
    }
}


int
mst_engine_step(mst_engine_t *e, uint64_t now_ns, uint64_t *wake_ns,
    mst_err_t *err)
{
    uint64_t      from;
    mst_sched_t  *s;

    *wake_ns = 0;

    if (e->dead) {
        return mst_err_set(err, "%s", e->err.text);
    }

    s = &e->sched;

    mst_meter_begin(&e->meter, now_ns);

    mst_sched_plan(s, now_ns);

    e->full = s->n_running == s->conf.max_batch
              || mst_order_waiting(&s->order) != NULL;

    mst_engine_announce(e, now_ns);

    if (s->n_items == 0 && e->n_begun == e->n_taken) {

        if (s->moved) {
            return MST_OK;
        }

        mst_engine_measure(e, now_ns);

        *wake_ns = mst_sched_wake(s);

        return MST_AGAIN;
    }

    if (s->n_items && mst_run_begin(e, now_ns, &from) != MST_OK) {
        return mst_engine_die(e, now_ns, err);
    }

    /* one step may be under way when the next is planned */

    if (e->ahead && s->n_items && e->n_begun - e->n_taken < MST_ENGINE_RUNS) {
        mst_run_busy(e, now_ns);
        return MST_OK;
    }

    from = s->n_items ? from : e->conf.clock();

    if (mst_run_end(e, now_ns, from) != MST_OK) {
        return mst_engine_die(e, now_ns, err);
    }

    mst_engine_measure(e, now_ns + e->end_ns - from);
    mst_run_busy(e, now_ns + e->end_ns - from);

    return MST_OK;
}


static void
mst_engine_measure(mst_engine_t *e, uint64_t now_ns)
{
    mst_meter_add(&e->meter, e->stats.finished, e->stats.completion_tokens,
                  now_ns, e->full,
                  e->sched.n_running + e->sched.n_waiting != 0);
}


static int
mst_engine_die(mst_engine_t *e, uint64_t now_ns, mst_err_t *err)
{
    mst_seq_t  *q;

    e->dead = 1;

    (void) mst_err_set(&e->err, "the step failed");

    while (!mst_list_empty(&e->all)) {
        q = mst_list_data(e->all.next, mst_seq_t, all);

        mst_sched_remove(&e->sched, q);
        mst_engine_done(e, q, MST_FINISH_ERROR, now_ns);
    }

    return mst_err_set(err, "%s", e->err.text);
}


void
mst_engine_stats(const mst_engine_t *e, mst_engine_stats_t *s)
{
    *s = e->stats;

    s->running = e->sched.n_running;
    s->waiting = e->sched.n_waiting;
    s->waiting_tokens = e->sched.waiting_tokens;
    s->preemptions = e->sched.preemptions;
    s->blocks_total = e->pool.n;
    s->blocks_used = e->pool.n_used;
    s->blocks_cached = e->pool.n_cached;
    s->paused = e->sched.n_paused;
    s->prefilling = mst_sched_prefilling(&e->sched);
    s->prompt_rate = mst_rate_get(&e->sched.reckon.prompts);
    s->finish_rate = mst_rate_get(&e->meter.finishes);
    s->token_rate = mst_rate_get(&e->meter.tokens);
}


const mst_order_class_t *
mst_engine_classes(const mst_engine_t *e)
{
    return e->sched.order.classes;
}


uint64_t
mst_engine_slack(const mst_engine_t *e)
{
    uint64_t           slack, room;
    const mst_seq_t   *q;
    const mst_list_t  *x;

    slack = 0;

    for (x = e->all.next; x != &e->all; x = x->next) {
        q = mst_list_data(x, mst_seq_t, all);

        /* waiting ones have no blocks */

        room = (uint64_t) q->n_blocks * e->runner.info.block_tokens;

        if (room > q->n_computed) {
            slack += room - q->n_computed;
        }
    }

    return slack;
}


uint32_t
mst_engine_forget(mst_engine_t *e)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; !e->conf.no_prefix_cache && i < e->pool.n; i++) {
        n += e->prefix.nodes[i].serial != 0;
        mst_prefix_forget(&e->prefix, i);
    }

    return n;
}


const float *
mst_engine_logits(const mst_engine_t *e)
{
    return e->runs[0].step.logits;
}


/*
 * The model's runner with a model made up here: its logits follow from all
 * tokens that it finds through the block table.  Sampled answers must be the
 * same alone, in a batch, in chunks and after preemption; a row belongs to
 * its sequence, and a broken row ends one.
 */

#include <math.h>

#include "mst_engine_host.h"
#include "engine/mst_sampler.h"


#define V       300
#define BT      4
#define BLOCKS  200
#define N       12


struct mst_model_s {
    mst_model_info_t  info;
    uint32_t          kv[BLOCKS * BT];
    float             logits[4096 * V];
    uint32_t          nan_id;          /* the row after it has a NaN */
    int               fail;
    int               destroyed;
    int               samples;         /* by itself */
    int               tops;            /* it can say ids without logits */
    uint32_t          topped;          /* steps of which it did */
    uint32_t          drawn;
    uint32_t          launched;
    uint32_t          waited;
    uint32_t          names[2][N];     /* what each launch drew */
    uint32_t          n_results[2];
    mst_sampled_t     results[2][400];
    mst_sampled_t    *to[2][400];
};

static mst_model_t  model;


const mst_model_info_t *
mst_model_info(const mst_model_t *m)
{
    return &m->info;
}


void
mst_model_destroy(mst_model_t *m)
{
    m->destroyed++;
}


int
mst_forward(mst_model_t *m, const mst_batch_t *batch, const float **logits,
    mst_err_t *err)
{
    float            *row;
    uint32_t          i, j, k, at;
    uint64_t          hash;
    mst_batch_seq_t  *b;

    if (m->fail) {
        return mst_err_set(err, "out of steam");
    }

    row = m->logits;
    *logits = row;

    for (i = 0; i < batch->n_seqs; i++) {
        b = &batch->seqs[i];
        hash = 0;

        for (j = 0; j < b->position + b->n; j++) {
            at = b->blocks[j / BT] * BT + j % BT;

            if (j >= b->position) {
                m->kv[at] = b->ids[j - b->position];
            }

            hash = mst_hash_mix(hash * 31 + m->kv[at] + 1);

            if (b->logits == MST_LOGITS_NONE || j < b->position
                || (b->logits == MST_LOGITS_LAST
                    && j < b->position + b->n - 1))
            {
                continue;
            }

            for (k = 0; k < V; k++) {
                row[k] = (float) (mst_hash_mix(hash + k) % 1000) / 100;
            }

            if (m->nan_id && m->kv[at] == m->nan_id) {
                row[V - 1] = NAN;
            }

            row += V;
        }
    }

    return MST_OK;
}


/* where it says ids, there are no logits to find them in */

int
mst_forward_top(mst_model_t *m, const mst_batch_t *batch, uint32_t *ids,
    uint32_t n, const float **logits, mst_err_t *err)
{
    float     *row;
    uint32_t   i, k;

    if (mst_forward(m, batch, logits, err) != MST_OK) {
        return MST_ERROR;
    }

    m->topped += m->tops && n;
    row = m->logits;

    for (i = 0; i < n; i++, row += V) {
        ids[i] = MST_BACKEND_NONE;

        if (m->tops) {
            for (ids[i] = 0, k = 1; k < V; k++) {
                ids[i] = row[k] > row[ids[i]] ? k : ids[i];
            }

            for (k = 0; k < V; k++) {
                row[k] = NAN;
            }
        }
    }

    return MST_OK;
}


int
mst_forward_samples(const mst_model_t *m)
{
    return m->samples;
}


/* whatever thread takes them, in whatever order */

void
mst_forward_spread(mst_model_t *m, const mst_backend_work_t *work)
{
    uint32_t  i;

    (void) m;

    for (i = work->n; i-- > 0; /* void */ ) {
        work->piece(work->data, (i * 5 + 3) % work->slots, i);
    }
}


/* as a device does: what the launch before drew is known here alone */

static uint32_t *
fed(mst_model_t *m, const uint32_t *ids, uint32_t n)
{
    uint32_t  i, *own;

    own = malloc(n * sizeof(uint32_t));
    memcpy(own, ids, n * sizeof(uint32_t));

    for (i = 0; i < n; i++) {
        if (own[i] & MST_SAMPLE_FED) {
            assert_int_equal(m->launched - m->waited, 1);
            own[i] = m->names[(m->launched - 1) % 2][own[i] - MST_SAMPLE_FED];
        }
    }

    return own;
}


int
mst_forward_launch(mst_model_t *m, const mst_batch_t *batch,
    const mst_backend_draw_t *draws, uint32_t n, mst_err_t *err)
{
    uint32_t         at, i;
    const float     *logits;
    mst_batch_t      copy;
    mst_sample_t     s;
    mst_sampled_t   *out;
    mst_sampler_t    sampler;
    mst_batch_seq_t  seqs[N];

    assert_true(m->launched - m->waited < 2);

    at = m->launched % 2;
    copy = *batch;
    copy.seqs = seqs;

    for (i = 0; i < batch->n_seqs; i++) {
        seqs[i] = batch->seqs[i];
        seqs[i].ids = fed(m, seqs[i].ids, seqs[i].n);
    }

    if (mst_forward(m, &copy, &logits, err) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < batch->n_seqs; i++) {
        free((void *) seqs[i].ids);
    }

    assert_int_equal(mst_sampler_init(&sampler, V, err), MST_OK);

    for (i = 0; i < n; i++) {
        assert_true(i == 0 || draws[i].row >= draws[i - 1].row);

        out = &m->results[at][i];
        m->to[at][i] = draws[i].sampled;
        m->drawn++;

        if (draws[i].sample) {
            s = *draws[i].sample;
            s.tokens = fed(m, s.tokens, s.n_tokens);
            mst_sampler_run(&sampler, logits + draws[i].row * V, &s, out);
            free((void *) s.tokens);
            m->names[at][draws[i].name] = out->id;

        } else {
            mst_sampler_score(&sampler, logits + draws[i].row * V,
                              draws[i].id, draws[i].n_top, out);
        }
    }

    mst_sampler_fini(&sampler);

    m->n_results[at] = n;
    m->launched++;

    return MST_OK;
}


int
mst_forward_wait(mst_model_t *m, mst_err_t *err)
{
    uint32_t  at, i;

    (void) err;

    assert_true(m->launched != m->waited);

    at = m->waited++ % 2;

    for (i = 0; i < m->n_results[at]; i++) {
        *m->to[at][i] = m->results[at][i];
    }

    return MST_OK;
}


static void
open_model(mst_runner_t *r, uint32_t n_blocks)
{
    mst_err_t  err;

    model.info.n_vocab = V;
    model.info.context = 400;
    model.info.block_tokens = BT;
    model.info.n_blocks = n_blocks;
    model.nan_id = 0;
    model.fail = 0;
    model.destroyed = 0;

    err.text[0] = '\0';
    assert_int_equal(mst_runner_model(r, &model, &err), MST_OK);
}


/* the i-th of twelve, each with other parameters */

static void
submit(host_t *h, uint32_t i)
{
    uint32_t      k, ids[64];
    mst_submit_t  s;

    for (k = 0; k < 64; k++) {
        ids[k] = (k < 20 ? k : k * (i + 3)) % V;
    }

    host_submit_init(&s, i, ids, 20 + 3 * i, 60);

    s.params.seed = 1000 + i / 2;
    s.params.temperature = i == 3 ? 0 : 0.5f + (float) (i % 4) * 0.4f;
    s.params.top_p = i % 3 ? 1 : 0.9f;
    s.params.top_k = i % 5 ? 0 : 40;
    s.params.min_p = i % 7 ? 0 : 0.05f;
    s.params.repetition_penalty = i % 2 ? 1 : 1.2f;
    s.params.presence_penalty = i % 4 ? 0 : 0.5f;
    s.params.soft_tokens = i % 6 ? 0 : 30;

    mst_engine_submit(h->e, &s, h->now);
}


static void
test_same_in_batch(void **state)
{
    int                 k;
    host_t              h;
    uint32_t            i, same, want[N][60];
    mst_runner_t        r;
    mst_engine_stats_t  st;

    (void) state;

    for (i = 0; i < N; i++) {
        open_model(&r, BLOCKS);
        host_open(&h, &r, 1, 400, N);
        submit(&h, i);
        host_run(&h, 0);

        assert_int_equal(h.answers[i].n, 60);
        memcpy(want[i], h.answers[i].ids, sizeof(want[i]));
        host_close(&h);
    }

    /* they are not all the same, to begin with */

    for (i = 1, same = 0; i < N; i++) {
        same += memcmp(want[0], want[i], sizeof(want[0])) == 0;
    }

    assert_int_equal(same, 0);

    /* all at once; in chunks of 7; in a pool that holds two or three; sampled
       by the backend */

    for (k = 0; k < 4; k++) {
        model.samples = k == 3;
        model.drawn = 0;
        open_model(&r, k == 2 ? 60 : BLOCKS);
        host_open(&h, &r, N, k == 1 ? 7 : 400, N);

        for (i = 0; i < N; i++) {
            submit(&h, i);
        }

        host_run(&h, 0);

        for (i = 0; i < N; i++) {
            assert_int_equal(h.answers[i].n, 60);
            assert_memory_equal(h.answers[i].ids, want[i], sizeof(want[i]));
        }

        mst_engine_stats(h.e, &st);

        if (k == 2) {
            assert_true(st.preemptions > 2);
        }

        assert_ptr_equal(mst_engine_logits(h.e),
                         k == 3 ? NULL : model.logits);
        assert_int_equal(model.drawn, k == 3 ? N * 60 : 0);
        model.samples = 0;
        host_close(&h);
        assert_int_equal(model.destroyed, 1);
    }
}


static int
run(mst_runner_t *r, mst_step_t *step, mst_err_t *err)
{
    int  rc;

    if (r->launch == NULL) {
        return r->step(r->data, step, err);
    }

    rc = r->launch(r->data, step, err);

    return rc == MST_OK ? r->wait(r->data, err) : rc;
}


static void
test_rows(void **state)
{
    uint32_t       ids[4] = { 5, 6, 7, 8 }, blocks[4][2], i;
    mst_err_t      err;
    mst_step_t     step;
    mst_params_t   p;
    mst_runner_t   r;
    mst_sample_t   samples[4];
    mst_sampled_t  sampled[4], scored[10], alone;
    mst_batch_seq_t  seqs[4] = { { 0 } };
    static const mst_logits_t  logits[] = { MST_LOGITS_LAST, MST_LOGITS_ALL,
                                            MST_LOGITS_NONE,
                                            MST_LOGITS_LAST };

    (void) state;

    open_model(&r, BLOCKS);
    mst_params_default(&p);
    p.temperature = 0;

    memset(&step, 0, sizeof(step));
    memset(samples, 0, sizeof(samples));
    memset(sampled, 0, sizeof(sampled));
    memset(scored, 0, sizeof(scored));
    err.text[0] = '\0';

    step.batch.seqs = seqs;
    step.samples = samples;
    step.sampled = sampled;
    step.scored = scored;

    for (i = 0; i < 4; i++) {
        blocks[i][0] = i;
        seqs[i].ids = ids;
        seqs[i].n = i + 1;
        seqs[i].position = 0;
        seqs[i].blocks = blocks[i];
        seqs[i].logits = logits[i];
        samples[i].params = &p;
        samples[i].tokens = ids;
        samples[i].n_tokens = i + 1;
        samples[i].n_prompt = i + 1;
        sampled[i].id = 12345;
    }

    step.batch.n_seqs = 4;
    step.batch.n_tokens = 10;
    samples[1].silent = 1;

    for (i = 0; i < 10; i++) {
        scored[i].id = 12345;
    }

    assert_int_equal(run(&r, &step, &err), MST_OK);
    assert_int_equal(sampled[0].status, MST_OK);
    assert_int_equal(sampled[1].id, 12345);    /* untouched */
    assert_int_equal(sampled[2].id, 12345);
    alone = sampled[3];

    /* its first row told of its second token, which is the prompt's last */

    for (i = 0; i < 10; i++) {
        assert_int_equal(scored[i].id, i == 1 ? ids[1] : 12345);
    }

    assert_int_equal(scored[1].status, MST_OK);
    assert_true(scored[1].logprob < 0);

    /* the same row may be asked for a token, too */

    samples[1].silent = 0;
    assert_int_equal(run(&r, &step, &err), MST_OK);
    assert_int_equal(sampled[1].status, MST_OK);
    assert_int_not_equal(sampled[1].id, 12345);
    assert_int_equal(sampled[3].id, alone.id);

    /* the last one alone */

    step.batch.seqs = seqs + 3;
    step.samples = samples + 3;
    step.batch.n_seqs = 1;
    step.batch.n_tokens = 4;

    assert_int_equal(run(&r, &step, &err), MST_OK);
    assert_int_equal(sampled[0].id, alone.id);

    r.destroy(r.data);
}


/* greedy answers are the same whether the model says ids or logits; ids are
   not asked for where anything else of a row is wanted */

static void
test_tops(void **state)
{
    int           k;
    host_t        h;
    uint32_t      i, ids[4] = { 1, 2, 3, 4 }, want[3][20];
    mst_runner_t  r;
    mst_submit_t  s;

    (void) state;

    for (k = 0; k < 7; k++) {
        open_model(&r, BLOCKS);
        model.tops = k > 0;
        model.topped = 0;
        host_open(&h, &r, 8, 400, 20);

        for (i = 0; i < 3; i++) {
            host_submit_init(&s, i, ids, 2 + i, 20);
            s.params.temperature = 0;

            if (i == 1) {
                s.params.repetition_penalty = k == 2 ? 1.1f : 1;
                s.params.presence_penalty = k == 3 ? 0.1f : 0;
                s.params.temperature = k == 4 ? 1 : 0;
                s.params.flags |= k == 5 ? MST_PARAMS_LOGPROBS : 0;
                s.params.min_tokens = k == 6 ? 20 : 0;
            }

            mst_engine_submit(h.e, &s, h.now);
        }

        host_run(&h, 0);
        assert_int_equal(model.topped, k == 1 ? 20 : 0);

        for (i = 0; i < 3; i++) {
            assert_int_equal(h.answers[i].n, 20);

            if (k == 0) {
                memcpy(want[i], h.answers[i].ids, sizeof(want[i]));
            }

            if (k == 1 || i != 1) {
                assert_memory_equal(h.answers[i].ids, want[i],
                                    sizeof(want[i]));
            }
        }

        host_close(&h);
    }

    model.tops = 0;
}


static void
test_broken(void **state)
{
    host_t        h;
    uint32_t      i, ids[4] = { 1, 2, 299 };
    mst_runner_t  r;
    mst_submit_t  s;

    (void) state;

    open_model(&r, BLOCKS);
    host_open(&h, &r, 8, 400, 20);

    model.nan_id = 299;

    for (i = 0; i < 3; i++) {
        host_submit_init(&s, i, ids, i == 1 ? 3 : 2, 5);
        s.params.temperature = 0;
        mst_engine_submit(h.e, &s, h.now);
    }

    host_run(&h, 0);

    assert_int_equal(h.answers[1].finish, MST_FINISH_NUMERIC);
    assert_int_equal(h.answers[1].n, 0);
    assert_int_equal(h.answers[0].finish, MST_FINISH_LENGTH);
    assert_int_equal(h.answers[2].finish, MST_FINISH_LENGTH);

    host_submit(&h, 4, 5, 5);
    model.fail = 1;
    assert_int_equal(host_step(&h), MST_ERROR);
    assert_string_equal(h.err.text, "out of steam");
    assert_int_equal(h.answers[4].finish, MST_FINISH_ERROR);

    host_close(&h);
    assert_int_equal(model.destroyed, 1);
}


static void
test_memory(void **state)
{
    long          n;
    mst_err_t     err;
    mst_runner_t  r;

    (void) state;

    open_model(&r, BLOCKS);
    r.destroy(r.data);

    for (n = 1; n <= 5; n++) {
        err.text[0] = '\0';
        mst_mem_fail_after(n);
        assert_int_equal(mst_runner_model(&r, &model, &err), MST_ERROR);
        mst_mem_fail_after(0);
        assert_string_not_equal(err.text, "");
    }

    assert_int_equal(model.destroyed, 1);      /* still the caller's */
}


static void
test_rows_drawn(void **state)
{
    model.samples = 1;
    test_rows(state);
    model.samples = 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_same_in_batch),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_drawn),
        cmocka_unit_test(test_tops),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * The engine with a runner that has a KV memory: each place keeps its token
 * and a hash of all tokens until there, a step reads all that came before
 * through the block table, and the next token follows from the hash.  A
 * wrong table, chunk, position, cache hit or a block given away too early
 * changes an answer or is found at once; so the answer of each request must
 * be what it is alone, whatever runs beside it, is cancelled or preempted.
 *
 * Random requests; the seed is printed and may be the first argument.
 */

#include "mst_engine_host.h"


#define VOCAB  50
#define TAGS   400


typedef struct {
    uint32_t  id;
    uint64_t  hash;
} place_t;

typedef struct {
    place_t   *kv;                     /* [n_blocks * block_tokens] */
    uint32_t  *writer;                 /* [n_blocks] stamp of the last step
                                          that wrote to it */
    uint32_t   stamp;
    uint32_t   block_tokens;
    uint32_t   n_blocks;
    uint32_t   max_rows;
    uint32_t   max_seqs;
    int        sleepy;                 /* delays tokens now and then */
} kv_t;

typedef struct {
    mst_submit_t  s;
    uint32_t      prompt[300];
    uint32_t      stop[2];
    int           submitted;
    int           cancelled;
    uint32_t      family;              /* prompts that begin alike */
} request_t;


static uint64_t   seed = 1;
static uint64_t   draws;
static kv_t       kv;
static request_t  requests[TAGS];


static uint32_t
rnd(uint32_t n)
{
    return (uint32_t) (mst_hash_mix(seed + ++draws * 0x9e3779b9ull) % n);
}


static uint64_t
next_hash(uint64_t hash, uint32_t id)
{
    return mst_hash_mix(hash * 31 + id + 1);
}


static place_t *
place(const mst_batch_seq_t *b, uint32_t position)
{
    uint32_t  block;

    block = b->blocks[position / kv.block_tokens];
    assert_true(block < kv.n_blocks);

    return &kv.kv[block * kv.block_tokens + position % kv.block_tokens];
}


/* all that came before is there, unbroken; nobody writes where others read */

static void
read_all(const mst_batch_seq_t *b)
{
    uint32_t  i, block;
    uint64_t  hash;

    hash = 0;

    for (i = 0; i < b->position; i++) {
        hash = next_hash(hash, place(b, i)->id);
        assert_true(place(b, i)->hash == hash);
    }

    for (i = b->position / kv.block_tokens;
         i <= (b->position + b->n - 1) / kv.block_tokens;
         i++)
    {
        block = b->blocks[i];
        assert_int_not_equal(kv.writer[block], kv.stamp);
        kv.writer[block] = kv.stamp;
    }
}


static void
check_readers(const mst_batch_seq_t *b)
{
    uint32_t  i;

    for (i = 0; i < b->position / kv.block_tokens; i++) {
        assert_int_not_equal(kv.writer[b->blocks[i]], kv.stamp);
    }
}


static uint64_t
write_new(const mst_batch_seq_t *b)
{
    uint32_t  i;
    uint64_t  hash;

    hash = b->position ? place(b, b->position - 1)->hash : 0;

    for (i = 0; i < b->n; i++) {
        hash = next_hash(hash, b->ids[i]);
        place(b, b->position + i)->id = b->ids[i];
        place(b, b->position + i)->hash = hash;
    }

    return hash;
}


/* stop ids are kept out until min_tokens stand, as a sampler does */

static uint32_t
answer(uint64_t hash, uint32_t n, const mst_params_t *p, const uint32_t *stop,
    uint32_t n_stop)
{
    uint32_t  i, id;

    id = (uint32_t) (hash % (VOCAB - 1));

    for (i = 0; i < n_stop; i++) {
        if (stop[i] == id && n < p->min_tokens) {
            id = VOCAB - 1;
        }
    }

    return p->soft_tokens && n >= p->soft_tokens ? id / 2 : id;
}


static int
kv_step(void *data, mst_step_t *step, mst_err_t *err)
{
    uint32_t        i, rows;
    uint64_t        hash;
    mst_sample_t   *s;
    mst_sampled_t  *out;

    (void) data;
    (void) err;

    rows = 0;
    kv.stamp++;

    assert_true(step->batch.n_seqs >= 1);
    assert_true(step->batch.n_seqs <= kv.max_seqs);

    for (i = 0; i < step->batch.n_seqs; i++) {
        assert_true(step->batch.seqs[i].n >= 1);
        rows += step->batch.seqs[i].n;
        read_all(&step->batch.seqs[i]);
    }

    assert_int_equal(rows, step->batch.n_tokens);
    assert_true(rows <= kv.max_rows);

    for (i = 0; i < step->batch.n_seqs; i++) {
        check_readers(&step->batch.seqs[i]);
    }

    for (i = 0; i < step->batch.n_seqs; i++) {
        hash = write_new(&step->batch.seqs[i]);

        if (step->batch.seqs[i].logits == MST_LOGITS_NONE) {
            continue;
        }

        s = &step->samples[i];
        out = &step->sampled[i];

        memset(out, 0, sizeof(mst_sampled_t));

        if (kv.sleepy && rnd(8) == 0) {
            out->status = MST_AGAIN;
            out->ready_ns = step->now_ns + rnd(20);
            continue;
        }

        out->status = MST_OK;
        out->ready_ns = kv.sleepy && rnd(3) == 0 ? step->now_ns + rnd(9) : 0;
        out->id = answer(hash, s->n_tokens - s->n_prompt, s->params,
                         s->stop_ids, s->n_stop);

        assert_int_equal(s->greedy, s->params->soft_tokens
                         && s->n_tokens - s->n_prompt
                            >= s->params->soft_tokens);
        assert_int_equal(step->batch.seqs[i].position
                         + step->batch.seqs[i].n, s->n_tokens);
    }

    return MST_OK;
}


static void
kv_destroy(void *data)
{
    (void) data;

    free(kv.kv);
    free(kv.writer);
}


/* the answer alone; the reason it ends */

static mst_finish_t
alone(const request_t *q, uint32_t context, uint32_t *ids, uint32_t *n)
{
    uint32_t  i, k, total;
    uint64_t  hash;

    hash = 0;

    for (i = 0; i < q->s.n_prompt; i++) {
        hash = next_hash(hash, q->prompt[i]);
    }

    *n = 0;

    for (k = 0; k < q->s.params.max_tokens; k++) {
        ids[k] = answer(hash, k, &q->s.params, q->stop, q->s.n_stop);
        *n = k + 1;

        for (i = 0; i < q->s.n_stop; i++) {
            if (q->stop[i] == ids[k] && k >= q->s.params.min_tokens) {
                return MST_FINISH_STOP;
            }
        }

        hash = next_hash(hash, ids[k]);
        total = q->s.n_prompt + k + 1;

        if (total >= context) {
            return MST_FINISH_LENGTH;
        }

        /* the token after needs a place for this one, and the pool is full
           of it */

        if ((total + kv.block_tokens - 1) / kv.block_tokens > kv.n_blocks) {
            return MST_FINISH_LENGTH;
        }
    }

    return MST_FINISH_LENGTH;
}


static void
make_request(uint32_t tag, uint64_t now)
{
    uint32_t    i;
    request_t  *q;

    q = &requests[tag];

    memset(q, 0, sizeof(request_t));
    host_submit_init(&q->s, tag, q->prompt,
                     1 + rnd(rnd(3) ? 40 : 200), 1 + rnd(rnd(3) ? 30 : 200));

    q->family = rnd(4);

    for (i = 0; i < q->s.n_prompt; i++) {
        q->prompt[i] = i < 30 * q->family ? (q->family + i) % VOCAB
                                          : rnd(VOCAB);
    }

    q->s.params.min_tokens = rnd(2) ? 0 : rnd(20);
    q->s.params.soft_tokens = rnd(2) ? 0 : 1 + rnd(20);
    q->s.params.max_tokens *= rnd(20) ? 1 : 0;
    q->s.n_stop = rnd(3);
    q->s.stop_ids = q->stop;
    q->stop[0] = rnd(VOCAB);
    q->stop[1] = rnd(VOCAB);
    q->s.salt[rnd(2) * 15] = (uint8_t) rnd(2);
    q->s.deadline_ns = rnd(10) ? 0 : now + rnd(200);
    q->s.no_wait = rnd(10) == 0;
    q->s.claim.priority = rnd(4) ? 0 : (int32_t) rnd(3) - 1;
    q->s.claim.fair_key = rnd(4);
    q->s.claim.fair_weight = rnd(3);
    q->s.claim.kv_reserve = rnd(3) ? 0 : rnd(200);
    q->s.claim.pace = rnd(8) ? 0 : 1u << 31;   /* 465 ns */
    q->s.claim.flags = rnd(4) ? 0 : MST_CLAIM_PREEMPT;
    q->submitted = 1;
}


static void
check_answer(const host_t *h, uint32_t tag, uint32_t context)
{
    uint32_t          n, ids[300];
    request_t        *q;
    mst_finish_t      finish;
    const answer_t   *a;

    a = &h->answers[tag];
    q = &requests[tag];

    assert_int_equal(a->dones + a->refuses, 1);

    if (a->refuses) {
        assert_true(a->refuse == MST_REFUSE_TOO_LONG
                    || a->refuse == MST_REFUSE_KV_FULL
                    || (a->refuse == MST_REFUSE_YIELD
                        && q->s.claim.priority < 0)
                    || (a->refuse == MST_REFUSE_DEADLINE
                        && q->s.deadline_ns));
        return;
    }

    finish = alone(q, context, ids, &n);

    assert_true(a->n <= n);
    assert_memory_equal(a->ids, ids, a->n * sizeof(uint32_t));
    assert_int_equal(a->usage.prompt, q->s.n_prompt);
    assert_true(a->usage.cached < q->s.n_prompt);

    if (a->finish != MST_FINISH_CANCELLED) {
        assert_int_equal(a->finish, finish);
        assert_int_equal(a->n, n);

    } else {
        assert_true(q->cancelled);
    }
}


static void
check_sums(const host_t *h)
{
    uint32_t            i, refused, finished;
    uint64_t            prompt, cached, completion, preemptions;
    const answer_t     *a;
    mst_engine_stats_t  s;

    refused = 0;
    finished = 0;
    prompt = 0;
    cached = 0;
    completion = 0;
    preemptions = 0;

    for (i = 0; i < TAGS; i++) {
        a = &h->answers[i];
        refused += (uint32_t) a->refuses;
        finished += (uint32_t) a->dones;
        prompt += a->admits ? a->usage.prompt : 0;
        cached += a->usage.cached;
        completion += a->usage.completion;
        preemptions += a->usage.preemptions;
    }

    mst_engine_stats(h->e, &s);

    assert_int_equal(s.refused, refused);
    assert_int_equal(s.finished, finished);
    assert_int_equal(s.prompt_tokens, prompt);
    assert_int_equal(s.cached_tokens, cached);
    assert_int_equal(s.completion_tokens, completion);
    assert_int_equal(s.preemptions, preemptions);
    assert_int_equal(s.running, 0);
    assert_int_equal(s.waiting, 0);
    assert_int_equal(s.waiting_tokens, 0);
    assert_int_equal(s.blocks_used, 0);
}


static void
open_random(host_t *h, int no_cache)
{
    mst_runner_t       r;
    mst_engine_conf_t  conf;

    memset(&kv, 0, sizeof(kv));
    memset(&r, 0, sizeof(r));
    memset(requests, 0, sizeof(requests));

    kv.block_tokens = 1 + rnd(20);
    kv.n_blocks = 1 + (200 + rnd(1500)) / kv.block_tokens / (1 + rnd(4));
    kv.max_rows = 1 + rnd(rnd(2) ? 20 : 200);
    kv.max_seqs = 1 + rnd(20);
    kv.sleepy = (int) rnd(2);
    kv.kv = calloc(kv.n_blocks * kv.block_tokens, sizeof(place_t));
    kv.writer = calloc(kv.n_blocks, sizeof(uint32_t));

    r.info.n_vocab = VOCAB;
    r.info.context = 50 + rnd(300);
    r.info.block_tokens = kv.block_tokens;
    r.info.n_blocks = kv.n_blocks;
    r.step = kv_step;
    r.destroy = kv_destroy;

    host_conf(h, &conf, kv.max_seqs, kv.max_rows);
    conf.no_prefix_cache = no_cache;
    host_open_conf(h, &r, &conf, TAGS);

    h->n_order = r.info.context;               /* kept for the check */
}


static void
random_run(int no_cache, uint64_t *preemptions, uint64_t *cached)
{
    host_t              h;
    uint32_t            i, next, context, tag, idle;
    mst_engine_stats_t  s;

    open_random(&h, no_cache);

    context = h.n_order;
    h.n_order = 64;
    next = 0;
    idle = 0;

    for (i = 0; next < TAGS || idle < 3; i++) {
        assert_true(i < 400000);

        while (next < TAGS && rnd(3) == 0) {
            make_request(next, h.now);
            mst_engine_submit(h.e, &requests[next].s, h.now);

            /* it has a copy of all */

            memset(&requests[next].s.salt, 0, MST_SALT_SIZE);
            next++;
        }

        if (rnd(20) == 0) {
            tag = rnd(TAGS);
            requests[tag].cancelled = requests[tag].submitted;
            mst_engine_cancel(h.e, tag, h.now);
        }

        /* what is forgotten is computed again, and nothing else changes */

        if (i % 97 == 96) {
            mst_engine_stats(h.e, &s);
            assert_true(mst_engine_forget(h.e) >= s.blocks_cached);
            mst_engine_stats(h.e, &s);
            assert_int_equal(s.blocks_cached, 0);
        }

        mst_engine_stats(h.e, &s);
        assert_true(mst_engine_slack(h.e) <= (uint64_t) s.running
                                             * (s.blocks_total + 1)
                                             * kv.block_tokens);

        if (rnd(10) == 0) {
            tag = rnd(TAGS);
            mst_engine_pause(h.e, tag, (int) rnd(2), h.now);
            mst_engine_pace(h.e, rnd(TAGS), rnd(2) ? 0 : 1u << 31, h.now);
        }

        if (host_step(&h) == MST_AGAIN) {
            idle = h.wake ? 0 : idle + 1;

            for (tag = 0; idle > 1 && tag < TAGS; tag++) {
                mst_engine_pause(h.e, tag, 0, h.now);
            }

            h.now = h.wake ? h.wake : h.now;

        } else {
            idle = 0;
        }

        h.now += rnd(4);
        host_check_counts(&h);
    }

    for (i = 0; i < TAGS; i++) {
        check_answer(&h, i, context);
    }

    check_sums(&h);

    mst_engine_stats(h.e, &s);
    *preemptions += s.preemptions;
    *cached += s.cached_tokens;

    host_close(&h);
}


static void
test_random(void **state)
{
    int       i;
    uint64_t  preemptions, cached;

    (void) state;

    preemptions = 0;
    cached = 0;

    for (i = 0; i < 12; i++) {
        random_run(0, &preemptions, &cached);
    }

    print_message("preemptions %llu, tokens from the cache %llu\n",
                  (unsigned long long) preemptions,
                  (unsigned long long) cached);

    assert_true(preemptions > 100);
    assert_true(cached > 1000);
}


static void
test_random_no_cache(void **state)
{
    int       i;
    uint64_t  preemptions, cached;

    (void) state;

    preemptions = 0;
    cached = 0;

    for (i = 0; i < 6; i++) {
        random_run(1, &preemptions, &cached);
    }

    assert_true(preemptions > 50);
    assert_int_equal(cached, 0);
}


/* the same calls at the same times: the same events */

static void
test_deterministic(void **state)
{
    int       i;
    uint64_t  preemptions[2] = { 0, 0 }, cached[2] = { 0, 0 };

    (void) state;

    for (i = 0; i < 2; i++) {
        draws = 1u << 30;
        random_run(0, &preemptions[i], &cached[i]);
    }

    assert_int_equal(preemptions[0], preemptions[1]);
    assert_int_equal(cached[0], cached[1]);
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_random_no_cache),
        cmocka_unit_test(test_deterministic)
    };

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 10);
    }

    printf("seed %llu\n", (unsigned long long) seed);

    return cmocka_run_group_tests(tests, NULL, NULL);
}

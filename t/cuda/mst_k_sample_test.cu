
/*
 * Sampling on the device against the sampler of the CPU, the same orders in
 * the same rows: token, status, log-probabilities and the best ones, over
 * vocabularies that no tile divides, flat and steep rows, rows of few values,
 * broken rows; twice with the same bits.  With "bench" the times of a step's
 * rows, as replays of a graph over rows that do not stay in L2.
 */

#include <math.h>

#include "device_rig.cuh"
extern "C" {
#include "engine/mst_sampler.h"
}
#include "kernels/mst_k_sample.h"


typedef struct {
    mst_params_t           params;
    mst_sample_t           sample;
    std::vector<uint32_t>  tokens;
    std::vector<uint32_t>  stop;
    std::vector<mst_bias_t>  bias;
    int                    score;
    uint32_t               id;
} row_t;


typedef struct {
    uint32_t              n_vocab;
    uint32_t              stride;
    uint32_t              n;
    std::vector<float>    logits;
    std::vector<row_t>    rows;
    std::vector<mst_k_sample_order_t>  orders;
    std::vector<uint32_t>              words;

    mst_k_sample_t        a;
    float                *copy;        /* of the logits, on the device */
    mst_k_sampled_t      *results;     /* pinned [n], at the end of 2 n */
    mst_k_sample_top_t   *tops;
    std::vector<uint32_t>              fed;    /* [2 n] */
} batch_t;


static float
normal(void)
{
    float  s;
    int    i;

    for (s = -6, i = 0; i < 12; i++) {
        s += rndf(0, 1);
    }

    return s;
}


static void
fill(float *x, uint32_t n, uint32_t kind)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        switch (kind) {

        case 0:                            /* a flat row */
            x[i] = normal();
            break;

        case 1:                            /* as a model's: few good ones */
            x[i] = 2.5f * normal() - 4 + (rnd(200) == 0 ? 9 * rndf(0, 1) : 0);
            break;

        case 2:                            /* few values */
            x[i] = (float) rnd(5);
            break;

        case 3:                            /* one value */
            x[i] = -1.25f;
            break;

        case 4:                            /* bins of no use */
            x[i] = rnd(50) ? rndf(1, 1.001f) : -3e38f;
            break;

        default:
            x[i] = rndf(-1e-3f, 1e-3f) + (rnd(3) ? 0 : -INFINITY);
        }
    }
}


static float
maybe(float off, float low, float high)
{
    return rnd(3) ? off : rndf(low, high);
}


static void
order_random(row_t *r, uint32_t n_vocab)
{
    uint32_t       i, n;
    mst_params_t  *p;

    p = &r->params;
    mst_params_default(p);

    p->temperature = rnd(6) ? rndf(0.1f, 2) : 0;
    p->top_p = maybe(1, 0.01f, 1);
    p->top_k = rnd(3) ? 0 : (int32_t) rnd(rnd(2) ? 60 : n_vocab + 20);
    p->min_p = maybe(0, 0, rnd(2) ? 1 : 0.1f);
    p->repetition_penalty = maybe(1, 0.5f, 2);
    p->frequency_penalty = maybe(0, -2, 2);
    p->presence_penalty = maybe(0, -2, 2);
    p->flags = rnd(3) ? 0 : MST_PARAMS_LOGPROBS;
    p->seed = rnd(1000);
    p->min_tokens = rnd(3) ? 0 : rnd(200);
    p->n_top = rnd(MST_MAX_TOP_LOGPROBS + 1);

    n = rnd(4) ? rnd(600) : rnd(9000);

    for (i = 0; i < n; i++) {
        r->tokens.push_back(rnd(i % 3 ? n_vocab : std::min(40u, n_vocab)));
    }

    for (i = rnd(5); i; i--) {
        r->stop.push_back(rnd(n_vocab));
    }

    for (i = rnd(4) ? 0 : rnd(rnd(4) ? 12 : MST_MAX_BIAS); i; i--) {
        mst_bias_t  b = { rnd(i % 4 ? n_vocab : std::min(4u, n_vocab)),
                          rndf(-100, 10) };

        r->bias.push_back(b);
    }

    r->score = rnd(6) == 0;
    r->id = rnd(n_vocab);
}


static void
order_finish(row_t *r)
{
    mst_sample_t  *s;

    s = &r->sample;
    memset(s, 0, sizeof(mst_sample_t));

    s->params = &r->params;
    s->tokens = r->tokens.data();
    s->n_tokens = (uint32_t) r->tokens.size();
    s->n_prompt = s->n_tokens ? rnd(s->n_tokens + 1) : 0;
    s->stop_ids = r->stop.data();
    s->n_stop = (uint32_t) r->stop.size();
    s->bias = r->bias.data();
    s->n_bias = (uint32_t) r->bias.size();
    s->greedy = rnd(12) == 0;
}


/* orders of the rows, and all of it to the device */

static void
batch_send(batch_t *b)
{
    uint32_t  i, at, n;

    b->orders.resize(b->n);

    for (n = 0, i = 0; i < b->n; i++) {
        n += mst_k_sample_words(&b->rows[i].sample);
    }

    b->words.resize(n);

    for (at = 0, i = 0; i < b->n; i++) {
        if (b->rows[i].score) {
            mst_k_sample_score(&b->orders[i], i, b->rows[i].id,
                               b->rows[i].params.n_top);

        } else {
            at = mst_k_sample_draw(&b->orders[i], &b->rows[i].sample, i,
                                   b->words.data(), at);
        }

        b->orders[i].result = b->n + i;
    }

    /* the last token of a history as the step before gives it */

    b->fed.assign(2 * b->n, 0xffffffff);

    for (i = 0; i < b->n; i++) {
        if (b->orders[i].n_history) {
            at = b->orders[i].words + b->orders[i].n_history - 1;
            b->fed[i] = b->words[at];
            b->words[at] = MST_SAMPLE_FED | i;
        }
    }

    memset(&b->a, 0, sizeof(b->a));

    b->a.logits = upload(b->logits, sizeof(b->logits[0]));
    b->copy = upload(b->logits, sizeof(b->logits[0]));
    b->a.orders = upload(b->orders, sizeof(b->orders[0]));
    b->a.words = upload(b->words, sizeof(b->words[0]));
    b->a.n_vocab = b->n_vocab;
    b->a.stride = b->stride;
    b->a.n = b->n;
    b->a.fed = upload(b->fed, sizeof(b->fed[0]));

    CHECK(cudaMallocHost(&b->a.results, 2 * b->n * sizeof(mst_k_sampled_t)));
    CHECK(cudaMallocHost(&b->a.tops, 2 * b->n * sizeof(mst_k_sample_top_t)));

    b->results = b->a.results + b->n;
    b->tops = b->a.tops + b->n;
}


static void
batch_free(batch_t *b)
{
    release({ b->a.logits, b->copy, b->a.orders, b->a.words, b->a.fed });
    CHECK(cudaFreeHost(b->a.results));
    CHECK(cudaFreeHost(b->a.tops));
}


static void
batch_run(batch_t *b)
{
    memset(b->results, 0xff, b->n * sizeof(mst_k_sampled_t));
    memset(b->tops, 0xff, b->n * sizeof(mst_k_sample_top_t));

    CHECK(cudaMemcpy(b->a.logits, b->copy, b->logits.size() * 4,
                     cudaMemcpyDeviceToDevice));
    CHECK(mst_k_sample(&b->a, 0));
    CHECK(cudaDeviceSynchronize());
}


static int
near(float a, float b)
{
    return a == b || fabsf(a - b) <= 2e-6f * (1 + fabsf(b));
}


/* one row's result; top ids may differ where the numbers do not, in no case
   here: the same logits are compared */

static int
differs(const mst_sampled_t *got, const mst_sampled_t *want, int logprobs)
{
    uint32_t  i;

    if (got->status != want->status) {
        return 1;
    }

    if (want->status != MST_OK) {
        return 0;
    }

    if (got->id != want->id) {
        return 2;
    }

    if (!logprobs) {
        return 0;
    }

    if (!near(got->logprob, want->logprob)) {
        return 3;
    }

    if (got->n_top != want->n_top) {
        return 4;
    }

    for (i = 0; i < want->n_top; i++) {
        if (got->top_ids[i] != want->top_ids[i]) {
            return 5;
        }

        if (!near(got->top_logprobs[i], want->top_logprobs[i])) {
            return 6;
        }
    }

    return 0;
}


static int
batch_check(batch_t *b)
{
    int             bad, why;
    uint32_t        i;
    mst_err_t       err;
    mst_sampled_t   got, want;
    mst_sampler_t   sampler;
    row_t          *r;

    bad = 0;

    if (mst_sampler_init(&sampler, b->n_vocab, &err) != MST_OK) {
        printf("not ok - no memory\n");
        exit(1);
    }

    for (i = 0; i < b->n; i++) {
        r = &b->rows[i];
        mst_k_sample_result(&b->results[i], &b->tops[i], &got);

        if (r->score) {
            mst_sampler_score(&sampler, &b->logits[(size_t) i * b->stride],
                              r->id, r->params.n_top, &want);

        } else {
            mst_sampler_run(&sampler, &b->logits[(size_t) i * b->stride],
                            &r->sample, &want);
        }

        why = differs(&got, &want,
                      r->score || r->params.flags & MST_PARAMS_LOGPROBS);

        if (why && bad++ < 5) {
            printf("# vocabulary %u row %u: reason %d, status %d/%d id %u/%u "
                   "logprob %g/%g n_top %u/%u; T %g top_k %d top_p %g min_p "
                   "%g penalties %g %g %g, %u bias, score %d\n",
                   b->n_vocab, i, why, got.status, want.status, got.id,
                   want.id, got.logprob, want.logprob, got.n_top, want.n_top,
                   r->params.temperature, r->params.top_k, r->params.top_p,
                   r->params.min_p, r->params.repetition_penalty,
                   r->params.frequency_penalty, r->params.presence_penalty,
                   r->sample.n_bias, r->score);
        }
    }

    mst_sampler_fini(&sampler);

    CHECK(cudaMemcpy(b->fed.data(), b->a.fed, b->fed.size() * 4,
                     cudaMemcpyDeviceToHost));

    for (i = 0; i < b->n; i++) {
        if (b->fed[b->n + i] != (b->results[i].status == MST_OK
                                 ? b->results[i].id : 0)
            && bad++ < 5)
        {
            printf("# row %u: %u is fed, %u was drawn\n", i,
                   b->fed[b->n + i], b->results[i].id);
        }
    }

    return bad;
}


static int
test(uint32_t n_vocab, uint32_t n)
{
    int                             bad;
    float                          *x;
    uint32_t                        i;
    batch_t                         b;
    std::vector<mst_k_sampled_t>    first;

    b.n_vocab = n_vocab;
    b.stride = rnd(2) ? (n_vocab + 3) / 4 * 4 + 4 * rnd(3)
                      : n_vocab + rnd(3);
    b.n = n;
    b.logits.assign((size_t) n * b.stride, NAN);
    b.rows.resize(n);

    for (i = 0; i < n; i++) {
        x = &b.logits[(size_t) i * b.stride];

        fill(x, n_vocab, rnd(6));
        order_random(&b.rows[i], n_vocab);
        order_finish(&b.rows[i]);

        if (rnd(40) == 0) {
            x[rnd(n_vocab)] = rnd(2) ? NAN : INFINITY;
        }

        if (rnd(60) == 0) {
            std::fill(x, x + n_vocab, -INFINITY);
        }
    }

    batch_send(&b);
    batch_run(&b);

    first.assign(b.results, b.results + n);
    bad = batch_check(&b);

    batch_run(&b);

    if (memcmp(first.data(), b.results, n * sizeof(mst_k_sampled_t)) != 0) {
        printf("# the second time differs\n");
        bad++;
    }

    printf("%s - sampling %u rows of a vocabulary of %u, %d differ\n",
           bad ? "not ok" : "ok", n, n_vocab, bad);

    batch_free(&b);

    return bad;
}


static void
bench_rows(batch_t *b, uint32_t kind, float temperature, float top_p,
    int top_k, int what)
{
    uint32_t       i, k;
    mst_params_t  *p;

    b->rows.assign(b->n, row_t());

    for (i = 0; i < b->n; i++) {
        p = &b->rows[i].params;
        mst_params_default(p);

        p->temperature = temperature;
        p->top_p = top_p;
        p->top_k = top_k;
        p->seed = i;
        b->rows[i].score = 0;

        if (what == 1) {
            p->flags = MST_PARAMS_LOGPROBS;
            p->n_top = MST_MAX_TOP_LOGPROBS;
        }

        if (what == 2) {
            p->frequency_penalty = 0.5f;
            p->repetition_penalty = 1.1f;

            for (k = 0; k < 600; k++) {
                b->rows[i].tokens.push_back(rnd(b->n_vocab));
            }
        }

        order_finish(&b->rows[i]);
        b->rows[i].sample.greedy = 0;
        fill(&b->logits[(size_t) i * b->stride], b->n_vocab, kind);
    }
}


/* rows of so many copies that no row is still in L2: a step's logits were
   just written, so half of what is read may be there in a real step */

static void
bench(uint32_t n_vocab, uint32_t n)
{
    int                     i, j, k, copies;
    float                   ms;
    size_t                  size;
    float                  *all;
    batch_t                 b;
    cudaEvent_t             from, to;
    cudaGraph_t             graph;
    cudaStream_t            stream;
    cudaGraphExec_t         exec;
    std::vector<float>      times;

    static const struct {
        const char  *name;
        uint32_t     kind;
        float        temperature;
        float        top_p;
        int          top_k;
        int          what;
    } cases[] = {
        { "greedy", 0, 0, 1, 0, 0 },
        { "temperature, flat", 0, 1, 1, 0, 0 },
        { "temperature, steep", 1, 1, 1, 0, 0 },
        { "top_p 0.9, flat", 0, 1, 0.9f, 0, 0 },
        { "top_p 0.9, steep", 1, 1, 0.9f, 0, 0 },
        { "top_k 50, top_p 0.9", 1, 0.7f, 0.9f, 50, 0 },
        { "greedy, top 20", 1, 0, 1, 0, 1 },
        { "top_p 0.9, steep, penalties", 1, 1, 0.9f, 0, 2 },
        { "top_p 0.9, one value", 3, 1, 0.9f, 0, 0 },
    };

    b.n_vocab = n_vocab;
    b.stride = (n_vocab + 3) / 4 * 4;
    b.n = n;
    b.logits.resize((size_t) n * b.stride);

    size = b.logits.size() * 4;
    copies = (int) std::min<size_t>(64, 256000000 / size + 1);

    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    CHECK(cudaMalloc(&all, copies * size));

    for (k = 0; k < (int) (sizeof(cases) / sizeof(*cases)); k++) {
        bench_rows(&b, cases[k].kind, cases[k].temperature, cases[k].top_p,
                   cases[k].top_k, cases[k].what);
        batch_send(&b);

        for (j = 0; j < copies; j++) {
            CHECK(cudaMemcpy((char *) all + j * size, b.a.logits, size,
                             cudaMemcpyDeviceToDevice));
        }

        CHECK(cudaStreamBeginCapture(stream,
                                     cudaStreamCaptureModeThreadLocal));

        for (j = 0; j < copies; j++) {
            mst_k_sample_t  a = b.a;

            a.logits = (float *) ((char *) all + j * size);
            CHECK(mst_k_sample(&a, stream));
        }

        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));

        times.clear();

        for (i = 0; i < 9; i++) {
            CHECK(cudaEventRecord(from, stream));
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaEventRecord(to, stream));
            CHECK(cudaEventSynchronize(to));
            CHECK(cudaEventElapsedTime(&ms, from, to));
            times.push_back(ms * 1000 / copies);
        }

        std::sort(times.begin(), times.end());
        printf("# %6u x %3u  %-30s %7.1f us\n", n_vocab, n, cases[k].name,
               times[times.size() / 2]);
        fflush(stdout);

        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        batch_free(&b);
    }

    CHECK(cudaFree(all));
}


int
main(int argc, char **argv)
{
    int  bad;

    if (!device_found(0)) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench(32768, 1);
        bench(32768, 32);
        bench(32768, 256);
        bench(131072, 1);
        bench(131072, 64);

        return 0;
    }

    if (argc > 1 && strcmp(argv[1], "small") == 0) {
        return test(521, 24) ? 1 : 0;
    }

    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 0);
    }

    printf("# seed %llu\n", (unsigned long long) seed);

    bad = test(1, 9);
    bad += test(257, 300);
    bad += test(4099, 300);
    bad += test(32768, 120);
    bad += test(32768, 160);
    bad += test(131072, 40);
    bad += test(262141, 10);

    return bad ? 1 : 0;
}

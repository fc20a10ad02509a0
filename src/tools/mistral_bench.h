
/*
 * The parts of "mistral bench": mistral_bench.c (the command),
 * mistral_bench_engine.c (without HTTP), mistral_bench_kernels.c (of the CPU
 * alone), mistral_bench_device.c (of a device alone), and for HTTP
 *
 *   mistral_bench_plan.c    which requests, and when
 *   mistral_bench_load.c    connections and the loop around them
 *   mistral_bench_http.c    one answer's head and body
 *   mistral_bench_answer.c  what a body says: events, tokens, errors
 *   mistral_bench_result.c  sums, percentiles, report
 *   mistral_url.c     the address
 *
 * One process, one thread.
 */

#ifndef MISTRAL_BENCH_H
#define MISTRAL_BENCH_H

#include <signal.h>
#include <stdint.h>

#define MISTRAL_BENCH_REQUESTS     100         /* neither --requests nor
                                                  --duration was given */
#define MISTRAL_BENCH_NO_SEED      UINT64_MAX
#define MISTRAL_BENCH_CONNECTIONS  65536
#define MISTRAL_BENCH_OPEN         1024        /* --concurrency with --rate */
#define MISTRAL_BENCH_HEADERS      8


typedef struct {
    const char  *url;
    const char  *model;            /* a name, with --engine a path */
    const char  *profile;
    const char  *prompts;
    const char  *json;
    const char  *device;           /* "cpu", "cuda:N"; NULL = cpu */
    const char  *dtype;            /* NULL = auto */
    const char  *isa;
    const char  *kv_cache;
    const char  *cases;
    const char  *headers[MISTRAL_BENCH_HEADERS + 1];   /* "Name: value", NULL
                                                          ends them */
    int          help;
    int          engine;
    int          kernels;
    int          stream;
    int          no_stream;
    int          ignore_eos;
    uint64_t     concurrency;      /* 0 = not given; so are all below */
    uint64_t     requests;
    double       duration;         /* seconds */
    double       rate;             /* requests per second; 0: closed loop */
    double       timeout;          /* seconds of one request */
    uint64_t     seed;
    uint64_t     prompt_tokens;
    uint64_t     max_tokens;
    uint64_t     warmup;           /* requests */
    uint64_t     threads;
    double       temperature;      /* 0 = greedy */
    uint64_t     activations;      /* bits */
    uint64_t     weight_layouts;
    int          batch_invariant;
    uint64_t     repeat;
} mistral_bench_conf_t;


extern volatile sig_atomic_t  mistral_bench_stop;  /* ^C */


/* they return the exit code */
int mistral_bench_http(const mistral_bench_conf_t *conf);
int mistral_bench_engine(const mistral_bench_conf_t *conf);
int mistral_bench_kernels(const mistral_bench_conf_t *conf);
int mistral_bench_device(const mistral_bench_conf_t *c);


#endif /* MISTRAL_BENCH_H */


/*
 * Which requests are sent, and when.  The same seed gives the same words,
 * draws and times.
 */

#ifndef MISTRAL_BENCH_PLAN_H
#define MISTRAL_BENCH_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "tools/mistral_bench.h"
#include "tools/mistral_url.h"


typedef struct {
    double     weight;         /* share of the requests, > 0 */
    double     left;           /* of the weight, until all are dealt anew */
    char      *prompt;         /* as a JSON string; NULL: random words */
    uint64_t   prompt_tokens;  /* words */
    uint64_t   max_tokens;
} mistral_mix_t;


typedef struct {
    mistral_mix_t               *mixes;
    size_t                       n_mixes;
    double                       weights;  /* sum */
    double                       left;     /* sum; 0 = deal anew */
    int                          dealt;    /* all weights are whole */
    uint64_t                     words;    /* random states, one for each */
    uint64_t                     times;    /* use */
    int                          chat;     /* else /completions */
    const mistral_url_t   *url;
    const mistral_bench_conf_t  *conf;
    char                        *model;    /* as a JSON string, may be NULL */
    mst_buf_t                    body;
} mistral_plan_t;


/* leaves p fit for _fini whatever it returns */
int mistral_plan_init(mistral_plan_t *p, const mistral_bench_conf_t *conf,
    const mistral_url_t *url, mst_err_t *err);
void mistral_plan_fini(mistral_plan_t *p);

/* the next request, head and body, into "out" */
int mistral_plan_request(mistral_plan_t *p, mst_buf_t *out);

/* nanoseconds from one arrival to the next, of a Poisson process */
uint64_t mistral_plan_gap(mistral_plan_t *p);


#endif /* MISTRAL_BENCH_PLAN_H */

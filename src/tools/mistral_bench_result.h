
/*
 * What a run of "mistral bench" over HTTP adds up to.
 */

#ifndef MISTRAL_BENCH_RESULT_H
#define MISTRAL_BENCH_RESULT_H

#include <stdint.h>

#include "base/mst_err.h"
#include "tools/mistral_bench.h"
#include "tools/mistral_url.h"
#include "tools/mistral_stats.h"


typedef enum {                     /* failures that have no status */
    MISTRAL_FAULT_CONNECT,
    MISTRAL_FAULT_CLOSED,          /* the connection ended inside */
    MISTRAL_FAULT_PROTOCOL,        /* no HTTP, or no answer in it */
    MISTRAL_FAULT_STREAM,          /* an error event inside a stream */
    MISTRAL_FAULT_INCOMPLETE,      /* a stream without its [DONE] */
    MISTRAL_FAULT_TIMEOUT,
    MISTRAL_FAULTS
} mistral_fault_t;


typedef struct {
    uint64_t         start_ns;
    uint64_t         end_ns;       /* of the last answer */
    uint64_t         ok;
    uint64_t         failed;
    uint64_t         retried;      /* on a kept connection that had just been
                                      closed by the server */
    uint64_t         late;         /* sent over 2 ms after they were due */
    uint64_t         no_usage;     /* answers that said no numbers */
    uint64_t         prompt;       /* tokens, by usage */
    uint64_t         cached;
    uint64_t         completion;
    uint64_t         status[600];  /* of failures */
    uint64_t         faults[MISTRAL_FAULTS];
    char             sample[200];  /* what the first failure said */
    mistral_stats_t  first;        /* ns: due to first text */
    mistral_stats_t  gap;          /* from text to text */
    mistral_stats_t  token;        /* of one answer, first text to the last,
                                      by token */
    mistral_stats_t  total;        /* due to the end of the body */
    uint64_t         all_ns;       /* in which all connections were between
                                      their first text and their last */
    double           all_tokens;   /* of one of them in that time */
} mistral_result_t;


void mistral_result_init(mistral_result_t *r, uint64_t now_ns);

/* of a failure; the first one's text is kept, "text" need not be one */
void mistral_result_sample(mistral_result_t *r, const char *text, size_t n);

/* a line on the terminal; last: it goes away */
void mistral_result_progress(const mistral_result_t *r, uint64_t running,
    uint64_t now_ns, int last);

/* to stdout, or as JSON where --json says; MISTRAL_OK or an exit code */
int mistral_result_report(const mistral_result_t *r,
    const mistral_bench_conf_t *conf, const mistral_url_t *url);


#endif /* MISTRAL_BENCH_RESULT_H */

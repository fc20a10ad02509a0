
/*
 * One connection of "mistral bench": a request, its answer, the next
 * request.  What it measures goes into the load's result.
 */

#ifndef MISTRAL_BENCH_CONN_H
#define MISTRAL_BENCH_CONN_H

#include <stdint.h>

#include "base/mst_buf.h"
#include "tools/mistral_bench_answer.h"
#include "tools/mistral_bench_http.h"
#include "tools/mistral_bench_plan.h"
#include "tools/mistral_bench_result.h"


typedef struct mistral_conn_s  mistral_conn_t;

struct mistral_conn_s {
    mistral_conn_t    *next;       /* of those that are idle or pause */
    int                fd;         /* -1: not connected */
    int                busy;       /* a request is on its way */
    int                connecting;
    int                kept;       /* an answer came on it before */
    int                again;      /* this request was sent once before */
    uint64_t           due_ns;     /* when its request was due */
    uint64_t           sent_ns;    /* when we began to send it */
    uint64_t           first_ns;   /* its first text; 0: none yet */
    uint64_t           last_ns;    /* its last */
    uint64_t           resume_ns;  /* of the pause after a failure */
    size_t             sent;       /* bytes of out */
    uint64_t           got;        /* bytes of the answer */
    uint64_t           n_text;     /* events with text, seen by the clock */
    int                begun;      /* there is text, and more to come */
    uint64_t           all_ns;     /* from its first text to the last one while
                                      all connections had begun; 0 unless it
                                      was the last to begin */
    uint64_t           all_text;   /* events in that time */
    mst_buf_t          out;
    mistral_http_t     http;
    mistral_answer_t   answer;
};


typedef struct {
    int                          epoll;
    const mistral_bench_conf_t  *conf;
    const mistral_url_t         *url;
    mistral_plan_t              *plan;
    mistral_result_t            *result;
    uint64_t                     n_begun;
    mistral_conn_t              *latest;   /* with it all had begun, and
                                              none has ended; or NULL */
} mistral_conns_t;                 /* what all connections share */


void mistral_conn_init(mistral_conn_t *c);
void mistral_conn_fini(mistral_conn_t *c);

/* sends the plan's next request, due at due_ns; MST_OK, or MST_ERROR: it
   has failed already and was counted, c is not busy */
int mistral_conn_start(mistral_conn_t *c, mistral_conns_t *s,
    uint64_t due_ns, uint64_t now_ns);

/* after an event with the flags of epoll; c->busy tells whether the request
   goes on.  MST_ERROR: it failed without an answer */
int mistral_conn_event(mistral_conn_t *c, mistral_conns_t *s,
    uint32_t events);

/* takes too long */
void mistral_conn_timeout(mistral_conn_t *c, mistral_conns_t *s,
    uint64_t now_ns);


#endif /* MISTRAL_BENCH_CONN_H */

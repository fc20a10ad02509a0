
/*
 * A worker's link to one engine: shared by link.c, which opens it, watch.c,
 * which waits for it, and call.c and wish.c, which move records over it.  One
 * thread, one process.
 */

#ifndef NGX_HTTP_MISTRAL_LINK_H
#define NGX_HTTP_MISTRAL_LINK_H

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_exec.h"
#include "shm/mst_ring.h"


/* id = generation << 32 | index: a late record of an ended call finds none */
typedef struct {
    ngx_http_mistral_call_t      *call;        /* NULL: free */
    uint32_t                      generation;
    uint32_t                      next;        /* of the free ones */
} ngx_http_mistral_entry_t;


typedef struct {
    uint64_t                      id;
    uint32_t                      engine_epoch;
} ngx_http_mistral_cancel_t;


typedef struct {
    /* "ident" of the timer must be where ngx_connection_t has its fd */
    void                         *unused[3];
    ngx_socket_t                  ident;

    ngx_http_mistral_engine_t    *engine;      /* NULL: detached */
    ngx_uint_t                    n_refs;      /* calls that point to us */
    ngx_http_mistral_metrics_t   *metrics;     /* of the model */
    ngx_msec_t                    timeout;     /* of a heartbeat */
    ngx_int_t                     index;       /* of our slot; -1 = none */
    mst_slot_t                   *slot;
    uint32_t                      slot_epoch;
    mst_ring_t                    req;
    mst_ring_t                    rsp;
    mst_record_t                 *copy;        /* of one record */
    uint32_t                      copy_size;

    uint32_t                      engine_epoch;  /* seen last */
    uint32_t                      broken_epoch;  /* whose records are bad */

    ngx_http_mistral_entry_t     *entries;
    uint32_t                      n_entries;
    uint32_t                      free;        /* first free; n_entries =
                                                  none */
    ngx_queue_t                   calls;       /* in flight */
    ngx_queue_t                   dirty;       /* with a pass to come */
    ngx_array_t                   cancels;     /* that found the ring full */
    ngx_queue_t                   controls;    /* the same of PACE, PAUSE and
                                                  RESUME: calls */

    ngx_connection_t             *wake;
    ngx_connection_t             *alive;
    ngx_connection_t             *log;
    ngx_event_t                   timer;

    /* revive.c: while there is no engine */
    ngx_event_t                   revive;
    ngx_connection_t             *answer;      /* of the program that runs */
    ngx_http_mistral_exec_t      *exec;
    pid_t                         pid;
    const char                   *program;     /* its path */

    ngx_event_t                   exit;        /* exit.c */

    /* wait.c: requests that wait until the engine is ready */
    ngx_queue_t                   waits;       /* _ctx_t.queue, oldest first */
    ngx_event_t                   wait;
    uint32_t                      held;        /* their answers */

    unsigned                      cut:1;       /* nginx is about to close all
                                                  connections */
    unsigned                      alone:1;     /* stale without a supervisor
                                                  at the last look */
    unsigned                      gone:1;      /* engine and supervisor */
    unsigned                      broken:1;    /* in broken_epoch */
    unsigned                      hung:1;      /* was logged */
} ngx_http_mistral_link_t;


/* call.c */
ngx_int_t ngx_http_mistral_call_init(ngx_http_mistral_link_t *link,
    ngx_pool_t *pool);

/* one pass over the ring: NGX_AGAIN: more is there, NGX_OK: it was empty */
ngx_int_t ngx_http_mistral_call_pass(ngx_http_mistral_link_t *link);

/* no answer will come to calls of another epoch, or to any */
void ngx_http_mistral_call_lost(ngx_http_mistral_link_t *link,
    ngx_uint_t all);
ngx_uint_t ngx_http_mistral_call_busy(ngx_http_mistral_link_t *link);

/* watch.c: NULL: there is no connection for it */
ngx_connection_t *ngx_http_mistral_watch_add(ngx_http_mistral_link_t *link,
    int fd, ngx_event_handler_pt handler);
void ngx_http_mistral_watch_del(ngx_connection_t *c);  /* c may be NULL */
void ngx_http_mistral_watch_alive(ngx_http_mistral_link_t *link);

/* looks at the engine each second while there is a reason to */
void ngx_http_mistral_watch_timer(ngx_http_mistral_link_t *link);

void ngx_http_mistral_watch_wake_handler(ngx_event_t *ev);
void ngx_http_mistral_watch_timer_handler(ngx_event_t *ev);

/* wish.c */
void ngx_http_mistral_wish_cancel(ngx_http_mistral_link_t *link, uint64_t id,
    uint32_t engine_epoch);
void ngx_http_mistral_wish_retry(ngx_http_mistral_link_t *link);

/* exit.c: begin: this worker leaves */
void ngx_http_mistral_exit_watch(ngx_http_mistral_link_t *link);
void ngx_http_mistral_exit_begin(ngx_http_mistral_link_t *link);
void ngx_http_mistral_exit_end(ngx_http_mistral_link_t *link);

/* revive.c: "gone" from now on, until it is not */
void ngx_http_mistral_revive(ngx_http_mistral_link_t *link);
void ngx_http_mistral_revive_handler(ngx_event_t *ev);
void ngx_http_mistral_revive_end(ngx_http_mistral_link_t *link);

/* somebody may have started one; 1 = there is nothing to revive */
ngx_uint_t ngx_http_mistral_revive_look(ngx_http_mistral_link_t *link);

/* an engine that nobody else would kill; from the timer of a stale one */
void ngx_http_mistral_revive_stale(ngx_http_mistral_link_t *link);

/* memory.c: what this worker frees from now on */
void ngx_http_mistral_memory_init(ngx_cycle_t *cycle);
void ngx_http_mistral_memory_exit(void);

/* link.c */

/* an order of this worker to a model's engine: mst_shm_t.flush or .knock */
typedef enum {
    NGX_HTTP_MISTRAL_ORDER_FLUSH,
    NGX_HTTP_MISTRAL_ORDER_KNOCK
} ngx_http_mistral_order_e;

void ngx_http_mistral_link_order(ngx_http_mistral_model_t *m,
    ngx_http_mistral_order_e order);

ngx_http_mistral_state_e ngx_http_mistral_link_look(
    ngx_http_mistral_link_t *link);
void ngx_http_mistral_link_wake(ngx_http_mistral_link_t *link);

/* takes a slot, or tries again later */
void ngx_http_mistral_link_claim(ngx_http_mistral_link_t *link);
void ngx_http_mistral_link_broken(ngx_http_mistral_link_t *link,
    const char *why);
void ngx_http_mistral_link_free(ngx_http_mistral_link_t *link);


#endif /* NGX_HTTP_MISTRAL_LINK_H */

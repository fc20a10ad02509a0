
/*
 * The gateway half: nginx types live here and in the module file only.
 *
 *   conf.c      directives to structs, everything checked at nginx -t
 *   model.c     the mistral_model block; load.c opens what it names,
 *               load_model.c a file or a directory; tune.c what is changed
 *               of it
 *   engine.c    the master's side of an engine: create, adopt, hand over
 *   spawn.c     runs the program: probe, start
 *   link.c      a worker's side: slot, rings, wake-ups; call.c the calls in
 *               flight, wish.c what is wanted of them
 *   log.c       the engine's log lines to the error log
 *   policy.c    the policies' table and their steps in a request
 *   pressure.c  whose turn it is, who is turned away; stream.c times, slow
 *               readers
 *   deny.c      patterns that no prompt may match
 *   route.c     which model may be asked for; canary.c, breaker.c, fallback.c
 *               which one answers; keep.c what they keep over reloads
 *   task.c      tasks and system prompts (system.c)
 *   tenant.c    cache salts, the length of answers
 *   preread.c   the body before the limits
 *   request.c   content handler: checks and body; attempt.c asks a model
 *   prompt.c    messages or text to token ids
 *   submit.c    queue places, SUBMIT
 *   wait.c      who is held until the engine is ready
 *   output.c    what is sent, gathered and bounded
 *   response.c  records of a call, choice.c to SSE or JSON
 *   unwind.c    a request that ends early waits for what it cost
 *   error.c     refusals in the OpenAI form
 *   limit.h     token limits and quotas: limit*.c, bucket.c, quota*.c
 *   special.c   nginx's own refusals in it
 *   status.c    mistral_health, mistral_status, /models
 *   control.c   mistral_control; cancel.c finds a request's worker
 *   metrics.c   the gateway's counters; prometheus.c shows them
 *   series.c    counters by consumer and tag (labels.c)
 *   variables.c $mistral_*; state.c those of an engine, tag.c those of
 *               mistral_tag, trace.c ids
 *
 * All of it runs on nginx's one thread: directives, merges and what is called
 * init_module in the master (nginx -t, too), everything else in a worker,
 * unless its file says so.
 */

#ifndef NGX_HTTP_MISTRAL_H
#define NGX_HTTP_MISTRAL_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "api/mst_reply.h"
#include "api/mst_reply_call.h"
#include "api/mst_request.h"
#include "base/mst_breaker.h"
#include "shm/mst_record.h"
#include "shm/mst_setup.h"
#include "shm/mst_shm.h"
#include "text/mst_template.h"
#include "text/mst_tokenizer.h"
#include "text/mst_toolmark.h"


typedef struct ngx_http_mistral_engine_s  ngx_http_mistral_engine_t;
typedef struct ngx_http_mistral_call_s    ngx_http_mistral_call_t;
typedef struct ngx_http_mistral_metrics_s ngx_http_mistral_metrics_t;
typedef struct ngx_http_mistral_table_s   ngx_http_mistral_table_t;


typedef enum {
    NGX_HTTP_MISTRAL_OVERLAP = 0,
    NGX_HTTP_MISTRAL_DRAIN
} ngx_http_mistral_reload_e;


/* one mistral_model block of one cycle; cycle pool */
typedef struct {
    ngx_str_t                   name;
    ngx_array_t                 aliases;       /* of ngx_str_t */
    time_t                      created;       /* the file's mtime */

    mst_setup_t                *setup;         /* what the engine gets */
    int                        *files;         /* [setup->n_files] opened by
                                                  the master; -1 after start */
    uint64_t                    hash;          /* of setup and layout */
    ngx_uint_t                  reload;        /* ngx_http_mistral_reload_e */
    ngx_msec_t                  engine_timeout;
    ngx_uint_t                  thermal_limit; /* degrees; 0: none */

    ngx_str_t                   chat;          /* of chat_template, a text or
                                                  a name; data NULL: none */
    ngx_str_t                   chat_name;     /* as it is configured */
    mst_tokenizer_t            *tokenizer;     /* destroyed with the cycle */
    mst_template_t             *template;
    mst_toolmark_t              marks;         /* of calls and thoughts */
    ngx_uint_t                  tools;         /* its template shows tools */
    ngx_uint_t                  fim;           /* its vocabulary has the
                                                  tokens of it */
    uint32_t                    context;       /* tokens */
    uint32_t                    n_experts;     /* 0: it is no mixture */

    ngx_http_mistral_engine_t  *engine;        /* shared by cycles; NULL in
                                                  nginx -t */
    ngx_http_mistral_engine_t  *previous;      /* of the running cycle, until
                                                  ours is started: drain */
    ngx_http_mistral_metrics_t *metrics;       /* shared memory; may be NULL */
    mst_breaker_t              *breaker;       /* shared memory; may be NULL */
} ngx_http_mistral_model_t;


typedef struct {
    ngx_array_t                 models;        /* of _model_t *, in the order
                                                  of the configuration */
    ngx_str_t                   program;       /* resolved, NUL-terminated */
    ngx_uint_t                  no_program;    /* none where it should be */
    u_char                     *program_file;  /* of the directive; NULL: there
                                                  is none */
    ngx_uint_t                  program_line;
    ngx_shm_zone_t             *zone;          /* carries engines from cycle
                                                  to cycle; NULL: no model */
    ngx_cycle_t                *cycle;         /* of this configuration */
    ngx_http_mistral_table_t   *table;         /* metrics, in the zone */
} ngx_http_mistral_main_conf_t;


typedef struct {
    ngx_http_mistral_model_t   *model;         /* mistral_pass NAME */
    ngx_http_complex_value_t   *pass;          /* mistral_pass $variable */
    ngx_uint_t                  queue;         /* mistral_queue N */
    uint64_t                    queue_tokens;  /* 0 = no limit */
    ngx_msec_t                  queue_timeout;
    ngx_uint_t                  health;        /* 0 | LIVE | READY | DECODE */
    ngx_uint_t                  status;        /* 0 | JSON | PROMETHEUS */
    ngx_uint_t                  vllm;          /* names of vLLM, too */

    /* conf.c's own */
    ngx_http_handler_pt         handler;       /* NULL: not our location */
    ngx_str_t                   pass_name;     /* until the merge finds it */
    u_char                     *directive;     /* whose handler it is */
    u_char                     *file_name;     /* of the directive */
    ngx_uint_t                  line;
} ngx_http_mistral_loc_conf_t;

#define NGX_HTTP_MISTRAL_HEALTH_LIVE   1
#define NGX_HTTP_MISTRAL_HEALTH_READY  2
#define NGX_HTTP_MISTRAL_HEALTH_DECODE 3

#define NGX_HTTP_MISTRAL_STATUS_JSON        1
#define NGX_HTTP_MISTRAL_STATUS_PROMETHEUS  2


/*
 * A request in flight.  The owner embeds it, fills model, data and the
 * handlers, and must end it by ngx_http_mistral_link_end() in every case.
 *
 * record: each record of this id, already checked, in order; valid during
 * the call only.  lost: the engine died, hangs or restarted, or this worker
 * is about to be cut; nothing more will come (the call is no longer in
 * flight).  pass: once after a pass over
 * the ring in which this call had records (a "lost" too): the place to write
 * to the client.  A handler may end calls, its own too; after lost and after
 * a DONE or REFUSE record the link touches the call only for its pass.
 */
struct ngx_http_mistral_call_s {
    ngx_http_mistral_model_t   *model;
    void                       *data;
    void                      (*record)(ngx_http_mistral_call_t *call,
                                        const mst_record_t *rec);
    void                      (*lost)(ngx_http_mistral_call_t *call);
    void                      (*pass)(ngx_http_mistral_call_t *call);

    /* the link's own */
    uint64_t                    id;
    uint32_t                    engine_epoch;
    uint32_t                    place_tokens;
    ngx_queue_t                 queue;         /* calls of this engine */
    ngx_queue_t                 dirty;         /* calls with records */
    ngx_queue_t                 control;       /* calls whose wish found the
                                                  ring full */
    void                       *link;
    uint32_t                    pace;          /* wished for: as in
                                                  mst_claim_t */
    unsigned                    place:1;       /* holds a queue place that no
                                                  SUBMIT has taken over */
    unsigned                    inflight:1;
    unsigned                    queued:1;      /* in dirty */
    unsigned                    cut:1;         /* lost, and not the engine's
                                                  fault */
    unsigned                    paused:1;      /* wished for */
    unsigned                    new_pace:1;    /* not sent yet: in control */
    unsigned                    new_pause:1;   /* not sent yet: in control */
};


/* what keeps a model from answering; NULL text = it answers */
typedef enum {
    NGX_HTTP_MISTRAL_READY = 0,
    NGX_HTTP_MISTRAL_LOADING,
    NGX_HTTP_MISTRAL_DRAINING,
    NGX_HTTP_MISTRAL_HOT,                      /* above thermal_limit */
    NGX_HTTP_MISTRAL_DOWN                      /* dead, hung or no slot */
} ngx_http_mistral_state_e;


extern ngx_module_t  ngx_http_mistral_module;


/* conf.c */
void *ngx_http_mistral_create_main_conf(ngx_conf_t *cf);
char *ngx_http_mistral_init_main_conf(ngx_conf_t *cf, void *conf);
ngx_int_t ngx_http_mistral_post_conf(ngx_conf_t *cf);
void *ngx_http_mistral_create_loc_conf(ngx_conf_t *cf);
char *ngx_http_mistral_merge_loc_conf(ngx_conf_t *cf, void *p, void *c);
char *ngx_http_mistral_program(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mistral_pass(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mistral_queue(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mistral_health(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mistral_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mistral_set_handler(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_handler_pt handler);

/* tokens are counted, not measured: "k" is 1000; 0: not a number above 0 */
uint64_t ngx_http_mistral_tokens_number(u_char *data, size_t len);

/* by name, then by alias; NULL: none */
ngx_http_mistral_model_t *ngx_http_mistral_find_model(
    ngx_http_mistral_main_conf_t *mmcf, ngx_str_t *name);
ngx_uint_t ngx_http_mistral_model_has_name(ngx_http_mistral_model_t *m,
    ngx_str_t *name);

/* file.c: a whole regular file of at most "max" bytes; "path" is made absolute,
   from the configuration's directory.  NGX_ERROR: a sentence was logged */
ngx_int_t ngx_http_mistral_file_read(ngx_conf_t *cf, ngx_str_t *path,
    size_t max, ngx_str_t *text);

/* dir.c: NGX_OK: it is there, or it was made; *user, if not NULL, is workers'
   and cannot write to it.  NGX_DECLINED: it is no directory; NGX_ERROR: it
   cannot be made, ngx_errno says why. */
ngx_int_t ngx_http_mistral_dir(ngx_cycle_t *cycle, const char *path,
    const char **user);

/* model.c */
char *ngx_http_mistral_model_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* engine.c: the module's hooks */
ngx_int_t ngx_http_mistral_init_zone(ngx_shm_zone_t *zone, void *old);
ngx_int_t ngx_http_mistral_init_module(ngx_cycle_t *cycle);

/* link.c: the module's hooks, then what a request may expect */
ngx_int_t ngx_http_mistral_init_process(ngx_cycle_t *cycle);
void ngx_http_mistral_exit_process(ngx_cycle_t *cycle);

ngx_http_mistral_state_e ngx_http_mistral_link_state(
    ngx_http_mistral_model_t *m);

/* it is not READY, but that is a matter of time; 1 or 0 */
ngx_uint_t ngx_http_mistral_link_coming(ngx_http_mistral_model_t *m);

/* the mapped segment of a model's engine; NULL: it has none */
const mst_map_t *ngx_http_mistral_link_map(ngx_http_mistral_model_t *m);

/* tokens that one sequence may have: the block's, or what the engine's KV
   cache holds where that is less */
uint32_t ngx_http_mistral_context(ngx_http_mistral_model_t *m);

/* call.c: NGX_OK, NGX_BUSY: the queue is full, NGX_ERROR: no link to the
   engine; max_tokens of all that hold places, 0 = any number */
ngx_int_t ngx_http_mistral_link_place(ngx_http_mistral_call_t *call,
    uint32_t tokens, ngx_uint_t waiting, uint64_t max_tokens);

/*
 * Hands the request over.  The place goes with it: from here the engine
 * gives it back.  "s" is without arrays, head and place_tokens are filled
 * here.  NGX_OK, NGX_BUSY: the ring is full, NGX_ERROR: no engine.
 */
ngx_int_t ngx_http_mistral_link_submit(ngx_http_mistral_call_t *call,
    const mst_rec_submit_t *s, const uint32_t *prompt,
    const uint32_t *stop_ids, const mst_bias_t *bias);

/* wish.c: CANCEL, but the call stays in flight: its records up to DONE, which
   has the exact usage, still come */
void ngx_http_mistral_link_cancel(ngx_http_mistral_call_t *call);

/*
 * How fast a call in flight goes on: rate as mst_claim_t.pace has it (tokens
 * in 1000 s; 0 = as fast as the engine can), on = 1: not at all.  The newest
 * wish counts and cannot be lost; tokens that are on their way still come.  A
 * call that is not in flight is not touched: its SUBMIT has a pace.
 */
void ngx_http_mistral_link_pace(ngx_http_mistral_call_t *call,
    uint32_t rate);
void ngx_http_mistral_link_pause(ngx_http_mistral_call_t *call,
    ngx_uint_t on);

/* call.c, idempotent: CANCEL if in flight, the place back if it holds one */
void ngx_http_mistral_link_end(ngx_http_mistral_call_t *call);

/* request.c */
ngx_int_t ngx_http_mistral_handler(ngx_http_request_t *r);

/* special.c */
ngx_int_t ngx_http_mistral_special_init(ngx_conf_t *cf);

/* status.c */
ngx_int_t ngx_http_mistral_health_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mistral_status_handler(ngx_http_request_t *r);

/* prometheus.c */
ngx_int_t ngx_http_mistral_prometheus_handler(ngx_http_request_t *r);

/* metrics.c: for the configuration and the master, then for workers */
size_t ngx_http_mistral_metrics_size(void);
ngx_int_t ngx_http_mistral_metrics_init(ngx_http_mistral_main_conf_t *mmcf);
void ngx_http_mistral_metrics_attach(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf, ngx_http_mistral_model_t *m);
ngx_int_t ngx_http_mistral_metrics_add_handler(ngx_conf_t *cf);

/* a segment's counters into the model's totals; any time, by anybody */
void ngx_http_mistral_metrics_fold(ngx_http_mistral_metrics_t *mx,
    const mst_map_t *map);

/* variables.c; state.c */
ngx_int_t ngx_http_mistral_add_variables(ngx_conf_t *cf);
ngx_int_t ngx_http_mistral_add_state_variables(ngx_conf_t *cf);

/* a table that ends with ngx_http_null_variable; values of getters: an empty
   text is not found */
ngx_int_t ngx_http_mistral_add_table(ngx_conf_t *cf, ngx_http_variable_t *v);
ngx_int_t ngx_http_mistral_string(ngx_http_variable_value_t *v,
    ngx_str_t *text);
ngx_int_t ngx_http_mistral_number(ngx_http_request_t *r, uint64_t n,
    ngx_http_variable_value_t *v);
ngx_int_t ngx_http_mistral_thousandths(ngx_http_request_t *r, uint64_t n,
    ngx_http_variable_value_t *v);


#endif /* NGX_HTTP_MISTRAL_H */

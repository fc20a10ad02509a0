
/*
 * One request on its way through a worker: what request.c, prompt.c,
 * submit.c, response.c, choice.c, output.c, error.c, status.c and variables.c
 * share.
 *
 *   request.c   checks, body, model; the context's life
 *   body.c      its bytes to what they ask for
 *   attempt.c   one model is asked, then maybe another
 *   prompt.c    messages or text to ids; /tokenize, /detokenize
 *   turn.c      what of both takes long, in turns
 *   submit.c    lengths, queue places, SUBMIT, time limits
 *   wait.c      before its place: until the engine is ready
 *   response.c  what each record of the calls means
 *   choice.c    tokens to text, chunks and the end
 *   output.c    what is sent: gathered, bounded, watched
 *
 * The context lives in the request's pool; what it holds outside of the pool
 * is freed with the pool, after the access log was written.
 */

#ifndef NGX_HTTP_MISTRAL_REQUEST_H
#define NGX_HTTP_MISTRAL_REQUEST_H

#include "gateway/ngx_http_mistral.h"
#include "api/mst_json_read.h"
#include "text/mst_detok.h"
#include "text/mst_prompt.h"
#include "text/mst_stop.h"
#include "text/mst_toolcall.h"


typedef struct ngx_http_mistral_ctx_s     ngx_http_mistral_ctx_t;
typedef struct ngx_http_mistral_choice_s  ngx_http_mistral_choice_t;

/* "end": of the turn, as mst_time_ns() */
typedef void (*ngx_http_mistral_turn_pt)(ngx_http_mistral_ctx_t *ctx,
    uint64_t end);

/* NGX_OK, NGX_DECLINED: ctx->error, NGX_ERROR: no memory */
typedef void (*ngx_http_mistral_parsed_pt)(ngx_http_mistral_ctx_t *ctx,
    ngx_int_t rc);


#define NGX_HTTP_MISTRAL_AT_ONCE  32768        /* bytes that need no turns */
#define NGX_HTTP_MISTRAL_SLICE    (1500 * 1000)  /* ns of a turn */


/* one prompt: a chat has one, a text completion may have many */
typedef struct {
    const mst_input_t           *input;        /* NULL: the messages */
    mst_prompt_t                 prompt;
    mst_encode_t                *encode;
    const uint32_t              *ids;          /* [n_ids] until SUBMIT */
    size_t                       n_ids;
    size_t                       forced;       /* span of the prompt that the
                                                  answer begins with, 0: none */
    uint32_t                     cached;       /* of its first ADMIT */
    unsigned                     admitted:1;
} ngx_http_mistral_source_t;


/* one answer that the engine computes; the client may get copies of it */
struct ngx_http_mistral_choice_s {
    ngx_http_mistral_call_t      call;
    ngx_http_mistral_ctx_t      *ctx;
    ngx_http_mistral_source_t   *source;
    uint32_t                     index;        /* of its first copy */

    uint32_t                     max_tokens;   /* asked for: depends on what
                                                  the prompt leaves */
    uint32_t                     echoed;       /* tokens of the prompt that
                                                  were reported */
    uint32_t                     tokens;       /* received */
    uint32_t                     gathered;     /* of them in chunks */
    mst_detok_t                  detok;
    mst_stop_t                  *stop;         /* NULL: no stop strings */
    mst_buf_t                    piece;        /* text of one token */
    mst_buf_t                    text;         /* a stream's: not yet in a
                                                  chunk; else the whole */
    mst_toolcall_t              *parser;       /* NULL: all of it is text */
    mst_buf_t                    thought;      /* as text */
    mst_reply_calls_t            calls;        /* as text */
    mst_reply_logprobs_t         logprobs;     /* as text */
    size_t                       offset;       /* code points so far */

    mst_usage_t                  usage;        /* at DONE; from ADMIT on:
                                                  queue_ns, as seen here */
    uint64_t                     submit_ns;
    const char                  *reason;       /* finish_reason */

    uint32_t                     kept;         /* of the tokens, up to the
                                                  stop string's end, or to
                                                  where it was cut */
    unsigned                     started:1;    /* had its first record */
    unsigned                     stopped:1;    /* a stop string matched, or
                                                  one call was enough */
    unsigned                     cut:1;        /* a policy ended it */
    unsigned                     done:1;
};


struct ngx_http_mistral_ctx_s {
    ngx_http_request_t          *request;
    void                       **loc_conf;     /* of the location that we
                                                  answer in */
    ngx_http_mistral_model_t    *model;        /* who answers; NULL: not known
                                                  yet */
    mst_api_t                    api;
    ngx_str_t                    id;           /* "chatcmpl-..." */
    ngx_str_t                    name;         /* the client's name of the
                                                  model, or the block's */
    ngx_str_t                    task;         /* mistral_task's; len 0: none */
    uint64_t                     seed;         /* where the client has none */

    ngx_http_event_handler_pt    read_body;    /* nginx's reader of the body */
    mst_request_t               *body;         /* NULL: not parsed yet */
    mst_json_read_t             *reader;       /* while it is parsed */
    u_char                      *text;         /* what is read, a copy; NULL:
                                                  nginx's buffer */
    size_t                       text_len;
    ngx_http_mistral_parsed_pt   parsed_handler;
    ngx_http_mistral_turn_pt     turn;
    ngx_uint_t                   turns;        /* that it has had */
    ngx_http_mistral_source_t   *sources;      /* [n_sources] */
    uint32_t                     n_sources;
    uint32_t                     n_encoded;    /* of them */
    ngx_queue_t                  live;         /* cancel.c: counted, not yet
                                                  settled */
    ngx_queue_t                  queue;        /* of turns, then of those who
                                                  wait for an engine, then of
                                                  those whose worker's ring is
                                                  full */
    size_t                       n_ids;        /* of all prompts */
    uint32_t                     stop_ids[MST_MAX_STOP_IDS];
    uint32_t                     n_stop_ids;
    const mst_bias_t            *bias;         /* [n_bias] */
    uint32_t                     n_bias;
    mst_toolmark_t               marks;        /* that are looked for */

    ngx_http_mistral_choice_t   *choices;      /* [n_choices] */
    uint32_t                     n_choices;
    uint32_t                     n_copies;     /* of each, for the client */
    uint32_t                     n_sent;       /* of the choices: SUBMIT */
    uint32_t                     n_done;
    uint64_t                     deadline_ns;  /* of the start */

    void                        *wait_link;    /* wait.c's: it is held for this
                                                  link's engine; or NULL */
    ngx_msec_t                   wait_from;    /* since when */
    ngx_msec_t                   wait_ms;      /* before that */
    ngx_msec_t                   wait_by;      /* refused then, if "waited" */
    uint32_t                     wait_held;    /* answers in link->held */

    ngx_event_t                  timer;        /* set while anything is
                                                  awaited: a worker that shuts
                                                  down waits for timers */

    mst_reply_tokens_t          *list;         /* of /tokenize, in "out" */
    mst_reply_t                  reply;
    mst_buf_t                    out;          /* gathered, not yet sent */
    mst_buf_t                    spare;        /* memory of the busy buffer */
    ngx_chain_t                 *free;
    ngx_chain_t                 *busy;

    mst_api_error_t              error;        /* status 0: none */
    const char                  *shed;         /* $mistral_shed_reason */
    ngx_uint_t                   retry_after;  /* seconds; 0 = as usual */
    const char                  *aborted;      /* "error", "abort" */
    ngx_str_t                    fallback;     /* $mistral_fallback_reason */
    const char                  *phase;        /* in which its client left */
    void                       (*unwound)(ngx_http_mistral_ctx_t *ctx);

    uint64_t                     beyond;       /* tokens sampled past the end
                                                  of an answer */
    uint64_t                     gathered;     /* tokens in chunks so far */
    uint64_t                     sending;      /* of them passed to filters */
    uint64_t                     delivered;    /* of them taken */

    ngx_msec_t                   start_by;     /* refused if not admitted */
    ngx_msec_t                   heard_ms;     /* last record */
    ngx_msec_t                   token_ms;     /* last token, or ADMIT */
    ngx_msec_t                   sent_ms;      /* last bytes, or ADMIT */
    ngx_msec_t                   start_ms;     /* as start_ns */

    uint64_t                     start_ns;     /* the handler was entered */
    uint64_t                     first_ns;     /* first token */

    unsigned                     entered:1;    /* by the content handler */
    unsigned                     parsed:1;     /* body, or error, or no
                                                  memory, or not yet */
    unsigned                     read:1;       /* the JSON is */
    unsigned                     turning:1;    /* in the queue */
    unsigned                     handing:1;    /* in the other queue */
    unsigned                     waited:1;     /* was held, or is */
    unsigned                     watched:1;    /* client's end is noticed */
    unsigned                     admitted:1;
    unsigned                     header_sent:1;
    unsigned                     last:1;       /* all of it is in "out" */
    unsigned                     closing:1;    /* the error event is */
    unsigned                     paused:1;     /* since the client reads too
                                                  slowly */
    unsigned                     gone:1;       /* the client is, which does
                                                  not matter */
    unsigned                     fault:1;      /* ctx->error is the engine's:
                                                  it died, hung, broke off */
    unsigned                     unwinding:1;  /* its calls are cancelled, and
                                                  their DONE is awaited */
    unsigned                     left:1;       /* its client did meanwhile */
    unsigned                     closed:1;
    unsigned                     limited:1;    /* error is a limit's, with its
                                                  own Retry-After or none */
    unsigned                     counted:1;    /* came to the policies' step */
    unsigned                     settled:1;    /* left it */
};


/*
 * attempt.c.  begin: the model is chosen, from here on for each one that is
 * tried.  redo: the same request to another model, from the prompt on; nothing
 * was sent of an answer.  The context may be gone after either.
 */
void ngx_http_mistral_begin(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_redo(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);

/* NGX_OK: the engine is ready, or not needed; NGX_AGAIN: it is not, and the
   request may wait for it; NGX_DECLINED: ctx->error, which look does not
   log.  look_engine asks no policy, and ctx->error is set for NGX_AGAIN, too */
ngx_int_t ngx_http_mistral_check_state(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);
ngx_int_t ngx_http_mistral_look(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);
ngx_int_t ngx_http_mistral_look_engine(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);
void ngx_http_mistral_log_state(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_forget_error(ngx_http_mistral_ctx_t *ctx);

/* request.c */

/* the steps before the content handler's own: mistral_preread takes them
   earlier */
ngx_http_mistral_ctx_t *ngx_http_mistral_create_ctx(ngx_http_request_t *r,
    mst_api_t api);

/* n is small; nobody can guess them */
ngx_int_t ngx_http_mistral_random(u_char *p, size_t n, ngx_log_t *log);

ngx_int_t ngx_http_mistral_check_type(ngx_http_request_t *r,
    mst_api_error_t *e);
ngx_int_t ngx_http_mistral_read_body(ngx_http_request_t *r,
    ngx_http_client_body_handler_pt handler);

/* the first header of the client with this name in lower case, or NULL */
ngx_table_elt_t *ngx_http_mistral_header_in(ngx_http_request_t *r,
    const char *name);

/* no status is sent by it: calls, timer and encoder end */
void ngx_http_mistral_release(ngx_http_mistral_ctx_t *ctx);

/* the context, after an internal redirect too; NULL: there is none */
ngx_http_mistral_ctx_t *ngx_http_mistral_get_ctx(ngx_http_request_t *r);

/* or that of the request which this subrequest is a part of */
ngx_http_mistral_ctx_t *ngx_http_mistral_outer_ctx(ngx_http_request_t *r);

/* the client left, or gave up reading: now, in this phase */
void ngx_http_mistral_mark_aborted(ngx_http_mistral_ctx_t *ctx);

/* the request is closed, nothing of it changes any more */
void ngx_http_mistral_closed(ngx_http_mistral_ctx_t *ctx);

/*
 * unwind.c: cancels what is in flight and calls the handler when the engine
 * has said what it cost, from the event loop.  NGX_DECLINED: nothing is in
 * flight, the handler will not be called.
 */
ngx_int_t ngx_http_mistral_unwind(ngx_http_mistral_ctx_t *ctx,
    void (*handler)(ngx_http_mistral_ctx_t *ctx));
ngx_int_t ngx_http_mistral_leave(ngx_http_mistral_ctx_t *ctx);

/* metrics.c: the request is closed, its context final */
void ngx_http_mistral_metrics_end(ngx_http_mistral_ctx_t *ctx);

/* tokens that the engine sampled and no client got; until it is closed: not
   yet */
uint64_t ngx_http_mistral_wasted(ngx_http_mistral_ctx_t *ctx);

/* choice.c: MST_OK or MST_ERROR (memory, or ctx->error says why) */
int ngx_http_mistral_tokens(ngx_http_mistral_choice_t *choice,
    const mst_rec_tokens_t *rec);
int ngx_http_mistral_end_choice(ngx_http_mistral_choice_t *choice,
    const char *reason);

/* a piece of its text, which a stop string may end: choice->stopped */
int ngx_http_mistral_say(ngx_http_mistral_choice_t *choice, const char *p,
    size_t n);

/* all text that waits, as chunks of a stream */
int ngx_http_mistral_chunks(ngx_http_mistral_ctx_t *ctx);

/* bytes that a stream holds for its client */
size_t ngx_http_mistral_pending(ngx_http_mistral_ctx_t *ctx);

/* of all choices together, before their end what is known so far; of one,
   when its DONE has come */
void ngx_http_mistral_usage(ngx_http_mistral_ctx_t *ctx, mst_usage_t *u);
void ngx_http_mistral_take_usage(ngx_http_mistral_choice_t *choice,
    const mst_rec_done_t *rec);

/* body.c: the handler is called at once, or in a turn; the context may be gone
   after it */
void ngx_http_mistral_parse(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_parsed_pt handler);
void ngx_http_mistral_body_fini(ngx_http_mistral_ctx_t *ctx);

/* turn.c: the handler is called once, in a turn of its own */
void ngx_http_mistral_take_turn(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_turn_pt handler);

/* submit.c; start: with a queue place, an engine that is ready; the context
   may be gone after both */
void ngx_http_mistral_submit(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_start(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_rearm(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_timeout(ngx_event_t *ev);

/* prompt.c */
void ngx_http_mistral_prompt(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_detokenize(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_sources_fini(ngx_http_mistral_ctx_t *ctx);

/* appends what ids spell, control tokens too; MST_OK or MST_ERROR */
int ngx_http_mistral_spell(ngx_http_mistral_ctx_t *ctx, const uint32_t *ids,
    size_t n, mst_buf_t *text);

/* response.c */
ngx_int_t ngx_http_mistral_choices_init(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_choices_fini(ngx_http_mistral_ctx_t *ctx);

/* output.c */

/* of all tokens sampled, how many are in what the client's socket took until
   now */
uint64_t ngx_http_mistral_delivered(ngx_http_mistral_ctx_t *ctx);

ngx_int_t ngx_http_mistral_watch(ngx_http_mistral_ctx_t *ctx);

/* these may finalize the request: the context may be gone afterwards */
void ngx_http_mistral_advance(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_finish(ngx_http_mistral_ctx_t *ctx, ngx_int_t rc);

/*
 * error.c.  A status that an error_page of the location takes over is
 * returned as it is, before anything was sent; else the OpenAI body is.  For
 * the content handler to return, or for ngx_http_finalize_request().
 */
ngx_int_t ngx_http_mistral_refuse(ngx_http_request_t *r,
    const mst_api_error_t *e, const char *shed);

/* refuses ctx->error, whenever it comes, and finalizes the request: the
   context may be gone afterwards */
void ngx_http_mistral_fail(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_fail_internal(ngx_http_mistral_ctx_t *ctx);

/* 503 in "e" for a state other than READY; returns the shed reason */
const char *ngx_http_mistral_unavailable(ngx_http_mistral_state_e state,
    mst_api_error_t *e);

/* takes the memory of "body" over and sends it all */
ngx_int_t ngx_http_mistral_send_json(ngx_http_request_t *r,
    ngx_uint_t status, mst_buf_t *body);
ngx_int_t ngx_http_mistral_send_body(ngx_http_request_t *r,
    ngx_uint_t status, ngx_str_t *type, mst_buf_t *body);
ngx_int_t ngx_http_mistral_add_header(ngx_http_request_t *r,
    const char *name, ngx_str_t *value);

/* allow: "POST, OPTIONS" or "GET, HEAD", with OPTIONS or without */
ngx_uint_t ngx_http_mistral_method_allowed(ngx_http_request_t *r,
    const char *allow);
ngx_int_t ngx_http_mistral_refuse_method(ngx_http_request_t *r,
    const char *allow);

/* 204 with Allow */
ngx_int_t ngx_http_mistral_send_options(ngx_http_request_t *r,
    const char *allow);

/* text of a client or an engine for a log line: no control characters */
void ngx_http_mistral_log_text(char *dst, size_t size, const char *src);

/* special.c: what nginx's own refusal with this status says */
void ngx_http_mistral_special_error(ngx_uint_t status, mst_api_error_t *e);

/* status.c */
const char *ngx_http_mistral_state_name(ngx_http_mistral_state_e state);

ngx_int_t ngx_http_mistral_models(ngx_http_request_t *r, mst_api_t api,
    mst_str_t *id);


#endif /* NGX_HTTP_MISTRAL_REQUEST_H */

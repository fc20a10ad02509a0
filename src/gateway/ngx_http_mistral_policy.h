
/*
 * Policies: who may ask, how much, of which model.  Each is a module record
 * of its own (directives, configuration, phases) in a file of its own and
 * one line in the table of policy.c; this is how it takes part in a request
 * without the request's files knowing it.
 *
 * Each hook may be NULL.  The hooks of one step run in the order of the
 * table, and the first that does not return NGX_OK ends the step and the
 * request: NGX_DECLINED says that ctx->error (and ctx->shed) is set,
 * NGX_ERROR that memory is short.  Workers only.
 */

#ifndef NGX_HTTP_MISTRAL_POLICY_H
#define NGX_HTTP_MISTRAL_POLICY_H

#include "gateway/ngx_http_mistral_request.h"


typedef struct {
    /* may this model be asked now?  At each look at its engine, the first
       one before the body is read */
    ngx_int_t  (*state)(ngx_http_mistral_ctx_t *ctx,
                        ngx_http_mistral_model_t *m);

    /* it may not (ctx->error), and the body was not read yet; 1: read it,
       another model may answer */
    ngx_uint_t (*elsewhere)(ngx_http_mistral_ctx_t *ctx);

    /* the body is parsed (ctx->body) and mistral_pass has chosen ctx->model;
       a hook may choose another one */
    ngx_int_t  (*resolved)(ngx_http_mistral_ctx_t *ctx);

    /* long work on the body, before it becomes ids, beside other requests':
       NGX_AGAIN when the monotonic time end_ns has come, and it goes on
       later; NGX_OK when all is done, once more then is nothing */
    ngx_int_t  (*examine)(ngx_http_mistral_ctx_t *ctx, uint64_t end_ns);

    /* the prompts' ids are counted (ctx->n_ids) and fit, the choices exist;
       nothing is reserved in the engine yet */
    ngx_int_t  (*counted)(ngx_http_mistral_ctx_t *ctx);

    /* the record that will be sent for one choice */
    void       (*submit)(ngx_http_mistral_ctx_t *ctx,
                         ngx_http_mistral_choice_t *choice,
                         mst_rec_submit_t *s);

    /*
     * Times.  due: in how many milliseconds from now tick shall be called;
     * it may be called earlier, and then asks again.  While the request is
     * in flight.
     */
    ngx_msec_t (*due)(ngx_http_mistral_ctx_t *ctx);
    ngx_int_t  (*tick)(ngx_http_mistral_ctx_t *ctx);
    /* n more tokens of an answer have come: how many of them it may have; with
       fewer it ends there, as at its max_tokens */
    uint32_t   (*tokens)(ngx_http_mistral_choice_t *choice, uint32_t n);

    /* once a turn in which records came, before anything of it is sent */
    ngx_int_t  (*progress)(ngx_http_mistral_ctx_t *ctx);

    /* before the header of an answer or of a refusal: more headers */
    ngx_int_t  (*headers)(ngx_http_mistral_ctx_t *ctx);

    /*
     * ctx->error is about to be the answer.  NGX_OK: it is not, the hook has
     * called ngx_http_mistral_redo(), and the context may be gone; then what
     * was counted is settled, for nothing, and "counted" comes again.
     * NGX_DECLINED: it is.
     */
    ngx_int_t  (*refused)(ngx_http_mistral_ctx_t *ctx);

    /*
     * Once for each time that a request came to "counted", whatever became
     * of it: ngx_http_mistral_usage() is as exact as it will be.  Before the
     * last byte is passed to the filters, or when the request is closed.
     */
    void       (*settle)(ngx_http_mistral_ctx_t *ctx);
} ngx_http_mistral_policy_t;


#define NGX_HTTP_MISTRAL_NEVER  ((ngx_msec_t) 0x3fffffff)


extern const ngx_http_mistral_policy_t  ngx_http_mistral_pressure_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_stream_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_deny_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_route_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_canary_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_breaker_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_fallback_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_task_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_cancel_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_limit_policy;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_tenant_policy;


ngx_int_t ngx_http_mistral_policy_state(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m);
ngx_uint_t ngx_http_mistral_policy_elsewhere(ngx_http_mistral_ctx_t *ctx);
ngx_int_t ngx_http_mistral_policy_resolved(ngx_http_mistral_ctx_t *ctx);
ngx_int_t ngx_http_mistral_policy_examine(ngx_http_mistral_ctx_t *ctx,
    uint64_t end_ns);
ngx_int_t ngx_http_mistral_policy_counted(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_policy_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s);
ngx_msec_t ngx_http_mistral_policy_due(ngx_http_mistral_ctx_t *ctx);
ngx_int_t ngx_http_mistral_policy_tick(ngx_http_mistral_ctx_t *ctx);
uint32_t ngx_http_mistral_policy_tokens(ngx_http_mistral_choice_t *choice,
    uint32_t n);
ngx_int_t ngx_http_mistral_policy_progress(ngx_http_mistral_ctx_t *ctx);
ngx_int_t ngx_http_mistral_policy_headers(ngx_http_mistral_ctx_t *ctx);
ngx_int_t ngx_http_mistral_policy_refused(ngx_http_mistral_ctx_t *ctx);
void ngx_http_mistral_policy_settle(ngx_http_mistral_ctx_t *ctx);


#endif /* NGX_HTTP_MISTRAL_POLICY_H */

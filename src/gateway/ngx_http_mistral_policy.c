
/*
 * The table of policies, in the order in which a request meets them, and the
 * steps at which it does.  Workers only.
 */

#include "gateway/ngx_http_mistral_policy.h"


static const ngx_http_mistral_policy_t  *ngx_http_mistral_policies[] = {
    &ngx_http_mistral_cancel_policy,
    &ngx_http_mistral_deny_policy,
    &ngx_http_mistral_route_policy,
    &ngx_http_mistral_canary_policy,
    &ngx_http_mistral_task_policy,
    &ngx_http_mistral_tenant_policy,
    &ngx_http_mistral_limit_policy,
    &ngx_http_mistral_pressure_policy,
    &ngx_http_mistral_stream_policy,

    /* behind all that may refuse what is counted */
    &ngx_http_mistral_breaker_policy,
    &ngx_http_mistral_fallback_policy,
    NULL
};


ngx_int_t
ngx_http_mistral_policy_state(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_model_t *m)
{
    ngx_int_t                          rc;
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        rc = (*p)->state ? (*p)->state(ctx, m) : NGX_OK;

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


ngx_uint_t
ngx_http_mistral_policy_elsewhere(ngx_http_mistral_ctx_t *ctx)
{
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        if ((*p)->elsewhere && (*p)->elsewhere(ctx)) {
            return 1;
        }
    }

    return 0;
}


ngx_int_t
ngx_http_mistral_policy_resolved(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                          rc;
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        rc = (*p)->resolved ? (*p)->resolved(ctx) : NGX_OK;

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_policy_examine(ngx_http_mistral_ctx_t *ctx, uint64_t end_ns)
{
    ngx_int_t                          rc;
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        rc = (*p)->examine ? (*p)->examine(ctx, end_ns) : NGX_OK;

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_policy_counted(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                          rc;
    const ngx_http_mistral_policy_t  **p;

    ctx->counted = 1;

    for (p = ngx_http_mistral_policies; *p; p++) {
        rc = (*p)->counted ? (*p)->counted(ctx) : NGX_OK;

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


void
ngx_http_mistral_policy_submit(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_choice_t *choice, mst_rec_submit_t *s)
{
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        if ((*p)->submit) {
            (*p)->submit(ctx, choice, s);
        }
    }
}


ngx_msec_t
ngx_http_mistral_policy_due(ngx_http_mistral_ctx_t *ctx)
{
    ngx_msec_t                         due, next;
    const ngx_http_mistral_policy_t  **p;

    due = NGX_HTTP_MISTRAL_NEVER;

    for (p = ngx_http_mistral_policies; *p; p++) {
        if ((*p)->due) {
            next = (*p)->due(ctx);
            due = ngx_min(due, next);
        }
    }

    return due;
}


ngx_int_t
ngx_http_mistral_policy_tick(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                          rc;
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        rc = (*p)->tick ? (*p)->tick(ctx) : NGX_OK;

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


uint32_t
ngx_http_mistral_policy_tokens(ngx_http_mistral_choice_t *choice, uint32_t n)
{
    uint32_t                           paid, m;
    const ngx_http_mistral_policy_t  **p;

    paid = n;

    for (p = ngx_http_mistral_policies; *p; p++) {
        if ((*p)->tokens) {
            m = (*p)->tokens(choice, n);
            paid = ngx_min(paid, m);
        }
    }

    return paid;
}


ngx_int_t
ngx_http_mistral_policy_progress(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                          rc;
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        rc = (*p)->progress ? (*p)->progress(ctx) : NGX_OK;

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_policy_headers(ngx_http_mistral_ctx_t *ctx)
{
    ngx_int_t                          rc;
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        rc = (*p)->headers ? (*p)->headers(ctx) : NGX_OK;

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_policy_refused(ngx_http_mistral_ctx_t *ctx)
{
    const ngx_http_mistral_policy_t  **p;

    for (p = ngx_http_mistral_policies; *p; p++) {
        if ((*p)->refused && (*p)->refused(ctx) == NGX_OK) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


void
ngx_http_mistral_policy_settle(ngx_http_mistral_ctx_t *ctx)
{
    const ngx_http_mistral_policy_t  **p;

    if (!ctx->counted || ctx->settled) {
        return;
    }

    ctx->settled = 1;

    for (p = ngx_http_mistral_policies; *p; p++) {
        if ((*p)->settle) {
            (*p)->settle(ctx);
        }
    }
}

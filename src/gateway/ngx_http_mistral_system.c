
/*
 * System prompts of the configuration: see ngx_http_mistral_system.h.
 *
 * What comes of a variable may be anybody's bytes: it is made UTF-8, and it
 * is text like a client's, which never yields control tokens.
 */

#include "gateway/ngx_http_mistral_system.h"

#include "text/mst_utf8.h"


#define NGX_HTTP_MISTRAL_SYSTEM_SIZE  (1024 * 1024)    /* bytes of a file */
#define NGX_HTTP_MISTRAL_SYSTEM_HEAD  64       /* bytes of a template before
                                                  the system message */


static ngx_int_t ngx_http_mistral_system_how(ngx_str_t *word,
    mst_system_how_t *how);
static ngx_int_t ngx_http_mistral_system_file(ngx_conf_t *cf, ngx_str_t *path,
    ngx_str_t *text);
static ngx_int_t ngx_http_mistral_system_clean(ngx_http_request_t *r,
    ngx_str_t *text);


ngx_http_mistral_system_t *
ngx_http_mistral_system_parse(ngx_conf_t *cf, ngx_str_t *words, ngx_uint_t n)
{
    ngx_str_t                         *text, path;
    ngx_http_mistral_system_t         *system;
    ngx_http_compile_complex_value_t   ccv;

    system = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_system_t));
    if (system == NULL) {
        return NULL;
    }

    if (n > 1 && ngx_http_mistral_system_how(&words[1], &system->how)
                 != NGX_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\", it must be \"prepend\", "
                           "\"append\" or \"replace\"", &words[1]);
        return NULL;
    }

    text = &system->value.value;

    if (ngx_strncmp(words[0].data, "file:", 5) == 0) {
        path.data = words[0].data + 5;
        path.len = words[0].len - 5;

        return ngx_http_mistral_system_file(cf, &path, text) == NGX_OK
               ? system : NULL;
    }

    if (words[0].len == 0
        || mst_utf8_check(words[0].data, words[0].len) != words[0].len)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "a system prompt is %s, it must be UTF-8 text",
                           words[0].len ? "no UTF-8" : "empty");
        return NULL;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &words[0];
    ccv.complex_value = &system->value;

    return ngx_http_compile_complex_value(&ccv) == NGX_OK ? system : NULL;
}


static ngx_int_t
ngx_http_mistral_system_how(ngx_str_t *word, mst_system_how_t *how)
{
    if (ngx_strcmp(word->data, "prepend") == 0) {
        *how = MST_SYSTEM_PREPEND;

    } else if (ngx_strcmp(word->data, "append") == 0) {
        *how = MST_SYSTEM_APPEND;

    } else if (ngx_strcmp(word->data, "replace") == 0) {
        *how = MST_SYSTEM_REPLACE;

    } else {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* relative to the configuration's directory */

static ngx_int_t
ngx_http_mistral_system_file(ngx_conf_t *cf, ngx_str_t *path, ngx_str_t *text)
{
    size_t  size;

    if (path->len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "no path behind \"file:\"");
        return NGX_ERROR;
    }

    if (ngx_http_mistral_file_read(cf, path, NGX_HTTP_MISTRAL_SYSTEM_SIZE,
                                   text)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    size = text->len;

    /* the end of the last line is the file's, not the text's */

    while (size && (text->data[size - 1] == LF || text->data[size - 1] == CR))
    {
        size--;
    }

    text->len = size;

    if (size == 0 || mst_utf8_check(text->data, size) != size) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" is %s, it must be UTF-8 text", path,
                           size ? "no UTF-8" : "empty");
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mistral_system_eval(ngx_http_request_t *r,
    ngx_http_mistral_system_t *system, mst_system_t *s)
{
    ngx_str_t  text;

    if (ngx_http_complex_value(r, &system->value, &text) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_http_mistral_system_static(system)
        && ngx_http_mistral_system_clean(r, &text) != NGX_OK)
    {
        return NGX_ERROR;
    }

    s->text = mst_str((char *) text.data, text.len);
    s->how = system->how;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mistral_system_clean(ngx_http_request_t *r, ngx_str_t *text)
{
    ngx_int_t   rc;
    mst_buf_t   out;
    mst_utf8_t  utf8;

    if (mst_utf8_check(text->data, text->len) == text->len) {
        return NGX_OK;
    }

    mst_utf8_init(&utf8);
    mst_buf_init(&out);

    rc = NGX_ERROR;

    if (mst_utf8_push(&utf8, text->data, text->len, &out) == MST_OK
        && mst_utf8_finish(&utf8, &out) == MST_OK)
    {
        text->len = out.len;
        text->data = ngx_pnalloc(r->pool, out.len);

        if (text->data) {
            ngx_memcpy(text->data, out.data, out.len);
            rc = NGX_OK;
        }
    }

    mst_buf_fini(&out);

    return rc;
}


/* the ids whose text ends there; a template may show the message late */

uint32_t
ngx_http_mistral_system_ids(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_source_t *source, size_t bytes)
{
    size_t            len, end, i;
    u_char           *p;
    mst_prompt_t     *prompt;
    mst_tokenizer_t  *t;

    t = ctx->model->tokenizer;
    prompt = &source->prompt;

    len = ngx_min(prompt->text.len, bytes + NGX_HTTP_MISTRAL_SYSTEM_HEAD);
    p = memmem(prompt->text.data, len, ctx->body->system, bytes);

    if (p == NULL) {
        return 0;
    }

    end = p - (u_char *) prompt->text.data + bytes;
    len = 0;

    for (i = 0; i < source->n_ids; i++) {
        len += mst_tokenizer_bytes(t, source->ids[i]).len;

        if (len > end) {
            break;
        }
    }

    return (uint32_t) i;
}

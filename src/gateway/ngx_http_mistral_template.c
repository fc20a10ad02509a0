
/*
 * "chat_template" of a mistral_model block: another template than the one
 * that the model's files carry.  Master, configuration phase.
 *
 * The text is read with the directive and becomes a template with the
 * vocabulary, when the model is loaded.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include "text/mst_fim.h"
#include "text/mst_jinja.h"


static ngx_int_t ngx_http_mistral_template_read(ngx_conf_t *cf, ngx_fd_t fd,
    ngx_str_t *path, ngx_str_t *text);


/* the name of one of Mistral's formats, or a file; relative to the
   configuration's directory, as files that an operator writes are */

ngx_int_t
ngx_http_mistral_template_set(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    ngx_str_t *value)
{
    ngx_fd_t   fd;
    ngx_int_t  rc;
    ngx_str_t  path;

    m->chat_name = *value;

    if (value->len > 9 && ngx_strncmp(value->data, "mistral-v", 9) == 0
        && value->data[9] >= '0' && value->data[9] <= '9')
    {
        m->chat = *value;
        return NGX_OK;
    }

    path = *value;

    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    fd = ngx_open_file(path.data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " \"%V\" failed", &path);
        return NGX_ERROR;
    }

    rc = ngx_http_mistral_template_read(cf, fd, &path, &m->chat);

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", &path);
    }

    return rc;
}


static ngx_int_t
ngx_http_mistral_template_read(ngx_conf_t *cf, ngx_fd_t fd, ngx_str_t *path,
    ngx_str_t *text)
{
    size_t           size;
    ssize_t          n;
    ngx_file_info_t  fi;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_fd_info_n " \"%V\" failed", path);
        return NGX_ERROR;
    }

    if (!ngx_is_file(&fi) || ngx_file_size(&fi) > MST_JINJA_SOURCE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must be a file of at most %d bytes",
                           path, MST_JINJA_SOURCE);
        return NGX_ERROR;
    }

    size = (size_t) ngx_file_size(&fi);

    text->len = size;
    text->data = ngx_pnalloc(cf->pool, size + 1);
    if (text->data == NULL) {
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, text->data, size);

    if (n != (ssize_t) size) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, n == -1 ? ngx_errno : 0,
                           ngx_read_fd_n " \"%V\" failed", path);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* NGX_DECLINED: the directive is not there */

ngx_int_t
ngx_http_mistral_template_create(ngx_http_mistral_model_t *m,
    const mst_tokenizer_t *tokenizer, mst_err_t *err)
{
    char  name[256];

    if (m->chat.data == NULL) {
        return NGX_DECLINED;
    }

    (void) ngx_snprintf((u_char *) name, sizeof(name), "chat_template "
                        "\"%*s\"%Z", ngx_min(m->chat_name.len, 200),
                        m->chat_name.data);

    m->template = mst_template_create_text(mst_str((char *) m->chat.data,
                                                   m->chat.len),
                                           tokenizer, name, err);

    return m->template ? NGX_OK : NGX_ERROR;
}


/* what vocabulary and template make possible */

void
ngx_http_mistral_template_marks(ngx_http_mistral_model_t *m)
{
    m->marks.tags = m->template
                    && mst_template_mentions(m->template, MST_TOOLMARK_TAG);

    mst_toolmark_find(&m->marks, m->tokenizer, m->marks.tags);

    m->fim = mst_fim_can(m->tokenizer);
    m->tools = m->template && mst_template_shows_tools(m->template)
               && mst_toolmark_can(&m->marks);
}

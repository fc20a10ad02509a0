
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


/* the name of one of Mistral's formats, or a file; relative to the
   configuration's directory, as files that an operator writes are */

ngx_int_t
ngx_http_mistral_template_set(ngx_conf_t *cf, ngx_http_mistral_model_t *m,
    ngx_str_t *value)
{
    ngx_str_t  path;

    m->chat_name = *value;

    if (value->len > 9 && ngx_strncmp(value->data, "mistral-v", 9) == 0
        && value->data[9] >= '0' && value->data[9] <= '9')
    {
        m->chat = *value;
        return NGX_OK;
    }

    path = *value;

    return ngx_http_mistral_file_read(cf, &path, MST_JINJA_SOURCE, &m->chat);
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
    mst_template_marks(m->template, m->tokenizer, &m->marks);

    m->fim = mst_fim_can(m->tokenizer);
    m->tools = m->template && mst_template_shows_tools(m->template)
               && mst_toolmark_can(&m->marks);
}

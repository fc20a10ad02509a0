
/*
 * The marks of calls: see mst_toolmark.h.
 */

#include <string.h>

#include "base/mst_buf.h"
#include "base/mst_hash.h"
#include "text/mst_toolmark.h"


/* "name": as a template spells it, in quotes that it may have to escape */

static int
mst_toolmark_has_key(const char *text, const char *name)
{
    size_t       n;
    const char  *p;

    n = strlen(name);

    for (p = strstr(text, name); p; p = strstr(p + n, name)) {

        if (p > text && p[-1] == '"'
            && (strncmp(p + n, "\":", 2) == 0
                || strncmp(p + n, "\\\":", 3) == 0))
        {
            return 1;
        }
    }

    return 0;
}


mst_toolmark_form_t
mst_toolmark_form(const char *text)
{
    if (text == NULL || strstr(text, "[TOOL_CALLS]")) {
        return MST_TOOLMARK_BRACKETS;
    }

    if (strstr(text, MST_TOOLMARK_TAG)) {
        return MST_TOOLMARK_TAGS;
    }

    return strstr(text, MST_TOOLMARK_PYTHON)
           || (mst_toolmark_has_key(text, "name")
               && mst_toolmark_has_key(text, "parameters"))
           ? MST_TOOLMARK_BARE : MST_TOOLMARK_BRACKETS;
}


void
mst_toolmark_find(mst_toolmark_t *m, const mst_tokenizer_t *t,
    mst_toolmark_form_t form)
{
    m->calls = mst_tokenizer_control(t, "[TOOL_CALLS]");
    m->id = mst_tokenizer_control(t, "[CALL_ID]");
    m->arguments = mst_tokenizer_control(t, "[ARGS]");
    m->think = mst_tokenizer_control(t, "[THINK]");
    m->think_end = mst_tokenizer_control(t, "[/THINK]");
    m->tag = -1;
    m->form = form;

    /* with [THINK] came the versions whose calls have none */

    m->ids = m->id >= 0 && m->think < 0;

    if (form != MST_TOOLMARK_BRACKETS) {
        m->calls = -1;
        m->id = -1;
        m->arguments = -1;
        m->ids = 0;
        m->tag = mst_tokenizer_control(t, form == MST_TOOLMARK_TAGS
                                          ? MST_TOOLMARK_TAG
                                          : MST_TOOLMARK_PYTHON);
    }
}


void
mst_toolmark_drop(mst_toolmark_t *m)
{
    m->calls = -1;
    m->tag = -1;
    m->form = MST_TOOLMARK_BRACKETS;
}


const char *
mst_toolmark_name(const mst_toolmark_t *m)
{
    if (!mst_toolmark_can(m)) {
        return "none";
    }

    switch (m->form) {

    case MST_TOOLMARK_TAGS:
        return "<tool_call> tags";

    case MST_TOOLMARK_BARE:
        return "JSON with name and parameters";

    default:
        return m->arguments < 0 ? "[TOOL_CALLS] and a JSON list"
               : m->ids ? "[TOOL_CALLS] name [CALL_ID] id [ARGS] JSON"
                        : "[TOOL_CALLS] name [ARGS] JSON";
    }
}


void
mst_toolmark_id(uint64_t seed, uint32_t n, char id[MST_TOOLMARK_ID + 1])
{
    int       i;
    uint64_t  h;

    static const char  digits[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    h = mst_hash_mix(seed + (n + 1) * 0x9e3779b97f4a7c15ull);

    for (i = 0; i < MST_TOOLMARK_ID; i++) {
        id[i] = digits[h % 62];
        h /= 62;
    }

    id[MST_TOOLMARK_ID] = '\0';
}


int
mst_toolmark_is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z')
           || (c >= 'a' && c <= 'z');
}


int
mst_toolmark_is_name(mst_str_t name)
{
    size_t  i;

    for (i = 0; i < name.len; i++) {

        if (!mst_toolmark_is_alnum(name.data[i]) && name.data[i] != '_'
            && name.data[i] != '-')
        {
            return 0;
        }
    }

    return name.len >= 1 && name.len <= MST_TOOLMARK_NAME;
}


static int
mst_toolmark_put(mst_prompt_t *prompt, mst_str_t s)
{
    mst_prompt_part(prompt, 0, 0);

    return mst_prompt_text(prompt, s.data, s.len);
}


/* {"name": "f", "arguments": and what stands before it */

static int
mst_toolmark_force_object(const mst_toolmark_t *m, mst_str_t name,
    mst_prompt_t *prompt)
{
    int        rc;
    mst_buf_t  text;

    mst_buf_init(&text);

    if (m->form == MST_TOOLMARK_TAGS && m->tag < 0) {
        (void) mst_buf_text(&text, MST_TOOLMARK_TAG);
    }

    if (m->form == MST_TOOLMARK_TAGS) {
        (void) mst_buf_char(&text, '\n');
    }

    if (m->form == MST_TOOLMARK_BRACKETS && name.len) {
        (void) mst_buf_char(&text, '[');
    }

    if (name.len || m->form == MST_TOOLMARK_BARE) {
        (void) mst_buf_text(&text, "{\"name\": \"");
    }

    if (name.len) {
        (void) mst_buf_str(&text, name);
        (void) mst_buf_text(&text, m->form == MST_TOOLMARK_BARE
                                   ? "\", \"parameters\":"
                                   : "\", \"arguments\":");
    }

    rc = text.failed ? MST_ERROR
         : mst_toolmark_put(prompt, mst_str(text.data, text.len));

    mst_buf_fini(&text);

    return rc;
}


int
mst_toolmark_force(const mst_toolmark_t *m, mst_str_t name,
    const char *id, mst_prompt_t *prompt)
{
    int64_t  mark;

    mark = m->form == MST_TOOLMARK_BRACKETS ? m->calls
           : m->form == MST_TOOLMARK_TAGS ? m->tag : -1;

    if (!mst_toolmark_can(m)) {
        return MST_DECLINED;
    }

    if (mark >= 0 && mst_prompt_control(prompt, (uint32_t) mark) != MST_OK) {
        return MST_ERROR;
    }

    if (m->form != MST_TOOLMARK_BRACKETS || m->arguments < 0) {
        return mst_toolmark_force_object(m, name, prompt);
    }

    if (name.len == 0) {
        return MST_OK;
    }

    if (mst_toolmark_put(prompt, name) != MST_OK) {
        return MST_ERROR;
    }

    if (m->ids
        && (mst_prompt_control(prompt, (uint32_t) m->id) != MST_OK
            || mst_toolmark_put(prompt, mst_str(id, strlen(id))) != MST_OK))
    {
        return MST_ERROR;
    }

    return mst_prompt_control(prompt, (uint32_t) m->arguments);
}

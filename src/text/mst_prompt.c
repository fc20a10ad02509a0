
/*
 * Spans of a prompt: see mst_prompt.h.
 */

#include <stdint.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_prompt.h"


void
mst_prompt_init(mst_prompt_t *p)
{
    mst_buf_init(&p->text);
    p->spans = NULL;
    p->n = 0;
    p->size = 0;
    p->apart = 0;
    p->glued = 0;
    p->skip = 0;
}


void
mst_prompt_fini(mst_prompt_t *p)
{
    mst_buf_fini(&p->text);
    mst_free(p->spans);
    mst_prompt_init(p);
}


/* room for one more span */

static int
mst_prompt_reserve(mst_prompt_t *p)
{
    size_t       size;
    mst_span_t  *spans;

    if (p->n < p->size) {
        return MST_OK;
    }

    size = p->size ? p->size * 2 : 16;
    spans = mst_realloc(p->spans, size, sizeof(mst_span_t));

    if (spans == NULL) {
        return MST_ERROR;
    }

    p->spans = spans;
    p->size = size;

    return MST_OK;
}


/* the last bytes of the text, into the last span or one more */

static void
mst_prompt_span(mst_prompt_t *p, size_t len)
{
    mst_span_t  *s;

    if (p->n && p->spans[p->n - 1].len && !p->apart) {
        p->spans[p->n - 1].len += len;
        return;
    }

    s = &p->spans[p->n++];
    s->off = p->text.len - len;
    s->len = len;
    s->id = 0;
    s->glued = (uint32_t) p->glued;
    s->skip = p->skip;

    p->apart = 0;
    p->glued = 0;
    p->skip = 0;
}


int
mst_prompt_text(mst_prompt_t *p, const char *data, size_t len)
{
    if (len == 0) {
        return MST_OK;
    }

    if (mst_prompt_reserve(p) != MST_OK
        || mst_buf_append(&p->text, data, len) != MST_OK)
    {
        return MST_ERROR;
    }

    mst_prompt_span(p, len);

    return MST_OK;
}


void
mst_prompt_take(mst_prompt_t *p, mst_buf_t *text)
{
    mst_prompt_fini(p);

    p->text = *text;
    mst_buf_reset(&p->text);
    mst_buf_init(text);
}


int
mst_prompt_keep(mst_prompt_t *p, size_t off, size_t len)
{
    if (len == 0) {
        return MST_OK;
    }

    if (mst_prompt_reserve(p) != MST_OK) {
        return MST_ERROR;
    }

    if (off != p->text.len) {
        memmove(p->text.data + p->text.len, p->text.data + off, len);
    }

    p->text.len += len;
    mst_prompt_span(p, len);

    return MST_OK;
}


void
mst_prompt_part(mst_prompt_t *p, int glued, uint32_t skip)
{
    p->apart = 1;
    p->glued = glued;
    p->skip = skip;
}


int
mst_prompt_control(mst_prompt_t *p, uint32_t id)
{
    mst_span_t  *s;

    if (mst_prompt_reserve(p) != MST_OK) {
        return MST_ERROR;
    }

    s = &p->spans[p->n++];
    s->off = p->text.len;
    s->len = 0;
    s->id = id;
    s->glued = 0;
    s->skip = 0;

    return MST_OK;
}

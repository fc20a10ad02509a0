
/*
 * What a prompt is before it is token ids: a list of spans.  A text span is
 * encoded as one piece of plain text and never yields control tokens,
 * whatever it spells; a control span is a token id that the template (or a
 * client that sends ids) named.  Neighbouring texts are joined into one
 * span, because the tokenizer's splits cross their border (ChatML's
 * "user\n" and the message are one segment).
 *
 * One thread at a time; belongs to one request.
 */

#ifndef MST_PROMPT_H
#define MST_PROMPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"


typedef struct {
    size_t    off;             /* into text.data */
    size_t    len;             /* bytes; 0 = a control span */
    uint32_t  id;              /* of a control span */
} mst_span_t;


typedef struct {
    mst_buf_t    text;         /* the bytes of all text spans */
    mst_span_t  *spans;        /* owned */
    size_t       n;
    size_t       size;         /* spans allocated */
} mst_prompt_t;


void mst_prompt_init(mst_prompt_t *p);
void mst_prompt_fini(mst_prompt_t *p);

/* MST_OK or MST_ERROR (memory); an empty text adds nothing */
int mst_prompt_text(mst_prompt_t *p, const char *data, size_t len);
int mst_prompt_control(mst_prompt_t *p, uint32_t id);


#endif /* MST_PROMPT_H */

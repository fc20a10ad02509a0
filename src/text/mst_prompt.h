
/*
 * What a prompt is before it is token ids: a list of spans.  A text span is
 * encoded as one piece of plain text and never yields control tokens,
 * whatever it spells; a control span is a token id that the template (or a
 * client that sends ids) named.  Neighbouring texts are joined into one
 * span, because the tokenizer's splits cross their border (ChatML's
 * "user\n" and the message are one segment); mst_prompt_part() begins one
 * that is encoded by itself, as Mistral's own formats want it.
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
    uint32_t  glued;           /* SentencePiece: no space is put before it */
    uint32_t  skip;            /* of its ids, the first that are dropped */
} mst_span_t;


typedef struct {
    mst_buf_t    text;         /* the bytes of all text spans */
    mst_span_t  *spans;        /* owned */
    size_t       n;
    size_t       size;         /* spans allocated */
    int          apart;        /* the next text is a span of its own */
    int          glued;        /* and gets no space */
    uint32_t     skip;         /* and loses so many ids */
} mst_prompt_t;


void mst_prompt_init(mst_prompt_t *p);
void mst_prompt_fini(mst_prompt_t *p);

/* MST_OK or MST_ERROR (memory); an empty text adds nothing */
int mst_prompt_text(mst_prompt_t *p, const char *data, size_t len);
int mst_prompt_control(mst_prompt_t *p, uint32_t id);

/*
 * A long text that exists already is not copied into new memory: the prompt,
 * of which nothing is left, takes over its buffer, and what _keep names of it
 * are the texts.  They come in their order: "off" is never less than where
 * the one before ended, nor than text.len, and nothing else adds a text.
 */
void mst_prompt_take(mst_prompt_t *p, mst_buf_t *text);    /* text: empty */
int mst_prompt_keep(mst_prompt_t *p, size_t off, size_t len);

/* the text that comes next is encoded apart from the one before.  glued: it
   goes on where that ended, without SentencePiece's space; skip: so many of
   its first ids are dropped */
void mst_prompt_part(mst_prompt_t *p, int glued, uint32_t skip);


#endif /* MST_PROMPT_H */

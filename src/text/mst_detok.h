
/*
 * Token ids to text as they stream: never half a code point.
 *
 * Up to three bytes of an unfinished code point are held back; an invalid
 * byte becomes U+FFFD.  SentencePiece's own space at the beginning of a text
 * is left out.  One per answer, plain memory, no clean-up needed.
 */

#ifndef MST_DETOK_H
#define MST_DETOK_H

#include "text/mst_tokenizer.h"
#include "text/mst_utf8.h"


typedef struct {
    const mst_tokenizer_t  *tokenizer;
    mst_utf8_t              utf8;      /* held bytes */
    int                     strip;     /* a space at the beginning */
} mst_detok_t;


void mst_detok_init(mst_detok_t *d, const mst_tokenizer_t *t);

/* the answer goes on with a text that is there: its space is one */
void mst_detok_continue(mst_detok_t *d);

/* appends the text that is complete now; control tokens add nothing */
int mst_detok_push(mst_detok_t *d, uint32_t id, mst_buf_t *out);

/* the end of the answer: what is held becomes U+FFFD */
int mst_detok_finish(mst_detok_t *d, mst_buf_t *out);


#endif /* MST_DETOK_H */

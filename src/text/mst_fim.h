
/*
 * Filling in the middle, as Mistral's code models know it: control tokens,
 * the text behind the gap, and the text before it, which the answer goes on
 * from.  A model can where its vocabulary has the tokens, whatever its chats
 * look like.  Pure functions.
 */

#ifndef MST_FIM_H
#define MST_FIM_H

#include "base/mst_str.h"
#include "text/mst_prompt.h"
#include "text/mst_tokenizer.h"


int mst_fim_can(const mst_tokenizer_t *t);

/* appends the spans; suffix may be empty.  MST_ERROR: memory */
int mst_fim_render(const mst_tokenizer_t *t, mst_str_t prompt,
    mst_str_t suffix, mst_prompt_t *out);


#endif /* MST_FIM_H */

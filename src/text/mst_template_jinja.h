
/*
 * A template that is a program, and the vocabulary that its text is searched
 * for.  Between mst_template.c and mst_jinja.c.
 */

#ifndef MST_TEMPLATE_JINJA_H
#define MST_TEMPLATE_JINJA_H

#include "text/mst_jinja.h"
#include "text/mst_template.h"
#include "text/mst_trie.h"


typedef struct {
    mst_jinja_t            *jinja;
    const mst_vocab_t      *vocab;     /* the tokenizer's */
    mst_trie_t              special;   /* its control tokens */
    mst_str_t               bos;       /* spellings, the tokenizer's; len 0:
                                          it has none */
    mst_str_t               eos;
} mst_template_jinja_t;


/* leaves j fit for _fini whatever it returns; the tokenizer outlives j */
int mst_template_jinja_init(mst_template_jinja_t *j, mst_str_t text,
    const mst_tokenizer_t *t, mst_err_t *err);
void mst_template_jinja_fini(mst_template_jinja_t *j);

int mst_template_jinja_render(const mst_template_jinja_t *j,
    const mst_template_chat_t *c, mst_prompt_t *out, mst_err_t *err);


#endif /* MST_TEMPLATE_JINJA_H */

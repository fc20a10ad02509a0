
/*
 * The words within a template's tags: names, strings, numbers, operators.
 * What the lexer and they share.
 */

#ifndef MST_JINJA_WORD_H
#define MST_JINJA_WORD_H

#include "text/mst_jinja_lex.h"


#define MST_JINJA_WORD_NEST  64        /* brackets in brackets */


typedef struct {
    mst_work_t         *w;
    const char         *p;
    const char         *end;
    const char         *counted;   /* lines up to here are in "line" */
    uint32_t            line;
    int                 line_start;    /* the last tag ended a line */
    mst_jinja_token_t  *tokens;    /* [n] */
    size_t              n;
    size_t              size;
    size_t              nest;      /* brackets that are open */
    char                close[MST_JINJA_WORD_NEST];
} mst_jinja_word_t;


/* the sentence with its line before it; MST_ERROR */
int mst_jinja_word_error(mst_jinja_word_t *l, const char *what);

int mst_jinja_word_add(mst_jinja_word_t *l, mst_jinja_token_type_t type,
    uint32_t op, mst_value_t value);
int mst_jinja_word_add_str(mst_jinja_word_t *l, mst_jinja_token_type_t type,
    const char *data, size_t len);

/* the word at l->p, which is no white space */
int mst_jinja_word(mst_jinja_word_t *l);


#endif /* MST_JINJA_WORD_H */

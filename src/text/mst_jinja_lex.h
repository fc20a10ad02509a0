
/*
 * A template's text to tokens: where text ends and tags begin, what white
 * space around them goes, and the words within.  As jinja2 does it with
 * trim_blocks and lstrip_blocks, which every chat template assumes.
 */

#ifndef MST_JINJA_LEX_H
#define MST_JINJA_LEX_H

#include "text/mst_value.h"


typedef enum {
    MST_JINJA_DATA,            /* value: text between tags */
    MST_JINJA_PRINT,           /* {{ */
    MST_JINJA_PRINT_END,       /* }} */
    MST_JINJA_TAG,             /* {% */
    MST_JINJA_TAG_END,         /* %} */
    MST_JINJA_NAME,            /* value */
    MST_JINJA_STRING,          /* value */
    MST_JINJA_NUMBER,          /* value */
    MST_JINJA_OPERATOR,        /* op */
    MST_JINJA_END
} mst_jinja_token_type_t;


/* operators of two characters: the second one times 256 */
#define MST_JINJA_OP(a, b)  ((uint32_t) (a) | (uint32_t) (b) << 8)

#define MST_JINJA_EQ        MST_JINJA_OP('=', '=')
#define MST_JINJA_NE        MST_JINJA_OP('!', '=')
#define MST_JINJA_LE        MST_JINJA_OP('<', '=')
#define MST_JINJA_GE        MST_JINJA_OP('>', '=')
#define MST_JINJA_FLOORDIV  MST_JINJA_OP('/', '/')
#define MST_JINJA_POWER     MST_JINJA_OP('*', '*')


typedef struct {
    mst_jinja_token_type_t  type;
    uint32_t                op;
    uint32_t                line;
    mst_value_t             value;
} mst_jinja_token_t;


/* all of the text, the end's token last; "source" outlives w.  The sentence
   of an error begins with "line N: ". */
mst_jinja_token_t *mst_jinja_lex(mst_work_t *w, mst_str_t source);


#endif /* MST_JINJA_LEX_H */


/*
 * What the parsers of statements and of expressions share.
 */

#ifndef MST_JINJA_PARSE_H
#define MST_JINJA_PARSE_H

#include "text/mst_jinja_lex.h"
#include "text/mst_jinja_node.h"


#define MST_JINJA_PARSE_DEPTH  64      /* expressions, blocks in blocks */
#define MST_JINJA_PARSE_CHAIN  400     /* operators in a row */


typedef struct {
    mst_work_t               *w;
    const mst_jinja_token_t  *t;       /* the next token */
    mst_jinja_tree_t         *tree;
    mst_dict_t               *bound;   /* names that something is put in */
    mst_list_t               *called;  /* pairs: name, line */
    uint32_t                  asked;   /* MST_JINJA_CALLER.., by this macro */
    int                       depth;
    int                       loops;   /* around this place */
} mst_jinja_parse_t;


int mst_jinja_parse_error(const mst_jinja_parse_t *p, uint32_t line,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

mst_jinja_node_t *mst_jinja_parse_node(mst_jinja_parse_t *p,
    mst_jinja_kind_t kind);

/* the id of a name, a new one if need be */
int mst_jinja_parse_name(mst_jinja_parse_t *p, mst_value_t name,
    uint32_t *id);

/* the next token is this operator or this word; skip: past it if it is */
int mst_jinja_parse_is(const mst_jinja_parse_t *p, uint32_t op);
int mst_jinja_parse_is_word(const mst_jinja_parse_t *p, const char *word);
int mst_jinja_parse_skip(mst_jinja_parse_t *p, uint32_t op);
int mst_jinja_parse_skip_word(mst_jinja_parse_t *p, const char *word);

/* past what must be there */
int mst_jinja_parse_expect(mst_jinja_parse_t *p, uint32_t op);
int mst_jinja_parse_expect_word(mst_jinja_parse_t *p, const char *word);
int mst_jinja_parse_expect_type(mst_jinja_parse_t *p,
    mst_jinja_token_type_t type, const char *what);

/* what the next token is, for an error: "\"endif\"" */
const char *mst_jinja_parse_seen(const mst_jinja_parse_t *p, char *text,
    size_t size);

/* one level deeper, for a bound on recursion; MST_ERROR: too deep */
int mst_jinja_parse_enter(mst_jinja_parse_t *p);

/* mst_jinja_block.c: statements up to a tag that is one of "ends", whose word
   is the next token then; all of the template where "ends" is empty */
int mst_jinja_block_body(mst_jinja_parse_t *p, const char *const *ends,
    mst_jinja_node_t **list);

/* mst_jinja_expr.c; all set *n */

int mst_jinja_expr(mst_jinja_parse_t *p, mst_jinja_node_t **n);

/* one, or a tuple of several with commas; cond: may be "a if b"; stop: a
   word behind which nothing belongs to it, or NULL */
int mst_jinja_expr_tuple(mst_jinja_parse_t *p, int cond, const char *stop,
    mst_jinja_node_t **n);
int mst_jinja_expr_tuple_end(const mst_jinja_parse_t *p, const char *stop);

/* counts the operators of one level */
int mst_jinja_expr_long(mst_jinja_parse_t *p, int *count);

/* mst_jinja_term.c */

/* with its sign and attributes, and with filters and tests */
int mst_jinja_term(mst_jinja_parse_t *p, int filters, mst_jinja_node_t **n);

/* filters only: a|b(c)|d, the innermost a being "first" or NULL */
int mst_jinja_term_filters(mst_jinja_parse_t *p, mst_jinja_node_t *first,
    mst_jinja_node_t **n);

/* one filter by its name, which is the next token */
int mst_jinja_term_filter(mst_jinja_parse_t *p, mst_jinja_node_t *subject,
    mst_jinja_node_t **n);

/* mst_jinja_target.c */

/* what a value may be put in: a name, names with commas, or, where "ref",
   an attribute of a namespace */
int mst_jinja_target(mst_jinja_parse_t *p, int ref, const char *stop,
    mst_jinja_node_t **n);

/* a name that is set; its id in *id */
int mst_jinja_target_name(mst_jinja_parse_t *p, uint32_t *id);


#endif /* MST_JINJA_PARSE_H */

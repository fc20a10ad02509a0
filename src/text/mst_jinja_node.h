
/*
 * A template as a tree.  Made once, never changed afterwards: requests share
 * it, and in nginx the workers share its pages.
 */

#ifndef MST_JINJA_NODE_H
#define MST_JINJA_NODE_H

#include "text/mst_value.h"


typedef enum {

    /* expressions */

    MST_JINJA_CONST,           /* value */
    MST_JINJA_VAR,             /* id */
    MST_JINJA_LIST,            /* list */
    MST_JINJA_TUPLE,           /* list; a target too */
    MST_JINJA_DICT,            /* list of PAIR */
    MST_JINJA_PAIR,            /* a: b */
    MST_JINJA_NOT,             /* a */
    MST_JINJA_NEG,             /* a */
    MST_JINJA_POS,             /* a */
    MST_JINJA_AND,             /* a, b */
    MST_JINJA_OR,              /* a, b */
    MST_JINJA_COND,            /* b if a else c (or NULL) */
    MST_JINJA_COMPARE,         /* a, list of OPERAND */
    MST_JINJA_OPERAND,         /* id: an operator, or MST_JINJA_IN; a */
    MST_JINJA_MATH,            /* a id b */
    MST_JINJA_CONCAT,          /* list */
    MST_JINJA_ATTR,            /* a.value */
    MST_JINJA_ITEM,            /* a[b] */
    MST_JINJA_SLICE,           /* a:b:c, each may be NULL */
    MST_JINJA_CALL,            /* a(list) */
    MST_JINJA_KEYWORD,         /* value=a, in a list of arguments */
    MST_JINJA_FILTER,          /* a|builtin(list); a may be NULL */
    MST_JINJA_TEST,            /* a is builtin(list) */
    MST_JINJA_REF,             /* id.value, a target */

    /* statements */

    MST_JINJA_OUTPUT,          /* a */
    MST_JINJA_IF,              /* a, list, other; elif: the only other */
    MST_JINJA_FOR,             /* for a in b if c; list, other */
    MST_JINJA_SET,             /* a = b */
    MST_JINJA_CAPTURE,         /* a = list, through the filters b */
    MST_JINJA_MACRO,           /* id(params): list */
    MST_JINJA_PARAM,           /* id = a (or NULL) */
    MST_JINJA_CALL_BLOCK,      /* a, a call, with list as its caller(params) */
    MST_JINJA_FILTER_BLOCK,    /* list, through the filters b */
    MST_JINJA_WITH,            /* params: SETs; list */
    MST_JINJA_SCOPE,           /* list */
    MST_JINJA_BREAK,
    MST_JINJA_CONTINUE
} mst_jinja_kind_t;

/* operators that are words */
#define MST_JINJA_IN      1u
#define MST_JINJA_NOT_IN  2u

/* what a macro's body asks for beside its parameters */
#define MST_JINJA_VARARGS  1u
#define MST_JINJA_KWARGS   2u
#define MST_JINJA_CALLER   4u


typedef struct mst_jinja_node_s     mst_jinja_node_t;
typedef struct mst_jinja_builtin_s  mst_jinja_builtin_t;

struct mst_jinja_node_s {
    mst_jinja_kind_t            kind;
    uint32_t                    id;        /* a name, an operator */
    uint32_t                    line;
    uint32_t                    flags;     /* of a macro: MST_JINJA_CALLER.. */
    mst_value_t                 value;     /* a constant, a name */
    const mst_jinja_builtin_t  *builtin;
    mst_jinja_node_t           *a;
    mst_jinja_node_t           *b;
    mst_jinja_node_t           *c;
    mst_jinja_node_t           *list;      /* linked by next */
    mst_jinja_node_t           *other;
    mst_jinja_node_t           *params;
    mst_jinja_node_t           *next;
};


/* names that the interpreter itself looks for */

typedef enum {
    MST_JINJA_ID_LOOP,
    MST_JINJA_ID_CALLER,
    MST_JINJA_ID_VARARGS,
    MST_JINJA_ID_KWARGS,
    MST_JINJA_ID_FIRST         /* the template's own names */
} mst_jinja_id_t;


typedef struct {
    mst_jinja_node_t            *root;     /* statements */
    mst_dict_t                  *names;    /* name -> id */
    uint32_t                     n_names;
    const mst_jinja_builtin_t  **functions;    /* [n_names]: what a name means
                                                  that is not set, or NULL */
    mst_text_t                 **spelling;     /* [n_names] */
} mst_jinja_tree_t;


/*
 * The tree of a template, in w's memory; "source" outlives it.  MST_ERROR
 * with a sentence that begins with "line N: ".
 */
int mst_jinja_parse(mst_work_t *w, mst_str_t source, mst_jinja_tree_t *tree);


#endif /* MST_JINJA_NODE_H */


/*
 * The interpreter's inside: what its files share while a template runs.
 *
 * Python's rules where they show: lookups of attributes and items as jinja2's
 * sandbox does them, values that compare, add and print as Python's.  A
 * template has no way to anything outside of its values.
 */

#ifndef MST_JINJA_RUN_H
#define MST_JINJA_RUN_H

#include <time.h>

#include "text/mst_jinja_node.h"
#include "text/mst_python.h"


#define MST_JINJA_DEPTH   600      /* of nodes and macros while running */
#define MST_JINJA_PARAMS  6        /* of one builtin, at most */

/* beside MST_OK and MST_ERROR, from statements */
#define MST_JINJA_LEFT    1        /* {% break %} */
#define MST_JINJA_AGAIN   2        /* {% continue %} */


typedef struct mst_jinja_bind_s   mst_jinja_bind_t;
typedef struct mst_jinja_scope_s  mst_jinja_scope_t;

struct mst_jinja_bind_s {
    uint32_t           id;
    mst_value_t        value;
    mst_jinja_bind_t  *next;
};

struct mst_jinja_scope_s {
    mst_jinja_bind_t   *first;
    mst_jinja_scope_t  *parent;    /* NULL: the outermost */
};


typedef struct {
    mst_work_t              *w;
    const mst_jinja_tree_t  *tree;
    mst_jinja_scope_t       *scope;
    mst_text_out_t          *out;
    time_t                   now;      /* of strftime_now() */
    uint32_t                 line;     /* that runs */
    int                      depth;
    int                      raised;   /* by the template itself */
} mst_jinja_run_t;


typedef struct {
    mst_value_t  name;
    mst_value_t  value;
} mst_jinja_keyword_t;

typedef struct {
    mst_value_t          *v;       /* [n] */
    size_t                n;
    mst_jinja_keyword_t  *keywords;    /* [n_keywords] */
    size_t                n_keywords;
} mst_jinja_args_t;


/*
 * A function, filter, test or method.  subject: what it is applied to.  Of
 * one with named parameters a->v has them all, in their order, those not
 * given are MST_VALUE_ABSENT.
 */
typedef int (*mst_jinja_builtin_pt)(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *result);

struct mst_jinja_builtin_s {
    const char            *name;
    const char            *params;     /* "a,b"; "*": whatever comes */
    size_t                 least;      /* that must be given */
    mst_jinja_builtin_pt   call;
    uint32_t               types;      /* of a test that asks for nothing but
                                          the type: bits of mst_value_type_t,
                                          and call is NULL */
};


/* a value of MST_VALUE_CALL */

typedef struct {
    const mst_jinja_builtin_t  *builtin;   /* or */
    const mst_jinja_node_t     *macro;     /* MACRO, CALL_BLOCK */
    mst_value_t                 subject;   /* of a method */
    mst_jinja_scope_t          *scope;     /* around the macro */
} mst_jinja_callable_t;

/* a value of MST_VALUE_LOOP */

typedef struct {
    const mst_jinja_node_t  *node;
    const mst_list_t        *items;
    size_t                   index;    /* from 0 */
    int                      depth;    /* of recursion, from 0 */
    mst_value_t              last;     /* of loop.changed(), or ABSENT */
    mst_jinja_scope_t       *scope;    /* around the loop */
} mst_jinja_loop_t;


/* a sentence with values in it; MST_ERROR */
int mst_jinja_fail(mst_jinja_run_t *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* mst_jinja_eval.c */

int mst_jinja_eval(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v);
int mst_jinja_eval_args(mst_jinja_run_t *r, const mst_jinja_node_t *list,
    mst_jinja_args_t *a);
int mst_jinja_eval_filters(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t subject, mst_value_t *v);

/* mst_jinja_access.c */

mst_value_t *mst_jinja_find(mst_jinja_run_t *r, uint32_t id);
int mst_jinja_bind(mst_jinja_run_t *r, uint32_t id, mst_value_t v);
int mst_jinja_attr(mst_jinja_run_t *r, mst_value_t object, mst_text_t *name,
    mst_value_t *v);
int mst_jinja_item(mst_jinja_run_t *r, mst_value_t object, mst_value_t key,
    mst_value_t *v);
int mst_jinja_slice(mst_jinja_run_t *r, mst_value_t object,
    const mst_value_t *bounds, mst_value_t *v);

/* what a for loop over v would see; an iterator is empty afterwards */
int mst_jinja_iterate(mst_jinja_run_t *r, mst_value_t v, mst_list_t **list);

/* the same as a text of one character each where v is a text */
int mst_jinja_contains(mst_jinja_run_t *r, mst_value_t container,
    mst_value_t item);             /* 0, 1, MST_ERROR */

/* len(); MST_ERROR with a sentence where there is none */
int mst_jinja_length(mst_jinja_run_t *r, mst_value_t v, size_t *n);

/* mst_jinja_math.c */

int mst_jinja_math(mst_jinja_run_t *r, uint32_t op, mst_value_t a,
    mst_value_t b, mst_value_t *v);

/* op: a comparison's; 0, 1, MST_ERROR */
int mst_jinja_compare(mst_jinja_run_t *r, uint32_t op, mst_value_t a,
    mst_value_t b);

/* mst_jinja_format.c: "%s is %d" % args; loose: values may be left over */

int mst_jinja_format(mst_jinja_run_t *r, mst_text_t *format,
    const mst_value_t *v, size_t n, int loose, mst_value_t *result);

/* mst_jinja_place.c: "{} is {name}".format(...) */

int mst_jinja_place(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);

/* mst_jinja_call.c */

int mst_jinja_call(mst_jinja_run_t *r, mst_value_t f,
    const mst_jinja_args_t *a, mst_value_t *v);
int mst_jinja_builtin(mst_jinja_run_t *r, const mst_jinja_builtin_t *b,
    mst_value_t subject, const mst_jinja_args_t *a, mst_value_t *v);
const mst_jinja_builtin_t *mst_jinja_function_find(mst_str_t name);
const mst_jinja_builtin_t *mst_jinja_builtin_find(
    const mst_jinja_builtin_t *table, size_t n, mst_str_t name);

/* mst_jinja_exec.c */

int mst_jinja_exec(mst_jinja_run_t *r, const mst_jinja_node_t *list);

/* loop(items): what a recursive loop writes over them */
int mst_jinja_recurse(mst_jinja_run_t *r, const mst_jinja_loop_t *loop,
    mst_value_t items, mst_value_t *v);

/* NULL: no memory */
mst_jinja_scope_t *mst_jinja_scope(mst_jinja_run_t *r,
    mst_jinja_scope_t *parent);

/* "list" in a scope, its output a text */
int mst_jinja_capture(mst_jinja_run_t *r, const mst_jinja_node_t *list,
    mst_jinja_scope_t *scope, mst_value_t *v);

/* mst_jinja_macro.c */

int mst_jinja_macro(mst_jinja_run_t *r, const mst_jinja_callable_t *m,
    const mst_jinja_args_t *a, mst_value_t *v);

/* mst_jinja_filter.c and mst_jinja_seq.c */

const mst_jinja_builtin_t *mst_jinja_filter_find(mst_str_t name);
const mst_jinja_builtin_t *mst_jinja_seq_find(mst_str_t name);

/* mst_jinja_escape.c */

const mst_jinja_builtin_t *mst_jinja_escape_find(mst_str_t name);

/* for HTML, and safe; NULL: no memory */
mst_text_t *mst_jinja_escape(mst_jinja_run_t *r, mst_text_t *t);

/* a + b; where one is safe the other gets escaped */
mst_text_t *mst_jinja_escape_sum(mst_jinja_run_t *r, mst_text_t *a,
    mst_text_t *b);

/* what goes into a text that is safe */
int mst_jinja_escape_args(mst_jinja_run_t *r, const mst_value_t *from,
    size_t n, mst_value_t **to);

/* what b made of a text that is safe is so, too, or is not */
int mst_jinja_escape_keep(mst_jinja_run_t *r, const mst_jinja_builtin_t *b,
    mst_value_t *v);

/* mst_jinja_number.c */

int mst_jinja_number_int(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
int mst_jinja_number_float(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
int mst_jinja_number_abs(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
int mst_jinja_number_round(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);

/* mst_jinja_is.c */

const mst_jinja_builtin_t *mst_jinja_is_find(mst_str_t name);

/* mst_jinja_string.c */

const mst_jinja_builtin_t *mst_jinja_string_find(mst_str_t name);

/* mst_jinja_split.c */

int mst_jinja_split(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
int mst_jinja_split_right(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
int mst_jinja_split_lines(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);

/* the lines of t, ends of lines with them or not */
int mst_jinja_lines(mst_jinja_run_t *r, mst_text_t *t, int keep,
    mst_list_t **list);

/* mst_jinja_method.c */

/* a method of object, NULL: it has none of this name */
const mst_jinja_builtin_t *mst_jinja_method_find(mst_value_t object,
    mst_str_t name);
int mst_jinja_method_known(mst_str_t name);

/* count < 0: all; texts are flat */
int mst_jinja_replace(mst_jinja_run_t *r, mst_text_t *t,
    const mst_text_t *from, mst_text_t *to, int64_t count, mst_value_t *v);

/* loop.index and the like; MST_DECLINED: nothing of this name */
int mst_jinja_loop_attr(mst_jinja_run_t *r, mst_value_t loop, mst_str_t name,
    mst_value_t *v);

/* the text of an argument, or MST_ERROR that names what got it */
int mst_jinja_text(mst_jinja_run_t *r, mst_value_t v, const char *what,
    mst_text_t **t);
int mst_jinja_int(mst_jinja_run_t *r, mst_value_t v, const char *what,
    int64_t *n);


#endif /* MST_JINJA_RUN_H */

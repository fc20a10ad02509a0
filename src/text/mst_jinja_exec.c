
/*
 * Statements of a running template: see mst_jinja_run.h.
 */

#include <string.h>

#include "text/mst_jinja_run.h"


typedef int (*mst_jinja_exec_pt)(mst_jinja_run_t *r,
    const mst_jinja_node_t *n);


static int mst_jinja_exec_loop(mst_jinja_run_t *r, mst_jinja_loop_t *loop);


mst_jinja_scope_t *
mst_jinja_scope(mst_jinja_run_t *r, mst_jinja_scope_t *parent)
{
    mst_jinja_scope_t  *s;

    s = mst_work_alloc(r->w, sizeof(mst_jinja_scope_t));

    if (s) {
        s->first = NULL;
        s->parent = parent;
    }

    return s;
}


int
mst_jinja_capture(mst_jinja_run_t *r, const mst_jinja_node_t *list,
    mst_jinja_scope_t *scope, mst_value_t *v)
{
    int                 rc;
    mst_text_t         *t;
    mst_text_out_t      out, *outer;
    mst_jinja_scope_t  *around;

    mst_text_out_init(&out);

    outer = r->out;
    around = r->scope;
    r->out = &out;
    r->scope = scope;

    rc = mst_jinja_exec(r, list);

    r->out = outer;
    r->scope = around;

    t = rc == MST_OK ? mst_text_out_take(&out, r->w) : NULL;
    mst_text_out_fini(&out);

    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}


static int
mst_jinja_exec_assign(mst_jinja_run_t *r, const mst_jinja_node_t *target,
    mst_value_t v)
{
    size_t                   i;
    mst_list_t              *list;
    mst_value_t             *ns, key;
    const mst_jinja_node_t  *p;

    switch (target->kind) {

    case MST_JINJA_VAR:
        return mst_jinja_bind(r, target->id, v);

    case MST_JINJA_REF:
        ns = mst_jinja_find(r, target->id);

        if (ns == NULL || ns->type != MST_VALUE_NAMESPACE) {
            return mst_jinja_fail(r, "attributes can be set of a namespace() "
                                  "only");
        }

        key = target->value;

        return mst_dict_set(r->w, ns->u.dict, key, v);

    default:
        break;
    }

    if (mst_jinja_iterate(r, v, &list) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0, p = target->list; p; p = p->next, i++) {

        if (i == list->n) {
            return mst_jinja_fail(r, "%zu values are too few for as many "
                                  "names", list->n);
        }

        if (mst_jinja_exec_assign(r, p, list->items[i]) != MST_OK) {
            return MST_ERROR;
        }
    }

    if (i < list->n) {
        return mst_jinja_fail(r, "%zu values are too many for %zu names",
                              list->n, i);
    }

    return MST_OK;
}


static int
mst_jinja_exec_output(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t  v;

    if (mst_jinja_eval(r, n->a, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_python_write(r->w, v, r->out);
}


static int
mst_jinja_exec_if(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t  v;

    for ( ;; ) {

        if (mst_jinja_eval(r, n->a, &v) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_value_true(v)) {
            return mst_jinja_exec(r, n->list);
        }

        n = n->other;

        /* "elif" goes on here, "else" is a list like any other */

        if (n == NULL || n->kind != MST_JINJA_IF || n->next) {
            return mst_jinja_exec(r, n);
        }

        r->line = n->line;
    }
}


/* the items for which the loop's own "if" holds */

static int
mst_jinja_exec_filter(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_list_t **list)
{
    size_t               i;
    mst_list_t          *some;
    mst_value_t          v;
    mst_jinja_scope_t   *around;

    some = mst_list_create(r->w, 0);
    around = r->scope;

    if (some == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < (*list)->n; i++) {
        r->scope = mst_jinja_scope(r, around);

        if (r->scope == NULL
            || mst_jinja_exec_assign(r, n->a, (*list)->items[i]) != MST_OK
            || mst_jinja_eval(r, n->c, &v) != MST_OK
            || (mst_value_true(v)
                && mst_list_add(r->w, some, (*list)->items[i]) != MST_OK))
        {
            r->scope = around;
            return MST_ERROR;
        }
    }

    r->scope = around;
    *list = some;

    return MST_OK;
}


static int
mst_jinja_exec_for_over(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t v, int depth)
{
    int                rc;
    mst_list_t        *list;
    mst_jinja_loop_t  *loop;

    if (mst_jinja_iterate(r, v, &list) != MST_OK
        || (n->c && mst_jinja_exec_filter(r, n, &list) != MST_OK))
    {
        return MST_ERROR;
    }

    loop = mst_work_alloc(r->w, sizeof(mst_jinja_loop_t));
    if (loop == NULL) {
        return MST_ERROR;
    }

    loop->node = n;
    loop->items = list;
    loop->index = 0;
    loop->depth = depth;
    loop->last = mst_value(MST_VALUE_ABSENT);
    loop->scope = r->scope;

    rc = mst_jinja_exec_loop(r, loop);
    r->scope = loop->scope;

    return rc;
}


static int
mst_jinja_exec_loop(mst_jinja_run_t *r, mst_jinja_loop_t *loop)
{
    int                      rc;
    mst_value_t              v;
    const mst_jinja_node_t  *n;

    n = loop->node;
    v.type = MST_VALUE_LOOP;
    v.u.p = loop;

    for ( /* void */ ; loop->index < loop->items->n; loop->index++) {
        r->scope = mst_jinja_scope(r, loop->scope);

        if (r->scope == NULL
            || mst_jinja_bind(r, MST_JINJA_ID_LOOP, v) != MST_OK
            || mst_jinja_exec_assign(r, n->a,
                                     loop->items->items[loop->index])
               != MST_OK)
        {
            return MST_ERROR;
        }

        rc = mst_jinja_exec(r, n->list);

        if (rc == MST_ERROR || rc == MST_JINJA_LEFT) {
            return rc == MST_ERROR ? MST_ERROR : MST_OK;
        }
    }

    if (loop->items->n == 0 && n->other) {
        r->scope = mst_jinja_scope(r, loop->scope);

        return r->scope ? mst_jinja_exec(r, n->other) : MST_ERROR;
    }

    return MST_OK;
}


static int
mst_jinja_exec_for(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t  v;

    if (mst_jinja_eval(r, n->b, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_exec_for_over(r, n, v, 0);
}


/* loop(items): the loop's output over these */

int
mst_jinja_recurse(mst_jinja_run_t *r, const mst_jinja_loop_t *loop,
    mst_value_t items, mst_value_t *v)
{
    int                 rc;
    mst_text_t         *t;
    mst_text_out_t      out, *outer;
    mst_jinja_scope_t  *around;

    if (!loop->node->flags) {
        return mst_jinja_fail(r, "loop() needs a loop that is marked "
                              "\"recursive\"");
    }

    mst_text_out_init(&out);

    outer = r->out;
    around = r->scope;
    r->out = &out;
    r->scope = loop->scope;

    rc = mst_jinja_exec_for_over(r, loop->node, items, loop->depth + 1);

    r->out = outer;
    r->scope = around;

    t = rc == MST_OK ? mst_text_out_take(&out, r->w) : NULL;
    mst_text_out_fini(&out);

    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}


static int
mst_jinja_exec_set(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t  v;

    if (mst_jinja_eval(r, n->b, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_exec_assign(r, n->a, v);
}


/* what a block writes, through its filters */

static int
mst_jinja_exec_filtered(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_jinja_scope_t  *scope;

    scope = mst_jinja_scope(r, r->scope);

    if (scope == NULL
        || mst_jinja_capture(r, n->list, scope, v) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_jinja_eval_filters(r, n->b, *v, v);
}


static int
mst_jinja_exec_set_block(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t  v;

    if (mst_jinja_exec_filtered(r, n, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_exec_assign(r, n->a, v);
}


static int
mst_jinja_exec_filter_block(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t  v;

    if (mst_jinja_exec_filtered(r, n, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_python_write(r->w, v, r->out);
}


static int
mst_jinja_exec_callable(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_jinja_callable_t  *f;

    f = mst_work_alloc(r->w, sizeof(mst_jinja_callable_t));
    if (f == NULL) {
        return MST_ERROR;
    }

    f->builtin = NULL;
    f->macro = n;
    f->subject = mst_value(MST_VALUE_NONE);
    f->scope = r->scope;

    v->type = MST_VALUE_CALL;
    v->u.p = f;

    return MST_OK;
}


static int
mst_jinja_exec_macro(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t  v;

    if (mst_jinja_exec_callable(r, n, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_bind(r, n->id, v);
}


/* the call with one argument more, which its macro knows as caller() */

static int
mst_jinja_exec_call_block(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    mst_value_t           f, v;
    mst_jinja_args_t      a, more;
    mst_jinja_keyword_t  *keywords;

    if (mst_jinja_eval(r, n->a->a, &f) != MST_OK
        || mst_jinja_eval_args(r, n->a->list, &a) != MST_OK)
    {
        return MST_ERROR;
    }

    keywords = mst_work_array(r->w, a.n_keywords + 1,
                              sizeof(mst_jinja_keyword_t));
    if (keywords == NULL) {
        return MST_ERROR;
    }

    if (a.n_keywords) {
        memcpy(keywords, a.keywords,
               a.n_keywords * sizeof(mst_jinja_keyword_t));
    }

    keywords[a.n_keywords].name =
        mst_value_text(r->tree->spelling[MST_JINJA_ID_CALLER]);

    if (mst_jinja_exec_callable(r, n, &keywords[a.n_keywords].value)
        != MST_OK)
    {
        return MST_ERROR;
    }

    more = a;
    more.keywords = keywords;
    more.n_keywords++;

    if (mst_jinja_call(r, f, &more, &v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_python_write(r->w, v, r->out);
}


static int
mst_jinja_exec_inner(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    int                      rc;
    mst_value_t              v;
    mst_jinja_scope_t       *around, *inner;
    const mst_jinja_node_t  *p;

    around = r->scope;
    inner = mst_jinja_scope(r, around);
    rc = inner ? MST_OK : MST_ERROR;

    /* the values of {% with %} are those of the outside */

    for (p = n->params; p && rc == MST_OK; p = p->next) {
        r->scope = around;
        rc = mst_jinja_eval(r, p->b, &v);
        r->scope = inner;

        if (rc == MST_OK) {
            rc = mst_jinja_exec_assign(r, p->a, v);
        }
    }

    r->scope = inner;

    if (rc == MST_OK) {
        rc = mst_jinja_exec(r, n->list);
    }

    r->scope = around;

    return rc;
}


static int
mst_jinja_exec_jump(mst_jinja_run_t *r, const mst_jinja_node_t *n)
{
    (void) r;

    return n->kind == MST_JINJA_BREAK ? MST_JINJA_LEFT : MST_JINJA_AGAIN;
}


static const mst_jinja_exec_pt  mst_jinja_exec_table[] = {
    [MST_JINJA_OUTPUT] = mst_jinja_exec_output,
    [MST_JINJA_IF] = mst_jinja_exec_if,
    [MST_JINJA_FOR] = mst_jinja_exec_for,
    [MST_JINJA_SET] = mst_jinja_exec_set,
    [MST_JINJA_CAPTURE] = mst_jinja_exec_set_block,
    [MST_JINJA_MACRO] = mst_jinja_exec_macro,
    [MST_JINJA_CALL_BLOCK] = mst_jinja_exec_call_block,
    [MST_JINJA_FILTER_BLOCK] = mst_jinja_exec_filter_block,
    [MST_JINJA_WITH] = mst_jinja_exec_inner,
    [MST_JINJA_SCOPE] = mst_jinja_exec_inner,
    [MST_JINJA_BREAK] = mst_jinja_exec_jump,
    [MST_JINJA_CONTINUE] = mst_jinja_exec_jump
};


int
mst_jinja_exec(mst_jinja_run_t *r, const mst_jinja_node_t *list)
{
    int  rc;

    if (++r->depth > MST_JINJA_DEPTH) {
        return mst_jinja_fail(r, "more than %d levels are nested",
                              MST_JINJA_DEPTH);
    }

    for (rc = MST_OK; list && rc == MST_OK; list = list->next) {
        r->line = list->line;

        rc = mst_work_steps(r->w, 1);

        if (rc == MST_OK) {
            rc = mst_jinja_exec_table[list->kind](r, list);
        }
    }

    r->depth--;

    return rc;
}

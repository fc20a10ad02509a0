
/*
 * Expressions of a running template: see mst_jinja_run.h.
 */

#include <stdarg.h>
#include <stdio.h>

#include "text/mst_jinja_run.h"


typedef int (*mst_jinja_eval_pt)(mst_jinja_run_t *r,
    const mst_jinja_node_t *n, mst_value_t *v);


int
mst_jinja_fail(mst_jinja_run_t *r, const char *fmt, ...)
{
    char     text[400];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    return mst_err_set(r->w->err, "%s", text);
}


static int
mst_jinja_eval_const(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    (void) r;

    *v = n->value;

    return MST_OK;
}


static int
mst_jinja_eval_var(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_value_t           *found;
    mst_jinja_callable_t  *f;

    found = mst_jinja_find(r, n->id);

    if (found) {
        *v = *found;
        return MST_OK;
    }

    if (r->tree->functions[n->id] == NULL) {
        *v = mst_value(MST_VALUE_UNDEFINED);
        v->u.text = r->tree->spelling[n->id];
        return MST_OK;
    }

    f = mst_work_alloc(r->w, sizeof(mst_jinja_callable_t));
    if (f == NULL) {
        return MST_ERROR;
    }

    f->builtin = r->tree->functions[n->id];
    f->macro = NULL;
    f->subject = mst_value(MST_VALUE_NONE);
    f->scope = NULL;

    v->type = MST_VALUE_CALL;
    v->u.p = f;

    return MST_OK;
}


static int
mst_jinja_eval_list(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_list_t              *list;
    mst_value_t              item;
    const mst_jinja_node_t  *p;

    list = mst_list_create(r->w, 0);
    if (list == NULL) {
        return MST_ERROR;
    }

    for (p = n->list; p; p = p->next) {

        if (mst_jinja_eval(r, p, &item) != MST_OK
            || mst_list_add(r->w, list, item) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(n->kind == MST_JINJA_TUPLE ? MST_VALUE_TUPLE
                                                   : MST_VALUE_LIST, list);

    return MST_OK;
}


static int
mst_jinja_eval_dict(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_dict_t              *d;
    mst_value_t              key, value;
    const mst_jinja_node_t  *p;

    d = mst_dict_create(r->w, 0);
    if (d == NULL) {
        return MST_ERROR;
    }

    for (p = n->list; p; p = p->next) {

        if (mst_jinja_eval(r, p->a, &key) != MST_OK
            || mst_jinja_eval(r, p->b, &value) != MST_OK
            || mst_dict_set(r->w, d, key, value) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_dict(MST_VALUE_DICT, d);

    return MST_OK;
}


static int
mst_jinja_eval_not(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    if (mst_jinja_eval(r, n->a, v) != MST_OK) {
        return MST_ERROR;
    }

    *v = mst_value_bool(!mst_value_true(*v));

    return MST_OK;
}


static int
mst_jinja_eval_sign(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_value_t  a;

    if (mst_jinja_eval(r, n->a, &a) != MST_OK) {
        return MST_ERROR;
    }

    if (a.type == MST_VALUE_FLOAT) {
        *v = mst_value_float(n->kind == MST_JINJA_NEG ? -a.u.x : a.u.x);
        return MST_OK;
    }

    return mst_jinja_math(r, n->kind == MST_JINJA_NEG ? '-' : '+',
                          mst_value_int(0), a, v);
}


/* "and" and "or": the value that decides */

static int
mst_jinja_eval_logic(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    if (mst_jinja_eval(r, n->a, v) != MST_OK) {
        return MST_ERROR;
    }

    if (mst_value_true(*v) == (n->kind == MST_JINJA_OR)) {
        return MST_OK;
    }

    return mst_jinja_eval(r, n->b, v);
}


static int
mst_jinja_eval_cond(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    if (mst_jinja_eval(r, n->a, v) != MST_OK) {
        return MST_ERROR;
    }

    if (mst_value_true(*v)) {
        return mst_jinja_eval(r, n->b, v);
    }

    if (n->c) {
        return mst_jinja_eval(r, n->c, v);
    }

    *v = mst_value(MST_VALUE_UNDEFINED);

    return MST_OK;
}


/* a < b < c */

static int
mst_jinja_eval_compare(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    int                      is;
    mst_value_t              left, right;
    const mst_jinja_node_t  *p;

    if (mst_jinja_eval(r, n->a, &left) != MST_OK) {
        return MST_ERROR;
    }

    is = 1;

    for (p = n->list; p && is; p = p->next) {

        if (mst_jinja_eval(r, p->a, &right) != MST_OK) {
            return MST_ERROR;
        }

        is = mst_jinja_compare(r, p->id, left, right);

        if (is == MST_ERROR) {
            return MST_ERROR;
        }

        left = right;
    }

    *v = mst_value_bool(is);

    return MST_OK;
}


static int
mst_jinja_eval_math(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_value_t  a, b;

    if (mst_jinja_eval(r, n->a, &a) != MST_OK
        || mst_jinja_eval(r, n->b, &b) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_jinja_math(r, n->id, a, b, v);
}


static int
mst_jinja_eval_concat(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_text_t              *sum, *t;
    mst_value_t              item;
    const mst_jinja_node_t  *p;

    sum = NULL;

    for (p = n->list; p; p = p->next) {

        if (mst_jinja_eval(r, p, &item) != MST_OK) {
            return MST_ERROR;
        }

        t = mst_python_str(r->w, item);
        sum = t && sum ? mst_text_sum(r->w, sum, t) : t;

        if (sum == NULL) {
            return MST_ERROR;
        }
    }

    *v = mst_value_text(sum);

    return MST_OK;
}


static int
mst_jinja_eval_attr(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_value_t  object;

    if (mst_jinja_eval(r, n->a, &object) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_attr(r, object, n->value.u.text, v);
}


static int
mst_jinja_eval_item(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    size_t                   i;
    mst_value_t              object, key, bounds[3];
    const mst_jinja_node_t  *part[3];

    if (mst_jinja_eval(r, n->a, &object) != MST_OK) {
        return MST_ERROR;
    }

    if (n->b->kind != MST_JINJA_SLICE) {

        if (mst_jinja_eval(r, n->b, &key) != MST_OK) {
            return MST_ERROR;
        }

        return mst_jinja_item(r, object, key, v);
    }

    part[0] = n->b->a;
    part[1] = n->b->b;
    part[2] = n->b->c;

    for (i = 0; i < 3; i++) {
        bounds[i] = mst_value(MST_VALUE_NONE);

        if (part[i] && mst_jinja_eval(r, part[i], &bounds[i]) != MST_OK) {
            return MST_ERROR;
        }
    }

    return mst_jinja_slice(r, object, bounds, v);
}


int
mst_jinja_eval_args(mst_jinja_run_t *r, const mst_jinja_node_t *list,
    mst_jinja_args_t *a)
{
    size_t                   n, n_keywords;
    mst_value_t              v;
    const mst_jinja_node_t  *p;

    for (n = 0, n_keywords = 0, p = list; p; p = p->next) {
        n_keywords += p->kind == MST_JINJA_KEYWORD;
        n += p->kind != MST_JINJA_KEYWORD;
    }

    a->v = mst_work_array(r->w, n, sizeof(mst_value_t));
    a->keywords = mst_work_array(r->w, n_keywords,
                                 sizeof(mst_jinja_keyword_t));
    a->n = 0;
    a->n_keywords = 0;

    if (a->v == NULL || a->keywords == NULL) {
        return MST_ERROR;
    }

    for (p = list; p; p = p->next) {

        if (p->kind != MST_JINJA_KEYWORD) {

            if (mst_jinja_eval(r, p, &v) != MST_OK) {
                return MST_ERROR;
            }

            a->v[a->n++] = v;
            continue;
        }

        if (mst_jinja_eval(r, p->a, &v) != MST_OK) {
            return MST_ERROR;
        }

        a->keywords[a->n_keywords].name = p->value;
        a->keywords[a->n_keywords++].value = v;
    }

    return MST_OK;
}


static int
mst_jinja_eval_call(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_value_t       f;
    mst_jinja_args_t  a;

    if (mst_jinja_eval(r, n->a, &f) != MST_OK
        || mst_jinja_eval_args(r, n->list, &a) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_jinja_call(r, f, &a, v);
}


static int
mst_jinja_eval_builtin(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    mst_value_t       subject;
    mst_jinja_args_t  a;

    if (mst_jinja_eval(r, n->a, &subject) != MST_OK
        || mst_jinja_eval_args(r, n->list, &a) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_jinja_builtin(r, n->builtin, subject, &a, v);
}


/* filters in a row, of which the first is applied to subject */

int
mst_jinja_eval_filters(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t subject, mst_value_t *v)
{
    int               rc;
    mst_jinja_args_t  a;

    if (n == NULL) {
        *v = subject;
        return MST_OK;
    }

    if (++r->depth > MST_JINJA_DEPTH) {
        return mst_jinja_fail(r, "more than %d levels are nested",
                              MST_JINJA_DEPTH);
    }

    rc = mst_jinja_eval_filters(r, n->a, subject, v);
    r->depth--;

    if (rc != MST_OK || mst_jinja_eval_args(r, n->list, &a) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_builtin(r, n->builtin, *v, &a, v);
}


static const mst_jinja_eval_pt  mst_jinja_eval_table[] = {
    [MST_JINJA_CONST] = mst_jinja_eval_const,
    [MST_JINJA_VAR] = mst_jinja_eval_var,
    [MST_JINJA_LIST] = mst_jinja_eval_list,
    [MST_JINJA_TUPLE] = mst_jinja_eval_list,
    [MST_JINJA_DICT] = mst_jinja_eval_dict,
    [MST_JINJA_NOT] = mst_jinja_eval_not,
    [MST_JINJA_NEG] = mst_jinja_eval_sign,
    [MST_JINJA_POS] = mst_jinja_eval_sign,
    [MST_JINJA_AND] = mst_jinja_eval_logic,
    [MST_JINJA_OR] = mst_jinja_eval_logic,
    [MST_JINJA_COND] = mst_jinja_eval_cond,
    [MST_JINJA_COMPARE] = mst_jinja_eval_compare,
    [MST_JINJA_MATH] = mst_jinja_eval_math,
    [MST_JINJA_CONCAT] = mst_jinja_eval_concat,
    [MST_JINJA_ATTR] = mst_jinja_eval_attr,
    [MST_JINJA_ITEM] = mst_jinja_eval_item,
    [MST_JINJA_CALL] = mst_jinja_eval_call,
    [MST_JINJA_FILTER] = mst_jinja_eval_builtin,
    [MST_JINJA_TEST] = mst_jinja_eval_builtin
};


int
mst_jinja_eval(mst_jinja_run_t *r, const mst_jinja_node_t *n,
    mst_value_t *v)
{
    int  rc;

    if (mst_work_steps(r->w, 1) != MST_OK) {
        return MST_ERROR;
    }

    if (++r->depth > MST_JINJA_DEPTH) {
        return mst_jinja_fail(r, "more than %d levels are nested",
                              MST_JINJA_DEPTH);
    }

    rc = mst_jinja_eval_table[n->kind](r, n, v);

    r->depth--;

    return rc;
}

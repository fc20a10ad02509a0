
/*
 * A macro is called: see mst_jinja_run.h.
 */

#include <string.h>

#include "text/mst_jinja_run.h"


/* a parameter that is neither given nor has a default is undefined */

static int
mst_jinja_macro_params(mst_jinja_run_t *r, const mst_jinja_node_t *macro,
    const mst_jinja_args_t *a, unsigned char *used)
{
    size_t                   i, k;
    mst_value_t              v;
    const mst_jinja_node_t  *p;

    for (i = 0, p = macro->params; p; p = p->next, i++) {
        v = mst_value(MST_VALUE_ABSENT);

        if (i < a->n) {
            v = a->v[i];
        }

        for (k = 0; k < a->n_keywords; k++) {

            if (mst_value_equal(r->w, a->keywords[k].name, p->value) != 1) {
                continue;
            }

            if (v.type != MST_VALUE_ABSENT) {
                return mst_jinja_fail(r, "a macro has two values for one "
                                      "parameter");
            }

            v = a->keywords[k].value;
            used[k] = 1;
        }

        if (v.type == MST_VALUE_ABSENT && p->a) {

            if (mst_jinja_eval(r, p->a, &v) != MST_OK) {
                return MST_ERROR;
            }

        } else if (v.type == MST_VALUE_ABSENT) {
            v = mst_value(MST_VALUE_UNDEFINED);
            v.u.text = p->value.u.text;
        }

        if (mst_jinja_bind(r, p->id, v) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* arguments behind the last parameter */

static int
mst_jinja_macro_varargs(mst_jinja_run_t *r, const mst_jinja_node_t *macro,
    const mst_jinja_args_t *a)
{
    size_t                   n;
    mst_list_t              *list;
    const mst_jinja_node_t  *p;

    for (n = 0, p = macro->params; p; p = p->next) {
        n++;
    }

    if (!(macro->flags & MST_JINJA_VARARGS)) {

        if (a->n > n) {
            return mst_jinja_fail(r, "a macro takes at most %zu arguments, "
                                  "not %zu", n, a->n);
        }

        return MST_OK;
    }

    list = mst_list_create(r->w, 0);
    if (list == NULL) {
        return MST_ERROR;
    }

    for ( /* void */ ; n < a->n; n++) {

        if (mst_list_add(r->w, list, a->v[n]) != MST_OK) {
            return MST_ERROR;
        }
    }

    return mst_jinja_bind(r, MST_JINJA_ID_VARARGS,
                          mst_value_list(MST_VALUE_TUPLE, list));
}


/* named arguments that are no parameters */

static int
mst_jinja_macro_kwargs(mst_jinja_run_t *r, const mst_jinja_node_t *macro,
    const mst_jinja_args_t *a, const unsigned char *used)
{
    size_t       i;
    mst_str_t    name;
    mst_dict_t  *d;

    d = mst_dict_create(r->w, 0);
    if (d == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < a->n_keywords; i++) {
        name = mst_text_str(a->keywords[i].name.u.text);

        if (used[i]) {
            continue;
        }

        if (mst_str_eq(name, "caller") && (macro->flags & MST_JINJA_CALLER)) {

            if (mst_jinja_bind(r, MST_JINJA_ID_CALLER, a->keywords[i].value)
                != MST_OK)
            {
                return MST_ERROR;
            }

        } else if (!(macro->flags & MST_JINJA_KWARGS)) {
            return mst_jinja_fail(r, "a macro takes no argument \"%.*s\"",
                                  (int) (name.len < 40 ? name.len : 40),
                                  name.data);

        } else if (mst_dict_set(r->w, d, a->keywords[i].name,
                                a->keywords[i].value)
                   != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return macro->flags & MST_JINJA_KWARGS
           ? mst_jinja_bind(r, MST_JINJA_ID_KWARGS,
                            mst_value_dict(MST_VALUE_DICT, d)) : MST_OK;
}


int
mst_jinja_macro(mst_jinja_run_t *r, const mst_jinja_callable_t *m,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int                 rc;
    uint32_t            line;
    unsigned char      *used;
    mst_jinja_scope_t  *around, *scope;

    scope = mst_jinja_scope(r, m->scope);
    used = mst_work_alloc(r->w, a->n_keywords);

    if (scope == NULL || used == NULL) {
        return MST_ERROR;
    }

    memset(used, 0, a->n_keywords);

    around = r->scope;
    line = r->line;
    r->scope = scope;

    rc = mst_jinja_macro_params(r, m->macro, a, used);

    if (rc == MST_OK) {
        rc = mst_jinja_macro_varargs(r, m->macro, a);
    }

    if (rc == MST_OK) {
        rc = mst_jinja_macro_kwargs(r, m->macro, a, used);
    }

    r->scope = around;

    if (rc == MST_OK) {
        rc = mst_jinja_capture(r, m->macro->list, scope, v);
        r->line = rc == MST_OK ? line : r->line;
    }

    return rc;
}

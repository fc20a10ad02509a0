
/*
 * Chat templates as programs: see mst_jinja.h.
 */

#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_case.h"
#include "text/mst_jinja.h"
#include "text/mst_jinja_run.h"


#define MST_JINJA_TREE   67108864      /* bytes of a template's tree */
#define MST_JINJA_PARSE  8000000       /* steps */


struct mst_jinja_s {
    mst_work_t         w;              /* of the tree */
    mst_jinja_tree_t   tree;
};


mst_jinja_t *
mst_jinja_create(mst_str_t source, mst_err_t *err)
{
    char         *copy;
    mst_jinja_t  *t;

    if (source.len > MST_JINJA_SOURCE) {
        (void) mst_err_set(err, "%zu bytes are too long, at most %d",
                           source.len, MST_JINJA_SOURCE);
        return NULL;
    }

    t = mst_calloc(1, sizeof(mst_jinja_t));
    if (t == NULL) {
        return NULL;
    }

    mst_case_open();
    mst_work_init(&t->w, MST_JINJA_TREE, MST_JINJA_PARSE, err);

    copy = mst_work_alloc(&t->w, source.len);

    if (copy == NULL) {
        mst_jinja_destroy(t);
        return NULL;
    }

    if (source.len) {
        memcpy(copy, source.data, source.len);
    }

    if (mst_jinja_parse(&t->w, mst_str(copy, source.len), &t->tree)
        != MST_OK)
    {
        mst_jinja_destroy(t);
        return NULL;
    }

    t->w.err = NULL;

    return t;
}


void
mst_jinja_destroy(mst_jinja_t *t)
{
    if (t) {
        mst_work_fini(&t->w);
        mst_free(t);
    }
}


/* names that the template does not know are nothing to it */

static int
mst_jinja_variables(mst_jinja_run_t *r, const mst_dict_t *variables)
{
    size_t        i;
    mst_value_t  *id;

    for (i = 0; i < variables->n; i++) {
        id = mst_dict_get(r->tree->names,
                          mst_text_str(variables->entries[i].key.u.text));

        if (id && mst_jinja_bind(r, (uint32_t) id->u.n,
                                 variables->entries[i].value)
                  != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_jinja_render(const mst_jinja_t *t, mst_work_t *w,
    const mst_dict_t *variables, time_t now, mst_text_out_t *out)
{
    int                rc;
    char               line[32];
    mst_jinja_run_t    r;
    mst_jinja_scope_t  scope;

    memset(&r, 0, sizeof(mst_jinja_run_t));

    scope.first = NULL;
    scope.parent = NULL;

    r.w = w;
    r.tree = &t->tree;
    r.scope = &scope;
    r.out = out;
    r.now = now;

    rc = mst_jinja_variables(&r, variables);

    if (rc == MST_OK) {
        rc = mst_jinja_exec(&r, t->tree.root);
    }

    if (rc == MST_OK) {
        return MST_OK;
    }

    if (!r.raised && w->err->text[0]) {
        (void) snprintf(line, sizeof(line), "chat template, line %u", r.line);
        (void) mst_err_prefix(w->err, line);
    }

    return MST_ERROR;
}

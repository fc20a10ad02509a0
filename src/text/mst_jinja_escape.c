
/*
 * Texts that a template calls safe, markupsafe's Markup: they go out like any
 * other, but what is not safe and added to one is escaped for HTML, even where
 * the template writes none.  See mst_jinja_run.h.
 */

#include <string.h>

#include "text/mst_jinja_run.h"


static const char *
mst_jinja_escape_char(char c)
{
    size_t  i;

    static const struct {
        char         c;
        const char  *entity;
    } table[] = {
        { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '\'', "&#39;" },
        { '"', "&#34;" }
    };

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].c == c) {
            return table[i].entity;
        }
    }

    return NULL;
}


mst_text_t *
mst_jinja_escape(mst_jinja_run_t *r, mst_text_t *t)
{
    size_t           i, from;
    const char      *entity;
    mst_text_t      *part;
    mst_text_out_t   out;

    if (mst_text_flat(r->w, t) != MST_OK
        || mst_work_steps(r->w, t->len / 64) != MST_OK)
    {
        return NULL;
    }

    mst_text_out_init(&out);

    for (i = 0, from = 0; i <= t->len; i++) {
        entity = i < t->len ? mst_jinja_escape_char(t->data[i]) : "";

        if (entity == NULL) {
            continue;
        }

        part = mst_text_part(r->w, t, from, i - from);
        from = i + 1;

        if (part == NULL || mst_text_out_add(&out, r->w, part) != MST_OK
            || mst_text_out_bytes(&out, r->w, entity, strlen(entity),
                                  MST_TEXT_VALUE) != MST_OK)
        {
            mst_text_out_fini(&out);
            return NULL;
        }
    }

    t = mst_text_out_take(&out, r->w);
    mst_text_out_fini(&out);

    return t ? mst_text_markup(r->w, t, 1) : NULL;
}


mst_text_t *
mst_jinja_escape_sum(mst_jinja_run_t *r, mst_text_t *a, mst_text_t *b)
{
    int  markup;

    markup = a->markup || b->markup;

    if (markup && !a->markup) {
        a = mst_jinja_escape(r, a);
    }

    if (markup && !b->markup) {
        b = mst_jinja_escape(r, b);
    }

    a = a && b ? mst_text_sum(r->w, a, b) : NULL;

    return a ? mst_text_markup(r->w, a, markup) : NULL;
}


int
mst_jinja_escape_args(mst_jinja_run_t *r, const mst_value_t *from, size_t n,
    mst_value_t **to)
{
    size_t       i;
    mst_text_t  *t;
    mst_value_t  v;

    *to = mst_work_alloc(r->w, (n ? n : 1) * sizeof(mst_value_t));
    if (*to == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        v = from[i];

        if (!mst_value_is_number(v)
            && (v.type != MST_VALUE_TEXT || !v.u.text->markup))
        {
            t = mst_python_str(r->w, v);
            t = t ? mst_jinja_escape(r, t) : NULL;
            v = mst_value_text(t);

            if (t == NULL) {
                return MST_ERROR;
            }
        }

        (*to)[i] = v;
    }

    return MST_OK;
}


/* filters that make a str of it are not among them, as title and replace */

int
mst_jinja_escape_keep(mst_jinja_run_t *r, const mst_jinja_builtin_t *b,
    mst_value_t *v)
{
    int     keep;
    size_t  i;

    static const char *const  filters[] = {
        "upper", "lower", "capitalize", "trim", "string", "indent", "safe",
        "escape", "e", "forceescape"
    };

    if (v->type != MST_VALUE_TEXT || b->name[0] == 'd') {
        return MST_OK;                         /* default's is as it was */
    }

    keep = (mst_jinja_string_find(mst_str(b->name, strlen(b->name))) == b);

    for (i = 0; i < sizeof(filters) / sizeof(filters[0]) && !keep; i++) {
        keep = (strcmp(b->name, filters[i]) == 0);
    }

    v->u.text = mst_text_markup(r->w, v->u.text, keep);

    return v->u.text ? MST_OK : MST_ERROR;
}


static int
mst_jinja_escape_filter_safe(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_text_t  *t;

    (void) a;

    t = mst_python_str(r->w, subject);
    t = t ? mst_text_markup(r->w, t, 1) : NULL;
    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}


static int
mst_jinja_escape_filter_force(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_text_t  *t;

    (void) a;

    t = mst_python_str(r->w, subject);
    t = t ? mst_jinja_escape(r, t) : NULL;
    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}


static int
mst_jinja_escape_filter_escape(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    if (subject.type == MST_VALUE_TEXT && subject.u.text->markup) {
        *v = subject;
        return MST_OK;
    }

    return mst_jinja_escape_filter_force(r, subject, a, v);
}


static const mst_jinja_builtin_t  mst_jinja_escape_filters[] = {
    { "safe", "", 0, mst_jinja_escape_filter_safe, 0 },
    { "escape", "", 0, mst_jinja_escape_filter_escape, 0 },
    { "e", "", 0, mst_jinja_escape_filter_escape, 0 },
    { "forceescape", "", 0, mst_jinja_escape_filter_force, 0 }
};


const mst_jinja_builtin_t *
mst_jinja_escape_find(mst_str_t name)
{
    return mst_jinja_builtin_find(mst_jinja_escape_filters,
                                  sizeof(mst_jinja_escape_filters)
                                  / sizeof(mst_jinja_builtin_t), name);
}

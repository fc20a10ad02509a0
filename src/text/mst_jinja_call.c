
/*
 * Calls: the arguments of builtins put in their places, and the functions
 * that a template finds without setting them.  See mst_jinja_run.h.
 */

#include <string.h>

#include "text/mst_jinja_run.h"


#define MST_JINJA_CALL_RANGE  100000   /* jinja2's sandbox allows no more */
#define MST_JINJA_CALL_DATE   256      /* bytes */


static int mst_jinja_call_range(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
static int mst_jinja_call_namespace(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
static int mst_jinja_call_dict(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
static int mst_jinja_call_raise(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);
static int mst_jinja_call_strftime(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v);


static const mst_jinja_builtin_t  mst_jinja_functions[] = {
    { "range", "start,stop,step", 1, mst_jinja_call_range, 0 },
    { "namespace", "*", 0, mst_jinja_call_namespace, 0 },
    { "dict", "*", 0, mst_jinja_call_dict, 0 },
    { "raise_exception", "message", 1, mst_jinja_call_raise, 0 },
    { "strftime_now", "format", 1, mst_jinja_call_strftime, 0 }
};


const mst_jinja_builtin_t *
mst_jinja_builtin_find(const mst_jinja_builtin_t *table, size_t n,
    mst_str_t name)
{
    size_t  i;

    for (i = 0; i < n; i++) {

        if (mst_str_eq(name, table[i].name)) {
            return &table[i];
        }
    }

    return NULL;
}


const mst_jinja_builtin_t *
mst_jinja_function_find(mst_str_t name)
{
    return mst_jinja_builtin_find(mst_jinja_functions,
                                  sizeof(mst_jinja_functions)
                                  / sizeof(mst_jinja_builtin_t), name);
}


/* the place of a name in "a,b,c", or -1; the number of names in *n */

static int
mst_jinja_call_place(const char *params, mst_str_t name, size_t *n)
{
    int          place;
    const char  *p, *end;

    place = -1;

    for (p = params, *n = 0; *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, ',');

        if ((size_t) (end - p) == name.len
            && memcmp(p, name.data, name.len) == 0)
        {
            place = (int) *n;
        }

        ++*n;
    }

    return place;
}


static int
mst_jinja_call_bind(mst_jinja_run_t *r, const mst_jinja_builtin_t *b,
    const mst_jinja_args_t *a, mst_value_t *v, size_t *n)
{
    int        place;
    size_t     i;
    mst_str_t  name;

    (void) mst_jinja_call_place(b->params, mst_str("", 0), n);

    for (i = 0; i < *n; i++) {
        v[i] = i < a->n ? a->v[i] : mst_value(MST_VALUE_ABSENT);
    }

    if (a->n > *n) {
        return mst_jinja_fail(r, "%s() takes at most %zu arguments, not %zu",
                              b->name, *n, a->n);
    }

    for (i = 0; i < a->n_keywords; i++) {
        name = mst_text_str(a->keywords[i].name.u.text);
        place = mst_jinja_call_place(b->params, name, n);

        if (place < 0 || v[place].type != MST_VALUE_ABSENT) {
            return mst_jinja_fail(r, "%s() takes no%s argument \"%.*s\"",
                                  b->name, place < 0 ? "" : " second",
                                  (int) (name.len < 40 ? name.len : 40),
                                  name.data);
        }

        v[place] = a->keywords[i].value;
    }

    return MST_OK;
}


int
mst_jinja_builtin(mst_jinja_run_t *r, const mst_jinja_builtin_t *b,
    mst_value_t subject, const mst_jinja_args_t *a, mst_value_t *v)
{
    int               rc;
    size_t            i, n;
    mst_value_t       bound[MST_JINJA_PARAMS];
    mst_jinja_args_t  args;

    if (b->types && a->n == 0 && a->n_keywords == 0) {
        *v = mst_value_bool(b->types >> subject.type & 1);
        return MST_OK;
    }

    if (b->params[0] == '*') {

        if (a->n < b->least) {
            return mst_jinja_fail(r, "%s() needs %zu arguments, not %zu",
                                  b->name, b->least, a->n);
        }

        return b->call(r, subject, a, v);
    }

    if (mst_jinja_call_bind(r, b, a, bound, &n) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < b->least; i++) {

        if (bound[i].type == MST_VALUE_ABSENT) {
            return mst_jinja_fail(r, "%s() needs %zu argument%s", b->name,
                                  b->least, b->least == 1 ? "" : "s");
        }
    }

    args.v = bound;
    args.n = n;
    args.keywords = NULL;
    args.n_keywords = 0;

    rc = b->call(r, subject, &args, v);

    return rc == MST_OK && subject.type == MST_VALUE_TEXT
           && subject.u.text->markup ? mst_jinja_escape_keep(r, b, v) : rc;
}


int
mst_jinja_call(mst_jinja_run_t *r, mst_value_t f, const mst_jinja_args_t *a,
    mst_value_t *v)
{
    const mst_text_t      *name;
    mst_jinja_callable_t  *callable;

    switch (f.type) {

    case MST_VALUE_CALL:
        callable = f.u.p;

        return callable->builtin
               ? mst_jinja_builtin(r, callable->builtin, callable->subject, a,
                                   v)
               : mst_jinja_macro(r, callable, a, v);

    case MST_VALUE_LOOP:
        if (a->n != 1) {
            return mst_jinja_fail(r, "loop() needs one argument");
        }

        return mst_jinja_recurse(r, f.u.p, a->v[0], v);

    case MST_VALUE_UNDEFINED:
        name = f.u.text;

        return mst_jinja_fail(r, "'%.*s' is undefined", name
                              ? (int) (name->len < 100 ? name->len : 100) : 1,
                              name ? name->data : "?");

    default:
        return mst_jinja_fail(r, "a value of type %s cannot be called",
                              mst_value_kind(f));
    }
}


static int
mst_jinja_call_range(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i;
    int64_t      n, x[3];
    mst_list_t  *list;

    (void) subject;

    x[0] = 0;
    x[1] = 0;
    x[2] = 1;

    for (i = 0; i < 3; i++) {

        if (a->v[i].type != MST_VALUE_ABSENT
            && mst_jinja_int(r, a->v[i], "range()", &x[i]) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (a->v[1].type == MST_VALUE_ABSENT) {
        x[1] = x[0];
        x[0] = 0;
    }

    if (x[2] == 0) {
        return mst_jinja_fail(r, "the step of range() is 0");
    }

    list = mst_list_create(r->w, 0);
    if (list == NULL) {
        return MST_ERROR;
    }

    for (n = x[0]; x[2] < 0 ? n > x[1] : n < x[1]; /* void */) {

        if (list->n == MST_JINJA_CALL_RANGE) {
            return mst_jinja_fail(r, "range() has more than %d items",
                                  MST_JINJA_CALL_RANGE);
        }

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_list_add(r->w, list, mst_value_int(n)) != MST_OK)
        {
            return MST_ERROR;
        }

        if (__builtin_add_overflow(n, x[2], &n)) {
            break;
        }
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return MST_OK;
}


/* dict({...}, a=1) */

static int
mst_jinja_call_dict(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t             i, k;
    mst_dict_t        *d;
    mst_dict_entry_t  *e;

    (void) subject;

    d = mst_dict_create(r->w, 0);
    if (d == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < a->n; i++) {

        if (a->v[i].type != MST_VALUE_DICT || a->n > 1) {
            return mst_jinja_fail(r, "a dictionary is made of one dictionary "
                                  "and names");
        }

        for (k = 0; k < a->v[i].u.dict->n; k++) {
            e = &a->v[i].u.dict->entries[k];

            if (mst_work_steps(r->w, 1) != MST_OK
                || mst_dict_set(r->w, d, e->key, e->value) != MST_OK)
            {
                return MST_ERROR;
            }
        }
    }

    for (i = 0; i < a->n_keywords; i++) {

        if (mst_dict_set(r->w, d, a->keywords[i].name, a->keywords[i].value)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_dict(MST_VALUE_DICT, d);

    return MST_OK;
}


static int
mst_jinja_call_namespace(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int  rc;

    rc = mst_jinja_call_dict(r, subject, a, v);
    v->type = MST_VALUE_NAMESPACE;

    return rc;
}


static int
mst_jinja_call_raise(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i;
    char         text[400];
    mst_text_t  *t;

    (void) subject;
    (void) v;

    t = mst_python_str(r->w, a->v[0]);

    if (t == NULL || mst_text_flat(r->w, t) != MST_OK) {
        return MST_ERROR;
    }

    /* one line, whatever the template says */

    for (i = 0; i < t->len && i < sizeof(text) - 1; i++) {
        text[i] = (unsigned char) t->data[i] < ' ' ? ' ' : t->data[i];
    }

    if (i < t->len) {

        while (i && ((unsigned char) t->data[i] & 0xc0) == 0x80) {
            i--;
        }
    }

    text[i] = '\0';
    r->raised = 1;

    return mst_jinja_fail(r, "%s", text[0] ? text
                          : "the chat template refuses these messages");
}


static int
mst_jinja_call_strftime(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    char         format[MST_JINJA_CALL_DATE], text[MST_JINJA_CALL_DATE];
    size_t       n;
    struct tm    tm;
    mst_text_t  *t;

    (void) subject;

    if (mst_jinja_text(r, a->v[0], "strftime_now()", &t) != MST_OK) {
        return MST_ERROR;
    }

    if (t->len >= sizeof(format) || memchr(t->data, '\0', t->len)) {
        return mst_jinja_fail(r, "the format of strftime_now() is too long");
    }

    memcpy(format, t->data, t->len);
    format[t->len] = '\0';

    if (localtime_r(&r->now, &tm) == NULL) {
        return mst_jinja_fail(r, "the time is out of range");
    }

    n = strftime(text, sizeof(text), format, &tm);
    t = mst_text_copy(r->w, text, n, MST_TEXT_VALUE);

    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}

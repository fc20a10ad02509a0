
/*
 * Methods of strings: see mst_jinja_run.h.
 */

#include <string.h>

#include "text/mst_case.h"
#include "text/mst_jinja_run.h"


static int
mst_jinja_string_result(mst_text_t *t, mst_value_t *v)
{
    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}


static int
mst_jinja_string_strip_at(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, int sides, mst_value_t *v)
{
    mst_text_t  *t, *set;

    set = NULL;

    if (mst_jinja_text(r, subject, "strip()", &t) != MST_OK
        || (a->v[0].type != MST_VALUE_ABSENT
            && a->v[0].type != MST_VALUE_NONE
            && mst_jinja_text(r, a->v[0], "strip()", &set) != MST_OK))
    {
        return MST_ERROR;
    }

    return mst_jinja_string_result(mst_text_strip(r->w, t, set, sides & 1,
                                                  sides & 2), v);
}


static int
mst_jinja_string_strip(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_strip_at(r, subject, a, 3, v);
}


static int
mst_jinja_string_lstrip(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_strip_at(r, subject, a, 1, v);
}


static int
mst_jinja_string_rstrip(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_strip_at(r, subject, a, 2, v);
}


/* one of several, in a tuple, may be it */

static int
mst_jinja_string_affix(mst_jinja_run_t *r, mst_value_t subject,
    mst_value_t affix, int end, mst_value_t *v)
{
    size_t        i, n;
    mst_text_t   *t, *part;
    mst_value_t  *items;

    items = &affix;
    n = 1;

    if (affix.type == MST_VALUE_TUPLE) {
        items = affix.u.list->items;
        n = affix.u.list->n;
    }

    *v = mst_value_bool(0);

    if (mst_jinja_text(r, subject, "startswith()", &t) != MST_OK
        || mst_work_steps(r->w, n) != MST_OK)
    {
        return MST_ERROR;
    }

    for (i = 0; i < n && !v->u.n; i++) {

        if (mst_jinja_text(r, items[i], end ? "endswith()" : "startswith()",
                           &part)
            != MST_OK
            || mst_work_steps(r->w, part->len / 256) != MST_OK)
        {
            return MST_ERROR;
        }

        v->u.n = part->len <= t->len
                 && memcmp(t->data + (end ? t->len - part->len : 0),
                           part->data, part->len) == 0;
    }

    return MST_OK;
}


static int
mst_jinja_string_startswith(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_affix(r, subject, a->v[0], 0, v);
}


static int
mst_jinja_string_endswith(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_affix(r, subject, a->v[0], 1, v);
}


static int
mst_jinja_string_without(mst_jinja_run_t *r, mst_value_t subject,
    mst_value_t affix, int end, mst_value_t *v)
{
    mst_text_t  *t, *part;

    if (mst_jinja_string_affix(r, subject, affix, end, v) != MST_OK
        || mst_jinja_text(r, affix, "removeprefix()", &part) != MST_OK)
    {
        return MST_ERROR;
    }

    if (!v->u.n) {
        *v = subject;
        return MST_OK;
    }

    t = subject.u.text;

    return mst_jinja_string_result(mst_text_part(r->w, t, end ? 0 : part->len,
                                                 t->len - part->len), v);
}


static int
mst_jinja_string_removeprefix(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_without(r, subject, a->v[0], 0, v);
}


static int
mst_jinja_string_removesuffix(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_without(r, subject, a->v[0], 1, v);
}


static int
mst_jinja_string_replace(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int64_t      count;
    mst_text_t  *t, *from, *to;

    count = -1;

    if (mst_jinja_text(r, subject, "replace()", &t) != MST_OK
        || mst_jinja_text(r, a->v[0], "replace()", &from) != MST_OK
        || mst_jinja_text(r, a->v[1], "replace()", &to) != MST_OK
        || (a->v[2].type != MST_VALUE_ABSENT
            && mst_jinja_int(r, a->v[2], "replace()", &count) != MST_OK))
    {
        return MST_ERROR;
    }

    if (t->markup && !to->markup) {
        to = mst_jinja_escape(r, to);
    }

    return to ? mst_jinja_replace(r, t, from, to, count, v) : MST_ERROR;
}


static int
mst_jinja_string_case(mst_jinja_run_t *r, mst_value_t subject,
    mst_case_t how, mst_value_t *v)
{
    mst_text_t  *t;

    if (mst_jinja_text(r, subject, "a method", &t) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_string_result(mst_case(r->w, t, how), v);
}


static int
mst_jinja_string_upper(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_case(r, subject, MST_CASE_UPPER, v);
}


static int
mst_jinja_string_lower(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_case(r, subject, MST_CASE_LOWER, v);
}


static int
mst_jinja_string_capitalize(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_case(r, subject, MST_CASE_CAPITALIZE, v);
}


static int
mst_jinja_string_title(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_case(r, subject, MST_CASE_TITLE, v);
}


static int
mst_jinja_string_swapcase(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_case(r, subject, MST_CASE_SWAP, v);
}


static int
mst_jinja_string_is(mst_jinja_run_t *r, mst_value_t subject,
    mst_case_is_t what, mst_value_t *v)
{
    mst_text_t  *t;

    if (mst_jinja_text(r, subject, "a method", &t) != MST_OK
        || mst_work_steps(r->w, t->len / 8) != MST_OK)
    {
        return MST_ERROR;
    }

    *v = mst_value_bool(mst_case_is(t, what));

    return MST_OK;
}


static int
mst_jinja_string_isalpha(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_is(r, subject, MST_CASE_IS_ALPHA, v);
}


static int
mst_jinja_string_isalnum(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_is(r, subject, MST_CASE_IS_ALNUM, v);
}


static int
mst_jinja_string_isdigit(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_is(r, subject, MST_CASE_IS_DIGIT, v);
}


static int
mst_jinja_string_isspace(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_is(r, subject, MST_CASE_IS_SPACE, v);
}


static int
mst_jinja_string_islower(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_is(r, subject, MST_CASE_IS_LOWER, v);
}


static int
mst_jinja_string_isupper(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_string_is(r, subject, MST_CASE_IS_UPPER, v);
}


/* in characters; -1: not there */

static int
mst_jinja_string_position(mst_jinja_run_t *r, mst_value_t subject,
    mst_value_t what, int last, mst_value_t *v)
{
    int64_t      at;
    mst_text_t  *t, *part;

    if (mst_jinja_text(r, subject, "find()", &t) != MST_OK
        || mst_jinja_text(r, what, "find()", &part) != MST_OK
        || mst_work_steps(r->w, t->len / 64) != MST_OK)
    {
        return MST_ERROR;
    }

    at = last ? mst_text_rfind(t, mst_text_str(part))
              : mst_text_find(t, mst_text_str(part), 0);

    if (at > 0) {
        t = mst_text_part(r->w, t, 0, (size_t) at);

        if (t == NULL) {
            return MST_ERROR;
        }

        at = (int64_t) mst_text_chars(t);
    }

    *v = mst_value_int(at);

    return MST_OK;
}


static int
mst_jinja_string_find_first(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_position(r, subject, a->v[0], 0, v);
}


static int
mst_jinja_string_index(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    if (mst_jinja_string_position(r, subject, a->v[0], 0, v) != MST_OK) {
        return MST_ERROR;
    }

    return v->u.n >= 0 ? MST_OK
           : mst_jinja_fail(r, "index() does not find the string");
}


static int
mst_jinja_string_find_last(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_string_position(r, subject, a->v[0], 1, v);
}


static int
mst_jinja_string_count(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       from;
    int64_t      at, n;
    mst_text_t  *t, *part;

    if (mst_jinja_text(r, subject, "count()", &t) != MST_OK
        || mst_jinja_text(r, a->v[0], "count()", &part) != MST_OK
        || mst_work_steps(r->w, t->len / 16) != MST_OK)
    {
        return MST_ERROR;
    }

    n = part->len ? 0 : (int64_t) mst_text_chars(t) + 1;

    for (from = 0; part->len; from = (size_t) at + part->len, n++) {
        at = mst_text_find(t, mst_text_str(part), from);

        if (at < 0) {
            break;
        }
    }

    *v = mst_value_int(n);

    return MST_OK;
}


/* glue.join(list): strings only, which the filter is less strict about */

static int
mst_jinja_string_join(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i;
    mst_list_t  *list;
    mst_text_t  *sum, *t;

    sum = mst_text_of(r->w, "", 0, MST_TEXT_VALUE);

    if (sum == NULL || mst_jinja_iterate(r, a->v[0], &list) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < list->n; i++) {

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_jinja_text(r, list->items[i], "join()", &t) != MST_OK)
        {
            return MST_ERROR;
        }

        if (subject.u.text->markup && !t->markup) {
            t = mst_jinja_escape(r, t);
        }

        sum = i ? mst_text_sum(r->w, sum, subject.u.text) : sum;
        sum = sum && t ? mst_text_sum(r->w, sum, t) : NULL;

        if (sum == NULL) {
            return MST_ERROR;
        }
    }

    *v = mst_value_text(sum);

    return MST_OK;
}


static const mst_jinja_builtin_t  mst_jinja_strings[] = {
    { "strip", "chars", 0, mst_jinja_string_strip, 0 },
    { "lstrip", "chars", 0, mst_jinja_string_lstrip, 0 },
    { "rstrip", "chars", 0, mst_jinja_string_rstrip, 0 },
    { "split", "sep,maxsplit", 0, mst_jinja_split, 0 },
    { "rsplit", "sep,maxsplit", 0, mst_jinja_split_right, 0 },
    { "splitlines", "keepends", 0, mst_jinja_split_lines, 0 },
    { "startswith", "prefix", 1, mst_jinja_string_startswith, 0 },
    { "endswith", "suffix", 1, mst_jinja_string_endswith, 0 },
    { "removeprefix", "prefix", 1, mst_jinja_string_removeprefix, 0 },
    { "removesuffix", "suffix", 1, mst_jinja_string_removesuffix, 0 },
    { "replace", "old,new,count", 2, mst_jinja_string_replace, 0 },
    { "upper", "", 0, mst_jinja_string_upper, 0 },
    { "lower", "", 0, mst_jinja_string_lower, 0 },
    { "capitalize", "", 0, mst_jinja_string_capitalize, 0 },
    { "title", "", 0, mst_jinja_string_title, 0 },
    { "swapcase", "", 0, mst_jinja_string_swapcase, 0 },
    { "isalpha", "", 0, mst_jinja_string_isalpha, 0 },
    { "isalnum", "", 0, mst_jinja_string_isalnum, 0 },
    { "isdigit", "", 0, mst_jinja_string_isdigit, 0 },
    { "isdecimal", "", 0, mst_jinja_string_isdigit, 0 },
    { "isnumeric", "", 0, mst_jinja_string_isdigit, 0 },
    { "isspace", "", 0, mst_jinja_string_isspace, 0 },
    { "islower", "", 0, mst_jinja_string_islower, 0 },
    { "isupper", "", 0, mst_jinja_string_isupper, 0 },
    { "find", "sub", 1, mst_jinja_string_find_first, 0 },
    { "rfind", "sub", 1, mst_jinja_string_find_last, 0 },
    { "index", "sub", 1, mst_jinja_string_index, 0 },
    { "count", "sub", 1, mst_jinja_string_count, 0 },
    { "join", "iterable", 1, mst_jinja_string_join, 0 },
    { "format", "*", 0, mst_jinja_place, 0 }
};


const mst_jinja_builtin_t *
mst_jinja_string_find(mst_str_t name)
{
    return mst_jinja_builtin_find(mst_jinja_strings, sizeof(mst_jinja_strings)
                                  / sizeof(mst_jinja_builtin_t), name);
}

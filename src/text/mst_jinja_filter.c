
/*
 * Filters of one value: see mst_jinja_run.h.  Those of many are in
 * mst_jinja_seq.c.
 */

#include <string.h>

#include "text/mst_case.h"
#include "text/mst_jinja_run.h"
#include "text/mst_python_dumps.h"


#define MST_JINJA_FILTER_INDENT  64    /* spaces of one level */


/* an argument, or the default */

static int64_t
mst_jinja_filter_flag(mst_value_t v)
{
    return v.type != MST_VALUE_ABSENT && mst_value_true(v);
}


static int
mst_jinja_filter_given(mst_value_t v)
{
    return v.type != MST_VALUE_ABSENT && v.type != MST_VALUE_NONE;
}


/* str(subject), flat */

static mst_text_t *
mst_jinja_filter_str(mst_jinja_run_t *r, mst_value_t subject)
{
    mst_text_t  *t;

    t = mst_python_str(r->w, subject);

    return t && mst_text_flat(r->w, t) == MST_OK ? t : NULL;
}


static int
mst_jinja_filter_result(mst_text_t *t, mst_value_t *v)
{
    *v = mst_value_text(t);

    return t ? MST_OK : MST_ERROR;
}


static int
mst_jinja_filter_default(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    *v = subject;

    if (subject.type == MST_VALUE_UNDEFINED
        || (mst_jinja_filter_flag(a->v[1]) && !mst_value_true(subject)))
    {
        *v = a->v[0];
    }

    return v->type == MST_VALUE_ABSENT
           ? mst_value_str(r->w, "", 0, MST_TEXT_VALUE, v) : MST_OK;
}


static int
mst_jinja_filter_trim(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_text_t  *t, *set;

    t = mst_jinja_filter_str(r, subject);
    set = NULL;

    if (t == NULL
        || (mst_jinja_filter_given(a->v[0])
            && mst_jinja_text(r, a->v[0], "trim", &set) != MST_OK))
    {
        return MST_ERROR;
    }

    return mst_jinja_filter_result(mst_text_strip(r->w, t, set, 1, 1), v);
}


static int
mst_jinja_filter_case(mst_jinja_run_t *r, mst_value_t subject,
    mst_case_t how, mst_value_t *v)
{
    mst_text_t  *t;

    t = mst_jinja_filter_str(r, subject);

    return mst_jinja_filter_result(t ? mst_case(r->w, t, how) : NULL, v);
}


static int
mst_jinja_filter_upper(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_filter_case(r, subject, MST_CASE_UPPER, v);
}


static int
mst_jinja_filter_lower(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_filter_case(r, subject, MST_CASE_LOWER, v);
}


static int
mst_jinja_filter_capitalize(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_filter_case(r, subject, MST_CASE_CAPITALIZE, v);
}


static mst_text_t *
mst_jinja_filter_word(mst_jinja_run_t *r, const mst_text_t *t, size_t from,
    size_t to, mst_text_t *sum)
{
    size_t       n;
    mst_text_t  *part;

    n = mst_text_char(t, from);

    part = mst_text_part(r->w, t, from, n);
    part = part ? mst_case(r->w, part, MST_CASE_UPPER) : NULL;
    sum = part ? mst_text_sum(r->w, sum, part) : NULL;

    part = mst_text_part(r->w, t, from + n, to - from - n);
    part = part ? mst_case(r->w, part, MST_CASE_LOWER) : NULL;

    return sum && part ? mst_text_sum(r->w, sum, part) : NULL;
}


/* words begin behind white space, hyphens and opening brackets only */

static int
mst_jinja_filter_title(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i, n, from;
    uint32_t     cp;
    mst_text_t  *t, *sum;

    (void) a;

    t = mst_jinja_filter_str(r, subject);
    sum = t ? mst_text_of(r->w, "", 0, MST_TEXT_VALUE) : NULL;

    for (i = 0, from = 0; sum && i < t->len; i += n) {
        cp = mst_text_decode(t->data + i, t->data + t->len, &n);

        if (i + n < t->len && !mst_text_is_space(cp)
            && (cp >= 0x80 || strchr("-({[<", (int) cp) == NULL))
        {
            continue;
        }

        sum = mst_jinja_filter_word(r, t, from, i + n, sum);
        from = i + n;
    }

    return mst_jinja_filter_result(sum, v);
}


static int
mst_jinja_filter_string(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_filter_result(mst_python_str(r->w, subject), v);
}


int
mst_jinja_replace(mst_jinja_run_t *r, mst_text_t *t, const mst_text_t *from,
    mst_text_t *to, int64_t count, mst_value_t *v)
{
    int64_t      at;
    size_t       off, step;
    mst_text_t  *sum, *part;

    sum = mst_text_of(r->w, "", 0, MST_TEXT_VALUE);

    for (off = 0; sum && count; count--) {
        at = mst_text_find(t, mst_text_str(from), off);

        if (at < 0) {
            break;
        }

        /* of an empty one there is one before each character */

        step = from->len || (size_t) at == t->len ? 0
               : mst_text_char(t, (size_t) at);

        if (mst_work_steps(r->w, 1) != MST_OK) {
            return MST_ERROR;
        }

        part = mst_text_part(r->w, t, off, (size_t) at - off);
        sum = part ? mst_text_sum(r->w, sum, part) : NULL;
        sum = sum ? mst_text_sum(r->w, sum, to) : NULL;
        off = (size_t) at + from->len;

        if (from->len == 0) {

            if (step == 0) {
                break;
            }

            part = mst_text_part(r->w, t, off, step);
            sum = sum && part ? mst_text_sum(r->w, sum, part) : NULL;
            off += step;
        }
    }

    part = sum ? mst_text_part(r->w, t, off, t->len - off) : NULL;

    if (mst_work_steps(r->w, t->len / 256) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_filter_result(part ? mst_text_sum(r->w, sum, part)
                                        : NULL, v);
}


static int
mst_jinja_filter_replace(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int64_t      count;
    mst_text_t  *t, *from, *to;

    count = -1;

    if (mst_jinja_filter_given(a->v[2])
        && mst_jinja_int(r, a->v[2], "replace", &count) != MST_OK)
    {
        return MST_ERROR;
    }

    t = mst_jinja_filter_str(r, subject);
    from = mst_jinja_filter_str(r, a->v[0]);
    to = mst_jinja_filter_str(r, a->v[1]);

    if (t == NULL || from == NULL || to == NULL) {
        return MST_ERROR;
    }

    return mst_jinja_replace(r, t, from, to, count, v);
}


static int
mst_jinja_filter_length(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t  n;

    (void) a;

    if (mst_jinja_length(r, subject, &n) != MST_OK) {
        return MST_ERROR;
    }

    *v = mst_value_int((int64_t) n);

    return MST_OK;
}


/* indent=4 or indent="\t", separators=(",", ":") */

static int
mst_jinja_filter_json_form(mst_jinja_run_t *r, const mst_jinja_args_t *a,
    mst_python_dumps_t *f)
{
    size_t       i;
    int64_t      n;
    mst_text_t  *t;

    static const char  spaces[] =
        "                                                                ";

    memset(f, 0, sizeof(mst_python_dumps_t));

    f->item = mst_str(", ", 2);
    f->key = mst_str(": ", 2);
    f->ascii = mst_jinja_filter_flag(a->v[0]) != 0;
    f->sort = mst_jinja_filter_flag(a->v[3]) != 0;

    if (mst_jinja_filter_given(a->v[1])) {
        f->item.len = 1;

        if (a->v[1].type == MST_VALUE_TEXT) {

            if (mst_jinja_text(r, a->v[1], "tojson", &t) != MST_OK) {
                return MST_ERROR;
            }

            f->indent = t->data;
            f->indent_len = t->len;

        } else {

            if (mst_jinja_int(r, a->v[1], "tojson", &n) != MST_OK) {
                return MST_ERROR;
            }

            if (n > MST_JINJA_FILTER_INDENT) {
                return mst_jinja_fail(r, "tojson indents by at most %d",
                                      MST_JINJA_FILTER_INDENT);
            }

            f->indent = spaces;
            f->indent_len = n < 0 ? 0 : (size_t) n;
        }
    }

    if (!mst_jinja_filter_given(a->v[2])) {
        return MST_OK;
    }

    if ((a->v[2].type != MST_VALUE_LIST && a->v[2].type != MST_VALUE_TUPLE)
        || a->v[2].u.list->n != 2)
    {
        return mst_jinja_fail(r, "tojson needs two separators");
    }

    for (i = 0; i < 2; i++) {

        if (mst_jinja_text(r, a->v[2].u.list->items[i], "tojson", &t)
            != MST_OK)
        {
            return MST_ERROR;
        }

        *(i ? &f->key : &f->item) = mst_text_str(t);
    }

    return MST_OK;
}


static int
mst_jinja_filter_tojson(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int                 rc;
    mst_text_t         *t;
    mst_text_out_t      out;
    mst_python_dumps_t  f;

    if (mst_jinja_filter_json_form(r, a, &f) != MST_OK) {
        return MST_ERROR;
    }

    mst_text_out_init(&out);

    rc = mst_python_dumps(r->w, subject, &f, &out);
    t = rc == MST_OK ? mst_text_out_take(&out, r->w) : NULL;

    mst_text_out_fini(&out);

    return mst_jinja_filter_result(t, v);
}


static mst_text_t *
mst_jinja_filter_spaces(mst_jinja_run_t *r, mst_value_t width)
{
    char         spaces[MST_JINJA_FILTER_INDENT];
    int64_t      n;
    mst_text_t  *t;

    n = 4;

    if (width.type == MST_VALUE_TEXT) {
        return mst_jinja_text(r, width, "indent", &t) == MST_OK ? t : NULL;
    }

    if (width.type != MST_VALUE_ABSENT
        && mst_jinja_int(r, width, "indent", &n) != MST_OK)
    {
        return NULL;
    }

    if (n > MST_JINJA_FILTER_INDENT) {
        (void) mst_jinja_fail(r, "indent indents by at most %d",
                              MST_JINJA_FILTER_INDENT);
        return NULL;
    }

    memset(spaces, ' ', sizeof(spaces));

    return mst_text_copy(r->w, spaces, n < 0 ? 0 : (size_t) n,
                         MST_TEXT_TEMPLATE);
}


static int
mst_jinja_filter_indent(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    size_t       i;
    mst_text_t  *t, *spaces, *line, *end, *sum;
    mst_list_t  *lines;

    if (mst_jinja_text(r, subject, "indent", &t) != MST_OK) {
        return MST_ERROR;
    }

    end = mst_text_of(r->w, "\n", 1, MST_TEXT_TEMPLATE);
    spaces = mst_jinja_filter_spaces(r, a->v[0]);
    sum = end ? mst_text_sum(r->w, t, end) : NULL;

    if (spaces == NULL || sum == NULL || mst_text_flat(r->w, sum) != MST_OK
        || mst_jinja_lines(r, sum, 0, &lines) != MST_OK)
    {
        return MST_ERROR;
    }

    sum = mst_jinja_filter_flag(a->v[1]) ? spaces
          : mst_text_of(r->w, "", 0, MST_TEXT_TEMPLATE);

    for (i = 0; sum && i < lines->n; i++) {
        line = lines->items[i].u.text;

        if (i) {
            sum = mst_text_sum(r->w, sum, end);

            if (sum && (line->len || mst_jinja_filter_flag(a->v[2]))) {
                sum = mst_text_sum(r->w, sum, spaces);
            }
        }

        sum = sum ? mst_text_sum(r->w, sum, line) : NULL;
    }

    return mst_jinja_filter_result(sum, v);
}


static int
mst_jinja_filter_format(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    mst_text_t  *t;

    t = mst_jinja_filter_str(r, subject);

    if (t == NULL) {
        return MST_ERROR;
    }

    if (a->n_keywords) {
        return mst_jinja_fail(r, "format with named values is not supported");
    }

    return mst_jinja_format(r, t, a->v, a->n, 0, v);
}


static const mst_jinja_builtin_t  mst_jinja_filters[] = {
    { "default", "default_value,boolean", 0, mst_jinja_filter_default, 0 },
    { "d", "default_value,boolean", 0, mst_jinja_filter_default, 0 },
    { "trim", "chars", 0, mst_jinja_filter_trim, 0 },
    { "upper", "", 0, mst_jinja_filter_upper, 0 },
    { "lower", "", 0, mst_jinja_filter_lower, 0 },
    { "capitalize", "", 0, mst_jinja_filter_capitalize, 0 },
    { "title", "", 0, mst_jinja_filter_title, 0 },
    { "string", "", 0, mst_jinja_filter_string, 0 },
    { "replace", "old,new,count", 2, mst_jinja_filter_replace, 0 },
    { "int", "default,base", 0, mst_jinja_number_int, 0 },
    { "float", "default", 0, mst_jinja_number_float, 0 },
    { "abs", "", 0, mst_jinja_number_abs, 0 },
    { "round", "precision,method", 0, mst_jinja_number_round, 0 },
    { "length", "", 0, mst_jinja_filter_length, 0 },
    { "count", "", 0, mst_jinja_filter_length, 0 },
    { "tojson", "ensure_ascii,indent,separators,sort_keys", 0,
      mst_jinja_filter_tojson, 0 },
    { "indent", "width,first,blank", 0, mst_jinja_filter_indent, 0 },
    { "format", "*", 0, mst_jinja_filter_format, 0 }
};


const mst_jinja_builtin_t *
mst_jinja_filter_find(mst_str_t name)
{
    const mst_jinja_builtin_t  *b;

    b = mst_jinja_builtin_find(mst_jinja_filters, sizeof(mst_jinja_filters)
                               / sizeof(mst_jinja_builtin_t), name);

    b = b ? b : mst_jinja_escape_find(name);

    return b ? b : mst_jinja_seq_find(name);
}

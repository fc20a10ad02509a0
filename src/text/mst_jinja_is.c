
/*
 * Tests, "x is defined": see mst_jinja_run.h.
 */

#include "text/mst_case.h"
#include "text/mst_jinja_lex.h"
#include "text/mst_jinja_run.h"


#define MST_JINJA_IS(type)  (1u << MST_VALUE_##type)


static int
mst_jinja_is_true(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) r;
    (void) a;

    *v = mst_value_bool(subject.type == MST_VALUE_BOOL && subject.u.n);

    return MST_OK;
}


static int
mst_jinja_is_false(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) r;
    (void) a;

    *v = mst_value_bool(subject.type == MST_VALUE_BOOL && !subject.u.n);

    return MST_OK;
}


static int
mst_jinja_is_sameas(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) r;

    *v = mst_value_bool(subject.type == a->v[0].type
                        && (subject.type == MST_VALUE_NONE
                            || subject.u.p == a->v[0].u.p));

    return MST_OK;
}


static int
mst_jinja_is_compared(mst_jinja_run_t *r, uint32_t op, mst_value_t x,
    mst_value_t y, mst_value_t *v)
{
    int  is;

    is = mst_jinja_compare(r, op, x, y);
    *v = mst_value_bool(is);

    return is == MST_ERROR ? MST_ERROR : MST_OK;
}


static int
mst_jinja_is_eq(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_compared(r, MST_JINJA_EQ, subject, a->v[0], v);
}


static int
mst_jinja_is_ne(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_compared(r, MST_JINJA_NE, subject, a->v[0], v);
}


static int
mst_jinja_is_lt(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_compared(r, '<', subject, a->v[0], v);
}


static int
mst_jinja_is_le(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_compared(r, MST_JINJA_LE, subject, a->v[0], v);
}


static int
mst_jinja_is_gt(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_compared(r, '>', subject, a->v[0], v);
}


static int
mst_jinja_is_ge(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_compared(r, MST_JINJA_GE, subject, a->v[0], v);
}


static int
mst_jinja_is_in(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_compared(r, MST_JINJA_IN, subject, a->v[0], v);
}


/* the rest of a division is 0, or is not */

static int
mst_jinja_is_rest(mst_jinja_run_t *r, mst_value_t subject, mst_value_t by,
    int zero, mst_value_t *v)
{
    if (mst_jinja_math(r, '%', subject, by, v) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_is_compared(r, MST_JINJA_EQ, *v,
                                 mst_value_int(zero ? 0 : 1), v);
}


static int
mst_jinja_is_even(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_is_rest(r, subject, mst_value_int(2), 1, v);
}


static int
mst_jinja_is_odd(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_is_rest(r, subject, mst_value_int(2), 0, v);
}


static int
mst_jinja_is_divisibleby(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    return mst_jinja_is_rest(r, subject, a->v[0], 1, v);
}


static int
mst_jinja_is_case(mst_jinja_run_t *r, mst_value_t subject,
    mst_case_is_t what, mst_value_t *v)
{
    mst_text_t  *t;

    t = mst_python_str(r->w, subject);

    if (t == NULL || mst_text_flat(r->w, t) != MST_OK
        || mst_work_steps(r->w, t->len / 8) != MST_OK)
    {
        return MST_ERROR;
    }

    *v = mst_value_bool(mst_case_is(t, what));

    return MST_OK;
}


static int
mst_jinja_is_lower(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_is_case(r, subject, MST_CASE_IS_LOWER, v);
}


static int
mst_jinja_is_upper(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    return mst_jinja_is_case(r, subject, MST_CASE_IS_UPPER, v);
}


static int
mst_jinja_is_escaped(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) r;
    (void) a;

    *v = mst_value_bool(subject.type == MST_VALUE_TEXT
                        && subject.u.text->markup);

    return MST_OK;
}


/* of what is undefined everything is said that its Python object can do */

static const mst_jinja_builtin_t  mst_jinja_tests[] = {
    { "defined", "", 0, NULL, ~MST_JINJA_IS(UNDEFINED) },
    { "undefined", "", 0, NULL, MST_JINJA_IS(UNDEFINED) },
    { "none", "", 0, NULL, MST_JINJA_IS(NONE) },
    { "boolean", "", 0, NULL, MST_JINJA_IS(BOOL) },
    { "true", "", 0, mst_jinja_is_true, 0 },
    { "false", "", 0, mst_jinja_is_false, 0 },
    { "integer", "", 0, NULL, MST_JINJA_IS(INT) | MST_JINJA_IS(BIG) },
    { "float", "", 0, NULL, MST_JINJA_IS(FLOAT) },
    { "number", "", 0, NULL,
      MST_JINJA_IS(BOOL) | MST_JINJA_IS(INT) | MST_JINJA_IS(BIG)
      | MST_JINJA_IS(FLOAT) },
    { "string", "", 0, NULL, MST_JINJA_IS(TEXT) },
    { "mapping", "", 0, NULL, MST_JINJA_IS(DICT) },
    { "sequence", "", 0, NULL, MST_JINJA_IS(LIST) | MST_JINJA_IS(TUPLE)
      | MST_JINJA_IS(TEXT) | MST_JINJA_IS(DICT) | MST_JINJA_IS(UNDEFINED) },
    { "iterable", "", 0, NULL, MST_JINJA_IS(LIST) | MST_JINJA_IS(TUPLE)
      | MST_JINJA_IS(ITERATOR) | MST_JINJA_IS(VIEW) | MST_JINJA_IS(TEXT)
      | MST_JINJA_IS(DICT) | MST_JINJA_IS(UNDEFINED) | MST_JINJA_IS(LOOP) },
    { "callable", "", 0, NULL, MST_JINJA_IS(CALL) | MST_JINJA_IS(LOOP)
      | MST_JINJA_IS(UNDEFINED) },
    { "sameas", "other", 1, mst_jinja_is_sameas, 0 },
    { "eq", "other", 1, mst_jinja_is_eq, 0 },
    { "equalto", "other", 1, mst_jinja_is_eq, 0 },
    { "==", "other", 1, mst_jinja_is_eq, 0 },
    { "ne", "other", 1, mst_jinja_is_ne, 0 },
    { "!=", "other", 1, mst_jinja_is_ne, 0 },
    { "lt", "other", 1, mst_jinja_is_lt, 0 },
    { "lessthan", "other", 1, mst_jinja_is_lt, 0 },
    { "<", "other", 1, mst_jinja_is_lt, 0 },
    { "le", "other", 1, mst_jinja_is_le, 0 },
    { "<=", "other", 1, mst_jinja_is_le, 0 },
    { "gt", "other", 1, mst_jinja_is_gt, 0 },
    { "greaterthan", "other", 1, mst_jinja_is_gt, 0 },
    { ">", "other", 1, mst_jinja_is_gt, 0 },
    { "ge", "other", 1, mst_jinja_is_ge, 0 },
    { ">=", "other", 1, mst_jinja_is_ge, 0 },
    { "in", "seq", 1, mst_jinja_is_in, 0 },
    { "even", "", 0, mst_jinja_is_even, 0 },
    { "odd", "", 0, mst_jinja_is_odd, 0 },
    { "divisibleby", "num", 1, mst_jinja_is_divisibleby, 0 },
    { "lower", "", 0, mst_jinja_is_lower, 0 },
    { "upper", "", 0, mst_jinja_is_upper, 0 },
    { "escaped", "", 0, mst_jinja_is_escaped, 0 }
};


const mst_jinja_builtin_t *
mst_jinja_is_find(mst_str_t name)
{
    return mst_jinja_builtin_find(mst_jinja_tests, sizeof(mst_jinja_tests)
                                  / sizeof(mst_jinja_builtin_t), name);
}

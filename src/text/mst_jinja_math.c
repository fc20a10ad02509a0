
/*
 * Arithmetic and comparisons: see mst_jinja_run.h.  Integers have 64 bits;
 * a result beyond is an error, never another number.
 */

#include <math.h>
#include <string.h>

#include "text/mst_jinja_lex.h"
#include "text/mst_jinja_run.h"


static int
mst_jinja_math_types(mst_jinja_run_t *r, uint32_t op, mst_value_t a,
    mst_value_t b)
{
    size_t       i;
    mst_value_t  v;

    for (i = 0; i < 2; i++) {
        v = i ? b : a;

        if (v.type == MST_VALUE_UNDEFINED && v.u.text) {
            return mst_jinja_fail(r, "'%.*s' is undefined",
                                  (int) (v.u.text->len < 100 ? v.u.text->len
                                                             : 100),
                                  v.u.text->data);
        }
    }

    return mst_jinja_fail(r, "'%c%.*s' does not go between %s and %s",
                          (char) (op & 0xff), op > 0xff, op > 0xff
                          ? (op >> 8 == '/' ? "/" : "*") : "",
                          mst_value_kind(a), mst_value_kind(b));
}


static int
mst_jinja_math_range(mst_jinja_run_t *r)
{
    return mst_jinja_fail(r, "an integer is out of range, -2^63 to 2^63-1");
}


static int
mst_jinja_math_power(mst_jinja_run_t *r, int64_t base, int64_t n,
    mst_value_t *v)
{
    int64_t  x;

    if (n < 0) {

        if (base == 0) {
            return mst_jinja_fail(r, "0 has no negative power");
        }

        *v = mst_value_float(pow((double) base, (double) n));

        return MST_OK;
    }

    for (x = 1; n; n >>= 1) {

        if ((n & 1) && __builtin_mul_overflow(x, base, &x)) {
            return mst_jinja_math_range(r);
        }

        if (n > 1 && __builtin_mul_overflow(base, base, &base)) {
            return mst_jinja_math_range(r);
        }
    }

    *v = mst_value_int(x);

    return MST_OK;
}


/* the quotient is rounded down, the remainder has the divisor's sign */

static int
mst_jinja_math_ints(mst_jinja_run_t *r, uint32_t op, int64_t a, int64_t b,
    mst_value_t *v)
{
    int      bad;
    int64_t  n;

    bad = 0;
    n = 0;

    if ((op == '/' || op == '%' || op == MST_JINJA_FLOORDIV) && b == 0) {
        return mst_jinja_fail(r, "division by zero");
    }

    switch (op) {

    case '+':
        bad = __builtin_add_overflow(a, b, &n);
        break;

    case '-':
        bad = __builtin_sub_overflow(a, b, &n);
        break;

    case '*':
        bad = __builtin_mul_overflow(a, b, &n);
        break;

    case '/':
        *v = mst_value_float((double) a / (double) b);
        return MST_OK;

    case MST_JINJA_POWER:
        return mst_jinja_math_power(r, a, b, v);

    default:
        if (b == -1) {
            bad = op != '%' && __builtin_sub_overflow((int64_t) 0, a, &n);
            break;
        }

        n = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        n = op == '%' ? a - n * b : n;
    }

    if (bad) {
        return mst_jinja_math_range(r);
    }

    *v = mst_value_int(n);

    return MST_OK;
}


static int
mst_jinja_math_floats(mst_jinja_run_t *r, uint32_t op, double a, double b,
    mst_value_t *v)
{
    double  rest, n;

    if ((op == '/' || op == '%' || op == MST_JINJA_FLOORDIV) && b == 0) {
        return mst_jinja_fail(r, "division by zero");
    }

    switch (op) {

    case '+':
        *v = mst_value_float(a + b);
        return MST_OK;

    case '-':
        *v = mst_value_float(a - b);
        return MST_OK;

    case '*':
        *v = mst_value_float(a * b);
        return MST_OK;

    case '/':
        *v = mst_value_float(a / b);
        return MST_OK;

    case MST_JINJA_POWER:
        n = pow(a, b);

        if (isnan(n) && !isnan(a) && !isnan(b)) {
            return mst_jinja_fail(r, "a power of a negative number is not "
                                  "real");
        }

        if (isinf(n) && !isinf(a) && !isinf(b)) {
            return mst_jinja_fail(r, "a power is out of range");
        }

        *v = mst_value_float(n);
        return MST_OK;

    default:
        rest = fmod(a, b);
        n = (a - rest) / b;

        if (rest != 0) {

            if ((rest < 0) != (b < 0)) {
                rest += b;
                n -= 1;
            }

        } else {
            rest = copysign(0, b);
        }

        if (op == '%') {
            *v = mst_value_float(rest);
            return MST_OK;
        }

        /* the quotient is near an integer, which it is */

        n = n != 0 ? floor(n) + (n - floor(n) > 0.5) : copysign(0, a / b);
        *v = mst_value_float(n);

        return MST_OK;
    }
}


static int
mst_jinja_math_join(mst_jinja_run_t *r, mst_value_t a, mst_value_t b,
    mst_value_t *v)
{
    size_t       n;
    mst_list_t  *list;

    n = a.u.list->n + b.u.list->n;
    list = mst_list_create(r->w, n);

    if (list == NULL || mst_work_steps(r->w, n / 16) != MST_OK) {
        return MST_ERROR;
    }

    if (a.u.list->n) {
        memcpy(list->items, a.u.list->items,
               a.u.list->n * sizeof(mst_value_t));
    }

    if (b.u.list->n) {
        memcpy(list->items + a.u.list->n, b.u.list->items,
               b.u.list->n * sizeof(mst_value_t));
    }

    list->n = n;
    *v = mst_value_list(a.type, list);

    return MST_OK;
}


/* text or list, times */

static int
mst_jinja_math_repeat(mst_jinja_run_t *r, mst_value_t a, int64_t times,
    mst_value_t *v)
{
    int64_t         i;
    mst_list_t     *list;
    mst_text_t     *t;
    mst_text_out_t  out;

    t = NULL;
    list = NULL;

    if (a.type == MST_VALUE_TEXT) {
        mst_text_out_init(&out);

        for (i = 0; i < times && a.u.text->len; i++) {

            if (mst_work_steps(r->w, 1) != MST_OK
                || mst_text_out_add(&out, r->w, a.u.text) != MST_OK)
            {
                mst_text_out_fini(&out);
                return MST_ERROR;
            }
        }

        t = mst_text_out_take(&out, r->w);
        t = t ? mst_text_markup(r->w, t, a.u.text->markup) : NULL;
        mst_text_out_fini(&out);
        *v = mst_value_text(t);

        return t ? MST_OK : MST_ERROR;
    }

    list = mst_list_create(r->w, 0);
    if (list == NULL) {
        return MST_ERROR;
    }

    *v = mst_value_list(a.type, list);

    for (i = 0; i < times && a.u.list->n; i++) {

        if (mst_work_steps(r->w, 1) != MST_OK
            || mst_jinja_math_join(r, *v, a, v) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_jinja_math_is_seq(mst_value_t v)
{
    return v.type == MST_VALUE_TEXT || v.type == MST_VALUE_LIST
           || v.type == MST_VALUE_TUPLE;
}


static int
mst_jinja_math_is_int(mst_value_t v)
{
    return v.type == MST_VALUE_INT || v.type == MST_VALUE_BOOL;
}


int
mst_jinja_math(mst_jinja_run_t *r, uint32_t op, mst_value_t a,
    mst_value_t b, mst_value_t *v)
{
    mst_text_t  *t;

    if (mst_jinja_math_is_int(a) && mst_jinja_math_is_int(b)) {
        return mst_jinja_math_ints(r, op, a.u.n, b.u.n, v);
    }

    if (mst_value_is_number(a) && mst_value_is_number(b)) {
        return mst_jinja_math_floats(r, op, mst_value_double(a),
                                     mst_value_double(b), v);
    }

    if (op == '+' && a.type == b.type && mst_jinja_math_is_seq(a)) {

        if (a.type != MST_VALUE_TEXT) {
            return mst_jinja_math_join(r, a, b, v);
        }

        t = mst_jinja_escape_sum(r, a.u.text, b.u.text);
        *v = mst_value_text(t);

        return t ? MST_OK : MST_ERROR;
    }

    if (op == '*' && mst_jinja_math_is_seq(a) && mst_jinja_math_is_int(b)) {
        return mst_jinja_math_repeat(r, a, b.u.n, v);
    }

    if (op == '*' && mst_jinja_math_is_int(a) && mst_jinja_math_is_seq(b)) {
        return mst_jinja_math_repeat(r, b, a.u.n, v);
    }

    if (op == '%' && a.type == MST_VALUE_TEXT) {
        return b.type == MST_VALUE_TUPLE
               ? mst_jinja_format(r, a.u.text, b.u.list->items, b.u.list->n,
                                  0, v)
               : mst_jinja_format(r, a.u.text, &b, 1,
                                  b.type == MST_VALUE_LIST
                                  || b.type == MST_VALUE_DICT
                                  || b.type == MST_VALUE_UNDEFINED, v);
    }

    return mst_jinja_math_types(r, op, a, b);
}


int
mst_jinja_compare(mst_jinja_run_t *r, uint32_t op, mst_value_t a,
    mst_value_t b)
{
    int  is, order;

    if (op == MST_JINJA_EQ || op == MST_JINJA_NE) {
        is = mst_value_equal(r->w, a, b);

        return is == MST_ERROR ? MST_ERROR : is == (op == MST_JINJA_EQ);
    }

    if (op == MST_JINJA_IN || op == MST_JINJA_NOT_IN) {
        is = mst_jinja_contains(r, b, a);

        return is == MST_ERROR ? MST_ERROR : is == (op == MST_JINJA_IN);
    }

    if (mst_value_order(r->w, a, b, &order) != MST_OK) {
        return MST_ERROR;
    }

    /* 2: not a number, which nothing is before or behind */

    switch (op) {

    case '<':
        return order < 0;

    case '>':
        return order > 0 && order != 2;

    case MST_JINJA_LE:
        return order <= 0;

    default:
        return order >= 0 && order != 2;
    }
}

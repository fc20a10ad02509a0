
/*
 * Filters that make numbers: see mst_jinja_run.h.
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_jinja_run.h"


#define MST_JINJA_NUMBER_SIZE  64      /* bytes of a number's text */


/* what int(text, base) reads; MST_DECLINED: nothing of the kind */

static int
mst_jinja_number_parse_int(const mst_text_t *t, int base, int64_t *n)
{
    char    text[MST_JINJA_NUMBER_SIZE], *end;
    size_t  i, k;

    for (i = 0, k = 0; i < t->len; i++) {

        if (k == sizeof(text) - 1) {
            return MST_DECLINED;
        }

        if (t->data[i] == '_' && i && i + 1 < t->len
            && t->data[i - 1] != '_' && t->data[i + 1] != '_')
        {
            continue;
        }

        text[k++] = t->data[i];
    }

    text[k] = '\0';

    if (k == 0 || strlen(text) != k || (unsigned char) text[0] <= ' ') {
        return MST_DECLINED;
    }

    errno = 0;
    *n = strtoll(text, &end, base);

    return *end || errno ? MST_DECLINED : MST_OK;
}


/* what float(text) reads: digits, "inf", "nan"; no hexadecimal */

static int
mst_jinja_number_parse_float(const mst_text_t *t, double *x)
{
    char         text[MST_JINJA_NUMBER_SIZE], *end;
    const char  *p;

    if (t->len == 0 || t->len >= sizeof(text)
        || memchr(t->data, '\0', t->len) || (unsigned char) t->data[0] <= ' ')
    {
        return MST_DECLINED;
    }

    memcpy(text, t->data, t->len);
    text[t->len] = '\0';

    for (p = text; *p; p++) {

        if (strchr("xXpP(", *p)) {
            return MST_DECLINED;
        }
    }

    *x = strtod(text, &end);

    return *end ? MST_DECLINED : MST_OK;
}


static int
mst_jinja_number_undefined(mst_jinja_run_t *r, mst_value_t subject)
{
    const mst_text_t  *name;

    name = subject.u.text;

    return mst_jinja_fail(r, "'%.*s' is undefined", name
                          ? (int) (name->len < 100 ? name->len : 100) : 1,
                          name ? name->data : "?");
}


/* a double of a number or a text, MST_DECLINED: it is none */

static int
mst_jinja_number_number(mst_jinja_run_t *r, mst_value_t subject, double *x)
{
    mst_text_t  *t;

    if (subject.type == MST_VALUE_UNDEFINED) {
        return mst_jinja_number_undefined(r, subject);
    }

    if (mst_value_is_number(subject)) {
        *x = mst_value_double(subject);
        return MST_OK;
    }

    if (subject.type != MST_VALUE_TEXT) {
        return MST_DECLINED;
    }

    if (mst_text_flat(r->w, subject.u.text) != MST_OK) {
        return MST_ERROR;
    }

    t = mst_text_strip(r->w, subject.u.text, NULL, 1, 1);

    return t ? mst_jinja_number_parse_float(t, x) : MST_ERROR;
}


int
mst_jinja_number_int(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int          rc;
    double       x;
    int64_t      base, n;
    mst_text_t  *t;

    base = 10;
    *v = a->v[0].type == MST_VALUE_ABSENT ? mst_value_int(0) : a->v[0];

    if (a->v[1].type != MST_VALUE_ABSENT
        && mst_jinja_int(r, a->v[1], "int", &base) != MST_OK)
    {
        return MST_ERROR;
    }

    if (subject.type == MST_VALUE_INT || subject.type == MST_VALUE_BOOL) {
        *v = mst_value_int(subject.u.n);
        return MST_OK;
    }

    if (subject.type == MST_VALUE_TEXT) {

        if (mst_text_flat(r->w, subject.u.text) != MST_OK) {
            return MST_ERROR;
        }

        t = mst_text_strip(r->w, subject.u.text, NULL, 1, 1);

        if (t == NULL) {
            return MST_ERROR;
        }

        if (base >= 0 && base != 1 && base <= 36
            && mst_jinja_number_parse_int(t, (int) base, &n) == MST_OK)
        {
            *v = mst_value_int(n);
            return MST_OK;
        }
    }

    rc = mst_jinja_number_number(r, subject, &x);

    if (rc == MST_OK && x > -9.2e18 && x < 9.2e18) {
        *v = mst_value_int((int64_t) x);
    }

    return rc == MST_ERROR ? MST_ERROR : MST_OK;
}


int
mst_jinja_number_float(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    int     rc;
    double  x;

    *v = a->v[0].type == MST_VALUE_ABSENT ? mst_value_float(0) : a->v[0];
    rc = mst_jinja_number_number(r, subject, &x);

    if (rc == MST_OK) {
        *v = mst_value_float(x);
    }

    return rc == MST_ERROR ? MST_ERROR : MST_OK;
}


int
mst_jinja_number_abs(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    (void) a;

    if (!mst_value_is_number(subject)) {
        return mst_jinja_fail(r, "abs needs a number, not a value of type %s",
                              mst_value_kind(subject));
    }

    if (subject.type == MST_VALUE_FLOAT) {
        *v = mst_value_float(fabs(subject.u.x));
        return MST_OK;
    }

    if (subject.u.n == INT64_MIN) {
        return mst_jinja_fail(r, "an integer is out of range, -2^63 to "
                              "2^63-1");
    }

    *v = mst_value_int(subject.u.n < 0 ? -subject.u.n : subject.u.n);

    return MST_OK;
}


int
mst_jinja_number_round(mst_jinja_run_t *r, mst_value_t subject,
    const mst_jinja_args_t *a, mst_value_t *v)
{
    char         text[400];
    double       x, scale;
    int64_t      digits;
    mst_text_t  *how;

    digits = 0;
    how = NULL;

    if ((a->v[0].type != MST_VALUE_ABSENT
         && mst_jinja_int(r, a->v[0], "round", &digits) != MST_OK)
        || (a->v[1].type != MST_VALUE_ABSENT
            && mst_jinja_text(r, a->v[1], "round", &how) != MST_OK))
    {
        return MST_ERROR;
    }

    if (!mst_value_is_number(subject) || digits < -15 || digits > 15) {
        return mst_jinja_fail(r, "round needs a number, and a precision of "
                              "-15 to 15");
    }

    x = mst_value_double(subject);

    if (how && !mst_str_eq(mst_text_str(how), "common")) {
        scale = pow(10, (double) digits);

        if (mst_str_eq(mst_text_str(how), "ceil")) {
            x = ceil(x * scale) / scale;

        } else if (mst_str_eq(mst_text_str(how), "floor")) {
            x = floor(x * scale) / scale;

        } else {
            return mst_jinja_fail(r, "round is one of common, ceil and "
                                  "floor");
        }

    } else if (subject.type != MST_VALUE_FLOAT && digits >= 0) {
        *v = mst_value_int(subject.u.n);
        return MST_OK;

    } else if (digits < 0) {
        scale = pow(10, (double) -digits);
        x = rint(x / scale) * scale;

        if (subject.type != MST_VALUE_FLOAT) {
            *v = mst_value_int((int64_t) x);
            return MST_OK;
        }

    } else if (fabs(x) < 1e22) {
        (void) snprintf(text, sizeof(text), "%.*f", (int) digits, x);
        x = strtod(text, NULL);
    }

    *v = mst_value_float(x);

    return MST_OK;
}


/*
 * json.loads: see mst_python_loads.h.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_python_loads.h"


#define MST_PYTHON_LOADS_DIGITS  18    /* fit in 64 bits, whatever they are */
#define MST_PYTHON_LOADS_NUMBER  400   /* bytes of a float: the rest of a
                                          longer one decides nothing that
                                          strtod() would see differently */


typedef struct {
    mst_work_t  *w;
    const char  *p;
    const char  *end;
    int          depth;
} mst_python_loads_t;


static int mst_python_loads_value(mst_python_loads_t *in, mst_value_t *v);


static void
mst_python_loads_space(mst_python_loads_t *in)
{
    while (in->p < in->end
           && (*in->p == ' ' || *in->p == '\t' || *in->p == '\n'
               || *in->p == '\r'))
    {
        in->p++;
    }
}


static int
mst_python_loads_char(mst_python_loads_t *in, char c)
{
    if (in->p == in->end || *in->p != c) {
        return 0;
    }

    in->p++;

    return 1;
}


static int
mst_python_loads_word(mst_python_loads_t *in, const char *word)
{
    size_t  n;

    n = strlen(word);

    if ((size_t) (in->end - in->p) < n || memcmp(in->p, word, n) != 0) {
        return 0;
    }

    in->p += n;

    return 1;
}


static int
mst_python_loads_hex(const char *p, const char *end, uint32_t *cp)
{
    int   i;
    char  c;

    if (end - p < 4) {
        return 0;
    }

    for (i = 0, *cp = 0; i < 4; i++) {
        c = p[i];

        *cp = *cp * 16 + (uint32_t) (c >= '0' && c <= '9' ? c - '0'
                                     : (c | 32) - 'a' + 10);

        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f')))
        {
            return 0;
        }
    }

    return 1;
}


/* behind "\u": MST_OK or MST_DECLINED */

static int
mst_python_loads_unicode(mst_python_loads_t *in, char **q)
{
    size_t    n;
    uint32_t  cp, low;

    if (!mst_python_loads_hex(in->p, in->end, &cp)) {
        return MST_DECLINED;
    }

    in->p += 4;

    if (cp >= 0xd800 && cp < 0xdc00 && in->end - in->p >= 6
        && in->p[0] == '\\' && in->p[1] == 'u'
        && mst_python_loads_hex(in->p + 2, in->end, &low)
        && low >= 0xdc00 && low < 0xe000)
    {
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        in->p += 6;

    } else if (cp >= 0xd800 && cp < 0xe000) {
        cp = 0xfffd;
    }

    mst_text_encode(cp, *q, &n);
    *q += n;

    return MST_OK;
}


static int
mst_python_loads_escape(mst_python_loads_t *in, char **q)
{
    const char  *at;

    static const char  from[] = "\"\\/bfnrt";
    static const char  to[] = "\"\\/\b\f\n\r\t";

    if (in->p == in->end) {
        return MST_DECLINED;
    }

    if (*in->p == 'u') {
        in->p++;
        return mst_python_loads_unicode(in, q);
    }

    at = memchr(from, *in->p, sizeof(from) - 1);

    if (at == NULL) {
        return MST_DECLINED;
    }

    *(*q)++ = to[at - from];
    in->p++;

    return MST_OK;
}


/* behind the quotation mark */

static int
mst_python_loads_string(mst_python_loads_t *in, mst_value_t *v)
{
    int          rc;
    char        *copy, *q;
    const char  *start;

    for (start = in->p; in->p < in->end; in->p++) {

        if (*in->p == '"' || *in->p == '\\' || (unsigned char) *in->p < ' ') {
            break;
        }
    }

    if (mst_python_loads_char(in, '"')) {
        return mst_value_str(in->w, start, (size_t) (in->p - 1 - start),
                             MST_TEXT_VALUE, v);
    }

    /* nothing gets longer: "\u0080" is two bytes */

    for (q = (char *) in->p; q < in->end && *q != '"'; q++) {
        q += *q == '\\' && q + 1 < in->end;
    }

    copy = mst_work_alloc(in->w, (size_t) (q - start) + 4);
    if (copy == NULL) {
        return MST_ERROR;
    }

    memcpy(copy, start, (size_t) (in->p - start));
    q = copy + (in->p - start);

    while (in->p < in->end && *in->p != '"') {

        if ((unsigned char) *in->p < ' ') {
            return MST_DECLINED;
        }

        if (*in->p != '\\') {
            *q++ = *in->p++;
            continue;
        }

        in->p++;
        rc = mst_python_loads_escape(in, &q);

        if (rc != MST_OK) {
            return rc;
        }
    }

    if (!mst_python_loads_char(in, '"')) {
        return MST_DECLINED;
    }

    return mst_value_str(in->w, copy, (size_t) (q - copy), MST_TEXT_VALUE, v);
}


static size_t
mst_python_loads_run(mst_python_loads_t *in)
{
    const char  *start;

    for (start = in->p; in->p < in->end && *in->p >= '0' && *in->p <= '9';
         in->p++)
    {
        /* void */
    }

    return (size_t) (in->p - start);
}


static int
mst_python_loads_integer(mst_python_loads_t *in, const char *start,
    mst_value_t *v)
{
    int64_t      n;
    const char  *p;

    if (in->p - start <= MST_PYTHON_LOADS_DIGITS) {

        for (n = 0, p = start + (*start == '-'); p < in->p; p++) {
            n = n * 10 + (*p - '0');
        }

        *v = mst_value_int(*start == '-' ? -n : n);

        return MST_OK;
    }

    if (mst_value_str(in->w, start, (size_t) (in->p - start), MST_TEXT_VALUE,
                      v)
        != MST_OK)
    {
        return MST_ERROR;
    }

    v->type = MST_VALUE_BIG;

    return MST_OK;
}


/* both read nothing where the digits are missing: the mark may be followed
   by what is no number */

static int
mst_python_loads_fraction(mst_python_loads_t *in)
{
    const char  *start;

    start = in->p;

    if (mst_python_loads_char(in, '.') && mst_python_loads_run(in)) {
        return 1;
    }

    in->p = start;

    return 0;
}


static int
mst_python_loads_exponent(mst_python_loads_t *in)
{
    const char  *start;

    start = in->p;

    if (mst_python_loads_char(in, 'e') || mst_python_loads_char(in, 'E')) {

        if (!mst_python_loads_char(in, '-')) {
            (void) mst_python_loads_char(in, '+');
        }

        if (mst_python_loads_run(in)) {
            return 1;
        }
    }

    in->p = start;

    return 0;
}


static int
mst_python_loads_number(mst_python_loads_t *in, mst_value_t *v)
{
    int          fraction, exponent;
    char         text[MST_PYTHON_LOADS_NUMBER];
    size_t       n;
    const char  *start;

    start = in->p;
    (void) mst_python_loads_char(in, '-');

    n = mst_python_loads_char(in, '0') ? 1 : mst_python_loads_run(in);

    if (n == 0) {
        in->p = start;

        if (!mst_python_loads_word(in, "-Infinity")) {
            return MST_DECLINED;
        }

        *v = mst_value_float(-INFINITY);

        return MST_OK;
    }

    fraction = mst_python_loads_fraction(in);
    exponent = mst_python_loads_exponent(in);

    if (!fraction && !exponent) {
        return mst_python_loads_integer(in, start, v);
    }

    n = (size_t) (in->p - start);

    if (n >= sizeof(text)) {
        return mst_err_set(in->w->err, "a number of %zu bytes is too long, "
                           "at most %zu", n, sizeof(text) - 1);
    }

    memcpy(text, start, n);
    text[n] = '\0';
    *v = mst_value_float(strtod(text, NULL));

    return MST_OK;
}


static int
mst_python_loads_list(mst_python_loads_t *in, mst_value_t *v)
{
    int          rc;
    mst_list_t  *list;
    mst_value_t  item;

    list = mst_list_create(in->w, 0);
    if (list == NULL) {
        return MST_ERROR;
    }

    *v = mst_value_list(MST_VALUE_LIST, list);
    mst_python_loads_space(in);

    if (mst_python_loads_char(in, ']')) {
        return MST_OK;
    }

    for ( ;; ) {
        rc = mst_python_loads_value(in, &item);

        if (rc != MST_OK) {
            return rc;
        }

        if (mst_list_add(in->w, list, item) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_python_loads_char(in, ']')) {
            return MST_OK;
        }

        if (!mst_python_loads_char(in, ',')) {
            return MST_DECLINED;
        }
    }
}


static int
mst_python_loads_object(mst_python_loads_t *in, mst_value_t *v)
{
    int          rc;
    mst_dict_t  *d;
    mst_value_t  key, item;

    d = mst_dict_create(in->w, 0);
    if (d == NULL) {
        return MST_ERROR;
    }

    *v = mst_value_dict(MST_VALUE_DICT, d);
    mst_python_loads_space(in);

    if (mst_python_loads_char(in, '}')) {
        return MST_OK;
    }

    for ( ;; ) {
        mst_python_loads_space(in);

        if (!mst_python_loads_char(in, '"')) {
            return MST_DECLINED;
        }

        rc = mst_python_loads_string(in, &key);

        if (rc != MST_OK) {
            return rc;
        }

        mst_python_loads_space(in);

        if (!mst_python_loads_char(in, ':')) {
            return MST_DECLINED;
        }

        rc = mst_python_loads_value(in, &item);

        if (rc != MST_OK) {
            return rc;
        }

        if (mst_dict_set(in->w, d, key, item) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_python_loads_char(in, '}')) {
            return MST_OK;
        }

        if (!mst_python_loads_char(in, ',')) {
            return MST_DECLINED;
        }
    }
}


/* a word, else a number */

static int
mst_python_loads_constant(mst_python_loads_t *in, mst_value_t *v)
{
    if (mst_python_loads_word(in, "null")) {
        *v = mst_value(MST_VALUE_NONE);

    } else if (mst_python_loads_word(in, "true")) {
        *v = mst_value_bool(1);

    } else if (mst_python_loads_word(in, "false")) {
        *v = mst_value_bool(0);

    } else if (mst_python_loads_word(in, "NaN")) {
        *v = mst_value_float(NAN);

    } else if (mst_python_loads_word(in, "Infinity")) {
        *v = mst_value_float(INFINITY);

    } else {
        return mst_python_loads_number(in, v);
    }

    return MST_OK;
}


/* with the white space around it */

static int
mst_python_loads_value(mst_python_loads_t *in, mst_value_t *v)
{
    int  rc;

    if (mst_work_steps(in->w, 1) != MST_OK) {
        return MST_ERROR;
    }

    if (in->depth == MST_VALUE_DEPTH) {
        return mst_err_set(in->w->err, "JSON is nested deeper than %d levels",
                           MST_VALUE_DEPTH);
    }

    mst_python_loads_space(in);
    in->depth++;

    if (mst_python_loads_char(in, '"')) {
        rc = mst_python_loads_string(in, v);

    } else if (mst_python_loads_char(in, '{')) {
        rc = mst_python_loads_object(in, v);

    } else if (mst_python_loads_char(in, '[')) {
        rc = mst_python_loads_list(in, v);

    } else {
        rc = mst_python_loads_constant(in, v);
    }

    in->depth--;
    mst_python_loads_space(in);

    return rc;
}


int
mst_python_loads(mst_work_t *w, mst_str_t s, mst_value_t *v)
{
    int                   rc;
    mst_python_loads_t  in;

    in.w = w;
    in.p = s.data;
    in.end = s.data + s.len;
    in.depth = 0;

    if (mst_work_steps(w, s.len / 64) != MST_OK) {
        return MST_ERROR;
    }

    rc = mst_python_loads_value(&in, v);

    return rc == MST_OK && in.p < in.end ? MST_DECLINED : rc;
}

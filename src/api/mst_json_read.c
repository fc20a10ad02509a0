
/*
 * JSON in pieces: see mst_json_read.h.
 *
 * What comes next is a state.  Whatever is no string is read here, a mark or
 * a value at a time; strings: mst_json_string.c.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/mst_json_read_local.h"
#include "base/mst_mem.h"

/* what is made costs as much as so many bytes that are looked at */
#define MST_JSON_READ_VALUE   64
#define MST_JSON_READ_LIST    256

/* bytes of a field's name that an error message repeats */
#define MST_JSON_READ_NAMED   40


mst_json_read_t *
mst_json_read_create(const char *data, size_t len)
{
    mst_json_read_t  *r;

    r = mst_calloc(1, sizeof(mst_json_read_t));

    if (r == NULL) {
        return NULL;
    }

    r->start = (const unsigned char *) data;
    r->p = r->start;
    r->end = len ? r->start + len : r->start;

    mst_buf_init(&r->key);
    mst_buf_init(&r->text);

    return r;
}


void
mst_json_read_destroy(mst_json_read_t *r)
{
    if (r == NULL) {
        return;
    }

    json_decref(r->root);
    mst_buf_fini(&r->key);
    mst_buf_fini(&r->text);
    mst_free(r);
}


json_t *
mst_json_read_take(mst_json_read_t *r)
{
    json_t  *root;

    root = r->root;
    r->root = NULL;

    return root;
}


int
mst_json_read_memory(mst_json_read_t *r)
{
    return mst_api_error_set(r->e, 500, NULL, NULL, "out of memory");
}


int
mst_json_read_error(mst_json_read_t *r, const char *what)
{
    return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                             "the body is not valid JSON: %s at byte %zu",
                             what, (size_t) (r->p - r->start));
}


int
mst_json_read_bad(mst_json_read_t *r, const char *what)
{
    if (r->p == r->end) {
        return mst_json_read_error(r, "it ends too early,");
    }

    what = *r->p < ' ' ? "a raw control character"
           : *r->p >= 0x80 && mst_json_utf8(r->p, r->end) == 0
           ? "invalid UTF-8" : what;

    return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                             "the body is not valid JSON: %s (0x%02x) at "
                             "byte %zu", what, *r->p,
                             (size_t) (r->p - r->start));
}


int
mst_json_read_put(mst_json_read_t *r, json_t *v)
{
    int      rc;
    json_t  *to;

    if (v == NULL) {
        return mst_json_read_memory(r);
    }

    if (r->depth == 0) {
        if (!json_is_object(v)) {
            json_decref(v);
            return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                                     "the body must be a JSON object");
        }

        r->root = v;
        return MST_OK;
    }

    to = r->open[r->depth - 1];

    rc = json_is_object(to) ? json_object_set_new_nocheck(to, r->key.data, v)
                            : json_array_append_new(to, v);
    if (rc != 0) {
        return mst_json_read_memory(r);
    }

    mst_json_read_spend(r, MST_JSON_READ_VALUE);
    r->state = MST_JSON_READ_NEXT;

    return MST_OK;
}


static int
mst_json_read_open(mst_json_read_t *r, int object)
{
    json_t  *v;

    if (r->depth == MST_JSON_MAX_DEPTH) {
        return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                                 "the body is nested deeper than %d levels, "
                                 "at byte %zu", MST_JSON_MAX_DEPTH,
                                 (size_t) (r->p - r->start));
    }

    if (++r->lists > MST_JSON_MAX_OBJECTS) {
        return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                                 "the body holds more than %d objects and "
                                 "arrays", MST_JSON_MAX_OBJECTS);
    }

    /* jansson seeds its hash with random bytes at its first object */

    v = object ? json_object() : json_array();

    if (mst_json_read_put(r, v) != MST_OK) {
        return MST_ERROR;
    }

    r->open[r->depth++] = v;
    r->state = object ? MST_JSON_READ_FIRST : MST_JSON_READ_ITEM;
    r->p++;
    mst_json_read_spend(r, MST_JSON_READ_LIST);

    return MST_OK;
}


static int
mst_json_read_close(mst_json_read_t *r, int object)
{
    if (json_is_object(r->open[r->depth - 1]) != object) {
        return mst_json_read_bad(r, "the end of something else");
    }

    r->p++;
    r->depth--;
    r->state = r->depth ? MST_JSON_READ_NEXT : MST_JSON_READ_TAIL;

    return MST_OK;
}


static size_t
mst_json_read_digits(const unsigned char *p, const unsigned char *end)
{
    size_t  n;

    for (n = 0; (size_t) (end - p) > n && p[n] >= '0' && p[n] <= '9'; n++) {
        /* void */
    }

    return n;
}


/* the length of the number at r->p, 0 = it is none */

static size_t
mst_json_read_lexeme(const mst_json_read_t *r, int *real)
{
    size_t                n;
    const unsigned char  *p;

    p = r->p;
    p += (*p == '-');
    n = mst_json_read_digits(p, r->end);

    if (n == 0 || (n > 1 && *p == '0')) {
        return 0;
    }

    p += n;
    *real = 0;

    if (p < r->end && *p == '.') {
        *real = 1;
        n = mst_json_read_digits(++p, r->end);

        if (n == 0) {
            return 0;
        }

        p += n;
    }

    if (p < r->end && (*p | 0x20) == 'e') {
        *real = 1;
        p++;
        p += (p < r->end && (*p == '+' || *p == '-'));
        n = mst_json_read_digits(p, r->end);

        if (n == 0) {
            return 0;
        }

        p += n;
    }

    return (size_t) (p - r->p);
}


/* names the field of the body in which the number stands, unless the name is
   one that no field has */

static int
mst_json_read_large(mst_json_read_t *r)
{
    size_t       n;
    const char  *name;

    name = "";

    if (r->depth == 1) {
        n = strspn(r->key.data, "abcdefghijklmnopqrstuvwxyz_");
        name = r->key.data[n] == '\0' && n <= MST_JSON_READ_NAMED
               ? r->key.data : "";
    }

    return mst_api_error_set(r->e, 400, "invalid_json", name,
                             "%s%sa number is too large, integers have 64 "
                             "bits: -2^63 to 2^63-1, at byte %zu", name,
                             *name ? ": " : "", (size_t) (r->p - r->start));
}


static int
mst_json_read_number(mst_json_read_t *r)
{
    int     real;
    char    text[MST_JSON_MAX_NUMBER + 1];
    size_t  n;
    double  d;
    json_t *v;

    d = 0;
    real = 0;
    n = mst_json_read_lexeme(r, &real);

    if (n == 0) {
        return mst_json_read_bad(r, "no number");
    }

    if (n > MST_JSON_MAX_NUMBER) {
        return mst_json_read_bad(r, "a number of too many digits");
    }

    memcpy(text, r->p, n);
    text[n] = '\0';
    errno = 0;

    if (real) {
        d = strtod(text, NULL);
        v = d - d == 0 ? json_real(d) : NULL;

    } else {
        v = json_integer(strtoll(text, NULL, 10));
    }

    if (real ? v == NULL && d - d != 0 : errno == ERANGE) {
        json_decref(v);
        return mst_json_read_large(r);
    }

    r->p += n;

    return mst_json_read_put(r, v);
}


static int
mst_json_read_literal(mst_json_read_t *r)
{
    size_t  i, n;

    static const char *const  names[] = { "true", "false", "null" };

    for (i = 0; i < 3; i++) {
        n = strlen(names[i]);

        if ((size_t) (r->end - r->p) >= n && memcmp(r->p, names[i], n) == 0) {
            r->p += n;
            return mst_json_read_put(r, i == 0 ? json_true()
                                        : i == 1 ? json_false()
                                                 : json_null());
        }
    }

    return mst_json_read_bad(r, "no value");
}


static void
mst_json_read_quote(mst_json_read_t *r, int name)
{
    r->p++;
    r->from = r->p;
    r->name = name;
    r->escaped = 0;
    r->state = MST_JSON_READ_STRING;
}


static int
mst_json_read_value(mst_json_read_t *r)
{
    switch (*r->p) {

    case '"':
        mst_json_read_quote(r, 0);
        return MST_OK;

    case '{':
        return mst_json_read_open(r, 1);

    case '[':
        return mst_json_read_open(r, 0);

    default:
        return *r->p == '-' || (*r->p >= '0' && *r->p <= '9')
               ? mst_json_read_number(r) : mst_json_read_literal(r);
    }
}


/* whatever is no string: one mark, or one value */

static int
mst_json_read_mark(mst_json_read_t *r)
{
    unsigned char  c;

    c = *r->p;

    switch (r->state) {

    case MST_JSON_READ_ITEM:
        return c == ']' ? mst_json_read_close(r, 0) : mst_json_read_value(r);

    case MST_JSON_READ_FIRST:
        if (c == '}') {
            return mst_json_read_close(r, 1);
        }

        /* fall through */

    case MST_JSON_READ_NAME:
        if (c != '"') {
            return mst_json_read_bad(r, "no key");
        }

        mst_json_read_quote(r, 1);
        return MST_OK;

    case MST_JSON_READ_COLON:
        if (c != ':') {
            return mst_json_read_bad(r, "no colon");
        }

        r->p++;
        r->state = MST_JSON_READ_ANY;
        return MST_OK;

    case MST_JSON_READ_NEXT:
        if (c == '}' || c == ']') {
            return mst_json_read_close(r, c == '}');
        }

        if (c != ',') {
            return mst_json_read_bad(r, "neither a comma nor an end");
        }

        if (++r->values > MST_JSON_MAX_VALUES) {
            return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                                     "the body holds more than %d values",
                                     MST_JSON_MAX_VALUES);
        }

        r->p++;
        r->state = json_is_object(r->open[r->depth - 1])
                   ? MST_JSON_READ_NAME : MST_JSON_READ_ANY;
        return MST_OK;

    case MST_JSON_READ_TAIL:
        return mst_json_read_bad(r, "more behind the object");

    default:
        return mst_json_read_value(r);
    }
}


static void
mst_json_read_blanks(mst_json_read_t *r)
{
    while (r->p < r->end && r->left
           && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t'
               || *r->p == '\r'))
    {
        r->p++;
        r->left--;
    }
}


static int
mst_json_read_step(mst_json_read_t *r)
{
    if (r->state == MST_JSON_READ_STRING) {
        return mst_json_string_scan(r);
    }

    if (r->state == MST_JSON_READ_UNESCAPE) {
        return mst_json_string_unescape(r);
    }

    mst_json_read_blanks(r);

    if (r->p == r->end && r->state == MST_JSON_READ_TAIL) {
        r->state = MST_JSON_READ_DONE;
        return MST_OK;
    }

    if (r->p == r->end) {
        return mst_json_read_bad(r, "");
    }

    if (r->left == 0) {
        return MST_OK;
    }

    mst_json_read_spend(r, 1);

    return mst_json_read_mark(r);
}


int
mst_json_read_run(mst_json_read_t *r, size_t budget, mst_api_error_t *e)
{
    r->e = e;
    r->left = budget;

    if (r->start == r->end) {
        return mst_api_error_set(e, 400, "invalid_json", NULL,
                                 "the body is empty, must be a JSON object");
    }

    while (r->state != MST_JSON_READ_DONE) {

        if (r->left == 0) {
            return MST_AGAIN;
        }

        if (mst_json_read_step(r) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}

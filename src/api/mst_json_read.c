
/*
 * JSON in pieces: see mst_json_read.h.
 *
 * What comes next is a state; a string or its copy may be left and gone on
 * with at any character.  The text is looked at once, strings with escapes
 * twice.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/mst_json.h"
#include "api/mst_json_read.h"
#include "base/mst_mem.h"

/* what is made costs as much as so many bytes that are looked at */
#define MST_JSON_READ_VALUE   64
#define MST_JSON_READ_LIST    256
#define MST_JSON_READ_ESCAPE  8
#define MST_JSON_READ_COPY    8                /* bytes copied for one */

#define MST_JSON_READ_KEEP    65536            /* bytes of the buffer */

#define MST_JSON_READ_ONES    0x0101010101010101ull
#define MST_JSON_READ_HIGH    0x8080808080808080ull


/* what stands for one byte behind a backslash */

static const char  mst_json_read_code[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f',
    ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'
};


typedef enum {
    MST_JSON_READ_ANY = 0,                     /* a value */
    MST_JSON_READ_ITEM,                        /* a value, or ] */
    MST_JSON_READ_NAME,                        /* a key */
    MST_JSON_READ_FIRST,                       /* a key, or } */
    MST_JSON_READ_COLON,
    MST_JSON_READ_NEXT,                        /* a comma, or an end */
    MST_JSON_READ_TAIL,                        /* nothing more */
    MST_JSON_READ_STRING,                      /* its end */
    MST_JSON_READ_UNESCAPE,                    /* of one that has ended */
    MST_JSON_READ_DONE
} mst_json_read_state_t;


struct mst_json_read_s {
    const unsigned char    *start;
    const unsigned char    *p;
    const unsigned char    *end;
    size_t                  left;              /* of the budget */
    mst_json_read_state_t   state;
    mst_api_error_t        *e;

    json_t                 *root;
    json_t                 *open[MST_JSON_MAX_DEPTH];  /* parts of root */
    size_t                  depth;
    size_t                  lists;
    size_t                  values;

    const unsigned char    *from;              /* of a string, what is not yet
                                                  copied */
    const unsigned char    *last;              /* its quotation mark */
    int                     name;              /* it is a key */
    int                     escaped;
    mst_buf_t               key;               /* with a NUL */
    mst_buf_t               text;              /* without its escapes */
};


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


static void
mst_json_read_spend(mst_json_read_t *r, size_t n)
{
    r->left -= n < r->left ? n : r->left;
}


static int
mst_json_read_memory(mst_json_read_t *r)
{
    return mst_api_error_set(r->e, 500, NULL, NULL, "out of memory");
}


static int
mst_json_read_error(mst_json_read_t *r, const char *what)
{
    return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                             "the body is not valid JSON: %s at byte %zu",
                             what, (size_t) (r->p - r->start));
}


/* a byte that stands at the wrong place, or at none */

static int
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


/* v has its place, or is freed; NULL: no memory */

static int
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
        return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                                 "a number is too large, integers have 64 "
                                 "bits: -2^63 to 2^63-1, at byte %zu",
                                 (size_t) (r->p - r->start));
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


/* which of eight bytes end a run of plain ones; those above the first one may
   be wrong */

static uint64_t
mst_json_read_stops(uint64_t w)
{
    uint64_t  quote, slash;

    quote = w ^ (MST_JSON_READ_ONES * '"');
    slash = w ^ (MST_JSON_READ_ONES * '\\');

    return (((w - MST_JSON_READ_ONES * ' ') & ~w)
            | ((quote - MST_JSON_READ_ONES) & ~quote)
            | ((slash - MST_JSON_READ_ONES) & ~slash)
            | w)
           & MST_JSON_READ_HIGH;
}


/* from a backslash behind what it escapes */

static int
mst_json_read_escape(mst_json_read_t *r)
{
    int32_t               n;
    const unsigned char  *p;

    p = r->p;
    r->escaped = 1;
    mst_json_read_spend(r, MST_JSON_READ_ESCAPE);

    if (r->end - p > 1 && mst_json_read_code[p[1]]) {
        r->p += 2;
        return MST_OK;
    }

    if (r->end - p < 2 || p[1] != 'u') {
        r->p++;
        return mst_json_read_bad(r, "an unknown escape");
    }

    n = mst_json_hex((const char *) p + 2, (const char *) r->end);

    if (n >= 0xd800 && n < 0xdc00 && r->end - p >= 12 && p[6] == '\\'
        && p[7] == 'u')
    {
        r->p += 6;
        n = mst_json_hex((const char *) p + 8, (const char *) r->end);
        n = n >= 0xdc00 && n <= 0xdfff ? 0 : -1;
    }

    if (n < 0 || (n >= 0xd800 && n <= 0xdfff)) {
        return mst_json_read_bad(r, "an escape that is no character");
    }

    r->p += 6;

    return MST_OK;
}


static int
mst_json_read_key(mst_json_read_t *r)
{
    size_t  n;

    n = (size_t) (r->last - r->from);

    if (n > MST_JSON_MAX_KEY) {
        return mst_api_error_set(r->e, 400, "invalid_json", NULL,
                                 "the body has a key of more than %d bytes",
                                 MST_JSON_MAX_KEY);
    }

    mst_buf_reset(&r->key);

    if (mst_buf_reserve(&r->key, n + 1) != MST_OK) {
        return mst_json_read_memory(r);
    }

    r->key.len = mst_json_unescape(mst_str((const char *) r->from, n),
                                   r->key.data);
    r->key.data[r->key.len] = '\0';

    if (memchr(r->key.data, '\0', r->key.len)) {
        return mst_json_read_error(r, "a NUL byte in object key");
    }

    r->state = MST_JSON_READ_COLON;

    return MST_OK;
}


static int
mst_json_read_whole(mst_json_read_t *r, const char *data, size_t n)
{
    mst_json_read_spend(r, n / MST_JSON_READ_COPY);

    return mst_json_read_put(r, json_stringn_nocheck(data, n));
}


/* its end was found */

static int
mst_json_read_quoted(mst_json_read_t *r)
{
    size_t  n;

    r->last = r->p++;
    n = (size_t) (r->last - r->from);

    if (r->name) {
        return mst_json_read_key(r);
    }

    if (!r->escaped) {
        return mst_json_read_whole(r, (const char *) r->from, n);
    }

    mst_buf_reset(&r->text);

    if (mst_buf_reserve(&r->text, n) != MST_OK) {
        return mst_json_read_memory(r);
    }

    r->state = MST_JSON_READ_UNESCAPE;

    return MST_OK;
}


/* a run of plain characters */

static const unsigned char *
mst_json_read_plain(const unsigned char *p, const unsigned char *stop,
    const unsigned char *end)
{
    size_t    n;
    uint64_t  w;

    while (p < stop) {

        while (stop - p >= 8) {
            memcpy(&w, p, 8);

            if (mst_json_read_stops(w)) {
                break;
            }

            p += 8;
        }

        while (p < stop && *p < 0x80) {
            if (*p < ' ' || *p == '"' || *p == '\\') {
                return p;
            }

            p++;
        }

        while (p < stop && *p >= 0x80) {
            n = mst_json_utf8(p, end);

            if (n == 0) {
                return p;
            }

            p += n;
        }
    }

    return p;
}


/* to its end, if that is near; an open one comes to r->end */

static int
mst_json_read_string(mst_json_read_t *r)
{
    const unsigned char  *p, *stop;

    while (r->left) {
        p = r->p;
        stop = (size_t) (r->end - p) > r->left ? p + r->left : r->end;

        r->p = mst_json_read_plain(p, stop, r->end);
        mst_json_read_spend(r, (size_t) (r->p - p));

        if (r->p < r->end && *r->p == '"') {
            return mst_json_read_quoted(r);
        }

        if (r->p < r->end && *r->p == '\\') {
            if (mst_json_read_escape(r) != MST_OK) {
                return MST_ERROR;
            }

            continue;
        }

        if (r->p < stop || stop == r->end) {
            return mst_json_read_bad(r, "");
        }
    }

    return MST_OK;
}


/* the escape at p, which is one */

static size_t
mst_json_read_decode(mst_json_read_t *r, const unsigned char *p)
{
    size_t  n;

    if (mst_json_read_code[p[1]]) {
        r->text.data[r->text.len++] = mst_json_read_code[p[1]];
        return 2;
    }

    n = (p[2] | 0x20) == 'd' && strchr("89abAB", p[3]) ? 12 : 6;
    r->text.len += mst_json_unescape(mst_str((const char *) p, n),
                                     r->text.data + r->text.len);

    return n;
}


static int
mst_json_read_unescape(mst_json_read_t *r)
{
    int                   rc;
    size_t                n;
    const unsigned char  *p;

    while (r->from < r->last && r->left) {

        if (*r->from == '\\') {
            r->from += mst_json_read_decode(r, r->from);
            mst_json_read_spend(r, MST_JSON_READ_ESCAPE);
            continue;
        }

        n = (size_t) (r->last - r->from);
        n = n < r->left ? n : r->left;
        p = memchr(r->from, '\\', n);
        n = p ? (size_t) (p - r->from) : n;

        memcpy(r->text.data + r->text.len, r->from, n);
        r->text.len += n;
        r->from += n;
        mst_json_read_spend(r, n);
    }

    if (r->from < r->last) {
        return MST_OK;
    }

    rc = mst_json_read_whole(r, r->text.data, r->text.len);

    if (r->text.size > MST_JSON_READ_KEEP) {
        mst_buf_fini(&r->text);
    }

    return rc;
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
        return mst_json_read_string(r);
    }

    if (r->state == MST_JSON_READ_UNESCAPE) {
        return mst_json_read_unescape(r);
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

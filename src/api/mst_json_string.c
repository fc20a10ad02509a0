
/*
 * Strings of JSON in pieces: see mst_json_read_local.h.
 *
 * A string is looked at once, eight bytes at a time where they are plain, and
 * once more where it has escapes, to copy it without them.  Either may be
 * left at any character and gone on with; what a key or a value holds is
 * made at its end.
 */

#include <stdint.h>
#include <string.h>

#include "api/mst_json_read_local.h"

/* costs: see mst_json_read.c */
#define MST_JSON_STRING_ESCAPE  8
#define MST_JSON_STRING_COPY    8              /* bytes copied for one */

#define MST_JSON_STRING_KEEP    65536          /* bytes of the buffer */

#define MST_JSON_STRING_ONES    0x0101010101010101ull
#define MST_JSON_STRING_HIGH    0x8080808080808080ull


/* what stands for one byte behind a backslash */

static const char  mst_json_string_code[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f',
    ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'
};


/* which of eight bytes end a run of plain ones; those above the first one may
   be wrong */

static uint64_t
mst_json_string_stops(uint64_t w)
{
    uint64_t  quote, slash;

    quote = w ^ (MST_JSON_STRING_ONES * '"');
    slash = w ^ (MST_JSON_STRING_ONES * '\\');

    return (((w - MST_JSON_STRING_ONES * ' ') & ~w)
            | ((quote - MST_JSON_STRING_ONES) & ~quote)
            | ((slash - MST_JSON_STRING_ONES) & ~slash)
            | w)
           & MST_JSON_STRING_HIGH;
}


/* from a backslash behind what it escapes */

static int
mst_json_string_escape(mst_json_read_t *r)
{
    int32_t               n;
    const unsigned char  *p;

    p = r->p;
    r->escaped = 1;
    mst_json_read_spend(r, MST_JSON_STRING_ESCAPE);

    if (r->end - p > 1 && mst_json_string_code[p[1]]) {
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
mst_json_string_key(mst_json_read_t *r)
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
mst_json_string_whole(mst_json_read_t *r, const char *data, size_t n)
{
    mst_json_read_spend(r, n / MST_JSON_STRING_COPY);

    return mst_json_read_put(r, json_stringn_nocheck(data, n));
}


/* its end was found */

static int
mst_json_string_quoted(mst_json_read_t *r)
{
    size_t  n;

    r->last = r->p++;
    n = (size_t) (r->last - r->from);

    if (r->name) {
        return mst_json_string_key(r);
    }

    if (!r->escaped) {
        return mst_json_string_whole(r, (const char *) r->from, n);
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
mst_json_string_plain(const unsigned char *p, const unsigned char *stop,
    const unsigned char *end)
{
    size_t    n;
    uint64_t  w;

    while (p < stop) {

        while (stop - p >= 8) {
            memcpy(&w, p, 8);

            if (mst_json_string_stops(w)) {
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


int
mst_json_string_scan(mst_json_read_t *r)
{
    const unsigned char  *p, *stop;

    while (r->left) {
        p = r->p;
        stop = (size_t) (r->end - p) > r->left ? p + r->left : r->end;

        r->p = mst_json_string_plain(p, stop, r->end);
        mst_json_read_spend(r, (size_t) (r->p - p));

        if (r->p < r->end && *r->p == '"') {
            return mst_json_string_quoted(r);
        }

        if (r->p < r->end && *r->p == '\\') {
            if (mst_json_string_escape(r) != MST_OK) {
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
mst_json_string_decode(mst_json_read_t *r, const unsigned char *p)
{
    size_t  n;

    if (mst_json_string_code[p[1]]) {
        r->text.data[r->text.len++] = mst_json_string_code[p[1]];
        return 2;
    }

    n = (p[2] | 0x20) == 'd' && strchr("89abAB", p[3]) ? 12 : 6;
    r->text.len += mst_json_unescape(mst_str((const char *) p, n),
                                     r->text.data + r->text.len);

    return n;
}


int
mst_json_string_unescape(mst_json_read_t *r)
{
    int                   rc;
    size_t                n;
    const unsigned char  *p;

    while (r->from < r->last && r->left) {

        if (*r->from == '\\') {
            r->from += mst_json_string_decode(r, r->from);
            mst_json_read_spend(r, MST_JSON_STRING_ESCAPE);
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

    rc = mst_json_string_whole(r, r->text.data, r->text.len);

    if (r->text.size > MST_JSON_STRING_KEEP) {
        mst_buf_fini(&r->text);
    }

    return rc;
}

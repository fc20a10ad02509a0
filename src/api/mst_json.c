
/*
 * JSON at the door: see mst_json.h.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mst_json.h"
#include "api/mst_json_read.h"


/* decimals of a float that is no smaller than 1e-5: nine digits */
#define MST_JSON_DECIMALS  15


static char *mst_json_escape(char *q, unsigned char c);
static int mst_json_decimal(mst_buf_t *out, int negative, uint64_t units,
    int k);


/*
 * What the writer does with a byte: 0 copies it, 'u' writes \u00XX, '8'
 * starts a multi-byte character (or is invalid), anything else stands
 * behind a backslash.  U+007F needs no escape.
 */

static const char  mst_json_kind[256] = {
    [0 ... 7] = 'u',
    ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n',
    [11] = 'u',
    ['\f'] = 'f', ['\r'] = 'r',
    [14 ... 31] = 'u',
    ['"'] = '"', ['\\'] = '\\',
    [128 ... 255] = '8'
};


json_t *
mst_json_parse(const char *data, size_t len, mst_api_error_t *e)
{
    json_t           *root;
    mst_json_read_t  *r;

    r = mst_json_read_create(data, len);

    if (r == NULL) {
        (void) mst_api_error_set(e, 500, NULL, NULL, "out of memory");
        return NULL;
    }

    root = mst_json_read_run(r, SIZE_MAX, e) == MST_OK
           ? mst_json_read_take(r) : NULL;
    mst_json_read_destroy(r);

    return root;
}


/*
 * RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.  Only
 * the second byte has limits that depend on the first.
 */

size_t
mst_json_utf8(const unsigned char *p, const unsigned char *end)
{
    size_t         i, n;
    unsigned char  low, high;

    low = 0x80;
    high = 0xbf;

    if (*p < 0x80) {
        return 1;
    }

    if (*p < 0xc2 || *p > 0xf4) {
        return 0;
    }

    if (*p < 0xe0) {
        n = 2;

    } else if (*p < 0xf0) {
        n = 3;
        low = *p == 0xe0 ? 0xa0 : 0x80;
        high = *p == 0xed ? 0x9f : 0xbf;

    } else {
        n = 4;
        low = *p == 0xf0 ? 0x90 : 0x80;
        high = *p == 0xf4 ? 0x8f : 0xbf;
    }

    if ((size_t) (end - p) < n || p[1] < low || p[1] > high) {
        return 0;
    }

    for (i = 2; i < n; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) {
            return 0;
        }
    }

    return n;
}


int32_t
mst_json_hex(const char *p, const char *end)
{
    int      i;
    char     c;
    int32_t  n;

    if (end - p < 4) {
        return -1;
    }

    for (i = 0, n = 0; i < 4; i++) {
        c = p[i] >= 'A' && p[i] <= 'F' ? (char) (p[i] - 'A' + 'a') : p[i];

        if (c >= '0' && c <= '9') {
            n = n * 16 + c - '0';

        } else if (c >= 'a' && c <= 'f') {
            n = n * 16 + c - 'a' + 10;

        } else {
            return -1;
        }
    }

    return n;
}


/* half a pair becomes U+FFFD; the escape is as long as any UTF-8 of it */

static char *
mst_json_code(int32_t n, char *q)
{
    n = n >= 0xd800 && n <= 0xdfff ? 0xfffd : n;

    if (n < 0x80) {
        *q++ = (char) n;
        return q;
    }

    if (n >= 0x10000) {
        *q++ = (char) (0xf0 | n >> 18);
        *q++ = (char) (0x80 | (n >> 12 & 0x3f));

    } else if (n >= 0x800) {
        *q++ = (char) (0xe0 | n >> 12);
    }

    *q++ = n < 0x800 ? (char) (0xc0 | n >> 6)
                     : (char) (0x80 | (n >> 6 & 0x3f));
    *q++ = (char) (0x80 | (n & 0x3f));

    return q;
}


size_t
mst_json_unescape(mst_str_t s, char *to)
{
    char        *q;
    int32_t      n, low;
    const char  *p, *end, *c;

    static const char  from[] = "\"\\/bfnrt";
    static const char  code[] = "\"\\/\b\f\n\r\t";

    q = to;
    p = s.data;
    end = s.len ? p + s.len : p;

    while (p < end) {

        if (*p != '\\' || end - p < 2) {
            *q++ = *p++;
            continue;
        }

        c = p[1] ? strchr(from, p[1]) : NULL;

        if (c) {
            *q++ = code[c - from];
            p += 2;
            continue;
        }

        n = p[1] == 'u' ? mst_json_hex(p + 2, end) : -1;

        if (n < 0) {
            *q++ = *p++;
            continue;
        }

        p += 6;

        if (n >= 0xd800 && n < 0xdc00 && end - p >= 6 && p[0] == '\\'
            && p[1] == 'u')
        {
            low = mst_json_hex(p + 2, end);

            if (low >= 0xdc00 && low <= 0xdfff) {
                n = 0x10000 + ((n - 0xd800) << 10) + (low - 0xdc00);
                p += 6;
            }
        }

        q = mst_json_code(n, q);
    }

    return (size_t) (q - to);
}


/*
 * The worst case is six bytes for one, so room for that much of a run is
 * made once and the bytes are stored without further checks; a long string
 * goes in pieces, lest the buffer grow to six times the text.
 */

int
mst_json_string(mst_buf_t *out, mst_str_t s)
{
    char                 *q;
    size_t                n, len;
    const unsigned char  *p, *end, *stop;

    len = out->len;
    p = (const unsigned char *) s.data;
    end = s.len ? p + s.len : p;

    (void) mst_buf_char(out, '"');

    while (p < end) {
        stop = end - p > 512 ? p + 512 : end;

        if (mst_buf_reserve(out, 6 * (size_t) (stop - p)) != MST_OK) {
            out->len = len;
            return MST_ERROR;
        }

        q = out->data + out->len;

        while (p < stop) {

            if (mst_json_kind[*p] == 0) {
                *q++ = (char) *p++;
                continue;
            }

            if (*p < 0x80) {
                q = mst_json_escape(q, *p++);
                continue;
            }

            n = mst_json_utf8(p, end);

            if (n == 0) {
                memcpy(q, "\xef\xbf\xbd", 3);
                q += 3;
                p++;
                continue;
            }

            memcpy(q, p, n);
            q += n;
            p += n;
        }

        out->len = (size_t) (q - out->data);
    }

    if (mst_buf_char(out, '"') != MST_OK) {
        out->len = len;
        return MST_ERROR;
    }

    return MST_OK;
}


static char *
mst_json_escape(char *q, unsigned char c)
{
    static const char  hex[] = "0123456789abcdef";

    *q++ = '\\';
    *q++ = mst_json_kind[c];

    if (mst_json_kind[c] == 'u') {
        *q++ = '0';
        *q++ = '0';
        *q++ = hex[c >> 4];
        *q++ = hex[c & 15];
    }

    return q;
}


int
mst_json_number(mst_buf_t *out, double x)
{
    int   n, digits;
    char  text[32];

    if (!isfinite(x)) {
        return mst_buf_text(out, "null");
    }

    for (digits = 6; digits <= 17; digits++) {
        n = snprintf(text, sizeof(text), "%.*g", digits, x);

        if (strtod(text, NULL) == x) {
            break;
        }
    }

    return mst_buf_append(out, text, (size_t) n);
}


/*
 * A report of log-probabilities holds twenty numbers for each token, so the
 * usual ones are written without snprintf(): the fewest decimals k for which
 * round(x * 10^k) / 10^k is x again.  Both are exact integers in a double.
 */

int
mst_json_float(mst_buf_t *out, float x)
{
    int       k, n, digits;
    char      text[32];
    double    scale, y;
    uint64_t  units;

    if (!isfinite(x)) {
        return mst_buf_text(out, "null");
    }

    y = fabs((double) x);

    if (y >= 1e-5 && y < 1e7) {

        for (k = 0, scale = 1; k < MST_JSON_DECIMALS; k++, scale *= 10) {
            units = (uint64_t) (y * scale + 0.5);

            if ((float) ((double) units / scale) == (float) y) {
                return mst_json_decimal(out, x < 0, units, k);
            }
        }
    }

    for (digits = 6; digits <= 9; digits++) {
        n = snprintf(text, sizeof(text), "%.*g", digits, (double) x);

        if (strtof(text, NULL) == x) {
            break;
        }
    }

    return mst_buf_append(out, text, (size_t) n);
}


/* units / 10^k */

static int
mst_json_decimal(mst_buf_t *out, int negative, uint64_t units, int k)
{
    char  *p, text[32];

    p = text + sizeof(text);

    for ( /* void */ ; k > 0; k--) {
        *--p = (char) ('0' + units % 10);
        units /= 10;

        if (k == 1) {
            *--p = '.';
        }
    }

    do {
        *--p = (char) ('0' + units % 10);
        units /= 10;
    } while (units);

    if (negative) {
        *--p = '-';
    }

    return mst_buf_append(out, p, (size_t) (text + sizeof(text) - p));
}

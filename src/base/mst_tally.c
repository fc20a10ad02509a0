
/*
 * The file is read twice: checked to its end before the first entry counts.
 */

#include "base/mst_tally.h"

#include <limits.h>


#define MST_TALLY_HEAD   "mistral_quota 1\n"
#define MST_TALLY_START  253402300799          /* the end of the year 9999 */


typedef struct {
    mst_str_t   rest;          /* not yet read */
    unsigned    line;
} mst_tally_reader_t;


static int mst_tally_scan(mst_str_t text, mst_tally_pt add, void *data,
    mst_err_t *err);
static int mst_tally_line(mst_tally_reader_t *r, mst_str_t *line);
static int mst_tally_number(mst_str_t *s, char end, uint64_t max,
    uint64_t *n);
static int mst_tally_key(mst_str_t s, char key[MST_TALLY_KEY], size_t *len);
static int mst_tally_digit(char c);
static int mst_tally_plain(unsigned char c);


void
mst_tally_begin(mst_buf_t *out)
{
    (void) mst_buf_text(out, MST_TALLY_HEAD);
}


void
mst_tally_add(mst_buf_t *out, const mst_tally_t *t)
{
    size_t                i, from;
    const unsigned char  *key;

    key = (const unsigned char *) t->key.data;

    (void) mst_buf_uint(out, (uint64_t) t->start);
    (void) mst_buf_char(out, ' ');
    (void) mst_buf_uint(out, t->used);
    (void) mst_buf_char(out, ' ');

    for (i = 0; i < t->key.len; i++) {

        for (from = i; i < t->key.len && mst_tally_plain(key[i]); i++) {
            /* void */
        }

        (void) mst_buf_append(out, key + from, i - from);

        if (i < t->key.len) {
            (void) mst_buf_printf(out, "%%%02X", key[i]);
        }
    }

    (void) mst_buf_char(out, '\n');
}


void
mst_tally_end(mst_buf_t *out, uint64_t n)
{
    (void) mst_buf_printf(out, "end %llu\n", (unsigned long long) n);
}


int
mst_tally_parse(mst_str_t text, mst_tally_pt add, void *data, mst_err_t *err)
{
    if (mst_tally_scan(text, NULL, NULL, err) != MST_OK) {
        return MST_ERROR;
    }

    return mst_tally_scan(text, add, data, err);
}


static int
mst_tally_scan(mst_str_t text, mst_tally_pt add, void *data, mst_err_t *err)
{
    char                key[MST_TALLY_KEY];
    uint64_t            n, start, count;
    mst_str_t           line;
    mst_tally_t         t;
    mst_tally_reader_t  r;

    r.rest = text;
    r.line = 0;

    if (mst_tally_line(&r, &line) != MST_OK
        || line.len != sizeof(MST_TALLY_HEAD) - 2
        || memcmp(line.data, MST_TALLY_HEAD, line.len) != 0)
    {
        return mst_err_set(err, "line 1 is not \"mistral_quota 1\"");
    }

    for (n = 0; mst_tally_line(&r, &line) == MST_OK; n++) {

        if (line.len > 4 && memcmp(line.data, "end ", 4) == 0) {
            line.data += 4;
            line.len -= 4;

            if (mst_tally_number(&line, '\0', UINT64_MAX, &count) != MST_OK
                || count != n || r.rest.len != 0)
            {
                return mst_err_set(err, "line %u is no end of %llu entries",
                                   r.line, (unsigned long long) n);
            }

            return MST_OK;
        }

        if (mst_tally_number(&line, ' ', MST_TALLY_START, &start) != MST_OK
            || mst_tally_number(&line, ' ', UINT64_MAX, &t.used) != MST_OK
            || mst_tally_key(line, key, &t.key.len) != MST_OK)
        {
            break;
        }

        if (add) {
            t.start = (int64_t) start;
            t.key.data = key;
            add(data, &t);
        }
    }

    return mst_err_set(err, r.rest.len == 0 && line.len == 0
                       ? "it has no end" : "line %u is broken", r.line);
}


/* up to a newline, which must be there; an empty line is none */

static int
mst_tally_line(mst_tally_reader_t *r, mst_str_t *line)
{
    const char  *nl;

    nl = r->rest.len ? memchr(r->rest.data, '\n', r->rest.len) : NULL;

    r->line++;
    *line = mst_str(r->rest.data, nl ? (size_t) (nl - r->rest.data) : 0);

    if (line->len == 0) {
        return MST_DONE;
    }

    r->rest.data += line->len + 1;
    r->rest.len -= line->len + 1;

    return MST_OK;
}


/* digits up to "end", which goes too, or to the line's end for '\0' */

static int
mst_tally_number(mst_str_t *s, char end, uint64_t max, uint64_t *n)
{
    size_t    i;
    unsigned  digit;

    *n = 0;

    for (i = 0; i < s->len && s->data[i] != end; i++) {
        digit = (unsigned) (s->data[i] - '0');

        if (digit > 9 || *n > (max - digit) / 10) {
            return MST_ERROR;
        }

        *n = *n * 10 + digit;
    }

    if (i == 0 || (end && i == s->len) || (!end && i < s->len)) {
        return MST_ERROR;
    }

    i += end != '\0';
    s->data += i;
    s->len -= i;

    return MST_OK;
}


static int
mst_tally_key(mst_str_t s, char key[MST_TALLY_KEY], size_t *len)
{
    int     high, low;
    size_t  i;

    *len = 0;

    for (i = 0; i < s.len; i++) {

        if (*len == MST_TALLY_KEY) {
            return MST_ERROR;
        }

        if (mst_tally_plain((unsigned char) s.data[i])) {
            key[(*len)++] = s.data[i];
            continue;
        }

        if (s.data[i] != '%' || s.len - i < 3) {
            return MST_ERROR;
        }

        high = mst_tally_digit(s.data[i + 1]);
        low = mst_tally_digit(s.data[i + 2]);

        if (high < 0 || low < 0) {
            return MST_ERROR;
        }

        key[(*len)++] = (char) (high << 4 | low);
        i += 2;
    }

    return *len ? MST_OK : MST_ERROR;
}


static int
mst_tally_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}


static int
mst_tally_plain(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '%';
}


/*
 * Stop strings: see mst_stop.h.
 *
 * One automaton of Knuth, Morris and Pratt per string.  Each knows the
 * longest beginning of its string that the text ends with; the longest of
 * them all is what is held back.  Held bytes need no buffer: they are the
 * beginning of that string.  One automaton for all strings (Aho, Corasick)
 * would need a transition table of megabytes for 16 strings of 256 bytes,
 * or the same walk along failure links; an answer has a few bytes a
 * millisecond.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_stop.h"


typedef struct {
    const char  *data;         /* the string */
    size_t      *fail;         /* fail[i]: length of the longest proper border
                                  of its first i bytes; 0 .. len */
    size_t       len;          /* >= 1 */
    size_t       matched;      /* the text ends with so many first bytes */
} mst_stop_string_t;


struct mst_stop_s {
    mst_stop_string_t  *strings;
    size_t              n;
    const char         *held;  /* first bytes of one of the strings */
    size_t              n_held;
    int                 done;  /* a string was complete */
    size_t             *fails; /* the storage of all "fail" */
    char               *data;  /* the storage of all strings */
};


static void
mst_stop_prepare(mst_stop_string_t *p)
{
    size_t  i, k;

    p->fail[0] = 0;
    p->fail[1] = 0;
    k = 0;

    for (i = 1; i < p->len; i++) {

        while (k && p->data[i] != p->data[k]) {
            k = p->fail[k];
        }

        if (p->data[i] == p->data[k]) {
            k++;
        }

        p->fail[i + 1] = k;
    }
}


mst_stop_t *
mst_stop_create(const mst_str_t *stops, size_t n)
{
    char               *data;
    size_t              i, total, *fails;
    mst_stop_t         *s;
    mst_stop_string_t  *p;

    s = mst_calloc(1, sizeof(mst_stop_t));
    if (s == NULL) {
        return NULL;
    }

    total = 0;

    for (i = 0; i < n; i++) {
        total += stops[i].len;
    }

    s->strings = mst_calloc(n, sizeof(mst_stop_string_t));
    s->fails = mst_calloc(total + n, sizeof(size_t));
    s->data = mst_alloc(total);

    if (s->strings == NULL || s->fails == NULL || s->data == NULL) {
        mst_stop_destroy(s);
        return NULL;
    }

    data = s->data;
    fails = s->fails;

    for (i = 0; i < n; i++) {

        if (stops[i].len == 0) {
            continue;
        }

        p = &s->strings[s->n++];
        p->data = data;
        p->fail = fails;
        p->len = stops[i].len;

        memcpy(data, stops[i].data, p->len);
        data += p->len;
        fails += p->len + 1;

        mst_stop_prepare(p);
    }

    return s;
}


void
mst_stop_destroy(mst_stop_t *s)
{
    if (s == NULL) {
        return;
    }

    mst_free(s->strings);
    mst_free(s->fails);
    mst_free(s->data);
    mst_free(s);
}


static void
mst_stop_advance(mst_stop_string_t *p, char c)
{
    while (p->matched && p->data[p->matched] != c) {
        p->matched = p->fail[p->matched];
    }

    if (p->data[p->matched] == c) {
        p->matched++;
    }
}


/*
 * All automata see c; what was held, and c, goes to "out" but for what is
 * to be held from now on.  That is never more than n_held + 1 bytes, and
 * a complete string counts as held: it is the longest one then.
 */

static int
mst_stop_byte(mst_stop_t *s, char c, mst_buf_t *out)
{
    int                 done;
    size_t              i, longest, send;
    const char         *held;
    mst_stop_string_t  *p;

    done = 0;
    held = NULL;
    longest = 0;

    for (i = 0; i < s->n; i++) {
        p = &s->strings[i];
        mst_stop_advance(p, c);

        /* of those complete the longest began first, and hides the longer
           beginning of a string that could only end later */

        if (done && p->matched < p->len) {
            continue;
        }

        if ((!done && p->matched == p->len) || p->matched > longest) {
            longest = p->matched;
            held = p->data;
        }

        done |= p->matched == p->len;
    }

    send = s->n_held + 1 - longest;

    if (send > s->n_held) {

        if (mst_buf_append(out, s->held, s->n_held) != MST_OK
            || mst_buf_char(out, c) != MST_OK)
        {
            return MST_ERROR;
        }

    } else if (send && mst_buf_append(out, s->held, send) != MST_OK) {
        return MST_ERROR;
    }

    s->held = held;
    s->n_held = longest;
    s->done = done;

    return done ? MST_DONE : MST_OK;
}


int
mst_stop_push(mst_stop_t *s, const char *data, size_t len, mst_buf_t *out)
{
    int     rc;
    size_t  i;

    if (s->done) {
        return MST_DONE;
    }

    if (s->n == 0) {
        return mst_buf_append(out, data, len);
    }

    for (i = 0; i < len; i++) {
        rc = mst_stop_byte(s, data[i], out);

        if (rc != MST_OK) {
            return rc;
        }
    }

    return MST_OK;
}


int
mst_stop_finish(mst_stop_t *s, mst_buf_t *out)
{
    size_t  n;

    if (s->done) {
        return MST_OK;
    }

    n = s->n_held;
    s->n_held = 0;

    return mst_buf_append(out, s->held, n);
}

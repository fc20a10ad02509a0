
/*
 * What a parser of calls tells its sink, as a transcript, with the text cut
 * in every way.
 *
 * Marks are bytes here: \1 [TOOL_CALLS], \2 [CALL_ID], \3 [ARGS], \4
 * [THINK], \5 [/THINK], \6 <tool_call> or <|python_tag|>.
 */

#ifndef MST_TOOLCALL_HEAR_H
#define MST_TOOLCALL_HEAR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_toolcall.h"

#define SEED  12345


static const mst_toolmark_t  marks = {
    1, 2, 3, 4, 5, -1, 0, MST_TOOLMARK_BRACKETS
};

static const mst_toolmark_t  tags = {
    -1, -1, -1, -1, -1, 6, 0, MST_TOOLMARK_TAGS
};

static const mst_toolmark_t  bare = {
    -1, -1, -1, -1, -1, 6, 0, MST_TOOLMARK_BARE
};


/* what the sink heard: neighbours of a kind are one */
typedef struct {
    mst_buf_t  out;
    char       kind;
    int        ids;            /* written, too */
} heard_t;


static int
hear(heard_t *h, char kind, const char *p, size_t n)
{
    if (n == 0) {
        return MST_OK;
    }

    if (h->kind != kind || kind == 'C') {
        (void) mst_buf_printf(&h->out, "%s%c:", h->kind ? "|" : "", kind);
        h->kind = kind;
    }

    return mst_buf_append(&h->out, p, n);
}


static int
hear_text(void *data, const char *p, size_t n)
{
    return hear(data, 'T', p, n);
}


static int
hear_thought(void *data, const char *p, size_t n)
{
    return hear(data, 'R', p, n);
}


static int
hear_call(void *data, mst_str_t name, const char *id)
{
    heard_t  *h;

    h = data;

    assert_int_equal(strlen(id), MST_TOOLMARK_ID);
    (void) hear(h, 'C', name.data, name.len);

    return h->ids ? mst_buf_printf(&h->out, "#%s", id) : MST_OK;
}


static int
hear_arguments(void *data, const char *p, size_t n)
{
    return hear(data, 'A', p, n);
}


static void
hear_broken(void *data, const char *why)
{
    assert_non_null(why);
    (void) hear(data, 'X', "!", 1);
}


/* names of one letter, and "get_" */

static int
hear_known(void *data, mst_str_t name)
{
    (void) data;

    return name.len == 1
           || (name.len > 4 && memcmp(name.data, "get_", 4) == 0);
}


static const mst_toolcall_sink_t  sink = {
    hear_text, hear_thought, hear_call, hear_arguments, hear_broken,
    hear_known
};


static int
feed(mst_toolcall_t *t, const char *p, size_t n, size_t step)
{
    int     rc;
    size_t  k;

    rc = MST_OK;

    while (n && rc == MST_OK) {

        if (mst_toolcall_is_mark(t, (unsigned char) *p)) {
            rc = mst_toolcall_mark(t, (unsigned char) *p);
            p++;
            n--;
            continue;
        }

        for (k = 1; k < n && k < step
             && !mst_toolcall_is_mark(t, (unsigned char) p[k]); k++)
        {
            /* void */
        }

        rc = mst_toolcall_text(t, p, k);
        p += k;
        n -= k;
    }

    return rc;
}


static void
check(const mst_toolmark_t *m, int whole, int single, const char *text,
    const char *want, int ids)
{
    int             rc;
    size_t          step;
    heard_t         h;
    mst_toolcall_t  t;

    static const size_t  steps[] = { 1, 2, 3, 5, 7, 1000 };

    for (step = 0; step < sizeof(steps) / sizeof(steps[0]); step++) {
        memset(&h, 0, sizeof(h));
        mst_buf_init(&h.out);
        h.ids = ids;

        mst_toolcall_init(&t, m, &sink, &h);
        t.seed = SEED;
        t.whole = whole;
        t.single = single;

        rc = feed(&t, text, strlen(text), steps[step]);
        assert_true(rc == MST_OK || (rc == MST_DONE && single));
        assert_int_equal(mst_toolcall_finish(&t), MST_OK);

        assert_int_equal(mst_buf_char(&h.out, '\0'), MST_OK);

        /* a whole call breaks before it is told */

        if (whole || strchr(want, 'X') == NULL) {
            assert_int_equal(t.complete, t.n);

        } else {
            assert_true(t.complete + 1 >= t.n);
        }

        if (strcmp(h.out.data, want) != 0) {
            fail_msg("%s (whole %d, steps of %zu):\n%s, expected\n%s", text,
                     whole, steps[step], h.out.data, want);
        }

        mst_toolcall_fini(&t);
        mst_buf_fini(&h.out);
    }
}


#endif /* MST_TOOLCALL_HEAR_H */

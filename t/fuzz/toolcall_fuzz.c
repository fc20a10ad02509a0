
/*
 * Calls of tools: whatever a model writes, in pieces or at once the same is
 * heard; no byte of it is lost but space and what a call is made of; what is
 * told as the arguments of a whole call is a JSON object.
 */

#include "fuzz.h"

#include "text/mst_toolcall.h"


static const mst_toolmark_t  fuzz_marks[] = {
    { 1, 2, 3, 4, 5, -1, 1, 0 },
    { 1, -1, -1, 4, 5, -1, 0, 0 },
    { -1, -1, -1, 4, 5, 6, 0, MST_TOOLMARK_TAGS },
    { -1, -1, -1, 4, 5, 6, 0, MST_TOOLMARK_BARE },
    { -1, -1, -1, -1, -1, -1, 0, MST_TOOLMARK_BARE }
};


typedef struct {
    mst_buf_t  text, thought, calls, args;
    uint32_t   n;
    int        whole;
    int        broken;
} heard_t;


static void
fuzz_call_end(heard_t *h)
{
    int              rc;
    size_t           i;
    mst_json_scan_t  scan;

    if (h->n && h->whole) {
        mst_json_scan_init(&scan);
        fuzz_check(h->args.len && h->args.data[0] == '{');

        for (i = 0, rc = MST_OK; i < h->args.len && rc == MST_OK; i++) {
            rc = mst_json_scan_push(&scan, h->args.data[i]);
        }

        fuzz_check(rc == MST_DONE && i == h->args.len);
    }

    mst_buf_reset(&h->args);
}


static int
fuzz_text(void *data, const char *p, size_t n)
{
    return mst_buf_append(&((heard_t *) data)->text, p, n);
}


static int
fuzz_thought(void *data, const char *p, size_t n)
{
    return mst_buf_append(&((heard_t *) data)->thought, p, n);
}


static int
fuzz_call(void *data, mst_str_t name, const char *id)
{
    heard_t  *h;

    h = data;

    fuzz_check(mst_toolmark_is_name(name));
    fuzz_check(strlen(id) == MST_TOOLMARK_ID);
    fuzz_call_end(h);
    h->n++;

    (void) mst_buf_str(&h->calls, name);

    return mst_buf_text(&h->calls, id);
}


static int
fuzz_arguments(void *data, const char *p, size_t n)
{
    heard_t  *h;

    h = data;
    fuzz_check(h->n != 0);
    (void) mst_buf_append(&h->args, p, n);

    return mst_buf_append(&h->calls, p, n);
}


static void
fuzz_broken(void *data, const char *why)
{
    fuzz_check(why != NULL);
    ((heard_t *) data)->broken++;
}


static int
fuzz_known(void *data, mst_str_t name)
{
    (void) data;

    return name.len == 1;
}


static const mst_toolcall_sink_t  fuzz_sink = {
    fuzz_text, fuzz_thought, fuzz_call, fuzz_arguments, fuzz_broken,
    fuzz_known
};


static void
fuzz_feed(heard_t *h, const uint8_t *data, size_t size, int kind, size_t part)
{
    int             rc;
    size_t          k;
    mst_toolcall_t  t;

    memset(h, 0, sizeof(heard_t));
    h->whole = kind & 1;

    mst_toolcall_init(&t, &fuzz_marks[(kind >> 2) % 5], &fuzz_sink, h);
    t.seed = 1;
    t.whole = kind & 1;
    t.single = kind >> 1 & 1;
    rc = MST_OK;

    while (size && rc == MST_OK) {

        if (mst_toolcall_is_mark(&t, *data)) {
            rc = mst_toolcall_mark(&t, *data);
            k = 1;

        } else {
            for (k = 1; k < size && k < part
                 && !mst_toolcall_is_mark(&t, data[k]); k++)
            {
                /* void */
            }

            rc = mst_toolcall_text(&t, (const char *) data, k);
        }

        data += k;
        size -= k;
    }

    fuzz_check(rc == MST_OK || (rc == MST_DONE && t.single));
    fuzz_check(rc == MST_DONE || mst_toolcall_finish(&t) == MST_OK);
    fuzz_check(h->n == t.n);

    if (h->whole) {
        fuzz_call_end(h);
    }

    mst_toolcall_fini(&t);
}


static int
fuzz_same(const mst_buf_t *a, const mst_buf_t *b)
{
    return a->len == b->len
           && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}


static void
fuzz_free(heard_t *h)
{
    mst_buf_fini(&h->text);
    mst_buf_fini(&h->thought);
    mst_buf_fini(&h->calls);
    mst_buf_fini(&h->args);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int      kind;
    heard_t  all, one;

    if (size == 0) {
        return 0;
    }

    kind = data[0];

    fuzz_feed(&all, data + 1, size - 1, kind, size);
    fuzz_feed(&one, data + 1, size - 1, kind, 1 + (kind >> 5));

    fuzz_check(fuzz_same(&all.text, &one.text));
    fuzz_check(fuzz_same(&all.thought, &one.thought));
    fuzz_check(fuzz_same(&all.calls, &one.calls));
    fuzz_check(all.n == one.n && all.broken == one.broken);

    fuzz_free(&all);
    fuzz_free(&one);

    return 0;
}

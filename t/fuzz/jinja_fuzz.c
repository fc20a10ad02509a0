
/*
 * A hostile template with hostile values: "template\0values", the values
 * JSON.  It ends within its limits, its output is UTF-8 where the input was,
 * and the bytes that are marked as the template's own are such that values
 * written as other bytes leave them alone.
 */

#include "fuzz.h"

#include "base/mst_mem.h"
#include "text/mst_jinja.h"
#include "text/mst_python_loads.h"
#include "text/mst_utf8.h"


/* a byte that no template of this fuzzer has */
#define MARK  '\x01'


static int
fuzz_render(const mst_jinja_t *t, const mst_dict_t *variables,
    mst_text_out_t *out)
{
    int         rc;
    mst_err_t   err = { "" };
    mst_work_t  w;

    mst_work_init(&w, 1 << 22, 200000, &err);
    rc = mst_jinja_render(t, &w, variables, 1753790400, out);

    fuzz_check(rc == MST_OK || (rc == MST_ERROR && err.text[0] != '\0'));
    fuzz_check(w.used <= w.max_used);
    mst_work_fini(&w);

    return rc;
}


/* all that is said in a value, in its place */

static mst_value_t
fuzz_said(mst_work_t *w, mst_value_t v, int depth)
{
    size_t       i;
    char        *p;
    mst_text_t  *t;

    if (v.type == MST_VALUE_TEXT && v.u.text->len) {
        p = mst_work_alloc(w, v.u.text->len);
        fuzz_check(p != NULL);
        memset(p, MARK, v.u.text->len);
        t = mst_text_of(w, p, v.u.text->len, MST_TEXT_VALUE);
        fuzz_check(t != NULL);
        v.u.text = t;
    }

    for (i = 0; v.type == MST_VALUE_LIST && i < v.u.list->n; i++) {
        v.u.list->items[i] = fuzz_said(w, v.u.list->items[i], depth + 1);
    }

    for (i = 0; v.type == MST_VALUE_DICT && i < v.u.dict->n; i++) {
        v.u.dict->entries[i].value =
            fuzz_said(w, v.u.dict->entries[i].value, depth + 1);
    }

    return v;
}


/* no byte of a value is marked as the template's */

static void
fuzz_own(const mst_text_out_t *out)
{
    size_t  i, from;

    for (i = 0, from = 0; i < out->n; from = out->runs[i++].end) {
        fuzz_check(out->runs[i].end > from);
        fuzz_check(i == 0 || out->runs[i].from != out->runs[i - 1].from);
        fuzz_check(out->runs[i].from != MST_TEXT_TEMPLATE
                   || memchr(out->buf.data + from, MARK,
                             out->runs[i].end - from) == NULL);
    }

    fuzz_check(from == out->buf.len);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int              marked;
    size_t           n;
    mst_err_t        err = { "" };
    mst_str_t        source;
    mst_work_t       w;
    mst_value_t      v;
    const void      *nul;
    mst_jinja_t     *t;
    mst_text_out_t   out;

    nul = memchr(data, 0, size);
    n = nul ? (size_t) ((const uint8_t *) nul - data) : size;
    source = mst_str((const char *) data, n);
    data += n + (nul != NULL);
    size -= n + (nul != NULL);

    if (mst_utf8_check(source.data, source.len) != source.len
        || mst_utf8_check((const char *) data, size) != size)
    {
        return 0;
    }

    t = mst_jinja_create(source, &err);
    fuzz_check(t != NULL || err.text[0] != '\0');

    mst_work_init(&w, 1 << 24, 1 << 20, &err);

    if (t == NULL
        || mst_python_loads(&w, mst_str((const char *) data, size), &v)
           != MST_OK
        || v.type != MST_VALUE_DICT)
    {
        mst_work_fini(&w);
        mst_jinja_destroy(t);
        return 0;
    }

    mst_text_out_init(&out);

    if (fuzz_render(t, v.u.dict, &out) == MST_OK) {
        fuzz_check(out.buf.len == 0
                   || mst_utf8_check(out.buf.data, out.buf.len)
                      == out.buf.len);
    }

    mst_text_out_fini(&out);

    /* a template may make the mark of its own: "\x01" */

    marked = memmem(source.data, source.len, "\\", 1) != NULL
             || memchr(source.data, MARK, source.len) != NULL;
    v = fuzz_said(&w, v, 0);

    if (fuzz_render(t, v.u.dict, &out) == MST_OK && !marked) {
        fuzz_own(&out);
    }

    mst_text_out_fini(&out);
    mst_work_fini(&w);
    mst_jinja_destroy(t);

    return 0;
}

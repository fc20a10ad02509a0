
/*
 * The template engine on a pipe, for jinja_test.py: each line of stdin is
 * {"template": "...", "variables": {...}, "now": N}, each line of stdout
 * {"text": "...", "own": [[from, to], ...]} with the bytes that are the
 * template's own, or {"error": "..."}.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_jinja.h"
#include "text/mst_python_dumps.h"
#include "text/mst_python_loads.h"
#include "text/mst_python.h"


static void
put_string(mst_work_t *w, const char *data, size_t len)
{
    mst_text_t      *t;
    mst_text_out_t   out;

    t = mst_text_of(w, data, len, MST_TEXT_VALUE);
    mst_text_out_init(&out);

    if (t == NULL
        || mst_python_dumps(w, mst_value_text(t), NULL, &out) != MST_OK)
    {
        abort();
    }

    (void) fwrite(out.buf.data, 1, out.buf.len, stdout);
    mst_text_out_fini(&out);
}


static void
answer(mst_work_t *w, const char *error, const mst_text_out_t *out)
{
    size_t       i, from;
    const char  *comma;

    if (error) {
        (void) fputs("{\"error\": ", stdout);
        put_string(w, error, strlen(error));
        (void) fputs("}\n", stdout);
        return;
    }

    (void) fputs("{\"text\": ", stdout);
    put_string(w, out->buf.data, out->buf.len);
    (void) fputs(", \"own\": [", stdout);

    for (i = 0, from = 0, comma = ""; i < out->n; i++) {

        if (out->runs[i].from == MST_TEXT_TEMPLATE) {
            (void) printf("%s[%zu, %zu]", comma, from, out->runs[i].end);
            comma = ", ";
        }

        from = out->runs[i].end;
    }

    (void) fputs("]}\n", stdout);
}


static void
line(const char *data, size_t len)
{
    mst_err_t        err = { "" };
    mst_work_t       w, mine;
    mst_value_t      v, *source, *variables, *now;
    mst_jinja_t     *t;
    mst_text_out_t   out;

    mst_work_init(&w, MST_JINJA_MEMORY, MST_JINJA_STEPS, &err);
    mst_work_init(&mine, SIZE_MAX, UINT64_MAX, NULL);
    mst_text_out_init(&out);

    if (mst_python_loads(&mine, mst_str(data, len), &v) != MST_OK) {
        (void) fprintf(stderr, "no JSON: %.*s\n", (int) len, data);
        exit(1);
    }

    source = mst_dict_get(v.u.dict, mst_str("template", 8));
    variables = mst_dict_get(v.u.dict, mst_str("variables", 9));
    now = mst_dict_get(v.u.dict, mst_str("now", 3));

    t = mst_jinja_create(mst_text_str(source->u.text), &err);

    if (t && mst_jinja_render(t, &w, variables->u.dict,
                              now ? (time_t) now->u.n : 0, &out)
             == MST_OK)
    {
        answer(&mine, NULL, &out);

    } else {
        answer(&mine, err.text[0] ? err.text : "out of memory", NULL);
    }

    mst_jinja_destroy(t);
    mst_text_out_fini(&out);
    mst_work_fini(&w);
    mst_work_fini(&mine);
}


int
main(void)
{
    char     *buf;
    size_t    size;
    ssize_t   len;

    buf = NULL;
    size = 0;

    while ((len = getline(&buf, &size, stdin)) > 0) {
        line(buf, (size_t) len);
        (void) fflush(stdout);
    }

    free(buf);

    return 0;
}

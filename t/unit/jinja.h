
/*
 * A template run with values written as JSON, for tests of the engine's
 * files.  What jinja2 makes of the same is t/clients/jinja_test.py's
 * business; here is what each file promises.
 */

#ifndef JINJA_H
#define JINJA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_jinja.h"
#include "text/mst_python_loads.h"
#include "text/mst_python.h"

#define JINJA_NOW  1753790400      /* 2025-07-29 12:00:00 UTC */


typedef struct {
    const char  *template;
    const char  *variables;        /* JSON, NULL: none */
    const char  *want;             /* the output, or the sentence */
} jinja_case_t;


/* MST_OK with the output in out, or a sentence in err */

static inline int
jinja_run(const char *template, const char *variables, mst_text_out_t *out,
    mst_err_t *err)
{
    int           rc;
    mst_work_t    w;
    mst_value_t   v;
    mst_jinja_t  *t;

    err->text[0] = '\0';
    mst_text_out_init(out);

    t = mst_jinja_create(mst_str(template, strlen(template)), err);
    if (t == NULL) {
        return MST_ERROR;
    }

    mst_work_init(&w, MST_JINJA_MEMORY, MST_JINJA_STEPS, err);
    variables = variables ? variables : "{}";
    rc = mst_python_loads(&w, mst_str(variables, strlen(variables)), &v);
    assert_int_not_equal(rc, MST_DECLINED);

    if (rc == MST_OK) {
        rc = mst_jinja_render(t, &w, v.u.dict, JINJA_NOW, out);
    }

    mst_work_fini(&w);
    mst_jinja_destroy(t);

    return rc;
}


static inline void
jinja_expect(const char *template, const char *variables, const char *want)
{
    mst_err_t       err;
    mst_text_out_t  out;

    if (jinja_run(template, variables, &out, &err) != MST_OK) {
        fail_msg("%s: %s", template, err.text);
    }

    if (out.buf.len != strlen(want)
        || (out.buf.len && memcmp(out.buf.data, want, out.buf.len) != 0))
    {
        fail_msg("%s\n  is   %.*s\n  not  %s", template, (int) out.buf.len,
                 out.buf.len ? out.buf.data : "", want);
    }

    mst_text_out_fini(&out);
}


static inline void
jinja_refuse(const char *template, const char *variables, const char *want)
{
    mst_err_t       err;
    mst_text_out_t  out;

    if (jinja_run(template, variables, &out, &err) == MST_OK) {
        fail_msg("%s: not refused", template);
    }

    if (strcmp(err.text, want) != 0) {
        fail_msg("%s\n  says \"%s\"\n  not  \"%s\"", template, err.text,
                 want);
    }

    mst_text_out_fini(&out);
}


static inline void
jinja_all(const jinja_case_t *c, size_t n, int refuse)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        (refuse ? jinja_refuse : jinja_expect)(c[i].template, c[i].variables,
                                               c[i].want);
    }
}

#define jinja_table(cases)                                                    \
    jinja_all(cases, sizeof(cases) / sizeof(cases[0]), 0)
#define jinja_refusals(cases)                                                 \
    jinja_all(cases, sizeof(cases) / sizeof(cases[0]), 1)


/* the output as the template's own bytes in brackets: "[a]b[c]" */

static inline void
jinja_marks(const char *template, const char *variables, const char *want)
{
    size_t          i, from, n;
    char            text[1024];
    mst_err_t       err;
    mst_text_out_t  out;

    if (jinja_run(template, variables, &out, &err) != MST_OK) {
        fail_msg("%s: %s", template, err.text);
    }

    for (i = 0, from = 0, n = 0; i < out.n; i++) {
        n += (size_t) snprintf(text + n, sizeof(text) - n,
                               out.runs[i].from == MST_TEXT_TEMPLATE
                               ? "[%.*s]" : "%.*s",
                               (int) (out.runs[i].end - from),
                               out.buf.data + from);
        from = out.runs[i].end;
    }

    text[n] = '\0';
    assert_string_equal(text, want);
    mst_text_out_fini(&out);
}


#endif /* JINJA_H */

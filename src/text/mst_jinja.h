
/*
 * Chat templates as programs: a subset of Jinja, run in a sandbox.
 *
 * Models carry their chat template in Jinja and are trained on what jinja2
 * makes of it.  What is here gives the same text, for jinja2 as transformers
 * sets it up (trim_blocks, lstrip_blocks, loop controls, raise_exception,
 * strftime_now, and its own tojson).  What is not here (inheritance,
 * includes, autoescape, a few filters) is refused when the template is read,
 * in one sentence.
 *
 * A template reaches nothing but the values that it is given: no files, no
 * clock but the one it is shown, no memory and no steps beyond its limits.
 * Every byte of the output is marked as the template's own or a value's.
 *
 * A mst_jinja_t is immutable: any thread may render, each with its own
 * mst_work_t.
 */

#ifndef MST_JINJA_H
#define MST_JINJA_H

#include <time.h>

#include "text/mst_value.h"


#define MST_JINJA_SOURCE  262144       /* bytes of a template, at most */
#define MST_JINJA_MEMORY  33554432     /* bytes of a run, beside its input's */
#define MST_JINJA_STEPS   4000000      /* of a run: some 0.1 s */


typedef struct mst_jinja_s  mst_jinja_t;


/* the text is copied; NULL with a sentence, or without text: memory */
mst_jinja_t *mst_jinja_create(mst_str_t source, mst_err_t *err);
void mst_jinja_destroy(mst_jinja_t *t);        /* t may be NULL */

/*
 * Appends to out.  Of variables those count whose names the template uses.
 * MST_ERROR with a sentence in w->err, or without text: memory.
 */
int mst_jinja_render(const mst_jinja_t *t, mst_work_t *w,
    const mst_dict_t *variables, time_t now, mst_text_out_t *out);


#endif /* MST_JINJA_H */

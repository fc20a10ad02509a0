
/*
 * JSON as Python's json.dumps() writes it, to the byte: prompts hold tools
 * and calls in that spelling, and models were trained on it.  Nothing is
 * escaped that need not be; floats are repr()'s.
 */

#ifndef MST_PYTHON_DUMPS_H
#define MST_PYTHON_DUMPS_H

#include "text/mst_value.h"


/* its arguments */
typedef struct {
    const char  *indent;       /* one level's, NULL: all in one line */
    size_t       indent_len;   /* bytes */
    mst_str_t    item;         /* between items, ", " */
    mst_str_t    key;          /* behind a key, ": " */
    int          ascii;        /* \uXXXX for everything else */
    int          sort;         /* by key */
} mst_python_dumps_t;


/*
 * v's text, appended; json.dumps(v, ensure_ascii=False) where f is NULL.
 * MST_OK, or MST_ERROR: a limit, memory or what JSON cannot say.
 */
int mst_python_dumps(mst_work_t *w, mst_value_t v,
    const mst_python_dumps_t *f, mst_text_out_t *out);


#endif /* MST_PYTHON_DUMPS_H */

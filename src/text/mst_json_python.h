
/*
 * JSON as Python's json reads and writes it, to the byte: prompts hold tools
 * and calls in that spelling, and models were trained on it.
 *
 * Reading: integers of any size keep their digits, floats are doubles
 * (1e400 is infinite), NaN and Infinity are numbers, the last of equal keys
 * wins at the place of the first.  A lone surrogate becomes U+FFFD.
 * Writing: ", " and ": ", nothing escaped that need not be, repr()'s floats.
 */

#ifndef MST_JSON_PYTHON_H
#define MST_JSON_PYTHON_H

#include "text/mst_value.h"


typedef struct {
    const char  *indent;       /* one level's, NULL: all in one line */
    size_t       indent_len;
    mst_str_t    item;         /* between items, ", " */
    mst_str_t    key;          /* behind a key, ": " */
    int          ascii;        /* \uXXXX for everything else */
    int          sort;         /* by key */
} mst_json_python_t;


/*
 * MST_OK; MST_DECLINED: s is no JSON; MST_ERROR: a limit or memory.  The
 * value may point into s.
 */
int mst_json_python_read(mst_work_t *w, mst_str_t s, mst_value_t *v);

/* json.dumps(v, ensure_ascii=False) where f is NULL */
int mst_json_python_write(mst_work_t *w, mst_value_t v,
    const mst_json_python_t *f, mst_text_out_t *out);


#endif /* MST_JSON_PYTHON_H */

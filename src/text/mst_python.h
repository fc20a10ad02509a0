
/*
 * Values spelled as Python spells them: str() and repr().
 *
 * As all of a template's run: one thread, which has the mst_work_t.
 */

#ifndef MST_PYTHON_H
#define MST_PYTHON_H

#include "text/mst_value.h"


#define MST_PYTHON_FLOAT  32       /* bytes, the NUL included */


/* repr() of a float; its length.  inf and nan as repr() has them. */
size_t mst_python_float(double x, char *text);

/* str() of v appended; texts keep their origins */
int mst_python_write(mst_work_t *w, mst_value_t v, mst_text_out_t *out);

/* str() as a text */
mst_text_t *mst_python_str(mst_work_t *w, mst_value_t v);


#endif /* MST_PYTHON_H */

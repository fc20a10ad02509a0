
/*
 * JSON as Python's json.loads() reads it: integers of any size keep their
 * digits, floats are doubles (1e400 is infinite), NaN and Infinity are
 * numbers, the last of equal keys wins at the place of the first.  A lone
 * surrogate becomes U+FFFD.
 */

#ifndef MST_PYTHON_LOADS_H
#define MST_PYTHON_LOADS_H

#include "text/mst_value.h"


/*
 * MST_OK; MST_DECLINED: s is no JSON; MST_ERROR: a limit or memory.  The
 * value may point into s.
 */
int mst_python_loads(mst_work_t *w, mst_str_t s, mst_value_t *v);


#endif /* MST_PYTHON_LOADS_H */

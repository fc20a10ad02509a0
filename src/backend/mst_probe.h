
/*
 * What "mistral diagnose" asks libmst_cuda.so: a device, its memory, and each
 * kernel run once.  The library exports it beside the table of operations.
 */

#ifndef MST_PROBE_H
#define MST_PROBE_H

#include <stdint.h>

#include "base/mst_err.h"


/* one finding */
typedef struct {
    const char  *name;             /* a word or two */
    int          ok;
    const char  *text;             /* what was found, or what went wrong */
    double       us;               /* it took; 0 = nothing was measured */
    double       floor_us;         /* the device's limit; 0 = none is known */
} mst_probe_line_t;


typedef void (*mst_probe_line_pt)(void *data, const mst_probe_line_t *line);


typedef struct {
    uint32_t            device;
    mst_probe_line_pt   line;      /* called for each finding, in order */
    void               *data;
} mst_probe_t;


/* MST_OK: all findings are ok; MST_ERROR with a sentence: one is not, or no
   more could be found */
typedef int (*mst_probe_pt)(const mst_probe_t *p, mst_err_t *err);

#define MST_PROBE_SYMBOL  "mst_cuda_probe"


#endif /* MST_PROBE_H */

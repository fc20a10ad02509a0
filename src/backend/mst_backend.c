
/*
 * Opening a backend by its name: see mst_backend.h.
 */

#include <stddef.h>
#include <string.h>

#include "backend/mst_backend.h"
#include "backend/mst_cpu.h"


static const mst_backend_ops_t *const  mst_backend_all[] = {
    &mst_cpu_ops
};


const mst_backend_ops_t *
mst_backend_open(const char *name, mst_err_t *err)
{
    size_t  i;

    for (i = 0; i < sizeof(mst_backend_all) / sizeof(*mst_backend_all); i++) {
        if (strcmp(mst_backend_all[i]->name, name) == 0) {
            return mst_backend_all[i];
        }
    }

    (void) mst_err_set(err, "backend \"%s\" is not in this build", name);

    return NULL;
}

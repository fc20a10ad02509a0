
/*
 * Opening a backend by its name: see mst_backend.h.
 */

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "backend/mst_backend.h"
#include "backend/mst_cpu.h"


static const mst_backend_ops_t *mst_backend_library(const char *path,
    mst_err_t *err);


const mst_backend_ops_t *
mst_backend_open(const char *name, const char *library, mst_err_t *err)
{
    if (strcmp(name, mst_cpu_ops.name) == 0) {
        return &mst_cpu_ops;
    }

    if (strcmp(name, "cuda") == 0 && library != NULL) {
        return mst_backend_library(library, err);
    }

    (void) mst_err_set(err, "backend \"%s\" is not in this build", name);

    return NULL;
}


static const mst_backend_ops_t *
mst_backend_library(const char *path, mst_err_t *err)
{
    void                 *handle;
    mst_backend_open_pt   open;

    handle = dlopen(path, RTLD_NOW|RTLD_LOCAL);

    if (handle == NULL) {
        (void) mst_err_set(err, "libmst_cuda.so cannot be opened: %s",
                           dlerror());
        return NULL;
    }

    /* ISO C knows no conversion from an object's to a function's pointer */

    *(void **) &open = dlsym(handle, MST_BACKEND_SYMBOL);

    if (open == NULL) {
        (void) mst_err_set(err, "%s exports no %s", path, MST_BACKEND_SYMBOL);
        return NULL;
    }

    return open(err);
}

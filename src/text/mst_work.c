
/*
 * Bounded memory and steps: see mst_work.h.
 */

#include "base/mst_mem.h"
#include "text/mst_work.h"


#define MST_WORK_ALIGN  16
#define MST_WORK_CHUNK  16384
#define MST_WORK_LARGE  4096       /* has a chunk of its own */


struct mst_work_chunk_s {
    mst_work_chunk_t  *next;
    char               pad[MST_WORK_ALIGN - sizeof(void *)];
    char               data[];
};


void
mst_work_init(mst_work_t *w, size_t max_used, uint64_t max_steps,
    mst_err_t *err)
{
    w->chunks = NULL;
    w->p = NULL;
    w->end = NULL;
    w->used = 0;
    w->max_used = max_used;
    w->steps = 0;
    w->max_steps = max_steps;
    w->err = err;
}


void
mst_work_fini(mst_work_t *w)
{
    mst_work_chunk_t  *c, *next;

    for (c = w->chunks; c; c = next) {
        next = c->next;
        mst_free(c);
    }

    w->chunks = NULL;
    w->p = NULL;
    w->end = NULL;
}


static char *
mst_work_chunk(mst_work_t *w, size_t size)
{
    mst_work_chunk_t  *c;

    c = mst_alloc(sizeof(mst_work_chunk_t) + size);
    if (c == NULL) {
        return NULL;
    }

    c->next = w->chunks;
    w->chunks = c;

    return c->data;
}


void *
mst_work_alloc(mst_work_t *w, size_t size)
{
    char  *p;

    if (mst_work_charge(w, size) != MST_OK) {
        return NULL;
    }

    size = (size + MST_WORK_ALIGN) & ~(size_t) (MST_WORK_ALIGN - 1);

    if (size > (size_t) (w->end - w->p)) {

        if (size > MST_WORK_LARGE) {
            return mst_work_chunk(w, size);
        }

        p = mst_work_chunk(w, MST_WORK_CHUNK);
        if (p == NULL) {
            return NULL;
        }

        w->p = p;
        w->end = p + MST_WORK_CHUNK;
    }

    p = w->p;
    w->p += size;

    return p;
}


void *
mst_work_array(mst_work_t *w, size_t n, size_t size)
{
    size_t  all;

    if (__builtin_mul_overflow(n, size, &all)) {
        all = SIZE_MAX;
    }

    return mst_work_alloc(w, all);
}


int
mst_work_charge(mst_work_t *w, size_t size)
{
    if (size > w->max_used - w->used) {
        return mst_err_set(w->err, "the template needs more than %zu KiB of "
                           "memory", w->max_used / 1024);
    }

    w->used += size;

    return MST_OK;
}


int
mst_work_steps(mst_work_t *w, uint64_t n)
{
    w->steps += n;

    if (w->steps > w->max_steps) {
        return mst_err_set(w->err, "the template takes more than %llu steps",
                           (unsigned long long) w->max_steps);
    }

    return MST_OK;
}

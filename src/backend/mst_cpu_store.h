
/*
 * Weights as the CPU backend repacks them, in memory that outlives the
 * process: an empty memfd that somebody keeps and gives to one engine after
 * the other, or to several.  The first fills it, all later ones map it for
 * reading, in huge pages, and read no weights of the model's files.
 *
 *   head, alone in its huge page | tiles, from 2 MiB on, and behind those of
 *   a head its coarse copy
 *
 * It is believed when it is sealed against writing, which who fills it does
 * last, and when its head, with a hash of itself, names these files: who dies
 * before leaves a file without seals, and the next one fills it anew.  A lock
 * lets one fill it at a time.  Whatever is wrong with it, the caller goes on
 * with memory of its own.
 *
 * One thread: that which loads the model.
 */

#ifndef MST_CPU_STORE_H
#define MST_CPU_STORE_H

#include <stdint.h>

#include "base/mst_err.h"
#include "backend/mst_backend.h"
#include "backend/mst_cpu_mem.h"


typedef struct mst_cpu_store_s  mst_cpu_store_t;


/*
 * id: of the model's files.  Waits while another process fills it, as long as
 * that one gets on.  NULL with a sentence: it cannot be used.  fd stays the
 * caller's, open until the store is closed.
 */
mst_cpu_store_t *mst_cpu_store_open(int fd, uint64_t id, mst_err_t *err);

/* b's matrices stand in it from now on */
int mst_cpu_store_use(mst_cpu_store_t *s, mst_backend_t *b, mst_err_t *err);

/* all matrices are there: others may read them */
int mst_cpu_store_seal(mst_cpu_store_t *s, mst_err_t *err);

/* after the backend; s may be NULL */
void mst_cpu_store_close(mst_cpu_store_t *s);

/* somebody filled it before */
int mst_cpu_store_ready(const mst_cpu_store_t *s);

uint64_t mst_cpu_store_size(const mst_cpu_store_t *s);     /* bytes */

/* as mst_cpu_mem_take(); what it gives is filled where it is ready */
void *mst_cpu_store_take(mst_cpu_store_t *s, mst_backend_t *b, uint64_t size,
    mst_err_t *err);


/* mst_cpu_mem.c: beside m there is s; which one is it, or NULL */
int mst_cpu_mem_share(mst_cpu_mem_t *m, mst_cpu_store_t *s, mst_err_t *err);
mst_cpu_store_t *mst_cpu_mem_store(const mst_cpu_mem_t *m);


#endif /* MST_CPU_STORE_H */


/*
 * Memory of the CPU backend: large mappings in huge pages where the system
 * grants them, zeroed, of which untouched parts cost nothing.  The one
 * memory of the engine half that does not come from mst_mem.h.
 */

#ifndef MST_CPU_MEM_H
#define MST_CPU_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"


/* pieces are carved off mappings and freed together */
typedef struct mst_cpu_chunk_s  mst_cpu_chunk_t;

typedef struct {
    mst_cpu_chunk_t  *chunks;
} mst_cpu_mem_t;


/* aligned to 64 bytes; NULL with a sentence.  mst_cpu_mem_t starts as
   zeros. */
void *mst_cpu_mem_take(mst_cpu_mem_t *m, uint64_t size, mst_err_t *err);
void mst_cpu_mem_fini(mst_cpu_mem_t *m);

/* bytes of RAM that this process may use: the machine's, or less in a
   control group */
uint64_t mst_cpu_mem_limit(void);


#endif /* MST_CPU_MEM_H */

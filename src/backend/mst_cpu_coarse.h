
/*
 * The coarse copy of a head: its weights in five bits, and bounds of what that
 * leaves out.  A head of Q8_0 has one, and no other.
 */

#ifndef MST_CPU_COARSE_H
#define MST_CPU_COARSE_H

#include <stddef.h>
#include <stdint.h>


/* bytes of memory that it takes beside the head; 0: that one has none */
uint64_t mst_cpu_coarse_bytes(uint32_t type, uint64_t rows, uint64_t width);

/* of a tile of it */
size_t mst_cpu_coarse_size(uint32_t width);

/* one from a tile of Q8_0; norms: [width / 32][16], for what it keeps
   meanwhile */
void mst_cpu_coarse_tile(const uint8_t *tile, uint8_t *to, uint32_t width,
    float *norms);


#endif /* MST_CPU_COARSE_H */

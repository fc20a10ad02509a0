
/*
 * From elements as they lie in a file to what the GEMMs read.
 */

#ifndef MST_K_LOAD_H
#define MST_K_LOAD_H

#include <stdint.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif


/* the numbers are GGUF's tensor types */
typedef enum {
    MST_K_LOAD_F32 = 0,
    MST_K_LOAD_F16 = 1,
    MST_K_LOAD_Q4_0 = 2,
    MST_K_LOAD_Q4_1 = 3,
    MST_K_LOAD_Q8_0 = 8,
    MST_K_LOAD_BF16 = 30
} mst_k_load_type_t;


/* n elements, a multiple of the type's block, rounded to bf16 */
typedef struct {
    mst_k_load_type_t   type;
    const void         *from;      /* of the device */
    uint16_t           *to;
    uint64_t            n;
    int                 pdl;
} mst_k_load_t;

/* cudaErrorInvalidValue: no such type */
int mst_k_load(const mst_k_load_t *a, cudaStream_t stream);


static inline int
mst_k_load_fits(uint32_t type)
{
    return type == MST_K_LOAD_F32 || type == MST_K_LOAD_F16
           || type == MST_K_LOAD_Q4_0 || type == MST_K_LOAD_Q4_1
           || type == MST_K_LOAD_Q8_0 || type == MST_K_LOAD_BF16;
}


#ifdef __cplusplus
}
#endif

#endif /* MST_K_LOAD_H */

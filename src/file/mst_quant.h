
/*
 * Tensor element types and the block layouts of GGUF: the slow, obvious
 * decoders that fast kernels are tested against.
 *
 * Layouts: ggml's ggml-common.h; all little-endian.  Any thread.
 */

#ifndef MST_QUANT_H
#define MST_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"


typedef enum {                 /* the numbers are GGUF's tensor types */
    MST_TYPE_F32 = 0,
    MST_TYPE_F16 = 1,
    MST_TYPE_Q4_0 = 2,
    MST_TYPE_Q4_1 = 3,
    MST_TYPE_Q5_0 = 6,
    MST_TYPE_Q5_1 = 7,
    MST_TYPE_Q8_0 = 8,
    MST_TYPE_Q4_K = 12,
    MST_TYPE_Q5_K = 13,
    MST_TYPE_Q6_K = 14,
    MST_TYPE_BF16 = 30
} mst_type_t;


typedef struct {
    const char  *name;         /* "Q4_1" */
    uint32_t     block;        /* elements of a block: 1, 32, 256 */
    uint32_t     size;         /* bytes of a block */
} mst_type_info_t;


/* NULL: a type that this build does not decode */
const mst_type_info_t *mst_type_info(uint32_t type);

/* a name for messages, also of known but unsupported types ("Q2_K"); never
   NULL */
const char *mst_type_name(uint32_t type);

float mst_f16_to_f32(uint16_t h);              /* exact, subnormals too */
uint16_t mst_f32_to_f16(float f);              /* round to nearest even */
float mst_bf16_to_f32(uint16_t h);
uint16_t mst_f32_to_bf16(float f);             /* round to nearest even */

/* decodes n elements (a multiple of the type's block) into y[n] */
int mst_quant_decode(mst_type_t type, const void *src, float *y, size_t n);

/* scale and min of sub-block j, 0 .. 7, of a Q4_K or Q5_K block, from its 12
   bytes of them */
void mst_quant_k_scales(const unsigned char *p, int j, int *scale, int *min);


#endif /* MST_QUANT_H */

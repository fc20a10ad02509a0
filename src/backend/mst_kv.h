
/*
 * How keys, values and weights are kept.  A backend refuses what it lacks.
 */

#ifndef MST_KV_H
#define MST_KV_H


typedef enum {
    MST_KV_F32,
    MST_KV_F16,
    MST_KV_BF16,
    MST_KV_FP8,
    MST_KV_Q8,
    MST_KV_INT4,
    MST_KV_AUTO                    /* the backend's choice */
} mst_kv_type_t;


typedef enum {
    MST_DTYPE_AUTO,                /* as the file has them, or what the backend
                                      computes with best at their precision */
    MST_DTYPE_BF16,
    MST_DTYPE_FP8,                 /* e4m3, a scale per output */
    MST_DTYPE_INT4                 /* 4 bits, scale and min for each 128 of a
                                      row; embedding and head 8 bits */
} mst_dtype_t;


#endif /* MST_KV_H */

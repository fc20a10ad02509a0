
/*
 * How keys and values are kept.  A backend refuses what it lacks.
 */

#ifndef MST_KV_H
#define MST_KV_H


typedef enum {
    MST_KV_F32,
    MST_KV_F16,
    MST_KV_BF16,
    MST_KV_FP8,
    MST_KV_Q8,
    MST_KV_INT4
} mst_kv_type_t;


#endif /* MST_KV_H */

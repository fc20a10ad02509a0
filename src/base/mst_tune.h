
/*
 * What an operator wants otherwise than a model's files say.  Plain data
 * without padding: its bytes are part of an engine's identity.
 */

#ifndef MST_TUNE_H
#define MST_TUNE_H

#include <stdint.h>


typedef enum {                     /* in the order of mst_rope_kind_t */
    MST_TUNE_AS_FILES = 0,
    MST_TUNE_LINEAR,
    MST_TUNE_DYNAMIC,
    MST_TUNE_LLAMA3,
    MST_TUNE_YARN
} mst_tune_rope_t;


typedef struct {
    uint32_t  rope;                /* mst_tune_rope_t; the rest of these is
                                      0 for a default */
    uint32_t  experts;             /* of one token; 0 = as the files say */
    double    factor;              /* > 1; no default */
    double    original;            /* tokens without scaling */
    double    low_freq;            /* LLAMA3 */
    double    high_freq;
    double    beta_fast;           /* YARN */
    double    beta_slow;
    double    attention;
} mst_tune_t;


#endif /* MST_TUNE_H */

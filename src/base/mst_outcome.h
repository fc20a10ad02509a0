
/*
 * How a request ends: the words that engine, boundary and gateway share.
 */

#ifndef MST_OUTCOME_H
#define MST_OUTCOME_H

#include <stdint.h>


#define MST_SALT_SIZE  16          /* bytes; all zero = the common tenant */


typedef enum {                     /* why an answer ended */
    MST_FINISH_STOP = 1,           /* a stop id was sampled, or the null
                                      model was done */
    MST_FINISH_LENGTH,             /* max_tokens or the context is used up */
    MST_FINISH_CANCELLED,          /* the host wanted no more of it */
    MST_FINISH_NUMERIC,            /* its logits were not finite */
    MST_FINISH_ERROR               /* the engine failed */
} mst_finish_t;


typedef enum {                     /* why a request did not start */
    MST_REFUSE_INVALID = 1,        /* parameters or ids out of range */
    MST_REFUSE_TOO_LONG,           /* prompt >= context */
    MST_REFUSE_KV_FULL,            /* can never get its blocks, or not now
                                      and may not wait */
    MST_REFUSE_DEADLINE,           /* waited past its deadline, or cannot
                                      have its first token in time */
    MST_REFUSE_MEMORY,
    MST_REFUSE_DRAINING,
    MST_REFUSE_YIELD               /* gave way: others of a class that is not
                                      below 0 wait */
} mst_refuse_t;


typedef struct {                   /* exact, also for a cancelled answer */
    uint32_t  prompt;              /* tokens */
    uint32_t  cached;              /* of them found in the prefix cache */
    uint32_t  completion;          /* tokens sampled, stop ids included */
    uint32_t  preemptions;
    uint64_t  queue_ns;            /* submit to first scheduled */
    uint64_t  prefill_ns;          /* first scheduled to first token */
    uint64_t  decode_ns;           /* first token to the end */
} mst_usage_t;


#endif /* MST_OUTCOME_H */

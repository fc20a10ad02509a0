
/*
 * Which tensor is which: the names of the roles in each naming.  Inside the
 * model room.
 */

#ifndef MST_WEIGHT_H
#define MST_WEIGHT_H

#include "base/mst_str.h"
#include "model/mst_checkpoint.h"


typedef enum {
    MST_NAMES_GGUF = 0,
    MST_NAMES_HF,
    MST_NAMES_MISTRAL,
    MST_NAMES
} mst_names_t;


typedef struct {
    mst_weight_t  role;
    uint32_t    layer;             /* 0 where the role has none */
    uint32_t    expert;
    int         stacked;           /* GGUF: all experts in one tensor */
} mst_weight_match_t;


/* MST_OK; MST_DECLINED: it is of no role; MST_DONE: of another part of the
   model (a vision tower), which text does not need */
int mst_weight_match(mst_names_t names, mst_str_t name, mst_weight_match_t *m);

/* the role's name for sentences; experts: of a mixture.  Returns buf. */
const char *mst_weight_name(mst_names_t names, mst_weight_t role,
    uint32_t layer, uint32_t expert, int experts, char *buf, size_t size);


#endif /* MST_WEIGHT_H */

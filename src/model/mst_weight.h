
/*
 * The roles of a model's tensors: which a configuration asks for, in which
 * shape, and what each naming calls them.
 *
 * Tables that nobody changes: any thread.
 */

#ifndef MST_WEIGHT_H
#define MST_WEIGHT_H

#include "base/mst_str.h"
#include "model/mst_config.h"


typedef enum {
    MST_WEIGHT_EMBD = 0,           /* [n_vocab][dim] */
    MST_WEIGHT_NORM,               /* before the head */
    MST_WEIGHT_HEAD,               /* [n_vocab][dim], not where tied */
    MST_WEIGHT_FREQS,              /* GGUF: divisors of the frequencies */
    MST_WEIGHT_GLOBALS,

    MST_WEIGHT_ATTN_NORM = MST_WEIGHT_GLOBALS,     /* of a layer, from here */
    MST_WEIGHT_Q,
    MST_WEIGHT_K,
    MST_WEIGHT_V,
    MST_WEIGHT_OUT,
    MST_WEIGHT_Q_BIAS,
    MST_WEIGHT_K_BIAS,
    MST_WEIGHT_V_BIAS,
    MST_WEIGHT_OUT_BIAS,
    MST_WEIGHT_FFN_NORM,
    MST_WEIGHT_GATE_BIAS,
    MST_WEIGHT_UP_BIAS,
    MST_WEIGHT_DOWN_BIAS,
    MST_WEIGHT_ROUTER,             /* [n_experts][dim] */
    MST_WEIGHT_LAYERS,

    /* of an expert, or of the one that a dense layer has, from here */

    MST_WEIGHT_GATE = MST_WEIGHT_LAYERS,
    MST_WEIGHT_UP,
    MST_WEIGHT_DOWN,
    MST_WEIGHTS
} mst_weight_t;


typedef enum {
    MST_NAMES_GGUF = 0,
    MST_NAMES_HF,
    MST_NAMES_MISTRAL,
    MST_NAMES
} mst_names_t;


typedef struct {
    mst_weight_t  role;
    uint32_t      layer;           /* 0 where the role has none */
    uint32_t      expert;
    int           stacked;         /* GGUF: all experts in one tensor */
} mst_weight_match_t;


/* whether a model of this configuration has such tensors; FREQS: may have */
int mst_weight_has(const mst_config_t *config, mst_weight_t role);

/* inputs, and outputs (0: it is a vector) of a tensor */
void mst_weight_shape(const mst_config_t *config, mst_weight_t role,
    uint64_t *in, uint64_t *out);

/* MST_OK; MST_DECLINED: it is of no role; MST_DONE: of another part of the
   model (a vision tower), which text does not need */
int mst_weight_match(mst_names_t names, mst_str_t name, mst_weight_match_t *m);

/* the role's name for sentences; experts: of a mixture.  Returns buf. */
const char *mst_weight_name(mst_names_t names, mst_weight_t role,
    uint32_t layer, uint32_t expert, int experts, char *buf, size_t size);


#endif /* MST_WEIGHT_H */

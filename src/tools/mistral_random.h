
/*
 * A random model of a given shape, for measuring: speed does not depend on
 * what the weights say.
 */

#ifndef MISTRAL_RANDOM_H
#define MISTRAL_RANDOM_H

#include <stdint.h>

#include "base/mst_err.h"


/*
 * config: a config.json or params.json.  format "gguf": "out" is a file;
 * "safetensors": a directory that is made, with that configuration and
 * model.safetensors (or consolidated.safetensors) in it.  type: "bf16",
 * "f16", "f32", for GGUF "q8_0", "q6_k", "q5_k", "q4_k", "q5_1", "q5_0", "q4_1"
 * and "q4_0" too.
 * The same seed, the same bytes.  There is no tokenizer in it.
 * MST_DECLINED: no such format or type, or not that type in that format.
 */
int mistral_random(const char *config, const char *format, const char *type,
    const char *out, uint64_t seed, mst_err_t *err);


#endif /* MISTRAL_RANDOM_H */

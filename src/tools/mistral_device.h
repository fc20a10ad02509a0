
/*
 * "--device cpu|cuda:N", "--dtype" and "--kv-cache" of the commands that
 * compute in their own process.
 */

#ifndef MISTRAL_DEVICE_H
#define MISTRAL_DEVICE_H

#include "model/mst_forward.h"


/* NULL or "cpu": conf stays as it is.  MISTRAL_OK, or MISTRAL_USAGE after a
   complaint of the command.  The library is the one beside the program. */
int mistral_device(const char *command, const char *name,
    mst_model_conf_t *conf);

/* "--dtype auto|bf16|fp8", NULL = auto; as above */
int mistral_device_dtype(const char *command, const char *name,
    mst_model_conf_t *conf);

/* "--kv-cache NAME", NULL = auto; as above */
int mistral_device_kv(const char *command, const char *name,
    mst_model_conf_t *conf);


#endif /* MISTRAL_DEVICE_H */

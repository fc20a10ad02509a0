
/*
 * "--device cpu|cuda:N", "--dtype" and "--kv-cache" of the commands that
 * compute in their own process.
 */

#ifndef MISTRAL_DEVICE_H
#define MISTRAL_DEVICE_H

#include "model/mst_forward.h"


/*
 * Writes into conf what the options say; each may be NULL: the CPU, the types
 * of the file, and what the device has for keys and values.  The library of
 * "cuda:N" is the one beside the program.  What conf has of --weight-layouts
 * already must fit the device.  MISTRAL_OK, or MISTRAL_USAGE with a sentence in
 * err.
 */
int mistral_device(const char *device, const char *dtype, const char *kv_cache,
    mst_model_conf_t *conf, mst_err_t *err);

/* kernels of the CPU by their name: "--isa", which may be NULL, else
   MISTRAL_ISA of the environment, so that a whole suite of tests can run on
   those of an older machine; NULL: the best there are */
const char *mistral_isa(const char *option);


#endif /* MISTRAL_DEVICE_H */


/*
 * What computes in this process: see mistral_device.h.
 */

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/mistral_device.h"
#include "tools/mistral_tool.h"

#define MISTRAL_DEVICE_LIBRARY  "/libmst_cuda.so"


typedef struct {
    const char  *name;
    int          value;
} mistral_device_name_t;


static char  mistral_device_path[PATH_MAX + sizeof(MISTRAL_DEVICE_LIBRARY)];


static const mistral_device_name_t  mistral_device_dtypes[] = {
    { "auto", MST_DTYPE_AUTO },
    { "bf16", MST_DTYPE_BF16 },
    { "fp8", MST_DTYPE_FP8 },
    { "int4", MST_DTYPE_INT4 },
    { NULL, 0 }
};

static const mistral_device_name_t  mistral_device_kvs[] = {
    { "f32", MST_KV_F32 },
    { "f16", MST_KV_F16 },
    { "q8", MST_KV_Q8 },
    { "bf16", MST_KV_BF16 },
    { "fp8", MST_KV_FP8 },
    { NULL, 0 }
};


static int
mistral_device_number(const char *name, mst_model_conf_t *conf, mst_err_t *err)
{
    char           *end, *slash;
    ssize_t         n;
    unsigned long   number;

    if (name == NULL || strcmp(name, "cpu") == 0) {
        return MISTRAL_OK;
    }

    end = NULL;
    number = strncmp(name, "cuda:", 5) == 0 && name[5] >= '0' && name[5] <= '9'
             ? strtoul(name + 5, &end, 10) : 0;

    if (end == NULL || *end != '\0' || number > 999) {
        (void) mst_err_set(err, "--device \"%s\" is not cpu or cuda:N", name);
        return MISTRAL_USAGE;
    }

    n = readlink("/proc/self/exe", mistral_device_path, PATH_MAX - 1);
    mistral_device_path[n < 0 ? 0 : n] = '\0';
    slash = strrchr(mistral_device_path, '/');
    slash = slash ? slash : mistral_device_path;

    memcpy(slash, MISTRAL_DEVICE_LIBRARY, sizeof(MISTRAL_DEVICE_LIBRARY));

    conf->library = mistral_device_path;
    conf->device = (uint32_t) number;

    return MISTRAL_OK;
}


/* NULL where no name of the list is meant */

static const mistral_device_name_t *
mistral_device_find(const mistral_device_name_t *names, const char *name)
{
    while (names->name && strcmp(names->name, name) != 0) {
        names++;
    }

    return names->name ? names : NULL;
}


int
mistral_device(const char *device, const char *dtype, const char *kv_cache,
    mst_model_conf_t *conf, mst_err_t *err)
{
    const mistral_device_name_t  *d, *kv;

    d = mistral_device_find(mistral_device_dtypes, dtype ? dtype : "auto");
    kv = kv_cache ? mistral_device_find(mistral_device_kvs, kv_cache) : NULL;

    if (d == NULL) {
        (void) mst_err_set(err, "--dtype \"%s\" is not auto, bf16, fp8 or int4",
                           dtype);
        return MISTRAL_USAGE;
    }

    if (kv_cache && kv == NULL) {
        (void) mst_err_set(err, "--kv-cache \"%s\" is not f32, f16, q8, bf16 "
                           "or fp8", kv_cache);
        return MISTRAL_USAGE;
    }

    conf->dtype = (mst_dtype_t) d->value;
    conf->kv_type = kv ? (mst_kv_type_t) kv->value : MST_KV_AUTO;

    if (mistral_device_number(device, conf, err) != MISTRAL_OK) {
        return MISTRAL_USAGE;
    }

    if (conf->weight_layouts && conf->library == NULL) {
        (void) mst_err_set(err, "--weight-layouts %u needs --device cuda:N, "
                           "the CPU has one layout", conf->weight_layouts);
        return MISTRAL_USAGE;
    }

    return MISTRAL_OK;
}


const char *
mistral_isa(const char *option)
{
    const char  *name;

    name = option ? option : getenv("MISTRAL_ISA");

    return name && *name ? name : NULL;
}

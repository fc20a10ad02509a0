
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


static char  mistral_device_path[PATH_MAX + sizeof(MISTRAL_DEVICE_LIBRARY)];


int
mistral_device(const char *command, const char *name, mst_model_conf_t *conf)
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
        return mistral_complain(MISTRAL_USAGE, command, "--device \"%s\" is "
                                "not cpu or cuda:N", name);
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


int
mistral_device_dtype(const char *command, const char *name,
    mst_model_conf_t *conf)
{
    size_t  i;

    static const struct {
        const char   *name;
        mst_dtype_t   dtype;
    } dtypes[] = {
        { "auto", MST_DTYPE_AUTO },
        { "bf16", MST_DTYPE_BF16 },
        { "fp8", MST_DTYPE_FP8 },
        { "int4", MST_DTYPE_INT4 }
    };

    if (name == NULL) {
        return MISTRAL_OK;
    }

    for (i = 0; i < sizeof(dtypes) / sizeof(*dtypes); i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            conf->dtype = dtypes[i].dtype;
            return MISTRAL_OK;
        }
    }

    return mistral_complain(MISTRAL_USAGE, command, "--dtype \"%s\" is not "
                            "auto, bf16, fp8 or int4", name);
}


int
mistral_device_kv(const char *command, const char *name,
    mst_model_conf_t *conf)
{
    size_t  i;

    static const struct {
        const char     *name;
        mst_kv_type_t   type;
    } kvs[] = {
        { "f32", MST_KV_F32 },
        { "f16", MST_KV_F16 },
        { "q8", MST_KV_Q8 },
        { "bf16", MST_KV_BF16 },
        { "fp8", MST_KV_FP8 }
    };

    if (name == NULL) {
        conf->kv_type = MST_KV_AUTO;
        return MISTRAL_OK;
    }

    for (i = 0; i < sizeof(kvs) / sizeof(*kvs); i++) {
        if (strcmp(name, kvs[i].name) == 0) {
            conf->kv_type = kvs[i].type;
            return MISTRAL_OK;
        }
    }

    return mistral_complain(MISTRAL_USAGE, command, "--kv-cache \"%s\" is "
                            "not f32, f16, q8, bf16 or fp8", name);
}

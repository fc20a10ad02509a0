
/*
 * mistral diagnose: what this machine has to compute with, one line a finding.
 * Nothing of a device is changed, and what it takes of its memory it gives
 * back; an engine that fills the device leaves it too little.
 */

#include <dlfcn.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/mst_cpu_pool.h"
#include "backend/mst_nvml.h"
#include "backend/mst_probe.h"
#include "base/mst_version.h"
#include "model/mst_forward.h"
#include "tools/mistral_device.h"
#include "tools/mistral_option.h"
#include "tools/mistral_tool.h"

#define MISTRAL_DIAGNOSE_DRIVER  "libcuda.so.1"
#define MISTRAL_DIAGNOSE_NCCL    "libnccl.so.2"
#define MISTRAL_DIAGNOSE_YES     "\342\234\223"        /* a check mark */
#define MISTRAL_DIAGNOSE_NO      "\342\234\227"        /* a ballot's cross */
#define MISTRAL_DIAGNOSE_NONE    "-"


static const char  mistral_diagnose_help[] =
    "usage: mistral diagnose [OPTION...]\n"
    "\n"
    "Says what there is for \"device cuda:N\": the program's version and the\n"
    "number of cores that it may use, the driver, a device with its memory,\n"
    "temperature, power and clocks, libmst_cuda.so, whether the device's\n"
    "memory can be had, how long each kernel takes and what part of the\n"
    "device's limit that is, NCCL.  A line begins with \342\234\223, with "
    "\342\234\227 where\n"
    "something is not as it should be, or with - where it is not needed.\n"
    "Without a driver there are lines of program, driver (\342\234\227), "
    "library and\n"
    "NCCL only; the CPU needs none of them, its speed is what \"mistral "
    "bench\n"
    "--kernels\" says.\n"
    "\n"
    "  --device NAME  cuda:N (default: cuda:0)\n"
    "  --json         print one object\n"
    "\n"
    "Exits with 1 if there is a \342\234\227.  It takes up to 1.4 GiB of the "
    "device,\n"
    "and for a moment all that is free: not beside an engine that starts.\n";


typedef enum {
    MISTRAL_FOUND = 0,
    MISTRAL_WRONG,
    MISTRAL_ABSENT                 /* and not needed */
} mistral_finding_t;


typedef struct {
    int      bad;
    int      json;
    json_t  *checks;
} mistral_diagnose_t;


static struct {
    const char  *device;
    int          json;
} mistral_diagnose_conf;


static const mistral_option_t  mistral_diagnose_options[] = {
    { "--device", MISTRAL_TEXT, &mistral_diagnose_conf.device, 0, 0 },
    { "--json", MISTRAL_FLAG, &mistral_diagnose_conf.json, 0, 0 }
};

#define MISTRAL_DIAGNOSE_OPTIONS                                              \
    (sizeof(mistral_diagnose_options) / sizeof(*mistral_diagnose_options))


static void
mistral_diagnose_put(mistral_diagnose_t *d, mistral_finding_t f,
    const char *name, double us, double floor_us, const char *text)
{
    json_t  *o;

    static const char *const  marks[] = {
        MISTRAL_DIAGNOSE_YES, MISTRAL_DIAGNOSE_NO, MISTRAL_DIAGNOSE_NONE
    };

    d->bad |= f == MISTRAL_WRONG;

    if (d->json) {
        o = json_pack("{s:s, s:s, s:s}", "name", name, "finding",
                      f == MISTRAL_FOUND ? "ok"
                      : f == MISTRAL_WRONG ? "wrong" : "absent",
                      "text", text);

        if (us > 0) {
            (void) json_object_set_new(o, "microseconds", json_real(us));
        }

        if (us > 0 && floor_us > 0) {
            (void) json_object_set_new(o, "percent_of_limit",
                                       json_real(floor_us / us * 100));
        }

        (void) json_array_append_new(d->checks, o);
        return;
    }

    (void) printf("%s %-34s", marks[f], name);

    if (us > 0) {
        (void) printf(" %9.1f us", us);
    }

    if (us > 0 && floor_us > 0) {
        (void) printf(" %4.0f %% of the limit", floor_us / us * 100);
    }

    (void) printf("%s%s\n", us > 0 ? "  " : " ",
                  us > 0 && strcmp(text, "kernel") == 0 ? "" : text);
    (void) fflush(stdout);
}


static void
mistral_diagnose_say(mistral_diagnose_t *d, mistral_finding_t f,
    const char *name, const char *fmt, ...)
{
    char     text[512];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    mistral_diagnose_put(d, f, name, 0, 0, text);
}


static void
mistral_diagnose_line(void *data, const mst_probe_line_t *line)
{
    mistral_diagnose_put(data, line->ok ? MISTRAL_FOUND : MISTRAL_WRONG,
                         line->name, line->us, line->floor_us, line->text);
}


/* 0: there is none, and nothing behind it is to be asked for */

static int
mistral_diagnose_driver(mistral_diagnose_t *d)
{
    int     rc, version, (*init)(unsigned), (*get)(int *);
    void   *driver;

    driver = dlopen(MISTRAL_DIAGNOSE_DRIVER, RTLD_NOW);

    if (driver == NULL) {
        mistral_diagnose_say(d, MISTRAL_WRONG, "driver", "no NVIDIA driver: "
                             "%s", dlerror());
        return 0;
    }

    *(void **) &init = dlsym(driver, "cuInit");
    *(void **) &get = dlsym(driver, "cuDriverGetVersion");
    version = 0;

    if (init == NULL || get == NULL || get(&version) != 0) {
        mistral_diagnose_say(d, MISTRAL_WRONG, "driver", "%s is no driver",
                             MISTRAL_DIAGNOSE_DRIVER);
        return 0;
    }

    rc = init(0);

    if (rc != 0) {
        mistral_diagnose_say(d, MISTRAL_WRONG, "driver", "the driver does not "
                             "start: CUDA error %d, see nvidia-smi", rc);
        return 0;
    }

    mistral_diagnose_say(d, MISTRAL_FOUND, "driver", "for CUDA %d.%d",
                         version / 1000, version % 1000 / 10);

    return 1;
}


static void
mistral_diagnose_state(mistral_diagnose_t *d, uint32_t device)
{
    char                pci[MST_NVML_PCI], version[80];
    mst_err_t           err;
    mst_nvml_t         *nvml;
    mst_nvml_sample_t   s;

    err.text[0] = '\0';
    nvml = mst_nvml_open(MST_NVML_LIBRARY,
                         mst_nvml_pci(device, pci) == MST_OK ? pci : NULL,
                         &err);

    if (nvml == NULL || mst_nvml_read(nvml, &s, &err) != MST_OK) {
        mistral_diagnose_say(d, MISTRAL_ABSENT, "state", "no temperature, "
                             "thermal_limit refuses nothing: %s", err.text);
        mst_nvml_close(nvml);
        return;
    }

    mst_nvml_driver(nvml, version, sizeof(version));

    mistral_diagnose_say(d, MISTRAL_FOUND, "state", "%u degrees, %.0f of %.0f "
                         "W, %u of %u MHz, memory %u MHz, driver %s",
                         s.celsius, s.milliwatts / 1e3,
                         s.milliwatts_limit / 1e3, s.mhz, s.mhz_max,
                         s.mhz_memory, version);
    mst_nvml_close(nvml);
}


/* NULL: there is none */

static mst_probe_pt
mistral_diagnose_library(mistral_diagnose_t *d, const char *path)
{
    void          *library;
    mst_probe_pt   probe;

    library = dlopen(path, RTLD_NOW|RTLD_LOCAL);

    if (library == NULL) {
        mistral_diagnose_say(d, MISTRAL_WRONG, "library", "%s; \"make cuda\" "
                             "builds it", dlerror());
        return NULL;
    }

    *(void **) &probe = dlsym(library, MST_PROBE_SYMBOL);

    if (probe == NULL) {
        mistral_diagnose_say(d, MISTRAL_WRONG, "library", "%s exports no %s: "
                             "it is of another version", path,
                             MST_PROBE_SYMBOL);
        return NULL;
    }

    mistral_diagnose_say(d, MISTRAL_FOUND, "library", "%s", path);

    return probe;
}


static void
mistral_diagnose_nccl(mistral_diagnose_t *d)
{
    int    version, (*get)(int *);
    void  *nccl;

    nccl = dlopen(MISTRAL_DIAGNOSE_NCCL, RTLD_NOW|RTLD_LOCAL);

    if (nccl == NULL) {
        mistral_diagnose_say(d, MISTRAL_ABSENT, "NCCL", "not there, one "
                             "device needs none");
        return;
    }

    *(void **) &get = dlsym(nccl, "ncclGetVersion");
    version = 0;

    if (get == NULL || get(&version) != 0) {
        mistral_diagnose_say(d, MISTRAL_WRONG, "NCCL", "%s does not tell its "
                             "version", MISTRAL_DIAGNOSE_NCCL);
        return;
    }

    mistral_diagnose_say(d, MISTRAL_FOUND, "NCCL", "%d.%d.%d",
                         version / 10000, version / 100 % 100, version % 100);
}


static int
mistral_diagnose_end(mistral_diagnose_t *d)
{
    json_t  *o;

    if (d->json) {
        o = json_pack("{s:s, s:b, s:o}", "version", MST_VERSION, "ok", !d->bad,
                      "checks", d->checks);
        (void) json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        (void) fputc('\n', stdout);
        json_decref(o);
    }

    return d->bad ? MISTRAL_FAILED : MISTRAL_OK;
}


int
mistral_diagnose(int argc, char **argv)
{
    int                  rc, driver;
    mst_err_t            err;
    const char          *device;
    mst_probe_t          p;
    mst_probe_pt         probe;
    mst_model_conf_t     conf;
    mistral_diagnose_t   d;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void) fputs(mistral_diagnose_help, stdout);
        return MISTRAL_OK;
    }

    rc = mistral_option_parse(mistral_diagnose_options,
                              MISTRAL_DIAGNOSE_OPTIONS, argc, argv);
    if (rc != MISTRAL_OK) {
        return rc;
    }

    memset(&conf, 0, sizeof(conf));
    memset(&d, 0, sizeof(d));

    device = mistral_diagnose_conf.device ? mistral_diagnose_conf.device
                                          : "cuda:0";
    err.text[0] = '\0';
    rc = mistral_device(device, NULL, NULL, &conf, &err);

    if (rc != MISTRAL_OK) {
        return mistral_complain(rc, "diagnose", "%s", err.text);
    }

    if (conf.library == NULL) {
        return mistral_complain(MISTRAL_USAGE, "diagnose", "--device \"%s\" "
                                "is not cuda:N", device);
    }

    d.json = mistral_diagnose_conf.json;
    d.checks = d.json ? json_array() : NULL;

    mistral_diagnose_say(&d, MISTRAL_FOUND, "program", "mistral " MST_VERSION
                         ", %u cores may be used", mst_cpu_pool_cores());

    driver = mistral_diagnose_driver(&d);

    if (driver) {
        mistral_diagnose_state(&d, conf.device);
    }

    probe = mistral_diagnose_library(&d, conf.library);

    if (driver && probe) {
        p.device = conf.device;
        p.line = mistral_diagnose_line;
        p.data = &d;

        (void) probe(&p, &err);        /* its lines have said why */
    }

    mistral_diagnose_nccl(&d);

    return mistral_diagnose_end(&d);
}

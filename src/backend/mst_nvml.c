
/*
 * NVML by dlopen(): see mst_nvml.h.  What is called is declared here, so that
 * nothing of CUDA is needed to build; these symbols and their types are stable
 * by their versioned names.
 */

#include <dlfcn.h>
#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_nvml.h"

#define MST_NVML_CELSIUS  0                    /* the sensor of the GPU */
#define MST_NVML_SM       1                    /* clocks */
#define MST_NVML_MEMORY   2
#define MST_NVML_LOST     15                   /* an error: the GPU is gone */
#define MST_NVML_DRIVER   "libcuda.so.1"


typedef void  *mst_nvml_device_t;

typedef struct {
    unsigned long long  total;
    unsigned long long  free;
    unsigned long long  used;
} mst_nvml_memory_t;

typedef int (*mst_nvml_init_pt)(void);
typedef int (*mst_nvml_index_pt)(unsigned index, mst_nvml_device_t *d);
typedef int (*mst_nvml_place_pt)(const char *pci, mst_nvml_device_t *d);
typedef int (*mst_nvml_number_pt)(mst_nvml_device_t d, unsigned *n);
typedef int (*mst_nvml_kind_pt)(mst_nvml_device_t d, int kind, unsigned *n);
typedef int (*mst_nvml_memory_pt)(mst_nvml_device_t d, mst_nvml_memory_t *m);
typedef int (*mst_nvml_text_pt)(char *text, unsigned size);
typedef const char *(*mst_nvml_error_pt)(int rc);

typedef int (*mst_nvml_cu_get_pt)(int *d, int ordinal);
typedef int (*mst_nvml_cu_pci_pt)(char *pci, int size, int d);


struct mst_nvml_s {
    void                *library;
    mst_nvml_device_t    device;
    int                  begun;        /* init succeeded */

    /* all of them, in the order of the names below */
    mst_nvml_init_pt     init;
    mst_nvml_init_pt     end;
    mst_nvml_error_pt    error;
    mst_nvml_index_pt    by_index;
    mst_nvml_place_pt    by_place;
    mst_nvml_kind_pt     temperature;
    mst_nvml_number_pt   power;
    mst_nvml_number_pt   limit;
    mst_nvml_kind_pt     clock;
    mst_nvml_kind_pt     clock_max;
    mst_nvml_memory_pt   memory;
    mst_nvml_text_pt     driver;
};


static const struct {
    const char  *name;
    size_t       at;               /* of the pointer in mst_nvml_t */
} mst_nvml_symbols[] = {
    { "nvmlInit_v2", offsetof(mst_nvml_t, init) },
    { "nvmlShutdown", offsetof(mst_nvml_t, end) },
    { "nvmlErrorString", offsetof(mst_nvml_t, error) },
    { "nvmlDeviceGetHandleByIndex_v2", offsetof(mst_nvml_t, by_index) },
    { "nvmlDeviceGetHandleByPciBusId_v2", offsetof(mst_nvml_t, by_place) },
    { "nvmlDeviceGetTemperature", offsetof(mst_nvml_t, temperature) },
    { "nvmlDeviceGetPowerUsage", offsetof(mst_nvml_t, power) },
    { "nvmlDeviceGetEnforcedPowerLimit", offsetof(mst_nvml_t, limit) },
    { "nvmlDeviceGetClockInfo", offsetof(mst_nvml_t, clock) },
    { "nvmlDeviceGetMaxClockInfo", offsetof(mst_nvml_t, clock_max) },
    { "nvmlDeviceGetMemoryInfo", offsetof(mst_nvml_t, memory) },
    { "nvmlSystemGetDriverVersion", offsetof(mst_nvml_t, driver) }
};


static int
mst_nvml_load(mst_nvml_t *n, const char *library, mst_err_t *err)
{
    size_t   i;
    void   **to;

    n->library = dlopen(library, RTLD_NOW|RTLD_LOCAL);

    if (n->library == NULL) {
        return mst_err_set(err, "%s", dlerror());
    }

    for (i = 0; i < sizeof(mst_nvml_symbols) / sizeof(*mst_nvml_symbols); i++)
    {
        to = (void **) ((char *) n + mst_nvml_symbols[i].at);
        *to = dlsym(n->library, mst_nvml_symbols[i].name);

        if (*to == NULL) {
            return mst_err_set(err, "%s exports no %s", library,
                               mst_nvml_symbols[i].name);
        }
    }

    return MST_OK;
}


static int
mst_nvml_find(mst_nvml_t *n, const char *pci, mst_err_t *err)
{
    int  rc;

    rc = n->init();

    if (rc != 0) {
        return mst_err_set(err, "NVML: %s", n->error(rc));
    }

    n->begun = 1;
    rc = pci ? n->by_place(pci, &n->device) : n->by_index(0, &n->device);

    if (rc != 0) {
        return mst_err_set(err, "NVML, device %s: %s", pci ? pci : "0",
                           n->error(rc));
    }

    return MST_OK;
}


mst_nvml_t *
mst_nvml_open(const char *library, const char *pci, mst_err_t *err)
{
    mst_nvml_t  *n;

    n = mst_calloc(1, sizeof(mst_nvml_t));

    if (n == NULL) {
        (void) mst_err_set(err, "out of memory for NVML");
        return NULL;
    }

    if (mst_nvml_load(n, library, err) != MST_OK
        || mst_nvml_find(n, pci, err) != MST_OK)
    {
        mst_nvml_close(n);
        return NULL;
    }

    return n;
}


void
mst_nvml_driver(const mst_nvml_t *n, char *version, uint32_t size)
{
    version[0] = '\0';

    if (n->driver(version, size) != 0) {
        version[0] = '\0';
    }

    version[size - 1] = '\0';
}


static uint32_t
mst_nvml_kind(mst_nvml_t *n, mst_nvml_kind_pt ask, int kind)
{
    unsigned  value;

    value = 0;

    return ask(n->device, kind, &value) == 0 ? value : 0;
}


static uint32_t
mst_nvml_number(mst_nvml_t *n, mst_nvml_number_pt ask)
{
    unsigned  value;

    value = 0;

    return ask(n->device, &value) == 0 ? value : 0;
}


int
mst_nvml_read(mst_nvml_t *n, mst_nvml_sample_t *s, mst_err_t *err)
{
    int                rc;
    unsigned           celsius;
    mst_nvml_memory_t  m;

    memset(s, 0, sizeof(mst_nvml_sample_t));
    celsius = 0;

    rc = n->temperature(n->device, MST_NVML_CELSIUS, &celsius);

    if (rc == MST_NVML_LOST) {
        return mst_err_set(err, "NVML: %s", n->error(rc));
    }

    s->celsius = rc == 0 ? celsius : 0;
    s->milliwatts = mst_nvml_number(n, n->power);
    s->milliwatts_limit = mst_nvml_number(n, n->limit);
    s->mhz = mst_nvml_kind(n, n->clock, MST_NVML_SM);
    s->mhz_max = mst_nvml_kind(n, n->clock_max, MST_NVML_SM);
    s->mhz_memory = mst_nvml_kind(n, n->clock, MST_NVML_MEMORY);

    memset(&m, 0, sizeof(m));

    if (n->memory(n->device, &m) == 0) {
        s->memory_used = m.used;
        s->memory_total = m.total;
    }

    return MST_OK;
}


void
mst_nvml_close(mst_nvml_t *n)
{
    if (n == NULL) {
        return;
    }

    if (n->begun) {
        (void) n->end();
    }

    if (n->library) {
        (void) dlclose(n->library);
    }

    mst_free(n);
}


/* by the driver that is open already; where none is, nobody computes */

int
mst_nvml_pci(uint32_t device, char pci[MST_NVML_PCI])
{
    int                  d, rc;
    void                *driver;
    mst_nvml_cu_get_pt   get;
    mst_nvml_cu_pci_pt   place;

    driver = dlopen(MST_NVML_DRIVER, RTLD_NOW|RTLD_NOLOAD);

    if (driver == NULL) {
        return MST_DECLINED;
    }

    *(void **) &get = dlsym(driver, "cuDeviceGet");
    *(void **) &place = dlsym(driver, "cuDeviceGetPCIBusId");

    rc = get && place && get(&d, (int) device) == 0
         && place(pci, MST_NVML_PCI, d) == 0
         ? MST_OK : MST_DECLINED;

    (void) dlclose(driver);

    return rc;
}


/*
 * What a driver's management library (NVML) tells of a device: temperature,
 * power, clock, memory.  It is opened where it is there and asked only:
 * nothing of the device is ever set.
 *
 * One thread at a time; a call may take milliseconds, so not the one that
 * steps.
 */

#ifndef MST_NVML_H
#define MST_NVML_H

#include <stdint.h>

#include "base/mst_err.h"

#define MST_NVML_LIBRARY  "libnvidia-ml.so.1"
#define MST_NVML_PCI      32                   /* bytes, with the NUL */


typedef struct mst_nvml_s  mst_nvml_t;


/* 0 = not known */
typedef struct {
    uint32_t  celsius;
    uint32_t  milliwatts;
    uint32_t  milliwatts_limit;    /* that the driver enforces */
    uint32_t  mhz;                 /* of the multiprocessors, now */
    uint32_t  mhz_max;
    uint32_t  mhz_memory;
    uint64_t  memory_used;         /* bytes, by whomever */
    uint64_t  memory_total;
} mst_nvml_sample_t;


/*
 * The device whose place on the bus is pci ("0000:3b:00.0"); NULL: the first
 * one.  NULL with a sentence: there is no such library, no driver or no such
 * device.
 */
mst_nvml_t *mst_nvml_open(const char *library, const char *pci,
    mst_err_t *err);

/* a copy, "" = not known */
void mst_nvml_driver(const mst_nvml_t *n, char *version, uint32_t size);

/* what the device does not tell is 0; MST_ERROR: it is lost */
int mst_nvml_read(mst_nvml_t *n, mst_nvml_sample_t *sample, mst_err_t *err);

void mst_nvml_close(mst_nvml_t *n);            /* NULL is allowed */

/* where the CUDA driver's device of this number sits: MST_OK, or MST_DECLINED
   where no driver says so.  A process that computes has the driver open. */
int mst_nvml_pci(uint32_t device, char pci[MST_NVML_PCI]);


#endif /* MST_NVML_H */

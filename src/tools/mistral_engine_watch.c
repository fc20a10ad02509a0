
/*
 * The watch of an engine: a thread that puts the device's temperature, power,
 * clock and memory into the stats page, once a second.  Another thread than
 * the one that steps, since a driver may take its time.
 */

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "backend/mst_nvml.h"
#include "tools/mistral_engine.h"


typedef struct {
    mst_stat_t  *stat;
    uint32_t     device;
} mistral_watch_t;


/* the process has one */
static mistral_watch_t  mistral_watch_one;


static void
mistral_watch_publish(mst_stat_t *st, const mst_nvml_sample_t *s)
{
    mst_stat_set(&st->celsius, s->celsius);
    mst_stat_set(&st->milliwatts, s->milliwatts);
    mst_stat_set(&st->mhz, s->mhz);
    mst_stat_set(&st->memory_used, s->memory_used);
    mst_stat_set(&st->memory_total, s->memory_total);
}


static void *
mistral_watch_run(void *data)
{
    char                pci[MST_NVML_PCI];
    mst_err_t           err;
    mst_nvml_t         *nvml;
    mistral_watch_t    *w;
    struct timespec     second;
    mst_nvml_sample_t   sample;

    w = data;
    err.text[0] = '\0';
    second.tv_sec = 1;
    second.tv_nsec = 0;

    nvml = mst_nvml_open(MST_NVML_LIBRARY,
                         mst_nvml_pci(w->device, pci) == MST_OK ? pci : NULL,
                         &err);

    while (nvml != NULL && mst_nvml_read(nvml, &sample, &err) == MST_OK) {
        mistral_watch_publish(w->stat, &sample);
        (void) nanosleep(&second, NULL);
    }

    memset(&sample, 0, sizeof(sample));
    mistral_watch_publish(w->stat, &sample);

    mst_log(&mistral_engine_log, MST_LOG_WARN, "temperature and power of the "
            "device are not known: %s", err.text);

    mst_nvml_close(nvml);

    return NULL;
}


void
mistral_engine_watch(const mistral_engine_t *e, const mistral_engine_load_t *l)
{
    int                rc;
    sigset_t           all, before;
    pthread_t          thread;
    mst_nvml_sample_t  sample;

    /* those of an engine before */

    memset(&sample, 0, sizeof(sample));
    sample.celsius = e->setup.null ? e->setup.null_celsius : 0;
    mistral_watch_publish(&e->map.shm->stat, &sample);

    if (strncmp(l->backend, "cuda:", 5) != 0) {
        return;
    }

    mistral_watch_one.stat = &e->map.shm->stat;
    mistral_watch_one.device = l->device;

    /* signals are for the thread that serves */

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);

    rc = pthread_create(&thread, NULL, mistral_watch_run, &mistral_watch_one);

    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);

    if (rc != 0) {
        mst_log(&mistral_engine_log, MST_LOG_WARN, "no thread to watch the "
                "device: %s", strerror(rc));
        return;
    }

    (void) pthread_detach(thread);
}

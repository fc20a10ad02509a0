
/*
 * "mistral bench --kernels --device cuda:N": each kernel of libmst_cuda.so on
 * shapes of Mistral-7B, its time and what part of the device's limit that is.
 * What is measured is what "mistral diagnose" looks at (mst_probe.h).
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "backend/mst_probe.h"
#include "model/mst_forward.h"
#include "tools/mistral_bench.h"
#include "tools/mistral_device.h"
#include "tools/mistral_tool.h"


typedef struct {
    json_t  *report;
    int      quiet;                /* the report goes to stdout */
    char     wrong[256];           /* the first finding that is not ok */
} mistral_bench_device_t;


static void
mistral_bench_device_line(void *data, const mst_probe_line_t *line)
{
    json_t                  *o;
    mistral_bench_device_t  *d;

    d = data;

    if (!line->ok && d->wrong[0] == '\0') {
        (void) snprintf(d->wrong, sizeof(d->wrong), "%s: %s", line->name,
                        line->text);
    }

    if (!line->ok || line->us <= 0) {
        return;
    }

    o = json_pack("{s:f}", "microseconds", line->us);

    if (line->floor_us > 0) {
        (void) json_object_set_new(o, "percent_of_limit",
                                   json_real(line->floor_us / line->us * 100));
    }

    (void) json_object_set_new(d->report, line->name, o);

    if (d->quiet) {
        return;
    }

    (void) printf("%-34s %9.1f us", line->name, line->us);

    if (line->floor_us > 0) {
        (void) printf(" %4.0f %% of the limit",
                      line->floor_us / line->us * 100);
    }

    (void) putchar('\n');
    (void) fflush(stdout);
}


static int
mistral_bench_device_write(const char *path, const json_t *report)
{
    int    rc;
    FILE  *f;

    f = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");

    if (f == NULL) {
        return mistral_complain(MISTRAL_FAILED, "bench", "%s: %s", path,
                                strerror(errno));
    }

    rc = json_dumpf(report, f, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    rc |= fputc('\n', f) == EOF;
    rc |= f == stdout ? fflush(f) : fclose(f);

    return rc ? mistral_complain(MISTRAL_FAILED, "bench", "%s cannot be "
                                 "written", path) : MISTRAL_OK;
}


static int
mistral_bench_device_run(const mistral_bench_conf_t *c,
    const mst_model_conf_t *conf, mistral_bench_device_t *d)
{
    void          *library;
    mst_err_t      err = { "" };
    mst_probe_t    p;
    mst_probe_pt   probe;

    library = dlopen(conf->library, RTLD_NOW|RTLD_LOCAL);

    if (library == NULL) {
        return mistral_complain(MISTRAL_REFUSED, "bench", "%s", dlerror());
    }

    *(void **) &probe = dlsym(library, MST_PROBE_SYMBOL);

    if (probe == NULL) {
        return mistral_complain(MISTRAL_REFUSED, "bench", "%s exports no %s: "
                                "it is of another version", conf->library,
                                MST_PROBE_SYMBOL);
    }

    p.device = conf->device;
    p.line = mistral_bench_device_line;
    p.data = d;

    if (probe(&p, &err) != MST_OK || d->wrong[0]) {
        return mistral_complain(MISTRAL_FAILED, "bench", "%s",
                                d->wrong[0] ? d->wrong : err.text);
    }

    return c->json ? mistral_bench_device_write(c->json, d->report)
                   : MISTRAL_OK;
}


int
mistral_bench_device(const mistral_bench_conf_t *c)
{
    int                      rc;
    mst_err_t                err = { "" };
    mst_model_conf_t         conf;
    mistral_bench_device_t   d;

    memset(&conf, 0, sizeof(conf));
    rc = mistral_device(c->device, NULL, NULL, &conf, &err);

    if (rc != MISTRAL_OK) {
        return mistral_complain(rc, "bench", "%s", err.text);
    }

    memset(&d, 0, sizeof(d));
    d.quiet = c->json != NULL && strcmp(c->json, "-") == 0;
    d.report = json_pack("{s:s}", "device", c->device);
    rc = mistral_bench_device_run(c, &conf, &d);
    json_decref(d.report);

    return rc;
}

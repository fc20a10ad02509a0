
/*
 * The management library, played by one that is compiled here: what a device
 * tells, what it does not tell, and every reason to have none.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <unistd.h>

#include "backend/mst_nvml.h"


/* a library whose state is the environment's: NVML_FAIL names a call */
static const char  text[] =
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "#define FAIL(name, rc) do { const char *f = getenv(\"NVML_FAIL\");"
    " if (f && strcmp(f, name) == 0) return rc; } while (0)\n"
    "static int begun;\n"
    "int nvmlInit_v2(void) { FAIL(\"init\", 9); begun++; return 0; }\n"
    "int nvmlShutdown(void) { begun--; return 0; }\n"
    "int stub_begun(void) { return begun; }\n"
    "const char *nvmlErrorString(int rc) { return rc == 9"
    " ? \"Driver Not Loaded\" : rc == 15 ? \"GPU is lost\" : \"other\"; }\n"
    "int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)"
    " { FAIL(\"index\", 2); *d = (char *) 0 + 100 + i; return 0; }\n"
    "int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **d)"
    " { if (strcmp(pci, \"0000:3b:00.0\")) return 6;"
    " *d = (char *) 0 + 200; return 0; }\n"
    "int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *n)"
    " { FAIL(\"temperature\", 3); FAIL(\"lost\", 15); if (sensor) return 2;"
    " *n = d == (char *) 0 + 200 ? 71 : 42; return 0; }\n"
    "int nvmlDeviceGetPowerUsage(void *d, unsigned *n)"
    " { FAIL(\"power\", 3); (void) d; *n = 345678; return 0; }\n"
    "int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *n)"
    " { (void) d; *n = 700000; return 0; }\n"
    "int nvmlDeviceGetClockInfo(void *d, int k, unsigned *n)"
    " { (void) d; *n = k == 1 ? 1755 : k == 2 ? 3201 : 7; return 0; }\n"
    "int nvmlDeviceGetMaxClockInfo(void *d, int k, unsigned *n)"
    " { (void) d; *n = k == 1 ? 1980 : 7; return 0; }\n"
    "int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m)"
    " { (void) d; m[0] = 300; m[1] = 100; m[2] = 200; return 0; }\n"
    "int nvmlSystemGetDriverVersion(char *t, unsigned n)"
    " { FAIL(\"driver\", 3); strncpy(t, \"580.159.04\", n); return 0; }\n";


static char  library[64];
static char  partial[64];


static void
compile(const char *to, const char *what)
{
    FILE  *f;
    char   command[256];

    (void) snprintf(command, sizeof(command), "%s.c", to);
    f = fopen(command, "we");
    assert_non_null(f);
    (void) fputs(what, f);
    (void) fclose(f);

    (void) snprintf(command, sizeof(command), "cc -shared -fPIC -w -o %s %s.c",
                    to, to);
    assert_int_equal(system(command), 0);
    (void) snprintf(command, sizeof(command), "%s.c", to);
    (void) unlink(command);
}


static int
set_up(void **state)
{
    (void) state;

    (void) snprintf(library, sizeof(library), "/tmp/mst_nvml.%d.so",
                    (int) getpid());
    (void) snprintf(partial, sizeof(partial), "/tmp/mst_nvml.%d.part.so",
                    (int) getpid());
    compile(library, text);
    compile(partial, "int nvmlInit_v2(void) { return 0; }\n");

    return 0;
}


static int
tear_down(void **state)
{
    (void) state;

    (void) unlink(library);
    (void) unlink(partial);

    return 0;
}


static mst_nvml_t *
opened(const char *pci)
{
    mst_err_t    err;
    mst_nvml_t  *n;

    err.text[0] = '\0';
    n = mst_nvml_open(library, pci, &err);

    if (n == NULL) {
        fail_msg("%s", err.text);
    }

    return n;
}


static void
test_read(void **state)
{
    char                version[16];
    mst_err_t           err;
    mst_nvml_t         *n;
    mst_nvml_sample_t   s;

    (void) state;

    n = opened("0000:3b:00.0");
    assert_int_equal(mst_nvml_read(n, &s, &err), MST_OK);
    assert_int_equal(s.celsius, 71);
    assert_int_equal(s.milliwatts, 345678);
    assert_int_equal(s.milliwatts_limit, 700000);
    assert_int_equal(s.mhz, 1755);
    assert_int_equal(s.mhz_max, 1980);
    assert_int_equal(s.mhz_memory, 3201);
    assert_int_equal(s.memory_used, 200);
    assert_int_equal(s.memory_total, 300);

    mst_nvml_driver(n, version, sizeof(version));
    assert_string_equal(version, "580.159.04");
    mst_nvml_driver(n, version, 4);
    assert_string_equal(version, "580");
    mst_nvml_close(n);

    /* the first device where nobody says which */

    n = opened(NULL);
    assert_int_equal(mst_nvml_read(n, &s, &err), MST_OK);
    assert_int_equal(s.celsius, 42);
    mst_nvml_close(n);

    mst_nvml_close(NULL);
}


/* what a device does not tell is not known, and no reason to give up */

static void
test_silent(void **state)
{
    char                version[16];
    mst_err_t           err;
    mst_nvml_t         *n;
    mst_nvml_sample_t   s;

    (void) state;

    n = opened(NULL);
    err.text[0] = '\0';

    (void) setenv("NVML_FAIL", "temperature", 1);
    assert_int_equal(mst_nvml_read(n, &s, &err), MST_OK);
    assert_int_equal(s.celsius, 0);
    assert_int_equal(s.milliwatts, 345678);

    (void) setenv("NVML_FAIL", "power", 1);
    assert_int_equal(mst_nvml_read(n, &s, &err), MST_OK);
    assert_int_equal(s.celsius, 42);
    assert_int_equal(s.milliwatts, 0);

    (void) setenv("NVML_FAIL", "driver", 1);
    mst_nvml_driver(n, version, sizeof(version));
    assert_string_equal(version, "");

    (void) setenv("NVML_FAIL", "lost", 1);
    assert_int_equal(mst_nvml_read(n, &s, &err), MST_ERROR);
    assert_string_equal(err.text, "NVML: GPU is lost");

    (void) unsetenv("NVML_FAIL");
    mst_nvml_close(n);
}


static void
refused(const char *from, const char *pci, const char *why)
{
    mst_err_t  err;

    err.text[0] = '\0';
    assert_null(mst_nvml_open(from, pci, &err));

    if (strstr(err.text, why) == NULL) {
        fail_msg("\"%s\" not in \"%s\"", why, err.text);
    }
}


static void
test_refused(void **state)
{
    (void) state;

    refused("/nowhere/libnvidia-ml.so.1", NULL, "/nowhere/libnvidia-ml.so.1");
    refused(partial, NULL, "exports no nvmlShutdown");
    refused(library, "0000:00:00.0", "NVML, device 0000:00:00.0: other");

    (void) setenv("NVML_FAIL", "init", 1);
    refused(library, NULL, "NVML: Driver Not Loaded");
    (void) setenv("NVML_FAIL", "index", 1);
    refused(library, NULL, "NVML, device 0: other");
    (void) unsetenv("NVML_FAIL");
}


/* no driver is open in this process */

static void
test_pci(void **state)
{
    char  pci[MST_NVML_PCI];

    (void) state;

    assert_int_equal(mst_nvml_pci(0, pci), MST_DECLINED);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_pci)
    };

    return cmocka_run_group_tests_name("mst_nvml", tests, set_up, tear_down);
}

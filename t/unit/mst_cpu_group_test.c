
/*
 * Limits of control groups, in trees made here.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "backend/mst_cpu_group.h"


#define NONE  UINT64_MAX


static char  root[64];


static void
put(const char *file, const char *text)
{
    char   path[512], *p;
    FILE  *f;

    (void) snprintf(path, sizeof(path), "%s/%s", root, file);

    for (p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void) mkdir(path, 0755);
        *p = '/';
    }

    f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}


static int
setup(void **state)
{
    (void) state;

    strcpy(root, "/tmp/mst_cpu_group.XXXXXX");

    return mkdtemp(root) == NULL;
}


static int
teardown(void **state)
{
    char  line[128];

    (void) state;

    (void) snprintf(line, sizeof(line), "rm -r %s", root);

    return system(line);
}


/* one group, every form of its file */

static void
test_quota(void **state)
{
    size_t  i;

    const struct {
        const char  *text;
        uint64_t     want;
    } t[] = {
        { "max 100000\n", NONE },
        { "150000 100000\n", 1500 },
        { "200000 100000", 2000 },
        { "100 100000\n", 1 },
        { "1 100000\n", 0 },
        { "6400000 100000\n", 64000 },
        { "18446744073709551615 100000\n", NONE },
        { "100000 0\n", NONE },
        { "100000\n", NONE },
        { "100000 max\n", NONE },
        { "-1 100000\n", NONE },
        { " \n", NONE },
        { "", NONE }
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        put("g/cpu.max", t[i].text);

        if (mst_cpu_group_quota_of(root, "0::/g\n") != t[i].want) {
            fail_msg("\"%s\": %llu", t[i].text, (unsigned long long)
                     mst_cpu_group_quota_of(root, "0::/g\n"));
        }
    }
}


/* who we are, in every form of /proc/self/cgroup */

static void
test_self(void **state)
{
    size_t  i;

    const struct {
        const char  *self;
        uint64_t     quota;
        uint64_t     memory;
    } t[] = {
        { "0::/\n", 4000, NONE },
        { "0::/a\n", 3000, 3000 },
        { "0::/a/b\n", 2000, 3000 },
        { "0::/a/b/c/d\n", 2000, 3000 },      /* of which we see no file */
        { "0::/elsewhere/x\n", 4000, NONE },
        { "0::/a/b", 2000, 3000 },
        { "", NONE, NONE },
        { "nonsense\n", NONE, NONE },
        { "0:nonsense\n", NONE, NONE },
        { "7:x\n0::/a\n", 3000, 3000 },

        /* v1 */
        { "3:cpu,cpuacct:/k\n4:memory:/k\n", 500, 7000 },
        { "3:cpuacct,cpu:/k\n", 500, NONE },
        { "3:cpuacct:/k\n5:cpuset:/k\n", NONE, NONE },
        { "3:cpu:/k/l\n4:memory:/k/l\n", 250, 7000 },
        { "3:cpu:/docker/123\n4:memory:/docker/123\n", 9000, 9000 },
        { "9:name=systemd:/k\n3:cpu:/k\n", 500, NONE },

        /* both */
        { "3:cpu:/k\n0::/u\n", 500, 6000 },
        { "4:memory:/k\n0::/u\n", 4000, 6000 }
    };

    (void) state;

    put("cpu.max", "400000 100000\n");
    put("a/cpu.max", "300000 100000\n");
    put("a/memory.max", "3000\n");
    put("a/b/cpu.max", "200000 100000\n");
    put("a/b/memory.max", "max\n");

    put("cpu/cpu.cfs_quota_us", "900000\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    put("cpu/k/cpu.cfs_quota_us", "50000\n");
    put("cpu/k/cpu.cfs_period_us", "100000\n");
    put("cpu/k/l/cpu.cfs_quota_us", "50000\n");
    put("cpu/k/l/cpu.cfs_period_us", "200000\n");
    put("memory/memory.limit_in_bytes", "9000\n");
    put("memory/k/memory.limit_in_bytes", "7000\n");
    put("memory/k/l/memory.limit_in_bytes", "9223372036854771712\n");
    put("unified/u/memory.max", "6000\n");

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        if (mst_cpu_group_quota_of(root, t[i].self) != t[i].quota
            || mst_cpu_group_memory_of(root, t[i].self) != t[i].memory)
        {
            fail_msg("\"%s\": quota %llu, memory %llu", t[i].self,
                     (unsigned long long)
                     mst_cpu_group_quota_of(root, t[i].self),
                     (unsigned long long)
                     mst_cpu_group_memory_of(root, t[i].self));
        }
    }

    put("cpu/k/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(mst_cpu_group_quota_of(root, "3:cpu:/k\n"), 9000);
}


/* a path that no buffer holds */

static void
test_long(void **state)
{
    char  self[8192];

    (void) state;

    memset(self, 'x', sizeof(self));
    memcpy(self, "0::/", 4);
    self[sizeof(self) - 1] = '\0';

    assert_int_equal(mst_cpu_group_quota_of(root, self), NONE);

    self[2000] = '\0';
    assert_int_equal(mst_cpu_group_quota_of(root, self), NONE);
}


/* this process's own, whatever it is */

static void
test_own(void **state)
{
    (void) state;

    assert_true(mst_cpu_group_memory() >= (uint64_t) 16 << 20);
    assert_true(mst_cpu_group_quota() >= 10);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
        cmocka_unit_test_setup_teardown(test_self, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long, setup, teardown),
        cmocka_unit_test(test_own)
    };

    return cmocka_run_group_tests_name("mst_cpu_group", tests, NULL, NULL);
}

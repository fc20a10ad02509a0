
/*
 * What the control group of this process allows, of memory and of cores: a
 * container's limits, which sysconf() does not know.  The group itself and
 * all above it count, in both hierarchies (v1 and v2), as far as they can be
 * read; a container often sees its own group as the root.
 *
 * Any thread; reads files each time.
 */

#ifndef MST_CPU_GROUP_H
#define MST_CPU_GROUP_H

#include <stdint.h>


/* bytes; UINT64_MAX = no limit */
uint64_t mst_cpu_group_memory(void);

/* thousandths of a core's time; UINT64_MAX = no limit */
uint64_t mst_cpu_group_quota(void);


/* the same of a given tree, and the text of a /proc/PID/cgroup: for tests */
uint64_t mst_cpu_group_memory_of(const char *root, const char *self);
uint64_t mst_cpu_group_quota_of(const char *root, const char *self);


#endif /* MST_CPU_GROUP_H */

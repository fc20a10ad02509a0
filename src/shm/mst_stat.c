
/*
 * The stats page, as far as it needs more than a load: see mst_stat.h.
 */

#include <string.h>

#include "shm/mst_stat.h"


uint64_t
mst_stat_beat_age(const mst_stat_t *stat, uint64_t now_ns)
{
    uint64_t  beat;

    beat = mst_stat_get(&stat->beat_ns);

    return (beat == 0 || beat > now_ns) ? 0 : now_ns - beat;
}


void
mst_stat_backend(const mst_stat_t *stat, char name[64])
{
    size_t  i;

    for (i = 0; i < 63; i++) {
        name[i] = __atomic_load_n(&stat->backend[i], __ATOMIC_RELAXED);

        if (name[i] == '\0') {
            break;
        }

        if (name[i] < ' ' || name[i] > '~') {
            name[i] = '?';
        }
    }

    name[i] = '\0';
}


void
mst_stat_set_backend(mst_stat_t *stat, const char *name)
{
    size_t  len;

    len = strnlen(name, sizeof(stat->backend) - 1);

    memset(stat->backend, 0, sizeof(stat->backend));
    memcpy(stat->backend, name, len);
}

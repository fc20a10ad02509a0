
/*
 * The stats page, as far as it needs more than a load: see mst_stat.h.
 */

#include <string.h>

#include "base/mst_time.h"
#include "shm/mst_stat.h"


const uint64_t  mst_stat_bounds[MST_STAT_BUCKETS] = {
    MST_MS / 2, MST_MS, 5 * MST_MS / 2, 5 * MST_MS, 10 * MST_MS, 25 * MST_MS,
    50 * MST_MS, 75 * MST_MS, 100 * MST_MS, 150 * MST_MS, 250 * MST_MS,
    500 * MST_MS, 750 * MST_MS, MST_S, 5 * MST_S / 2, 5 * MST_S, 10 * MST_S,
    30 * MST_S, 60 * MST_S
};

_Static_assert(sizeof(_Atomic uint64_t) == 8, "counters are an array");


uint32_t
mst_stat_bucket(uint64_t ns)
{
    uint32_t  i;

    for (i = 0; i < MST_STAT_BUCKETS && ns > mst_stat_bounds[i]; i++) {
        /* void */
    }

    return i;
}


void
mst_stat_observe(mst_stat_hist_t *h, uint64_t ns, uint32_t n)
{
    _Atomic uint64_t  *b;

    b = &h->bucket[mst_stat_bucket(ns)];

    mst_stat_set(b, mst_stat_get(b) + n);
    mst_stat_set(&h->sum_ns, mst_stat_get(&h->sum_ns) + ns * n);
}


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

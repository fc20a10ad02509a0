
/*
 * Monotonic time.  All durations and deadlines inside the engine and on the
 * boundary are CLOCK_MONOTONIC nanoseconds: the same clock in every process
 * of the host.
 */

#ifndef MST_TIME_H
#define MST_TIME_H

#include <stdint.h>
#include <time.h>


#define MST_MS  1000000ull                     /* nanoseconds */
#define MST_S   1000000000ull


static inline uint64_t
mst_time_ns(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * MST_S + (uint64_t) ts.tv_nsec;
}


#endif /* MST_TIME_H */


/*
 * The seed of a random test: always the same, so that a change is judged by
 * itself and not by luck.  RANDOM_SEED=N for that one, =new for one never seen.
 */

#ifndef SEED_H
#define SEED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


static inline uint64_t
test_seed(void)
{
    uint64_t     seed;
    const char  *given;

    given = getenv("RANDOM_SEED");
    seed = given ? strtoull(given, NULL, 10) : 1;

    if (given && strcmp(given, "new") == 0) {
        seed = (uint64_t) time(NULL);
    }

    printf("# RANDOM_SEED=%llu\n", (unsigned long long) seed);

    return seed;
}


#endif /* SEED_H */

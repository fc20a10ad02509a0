
/*
 * Preloaded into nginx: how much CPU time a worker takes from one
 * epoll_wait() to the next, which is how long its other streams wait for
 * whatever it does.  The longest one, and how many there were above 5 ms,
 * stand in the file that TURNS names, 24 bytes, for whoever maps it.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LONG  5000000                          /* ns */


typedef struct {
    uint64_t  longest;         /* ns */
    uint64_t  n_long;
    uint64_t  n;
} turns_t;

typedef int (*epoll_wait_pt)(int ep, struct epoll_event *list, int n, int ms);


static turns_t  *turns;


static uint64_t
turns_cpu(void)
{
    struct timespec  t;

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);

    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}


/* before main(): nginx keeps no environment */

__attribute__((constructor)) static void
turns_open(void)
{
    int    fd;
    void  *p;

    fd = open(getenv("TURNS") ? getenv("TURNS") : "", O_RDWR|O_CLOEXEC);

    if (fd == -1) {
        return;
    }

    p = mmap(NULL, sizeof(turns_t), PROT_READ|PROT_WRITE, MAP_SHARED, fd, 0);
    (void) close(fd);

    turns = p == MAP_FAILED ? NULL : p;
}


static void
turns_count(turns_t *t, uint64_t ns)
{
    t->longest = ns > t->longest ? ns : t->longest;
    t->n_long += ns > LONG;
    t->n++;
}


__attribute__((visibility("default"))) int
epoll_wait(int ep, struct epoll_event *list, int n, int ms)
{
    int                     rc;
    static uint64_t         start;
    static epoll_wait_pt    next;

    if (next == NULL) {
        next = (epoll_wait_pt) (uintptr_t) dlsym(RTLD_NEXT, "epoll_wait");
    }

    if (turns && start) {
        turns_count(turns, turns_cpu() - start);
    }

    rc = next(ep, list, n, ms);
    start = turns_cpu();

    return rc;
}

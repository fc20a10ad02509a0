
/*
 * Weights in memory that outlives the process: see mst_cpu_store.h.
 *
 * A memfd's pages are small unless the system was told otherwise, and a
 * decode would be a sixth slower.  MADV_COLLAPSE (Linux 6.1) makes huge ones
 * of them whatever the system says; where there is none nothing is shared.
 * Nor is it in a control group that limits memory: who takes too much there
 * is killed, and that must give the memory back, or nginx is next.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "backend/mst_cpu.h"
#include "backend/mst_cpu_group.h"
#include "backend/mst_cpu_store.h"


#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE  25
#endif

#define MST_CPU_STORE_MAGIC   0x3245524f5453544dull
#define MST_CPU_STORE_HUGE    ((uint64_t) 2 << 20)
#define MST_CPU_STORE_STEP    ((uint64_t) 64 << 20)    /* the file grows by */
#define MST_CPU_STORE_TOUCH   4        /* huge pages at once at least, where
                                          matrices are small */
#define MST_CPU_STORE_LOOK    (20 * MST_MS)
#define MST_CPU_STORE_STILL   (10 * MST_S)     /* so long without progress: it
                                                  is not waited for */
#define MST_CPU_STORE_SEALS   (F_SEAL_SHRINK | F_SEAL_GROW                    \
                               | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)


/* the first bytes of the file */
typedef struct {
    uint64_t          magic;
    uint64_t          id;          /* of the model's files */
    uint64_t          size;        /* bytes of the file */
    uint64_t          sum;         /* of the three above */
    _Atomic uint64_t  filled;      /* bytes so far; for those who wait */
} mst_cpu_store_head_t;


struct mst_cpu_store_s {
    int                    fd;
    int                    ready;
    uint64_t               id;
    unsigned char         *map;        /* NULL: not mapped */
    uint64_t               map_size;   /* bytes of addresses */
    uint64_t               size;       /* bytes of the file */
    uint64_t               used;       /* bytes that were taken */
    uint64_t               huge;       /* in huge pages, so far */
};


typedef struct {
    unsigned char  *from;
    uint64_t        n;             /* huge pages */
    uint32_t        threads;
} mst_cpu_store_touch_t;


static uint64_t
mst_cpu_store_sum(const mst_cpu_store_head_t *h)
{
    return mst_hash(MST_CPU_STORE_MAGIC, h,
                    offsetof(mst_cpu_store_head_t, sum));
}


/* at an address that a huge page may have; NULL with errno */

static unsigned char *
mst_cpu_store_map(int fd, uint64_t size, int prot)
{
    uint64_t        head, all;
    unsigned char  *p, *at;

    all = size + MST_CPU_STORE_HUGE;
    p = mmap(NULL, all, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE,
             -1, 0);

    if (p == MAP_FAILED) {
        return NULL;
    }

    head = -(uintptr_t) p % MST_CPU_STORE_HUGE;
    at = mmap(p + head, size, prot, MAP_SHARED|MAP_FIXED, fd, 0);

    if (at == MAP_FAILED) {
        (void) munmap(p, all);
        return NULL;
    }

    if (head) {
        (void) munmap(p, head);
    }

    (void) munmap(at + size, MST_CPU_STORE_HUGE - head);

    return at;
}


/* MST_OK; MST_AGAIN: nobody has sealed it; MST_ERROR: it is of no use */

static int
mst_cpu_store_look(mst_cpu_store_t *s, mst_err_t *err)
{
    int                    seals;
    struct stat            st;
    mst_cpu_store_head_t   h;

    seals = fcntl(s->fd, F_GET_SEALS);

    if (seals == -1 || fstat(s->fd, &st) == -1 || !S_ISREG(st.st_mode)) {
        return mst_err_set(err, "there is no memory for shared weights");
    }

    if ((seals & MST_CPU_STORE_SEALS) != MST_CPU_STORE_SEALS) {
        return MST_AGAIN;
    }

    memset(&h, 0, sizeof(h));

    if (pread(s->fd, &h, sizeof(h), 0) != (ssize_t) sizeof(h)
        || h.magic != MST_CPU_STORE_MAGIC || h.sum != mst_cpu_store_sum(&h)
        || h.id != s->id || h.size != (uint64_t) st.st_size
        || h.size < MST_CPU_STORE_HUGE)
    {
        return mst_err_set(err, "the shared weights are not of these files");
    }

    s->size = h.size;
    s->map_size = h.size;

    return MST_OK;
}


/* the lock ends with the process */

static int
mst_cpu_store_lock(int fd, short type)
{
    struct flock  lock;

    memset(&lock, 0, sizeof(lock));
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_len = 1;

    return fcntl(fd, F_SETLK, &lock);
}


static uint64_t
mst_cpu_store_filled(int fd)
{
    mst_cpu_store_head_t  h;

    return pread(fd, &h, sizeof(h), 0) == (ssize_t) sizeof(h)
           ? atomic_load(&h.filled) : 0;
}


/* MST_OK: it is full; MST_AGAIN: it is ours to fill */

static int
mst_cpu_store_wait(mst_cpu_store_t *s, mst_err_t *err)
{
    int              rc;
    uint64_t         filled, now, since, was;
    struct timespec  pause;

    pause.tv_sec = 0;
    pause.tv_nsec = MST_CPU_STORE_LOOK;
    since = mst_time_ns();
    was = 0;

    for ( ;; ) {
        rc = mst_cpu_store_look(s, err);

        if (rc != MST_AGAIN) {
            return rc;
        }

        if (mst_cpu_store_lock(s->fd, F_WRLCK) == 0) {

            /* who had it may have sealed it meanwhile */

            return mst_cpu_store_look(s, err);
        }

        if (errno != EAGAIN && errno != EACCES) {
            return mst_err_set(err, "the shared weights were not completed, "
                               "and only a master can have them filled");
        }

        filled = mst_cpu_store_filled(s->fd);
        now = mst_time_ns();

        if (filled != was) {
            was = filled;
            since = now;
        }

        if (now - since > MST_CPU_STORE_STILL) {
            return mst_err_set(err, "the process that fills the shared "
                               "weights does not get on");
        }

        (void) nanosleep(&pause, NULL);
    }
}


/* one byte of each, and the rest is zeros of a huge page.  One call for all:
   each waits until every core has emptied a list. */

static int
mst_cpu_store_collapse(unsigned char *p, uint64_t n)
{
    uint64_t  i;

    for (i = 0; i < n; i++) {
        *(volatile unsigned char *) (p + i * MST_CPU_STORE_HUGE) = 0;
    }

    return n ? madvise(p, n * MST_CPU_STORE_HUGE, MADV_COLLAPSE) : 0;
}


/* grown bytes are zeros, which the tiles' padding must be */

static int
mst_cpu_store_begin(mst_cpu_store_t *s, mst_err_t *err)
{
    struct rlimit          rl;
    mst_cpu_store_head_t  *h;

    if (mst_cpu_group_memory() < (uint64_t) sysconf(_SC_PHYS_PAGES)
                                 * (uint64_t) sysconf(_SC_PAGESIZE))
    {
        return mst_err_set(err, "this control group's memory is limited");
    }

    if (getrlimit(RLIMIT_FSIZE, &rl) == -1 || rl.rlim_cur != RLIM_INFINITY) {
        return mst_err_set(err, "the size of files is limited");
    }

    s->size = MST_CPU_STORE_HUGE;
    s->used = MST_CPU_STORE_HUGE;
    s->huge = MST_CPU_STORE_HUGE;
    s->map_size = (mst_cpu_mem_limit() + MST_CPU_STORE_HUGE)
                  / MST_CPU_STORE_HUGE * MST_CPU_STORE_HUGE;

    if (ftruncate(s->fd, 0) == -1
        || ftruncate(s->fd, (off_t) s->size) == -1
        || (s->map = mst_cpu_store_map(s->fd, s->map_size,
                                       PROT_READ|PROT_WRITE)) == NULL)
    {
        return mst_err_errno(err, errno, "memory for shared weights cannot be "
                             "had");
    }

    if (mst_cpu_store_collapse(s->map, 1) != 0) {
        return mst_err_errno(err, errno, "this system gives shared memory no "
                             "huge pages");
    }

    h = (mst_cpu_store_head_t *) (void *) s->map;
    h->magic = MST_CPU_STORE_MAGIC;
    h->id = s->id;
    atomic_store(&h->filled, s->used);

    return MST_OK;
}


mst_cpu_store_t *
mst_cpu_store_open(int fd, uint64_t id, mst_err_t *err)
{
    int               rc;
    mst_cpu_store_t  *s;

    s = mst_calloc(1, sizeof(mst_cpu_store_t));

    if (s == NULL) {
        (void) mst_err_set(err, "out of memory");
        return NULL;
    }

    s->fd = fd;
    s->id = id;

    rc = mst_cpu_store_wait(s, err);

    if (rc == MST_AGAIN) {
        rc = mst_cpu_store_begin(s, err);

    } else if (rc == MST_OK) {
        s->ready = 1;
        s->used = MST_CPU_STORE_HUGE;
        s->map = mst_cpu_store_map(fd, s->size, PROT_READ);

        if (s->map == NULL) {
            rc = mst_err_errno(err, errno, "shared weights cannot be mapped");
        }
    }

    if (rc != MST_OK) {
        mst_cpu_store_close(s);
        return NULL;
    }

    return s;
}


void
mst_cpu_store_close(mst_cpu_store_t *s)
{
    if (s == NULL) {
        return;
    }

    if (s->map) {
        (void) munmap(s->map, s->map_size);
    }

    if (!s->ready) {
        (void) mst_cpu_store_lock(s->fd, F_UNLCK);
    }

    mst_free(s);
}


int
mst_cpu_store_use(mst_cpu_store_t *s, mst_backend_t *b, mst_err_t *err)
{
    return mst_cpu_mem_share(&b->weights, s, err);
}


int
mst_cpu_store_ready(const mst_cpu_store_t *s)
{
    return s->ready;
}


uint64_t
mst_cpu_store_size(const mst_cpu_store_t *s)
{
    return s->used;
}


/* by the threads that will read them, each its share */

static void
mst_cpu_store_touch(void *data, uint32_t phase, uint32_t thread, int last)
{
    uint64_t                from, to;
    mst_cpu_store_touch_t  *t;

    (void) phase;
    (void) last;

    t = data;
    from = t->n * thread / t->threads;
    to = t->n * (thread + 1) / t->threads;

    (void) mst_cpu_store_collapse(t->from + from * MST_CPU_STORE_HUGE,
                                  to - from);
}


/* huge pages up to the end, or a few more where the file has them */

static uint64_t
mst_cpu_store_pages(const mst_cpu_store_t *s, uint64_t end)
{
    uint64_t  least, most;

    least = (end - s->huge + MST_CPU_STORE_HUGE - 1) / MST_CPU_STORE_HUGE;
    most = ((s->size < s->map_size ? s->size : s->map_size) - s->huge)
           / MST_CPU_STORE_HUGE;
    most = most < MST_CPU_STORE_TOUCH ? most : MST_CPU_STORE_TOUCH;

    return least > most ? least : most;
}


static int
mst_cpu_store_grow(mst_cpu_store_t *s, mst_backend_t *b, uint64_t end,
    mst_err_t *err)
{
    uint64_t                size;
    mst_cpu_pool_job_t      job = { 0 };
    mst_cpu_store_touch_t   t;

    if (end > s->map_size) {
        return mst_err_set(err, "the shared weights need more than the memory "
                           "of this machine");
    }

    if (end > s->size) {
        size = (end + MST_CPU_STORE_STEP - 1) / MST_CPU_STORE_STEP
               * MST_CPU_STORE_STEP;

        if (ftruncate(s->fd, (off_t) size) == -1) {
            return mst_err_errno(err, errno, "memory for shared weights "
                                 "cannot be had");
        }

        s->size = size;
    }

    if (end > s->huge) {
        t.from = s->map + s->huge;
        t.n = mst_cpu_store_pages(s, end);
        t.threads = b->threads;

        job.run = mst_cpu_store_touch;
        job.data = &t;
        job.n_phases = 1;
        job.all = 1;

        mst_cpu_pool_run(b->pool, &job);
        s->huge += t.n * MST_CPU_STORE_HUGE;
    }

    return MST_OK;
}


void *
mst_cpu_store_take(mst_cpu_store_t *s, mst_backend_t *b, uint64_t size,
    mst_err_t *err)
{
    void                  *p;
    mst_cpu_store_head_t  *h;

    size = (size + 63) / 64 * 64;

    if (s->ready) {
        if (size > s->size - s->used) {
            (void) mst_err_set(err, "the shared weights are not of these "
                               "files: there are fewer");
            return NULL;
        }

    } else if (mst_cpu_store_grow(s, b, s->used + size, err) != MST_OK) {
        return NULL;
    }

    p = s->map + s->used;
    s->used += size;

    if (!s->ready) {
        h = (mst_cpu_store_head_t *) (void *) s->map;
        atomic_store(&h->filled, s->used);
    }

    return p;
}


/* what we have mapped is for reading now, at the same addresses */

int
mst_cpu_store_seal(mst_cpu_store_t *s, mst_err_t *err)
{
    mst_cpu_store_head_t  *h;

    if (s->ready) {
        return MST_OK;
    }

    h = (mst_cpu_store_head_t *) (void *) s->map;
    s->size = (s->used + MST_CPU_STORE_HUGE - 1) / MST_CPU_STORE_HUGE
              * MST_CPU_STORE_HUGE;
    h->size = s->size;
    h->sum = mst_cpu_store_sum(h);

    if (ftruncate(s->fd, (off_t) s->size) == -1
        || mmap(s->map, s->map_size, PROT_READ, MAP_SHARED|MAP_FIXED, s->fd,
                0) == MAP_FAILED
        || fcntl(s->fd, F_ADD_SEALS, MST_CPU_STORE_SEALS) == -1)
    {
        return mst_err_errno(err, errno, "the shared weights cannot be "
                             "sealed");
    }

    s->ready = 1;
    (void) mst_cpu_store_lock(s->fd, F_UNLCK);

    return MST_OK;
}


/*
 * Bytes of the host on their way to the device, by way of pinned memory: one
 * thread reads the page cache at a fifth of what the bus takes, so several
 * carry, each with a stream and slots of its own.  Pieces are small: what a
 * thread has just copied the bus then reads from the CPU's caches.
 *
 * A call returns when all bytes were read; they are there for whatever comes
 * behind it on the backend's stream, and they are written behind all that was
 * before.  The caller's thread carries, too, and alone where others cannot be
 * started.
 */

#include <pthread.h>
#include <string.h>

#include "base/mst_mem.h"
#include "base/mst_time.h"
#include "backend/mst_cpu_pool.h"
#include "backend/mst_cuda.h"

#define MST_CUDA_CARRIERS  8       /* threads */
#define MST_CUDA_SLOTS     4       /* of each */


typedef struct {
    mst_cuda_ring_t  *ring;
    pthread_t         thread;
    int               started;
    cudaStream_t      stream;
    char             *slots;       /* pinned [MST_CUDA_SLOTS] pieces */
    cudaEvent_t       free[MST_CUDA_SLOTS];
    uint32_t          at;          /* the next slot */
    cudaEvent_t       done;        /* with its part of a job */
} mst_cuda_carrier_t;


struct mst_cuda_ring_s {
    pthread_mutex_t     mutex;     /* of all that is no job */
    pthread_cond_t      todo;
    pthread_cond_t      idle;
    int                 device;
    uint64_t            n_jobs;
    uint32_t            left;      /* carriers at work, the caller's not */
    int                 end;

    /* a job: written before it is announced */
    char               *to;
    const char         *from;
    size_t              size;
    size_t              piece;
    size_t              next;      /* atomic: among the carriers */
    int                 rc;        /* atomic: the first error */

    cudaEvent_t         before;    /* what was on the backend's stream */
    mst_cuda_carrier_t  carriers[MST_CUDA_CARRIERS];
    uint32_t            n;
    uint64_t            bytes;
    uint64_t            ns;
};


static int
mst_cuda_carry_piece(mst_cuda_carrier_t *c, size_t at, size_t n)
{
    int               rc;
    char             *slot;
    uint32_t          k;
    mst_cuda_ring_t  *r;

    r = c->ring;
    k = c->at++ % MST_CUDA_SLOTS;
    slot = c->slots + (size_t) k * MST_CUDA_RING_PIECE;
    rc = cudaEventSynchronize(c->free[k]);

    if (rc == cudaSuccess) {
        memcpy(slot, r->from + at, n);
        rc = cudaMemcpyAsync(r->to + at, slot, n, cudaMemcpyHostToDevice,
                             c->stream);
    }

    return rc ? rc : (int) cudaEventRecord(c->free[k], c->stream);
}


/* a carrier's part of the job */

static void
mst_cuda_carry(mst_cuda_carrier_t *c)
{
    int               rc;
    size_t            at;
    mst_cuda_ring_t  *r;

    r = c->ring;
    rc = cudaStreamWaitEvent(c->stream, r->before, 0);

    while (rc == cudaSuccess) {
        at = __atomic_fetch_add(&r->next, r->piece, __ATOMIC_RELAXED);

        if (at >= r->size) {
            break;
        }

        rc = mst_cuda_carry_piece(c, at, mst_cuda_min(r->piece,
                                                      r->size - at));
    }

    rc = rc ? rc : (int) cudaEventRecord(c->done, c->stream);

    if (rc) {
        __atomic_store_n(&r->rc, rc, __ATOMIC_RELAXED);
    }
}


static void *
mst_cuda_carrier(void *data)
{
    uint64_t             seen;
    mst_cuda_ring_t     *r;
    mst_cuda_carrier_t  *c;

    c = data;
    r = c->ring;
    seen = 0;
    (void) cudaSetDevice(r->device);
    (void) pthread_mutex_lock(&r->mutex);

    for ( ;; ) {
        while (r->n_jobs == seen && !r->end) {
            (void) pthread_cond_wait(&r->todo, &r->mutex);
        }

        if (r->end) {
            break;
        }

        seen = r->n_jobs;
        (void) pthread_mutex_unlock(&r->mutex);
        mst_cuda_carry(c);
        (void) pthread_mutex_lock(&r->mutex);

        if (--r->left == 0) {
            (void) pthread_cond_signal(&r->idle);
        }
    }

    (void) pthread_mutex_unlock(&r->mutex);

    return NULL;
}


static int
mst_cuda_carrier_init(mst_cuda_ring_t *r, mst_cuda_carrier_t *c)
{
    int       rc;
    uint32_t  i;

    c->ring = r;
    rc = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
    rc = rc ? rc : (int) cudaEventCreateWithFlags(&c->done,
                                                  cudaEventDisableTiming);
    rc = rc ? rc : (int) cudaHostAlloc((void **) &c->slots,
                                       MST_CUDA_SLOTS * MST_CUDA_RING_PIECE,
                                       cudaHostAllocDefault);

    for (i = 0; i < MST_CUDA_SLOTS && rc == cudaSuccess; i++) {
        rc = cudaEventCreateWithFlags(&c->free[i], cudaEventDisableTiming
                                                   | cudaEventBlockingSync);
    }

    return rc;
}


static void
mst_cuda_carrier_fini(mst_cuda_carrier_t *c)
{
    uint32_t  i;

    if (c->stream) {
        (void) cudaStreamSynchronize(c->stream);
        (void) cudaStreamDestroy(c->stream);
    }

    for (i = 0; i < MST_CUDA_SLOTS; i++) {
        if (c->free[i]) {
            (void) cudaEventDestroy(c->free[i]);
        }
    }

    if (c->done) {
        (void) cudaEventDestroy(c->done);
    }

    if (c->slots) {
        (void) cudaFreeHost(c->slots);
    }
}


static int
mst_cuda_ring_open(mst_backend_t *b, mst_err_t *err)
{
    int               rc;
    uint32_t          i, n;
    uint64_t          bytes, ns;
    mst_cuda_ring_t  *r;

    r = mst_calloc(1, sizeof(mst_cuda_ring_t));

    if (r == NULL) {
        return mst_err_set(err, "out of memory for the CUDA backend");
    }

    b->ring = r;
    r->device = (int) b->conf.device;
    (void) pthread_mutex_init(&r->mutex, NULL);
    (void) pthread_cond_init(&r->todo, NULL);
    (void) pthread_cond_init(&r->idle, NULL);
    n = mst_cuda_min(mst_cpu_pool_cores(), MST_CUDA_CARRIERS);
    rc = cudaEventCreateWithFlags(&r->before, cudaEventDisableTiming);

    for (i = 0; i < n && rc == cudaSuccess; i++) {
        rc = mst_cuda_carrier_init(r, &r->carriers[i]);
    }

    /* few with pinned memory carry as well */

    if (rc == cudaErrorMemoryAllocation && i > 1) {
        (void) cudaGetLastError();
        n = i - 1;
        rc = cudaSuccess;
    }

    if (mst_cuda_check(b, rc, "pinned memory", err) != MST_OK) {
        mst_cuda_ring_close(b, &bytes, &ns);
        return MST_ERROR;
    }

    /* the first is the caller */

    for (r->n = 1; r->n < n; r->n++) {
        if (pthread_create(&r->carriers[r->n].thread, NULL, mst_cuda_carrier,
                           &r->carriers[r->n]) != 0)
        {
            break;
        }

        r->carriers[r->n].started = 1;
    }

    return MST_OK;
}


/* to all the others, where there is enough for them; returns how many carry */

static uint32_t
mst_cuda_ring_share(mst_cuda_ring_t *r)
{
    if (r->n == 1 || r->size <= r->piece) {
        return 1;
    }

    (void) pthread_mutex_lock(&r->mutex);
    r->left = r->n - 1;
    r->n_jobs++;
    (void) pthread_cond_broadcast(&r->todo);
    (void) pthread_mutex_unlock(&r->mutex);

    return r->n;
}


int
mst_cuda_send(mst_backend_t *b, void *to, const char *from, size_t size,
    mst_err_t *err)
{
    int               rc;
    uint32_t          i, n;
    uint64_t          start;
    mst_cuda_ring_t  *r;

    if (b->ring == NULL && mst_cuda_ring_open(b, err) != MST_OK) {
        return MST_ERROR;
    }

    r = b->ring;
    start = mst_time_ns();
    rc = cudaEventRecord(r->before, b->stream);

    r->to = to;
    r->from = from;
    r->size = rc ? 0 : size;
    r->piece = mst_cuda_size_piece(size, r->n);
    r->next = 0;
    r->rc = 0;

    n = mst_cuda_ring_share(r);
    mst_cuda_carry(&r->carriers[0]);

    if (n > 1) {
        (void) pthread_mutex_lock(&r->mutex);

        while (r->left) {
            (void) pthread_cond_wait(&r->idle, &r->mutex);
        }

        (void) pthread_mutex_unlock(&r->mutex);
    }

    rc = rc ? rc : __atomic_load_n(&r->rc, __ATOMIC_RELAXED);

    for (i = 0; i < n && rc == cudaSuccess; i++) {
        rc = cudaStreamWaitEvent(b->stream, r->carriers[i].done, 0);
    }

    r->bytes += size;
    r->ns += mst_time_ns() - start;

    return mst_cuda_check(b, rc, "copying weights", err);
}


void
mst_cuda_ring_close(mst_backend_t *b, uint64_t *bytes, uint64_t *ns)
{
    uint32_t          i;
    mst_cuda_ring_t  *r;

    r = b->ring;
    b->ring = NULL;
    *bytes = 0;
    *ns = 0;

    if (r == NULL) {
        return;
    }

    *bytes = r->bytes;
    *ns = r->ns;

    (void) pthread_mutex_lock(&r->mutex);
    r->end = 1;
    (void) pthread_cond_broadcast(&r->todo);
    (void) pthread_mutex_unlock(&r->mutex);

    for (i = 0; i < MST_CUDA_CARRIERS; i++) {
        if (r->carriers[i].started) {
            (void) pthread_join(r->carriers[i].thread, NULL);
        }

        mst_cuda_carrier_fini(&r->carriers[i]);
    }

    if (r->before) {
        (void) cudaEventDestroy(r->before);
    }

    (void) pthread_cond_destroy(&r->idle);
    (void) pthread_cond_destroy(&r->todo);
    (void) pthread_mutex_destroy(&r->mutex);
    mst_free(r);
}


/*
 * The segment: see mst_shm.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_outcome.h"
#include "base/mst_params.h"
#include "base/mst_time.h"
#include "shm/mst_place.h"         /* every header that MST_LAYOUT hashes, */
#include "shm/mst_record.h"        /* so that a change of any rebuilds this */
#include "shm/mst_ring.h"
#include "shm/mst_setup.h"
#include "shm/mst_shm.h"
#include "shm/mst_slot.h"
#include "shm/mst_stat.h"


#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL  0x0008U
#endif

#define MST_SHM_SEALS    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#define MST_SHM_MIN_RING  (256u * 1024)
#define MST_SHM_MAX_RING  (1u << 30)


_Static_assert(sizeof(mst_slot_t) % MST_CACHE_LINE == 0, "slot size");
_Static_assert(offsetof(mst_shm_t, magic) == 0, "read before the layout");
_Static_assert(offsetof(mst_shm_t, layout) == 8, "is known to be equal");
_Static_assert(sizeof(mst_record_t) % 8 == 0, "record head");
_Static_assert(sizeof(mst_rec_submit_t) % 8 == 0, "submit head");
_Static_assert(sizeof(mst_rec_tokens_t) % 8 == 0, "tokens head");
_Static_assert(sizeof(mst_rec_token_t) % 8 == 0, "token");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics shared by processes");


static int mst_shm_total(uint32_t n_slots, uint32_t req_size,
    uint32_t rsp_size, size_t *total, mst_err_t *err);
static int mst_shm_fill(int fd, const char *name,
    const mst_map_t *sizes, mst_map_t *m, mst_err_t *err);
static int mst_shm_check(int fd, mst_shm_t *head, mst_err_t *err);
static int mst_shm_map(mst_map_t *m, int fd, mst_err_t *err);


uint64_t
mst_shm_layout(void)
{
    return MST_LAYOUT;
}


void
mst_shm_sizes(uint32_t context, uint32_t *req_size, uint32_t *rsp_size)
{
    uint64_t  size, need;

    need = mst_record_submit_len(context, MST_MAX_STOP_IDS, MST_MAX_BIAS);

    if (need == 0) {
        need = MST_SHM_MAX_RING;
    }

    /* two records, and the rest of the ring that the second one skips */

    need *= 3;
    size = MST_SHM_MIN_RING;

    while (size < need && size < MST_SHM_MAX_RING) {
        size *= 2;
    }

    *req_size = (uint32_t) size;
    *rsp_size = MST_SHM_MIN_RING;
}


int
mst_shm_create(mst_map_t *m, int *fd, const char *name,
    uint32_t n_slots, uint32_t req_size, uint32_t rsp_size, mst_err_t *err)
{
    int        rc;
    mst_map_t  sizes;

    memset(m, 0, sizeof(mst_map_t));
    memset(&sizes, 0, sizeof(mst_map_t));

    sizes.n_slots = n_slots;
    sizes.req_size = req_size;
    sizes.rsp_size = rsp_size;

    rc = mst_shm_total(n_slots, req_size, rsp_size, &sizes.size, err);
    if (rc != MST_OK) {
        return rc;
    }

    *fd = memfd_create("mistral", MFD_CLOEXEC | MFD_ALLOW_SEALING
                                  | MFD_NOEXEC_SEAL);

    if (*fd == -1 && errno == EINVAL) {        /* Linux before 6.3 */
        *fd = memfd_create("mistral", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }

    if (*fd == -1) {
        return mst_err_errno(err, errno, "memfd_create() failed");
    }

    if (mst_shm_fill(*fd, name, &sizes, m, err) != MST_OK) {
        (void) close(*fd);
        *fd = -1;
        return MST_ERROR;
    }

    return MST_OK;
}


static int
mst_shm_fill(int fd, const char *name, const mst_map_t *sizes,
    mst_map_t *m, mst_err_t *err)
{
    mst_shm_t  *shm;

    if (ftruncate(fd, (off_t) sizes->size) == -1) {
        return mst_err_errno(err, errno, "ftruncate() of %zu bytes of shared "
                             "memory failed", sizes->size);
    }

    if (fcntl(fd, F_ADD_SEALS, MST_SHM_SEALS) == -1) {
        return mst_err_errno(err, errno, "cannot seal the shared memory");
    }

    *m = *sizes;

    if (mst_shm_map(m, fd, err) != MST_OK) {
        return MST_ERROR;
    }

    shm = m->shm;

    shm->layout = mst_shm_layout();
    shm->size = sizes->size;
    shm->created_ns = mst_time_ns();
    shm->n_slots = sizes->n_slots;
    shm->req_size = sizes->req_size;
    shm->rsp_size = sizes->rsp_size;
    (void) snprintf(shm->name, sizeof(shm->name), "%s", name);
    shm->magic = MST_SHM_MAGIC;

    return MST_OK;
}


int
mst_shm_attach(mst_map_t *m, int fd, mst_err_t *err)
{
    ssize_t    n;
    mst_shm_t  head;

    memset(m, 0, sizeof(mst_map_t));

    /* a copy: what is checked is what is used */

    memset(&head, 0, offsetof(mst_shm_t, name));

    n = pread(fd, &head, offsetof(mst_shm_t, name), 0);

    if (n == -1) {
        return mst_err_errno(err, errno, "cannot read descriptor %d as shared "
                             "memory", fd);
    }

    if (n < (ssize_t) (2 * sizeof(uint64_t)) || head.magic != MST_SHM_MAGIC) {
        return mst_err_set(err, "descriptor %d is not the shared memory of "
                           "an engine", fd);
    }

    if (head.layout != mst_shm_layout()) {
        return mst_err_set(err, "the shared memory has layout %016llx, this "
                           "program is built for %016llx: restart nginx after "
                           "an upgrade of the module",
                           (unsigned long long) head.layout,
                           (unsigned long long) mst_shm_layout());
    }

    if (mst_shm_check(fd, &head, err) != MST_OK) {
        return MST_ERROR;
    }

    m->size = (size_t) head.size;
    m->n_slots = head.n_slots;
    m->req_size = head.req_size;
    m->rsp_size = head.rsp_size;

    return mst_shm_map(m, fd, err);
}


static int
mst_shm_check(int fd, mst_shm_t *head, mst_err_t *err)
{
    int          seals;
    size_t       total;
    struct stat  st;

    if (mst_shm_total(head->n_slots, head->req_size, head->rsp_size, &total,
                      err)
        != MST_OK)
    {
        return MST_ERROR;
    }

    if (fstat(fd, &st) == -1) {
        return mst_err_errno(err, errno, "fstat() of the shared memory "
                             "failed");
    }

    if (head->size != total || (uint64_t) st.st_size != total) {
        return mst_err_set(err, "the shared memory has %lld bytes and claims "
                           "%llu, its parts need %zu", (long long) st.st_size,
                           (unsigned long long) head->size, total);
    }

    /* unsealed, a peer could cut it under us: SIGBUS */

    seals = fcntl(fd, F_GET_SEALS);

    if (seals == -1 || (seals & MST_SHM_SEALS) != MST_SHM_SEALS) {
        return mst_err_set(err, "the shared memory is not sealed");
    }

    return MST_OK;
}


static int
mst_shm_total(uint32_t n_slots, uint32_t req_size, uint32_t rsp_size,
    size_t *total, mst_err_t *err)
{
    if (n_slots == 0 || n_slots > MST_MAX_SLOTS) {
        return mst_err_set(err, "%u slots of shared memory, must be 1 .. %d",
                           n_slots, MST_MAX_SLOTS);
    }

    if (req_size < 4096 || req_size > MST_SHM_MAX_RING
        || (req_size & (req_size - 1)) != 0
        || rsp_size < 4096 || rsp_size > MST_SHM_MAX_RING
        || (rsp_size & (rsp_size - 1)) != 0)
    {
        return mst_err_set(err, "rings of %u and %u bytes, must be powers of "
                           "two from 4096 to %u", req_size, rsp_size,
                           MST_SHM_MAX_RING);
    }

    /* at most 512 * 2^31 and a little: no overflow in 64 bits */

    *total = sizeof(mst_shm_t) + n_slots * (sizeof(mst_slot_t)
                                            + (size_t) req_size + rsp_size);
    return MST_OK;
}


static int
mst_shm_map(mst_map_t *m, int fd, mst_err_t *err)
{
    void  *p;

    p = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        return mst_err_errno(err, errno, "mmap() of %zu bytes of shared memory "
                             "failed", m->size);
    }

    m->shm = p;
    m->slots = (mst_slot_t *) ((unsigned char *) p + sizeof(mst_shm_t));
    m->rings = (unsigned char *) &m->slots[m->n_slots];

    return MST_OK;
}


void
mst_shm_detach(mst_map_t *m)
{
    if (m->shm != NULL) {
        (void) munmap(m->shm, m->size);
    }

    memset(m, 0, sizeof(mst_map_t));
}

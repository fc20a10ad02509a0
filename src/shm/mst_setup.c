
/*
 * The setup's sealed file: see mst_setup.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/mst_setup.h"


#define MST_SETUP_SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE          \
                          | F_SEAL_SEAL)


int
mst_setup_create(const mst_setup_t *setup, int *fd, mst_err_t *err)
{
    ssize_t  n;

    *fd = memfd_create("mistral-setup", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (*fd == -1) {
        return mst_err_errno(err, errno, "memfd_create() failed");
    }

    n = pwrite(*fd, setup, sizeof(mst_setup_t), 0);

    if (n == (ssize_t) sizeof(mst_setup_t)
        && fcntl(*fd, F_ADD_SEALS, MST_SETUP_SEALS) == 0)
    {
        return MST_OK;
    }

    (void) mst_err_errno(err, n == -1 || n == (ssize_t) sizeof(mst_setup_t)
                              ? errno : ENOSPC,
                         "cannot write and seal an engine's setup");
    (void) close(*fd);
    *fd = -1;

    return MST_ERROR;
}


int
mst_setup_read(mst_setup_t *s, int fd, mst_err_t *err)
{
    int          seals;
    struct stat  st;

    if (fstat(fd, &st) == -1) {
        return mst_err_errno(err, errno, "descriptor %d is no engine's setup",
                             fd);
    }

    seals = fcntl(fd, F_GET_SEALS);

    if (seals == -1 || (seals & MST_SETUP_SEALS) != MST_SETUP_SEALS
        || st.st_size != (off_t) sizeof(mst_setup_t)
        || pread(fd, s, sizeof(mst_setup_t), 0)
           != (ssize_t) sizeof(mst_setup_t))
    {
        return mst_err_set(err, "descriptor %d is no engine's setup of %zu "
                           "sealed bytes", fd, sizeof(mst_setup_t));
    }

    s->name[sizeof(s->name) - 1] = '\0';
    s->path[sizeof(s->path) - 1] = '\0';
    s->device[sizeof(s->device) - 1] = '\0';
    s->dtype[sizeof(s->dtype) - 1] = '\0';
    s->program[sizeof(s->program) - 1] = '\0';
    s->tuned[sizeof(s->tuned) - 1] = '\0';

    if (s->n_files > MST_SETUP_FILES || s->n_groups > MST_SETUP_GROUPS) {
        return mst_err_set(err, "a setup of %u files and %u groups, limits "
                           "are %d and %d", s->n_files, s->n_groups,
                           MST_SETUP_FILES, MST_SETUP_GROUPS);
    }

    if (s->library > 1 || s->library > s->n_files) {
        return mst_err_set(err, "a setup of %u files, %u of them a library",
                           s->n_files, s->library);
    }

    return MST_OK;
}

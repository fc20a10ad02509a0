
/*
 * Owners of a segment: see mst_owner.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "shm/mst_owner.h"


static void mst_owner_lock(struct flock *lock, mst_owner_t who);


int
mst_owner_take(int fd, mst_owner_t who)
{
    int           rc;
    struct flock  lock;

    mst_owner_lock(&lock, who);

    do {
        rc = fcntl(fd, F_SETLK, &lock);
    } while (rc == -1 && errno == EINTR);

    if (rc == 0) {
        return MST_OK;
    }

    return errno == EAGAIN || errno == EACCES ? MST_BUSY : MST_ERROR;
}


pid_t
mst_owner_pid(int fd, mst_owner_t who)
{
    struct flock  lock;

    mst_owner_lock(&lock, who);

    if (fcntl(fd, F_GETLK, &lock) == -1) {
        return -1;
    }

    if (lock.l_type == F_UNLCK) {
        return 0;
    }

    /* 0 or below: of another pid namespace */

    return lock.l_pid > 0 ? lock.l_pid : -1;
}


static void
mst_owner_lock(struct flock *lock, mst_owner_t who)
{
    memset(lock, 0, sizeof(struct flock));

    lock->l_type = F_WRLCK;
    lock->l_whence = SEEK_SET;
    lock->l_start = (off_t) who;
    lock->l_len = 1;
}

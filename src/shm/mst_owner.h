
/*
 * Who serves a segment: locks of processes on bytes of its file.  The kernel
 * gives one back when its holder is gone, however that ended, and names the
 * holder truly; words of the segment could be anybody's.
 *
 * A lock is the process's, not the descriptor's: a fork has none, threads
 * share it, exec keeps it, and close() of any descriptor of this file gives
 * it back.
 */

#ifndef MST_OWNER_H
#define MST_OWNER_H

#include <sys/types.h>

#include "base/mst_err.h"


typedef enum {                     /* the byte */
    MST_OWNER_ENGINE = 0,          /* so that two never write into one ring */
    MST_OWNER_SUPERVISOR           /* so that two never start engines */
} mst_owner_t;


/* MST_OK: it is ours until we end; MST_BUSY: somebody else's; MST_ERROR with
   errno */
int mst_owner_take(int fd, mst_owner_t who);

/* another process that has it; 0 = none has, -1 = one that we cannot see or
   the lock cannot be read */
pid_t mst_owner_pid(int fd, mst_owner_t who);


#endif /* MST_OWNER_H */

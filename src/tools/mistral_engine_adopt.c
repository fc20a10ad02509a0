
/*
 * Adoption: a supervisor that an engine started in place of a dead one
 * (mistral_engine_keep.c) is that engine's child.  It hears of the engine's
 * end as its parent's, and never of the reason.
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "shm/mst_owner.h"
#include "tools/mistral_engine_super.h"


int
mistral_adopt_take(mistral_super_t *s, pid_t engine, pid_t before)
{
    /* exec made us dumpable again */

    (void) prctl(PR_SET_DUMPABLE, 0);
    (void) prctl(PR_SET_PDEATHSIG, SIGCHLD);

    if (mst_owner_take(MST_FD_MEM, MST_OWNER_SUPERVISOR) != MST_OK) {
        return MST_ERROR;
    }

    atomic_store(&s->shm->supervisor_pid, (uint32_t) getpid());

    s->engine = engine;
    s->adopted = 1;
    s->started_ns = mst_time_ns();

    /* a look at once: it may have died before it was our parent's death that
       sends a signal */

    s->look_ns = s->started_ns;

    mst_log(&mistral_engine_log, MST_LOG_WARN, "supervisor %d died, this one "
            "takes over engine process %d", (int) before, (int) engine);

    return MST_OK;
}


/* a child's pid is its own until we wait for it, a parent's while it is our
   parent */

void
mistral_adopt_kill(mistral_super_t *s, int signo)
{
    if (!s->adopted || getppid() == s->engine) {
        (void) kill(s->engine, signo);
    }
}


/* waits for a child at the same time */

int
mistral_adopt_gone(mistral_super_t *s)
{
    return s->adopted ? getppid() != s->engine
                      : waitpid(s->engine, NULL, WNOHANG) != 0;
}

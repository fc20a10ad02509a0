
/*
 * Adoption: a supervisor that an engine started in place of a dead one
 * (mistral_engine_keep.c) is that engine's child.  It hears of the engine's
 * end as its parent's, and never of the reason.
 */

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "tools/mistral_engine_super.h"


int
mistral_adopt_take(mistral_super_t *s, pid_t engine, pid_t before)
{
    uint32_t  was;

    /* exec made us dumpable again */

    (void) prctl(PR_SET_DUMPABLE, 0);
    (void) prctl(PR_SET_PDEATHSIG, SIGCHLD);

    was = (uint32_t) before;

    if (!atomic_compare_exchange_strong(&s->shm->supervisor_pid, &was,
                                        (uint32_t) getpid()))
    {
        return MST_ERROR;
    }

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


/*
 * Another supervisor has taken this segment: a master that took us for dead.
 * What stands there is the other's.
 */

int
mistral_adopt_replaced(mistral_super_t *s)
{
    return atomic_load(&s->shm->supervisor_pid) != (uint32_t) getpid();
}

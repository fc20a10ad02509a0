
/*
 * Who still needs the engine, by their pids: the second line behind the life
 * pipe.  A stray process that the master exec'd (os.execute of a script at a
 * reload) may hold its other end for ever.
 */

#include <errno.h>
#include <signal.h>

#include "shm/mst_slot.h"
#include "tools/mistral_engine_super.h"


static int mistral_users_masters(mistral_super_t *s);
static int mistral_users_workers(mistral_super_t *s);
static int mistral_users_alive(uint32_t pid);


/* no worker is alive and no master that a slot ever named */

int
mistral_users_nobody(mistral_super_t *s)
{
    int  seen;

    seen = mistral_users_masters(s);

    if (!seen || mistral_users_workers(s)) {
        s->quiet = 0;
        return 0;
    }

    return ++s->quiet >= 2;
}


static int
mistral_users_workers(mistral_super_t *s)
{
    uint32_t     i;
    mst_slot_t  *slot;

    for (i = 0; i < MISTRAL_SUPER_MASTERS; i++) {
        if (s->masters[i] != 0) {
            return 1;
        }
    }

    for (i = 0; i < s->e->map.n_slots; i++) {
        slot = &s->e->map.slots[i];

        if (mst_slot_state(slot) == MST_SLOT_USED
            && mistral_users_alive(mst_slot_pid(slot)))
        {
            return 1;
        }
    }

    return 0;
}


/* brings the list up to date; 0: no slot has ever named one */

static int
mistral_users_masters(mistral_super_t *s)
{
    int       seen, hole;
    uint32_t  i, k, pid;

    for (k = 0; k < MISTRAL_SUPER_MASTERS; k++) {
        if (s->masters[k] != 0 && !mistral_users_alive(s->masters[k])) {
            s->masters[k] = 0;
        }
    }

    seen = 0;

    for (i = 0; i < s->e->map.n_slots; i++) {
        pid = atomic_load(&s->e->map.slots[i].master);

        if (pid == 0) {
            continue;
        }

        seen = 1;
        hole = -1;

        for (k = 0; k < MISTRAL_SUPER_MASTERS && s->masters[k] != pid; k++) {
            hole = (s->masters[k] == 0) ? (int) k : hole;
        }

        if (k == MISTRAL_SUPER_MASTERS && hole != -1
            && mistral_users_alive(pid))
        {
            s->masters[hole] = pid;
        }
    }

    return seen;
}


static int
mistral_users_alive(uint32_t pid)
{
    /* the words are the workers': 0 and "negative" ones are whole groups */

    if (pid == 0 || pid > INT32_MAX) {
        return 0;
    }

    /* EPERM: alive, and another user's */

    return kill((pid_t) pid, 0) == 0 || errno != ESRCH;
}

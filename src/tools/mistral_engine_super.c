
/*
 * The supervisor: starts the engine, starts it again when it dies, and ends
 * with nginx.
 *
 * The end of the life pipe means that no nginx process of any generation
 * needs this engine.  Every engine, the first one too, is this program's own
 * image, by a descriptor taken at the start: what an upgrade put on the disk
 * meanwhile is not run.  The first death is answered at once, the next ones
 * within 10 s with growing pauses.  An engine whose heartbeat stands still
 * for engine_timeout is killed and is one more death.
 *
 * A supervisor that dies is replaced by its engine (mistral_engine_keep.c).
 * The next one is that engine's child and takes it over in its work: it hears
 * of the engine's end as its parent's, and never of the reason.  Engines that
 * it starts are its children again.
 *
 * One thread, since PDEATHSIG of an engine that begins means this thread's
 * end.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "shm/mst_owner.h"
#include "tools/mistral_engine.h"
#include "tools/mistral_engine_super.h"
#include "tools/mistral_tool.h"


#define MISTRAL_SUPER_GOOD     (10 * MST_S)    /* so long a life is a good one,
                                                  and nothing counts against
                                                  the next engine */
#define MISTRAL_SUPER_FIRST    (100 * MST_MS)  /* pause after the second death;
                                                  then doubled ... */
#define MISTRAL_SUPER_LONGEST  (5 * MST_S)     /* ... up to this */
#define MISTRAL_SUPER_TERM     (500 * MST_MS)  /* between TERM and KILL */


static int mistral_super_open(mistral_super_t *s);
static int mistral_super_begin(mistral_super_t *s);
static int mistral_super_prev(void);
static int mistral_super_drain(mistral_super_t *s);
static void mistral_super_down(mistral_super_t *s);
static void mistral_super_start(mistral_super_t *s);
static void mistral_super_exec(mistral_super_t *s, pid_t parent);
static int mistral_super_wait(mistral_super_t *s);
static void mistral_super_signals(mistral_super_t *s);
static void mistral_super_reap(mistral_super_t *s);
static void mistral_super_ended(mistral_super_t *s, int status);
static void mistral_super_died(mistral_super_t *s, pid_t pid, int status);
static void mistral_super_watch(mistral_super_t *s);
static int mistral_super_refused(int status);
static uint64_t mistral_super_pause(mistral_super_t *s, int status,
    int was_ready);
static void mistral_super_stop(mistral_super_t *s);


int
mistral_engine_supervise(mistral_engine_t *e, pid_t engine, pid_t before)
{
    mistral_super_t  s;

    memset(&s, 0, sizeof(s));

    s.e = e;
    s.shm = e->map.shm;

    if (mistral_super_open(&s) != MST_OK) {
        return MISTRAL_FAILED;
    }

    mistral_engine_log_init("supervisor", e->setup.name);

    if (engine != 0) {
        if (mistral_adopt_take(&s, engine, before) != MST_OK) {
            return MISTRAL_FAILED;
        }

    } else {
        if (mistral_super_begin(&s) != MST_OK) {
            return MISTRAL_OK;
        }

        if (mistral_super_drain(&s) == MST_DONE) {
            mistral_super_stop(&s);
            return MISTRAL_OK;
        }
    }

    for ( ;; ) {
        if (s.engine == 0 && mst_time_ns() >= s.start_ns) {
            mistral_super_start(&s);
        }

        if (mistral_super_wait(&s) == MST_DONE) {
            break;
        }
    }

    mistral_super_stop(&s);

    return MISTRAL_OK;
}


static int
mistral_super_open(mistral_super_t *s)
{
    sigset_t  all;

    (void) setsid();
    (void) prctl(PR_SET_NAME, "mistral-super");

    (void) sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, NULL);

    (void) fcntl(MST_FD_LOG, F_SETFL,
                 fcntl(MST_FD_LOG, F_GETFL) | O_NONBLOCK);

    s->exe = mistral_engine_image(s->e);

    if (s->exe == -1) {
        (void) dprintf(MST_FD_STATUS, "cannot open the program itself: %s\n",
                       strerror(errno));
        return MST_ERROR;
    }

    s->sfd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);

    if (s->sfd == -1) {
        (void) dprintf(MST_FD_STATUS, "signalfd() failed: %s\n",
                       strerror(errno));
        return MST_ERROR;
    }

    return MST_OK;
}


/* MST_BUSY: whoever asked for a supervisor is told of the one that is there */

static int
mistral_super_begin(mistral_super_t *s)
{
    int    rc;
    pid_t  pid;

    rc = mst_owner_take(MST_FD_MEM, MST_OWNER_SUPERVISOR);

    if (rc == MST_BUSY) {
        pid = mst_owner_pid(MST_FD_MEM, MST_OWNER_SUPERVISOR);
        (void) dprintf(MST_FD_STATUS, "ok %d\n", (int) pid);
        return rc;
    }

    if (rc != MST_OK) {
        (void) dprintf(MST_FD_STATUS, "cannot lock the shared memory: %s\n",
                       strerror(errno));
        return rc;
    }

    /* before the answer: who starts workers after it must not find an engine
       READY that died with our predecessor */

    atomic_store(&s->shm->supervisor_pid, (uint32_t) getpid());
    mistral_super_down(s);

    if (mistral_super_prev()) {
        atomic_store(&s->shm->state, MST_STATE_DRAINING);
    }

    (void) dprintf(MST_FD_STATUS, "ok %d\n", (int) getpid());
    (void) dup2(MST_FD_LOG, MST_FD_STATUS);

    return MST_OK;
}


/* is there an engine whose end is to be waited for? */

static int
mistral_super_prev(void)
{
    struct stat  st;

    return fstat(MST_FD_PREV, &st) == 0 && S_ISFIFO(st.st_mode);
}


/*
 * "reload drain": the engine before this one leaves with the last old worker,
 * and only then its memory is free for ours.  Should nobody need us any more
 * meanwhile, we wait all the same: who waits for our end wants the memory,
 * too.  MST_DONE: nothing is to be started.
 */

static int
mistral_super_drain(mistral_super_t *s)
{
    struct pollfd  pf;

    if (!mistral_super_prev()) {
        return MST_OK;
    }

    mst_log(&mistral_engine_log, MST_LOG_NOTICE, "waiting for the engine "
            "before this one to leave, \"reload drain\"");

    pf.fd = MST_FD_PREV;
    pf.events = 0;                             /* its end only */
    pf.revents = 0;

    while ((pf.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0) {
        (void) poll(&pf, 1, -1);
    }

    (void) dup2(STDIN_FILENO, MST_FD_PREV);

    pf.fd = MST_FD_LIFE;
    pf.revents = 0;
    (void) poll(&pf, 1, 0);

    if (pf.revents & (POLLHUP | POLLERR | POLLNVAL)) {
        return MST_DONE;
    }

    mst_stat_set(&s->shm->stat.loaded, 0);
    atomic_store(&s->shm->state, MST_STATE_LOADING);

    return MST_OK;
}


/* what was in work is void: in this order, see mst_shm.h */

static void
mistral_super_down(mistral_super_t *s)
{
    uint32_t  i;
    uint64_t  one;

    if (atomic_load(&s->shm->state) != MST_STATE_INIT) {
        atomic_store(&s->shm->state, MST_STATE_DOWN);
    }

    atomic_store(&s->shm->engine_pid, 0);
    (void) atomic_fetch_add(&s->shm->engine_epoch, 1);

    one = 1;

    for (i = 0; i < s->e->map.n_slots; i++) {
        (void) !write(MST_FD_SLOT0 + (int) i, &one, sizeof(one));
    }
}


static void
mistral_super_start(mistral_super_t *s)
{
    pid_t  pid, self;

    self = getpid();
    s->started_ns = mst_time_ns();

    pid = fork();

    if (pid == 0) {
        mistral_super_exec(s, self);
    }

    if (pid == -1) {
        mst_log(&mistral_engine_log, MST_LOG_ALERT, "fork() failed: %s; the "
                "next attempt is in 5 s", strerror(errno));
        s->start_ns = s->started_ns + MISTRAL_SUPER_LONGEST;
        return;
    }

    s->engine = pid;
    s->hung_ms = 0;
}


static void
mistral_super_exec(mistral_super_t *s, pid_t parent)
{
    char      epoch[32], super[32], *argv[5];
    sigset_t  none;

    /* not an orphan that computes for nobody, whenever we are killed */

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);

    if (getppid() != parent) {
        _exit(MISTRAL_FAILED);
    }

    (void) snprintf(epoch, sizeof(epoch), "--epoch=%u",
                    atomic_load(&s->shm->engine_epoch));
    (void) snprintf(super, sizeof(super), "--supervisor=%d", (int) parent);

    argv[0] = "mistral";
    argv[1] = "engine";
    argv[2] = epoch;
    argv[3] = super;
    argv[4] = NULL;

    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);

    (void) syscall(SYS_execveat, s->exe, "", argv, environ, AT_EMPTY_PATH);

    mst_log(&mistral_engine_log, MST_LOG_CRIT, "execveat() of the program "
            "itself failed: %s", strerror(errno));

    _exit(MISTRAL_FAILED);
}


/* MST_OK: something may have happened; MST_DONE: nginx is gone */

static int
mistral_super_wait(mistral_super_t *s)
{
    uint64_t       now, until;
    struct pollfd  pf[2];

    now = mst_time_ns();

    if (s->look_ns == 0) {
        s->look_ns = now + MST_S;
    }

    until = s->look_ns;

    if (s->engine == 0 && s->start_ns < until) {
        until = s->start_ns;
    }

    pf[0].fd = MST_FD_LIFE;
    pf[0].events = 0;                          /* its end only */
    pf[0].revents = 0;

    pf[1].fd = s->sfd;
    pf[1].events = POLLIN;
    pf[1].revents = 0;

    (void) poll(pf, 2, until > now
                       ? (int) ((until - now + MST_MS - 1) / MST_MS) : 0);

    if (pf[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
        mistral_engine_log_last_words();
        mst_log(&mistral_engine_log, MST_LOG_NOTICE,
                "no nginx process needs this engine, leaving");
        return MST_DONE;
    }

    mistral_super_signals(s);

    if (mst_time_ns() < s->look_ns) {
        return MST_OK;
    }

    s->look_ns = mst_time_ns() + MST_S;

    mistral_engine_log_follow();
    mistral_super_watch(s);

    if (mistral_users_nobody(s)) {
        mistral_engine_log_last_words();
        mst_log(&mistral_engine_log, MST_LOG_WARN, "no worker and no master "
                "is left, but something holds the life pipe, leaving");
        return MST_DONE;
    }

    return MST_OK;
}


static void
mistral_super_signals(mistral_super_t *s)
{
    struct signalfd_siginfo  si;

    while (read(s->sfd, &si, sizeof(si)) == sizeof(si)) {

        if (si.ssi_signo == SIGTERM) {

            /* to the whole group: its engine's death will be no crash */

            s->term_ns = mst_time_ns();
        }
    }

    mistral_super_reap(s);
}


static void
mistral_super_reap(mistral_super_t *s)
{
    int    status;
    pid_t  pid;

    /* the reason may have been a TERM, should we have got one */

    if (s->adopted && mistral_adopt_gone(s)) {
        mistral_super_ended(s, SIGTERM);
    }

    for ( ;; ) {
        pid = waitpid(-1, &status, WNOHANG);

        if (pid <= 0) {
            return;
        }

        if (pid == s->engine) {
            mistral_super_ended(s, status);
        }
    }
}


static void
mistral_super_ended(mistral_super_t *s, int status)
{
    pid_t  pid;

    pid = s->engine;
    s->engine = 0;

    mistral_super_died(s, pid, status);

    s->adopted = 0;
}


static void
mistral_super_died(mistral_super_t *s, pid_t pid, int status)
{
    int       was_ready;
    char      when[48];
    uint64_t  pause;

    was_ready = atomic_load(&s->shm->state) == MST_STATE_READY;

    atomic_store(&s->shm->refused, mistral_super_refused(status));
    mistral_super_down(s);
    (void) atomic_fetch_add(&s->shm->restarts, 1);

    pause = mistral_super_pause(s, status, was_ready);
    s->start_ns = mst_time_ns() + pause;

    if (pause == 0) {
        (void) snprintf(when, sizeof(when), "at once");

    } else {
        (void) snprintf(when, sizeof(when), "in %llu ms",
                        (unsigned long long) (pause / MST_MS));
    }

    if (s->hung_ms != 0) {
        mst_log(&mistral_engine_log, MST_LOG_ALERT, "engine process %d hung, "
                "its last heartbeat was %llu ms old (see \"engine_timeout\"): "
                "killed, the next one starts %s", (int) pid,
                (unsigned long long) s->hung_ms, when);

    } else if (s->adopted) {
        mst_log(&mistral_engine_log, MST_LOG_ALERT, "engine process %d died, "
                "the next one starts %s", (int) pid, when);

    } else if (WIFSIGNALED(status)) {
        mst_log(&mistral_engine_log, MST_LOG_ALERT, "engine process %d exited "
                "on signal %d, the next one starts %s", (int) pid,
                WTERMSIG(status), when);

    } else {
        mst_log(&mistral_engine_log, MST_LOG_ERR, "engine process %d exited "
                "with code %d, the next one starts %s", (int) pid,
                WEXITSTATUS(status), when);
    }
}


/*
 * Hung is what was so at two looks: where all of us were stopped (a frozen
 * cgroup, a sleeping machine), the engine has a second to show that it lives.
 */

static void
mistral_super_watch(mistral_super_t *s)
{
    uint64_t  beat, age, timeout;

    beat = mst_stat_get(&s->shm->stat.beat_ns);
    age = mst_stat_beat_age(&s->shm->stat, mst_time_ns());
    timeout = atomic_load(&s->shm->timeout_ms) * MST_MS;

    if (s->engine != 0 && s->hung_ms == 0 && timeout != 0 && age > timeout
        && beat == s->beat_ns
        && atomic_load(&s->shm->state) == MST_STATE_READY)
    {
        s->hung_ms = age / MST_MS;
        mistral_adopt_kill(s, SIGKILL);
    }

    s->beat_ns = beat;
}


static int
mistral_super_refused(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == MST_EXIT_REFUSED;
}


/* before the next engine starts */

static uint64_t
mistral_super_pause(mistral_super_t *s, int status, int was_ready)
{
    uint32_t  n;
    uint64_t  now, pause;

    now = mst_time_ns();

    if (was_ready && now - s->started_ns >= MISTRAL_SUPER_GOOD) {
        s->deaths = 0;
    }

    n = s->deaths++;

    if (mistral_super_refused(status)
        || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM
            && s->term_ns != 0 && now - s->term_ns < MST_S))
    {
        return MISTRAL_SUPER_LONGEST;
    }

    if (n == 0) {
        return 0;
    }

    pause = (n < 7) ? MISTRAL_SUPER_FIRST << (n - 1) : MISTRAL_SUPER_LONGEST;

    return pause < MISTRAL_SUPER_LONGEST ? pause : MISTRAL_SUPER_LONGEST;
}


static void
mistral_super_stop(mistral_super_t *s)
{
    uint64_t       until;
    struct pollfd  pf;

    if (s->engine != 0) {
        mistral_adopt_kill(s, SIGTERM);
        until = mst_time_ns() + MISTRAL_SUPER_TERM;

        while (!mistral_adopt_gone(s)) {

            if (mst_time_ns() >= until) {
                mistral_adopt_kill(s, SIGKILL);
                until = UINT64_MAX;
            }

            pf.fd = s->sfd;                    /* SIGCHLD, or a look soon */
            pf.events = POLLIN;
            (void) poll(&pf, 1, 5);
        }
    }

    atomic_store(&s->shm->state, MST_STATE_DOWN);
    atomic_store(&s->shm->engine_pid, 0);
    atomic_store(&s->shm->supervisor_pid, 0);
}

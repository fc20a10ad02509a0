
/*
 * The engine keeps its supervisor: a thread of the engine waits for the
 * supervisor's end and then starts another one, of the same image and with
 * the same descriptors, which takes over the engine as it is.  So kill -9 of
 * the supervisor costs no stream.
 *
 * Supervisors started here are children of the engine, and this thread is
 * the one that they hear of: it ends with the process only.  The program is
 * run by vfork(): nothing of an engine of any size is copied.  When nginx has
 * gone meanwhile nobody needs this engine, and this thread ends the process.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "tools/mistral_engine.h"
#include "tools/mistral_tool.h"


#define MISTRAL_KEEP_LOOK    (100 * MST_MS)    /* where there is no pidfd */
#define MISTRAL_KEEP_GOOD    MST_S             /* who lived so long, is
                                                  followed at once; */
#define MISTRAL_KEEP_SHORT   (100 * MST_MS)    /* else after this, */
#define MISTRAL_KEEP_FAILED  MST_S             /* or, if it took over nothing,
                                                  after this */
#define MISTRAL_KEEP_TRIES   3
#define MISTRAL_KEEP_RARE    (30 * MST_S)      /* after so many failures */


typedef struct {
    int         exe;               /* of ourselves, O_PATH */
    int         pidfd;             /* of the supervisor that started us */
    pid_t       super;             /* the last one that was one */
    uint32_t    failures;          /* in a row */
    uint64_t    pause;             /* before the next one, ns */
    char        adopt[32];
    char        before[32];
} mistral_keep_t;


static void *mistral_keep_run(void *data);
static void mistral_keep_first(mistral_keep_t *k);
static int mistral_keep_wait(pid_t pid);
static int mistral_keep_pidfd(pid_t pid);
static void mistral_keep_poll(int pidfd);
static void mistral_keep_look(mistral_keep_t *k);
static pid_t mistral_keep_start(mistral_keep_t *k);
static pid_t mistral_keep_exec(int exe, char **argv);
static void mistral_keep_ended(mistral_keep_t *k, pid_t pid, int status,
    uint64_t lived);


static mistral_keep_t  mistral_keep;


int
mistral_engine_image(const mistral_engine_t *e)
{
    int  fd;

    fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);

    if (fd == -1) {
        fd = open(e->setup.program, O_PATH | O_CLOEXEC);
    }

    return fd;
}


int
mistral_engine_keep(const mistral_engine_t *e, pid_t supervisor)
{
    int              rc;
    sigset_t         all, old;
    pthread_t        tid;
    mistral_keep_t  *k;

    k = &mistral_keep;

    k->super = supervisor;
    k->exe = mistral_engine_image(e);

    if (k->exe == -1) {
        mst_log(&mistral_engine_log, MST_LOG_WARN, "cannot open the program "
                "itself: %s; this engine ends with its supervisor",
                strerror(errno));
        return MST_ERROR;
    }

    /* whose death still kills us: it is that process */

    k->pidfd = mistral_keep_pidfd(supervisor);

    /* signals are for the other threads */

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);

    rc = pthread_create(&tid, NULL, mistral_keep_run, k);

    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);

    if (rc != 0) {
        mst_log(&mistral_engine_log, MST_LOG_WARN, "pthread_create() failed: "
                "%s; this engine ends with its supervisor", strerror(rc));
        return MST_ERROR;
    }

    (void) pthread_detach(tid);

    return MST_OK;
}


static void *
mistral_keep_run(void *data)
{
    int              status;
    pid_t            pid;
    uint64_t         start;
    mistral_keep_t  *k = data;

    (void) prctl(PR_SET_NAME, "mistral-keep");

    mistral_keep_first(k);

    for ( ;; ) {
        mistral_keep_look(k);

        start = mst_time_ns();
        pid = mistral_keep_start(k);
        status = MISTRAL_FAILED << 8;

        if (pid != -1) {
            status = mistral_keep_wait(pid);
        }

        mistral_keep_ended(k, pid, status, mst_time_ns() - start);
    }

    return NULL;
}


/* the end of our parent, which only its children's parent can tell */

static void
mistral_keep_first(mistral_keep_t *k)
{
    while (getppid() == k->super) {
        mistral_keep_poll(k->pidfd);
    }

    if (k->pidfd != -1) {
        (void) close(k->pidfd);
    }
}


/* and of our child; its status, as of waitpid() */

static int
mistral_keep_wait(pid_t pid)
{
    int  fd, status;

    fd = mistral_keep_pidfd(pid);
    status = MISTRAL_FAILED << 8;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        mistral_keep_poll(fd);
    }

    if (fd != -1) {
        (void) close(fd);
    }

    return status;
}


static int
mistral_keep_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int) syscall(SYS_pidfd_open, pid, 0);
#else
    (void) pid;

    return -1;
#endif
}


/* until that process ends, or a second */

static void
mistral_keep_poll(int pidfd)
{
    struct pollfd  pf;

    pf.fd = pidfd;
    pf.events = POLLIN;

    (void) poll(&pf, 1, pidfd == -1 ? (int) (MISTRAL_KEEP_LOOK / MST_MS)
                                    : 1000);

    mistral_engine_log_follow();
}


/* pauses; is there still somebody to compute for? */

static void
mistral_keep_look(mistral_keep_t *k)
{
    int            n;
    struct pollfd  pf;

    pf.fd = MST_FD_LIFE;
    pf.events = 0;                             /* its end only */

    do {
        n = poll(&pf, 1, (int) (k->pause / MST_MS));
    } while (n == -1 && errno == EINTR);

    if (n == 1) {
        mistral_engine_log_last_words();
        mst_log(&mistral_engine_log, MST_LOG_NOTICE, "nginx and the "
                "supervisor are gone, leaving");
        _exit(MISTRAL_OK);
    }
}


static pid_t
mistral_keep_start(mistral_keep_t *k)
{
    char   *argv[5];
    pid_t   pid;

    (void) snprintf(k->adopt, sizeof(k->adopt), "--adopt=%d",
                    (int) getpid());
    (void) snprintf(k->before, sizeof(k->before), "--supervisor=%d",
                    (int) k->super);

    argv[0] = "mistral";
    argv[1] = "engine";
    argv[2] = k->adopt;
    argv[3] = k->before;
    argv[4] = NULL;

    pid = mistral_keep_exec(k->exe, argv);

    if (pid == -1) {
        mst_log(&mistral_engine_log, MST_LOG_ERR, "vfork() of a supervisor "
                "failed: %s", strerror(errno));
    }

    return pid;
}


/* the child has our memory and stack until it is another program */

static pid_t
mistral_keep_exec(int exe, char **argv)
{
    pid_t  pid;

    pid = vfork();

    if (pid == 0) {
        (void) syscall(SYS_execveat, exe, "", argv, environ, AT_EMPTY_PATH);
        _exit(MISTRAL_FAILED);
    }

    return pid;
}


/* one that ends by itself, and not well, was none */

static void
mistral_keep_ended(mistral_keep_t *k, pid_t pid, int status, uint64_t lived)
{
    if (!WIFEXITED(status) || WEXITSTATUS(status) == MISTRAL_OK) {
        k->super = pid;
        k->failures = 0;
        k->pause = lived >= MISTRAL_KEEP_GOOD ? 0 : MISTRAL_KEEP_SHORT;
        return;
    }

    k->failures++;
    k->pause = k->failures < MISTRAL_KEEP_TRIES ? MISTRAL_KEEP_FAILED
                                                : MISTRAL_KEEP_RARE;

    if (k->failures == MISTRAL_KEEP_TRIES) {
        mst_log(&mistral_engine_log, MST_LOG_ALERT, "no supervisor could be "
                "started in %d attempts: this engine goes on, but without one "
                "nobody starts another engine when it dies; the next attempts "
                "are every %llu s", MISTRAL_KEEP_TRIES,
                (unsigned long long) (MISTRAL_KEEP_RARE / MST_S));
    }
}

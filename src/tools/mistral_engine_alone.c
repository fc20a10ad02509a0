
/*
 * mistral engine --model FILE: supervisor and engine without nginx, in the
 * foreground.  This process plays the master: it makes the segment, the pipes
 * and the eventfds, runs the program exactly as nginx would, and prints its
 * log until ^C.  For a look at how a model loads, for debuggers and
 * profilers; "mistral metrics" reads the segment meanwhile.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/mistral_device.h"
#include "tools/mistral_engine.h"
#include "tools/mistral_tool.h"


#define MISTRAL_ALONE_SLOTS  8
#define MISTRAL_ALONE_FDS    (MST_FD_FILES(MISTRAL_ALONE_SLOTS) + 1)


typedef struct {
    mst_map_t  map;
    int        fds[MISTRAL_ALONE_FDS];     /* what the program gets */
    int        status_r;
    int        life_w;
    int        alive_r;
    int        log_r;
} mistral_alone_t;


static int mistral_alone_segment(mistral_alone_t *a, mst_setup_t *setup,
    mst_err_t *err);
static int mistral_alone_descriptors(mistral_alone_t *a, mst_err_t *err);
static int mistral_alone_pipe(int *reader, int *writer, int flags,
    mst_err_t *err);
static int mistral_alone_spawn(mistral_alone_t *a, mst_err_t *err);
static void mistral_alone_exec(mistral_alone_t *a);
static int mistral_alone_watch(mistral_alone_t *a);
static void mistral_alone_print(int fd);
static void mistral_alone_stop(int signo);


static volatile sig_atomic_t  mistral_alone_stopped;


int
mistral_engine_alone(const char *path, mst_setup_t *setup)
{
    mst_err_t        err;
    mistral_alone_t  a;

    memset(&a, 0, sizeof(a));
    err.text[0] = '\0';

    (void) snprintf(setup->name, sizeof(setup->name), "alone");
    (void) snprintf(setup->path, sizeof(setup->path), "%s", path);
    (void) snprintf(setup->device, sizeof(setup->device), "auto");
    (void) snprintf(setup->dtype, sizeof(setup->dtype), "auto");

    setup->kv_type = UINT32_MAX;
    setup->uid = UINT32_MAX;
    setup->gid = UINT32_MAX;
    setup->n_files = 1;

    a.fds[MISTRAL_ALONE_FDS - 1] = open(path, O_RDONLY | O_CLOEXEC);

    if (a.fds[MISTRAL_ALONE_FDS - 1] == -1) {
        return mistral_complain(MISTRAL_REFUSED, "engine", "%s: %s", path,
                                strerror(errno));
    }

    if (mistral_alone_segment(&a, setup, &err) != MST_OK
        || mistral_alone_descriptors(&a, &err) != MST_OK
        || mistral_alone_spawn(&a, &err) != MST_OK)
    {
        return mistral_complain(MISTRAL_FAILED, "engine", "%s", err.text);
    }

    return mistral_alone_watch(&a);
}


static int
mistral_alone_segment(mistral_alone_t *a, mst_setup_t *setup, mst_err_t *err)
{
    uint32_t  req, rsp;

    if (mst_setup_create(setup, &a->fds[MST_FD_SETUP], err) != MST_OK) {
        return MST_ERROR;
    }

    mst_shm_sizes(setup->context, &req, &rsp);

    return mst_shm_create(&a->map, &a->fds[MST_FD_MEM], setup->name,
                          MISTRAL_ALONE_SLOTS, req, rsp, err);
}


static int
mistral_alone_descriptors(mistral_alone_t *a, mst_err_t *err)
{
    int  i;

    a->fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    a->fds[1] = a->fds[0];
    a->fds[MST_FD_LOGFILE] = STDERR_FILENO;
    a->fds[MST_FD_PREV] = a->fds[0];
    a->fds[MST_FD_WEIGHTS] = a->fds[0];
    a->fds[MST_FD_WAKE] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (mistral_alone_pipe(&a->status_r, &a->fds[MST_FD_STATUS], 0, err)
            != MST_OK
        || mistral_alone_pipe(&a->fds[MST_FD_LIFE], &a->life_w, 0, err)
            != MST_OK
        || mistral_alone_pipe(&a->alive_r, &a->fds[MST_FD_ALIVE], 0, err)
            != MST_OK
        || mistral_alone_pipe(&a->log_r, &a->fds[MST_FD_LOG], O_NONBLOCK, err)
            != MST_OK)
    {
        return MST_ERROR;
    }

    for (i = MST_FD_SLOT0; i < MST_FD_FILES(MISTRAL_ALONE_SLOTS); i++) {
        a->fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

        if (a->fds[i] == -1) {
            return mst_err_errno(err, errno, "eventfd() failed");
        }
    }

    return MST_OK;
}


static int
mistral_alone_pipe(int *reader, int *writer, int flags, mst_err_t *err)
{
    int  fds[2];

    if (pipe2(fds, O_CLOEXEC | flags) == -1) {
        return mst_err_errno(err, errno, "pipe2() failed");
    }

    *reader = fds[0];
    *writer = fds[1];

    return MST_OK;
}


static int
mistral_alone_spawn(mistral_alone_t *a, mst_err_t *err)
{
    int      i;
    char     answer[512];
    pid_t    pid;
    size_t   len;
    ssize_t  n;

    pid = fork();

    if (pid == -1) {
        return mst_err_errno(err, errno, "fork() failed");
    }

    if (pid == 0) {
        mistral_alone_exec(a);
        _exit(MISTRAL_FAILED);
    }

    /* else the ends of the pipes would never be seen */

    for (i = 0; i < MISTRAL_ALONE_FDS; i++) {
        if (a->fds[i] != STDERR_FILENO) {
            (void) close(a->fds[i]);
        }
    }

    for (len = 0; len < sizeof(answer) - 1; len += (size_t) n) {
        n = read(a->status_r, answer + len, sizeof(answer) - 1 - len);

        if (n <= 0) {
            break;
        }
    }

    (void) waitpid(pid, NULL, 0);

    answer[len] = '\0';
    answer[strcspn(answer, "\n")] = '\0';

    if (strncmp(answer, "ok", 2) != 0) {
        return mst_err_set(err, "%s", len ? answer : "the program ended "
                           "without a word");
    }

    return MST_OK;
}


/* in the child: every descriptor to its number, none onto another's source */

static void
mistral_alone_exec(mistral_alone_t *a)
{
    int    i;
    char   isa[32];
    char  *argv[] = { "mistral", "engine", NULL };
    char  *envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL, NULL };

    if (mistral_isa(NULL)) {
        (void) snprintf(isa, sizeof(isa), "MISTRAL_ISA=%s", mistral_isa(NULL));
        envp[1] = isa;
    }

    for (i = 0; i < MISTRAL_ALONE_FDS; i++) {
        a->fds[i] = fcntl(a->fds[i], F_DUPFD_CLOEXEC, MISTRAL_ALONE_FDS);
    }

    for (i = 0; i < MISTRAL_ALONE_FDS; i++) {
        if (a->fds[i] == -1 || dup2(a->fds[i], i) == -1) {
            return;
        }
    }

    (void) execve("/proc/self/exe", argv, envp);
}


/* until ^C, then until the supervisor is gone */

static int
mistral_alone_watch(mistral_alone_t *a)
{
    char              c;
    struct pollfd     p[2];
    struct sigaction  sa;

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = mistral_alone_stop;

    (void) sigaction(SIGINT, &sa, NULL);
    (void) sigaction(SIGTERM, &sa, NULL);

    p[0].fd = a->log_r;
    p[0].events = POLLIN;
    p[1].fd = a->alive_r;
    p[1].events = POLLIN;

    for ( ;; ) {

        /* a signal just before poll() is seen a second later */

        if (poll(p, 2, 1000) == -1 && errno != EINTR) {
            return MISTRAL_FAILED;
        }

        mistral_alone_print(a->log_r);

        if (mistral_alone_stopped && a->life_w != -1) {
            (void) close(a->life_w);
            a->life_w = -1;
        }

        if (poll(&p[1], 1, 0) == 1 && read(a->alive_r, &c, 1) == 0) {
            mistral_alone_print(a->log_r);
            return a->life_w == -1 ? MISTRAL_OK : MISTRAL_FAILED;
        }
    }
}


/* lines are "<severity>text" */

static void
mistral_alone_print(int fd)
{
    char     buf[65536], *p, *end;
    ssize_t  n;

    while ((n = read(fd, buf, sizeof(buf) - 1)) > 0) {
        buf[n] = '\0';

        for (p = buf; *p; p = end + 1) {
            end = strchr(p, '\n');

            if (end == NULL) {
                break;
            }

            *end = '\0';
            p += (p[0] == '<' && p[1] && p[2] == '>') ? 3 : 0;

            (void) fprintf(stderr, "%s\n", p);
        }
    }
}


static void
mistral_alone_stop(int signo)
{
    (void) signo;

    mistral_alone_stopped = 1;
}

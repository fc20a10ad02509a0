
/*
 * Runs the engine program: see ngx_http_mistral_exec.h.
 *
 * One posix_spawn() without a copy of the caller, whatever its size; the
 * program itself forks the supervisor and leaves, so nothing of it is ever a
 * child that nginx would count.  It gets descriptors of fixed numbers
 * (shm/mst_shm.h), a new environment and nothing else of nginx: no listening
 * socket, no signal mask, no terminal.  The settings stand in a sealed file,
 * because everybody reads a command line.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_exec.h"

#include <poll.h>
#include <spawn.h>

#include "base/mst_time.h"


static ngx_int_t ngx_http_mistral_exec_raise(ngx_http_mistral_exec_t *x);
static void ngx_http_mistral_exec_close(ngx_http_mistral_exec_t *x, int n);
static int ngx_http_mistral_exec_image(ngx_http_mistral_exec_t *x,
    pid_t *pid);
static int ngx_http_mistral_exec_spawn(ngx_http_mistral_exec_t *x,
    const char *path, pid_t *pid);
static int ngx_http_mistral_exec_actions(ngx_http_mistral_exec_t *x,
    posix_spawn_file_actions_t *fa);
static void ngx_http_mistral_exec_wait(ngx_http_mistral_exec_t *x, int fd,
    pid_t pid);


void
ngx_http_mistral_exec_fill(ngx_http_mistral_exec_t *x,
    ngx_http_mistral_engine_t *e)
{
    ngx_uint_t  i;

    x->n = MST_FD_FILES(e->n_slots) + e->n_files;

    for (i = 0; i < (ngx_uint_t) x->n; i++) {
        x->src[i] = -1;
    }

    x->src[MST_FD_MEM] = e->memfd;
    x->src[MST_FD_LIFE] = e->life_r;
    x->src[MST_FD_LOG] = e->log_w;
    x->src[MST_FD_WAKE] = e->wake;
    x->src[MST_FD_SETUP] = e->setup;
    x->src[MST_FD_WEIGHTS] = e->weights;

    for (i = 0; i < e->n_slots; i++) {
        x->src[MST_FD_SLOT0 + i] = e->slots[i];
    }

    for (i = 0; i < e->n_files; i++) {
        x->src[MST_FD_FILES(e->n_slots) + i] = e->files[i];
    }

    x->src[x->n] = e->program;
}


ngx_int_t
ngx_http_mistral_exec(ngx_http_mistral_exec_t *x)
{
    int    fd, status;
    pid_t  pid;

    if (ngx_http_mistral_exec_start(x, &fd, &pid) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_mistral_exec_wait(x, fd, pid);
    (void) close(fd);

    status = 0;

    while (waitpid(pid, &status, 0) == -1 && ngx_errno == NGX_EINTR) {
        /* void */
    }

    return ngx_http_mistral_exec_answer(x, status);
}


ngx_int_t
ngx_http_mistral_exec_start(ngx_http_mistral_exec_t *x, int *fd, pid_t *pid)
{
    int  st[2], rc;

    x->len = 0;

    if (pipe2(st, O_CLOEXEC) == -1) {
        ngx_log_error(x->level, x->log, ngx_errno, "pipe2() failed");
        return NGX_ERROR;
    }

    x->src[MST_FD_STATUS] = st[1];

    if (ngx_nonblocking(st[0]) == -1
        || ngx_http_mistral_exec_raise(x) != NGX_OK)
    {
        ngx_log_error(x->level, x->log, ngx_errno,
                      "descriptors of the engine program cannot be prepared");
        (void) close(st[0]);
        (void) close(st[1]);
        return NGX_ERROR;
    }

    rc = ngx_http_mistral_exec_image(x, pid);

    ngx_http_mistral_exec_close(x, x->n + 1);
    (void) close(st[1]);

    if (rc != 0) {
        ngx_log_error(x->level, x->log, rc,
                      "cannot run the engine program \"%s\"%s", x->program,
                      rc == NGX_ENOENT && access(x->program, F_OK) == 0
                      ? ", its interpreter is missing" : "");
        (void) close(st[0]);
        return NGX_ERROR;
    }

    *fd = st[0];

    return NGX_OK;
}


/*
 * The image that was opened with the engine, so that a program that changed
 * on the disk meanwhile is none that this segment meets.  Where /proc does not
 * lead to it, its path.
 */

static int
ngx_http_mistral_exec_image(ngx_http_mistral_exec_t *x, pid_t *pid)
{
    char  path[sizeof("/proc/self/fd/") + NGX_INT32_LEN];

    if (x->src[x->n] != -1) {
        ngx_sprintf((u_char *) path, "/proc/self/fd/%d%Z", x->n);

        if (ngx_http_mistral_exec_spawn(x, path, pid) == 0) {
            return 0;
        }
    }

    return ngx_http_mistral_exec_spawn(x, x->program, pid);
}


/*
 * Copies of all sources above all targets: no dup2() of the child may hit
 * the source of another.
 */

static ngx_int_t
ngx_http_mistral_exec_raise(ngx_http_mistral_exec_t *x)
{
    int  i, fd;

    for (i = MST_FD_STATUS; i <= x->n; i++) {

        x->copy[i] = -1;

        if (x->src[i] == -1) {
            continue;
        }

        fd = fcntl(x->src[i], F_DUPFD_CLOEXEC, x->n + 1);

        if (fd == -1) {
            ngx_http_mistral_exec_close(x, i);
            return NGX_ERROR;
        }

        x->copy[i] = fd;
    }

    return NGX_OK;
}


/* the first n */

static void
ngx_http_mistral_exec_close(ngx_http_mistral_exec_t *x, int n)
{
    int        i;
    ngx_err_t  err;

    err = ngx_errno;

    for (i = MST_FD_STATUS; i < n; i++) {
        if (x->copy[i] != -1) {
            (void) close(x->copy[i]);
        }
    }

    ngx_set_errno(err);
}


/* 0 or an errno */

static int
ngx_http_mistral_exec_spawn(ngx_http_mistral_exec_t *x, const char *path,
    pid_t *pid)
{
    int                          rc, n;
    char                        *argv[4], *envp[5], *isa, *tz;
    u_char                       tzvar[128], level[64], isavar[32];
    sigset_t                     none, all;
    ngx_log_t                   *log;
    posix_spawnattr_t            attr;
    posix_spawn_file_actions_t   fa;

    argv[0] = "mistral";
    argv[1] = "engine";
    argv[2] = x->probe ? "--probe" : NULL;
    argv[3] = NULL;

    n = 0;
    envp[n++] = "PATH=/usr/local/sbin:/usr/local/bin:"
                "/usr/sbin:/usr/bin:/sbin:/bin";

    tz = getenv("TZ");
    if (tz != NULL && ngx_strlen(tz) < sizeof(tzvar) - sizeof("TZ=")) {
        ngx_sprintf(tzvar, "TZ=%s%Z", tz);
        envp[n++] = (char *) tzvar;
    }

    isa = getenv("MISTRAL_ISA");
    if (isa != NULL
        && ngx_strlen(isa) < sizeof(isavar) - sizeof("MISTRAL_ISA="))
    {
        ngx_sprintf(isavar, "MISTRAL_ISA=%s%Z", isa);
        envp[n++] = (char *) isavar;
    }

    log = ngx_log_get_file_log(x->log);
    if (log != NULL) {
        ngx_sprintf(level, "MISTRAL_LOGLEVEL=%ui%Z", log->log_level);
        envp[n++] = (char *) level;
    }

    envp[n] = NULL;

    rc = posix_spawn_file_actions_init(&fa);
    if (rc != 0) {
        return rc;
    }

    rc = posix_spawnattr_init(&attr);
    if (rc != 0) {
        (void) posix_spawn_file_actions_destroy(&fa);
        return rc;
    }

    sigemptyset(&none);
    sigfillset(&all);

    (void) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK
                                           |POSIX_SPAWN_SETSIGDEF);
    (void) posix_spawnattr_setsigmask(&attr, &none);
    (void) posix_spawnattr_setsigdefault(&attr, &all);

    rc = ngx_http_mistral_exec_actions(x, &fa);

    if (rc == 0) {
        rc = posix_spawn(pid, path, &fa, &attr, argv, envp);
    }

    (void) posix_spawnattr_destroy(&attr);
    (void) posix_spawn_file_actions_destroy(&fa);

    return rc;
}


static int
ngx_http_mistral_exec_actions(ngx_http_mistral_exec_t *x,
    posix_spawn_file_actions_t *fa)
{
    int  i, rc;

    rc = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDWR, 0);

    /* a probe may also answer as it does to a user of the shell */

    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(fa, x->probe
                                              ? x->copy[MST_FD_STATUS] : 0, 1);
    }

    /* the last one is the image itself, which the program closes */

    for (i = MST_FD_STATUS; rc == 0 && i <= x->n; i++) {
        rc = posix_spawn_file_actions_adddup2(fa, x->copy[i] == -1
                                                  ? 0 : x->copy[i], i);
    }

    if (rc == 0) {
        rc = posix_spawn_file_actions_addclosefrom_np(fa, x->n + 1);
    }

    return rc;
}


/* everything up to the end of file, which must come in time */

static void
ngx_http_mistral_exec_wait(ngx_http_mistral_exec_t *x, int fd, pid_t pid)
{
    int            n;
    uint64_t       now, end;
    struct pollfd  pf;

    end = mst_time_ns() / MST_MS + NGX_HTTP_MISTRAL_ANSWER;

    do {
        now = mst_time_ns() / MST_MS;

        pf.fd = fd;
        pf.events = POLLIN;
        pf.revents = 0;

        n = poll(&pf, 1, now < end ? (int) (end - now) : 0);

        if (n == -1 && ngx_errno == NGX_EINTR) {
            continue;
        }

        if (n <= 0) {
            ngx_http_mistral_exec_late(x, pid);
            return;
        }

    } while (n == -1 || ngx_http_mistral_exec_read(x, fd) == NGX_AGAIN);
}


ngx_int_t
ngx_http_mistral_exec_read(ngx_http_mistral_exec_t *x, int fd)
{
    ssize_t  size;

    do {
        size = read(fd, x->text + x->len, sizeof(x->text) - 1 - x->len);

        if (size > 0) {
            x->len += size;
        }

    } while (size > 0 || (size == -1 && ngx_errno == NGX_EINTR));

    return (size == -1 && ngx_errno == NGX_EAGAIN) ? NGX_AGAIN : NGX_OK;
}


void
ngx_http_mistral_exec_late(ngx_http_mistral_exec_t *x, pid_t pid)
{
    (void) kill(pid, SIGKILL);

    x->len = ngx_sprintf(x->text, "no answer in %d s, killed",
                         NGX_HTTP_MISTRAL_ANSWER / 1000)
             - x->text;
}


ngx_int_t
ngx_http_mistral_exec_answer(ngx_http_mistral_exec_t *x, int status)
{
    size_t  i;

    while (x->len && x->text[x->len - 1] <= ' ') {
        x->len--;
    }

    x->text[x->len] = '\0';

    /* one line, and nothing that a terminal would obey */

    for (i = 0; i < x->len; i++) {
        if (x->text[i] < ' ' || x->text[i] == 0x7f) {
            x->text[i] = ' ';
        }
    }

    if (ngx_strncmp(x->text, "ok", 2) == 0) {
        return NGX_OK;
    }

    if (x->len) {
        ngx_log_error(x->level, x->log, 0,
                      "the engine program \"%s\" failed: %s",
                      x->program, x->text);

    } else if (WIFSIGNALED(status)) {
        ngx_log_error(x->level, x->log, 0,
                      "the engine program \"%s\" was killed by signal %d "
                      "before it answered", x->program, WTERMSIG(status));

    } else {
        ngx_log_error(x->level, x->log, 0,
                      "the engine program \"%s\" exited with code %d "
                      "without an answer", x->program, WEXITSTATUS(status));
    }

    return NGX_ERROR;
}

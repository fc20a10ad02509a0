
/*
 * Runs the engine program: "mistral engine --probe" asks it whether it fits
 * this module, "mistral engine" starts a supervisor.  Master only; at a
 * reload with signals blocked.
 *
 * One posix_spawn() without a copy of the master, whatever its size; the
 * program itself forks the supervisor and leaves, so nothing of it is ever a
 * child that nginx would count.  It gets descriptors of fixed numbers
 * (shm/mst_shm.h), a new environment and nothing else of nginx: no listening
 * socket, no signal mask, no terminal.  The settings stand in the segment,
 * because everybody reads a command line.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"

#include <poll.h>
#include <spawn.h>

#include "base/mst_time.h"


#define NGX_HTTP_MISTRAL_FDS     (MST_FD_SLOT0 + MST_MAX_SLOTS                \
                                  + MST_SETUP_FILES)
#define NGX_HTTP_MISTRAL_ANSWER  5000          /* ms */


typedef struct {
    ngx_cycle_t  *cycle;
    ngx_str_t    *program;
    ngx_uint_t    level;                       /* of a failure's log line */
    ngx_uint_t    probe;
    int           n;                           /* descriptors 0 .. n - 1 */
    int           src[NGX_HTTP_MISTRAL_FDS];   /* -1: /dev/null */
    u_char        text[1024];                  /* the answer */
    size_t        len;
} ngx_http_mistral_exec_t;


static ngx_int_t ngx_http_mistral_exec(ngx_http_mistral_exec_t *x);
static ngx_int_t ngx_http_mistral_exec_raise(ngx_http_mistral_exec_t *x);
static void ngx_http_mistral_exec_close(ngx_http_mistral_exec_t *x);
static int ngx_http_mistral_exec_spawn(ngx_http_mistral_exec_t *x,
    pid_t *pid);
static int ngx_http_mistral_exec_actions(ngx_http_mistral_exec_t *x,
    posix_spawn_file_actions_t *fa);
static void ngx_http_mistral_exec_read(ngx_http_mistral_exec_t *x, int fd,
    pid_t pid);
static ngx_int_t ngx_http_mistral_exec_answer(ngx_http_mistral_exec_t *x,
    int status);


ngx_int_t
ngx_http_mistral_probe(ngx_cycle_t *cycle, ngx_str_t *program)
{
    u_char                   want[sizeof("ok layout=") + 16];
    uint64_t                 layout;
    ngx_http_mistral_exec_t  x;

    x.cycle = cycle;
    x.program = program;
    x.level = NGX_LOG_EMERG;
    x.probe = 1;
    x.n = MST_FD_STATUS + 1;

    if (ngx_http_mistral_exec(&x) != NGX_OK) {
        return NGX_ERROR;
    }

    layout = mst_shm_layout();

    ngx_sprintf(want, "ok layout=%016xL%Z", layout);

    if (ngx_strcmp(x.text, want) != 0) {
        ngx_log_error(x.level, cycle->log, 0,
                      "the engine program \"%V\" answered \"%s\", the "
                      "running nginx module has shared layout %016xL: "
                      "restart nginx after an upgrade of the module",
                      program, x.text, layout);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * A supervisor for this engine, the first or one after the last was killed
 * together with its engine, which would have replaced it.  Both pipes are new
 * each time: old workers stay with the old ones.
 */

ngx_int_t
ngx_http_mistral_spawn(ngx_cycle_t *cycle, ngx_http_mistral_model_t *m,
    ngx_http_mistral_engine_t *e)
{
    int                            life[2], alive[2], setup;
    uint32_t                       i;
    mst_err_t                      err;
    ngx_int_t                      rc;
    ngx_log_t                     *log;
    ngx_http_mistral_exec_t        x;
    ngx_http_mistral_main_conf_t  *mmcf;

    if (e->life_w != -1) {
        (void) close(e->life_w);
        (void) close(e->alive_r);
        e->life_w = -1;
        e->alive_r = -1;
    }

    err.text[0] = '\0';

    if (mst_setup_create(m->setup, &setup, &err) != MST_OK) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "mistral model \"%V\": %s", &m->name, err.text);
        return NGX_ERROR;
    }

    if (pipe(life) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno, "pipe() failed");
        (void) close(setup);
        return NGX_ERROR;
    }

    if (pipe(alive) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno, "pipe() failed");
        (void) close(setup);
        (void) close(life[0]);
        (void) close(life[1]);
        return NGX_ERROR;
    }

    mmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mistral_module);
    log = ngx_log_get_file_log(cycle->log);

    x.cycle = cycle;
    x.program = &mmcf->program;
    x.level = NGX_LOG_ALERT;
    x.probe = 0;
    x.n = MST_FD_FILES(e->map.n_slots) + m->setup->n_files;

    x.src[MST_FD_MEM] = e->memfd;
    x.src[MST_FD_LIFE] = life[0];
    x.src[MST_FD_ALIVE] = alive[1];
    x.src[MST_FD_LOG] = e->log_w;
    x.src[MST_FD_LOGFILE] = log ? log->file->fd : -1;
    x.src[MST_FD_WAKE] = e->wake;
    x.src[MST_FD_PREV] = m->previous ? m->previous->alive_r : -1;
    x.src[MST_FD_SETUP] = setup;

    for (i = 0; i < e->map.n_slots; i++) {
        x.src[MST_FD_SLOT0 + i] = e->slots[i];
    }

    for (i = 0; i < m->setup->n_files; i++) {
        x.src[MST_FD_FILES(e->map.n_slots) + i] = m->files[i];
    }

    rc = ngx_http_mistral_exec(&x);

    (void) close(setup);
    (void) close(life[0]);
    (void) close(alive[1]);

    if (rc != NGX_OK) {
        (void) close(life[1]);
        (void) close(alive[0]);
        return NGX_ERROR;
    }

    e->life_w = life[1];
    e->alive_r = alive[0];

    ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                  "start supervisor of mistral model \"%V\": %s",
                  &m->name, x.text);

    return NGX_OK;
}


/* NGX_OK: the program answered "ok...", which stands in x->text */

static ngx_int_t
ngx_http_mistral_exec(ngx_http_mistral_exec_t *x)
{
    int    st[2], rc, status;
    pid_t  pid;

    x->len = 0;

    if (pipe2(st, O_CLOEXEC) == -1) {
        ngx_log_error(x->level, x->cycle->log, ngx_errno, "pipe2() failed");
        return NGX_ERROR;
    }

    x->src[MST_FD_STATUS] = st[1];

    if (ngx_http_mistral_exec_raise(x) != NGX_OK) {
        ngx_log_error(x->level, x->cycle->log, ngx_errno,
                      "fcntl(F_DUPFD_CLOEXEC) failed");
        (void) close(st[0]);
        (void) close(st[1]);
        return NGX_ERROR;
    }

    rc = ngx_http_mistral_exec_spawn(x, &pid);

    ngx_http_mistral_exec_close(x);
    (void) close(st[1]);

    if (rc != 0) {
        ngx_log_error(x->level, x->cycle->log, rc,
                      "cannot run the engine program \"%V\"%s", x->program,
                      rc == NGX_ENOENT
                      && access((char *) x->program->data, F_OK) == 0
                      ? ", its interpreter is missing" : "");
        (void) close(st[0]);
        return NGX_ERROR;
    }

    ngx_http_mistral_exec_read(x, st[0], pid);
    (void) close(st[0]);

    status = 0;

    while (waitpid(pid, &status, 0) == -1 && ngx_errno == NGX_EINTR) {
        /* void */
    }

    return ngx_http_mistral_exec_answer(x, status);
}


/*
 * Copies of all sources above all targets: no dup2() of the child may hit
 * the source of another.
 */

static ngx_int_t
ngx_http_mistral_exec_raise(ngx_http_mistral_exec_t *x)
{
    int  i, fd;

    for (i = MST_FD_STATUS; i < x->n; i++) {

        if (x->src[i] == -1) {
            continue;
        }

        fd = fcntl(x->src[i], F_DUPFD_CLOEXEC, x->n);

        if (fd == -1) {
            x->n = i;                          /* copies so far */
            ngx_http_mistral_exec_close(x);
            return NGX_ERROR;
        }

        x->src[i] = fd;
    }

    return NGX_OK;
}


static void
ngx_http_mistral_exec_close(ngx_http_mistral_exec_t *x)
{
    int        i;
    ngx_err_t  err;

    err = ngx_errno;

    for (i = MST_FD_STATUS; i < x->n; i++) {
        if (x->src[i] != -1) {
            (void) close(x->src[i]);
        }
    }

    ngx_set_errno(err);
}


/* 0 or an errno */

static int
ngx_http_mistral_exec_spawn(ngx_http_mistral_exec_t *x, pid_t *pid)
{
    int                          rc, n;
    char                        *argv[4], *envp[3], *tz;
    u_char                       tzvar[128];
    sigset_t                     none, all;
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
        rc = posix_spawn(pid, (char *) x->program->data, &fa, &attr, argv,
                         envp);
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
                                              ? x->src[MST_FD_STATUS] : 0, 1);
    }

    for (i = MST_FD_STATUS; rc == 0 && i < x->n; i++) {
        rc = posix_spawn_file_actions_adddup2(fa, x->src[i] == -1
                                                  ? 0 : x->src[i], i);
    }

    if (rc == 0) {
        rc = posix_spawn_file_actions_addclosefrom_np(fa, x->n);
    }

    return rc;
}


/* everything up to the end of file, which must come in time */

static void
ngx_http_mistral_exec_read(ngx_http_mistral_exec_t *x, int fd, pid_t pid)
{
    int            n;
    ssize_t        size;
    uint64_t       now, end;
    struct pollfd  pf;

    end = mst_time_ns() / MST_MS + NGX_HTTP_MISTRAL_ANSWER;

    while (x->len < sizeof(x->text) - 1) {

        now = mst_time_ns() / MST_MS;

        pf.fd = fd;
        pf.events = POLLIN;
        pf.revents = 0;

        n = poll(&pf, 1, now < end ? (int) (end - now) : 0);

        if (n == -1 && ngx_errno == NGX_EINTR) {
            continue;
        }

        if (n <= 0) {
            (void) kill(pid, SIGKILL);
            x->len = ngx_sprintf(x->text, "no answer in %d s, killed",
                                 NGX_HTTP_MISTRAL_ANSWER / 1000)
                     - x->text;
            break;
        }

        size = read(fd, x->text + x->len, sizeof(x->text) - 1 - x->len);

        if (size == -1 && ngx_errno == NGX_EINTR) {
            continue;
        }

        if (size <= 0) {
            break;
        }

        x->len += size;
    }
}


static ngx_int_t
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
        ngx_log_error(x->level, x->cycle->log, 0,
                      "the engine program \"%V\" failed: %s",
                      x->program, x->text);

    } else if (WIFSIGNALED(status)) {
        ngx_log_error(x->level, x->cycle->log, 0,
                      "the engine program \"%V\" was killed by signal %d "
                      "before it answered", x->program, WTERMSIG(status));

    } else {
        ngx_log_error(x->level, x->cycle->log, 0,
                      "the engine program \"%V\" exited with code %d "
                      "without an answer", x->program, WEXITSTATUS(status));
    }

    return NGX_ERROR;
}

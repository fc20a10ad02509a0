
/*
 * The nginx master and a worker, as far as the engine program can tell: for
 * the tests of the program.
 */

#ifndef MASTER_H
#define MASTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "shm/mst_place.h"
#include "shm/mst_setup.h"
#include "shm/mst_slot.h"


#define N_SLOTS  3
#define N_FDS    (MST_FD_SLOT0 + N_SLOTS + 1)
#define TEXT     "Hello from the other side of the segment. "


static char  program[4096];


typedef struct {
    mst_map_t    map;
    mst_shm_t   *shm;
    mst_setup_t  setup;
    int          memfd;
    int          life_w;
    int          alive_r;
    int          log_r;
    int          log_w;
    int          logfile;
    int          wake;
    int          slots[N_SLOTS];
    int          text;
    char         answer[1024];     /* of the program */
    char         log[65536];       /* all lines so far */
    size_t       log_len;
} master_t;


typedef struct {
    uint32_t     i;
    mst_slot_t  *slot;
    mst_ring_t   req;
    mst_ring_t   rsp;
    _Alignas(8) char  copy[65536];
} worker_t;


static inline void
master_init(master_t *m)
{
    int        i, fds[2];
    mst_err_t  err;

    memset(m, 0, sizeof(master_t));
    err.text[0] = '\0';

    strcpy(m->setup.name, "demo");
    strcpy(m->setup.path, "null:");
    strcpy(m->setup.device, "auto");
    strcpy(m->setup.dtype, "auto");
    m->setup.uid = UINT32_MAX;
    m->setup.gid = UINT32_MAX;
    m->setup.kv_type = UINT32_MAX;
    m->setup.null = 1;
    m->setup.n_files = 1;
    m->setup.max_batch = 4;
    m->setup.context = 200000;

    m->text = memfd_create("text", MFD_CLOEXEC);

    for (i = 0; i < 3000; i++) {
        assert_int_equal(write(m->text, TEXT, sizeof(TEXT) - 1),
                         sizeof(TEXT) - 1);
    }

    assert_int_equal(mst_shm_create(&m->map, &m->memfd, "demo", N_SLOTS,
                                    65536, 65536, &err), MST_OK);
    m->shm = m->map.shm;

    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    m->log_r = fds[0];
    m->log_w = fds[1];

    m->logfile = memfd_create("log", MFD_CLOEXEC);
    m->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    for (i = 0; i < N_SLOTS; i++) {
        m->slots[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }

    m->life_w = -1;
    m->alive_r = -1;
}


static inline pid_t
exec(int *src, int n, int status)
{
    int                          i;
    char                        *argv[] = { "mistral", "engine", NULL };
    char                        *envp[] = { "PATH=/bin", NULL };
    pid_t                        pid;
    posix_spawn_file_actions_t   fa;

    src[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    src[1] = src[0];
    src[MST_FD_STATUS] = status;

    assert_int_equal(posix_spawn_file_actions_init(&fa), 0);

    /* no dup2() may hit another's source */

    for (i = 0; i < n; i++) {
        src[i] = fcntl(src[i], F_DUPFD_CLOEXEC, 100);
    }

    for (i = 0; i < n; i++) {
        if (src[i] != -1) {
            (void) posix_spawn_file_actions_adddup2(&fa, src[i], i);
        }
    }

    /* one too many: it must not stay open */

    (void) posix_spawn_file_actions_adddup2(&fa, src[0], n + 7);

    assert_int_equal(posix_spawn(&pid, program, &fa, NULL, argv, envp), 0);
    (void) posix_spawn_file_actions_destroy(&fa);

    for (i = 0; i < n; i++) {
        (void) close(src[i]);
    }

    return pid;
}


/* runs the program and reads its answer; its exit status */

static inline int
master_spawn(master_t *m)
{
    int        i, rc, setup, life[2], alive[2], st[2], src[N_FDS];
    pid_t      pid;
    size_t     n;
    ssize_t    size;
    mst_err_t  err;

    err.text[0] = '\0';
    assert_int_equal(mst_setup_create(&m->setup, &setup, &err), MST_OK);

    assert_int_equal(pipe2(life, O_CLOEXEC), 0);
    assert_int_equal(pipe2(alive, O_CLOEXEC), 0);
    assert_int_equal(pipe2(st, O_CLOEXEC), 0);

    src[MST_FD_MEM] = m->memfd;
    src[MST_FD_LIFE] = life[0];
    src[MST_FD_ALIVE] = alive[1];
    src[MST_FD_LOG] = m->log_w;
    src[MST_FD_LOGFILE] = m->logfile;
    src[MST_FD_WAKE] = m->wake;
    src[MST_FD_PREV] = m->wake;                /* no pipe: no predecessor */
    src[MST_FD_SETUP] = setup;
    src[MST_FD_WEIGHTS] = m->wake;             /* no memory: their own */

    for (i = 0; i < N_SLOTS; i++) {
        src[MST_FD_SLOT0 + i] = m->slots[i];
    }

    src[N_FDS - 1] = m->text;

    pid = exec(src, N_FDS, st[1]);

    (void) close(setup);
    (void) close(st[1]);
    (void) close(life[0]);
    (void) close(alive[1]);

    n = 0;

    do {
        size = read(st[0], m->answer + n, sizeof(m->answer) - 1 - n);
        assert_true(size >= 0);
        n += (size_t) size;
    } while (size > 0);

    m->answer[n] = '\0';
    (void) close(st[0]);

    assert_int_equal(waitpid(pid, &rc, 0), pid);
    assert_true(WIFEXITED(rc));

    m->life_w = life[1];
    m->alive_r = alive[0];

    return WEXITSTATUS(rc);
}


static inline int
within(uint64_t *until, uint64_t ms)
{
    if (*until == 0) {
        /* ten times what it takes: this machine may be busy */

        *until = mst_time_ns() + 10 * ms * MST_MS;
    }

    if (mst_time_ns() >= *until) {
        return 0;
    }

    (void) usleep(500);

    return 1;
}


#define wait_for(ms, what)                                                    \
    do {                                                                      \
        uint64_t  until_ = 0;                                                 \
                                                                              \
        while (!(what)) {                                                     \
            if (!within(&until_, ms)) {                                       \
                fail_msg("not in " #ms " ms: " #what);                        \
            }                                                                 \
        }                                                                     \
    } while (0)


static inline int
is_gone(uint32_t pid)
{
    char  path[64], stat[256], *p;
    FILE *f;
    int   gone;

    (void) snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    f = fopen(path, "re");

    if (f == NULL) {
        return 1;
    }

    /* an orphan whose new parent is in no hurry */

    gone = fgets(stat, sizeof(stat), f) == NULL
           || (p = strrchr(stat, ')')) == NULL || p[2] == 'Z' || p[2] == 'X';
    (void) fclose(f);

    return gone;
}


static inline const char *
master_log(master_t *m)
{
    ssize_t  n;

    n = read(m->log_r, m->log + m->log_len,
             sizeof(m->log) - 1 - m->log_len);

    m->log_len += (n > 0) ? (size_t) n : 0;
    m->log[m->log_len] = '\0';

    return m->log;
}


static inline const char *
master_logfile(master_t *m)
{
    ssize_t  n;

    static char  buf[65536];

    n = pread(m->logfile, buf, sizeof(buf) - 1, 0);
    buf[n > 0 ? n : 0] = '\0';

    return buf;
}


static inline void
master_start(master_t *m)
{
    assert_int_equal(master_spawn(m), 0);
    assert_true(strncmp(m->answer, "ok ", 3) == 0);
    assert_int_equal(atoi(m->answer + 3), m->shm->supervisor_pid);

    wait_for(3000, m->shm->state == MST_STATE_READY);
}


static inline int
ended(int fd)
{
    struct pollfd  pf;

    pf.fd = fd;
    pf.events = 0;

    return poll(&pf, 1, 0) == 1 && (pf.revents & POLLHUP);
}


static inline void
master_fini(master_t *m)
{
    int       i;
    uint32_t  super, engine;

    super = m->shm->supervisor_pid;
    engine = m->shm->engine_pid;

    if (m->life_w != -1) {
        (void) close(m->life_w);
    }

    wait_for(3000, super == 0 || is_gone(super));
    wait_for(3000, engine == 0 || is_gone(engine));

    assert_null(strstr(master_log(m), "Sanitizer"));
    assert_null(strstr(m->log, "runtime error"));

    (void) close(m->alive_r);
    (void) close(m->log_r);
    (void) close(m->log_w);
    (void) close(m->logfile);
    (void) close(m->wake);
    (void) close(m->text);
    (void) close(m->memfd);

    for (i = 0; i < N_SLOTS; i++) {
        (void) close(m->slots[i]);
    }

    mst_shm_detach(&m->map);
}


static inline void
worker_claim(master_t *m, worker_t *k)
{
    int  i;

    i = mst_slot_claim(&m->map, (uint32_t) getpid());
    assert_true(i >= 0);

    k->i = (uint32_t) i;
    k->slot = &m->map.slots[i];

    mst_slot_rings(&m->map, k->i, 1, &k->req, &k->rsp);
}


static inline void
worker_submit(master_t *m, worker_t *k, uint64_t id, uint32_t max_tokens)
{
    uint64_t           one;
    mst_rec_submit_t  *s;

    assert_int_equal(mst_place_take(m->shm, k->slot, 2, 100, 0), MST_OK);

    s = (mst_rec_submit_t *) mst_ring_reserve(&k->req,
                                      mst_record_submit_len(2, 0, 0));
    assert_non_null(s);

    memset((char *) s + sizeof(mst_record_t), 0,
           sizeof(*s) - sizeof(mst_record_t));

    s->head.type = MST_REC_SUBMIT;
    s->head.id = id;
    s->head.slot_epoch = k->slot->epoch;
    s->head.engine_epoch = m->shm->engine_epoch;
    s->n_prompt = 2;
    s->place_tokens = 2;
    ((uint32_t *) (s + 1))[0] = 'h';
    ((uint32_t *) (s + 1))[1] = 'i';
    mst_params_default(&s->params);
    s->params.temperature = 0;
    s->params.flags = MST_PARAMS_IGNORE_EOS;
    s->params.max_tokens = max_tokens;

    mst_ring_publish(&k->req, &s->head);

    one = 1;

    if (mst_shm_wake(&m->shm->sleeping)) {
        assert_int_equal(write(m->wake, &one, 8), 8);
    }
}


/* sleeps as a worker does; NULL: nothing in ms */

static inline const mst_record_t *
worker_next(master_t *m, worker_t *k, int ms)
{
    int                  rc;
    uint32_t             len;
    uint64_t             count, end;
    mst_err_t            err;
    struct pollfd        pf;
    const mst_record_t  *rec;

    end = mst_time_ns() + (uint64_t) ms * MST_MS;

    while ((rc = mst_ring_peek(&k->rsp, &rec, &len)) == MST_AGAIN) {
        mst_shm_sleep(&k->slot->sleeping);

        if (k->rsp.pos->tail != k->rsp.own) {
            continue;
        }

        if (mst_time_ns() >= end) {
            return NULL;
        }

        pf.fd = m->slots[k->i];
        pf.events = POLLIN;
        (void) poll(&pf, 1, ms);
        (void) !read(pf.fd, &count, 8);
    }

    assert_int_equal(rc, MST_OK);
    memcpy(k->copy, rec, len);
    mst_ring_consume(&k->rsp, len);

    assert_int_equal(mst_record_check((mst_record_t *) k->copy, len, &err),
                     MST_OK);

    return (mst_record_t *) k->copy;
}


/* a whole answer, byte by byte */

static inline void
worker_answer(master_t *m, worker_t *k, uint64_t id, uint32_t n)
{
    uint32_t                 got;
    const mst_record_t      *rec;
    const unsigned char     *at;
    const mst_rec_top_t     *top;
    const mst_rec_done_t    *done;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *tokens;

    worker_submit(m, k, id, n);

    rec = worker_next(m, k, 20000);
    assert_non_null(rec);
    assert_int_equal(rec->type, MST_REC_ADMIT);
    assert_int_equal(rec->id, id);

    for (got = 0; /* void */ ; ) {
        rec = worker_next(m, k, 20000);
        assert_non_null(rec);
        assert_int_equal(rec->id, id);
        assert_int_equal(rec->engine_epoch, m->shm->engine_epoch);

        if (rec->type != MST_REC_TOKENS) {
            break;
        }

        tokens = (const mst_rec_tokens_t *) rec;
        assert_int_equal(tokens->first, got);
        at = (const unsigned char *) (tokens + 1);

        while ((token = mst_record_next_token(tokens, &at, &top)) != NULL) {
            assert_int_equal(token->id, TEXT[got++ % (sizeof(TEXT) - 1)]);
        }
    }

    assert_int_equal(rec->type, MST_REC_DONE);
    done = (const mst_rec_done_t *) rec;
    assert_int_equal(got, n);
    assert_int_equal(done->finish, MST_FINISH_LENGTH);
    assert_int_equal(done->usage.completion, n);
    assert_int_equal(done->usage.prompt, 2);
}


static inline uint32_t
places(master_t *m)
{
    uint32_t  r;
    uint64_t  t;

    mst_place_held(m->shm, &r, &t);
    assert_int_equal(t, r * 2);

    return r;
}


/* a line of /proc/PID/status */

static inline const char *
status_line(uint32_t pid, const char *name)
{
    char  path[64];
    FILE *f;

    static char  line[512];

    (void) snprintf(path, sizeof(path), "/proc/%u/status", pid);
    f = fopen(path, "re");
    assert_non_null(f);

    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            (void) fclose(f);
            line[strcspn(line, "\n")] = '\0';
            return line + strlen(name);
        }
    }

    (void) fclose(f);
    fail_msg("no %s of %u", name, pid);

    return NULL;
}


/* the program that is tested: ../mistral beside the test's own folder */

static inline int
master_program(const char *self)
{
    char  *slash, dir[4000];

    (void) signal(SIGPIPE, SIG_IGN);

    if (realpath(self, dir) == NULL) {
        return -1;
    }

    slash = strrchr(dir, '/');
    *slash = '\0';
    slash = strrchr(dir, '/');
    *slash = '\0';

    (void) snprintf(program, sizeof(program), "%s/mistral", dir);

    return 0;
}


static inline void
link_of(uint32_t pid, int fd, char *to, size_t size)
{
    char     path[64];
    ssize_t  n;

    (void) snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
    n = readlink(path, to, size - 1);
    to[n > 0 ? n : 0] = '\0';
}


/* as root: /proc hides the descriptors of what is not dumpable */

static inline void
check_descriptors(uint32_t pid)
{
    int   fd;
    char  to[256];

    if (geteuid() != 0) {
        return;
    }

    for (fd = 0; fd < N_FDS; fd++) {
        link_of(pid, fd, to, sizeof(to));

        if (to[0] == '\0') {
            fail_msg("descriptor %d of %u is closed", fd, pid);
        }
    }

    for ( /* void */ ; fd < 300; fd++) {
        link_of(pid, fd, to, sizeof(to));

        if (to[0] != '\0' && strncmp(to, "anon_inode:", 11) != 0
            && strcmp(to, program) != 0)
        {
            fail_msg("descriptor %d of %u is %s", fd, pid, to);
        }
    }
}


/* the tokens of a stream on from "from", to "to" or a few more */

static inline uint32_t
stream_on(master_t *m, worker_t *k, uint64_t id, uint32_t from, uint32_t to)
{
    const mst_record_t      *rec;
    const unsigned char     *at;
    const mst_rec_top_t     *top;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *tokens;

    while (from < to) {
        rec = worker_next(m, k, 20000);
        assert_non_null(rec);
        assert_int_equal(rec->id, id);

        if (rec->type == MST_REC_ADMIT) {
            continue;
        }

        assert_int_equal(rec->type, MST_REC_TOKENS);

        tokens = (const mst_rec_tokens_t *) rec;
        assert_int_equal(tokens->first, from);
        at = (const unsigned char *) (tokens + 1);

        while ((token = mst_record_next_token(tokens, &at, &top)) != NULL) {
            assert_int_equal(token->id, TEXT[from++ % (sizeof(TEXT) - 1)]);
        }
    }

    return from;
}


/* kill -9; the next one has taken over */

static inline uint32_t
super_kill(master_t *m)
{
    uint32_t  super, next;

    super = m->shm->supervisor_pid;
    assert_int_equal(kill((pid_t) super, SIGKILL), 0);
    wait_for(1000, (next = m->shm->supervisor_pid) != super);
    assert_int_not_equal(next, 0);
    wait_for(1000, is_gone(super));

    return next;
}


#endif /* MASTER_H */

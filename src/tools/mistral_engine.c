
/*
 * mistral engine: the engine program of the nginx module.
 *
 * nginx's master runs it with descriptors of fixed numbers and nothing else
 * of its own (shm/mst_shm.h).  This first process is still the master's user
 * and child: it checks what it was given, gives up all rights, forks the
 * supervisor and ends.  By hand --model does what the master would do.
 */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tools/mistral_engine.h"
#include "tools/mistral_option.h"
#include "tools/mistral_tool.h"


static struct {
    int       help;
    int       probe;
    uint64_t  epoch;               /* of the engine that the supervisor
                                      starts, 0 = we are not it */
    uint64_t  supervisor;
    uint64_t  adopt;               /* the engine that a new supervisor takes
                                      over, 0 = we are not it */

    const char  *model;            /* without nginx */
    uint64_t     threads;
    uint64_t     context;
    uint64_t     max_batch;
    uint64_t     prefill_chunk;
} mistral_engine_args;


static const mistral_option_t  mistral_engine_options[] = {
    { "--help", MISTRAL_FLAG, &mistral_engine_args.help, 0, 0 },
    { "-h", MISTRAL_FLAG, &mistral_engine_args.help, 0, 0 },
    { "--probe", MISTRAL_FLAG, &mistral_engine_args.probe, 0, 0 },
    { "--epoch", MISTRAL_UINT, &mistral_engine_args.epoch, 1, UINT32_MAX },
    { "--supervisor", MISTRAL_UINT, &mistral_engine_args.supervisor, 1,
      INT32_MAX },
    { "--adopt", MISTRAL_UINT, &mistral_engine_args.adopt, 1, INT32_MAX },
    { "--model", MISTRAL_TEXT, &mistral_engine_args.model, 0, 0 },
    { "--threads", MISTRAL_UINT, &mistral_engine_args.threads, 1, 64 },
    { "--context", MISTRAL_UINT, &mistral_engine_args.context, 1, INT32_MAX },
    { "--max-batch", MISTRAL_UINT, &mistral_engine_args.max_batch, 1, 1024 },
    { "--prefill-chunk", MISTRAL_UINT, &mistral_engine_args.prefill_chunk, 1,
      1048576 }
};


static const char  mistral_engine_help[] =
    "usage: mistral engine --model FILE [OPTION...]\n"
    "       mistral engine --probe\n"
    "\n"
    "The engine of the nginx module.  nginx starts it, with the segment of\n"
    "shared memory and its pipes as descriptors: see \"mistral_program\".\n"
    "With --model it runs without nginx, in the foreground, until ^C: to see\n"
    "that a model loads, for debuggers and for \"mistral metrics\".  For one\n"
    "answer without nginx there is \"mistral generate\".\n"
    "\n"
    "  --model FILE       a GGUF file\n"
    "  --threads N        1..64 (default: one per core that we may use)\n"
    "  --context N        tokens (default: what the model was made for)\n"
    "  --max-batch N      requests computed together (default 16)\n"
    "  --prefill-chunk N  tokens of a step (default 512)\n"
    "  --probe            print the layout of the shared memory that it is\n"
    "                     built for: the nginx module's must be the same\n"
    "  --help             this text\n";


static int mistral_engine_foreground(void);
static int mistral_engine_probe(void);
static void mistral_engine_begin(void);
static int mistral_engine_start(void);
static int mistral_engine_attach(mistral_engine_t *e, mst_err_t *err);
static int mistral_engine_descriptors(const mistral_engine_t *e,
    mst_err_t *err);
static void mistral_engine_close_from(int fd);
static int mistral_engine_become(const mst_setup_t *setup, mst_err_t *err);
static int mistral_engine_identity(const mst_setup_t *setup, mst_err_t *err);


int
mistral_engine(int argc, char **argv)
{
    int               rc;
    mst_err_t         err;
    mistral_engine_t  e;

    rc = mistral_option_parse(mistral_engine_options,
                              sizeof(mistral_engine_options)
                              / sizeof(*mistral_engine_options), argc, argv);

    if (rc != MISTRAL_OK) {
        return rc;
    }

    if (mistral_engine_args.help) {
        (void) fputs(mistral_engine_help, stdout);
        return MISTRAL_OK;
    }

    if (mistral_engine_args.probe) {
        return mistral_engine_probe();
    }

    if (mistral_engine_args.model != NULL) {
        return mistral_engine_foreground();
    }

    if (fcntl(MST_FD_MEM, F_GET_SEALS) == -1) {
        return mistral_complain(MISTRAL_USAGE, argv[0], "nginx runs this "
                                "command, with its shared memory as "
                                "descriptor %d; see \"mistral engine --help\"",
                                MST_FD_MEM);
    }

    mistral_engine_begin();

    if (mistral_engine_args.epoch == 0 && mistral_engine_args.adopt == 0) {
        return mistral_engine_start();
    }

    err.text[0] = '\0';

    if (mistral_engine_attach(&e, &err) != MST_OK) {
        return mistral_complain(MST_EXIT_REFUSED, argv[0], "%s", err.text);
    }

    if (mistral_engine_args.adopt != 0) {
        _exit(mistral_engine_supervise(&e,
                                       (pid_t) mistral_engine_args.adopt,
                                       (pid_t) mistral_engine_args.supervisor));
    }

    rc = mistral_engine_serve(&e, (uint32_t) mistral_engine_args.epoch,
                              (pid_t) mistral_engine_args.supervisor);

    /* not through exit(): nobody waits for what a library would do there */

    _exit(rc);
}


static int
mistral_engine_foreground(void)
{
    mst_setup_t  setup;

    memset(&setup, 0, sizeof(setup));

    setup.threads = (uint32_t) mistral_engine_args.threads;
    setup.context = (uint32_t) mistral_engine_args.context;
    setup.max_batch = (uint32_t) mistral_engine_args.max_batch;
    setup.prefill_chunk = (uint32_t) mistral_engine_args.prefill_chunk;

    return mistral_engine_alone(mistral_engine_args.model, &setup);
}


/* on the terminal or in a pipe; nginx has /dev/null there and reads 2 */

static int
mistral_engine_probe(void)
{
    int          fd;
    struct stat  st;

    fd = STDOUT_FILENO;

    if (fstat(fd, &st) == -1
        || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
    {
        fd = MST_FD_STATUS;
    }

    return dprintf(fd, "ok layout=%016llx\n",
                   (unsigned long long) mst_shm_layout()) > 0
           ? MISTRAL_OK : MISTRAL_FAILED;
}


/* nothing of nginx's signals and directory: what it ignores, exec keeps */

static void
mistral_engine_begin(void)
{
    int       i;
    sigset_t  none;

    for (i = 1; i < NSIG; i++) {
        (void) signal(i, SIG_DFL);
    }

    (void) signal(SIGPIPE, SIG_IGN);

    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);

    (void) umask(027);
    (void) !chdir("/");
}


/* as the master's child; it reads our status descriptor to its end */

static int
mistral_engine_start(void)
{
    pid_t             pid;
    mst_err_t         err;
    struct rlimit     rl;
    mistral_engine_t  e;

    err.text[0] = '\0';

    if (mistral_engine_attach(&e, &err) != MST_OK
        || mistral_engine_descriptors(&e, &err) != MST_OK)
    {
        goto failed;
    }

    /* best effort: pinned memory of a device, a pidfd for each slot */

    rl.rlim_cur = RLIM_INFINITY;
    rl.rlim_max = RLIM_INFINITY;
    (void) setrlimit(RLIMIT_MEMLOCK, &rl);

    if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
        rl.rlim_cur = rl.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &rl);
    }

    if (mistral_engine_become(&e.setup, &err) != MST_OK) {
        goto failed;
    }

    pid = fork();

    if (pid == -1) {
        (void) mst_err_errno(&err, errno, "fork() failed");
        goto failed;
    }

    if (pid != 0) {
        _exit(MISTRAL_OK);
    }

    _exit(mistral_engine_supervise(&e, 0, 0));

failed:

    (void) dprintf(MST_FD_STATUS, "%s\n", err.text);

    _exit(MST_EXIT_REFUSED);
}


static int
mistral_engine_attach(mistral_engine_t *e, mst_err_t *err)
{
    memset(e, 0, sizeof(mistral_engine_t));

    if (mst_shm_attach(&e->map, MST_FD_MEM, err) != MST_OK
        || mst_setup_read(&e->setup, MST_FD_SETUP, err) != MST_OK)
    {
        return MST_ERROR;
    }

    mistral_engine_close_from(MST_FD_FILES(e->map.n_slots)
                              + (int) e->setup.n_files);
    return MST_OK;
}


static int
mistral_engine_descriptors(const mistral_engine_t *e, mst_err_t *err)
{
    int  fd, end;

    end = MST_FD_FILES(e->map.n_slots) + (int) e->setup.n_files;

    for (fd = 0; fd < end; fd++) {
        if (fcntl(fd, F_GETFD) == -1) {
            return mst_err_set(err, "descriptor %d of %d is not open", fd,
                               end);
        }
    }

    return MST_OK;
}


static void
mistral_engine_close_from(int fd)
{
    struct rlimit  rl;

#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned) fd, ~0u, 0) == 0) {
        return;
    }
#endif

    /* an old kernel, or a filter of system calls */

    if (getrlimit(RLIMIT_NOFILE, &rl) == -1 || rl.rlim_cur > 65536) {
        rl.rlim_cur = 65536;
    }

    for ( /* void */ ; fd < (int) rl.rlim_cur; fd++) {
        (void) close(fd);
    }
}


/* all rights end here */

static int
mistral_engine_become(const mst_setup_t *setup, mst_err_t *err)
{
    struct __user_cap_data_struct    none[2];
    struct __user_cap_header_struct  head;

    if (geteuid() == 0 && mistral_engine_identity(setup, err) != MST_OK) {
        return MST_ERROR;
    }

    /* nginx started by a user with capabilities: setuid() took none away */

    (void) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);

    memset(none, 0, sizeof(none));
    head.version = _LINUX_CAPABILITY_VERSION_3;
    head.pid = 0;

    if (syscall(SYS_capset, &head, none) == -1) {
        return mst_err_errno(err, errno, "cannot give up capabilities: "
                             "capset() failed");
    }

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1) {
        return mst_err_errno(err, errno, "prctl(PR_SET_NO_NEW_PRIVS) failed");
    }

    /* other processes of that user, PHP say, must not trace us */

    (void) prctl(PR_SET_DUMPABLE, 0);

    return MST_OK;
}


static int
mistral_engine_identity(const mst_setup_t *setup, mst_err_t *err)
{
    gid_t     groups[MST_SETUP_GROUPS];
    uint32_t  i;

    if (setup->uid == UINT32_MAX) {
        return MST_OK;
    }

    for (i = 0; i < setup->n_groups; i++) {
        groups[i] = setup->groups[i];
    }

    if (setgroups(setup->n_groups, groups) == -1) {
        return mst_err_errno(err, errno, "setgroups() of %u groups failed",
                             setup->n_groups);
    }

    if (setup->gid != UINT32_MAX
        && setresgid(setup->gid, setup->gid, setup->gid) == -1)
    {
        return mst_err_errno(err, errno, "setresgid(%u) failed", setup->gid);
    }

    if (setresuid(setup->uid, setup->uid, setup->uid) == -1) {
        return mst_err_errno(err, errno, "setresuid(%u) failed", setup->uid);
    }

    if (setup->uid != 0 && setuid(0) == 0) {
        return mst_err_set(err, "user %u could become root again",
                           setup->uid);
    }

    return MST_OK;
}

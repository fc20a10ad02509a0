
/*
 * Log lines of supervisor and engine.
 *
 * They go through a pipe to the nginx workers, so that nginx's level, format,
 * rotation and syslog hold for them.  A full pipe and one without a reader
 * must not stop an engine: then the line goes into the file of error_log, by
 * a descriptor of ours that nginx's reopening does not reach: it follows the
 * file's name (mistral_engine_log_follow()).  Any thread.
 */

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/mst_shm.h"
#include "tools/mistral_engine.h"


#define MISTRAL_LOG_ENV    "MISTRAL_LOGFILE"   /* for who we start */
#define MISTRAL_LOG_LEVEL  "MISTRAL_LOGLEVEL"  /* nginx's, of that file */


static void mistral_engine_log_write(void *data, mst_log_level_t level,
    const char *text);
static void mistral_engine_log_file(mst_log_level_t level, const char *text);
static int mistral_engine_log_named(void);


const mst_log_t  mistral_engine_log = {
    .handler = mistral_engine_log_write,
    .data = NULL,
    .level = MST_LOG_INFO
};

static const char  *mistral_engine_log_levels[] = {
    "emerg", "emerg", "alert", "crit", "error", "warn", "notice", "info",
    "debug"
};

static const char  *mistral_engine_log_role;
static const char  *mistral_engine_log_model;
static int          mistral_engine_log_to_file;
static int          mistral_engine_log_most = MST_LOG_NOTICE;  /* there */
static char         mistral_engine_log_path[PATH_MAX];  /* of the file */


void
mistral_engine_log_init(const char *role, const char *model)
{
    char         link[32];
    ssize_t      n;
    const char  *known, *level;

    mistral_engine_log_role = role;
    mistral_engine_log_model = model;

    level = getenv(MISTRAL_LOG_LEVEL);

    if (level != NULL && atoi(level) < mistral_engine_log_most) {
        mistral_engine_log_most = atoi(level);
    }

    /* the first of us looks, the others are told: they may begin just when
       the file has another name */

    known = getenv(MISTRAL_LOG_ENV);

    if (known != NULL) {
        (void) snprintf(mistral_engine_log_path, PATH_MAX, "%s", known);
        return;
    }

    (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", MST_FD_LOGFILE);

    n = readlink(link, mistral_engine_log_path, PATH_MAX - 1);
    mistral_engine_log_path[n > 0 ? n : 0] = '\0';

    /* it had no name to begin with */

    if (!mistral_engine_log_named()) {
        mistral_engine_log_path[0] = '\0';
    }

    (void) setenv(MISTRAL_LOG_ENV, mistral_engine_log_path, 1);
}


void
mistral_engine_log_follow(void)
{
    int          fd;
    struct stat  st;

    if (mistral_engine_log_path[0] == '\0' || mistral_engine_log_named()) {
        return;
    }

    /* a directory that is closed to us: rather no last words than the room of
       a file that was deleted */

    fd = open(mistral_engine_log_path,
              O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd == -1 && fstat(MST_FD_LOGFILE, &st) == 0 && st.st_nlink == 0) {
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }

    if (fd != -1) {
        (void) dup2(fd, MST_FD_LOGFILE);
        (void) close(fd);
    }
}


void
mistral_engine_log_last_words(void)
{
    mistral_engine_log_to_file = 1;
}


/* is the file that we have the one of that name? */

static int
mistral_engine_log_named(void)
{
    struct stat  ours, named;

    return fstat(MST_FD_LOGFILE, &ours) == 0 && S_ISREG(ours.st_mode)
           && stat(mistral_engine_log_path, &named) == 0
           && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
}


static void
mistral_engine_log_write(void *data, mst_log_level_t level, const char *text)
{
    int   n;
    char  line[1200];              /* < PIPE_BUF: in one piece or not at all */

    (void) data;

    if (!mistral_engine_log_to_file) {

        /* the numbers are syslog's, nginx's are one more */

        n = snprintf(line, sizeof(line), "<%d>%s %d: %.1000s\n",
                     (int) level - 1, mistral_engine_log_role,
                     (int) getpid(), text);

        if (write(MST_FD_LOG, line, (size_t) n) == n) {
            return;
        }
    }

    mistral_engine_log_file(level, text);
}


static void
mistral_engine_log_file(mst_log_level_t level, const char *text)
{
    int              n;
    char             line[1400], stamp[32];
    struct tm        tm;
    struct timespec  ts;

    if ((int) level > mistral_engine_log_most) {
        return;
    }

    mistral_engine_log_follow();

    (void) clock_gettime(CLOCK_REALTIME, &ts);
    (void) localtime_r(&ts.tv_sec, &tm);
    (void) strftime(stamp, sizeof(stamp), "%Y/%m/%d %H:%M:%S", &tm);

    n = snprintf(line, sizeof(line), "%s [%s] %d#0: mistral model \"%.64s\": "
                 "%s %d: %.1000s\n", stamp, mistral_engine_log_levels[level],
                 (int) getpid(), mistral_engine_log_model,
                 mistral_engine_log_role, (int) getpid(), text);

    (void) !write(MST_FD_LOGFILE, line, (size_t) n);
}


/*
 * Log lines of supervisor and engine.
 *
 * They go through a pipe to the nginx workers, so that nginx's level, format,
 * rotation and syslog hold for them.  A full pipe and one without a reader
 * must not stop an engine: then the line goes into the file of error_log.
 * Any thread.
 */

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shm/mst_shm.h"
#include "tools/mistral_engine.h"


static void mistral_engine_log_write(void *data, mst_log_level_t level,
    const char *text);
static void mistral_engine_log_file(mst_log_level_t level, const char *text);


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


void
mistral_engine_log_init(const char *role, const char *model)
{
    mistral_engine_log_role = role;
    mistral_engine_log_model = model;
}


void
mistral_engine_log_last_words(void)
{
    mistral_engine_log_to_file = 1;
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

    if (level > MST_LOG_NOTICE) {
        return;                    /* nobody there knows nginx's level */
    }

    (void) clock_gettime(CLOCK_REALTIME, &ts);
    (void) localtime_r(&ts.tv_sec, &tm);
    (void) strftime(stamp, sizeof(stamp), "%Y/%m/%d %H:%M:%S", &tm);

    n = snprintf(line, sizeof(line), "%s [%s] %d#0: mistral model \"%.64s\": "
                 "%s %d: %.1000s\n", stamp, mistral_engine_log_levels[level],
                 (int) getpid(), mistral_engine_log_model,
                 mistral_engine_log_role, (int) getpid(), text);

    (void) !write(MST_FD_LOGFILE, line, (size_t) n);
}

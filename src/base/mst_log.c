
/*
 * Formatting of log lines: see mst_log.h.
 */

#include <stdarg.h>
#include <stdio.h>

#include "base/mst_log.h"


void
mst_log(const mst_log_t *log, mst_log_level_t level, const char *fmt, ...)
{
    char     line[1001], *p;
    va_list  args;

    if (log == NULL || log->handler == NULL || level > log->level) {
        return;
    }

    va_start(args, fmt);
    (void) vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);

    for (p = line; *p; p++) {

        /* a hostile string in a message must not forge a second line */

        if (*p == '\n' || *p == '\r') {
            *p = ' ';
        }
    }

    log->handler(log->data, level, line);
}


/*
 * Log lines go to a handler that the host gives: engine code never prints.
 *
 * The handler may be called from any thread of the process and must be
 * quick.  Severities are nginx's, so that the gateway passes them on.
 */

#ifndef MST_LOG_H
#define MST_LOG_H


typedef enum {
    MST_LOG_ALERT = 2,         /* a broken invariant; NGX_LOG_ALERT */
    MST_LOG_CRIT = 3,
    MST_LOG_ERR = 4,
    MST_LOG_WARN = 5,
    MST_LOG_NOTICE = 6,
    MST_LOG_INFO = 7,
    MST_LOG_DEBUG = 8
} mst_log_level_t;


/* "text" is one line without newline, valid during the call only */
typedef void (*mst_log_pt)(void *data, mst_log_level_t level,
    const char *text);


typedef struct {
    mst_log_pt        handler; /* NULL: lines are dropped */
    void             *data;    /* the handler's own */
    mst_log_level_t   level;   /* less important lines are dropped */
} mst_log_t;


/* "log" may be NULL; lines are cut at 1000 bytes */
void mst_log(const mst_log_t *log, mst_log_level_t level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));


#endif /* MST_LOG_H */

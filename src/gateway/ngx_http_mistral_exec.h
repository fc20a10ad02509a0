
/*
 * One run of the engine program.  The master waits for its answer; a worker
 * starts it and reads the answer from its event loop.  Both log one sentence
 * at "level" when it fails.
 */

#ifndef NGX_HTTP_MISTRAL_EXEC_H
#define NGX_HTTP_MISTRAL_EXEC_H

#include "gateway/ngx_http_mistral_engine.h"


#define NGX_HTTP_MISTRAL_FDS     (MST_FD_SLOT0 + MST_MAX_SLOTS                \
                                  + MST_SETUP_FILES)
#define NGX_HTTP_MISTRAL_ANSWER  5000          /* ms */


typedef struct {
    ngx_log_t    *log;
    const char   *program;                     /* its path */
    ngx_uint_t    level;                       /* of a failure's log line */
    ngx_uint_t    probe;
    int           n;                           /* descriptors 0 .. n - 1; then
                                                  the program's image */
    int           src[NGX_HTTP_MISTRAL_FDS + 1];   /* -1: /dev/null */
    int           copy[NGX_HTTP_MISTRAL_FDS + 1];  /* exec.c's own */
    u_char        text[1024];                  /* the answer */
    size_t        len;
} ngx_http_mistral_exec_t;


/* n and all of src that an engine has for each of its supervisors */
void ngx_http_mistral_exec_fill(ngx_http_mistral_exec_t *x,
    ngx_http_mistral_engine_t *e);

/* NGX_OK: the program answered "ok...", which stands in x->text */
ngx_int_t ngx_http_mistral_exec(ngx_http_mistral_exec_t *x);

/* its parts.  The sources stay the caller's; *fd, too, is the caller's then */
ngx_int_t ngx_http_mistral_exec_start(ngx_http_mistral_exec_t *x, int *fd,
    pid_t *pid);

/* NGX_AGAIN: there will be more, an event tells; NGX_OK: the end */
ngx_int_t ngx_http_mistral_exec_read(ngx_http_mistral_exec_t *x, int fd);

/* it said nothing in time */
void ngx_http_mistral_exec_late(ngx_http_mistral_exec_t *x, pid_t pid);

/* at its end; "status" as of waitpid(), 0 where that is not known */
ngx_int_t ngx_http_mistral_exec_answer(ngx_http_mistral_exec_t *x,
    int status);

/* kit.c: n and src of an engine in a worker; src is the caller's to close */
ngx_int_t ngx_http_mistral_kit_open(ngx_http_mistral_engine_t *e,
    ngx_http_mistral_exec_t *x);


#endif /* NGX_HTTP_MISTRAL_EXEC_H */

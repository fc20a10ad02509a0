
/*
 * What the master asks the engine program: "mistral engine --probe", whether
 * it fits this module, and "mistral engine", a supervisor.  Master only; at a
 * reload with signals blocked.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_exec.h"


static u_char *ngx_http_mistral_probe_place(ngx_log_t *log, u_char *buf,
    size_t len);


ngx_int_t
ngx_http_mistral_probe(ngx_http_mistral_main_conf_t *mmcf)
{
    u_char                   want[sizeof("ok layout=") + 16];
    uint64_t                 layout;
    ngx_log_t                log;
    ngx_http_mistral_exec_t  x;

    log = *mmcf->cycle->log;
    log.handler = ngx_http_mistral_probe_place;
    log.data = mmcf;

    x.log = &log;
    x.program = (char *) mmcf->program.data;
    x.level = NGX_LOG_EMERG;
    x.probe = 1;
    x.n = MST_FD_STATUS + 1;
    x.src[x.n] = -1;

    if (ngx_http_mistral_exec(&x) != NGX_OK) {
        return NGX_ERROR;
    }

    layout = mst_shm_layout();

    ngx_sprintf(want, "ok layout=%016xL%Z", layout);

    if (ngx_strcmp(x.text, want) != 0) {
        ngx_log_error(x.level, x.log, 0,
                      "the engine program \"%V\" answered \"%s\", the "
                      "running nginx module has shared layout %016xL: "
                      "restart nginx after an upgrade of the module",
                      &mmcf->program, x.text, layout);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* where the program was named, behind each line about it */

static u_char *
ngx_http_mistral_probe_place(ngx_log_t *log, u_char *buf, size_t len)
{
    ngx_http_mistral_main_conf_t *mmcf = log->data;

    if (mmcf->program_file == NULL) {
        return buf;
    }

    return ngx_snprintf(buf, len, " in %s:%ui", mmcf->program_file,
                        mmcf->program_line);
}


/*
 * A supervisor for this engine, the first or one after the last was killed
 * together with its engine, which would have replaced it, and no worker has
 * started another one yet.
 */

ngx_int_t
ngx_http_mistral_spawn(ngx_cycle_t *cycle, ngx_http_mistral_model_t *m,
    ngx_http_mistral_engine_t *e)
{
    int                      alive;
    ngx_int_t                rc;
    ngx_log_t               *log;
    ngx_http_mistral_exec_t  x;

    alive = ngx_http_mistral_engine_alive(e);

    if (alive == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "cannot open the writing end of a pipe in /proc");
        return NGX_ERROR;
    }

    log = ngx_log_get_file_log(cycle->log);

    x.log = cycle->log;
    x.program = m->setup->program;
    x.level = NGX_LOG_ALERT;
    x.probe = 0;

    ngx_http_mistral_exec_fill(&x, e);

    x.src[MST_FD_ALIVE] = alive;
    x.src[MST_FD_LOGFILE] = log ? log->file->fd : -1;
    x.src[MST_FD_PREV] = m->previous ? m->previous->alive_r : -1;

    rc = ngx_http_mistral_exec(&x);

    (void) close(alive);

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                  "start supervisor of mistral model \"%V\": %s",
                  &m->name, x.text);

    return NGX_OK;
}

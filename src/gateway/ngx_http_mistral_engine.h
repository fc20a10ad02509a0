
/*
 * What the files of the gateway's life-cycle half share, and request.c and
 * its like need not see.
 */

#ifndef NGX_HTTP_MISTRAL_ENGINE_H
#define NGX_HTTP_MISTRAL_ENGINE_H

#include "gateway/ngx_http_mistral.h"

#include <sched.h>


/* else an mst_kv_type_t's number: the gateway does not see the model room */
#define NGX_HTTP_MISTRAL_KV_AUTO  ((uint32_t) -1)

/* degrees: of thermal_limit, and of the null model */
#define NGX_HTTP_MISTRAL_CELSIUS  200

/* descriptors of one message (the kernel's limit), messages of an engine */
#define NGX_HTTP_MISTRAL_KIT   253
#define NGX_HTTP_MISTRAL_KITS  ((MST_FD_SLOT0 + MST_MAX_SLOTS                 \
                                 + MST_SETUP_FILES)                           \
                                / NGX_HTTP_MISTRAL_KIT + 1)

/* what a new binary (USR2) finds its engines by */
#define NGX_HTTP_MISTRAL_ENV      "NGX_MISTRAL"


/*
 * An engine of this host, as the master and its workers hold it: the segment
 * and the nginx ends of the descriptors.  In the heap, not in a cycle's pool:
 * several cycles may share it.  The descriptors are open over exec in the
 * master, for USR2, and close-on-exec in the workers.
 */

struct ngx_http_mistral_engine_s {
    ngx_uint_t   refs;                         /* cycles of this master */
    uint64_t     hash;                         /* identity */
    ngx_str_t    name;                         /* of the block; own copy */
    mst_map_t    map;
    int          memfd;
    int          life_r;                       /* for a new supervisor */
    int          life_w;                       /* closed everywhere = end */
    int          alive_r;                      /* EOF = supervisor and
                                                  engine are gone */
    int          log_r;                        /* workers read */
    int          log_w;                        /* for a new supervisor */
    int          wake;                         /* eventfd of the engine */
    ngx_uint_t   n_slots;
    int         *slots;                        /* [n_slots] eventfds */

    /* for a new supervisor, too; not handed on by USR2 */
    int          setup;                        /* mst_setup.h */
    int          program;                      /* O_PATH, of its image */
    int          weights;                      /* memfd, of all engines with
                                                  these files */
    int          weights_r;                    /* the same, for reading */
    uint64_t     weights_id;                   /* of the files */
    ngx_uint_t   n_files;
    int          files[MST_SETUP_FILES];
    int          kit[NGX_HTTP_MISTRAL_KITS];   /* copies of all, kit.c */
    unsigned     image:1;                      /* the kit has the program */
    unsigned     packed:1;                     /* there is a kit */
    unsigned     shared:1;                     /* ... which has weights_r */
    ngx_queue_t  queue;                        /* all of this process */
    cpu_set_t    cpus;                         /* that the master may use */

    void        *link;                         /* of this worker, link.c */
};


/* model.c: complains of "value" in this line; a number from 1 to max */
/* must is what it has to be, the end of a sentence */
char *ngx_http_mistral_model_invalid(ngx_conf_t *cf, ngx_str_t *value,
    const char *must);
char *ngx_http_mistral_model_number(ngx_conf_t *cf, ngx_str_t *value,
    uint32_t max, uint32_t *number);

/* device.c: the lines that say what computes and how; whether they fit, once
   the block is read; and the library of those whom a device computes, once the
   program's place is known */
char *ngx_http_mistral_device_line(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
ngx_int_t ngx_http_mistral_device_check(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
ngx_int_t ngx_http_mistral_device_library(ngx_conf_t *cf,
    ngx_http_mistral_main_conf_t *mmcf);

/* once the user is known */
void ngx_http_mistral_device_tuning(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m);

/* load.c */
ngx_http_mistral_model_t *ngx_http_mistral_model_create(ngx_conf_t *cf,
    ngx_str_t *name);
ngx_int_t ngx_http_mistral_model_load(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);
void ngx_http_mistral_model_close_files(ngx_http_mistral_model_t *m);

/* the next of setup->files is fd, which belongs to m->files */
ngx_int_t ngx_http_mistral_load_identity(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, int fd, const char *path);
ngx_int_t ngx_http_mistral_load_failed(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, mst_err_t *err);

/* a decimal number */
ngx_int_t ngx_http_mistral_load_rate(ngx_str_t *s, double *rate);

/* tune.c: the line rope_scaling */
char *ngx_http_mistral_tune_rope(ngx_conf_t *cf, mst_tune_t *tune);

/* load_model.c: a GGUF file or a directory */
ngx_int_t ngx_http_mistral_load_model(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m);

/* template.c: chat_template; NGX_DECLINED: it is not there */
ngx_int_t ngx_http_mistral_template_set(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, ngx_str_t *value);
ngx_int_t ngx_http_mistral_template_create(ngx_http_mistral_model_t *m,
    const mst_tokenizer_t *tokenizer, mst_err_t *err);
void ngx_http_mistral_template_marks(ngx_http_mistral_model_t *m);

/* load_script.c: the null model's vocabulary, and then what it says;
   load_script: NGX_OK or NGX_ERROR with a sentence in err */
ngx_int_t ngx_http_mistral_load_script_vocab(ngx_conf_t *cf,
    ngx_http_mistral_model_t *m, ngx_str_t *path);
ngx_int_t ngx_http_mistral_load_script(ngx_http_mistral_model_t *m,
    mst_err_t *err);

/* spawn.c: both log one sentence at "level" when they fail */
ngx_int_t ngx_http_mistral_probe(ngx_http_mistral_main_conf_t *mmcf);
ngx_int_t ngx_http_mistral_spawn(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m, ngx_http_mistral_engine_t *e);

/* inherit.c: engines of the old binary; every call in the master */
ngx_uint_t ngx_http_mistral_inheritable(uint64_t hash);
ngx_http_mistral_engine_t *ngx_http_mistral_inherit(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m);
void ngx_http_mistral_inherit_end(ngx_cycle_t *cycle);
ngx_int_t ngx_http_mistral_export(ngx_cycle_t *cycle,
    ngx_http_mistral_main_conf_t *mmcf);

/* kit.c: pack in the master, where errors are logged; open in a worker, which
   finds errno */
ngx_int_t ngx_http_mistral_kit_pack(ngx_http_mistral_engine_t *e,
    ngx_log_t *log);

/* hold.c */
ngx_http_mistral_engine_t *ngx_http_mistral_engine_alloc(ngx_str_t *name,
    ngx_uint_t n_slots, ngx_log_t *log);
ngx_http_mistral_engine_t *ngx_http_mistral_engine_create(ngx_cycle_t *cycle,
    ngx_http_mistral_model_t *m);
void ngx_http_mistral_engine_free(ngx_http_mistral_engine_t *e);

/* may there be n engines more?  Logs why not */
ngx_int_t ngx_http_mistral_engine_nofile(ngx_cycle_t *cycle, ngx_uint_t n);

/* has a worker connections enough for n engines?  Logs if not */
ngx_int_t ngx_http_mistral_engine_connections(ngx_cycle_t *cycle,
    ngx_uint_t n);

/* takes the model's files over */
void ngx_http_mistral_engine_equip(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e, ngx_http_mistral_model_t *m);
void ngx_http_mistral_engine_strip(ngx_http_mistral_engine_t *e);

/* supervisor or engine are there */
ngx_uint_t ngx_http_mistral_engine_supervised(ngx_http_mistral_engine_t *e);

/* another writing end of the alive pipe, close-on-exec, or -1 with errno */
int ngx_http_mistral_engine_alive(ngx_http_mistral_engine_t *e);

/* link.c: without a master a reload renews the links of the same process */
void ngx_http_mistral_link_renew(ngx_cycle_t *cycle);

/* log.c: the read end of the engine's log pipe */
ngx_connection_t *ngx_http_mistral_log_watch(ngx_cycle_t *cycle,
    ngx_http_mistral_engine_t *e);


#endif /* NGX_HTTP_MISTRAL_ENGINE_H */

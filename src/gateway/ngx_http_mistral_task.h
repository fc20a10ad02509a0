
/*
 * mistral_task and mistral_system_prompt: what a location has of them.
 */

#ifndef NGX_HTTP_MISTRAL_TASK_H
#define NGX_HTTP_MISTRAL_TASK_H

#include "gateway/ngx_http_mistral_system.h"

#include "api/mst_task.h"


typedef struct {
    ngx_str_t                   name;
    mst_task_t                 *defaults;
    ngx_http_mistral_system_t  *system;        /* NULL: none */
} ngx_http_mistral_task_t;


typedef struct {
    ngx_http_mistral_system_t  *system;        /* NULL: off */
    ngx_http_complex_value_t   *choice;        /* NULL: the request's */
    ngx_array_t                *tasks;         /* of _task_t; NULL: none */

    /* of mistral_task NAME, until the tasks are known */
    u_char                     *file_name;
    ngx_uint_t                  line;
} ngx_http_mistral_task_loc_conf_t;


char *ngx_http_mistral_task_system(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mistral_task_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mistral_task_choice(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
void *ngx_http_mistral_task_create_loc_conf(ngx_conf_t *cf);
char *ngx_http_mistral_task_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);

/* NULL: there is none of that name; tasks may be NULL */
ngx_http_mistral_task_t *ngx_http_mistral_task_find(ngx_array_t *tasks,
    ngx_str_t *name);


#endif /* NGX_HTTP_MISTRAL_TASK_H */

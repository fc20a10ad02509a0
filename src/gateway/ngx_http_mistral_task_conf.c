
/*
 * The directives of tasks and system prompts: see ngx_http_mistral_task.h.
 * Any process, while it reads the configuration.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_task.h"


static char *ngx_http_mistral_task_line(ngx_conf_t *cf, ngx_command_t *dummy,
    void *conf);


char *
ngx_http_mistral_task_system(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_task_loc_conf_t *tlcf = conf;

    ngx_str_t  *value;

    if (tlcf->system != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0 && cf->args->nelts == 2) {
        tlcf->system = NULL;
        return NGX_CONF_OK;
    }

    tlcf->system = ngx_http_mistral_system_parse(cf, &value[1],
                                                 cf->args->nelts - 1);

    return tlcf->system ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_mistral_task_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_task_loc_conf_t *tlcf = conf;

    char                     *rv;
    mst_err_t                 err;
    ngx_str_t                *value;
    ngx_conf_t                save;
    ngx_pool_cleanup_t       *cln;
    ngx_http_mistral_task_t  *task;

    value = cf->args->elts;

    if (!mst_task_is_name(mst_str((char *) value[1].data, value[1].len))) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid task name \"%V\", it must be 1 to %d "
                           "letters, digits, \".\", \"_\" or \"-\"",
                           &value[1], MST_TASK_MAX_NAME);
        return NGX_CONF_ERROR;
    }

    if (tlcf->tasks == NULL) {
        tlcf->tasks = ngx_array_create(cf->pool, 4,
                                       sizeof(ngx_http_mistral_task_t));
        if (tlcf->tasks == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_mistral_task_find(tlcf->tasks, &value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate mistral_task name \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    task = ngx_array_push(tlcf->tasks);

    if (cln == NULL || task == NULL) {
        return NGX_CONF_ERROR;
    }

    task->name = value[1];
    task->system = NULL;
    task->defaults = mst_task_create();

    if (task->defaults == NULL) {
        return NGX_CONF_ERROR;
    }

    cln->handler = (ngx_pool_cleanup_pt) mst_task_destroy;
    cln->data = task->defaults;

    save = *cf;
    cf->handler = ngx_http_mistral_task_line;
    cf->handler_conf = (void *) task;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    err.text[0] = '\0';

    if (mst_task_close(task->defaults, &err) != MST_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "mistral_task \"%V\": %s",
                           &task->name, err.text);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mistral_task_line(ngx_conf_t *cf, ngx_command_t *dummy, void *conf)
{
    ngx_http_mistral_task_t *task = conf;

    int          rc;
    mst_err_t    err;
    mst_str_t   *words;
    ngx_str_t   *value;
    ngx_uint_t   i, n;

    value = cf->args->elts;
    n = cf->args->nelts;

    if (ngx_strcmp(value[0].data, "include") == 0 && n == 2) {
        return ngx_conf_include(cf, dummy, conf);
    }

    if (ngx_strcmp(value[0].data, "system_prompt") == 0) {

        if (task->system || n < 2 || n > 3) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               task->system ? "\"system_prompt\" directive is "
                                              "duplicate"
                                            : "invalid number of arguments in "
                                              "\"system_prompt\" directive");
            return NGX_CONF_ERROR;
        }

        task->system = ngx_http_mistral_system_parse(cf, &value[1], n - 1);

        return task->system ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    words = ngx_palloc(cf->temp_pool, n * sizeof(mst_str_t));
    if (words == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < n; i++) {
        words[i] = mst_str((char *) value[i].data, value[i].len);
    }

    err.text[0] = '\0';
    rc = mst_task_set(task->defaults, words[0], words + 1, n - 1, &err);

    if (rc == MST_OK) {
        return NGX_CONF_OK;
    }

    if (rc == MST_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown directive \"%V\" in mistral_task \"%V\"",
                           &value[0], &task->name);

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "mistral_task \"%V\": %s",
                           &task->name, err.text);
    }

    return NGX_CONF_ERROR;
}


char *
ngx_http_mistral_task_choice(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mistral_task_loc_conf_t *tlcf = conf;

    ngx_str_t                         *value;
    ngx_http_compile_complex_value_t   ccv;

    if (tlcf->choice != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        tlcf->choice = NULL;
        return NGX_CONF_OK;
    }

    tlcf->choice = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (tlcf->choice == NULL) {
        return NGX_CONF_ERROR;
    }

    tlcf->file_name = cf->conf_file->file.name.data;
    tlcf->line = cf->conf_file->line;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = tlcf->choice;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


void *
ngx_http_mistral_task_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mistral_task_loc_conf_t  *tlcf;

    tlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mistral_task_loc_conf_t));
    if (tlcf == NULL) {
        return NULL;
    }

    tlcf->system = NGX_CONF_UNSET_PTR;
    tlcf->choice = NGX_CONF_UNSET_PTR;

    return tlcf;
}


/* tasks have names: a level adds its own to those above, or replaces one */

char *
ngx_http_mistral_task_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mistral_task_loc_conf_t *prev = parent;
    ngx_http_mistral_task_loc_conf_t *conf = child;

    ngx_uint_t                i;
    ngx_http_mistral_task_t  *task, *own;

    if (conf->tasks == NULL) {
        conf->tasks = prev->tasks;

    } else if (prev->tasks) {
        task = prev->tasks->elts;

        for (i = 0; i < prev->tasks->nelts; i++) {

            if (ngx_http_mistral_task_find(conf->tasks, &task[i].name)) {
                continue;
            }

            own = ngx_array_push(conf->tasks);
            if (own == NULL) {
                return NGX_CONF_ERROR;
            }

            *own = task[i];
        }
    }

    if (conf->choice != NGX_CONF_UNSET_PTR && conf->choice
        && conf->choice->lengths == NULL
        && ngx_http_mistral_task_find(conf->tasks, &conf->choice->value)
           == NULL)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "unknown mistral_task \"%V\" in %s:%ui",
                      &conf->choice->value, conf->file_name, conf->line);
        return NGX_CONF_ERROR;
    }

    ngx_conf_merge_ptr_value(conf->system, prev->system, NULL);
    ngx_conf_merge_ptr_value(conf->choice, prev->choice, NULL);

    return NGX_CONF_OK;
}


ngx_http_mistral_task_t *
ngx_http_mistral_task_find(ngx_array_t *tasks, ngx_str_t *name)
{
    ngx_uint_t                i;
    ngx_http_mistral_task_t  *task;

    if (tasks == NULL) {
        return NULL;
    }

    task = tasks->elts;

    for (i = 0; i < tasks->nelts; i++) {
        if (task[i].name.len == name->len
            && ngx_memcmp(task[i].name.data, name->data, name->len) == 0)
        {
            return &task[i];
        }
    }

    return NULL;
}

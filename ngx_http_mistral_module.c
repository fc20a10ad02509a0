
/*
 * The module record: directives, configuration hooks, process hooks.  No
 * logic here; see src/gateway/ngx_http_mistral.h for the files behind it.
 */

#include "gateway/ngx_http_mistral.h"


static ngx_command_t  ngx_http_mistral_commands[] = {

    { ngx_string("mistral_model"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_http_mistral_model_block,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_program"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_program,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_pass"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_pass,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_queue"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_queue,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_health"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE1,
      ngx_http_mistral_health,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mistral_status"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_1MORE,
      ngx_http_mistral_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mistral_module_ctx = {
    ngx_http_mistral_add_variables,        /* preconfiguration */
    ngx_http_mistral_post_conf,            /* postconfiguration */

    ngx_http_mistral_create_main_conf,     /* create main configuration */
    ngx_http_mistral_init_main_conf,       /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mistral_create_loc_conf,      /* create location configuration */
    ngx_http_mistral_merge_loc_conf        /* merge location configuration */
};


ngx_module_t  ngx_http_mistral_module = {
    NGX_MODULE_V1,
    &ngx_http_mistral_module_ctx,          /* module context */
    ngx_http_mistral_commands,             /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_mistral_init_module,          /* init module */
    ngx_http_mistral_init_process,         /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_mistral_exit_process,         /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};

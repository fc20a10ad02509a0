
/*
 * A text that an operator wrote, whole, out of a file.  Master, configuration
 * phase.
 */

#include "gateway/ngx_http_mistral.h"


static ngx_int_t ngx_http_mistral_file_content(ngx_conf_t *cf, ngx_fd_t fd,
    ngx_str_t *path, size_t max, ngx_str_t *text);


ngx_int_t
ngx_http_mistral_file_read(ngx_conf_t *cf, ngx_str_t *path, size_t max,
    ngx_str_t *text)
{
    ngx_fd_t   fd;
    ngx_int_t  rc;

    if (ngx_conf_full_name(cf->cycle, path, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    fd = ngx_open_file(path->data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " \"%V\" failed", path);
        return NGX_ERROR;
    }

    rc = ngx_http_mistral_file_content(cf, fd, path, max, text);

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", path);
    }

    return rc;
}


static ngx_int_t
ngx_http_mistral_file_content(ngx_conf_t *cf, ngx_fd_t fd, ngx_str_t *path,
    size_t max, ngx_str_t *text)
{
    size_t           size;
    ssize_t          n;
    ngx_file_info_t  fi;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_fd_info_n " \"%V\" failed", path);
        return NGX_ERROR;
    }

    if (!ngx_is_file(&fi) || ngx_file_size(&fi) > (off_t) max) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must be a file of at most %uz bytes",
                           path, max);
        return NGX_ERROR;
    }

    size = (size_t) ngx_file_size(&fi);

    text->len = size;
    text->data = ngx_pnalloc(cf->pool, size + 1);
    if (text->data == NULL) {
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, text->data, size);

    if (n != (ssize_t) size) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, n == -1 ? ngx_errno : 0,
                           ngx_read_fd_n " \"%V\" failed", path);
        return NGX_ERROR;
    }

    return NGX_OK;
}

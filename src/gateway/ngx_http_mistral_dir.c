
/*
 * A directory that workers or engines write to: it is made where it is not
 * there, as nginx makes that of a cache, and it is known at "nginx -t" whether
 * their user may write to it.  Master, configuration phase.
 */

#include "gateway/ngx_http_mistral.h"

#include <grp.h>

#define NGX_HTTP_MISTRAL_DIR_GROUPS  64


static ngx_uint_t ngx_http_mistral_dir_allows(ngx_core_conf_t *ccf,
    struct stat *st);


ngx_int_t
ngx_http_mistral_dir(ngx_cycle_t *cycle, const char *path, const char **user)
{
    struct stat       st;
    ngx_core_conf_t  *ccf;

    *user = NULL;
    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (stat(path, &st) == -1) {
        return ngx_errno == NGX_ENOENT && mkdir(path, 0700) == 0
               && (geteuid() != 0 || chown(path, ccf->user, (gid_t) -1) == 0)
               ? NGX_OK : NGX_ERROR;
    }

    if (!S_ISDIR(st.st_mode)) {
        return NGX_DECLINED;
    }

    /* there may be other permissions than these, so it is no error */

    if (geteuid() == 0 && !ngx_http_mistral_dir_allows(ccf, &st)) {
        *user = ccf->username ? ccf->username : "";
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_mistral_dir_allows(ngx_core_conf_t *ccf, struct stat *st)
{
    int    i, n;
    gid_t  groups[NGX_HTTP_MISTRAL_DIR_GROUPS];

    if (ccf->user == 0) {
        return 1;
    }

    if (st->st_uid == ccf->user) {
        return (st->st_mode & 0300) == 0300;
    }

    n = NGX_HTTP_MISTRAL_DIR_GROUPS;

    if (ccf->username == NULL
        || getgrouplist(ccf->username, ccf->group, groups, &n) == -1)
    {
        groups[0] = ccf->group;
        n = 1;
    }

    for (i = 0; i < n; i++) {
        if (st->st_gid == groups[i]) {
            return (st->st_mode & 0030) == 0030;
        }
    }

    return (st->st_mode & 0003) == 0003;
}

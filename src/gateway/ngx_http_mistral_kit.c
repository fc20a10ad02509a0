
/*
 * What another supervisor needs of an engine's descriptors, kept for whoever
 * is to start it.  A worker may have to, and could hold them all open: but
 * these are some hundred, which would count against its limit of files at
 * each moment of its life.  So the master puts copies of them into sockets,
 * as messages that nobody takes out; a look (MSG_PEEK) at one brings copies
 * of those copies.
 */

#include "gateway/ngx_http_mistral.h"
#include "gateway/ngx_http_mistral_engine.h"
#include "gateway/ngx_http_mistral_exec.h"


typedef union {
    struct cmsghdr  head;
    char            space[CMSG_SPACE(NGX_HTTP_MISTRAL_KIT * sizeof(int))];
} ngx_http_mistral_kit_t;


static ngx_uint_t ngx_http_mistral_kit_numbers(ngx_http_mistral_engine_t *e,
    ngx_http_mistral_exec_t *x, int *numbers);
static void ngx_http_mistral_kit_message(struct msghdr *msg,
    struct iovec *iov, ngx_http_mistral_kit_t *kit);
static ngx_int_t ngx_http_mistral_kit_put(int fd, int *fds, ngx_uint_t n);
static ngx_int_t ngx_http_mistral_kit_look(int fd, int *fds, ngx_uint_t n);


ngx_int_t
ngx_http_mistral_kit_pack(ngx_http_mistral_engine_t *e, ngx_log_t *log)
{
    int                      fds[2], src[NGX_HTTP_MISTRAL_FDS + 1];
    int                      numbers[NGX_HTTP_MISTRAL_FDS + 1];
    ngx_uint_t               i, k, n, rest;
    ngx_http_mistral_exec_t  x;

    e->image = (e->program != -1);

    ngx_http_mistral_exec_fill(&x, e);

    /* workers must not be able to change weights */

    x.src[MST_FD_WEIGHTS] = e->weights_r;

    n = ngx_http_mistral_kit_numbers(e, &x, numbers);

    for (i = 0; i < n; i++) {
        src[i] = x.src[numbers[i]];
    }

    for (i = 0, k = 0; i < n; i += rest, k++) {

        rest = ngx_min(n - i, NGX_HTTP_MISTRAL_KIT);

        if (socketpair(AF_UNIX, SOCK_DGRAM|SOCK_CLOEXEC|SOCK_NONBLOCK, 0, fds)
            == -1)
        {
            ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                          "socketpair() failed");
            goto failed;
        }

        e->kit[k] = fds[0];

        if (ngx_http_mistral_kit_put(fds[1], &src[i], rest) != NGX_OK) {
            ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                          "sendmsg() of %ui descriptors failed", rest);
            (void) close(fds[1]);
            goto failed;
        }

        (void) close(fds[1]);
    }

    e->packed = 1;

    return NGX_OK;

failed:

    for (k = 0; k < NGX_HTTP_MISTRAL_KITS; k++) {
        if (e->kit[k] != -1) {
            (void) close(e->kit[k]);
            e->kit[k] = -1;
        }
    }

    return NGX_ERROR;
}


/* NGX_OK: src has its own copies, which are the caller's to close */

ngx_int_t
ngx_http_mistral_kit_open(ngx_http_mistral_engine_t *e,
    ngx_http_mistral_exec_t *x)
{
    int         fds[NGX_HTTP_MISTRAL_FDS + 1];
    int         numbers[NGX_HTTP_MISTRAL_FDS + 1];
    ngx_uint_t  i, k, n, rest;

    ngx_http_mistral_exec_fill(x, e);

    n = ngx_http_mistral_kit_numbers(e, x, numbers);

    for (i = 0; i < n; i++) {
        x->src[numbers[i]] = -1;
    }

    for (i = 0, k = 0; i < n; i += rest, k++) {

        rest = ngx_min(n - i, NGX_HTTP_MISTRAL_KIT);

        if (e->kit[k] == -1
            || ngx_http_mistral_kit_look(e->kit[k], &fds[i], rest) != NGX_OK)
        {
            while (i-- > 0) {
                (void) close(fds[i]);
            }

            return NGX_ERROR;
        }
    }

    for (i = 0; i < n; i++) {
        x->src[numbers[i]] = fds[i];
    }

    return NGX_OK;
}


/* in the order of the contract */

static ngx_uint_t
ngx_http_mistral_kit_numbers(ngx_http_mistral_engine_t *e,
    ngx_http_mistral_exec_t *x, int *numbers)
{
    int         i;
    ngx_uint_t  n;

    n = 0;

    for (i = MST_FD_MEM; i <= x->n; i++) {

        if (i == MST_FD_ALIVE || i == MST_FD_LOGFILE || i == MST_FD_PREV) {
            continue;                          /* each supervisor's own */
        }

        if (i == MST_FD_WEIGHTS && !e->shared) {
            continue;
        }

        if (i == x->n && !e->image) {
            continue;
        }

        numbers[n++] = i;
    }

    return n;
}


static void
ngx_http_mistral_kit_message(struct msghdr *msg, struct iovec *iov,
    ngx_http_mistral_kit_t *kit)
{
    static u_char  byte;

    ngx_memzero(msg, sizeof(struct msghdr));
    ngx_memzero(kit, sizeof(ngx_http_mistral_kit_t));

    iov->iov_base = &byte;
    iov->iov_len = 1;

    msg->msg_iov = iov;
    msg->msg_iovlen = 1;
    msg->msg_control = kit->space;
    msg->msg_controllen = sizeof(kit->space);
}


static ngx_int_t
ngx_http_mistral_kit_put(int fd, int *fds, ngx_uint_t n)
{
    struct iovec            iov;
    struct msghdr           msg;
    ngx_http_mistral_kit_t  kit;

    ngx_http_mistral_kit_message(&msg, &iov, &kit);

    msg.msg_controllen = CMSG_SPACE(n * sizeof(int));

    kit.head.cmsg_len = CMSG_LEN(n * sizeof(int));
    kit.head.cmsg_level = SOL_SOCKET;
    kit.head.cmsg_type = SCM_RIGHTS;

    ngx_memcpy(CMSG_DATA(&kit.head), fds, n * sizeof(int));

    return sendmsg(fd, &msg, 0) == 1 ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_mistral_kit_look(int fd, int *fds, ngx_uint_t n)
{
    ngx_uint_t              i, got;
    struct iovec            iov;
    struct msghdr           msg;
    ngx_http_mistral_kit_t  kit;

    ngx_http_mistral_kit_message(&msg, &iov, &kit);

    if (recvmsg(fd, &msg, MSG_PEEK|MSG_CMSG_CLOEXEC) == -1) {
        return NGX_ERROR;
    }

    if (kit.head.cmsg_type != SCM_RIGHTS
        || kit.head.cmsg_len < CMSG_LEN(0))
    {
        ngx_set_errno(NGX_EMFILE);             /* there was room for none */
        return NGX_ERROR;
    }

    got = (kit.head.cmsg_len - CMSG_LEN(0)) / sizeof(int);
    got = ngx_min(got, n);

    ngx_memcpy(fds, CMSG_DATA(&kit.head), got * sizeof(int));

    if (got == n) {
        return NGX_OK;
    }

    for (i = 0; i < got; i++) {
        (void) close(fds[i]);
    }

    ngx_set_errno(NGX_EMFILE);

    return NGX_ERROR;
}

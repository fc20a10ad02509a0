
/*
 * Where "mistral bench" sends its requests: see mistral_bench_url.h.
 */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/mistral_bench_url.h"


static const char  mistral_bench_url_chat[] = "/chat/completions";


/* n printable bytes, which may be none, into a string that has room */

static int
mistral_bench_url_copy(char *to, size_t room, const char *from, size_t n)
{
    size_t  i;

    if (n >= room) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        if (from[i] <= ' ' || from[i] > '~') {
            return MST_ERROR;
        }
    }

    memcpy(to, from, n);
    to[n] = '\0';

    return MST_OK;
}


/* what stands behind the authority: the API's whole path, or its base */

static int
mistral_bench_url_path(mistral_bench_url_t *u, const char *path)
{
    size_t  n;

    static const char  end[] = "/completions";

    n = strlen(path);

    while (n && path[n - 1] == '/') {
        n--;
    }

    if (n == 0) {
        path = "/v1";
        n = 3;
    }

    if (mistral_bench_url_copy(u->path, sizeof(u->path)
                               - sizeof(mistral_bench_url_chat), path, n)
        != MST_OK)
    {
        return MST_ERROR;
    }

    if (n < sizeof(end) - 1
        || strcmp(u->path + n - (sizeof(end) - 1), end) != 0)
    {
        (void) strcat(u->path, mistral_bench_url_chat);
    }

    return MST_OK;
}


int
mistral_bench_url_parse(mistral_bench_url_t *u, const char *text,
    mst_err_t *err)
{
    size_t       host, port;
    const char  *s;

    memset(u, 0, sizeof(*u));
    s = text;

    if (strncmp(s, "https://", 8) == 0) {
        return mst_err_set(err, "\"%s\": no TLS here, http:// only", text);
    }

    if (strncmp(s, "http://", 7) != 0) {
        goto failed;
    }

    s += 7;
    host = (*s == '[') ? strcspn(s, "]/?#") + (strchr(s, ']') != NULL)
                       : strcspn(s, ":/?#");

    if (host == 0
        || mistral_bench_url_copy(u->host, sizeof(u->host), s, host)
           != MST_OK
        || (*s == '[' && (host < 3 || s[host - 1] != ']')))
    {
        goto failed;
    }

    s += host;
    (void) strcpy(u->port, "80");

    if (*s == ':') {
        s++;
        port = strspn(s, "0123456789");

        if (port == 0
            || mistral_bench_url_copy(u->port, sizeof(u->port), s, port)
               != MST_OK
            || atoi(u->port) < 1 || atoi(u->port) > 65535)
        {
            goto failed;
        }

        s += port;
    }

    if ((*s == '/' || *s == '\0') && mistral_bench_url_path(u, s) == MST_OK) {
        return MST_OK;
    }

failed:

    return mst_err_set(err, "\"%s\" is no URL of the form "
                       "http://HOST[:PORT][/PATH]", text);
}


int
mistral_bench_url_resolve(mistral_bench_url_t *u, mst_err_t *err)
{
    int               fd, rc, last;
    char              host[sizeof(u->host)];
    size_t            n;
    struct addrinfo   hints, *found, *a;

    n = strlen(u->host);
    (void) strcpy(host, u->host);

    if (host[0] == '[') {
        memmove(host, host + 1, n - 2);
        host[n - 2] = '\0';
    }

    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;

    rc = getaddrinfo(host, u->port, &hints, &found);

    if (rc != 0) {
        return mst_err_set(err, "%s: %s", u->host, gai_strerror(rc));
    }

    last = 0;

    for (a = found; a && u->addr_len == 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd != -1 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            memcpy(&u->addr, a->ai_addr, a->ai_addrlen);
            u->addr_len = a->ai_addrlen;
        }

        last = errno;

        if (fd != -1) {
            (void) close(fd);
        }
    }

    freeaddrinfo(found);

    if (u->addr_len == 0) {
        return mst_err_errno(err, last, "%s port %s", u->host, u->port);
    }

    return MST_OK;
}

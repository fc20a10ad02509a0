
/*
 * Where the commands that ask a server find it: see mistral_url.h.
 */

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/mistral_url.h"


static const char  mistral_url_chat[] = "/chat/completions";


/* n printable bytes, which may be none, into a string that has room */

static int
mistral_url_copy(char *to, size_t room, const char *from, size_t n)
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


int
mistral_url_parse(mistral_url_t *u, const char *text,
    mst_err_t *err)
{
    size_t       host, port;
    const char  *s;

    memset(u, 0, sizeof(*u));
    s = text;

    if (strncmp(s, "https://", 8) == 0) {
        return mst_err_set(err, "\"%s\" is no URL of the form "
                           "http://HOST[:PORT][/PATH]: no TLS here", text);
    }

    if (strncmp(s, "http://", 7) != 0) {
        goto failed;
    }

    s += 7;
    host = (*s == '[') ? strcspn(s, "]/?#") + (strchr(s, ']') != NULL)
                       : strcspn(s, ":/?#");

    if (host == 0
        || mistral_url_copy(u->host, sizeof(u->host), s, host)
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
            || mistral_url_copy(u->port, sizeof(u->port), s, port)
               != MST_OK
            || atoi(u->port) < 1 || atoi(u->port) > 65535)
        {
            goto failed;
        }

        s += port;
    }

    if (*s == '\0') {
        s = "/";
    }

    if (*s == '/' && mistral_url_copy(u->path, sizeof(u->path), s, strlen(s))
                     == MST_OK)
    {
        return MST_OK;
    }

failed:

    return mst_err_set(err, "\"%s\" is no URL of the form "
                       "http://HOST[:PORT][/PATH]", text);
}


/* the API's whole path, or its base */

int
mistral_url_api(mistral_url_t *u, mst_err_t *err)
{
    size_t  n;

    static const char  end[] = "/completions";

    n = strlen(u->path);

    while (n && u->path[n - 1] == '/') {
        n--;
    }

    u->path[n] = '\0';

    if (n == 0) {
        (void) strcpy(u->path, "/v1");
        n = 3;
    }

    if (n >= sizeof(end) - 1
        && strcmp(u->path + n - (sizeof(end) - 1), end) == 0)
    {
        return MST_OK;
    }

    if (n + sizeof(mistral_url_chat) > sizeof(u->path)) {
        return mst_err_set(err, "the path of the URL is too long");
    }

    (void) strcat(u->path, mistral_url_chat);

    return MST_OK;
}


int
mistral_url_connect(mistral_url_t *u, mst_err_t *err)
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
        (void) mst_err_set(err, "%s: %s", u->host, gai_strerror(rc));
        return -1;
    }

    fd = -1;
    last = 0;

    for (a = found; a; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd != -1 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            memcpy(&u->addr, a->ai_addr, a->ai_addrlen);
            u->addr_len = a->ai_addrlen;
            break;
        }

        last = errno;

        if (fd != -1) {
            (void) close(fd);
            fd = -1;
        }
    }

    freeaddrinfo(found);

    if (fd == -1) {
        (void) mst_err_errno(err, last, "%s port %s", u->host, u->port);
    }

    return fd;
}


int
mistral_url_resolve(mistral_url_t *u, mst_err_t *err)
{
    int  fd;

    fd = mistral_url_connect(u, err);

    if (fd == -1) {
        return MST_ERROR;
    }

    (void) close(fd);

    return MST_OK;
}

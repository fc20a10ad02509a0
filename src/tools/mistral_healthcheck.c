
/*
 * mistral healthcheck URL: one GET over plain HTTP, for container health
 * checks and scripts where no curl is.
 *
 * The whole, name look-up included, has 5 seconds: an alarm ends the
 * process, so that no call here needs a timeout of its own.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/mistral_tool.h"
#include "tools/mistral_url.h"

#define MISTRAL_HEALTH_TIMEOUT  5              /* seconds */
#define MISTRAL_HEALTH_ANSWER   65536          /* bytes that are looked at */
#define MISTRAL_HEALTH_SHOW     300            /* bytes of a body */


static const char  mistral_health_help[] =
    "usage: mistral healthcheck URL\n"
    "\n"
    "Sends GET to http://HOST[:PORT][/PATH] and waits at most 5 seconds.\n"
    "Exits with 0 and prints nothing if the answer's status is 200, else\n"
    "with 1 and one line that holds the status and the body.\n";


static void
mistral_health_alarm(int sig)
{
    ssize_t  n;

    static const char  text[] = "mistral healthcheck: no answer within 5 "
                                "seconds\n";

    (void) sig;

    n = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void) n;

    _exit(MISTRAL_FAILED);
}


static int
mistral_health_send(int fd, const mistral_url_t *u)
{
    int         len;
    char        text[2048];
    ssize_t     n;
    const char *p;

    len = snprintf(text, sizeof(text),
                   "GET %s HTTP/1.1\r\n"
                   "Host: %s:%s\r\n"
                   "User-Agent: mistral-healthcheck\r\n"
                   "Accept: */*\r\n"
                   "Connection: close\r\n"
                   "\r\n",
                   u->path, u->host, u->port);

    for (p = text; len > 0; p += n) {
        n = send(fd, p, (size_t) len, MSG_NOSIGNAL);

        if (n == -1) {
            return -1;
        }

        len -= (int) n;
    }

    return 0;
}


/* does "text" hold the whole head, and as much body as it promises? */

static int
mistral_health_complete(const char *text, size_t len)
{
    char   *body, *length;
    size_t  promised;

    body = strstr(text, "\r\n\r\n");

    if (body == NULL) {
        return 0;
    }

    length = strcasestr(text, "\r\nContent-Length:");

    if (length == NULL || length > body) {
        return 0;
    }

    promised = strtoul(length + 17, NULL, 10);

    return len - (size_t) (body + 4 - text) >= promised;
}


/* reads the answer into "text" as a string; -1: nothing usable came */

static int
mistral_health_read(int fd, char *text)
{
    size_t   len;
    ssize_t  n;

    len = 0;

    do {
        n = recv(fd, text + len, MISTRAL_HEALTH_ANSWER - 1 - len, 0);

        if (n == -1) {
            return len ? 0 : -1;
        }

        len += (size_t) n;
        text[len] = '\0';

    } while (n > 0 && len < MISTRAL_HEALTH_ANSWER - 1
             && !mistral_health_complete(text, len));

    return 0;
}


static int
mistral_health_judge(char *text)
{
    char   *body;
    size_t  i;

    if (strncmp(text, "HTTP/1.", 7) != 0 || strlen(text) < 12
        || text[8] != ' ' || strspn(text + 9, "0123456789") != 3)
    {
        return mistral_complain(MISTRAL_FAILED, "healthcheck",
                                "the answer is no HTTP");
    }

    if (memcmp(text + 9, "200", 3) == 0) {
        return MISTRAL_OK;
    }

    body = strstr(text, "\r\n\r\n");
    body = body ? body + 4 : text + strlen(text);

    for (i = 0; body[i] && i < MISTRAL_HEALTH_SHOW; i++) {
        if ((unsigned char) body[i] < ' ' || body[i] == '\x7f') {
            body[i] = ' ';
        }
    }

    body[i] = '\0';

    return mistral_complain(MISTRAL_FAILED, "healthcheck", "status %.3s%s%s",
                            text + 9, i ? ": " : "", body);
}


int
mistral_healthcheck(int argc, char **argv)
{
    int            fd, rc;
    mst_err_t      err;
    mistral_url_t  u;

    static char  answer[MISTRAL_HEALTH_ANSWER];

    if (argc == 2 && (strcmp(argv[1], "--help") == 0
                      || strcmp(argv[1], "-h") == 0))
    {
        (void) fputs(mistral_health_help, stdout);
        return MISTRAL_OK;
    }

    if (argc != 2) {
        return mistral_complain(MISTRAL_USAGE, argv[0], "one URL is needed, "
                                "see \"mistral healthcheck --help\"");
    }

    if (argv[1][0] == '-') {
        return mistral_complain(MISTRAL_USAGE, argv[0], "there is no option "
                                "\"%s\"", argv[1]);
    }

    err.text[0] = '\0';

    if (mistral_url_parse(&u, argv[1], &err) != MST_OK) {
        return mistral_complain(MISTRAL_USAGE, argv[0], "%s", err.text);
    }

    (void) signal(SIGALRM, mistral_health_alarm);
    (void) alarm(MISTRAL_HEALTH_TIMEOUT);

    fd = mistral_url_connect(&u, &err);

    if (fd == -1) {
        return mistral_complain(MISTRAL_FAILED, argv[0], "%s", err.text);
    }

    if (mistral_health_send(fd, &u) || mistral_health_read(fd, answer)) {
        rc = mistral_complain(MISTRAL_FAILED, argv[0], "%s port %s: %s",
                              u.host, u.port, strerror(errno));
    } else {
        rc = mistral_health_judge(answer);
    }

    (void) close(fd);

    return rc;
}

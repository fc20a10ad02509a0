
/*
 * HTTP answers: see mistral_bench_http.h.
 */

#include <string.h>
#include <strings.h>

#include "tools/mistral_bench_http.h"

#define MISTRAL_HTTP_HEAD   65536              /* bytes of lines at most */
#define MISTRAL_HTTP_DIGITS  15                /* of a chunk's size */


void
mistral_http_init(mistral_http_t *h, mistral_http_body_pt body, void *data)
{
    memset(h, 0, sizeof(*h));
    mst_buf_init(&h->line);
    h->body = body;
    h->data = data;
}


void
mistral_http_fini(mistral_http_t *h)
{
    mst_buf_fini(&h->line);
}


void
mistral_http_next(mistral_http_t *h)
{
    mst_buf_reset(&h->line);

    h->state = MISTRAL_HTTP_STATUS;
    h->status = 0;
    h->keepalive = 0;
    h->chunked = 0;
    h->events = 0;
    h->has_length = 0;
    h->left = 0;
    h->head = 0;
}


static int
mistral_http_status(mistral_http_t *h, const char *s)
{
    if (strncmp(s, "HTTP/1.", 7) != 0 || (s[7] != '0' && s[7] != '1')
        || s[8] != ' ' || strspn(s + 9, "0123456789") != 3
        || s[9] < '1' || s[9] > '5')
    {
        return MST_ERROR;
    }

    h->status = (s[9] - '0') * 100 + (s[10] - '0') * 10 + (s[11] - '0');
    h->keepalive = (s[7] == '1');
    h->state = MISTRAL_HTTP_HEADER;

    return MST_OK;
}


/* the value of a header line of this name, NULL if it has another */

static const char *
mistral_http_value(const char *line, const char *name)
{
    size_t  n;

    n = strlen(name);

    if (strncasecmp(line, name, n) != 0 || line[n] != ':') {
        return NULL;
    }

    line += n + 1;

    return line + strspn(line, " \t");
}


static int
mistral_http_header(mistral_http_t *h, const char *line)
{
    size_t       i;
    const char  *v;

    v = mistral_http_value(line, "Content-Length");

    if (v) {
        i = strspn(v, "0123456789");

        if (i == 0 || i > MISTRAL_HTTP_DIGITS) {
            return MST_ERROR;
        }

        for (h->left = 0; i > 0; i--) {
            h->left = h->left * 10 + (uint64_t) (*v++ - '0');
        }

        h->has_length = 1;
        return MST_OK;
    }

    v = mistral_http_value(line, "Transfer-Encoding");

    if (v) {
        if (strncasecmp(v, "chunked", 7) != 0) {
            return MST_ERROR;
        }

        h->chunked = 1;
        return MST_OK;
    }

    v = mistral_http_value(line, "Connection");

    if (v && strncasecmp(v, "close", 5) == 0) {
        h->keepalive = 0;

    } else if (v && strncasecmp(v, "keep-alive", 10) == 0) {
        h->keepalive = 1;
    }

    v = mistral_http_value(line, "Content-Type");

    if (v && strncasecmp(v, "text/event-stream", 17) == 0) {
        h->events = 1;
    }

    return MST_OK;
}


/* the empty line: what follows? */

static void
mistral_http_head_end(mistral_http_t *h)
{
    if (h->status < 200) {                     /* 100 Continue */
        mistral_http_next(h);

    } else if (h->status == 204 || h->status == 304) {
        h->state = MISTRAL_HTTP_DONE;

    } else if (h->chunked) {
        h->state = MISTRAL_HTTP_CHUNK_SIZE;

    } else if (h->has_length) {
        h->state = h->left ? MISTRAL_HTTP_LENGTH : MISTRAL_HTTP_DONE;

    } else {
        h->state = MISTRAL_HTTP_CLOSE;
        h->keepalive = 0;
    }
}


static int
mistral_http_chunk_size(mistral_http_t *h, const char *line)
{
    size_t  i, n;
    char    c;

    n = strspn(line, "0123456789abcdefABCDEF");

    if (n == 0 || n > MISTRAL_HTTP_DIGITS
        || (line[n] != '\0' && line[n] != ';' && line[n] != ' '))
    {
        return MST_ERROR;
    }

    h->left = 0;

    for (i = 0; i < n; i++) {
        c = line[i];
        h->left = h->left * 16 + (uint64_t) (c <= '9' ? c - '0'
                                                      : (c | 0x20) - 'a' + 10);
    }

    h->state = h->left ? MISTRAL_HTTP_CHUNK : MISTRAL_HTTP_TRAILER;
    h->head = 0;                               /* each size counts alone */

    return MST_OK;
}


static int
mistral_http_line(mistral_http_t *h, const char *line)
{
    switch (h->state) {

    case MISTRAL_HTTP_STATUS:
        return mistral_http_status(h, line);

    case MISTRAL_HTTP_HEADER:
        if (line[0] == '\0') {
            mistral_http_head_end(h);
            return MST_OK;
        }

        return mistral_http_header(h, line);

    case MISTRAL_HTTP_CHUNK_SIZE:
        return mistral_http_chunk_size(h, line);

    case MISTRAL_HTTP_CHUNK_END:
        h->state = MISTRAL_HTTP_CHUNK_SIZE;
        return line[0] == '\0' ? MST_OK : MST_ERROR;

    default:
        if (line[0] == '\0') {                 /* of the trailer */
            h->state = MISTRAL_HTTP_DONE;
        }

        return MST_OK;
    }
}


/* takes one line, or all there is of it */

static int
mistral_http_take_line(mistral_http_t *h, const char *p, size_t n,
    size_t *used)
{
    int          rc;
    size_t       len;
    const char  *end;

    end = memchr(p, '\n', n);
    len = end ? (size_t) (end - p) + 1 : n;
    *used = len;
    h->head += len;

    if (h->head > MISTRAL_HTTP_HEAD
        || mst_buf_append(&h->line, p, len) != MST_OK)
    {
        return MST_ERROR;
    }

    if (end == NULL) {
        return MST_OK;
    }

    len = h->line.len - 1;

    if (len && h->line.data[len - 1] == '\r') {
        len--;
    }

    h->line.data[len] = '\0';

    rc = memchr(h->line.data, '\0', len) ? MST_ERROR
                                         : mistral_http_line(h, h->line.data);
    mst_buf_reset(&h->line);

    return rc;
}


static int
mistral_http_take_body(mistral_http_t *h, const char *p, size_t n,
    size_t *used)
{
    if (h->state == MISTRAL_HTTP_CLOSE) {
        *used = n;
        return h->body(h->data, p, n);
    }

    *used = n < h->left ? n : (size_t) h->left;
    h->left -= *used;

    if (h->left == 0) {
        h->state = h->chunked ? MISTRAL_HTTP_CHUNK_END : MISTRAL_HTTP_DONE;
    }

    return h->body(h->data, p, *used);
}


int
mistral_http_feed(mistral_http_t *h, const char *p, size_t n, size_t *used)
{
    int     rc;
    size_t  took;

    *used = 0;
    rc = MST_OK;

    while (*used < n && rc == MST_OK && h->state != MISTRAL_HTTP_DONE) {

        switch (h->state) {

        case MISTRAL_HTTP_CHUNK:
        case MISTRAL_HTTP_LENGTH:
        case MISTRAL_HTTP_CLOSE:
            rc = mistral_http_take_body(h, p + *used, n - *used, &took);
            break;

        default:
            rc = mistral_http_take_line(h, p + *used, n - *used, &took);
        }

        *used += took;
    }

    if (rc != MST_OK) {
        return rc;
    }

    return h->state == MISTRAL_HTTP_DONE ? MST_DONE : MST_AGAIN;
}


int
mistral_http_close(mistral_http_t *h)
{
    if (h->state != MISTRAL_HTTP_CLOSE) {
        return MST_ERROR;
    }

    h->state = MISTRAL_HTTP_DONE;

    return MST_DONE;
}

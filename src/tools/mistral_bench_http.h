
/*
 * One HTTP/1.1 answer after the other on a connection, as the bytes come in
 * whatever pieces: status, length or chunks, the body to a function.
 *
 * The server is not trusted: sizes and lines are bounded, and what is no
 * HTTP is an error.
 */

#ifndef MISTRAL_BENCH_HTTP_H
#define MISTRAL_BENCH_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"


/* MST_OK, or what ends the answer at once */
typedef int (*mistral_http_body_pt)(void *data, const char *p, size_t n);


typedef enum {
    MISTRAL_HTTP_STATUS = 0,
    MISTRAL_HTTP_HEADER,
    MISTRAL_HTTP_CHUNK_SIZE,
    MISTRAL_HTTP_CHUNK,
    MISTRAL_HTTP_CHUNK_END,
    MISTRAL_HTTP_TRAILER,
    MISTRAL_HTTP_LENGTH,
    MISTRAL_HTTP_CLOSE,            /* the body ends with the connection */
    MISTRAL_HTTP_DONE
} mistral_http_state_t;


typedef struct {
    mistral_http_state_t   state;
    int                    status;     /* 0: not there yet */
    int                    keepalive;  /* the connection serves another */
    int                    chunked;
    int                    events;     /* Content-Type: text/event-stream */
    int                    has_length;
    uint64_t               left;       /* bytes of the body or the chunk */
    uint64_t               head;       /* bytes of lines so far */
    mst_buf_t              line;       /* begun in an earlier piece */
    mistral_http_body_pt   body;
    void                  *data;
} mistral_http_t;


void mistral_http_init(mistral_http_t *h, mistral_http_body_pt body,
    void *data);
void mistral_http_fini(mistral_http_t *h);
void mistral_http_next(mistral_http_t *h);     /* another answer follows */

/*
 * MST_AGAIN: more must come; MST_DONE: the answer is complete, *used says
 * where; MST_ERROR: no HTTP; or what the function for the body returned.
 */
int mistral_http_feed(mistral_http_t *h, const char *p, size_t n,
    size_t *used);

/* the connection ended: MST_DONE if that was the end of the body */
int mistral_http_close(mistral_http_t *h);


#endif /* MISTRAL_BENCH_HTTP_H */

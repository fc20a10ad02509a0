
/*
 * HTTP answers for the bench: whole, in two pieces at every place, byte by
 * byte, one behind the other, and broken ones.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "tools/mistral_bench_http.c"


#define H  "HTTP/1.1 200 OK\r\n"

static char    body[4096];
static size_t  body_len;


static int
add_body(void *data, const char *p, size_t n)
{
    (void) data;

    assert_true(body_len + n < sizeof(body));
    memcpy(body + body_len, p, n);
    body_len += n;
    body[body_len] = '\0';

    return MST_OK;
}


typedef struct {
    const char  *text;
    const char  *body;
    int          status;
    int          keepalive;
    int          events;
    size_t       rest;         /* bytes of the next answer */
} good_t;

static const good_t  good[] = {
    { H "Content-Length: 5\r\n\r\nhello", "hello", 200, 1, 0, 0 },
    { H "content-length:0\r\n\r\n", "", 200, 1, 0, 0 },
    { H "Content-Length: 5\n\nhello", "hello", 200, 1, 0, 0 },
    { "HTTP/1.0 503 \r\nContent-Length: 1\r\n\r\nx", "x", 503, 0, 0, 0 },
    { "HTTP/1.1 204 No Content\r\n\r\n", "", 204, 1, 0, 0 },
    { H "Connection: close\r\nContent-Length: 1\r\n\r\nx", "x", 200, 0, 0,
      0 },
    { "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\n"
      "x", "x", 200, 1, 0, 0 },
    { H "Content-Type: text/event-stream; charset=utf-8\r\n"
      "Transfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n1;x=y\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n",
      "hello 0123456789", 200, 1, 1, 0 },
    { H "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\nHTTP/1.1", "",
      200, 1, 0, 8 },
    { "HTTP/1.1 100 Continue\r\n\r\n" H "Content-Length: 1\r\n\r\nx", "x",
      200, 1, 0, 0 }
};


static const char *const  bad[] = {
    "HTTP/2 200 OK\r\n", "SSH-2.0\r\n", "\r\n", "HTTP/1.1 20 OK\r\n",
    "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 999 OK\r\n", "HTTP/1.1 099 X\r\n",
    H "Content-Length: -1\r\n\r\n", H "Content-Length: x\r\n\r\n",
    H "Content-Length: 1111111111111111\r\n\r\n",
    H "Transfer-Encoding: gzip\r\n\r\n",
    H "Transfer-Encoding: chunked\r\n\r\nx\r\n",
    H "Transfer-Encoding: chunked\r\n\r\n\r\n",
    H "Transfer-Encoding: chunked\r\n\r\n1111111111111111\r\n",
    H "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"
};


static void
check_good(const good_t *g, size_t step, size_t first)
{
    int             rc;
    size_t          at, n, len, used;
    mistral_http_t  h;

    mistral_http_init(&h, add_body, NULL);
    body_len = 0;
    body[0] = '\0';
    len = strlen(g->text);
    rc = MST_AGAIN;

    for (at = 0; at < len && rc == MST_AGAIN; at += used) {
        n = at == 0 && first ? first : step;
        n = n < len - at ? n : len - at;
        rc = mistral_http_feed(&h, g->text + at, n, &used);
        assert_true(used <= n);
    }

    assert_int_equal(rc, MST_DONE);
    assert_int_equal(len - at, g->rest);
    assert_int_equal(h.status, g->status);
    assert_int_equal(h.keepalive, g->keepalive);
    assert_int_equal(h.events, g->events);
    assert_string_equal(body, g->body);

    mistral_http_fini(&h);
}


static void
test_good(void **state)
{
    size_t  i, k;

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
        check_good(&good[i], 1 << 20, 0);
        check_good(&good[i], 1, 0);

        for (k = 1; k < strlen(good[i].text) - good[i].rest; k++) {
            check_good(&good[i], 1 << 20, k);
        }
    }
}


static void
test_bad(void **state)
{
    int             rc;
    size_t          i, used;
    mistral_http_t  h;

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        mistral_http_init(&h, add_body, NULL);
        body_len = 0;

        rc = mistral_http_feed(&h, bad[i], strlen(bad[i]), &used);
        assert_int_equal(rc, MST_ERROR);
        mistral_http_fini(&h);
    }
}


/* heads are bounded, a stream of chunks is not */

static void
test_bounds(void **state)
{
    int             rc;
    long            i;
    size_t          used;
    mistral_http_t  h;

    static const char  head[] = H "Transfer-Encoding: chunked\r\n\r\n";
    static const char  line[] = "X-Header: 0123456789012345678901234567\r\n";
    static const char  chunk[] = "2\r\nab\r\n";

    (void) state;

    mistral_http_init(&h, add_body, NULL);
    rc = mistral_http_feed(&h, H, strlen(H), &used);

    for (i = 0; i < 10000 && rc == MST_AGAIN; i++) {
        rc = mistral_http_feed(&h, line, strlen(line), &used);
    }

    assert_int_equal(rc, MST_ERROR);
    mistral_http_next(&h);
    rc = mistral_http_feed(&h, head, strlen(head), &used);

    for (i = 0; i < 100000 && rc == MST_AGAIN; i++) {
        body_len = 0;
        rc = mistral_http_feed(&h, chunk, strlen(chunk), &used);
    }

    assert_int_equal(rc, MST_AGAIN);
    mistral_http_fini(&h);
}


static void
test_close(void **state)
{
    size_t          used;
    mistral_http_t  h;

    static const char  text[] = H "\r\nall of it";

    (void) state;

    mistral_http_init(&h, add_body, NULL);
    body_len = 0;

    assert_int_equal(mistral_http_close(&h), MST_ERROR);
    assert_int_equal(mistral_http_feed(&h, text, strlen(text), &used),
                     MST_AGAIN);
    assert_int_equal(mistral_http_close(&h), MST_DONE);
    assert_int_equal(h.keepalive, 0);
    assert_string_equal(body, "all of it");

    mistral_http_fini(&h);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_close)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

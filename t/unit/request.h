
/*
 * Short bodies, and what they are parsed to, for the tests of requests.
 */

#ifndef REQUEST_H
#define REQUEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_request.h"


#define C  MST_API_CHAT
#define T  MST_API_COMPLETION
#define K  MST_API_TOKENIZE
#define D  MST_API_DETOKENIZE

#define U    "{\"role\":\"user\",\"content\":\"hi\"}"
#define M    "\"messages\":[" U "]"
#define A    "\"messages\":[" U ",{\"role\":\"assistant\",\"content\":\"so\"}]"
#define P    "\"prompt\":\"hi\""


static inline mst_request_t *
parse(mst_api_t api, const char *body, mst_api_error_t *e)
{
    memset(e, 0, sizeof(mst_api_error_t));

    return mst_request_parse(api, body, strlen(body), e);
}


static inline mst_request_t *
good(mst_api_t api, const char *body)
{
    mst_request_t    *r;
    mst_api_error_t   e;

    r = parse(api, body, &e);

    if (r == NULL) {
        fail_msg("%s: %s: %s", body, e.param, e.message);
    }

    return r;
}


static inline void
str_is(mst_str_t s, const char *want, size_t len)
{
    assert_int_equal(s.len, len);

    if (len) {
        assert_memory_equal(s.data, want, len);
    }
}


#endif /* REQUEST_H */

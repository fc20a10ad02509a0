
/*
 * URLs: hosts, ports, and which path is asked.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "tools/mistral_url.c"


static void
test_good(void **state)
{
    size_t               i;
    mst_err_t            err;
    mistral_url_t  u;

    static const struct {
        const char  *text;
        const char  *host;
        const char  *port;
        const char  *path;
    } cases[] = {
        { "http://h", "h", "80", "/v1/chat/completions" },
        { "http://h/", "h", "80", "/v1/chat/completions" },
        { "http://h:8080/v1", "h", "8080", "/v1/chat/completions" },
        { "http://h:8080/v1/", "h", "8080", "/v1/chat/completions" },
        { "http://[::1]:1/a/b", "[::1]", "1", "/a/b/chat/completions" },
        { "http://[::1]", "[::1]", "80", "/v1/chat/completions" },
        { "http://h/v1/completions", "h", "80", "/v1/completions" },
        { "http://h/v1/chat/completions", "h", "80", "/v1/chat/completions" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        err.text[0] = '\0';
        assert_int_equal(mistral_url_parse(&u, cases[i].text, &err),
                         MST_OK);
        assert_int_equal(mistral_url_api(&u, &err), MST_OK);
        assert_string_equal(u.host, cases[i].host);
        assert_string_equal(u.port, cases[i].port);
        assert_string_equal(u.path, cases[i].path);
    }
}


static void
test_bad(void **state)
{
    size_t               i;
    char                 text[3000];
    mst_err_t            err;
    mistral_url_t  u;

    static const char *const  cases[] = {
        "", "h", "http:/h", "http://", "http://:80", "https://h", "http://h:",
        "http://h:0", "http://h:65536", "http://h:123456789", "http://h:8x",
        "http://h?x", "http://h/ x", "http://h/\n", "http://[", "http://[]",
        "http://[::1", "http://[::1]x", "http://a b/"
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        err.text[0] = '\0';
        assert_int_equal(mistral_url_parse(&u, cases[i], &err),
                         MST_ERROR);
        assert_true(err.text[0] != '\0');
    }

    (void) strcpy(text, "http://h/");
    memset(text + 9, 'a', 2000);
    text[2009] = '\0';
    assert_int_equal(mistral_url_parse(&u, text, NULL), MST_ERROR);

    memset(text + 7, 'a', 2000);
    assert_int_equal(mistral_url_parse(&u, text, NULL), MST_ERROR);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/* The host's system prompts around those of a chat. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_system.h"
#include "base/mst_mem.h"


#define PRE   MST_SYSTEM_PREPEND
#define APP   MST_SYSTEM_APPEND
#define REPL  MST_SYSTEM_REPLACE

#define S(c)  "{\"role\":\"system\",\"content\":\"" c "\"}"
#define D(c)  "{\"role\":\"developer\",\"content\":\"" c "\"}"
#define U     "{\"role\":\"user\",\"content\":\"hi\"}"
#define A     "{\"role\":\"assistant\",\"content\":\"so\"}"


static const struct {
    const char        *messages;
    mst_system_t       s[3];
    const char        *chat;           /* "s" role's letter and text */
} cases[] = {
    { U, { { mst_string("H"), PRE } }, "s:H|u:hi|" },
    { U, { { mst_string("H"), APP } }, "s:H|u:hi|" },
    { U, { { mst_string("H"), REPL } }, "s:H|u:hi|" },
    { S("c") "," U, { { mst_string("H"), PRE } }, "s:H\n\nc|u:hi|" },
    { S("c") "," U, { { mst_string("H"), APP } }, "s:c\n\nH|u:hi|" },
    { S("c") "," U, { { mst_string("H"), REPL } }, "s:H|u:hi|" },
    { D("c") "," S("d") "," U, { { mst_string("H"), PRE } },
      "s:H\n\nc\n\nd|u:hi|" },
    { S("") "," U, { { mst_string("H"), PRE } }, "s:H|u:hi|" },
    { S("") "," U, { { mst_string("H"), APP } }, "s:H|u:hi|" },

    /* one in the middle is the client's business, unless it is replaced */

    { U "," S("c") "," A, { { mst_string("H"), PRE } },
      "s:H|u:hi|s:c|a:so|" },
    { S("b") "," U "," D("c") "," A "," S("d"), { { mst_string("H"), REPL } },
      "s:H|u:hi|a:so|" },
    { S("b"), { { mst_string("H"), REPL } }, "s:H|" },

    /* the outermost comes first and last */

    { S("c") "," U, { { mst_string("H"), PRE }, { mst_string("T"), PRE } },
      "s:H\n\nT\n\nc|u:hi|" },
    { S("c") "," U, { { mst_string("H"), APP }, { mst_string("T"), APP } },
      "s:c\n\nT\n\nH|u:hi|" },
    { S("c") "," U, { { mst_string("H"), PRE }, { mst_string("T"), APP } },
      "s:H\n\nc\n\nT|u:hi|" },
    { S("c") "," U, { { mst_string("H"), APP }, { mst_string("T"), REPL } },
      "s:T\n\nH|u:hi|" },
    { S("c") "," U, { { mst_string("H"), REPL }, { mst_string("T"), PRE } },
      "s:H\n\nT|u:hi|" }
};


static mst_request_t *
parse(const char *messages, const char *more)
{
    char             body[1000];
    mst_request_t   *r;
    mst_api_error_t  e;

    (void) snprintf(body, sizeof(body), "{\"messages\":[%s]%s}", messages,
                    more);

    r = mst_request_parse(MST_API_CHAT, body, strlen(body), &e);
    assert_non_null(r);

    return r;
}


static void
check(const mst_request_t *r, const char *chat)
{
    size_t     i;
    mst_buf_t  text;

    mst_buf_init(&text);

    for (i = 0; i < r->n_messages; i++) {
        (void) mst_buf_char(&text, "suat"[r->messages[i].role]);
        (void) mst_buf_char(&text, ':');
        (void) mst_buf_str(&text, r->messages[i].content);
        (void) mst_buf_char(&text, '|');
    }

    (void) mst_buf_char(&text, '\0');

    assert_string_equal(text.data, chat);

    mst_buf_fini(&text);
}


static void
test_table(void **state)
{
    size_t          i, n;
    mst_request_t  *r;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        r = parse(cases[i].messages, "");

        for (n = 0; n < 3 && cases[i].s[n].text.len; n++) {
            /* void */
        }

        assert_int_equal(mst_system_apply(r, cases[i].s, n), MST_OK);
        check(r, cases[i].chat);

        mst_request_destroy(r);
    }
}


/* safe_prompt's words stay, whatever happens to the client's */

static void
test_safe(void **state)
{
    mst_str_t       safe;
    mst_request_t  *r;

    static const mst_system_t  s = { mst_string("H"), REPL };

    (void) state;

    r = parse(S("c") "," U, ",\"safe_prompt\":true");
    assert_true(r->safe);
    assert_int_equal(r->n_messages, 3);
    safe = r->messages[0].content;

    assert_int_equal(mst_system_apply(r, &s, 1), MST_OK);
    assert_int_equal(r->n_messages, 2);
    assert_int_equal(r->messages[0].content.len, 3 + safe.len);
    assert_memory_equal(r->messages[0].content.data, "H\n\n", 3);
    assert_memory_equal(r->messages[0].content.data + 3, safe.data, safe.len);

    mst_request_destroy(r);
}


static void
test_memory(void **state)
{
    int             rc;
    long            n;
    mst_request_t  *r;

    static const mst_system_t  s = { mst_string("H"), PRE };

    (void) state;

    for (n = 1; /* void */ ; n++) {
        r = parse(S("c") "," U, "");

        mst_mem_fail_after(n);
        rc = mst_system_apply(r, &s, 1);
        mst_mem_fail_after(0);

        if (rc == MST_OK) {
            check(r, "s:H\n\nc|u:hi|");
        }

        mst_request_destroy(r);

        if (rc == MST_OK) {
            break;
        }
    }

    assert_true(n > 1);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_safe),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

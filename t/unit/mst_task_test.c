
/* Tasks: their settings, what they leave alone, the line that names one. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_fit.h"
#include "api/mst_task.h"
#include "base/mst_mem.h"


#define U  "{\"role\":\"user\",\"content\":\"hi\"}"


/* "temperature 0.2;stop a b;" */

static int
set(mst_task_t *t, const char *text, mst_err_t *err)
{
    int        rc;
    char       line[200], *word, *save;
    size_t     n;
    mst_str_t  words[20];

    for ( /* void */ ; *text; text += strcspn(text, ";") + 1) {
        (void) snprintf(line, sizeof(line), "%.*s",
                        (int) strcspn(text, ";"), text);
        n = 0;

        for (word = strtok_r(line, " ", &save); word;
             word = strtok_r(NULL, " ", &save))
        {
            words[n++] = mst_str(word, strlen(word));
        }

        rc = mst_task_set(t, words[0], words + 1, n - 1, err);

        if (rc != MST_OK) {
            return rc;
        }
    }

    return mst_task_close(t, err);
}


static mst_request_t *
parse(const char *more)
{
    char             body[1000];
    mst_request_t   *r;
    mst_api_error_t  e;

    (void) snprintf(body, sizeof(body), "{\"messages\":[" U "]%s}", more);

    r = mst_request_parse(MST_API_CHAT, body, strlen(body), &e);
    assert_non_null(r);

    return r;
}


#define ALL                                                                   \
    "temperature 0.25;top_p 0.5;top_k 7;min_p 0.125;frequency_penalty 1;"     \
    "presence_penalty -1;repetition_penalty 1.5;seed 42;max_tokens 20;"       \
    "max_new_tokens 10;hard_max_new_tokens 30;stop one two;"

static void
test_defaults(void **state)
{
    mst_err_t       err;
    mst_task_t     *t;
    mst_request_t  *r;

    (void) state;

    t = mst_task_create();
    assert_int_equal(set(t, ALL, &err), MST_OK);

    r = parse("");
    assert_int_equal(mst_task_apply(t, r), MST_OK);

    assert_true(r->params.temperature == 0.25f);
    assert_true(r->params.top_p == 0.5f);
    assert_int_equal(r->params.top_k, 7);
    assert_true(r->params.min_p == 0.125f);
    assert_true(r->params.frequency_penalty == 1);
    assert_true(r->params.presence_penalty == -1);
    assert_true(r->params.repetition_penalty == 1.5f);
    assert_true(r->has_seed && r->params.seed == 42);
    assert_int_equal(r->max_tokens, 20);
    assert_int_equal(r->max_new_tokens, 10);
    assert_int_equal(r->hard_max_new_tokens, 30);
    assert_int_equal(r->n_stop, 2);
    assert_true(mst_str_eq(r->stop[0], "one"));
    assert_true(mst_str_eq(r->stop[1], "two"));

    mst_request_destroy(r);

    /* the body's own, also where it is the API's default */

    r = parse(",\"temperature\":1,\"top_p\":1,\"top_k\":0,\"min_p\":0,"
              "\"frequency_penalty\":0,\"presence_penalty\":0,"
              "\"repetition_penalty\":1,\"seed\":1,\"max_new_tokens\":99,"
              "\"stop\":[]");
    assert_int_equal(mst_task_apply(t, r), MST_OK);

    assert_true(r->params.temperature == 1);
    assert_true(r->params.top_p == 1);
    assert_int_equal(r->params.top_k, 0);
    assert_true(r->params.min_p == 0);
    assert_true(r->params.frequency_penalty == 0);
    assert_true(r->params.presence_penalty == 0);
    assert_true(r->params.repetition_penalty == 1);
    assert_true(r->params.seed == 1);
    assert_int_equal(r->max_tokens, 0);
    assert_int_equal(r->max_new_tokens, 99);
    assert_int_equal(r->hard_max_new_tokens, 0);
    assert_int_equal(r->n_stop, 0);

    mst_request_destroy(r);

    /* one of many, and a task counts as said for what comes after it */

    r = parse(",\"top_k\":3,\"min_tokens\":25");
    assert_int_equal(mst_task_apply(t, r), MST_OK);

    assert_int_equal(r->params.top_k, 3);
    assert_true(r->params.temperature == 0.25f);
    assert_int_equal(r->max_tokens, 25);

    mst_fit_default_length(r, 5);
    assert_int_equal(r->max_tokens, 25);

    mst_request_destroy(r);
    mst_task_destroy(t);
}


/* a task that says nothing changes nothing */

static void
test_empty(void **state)
{
    mst_err_t       err;
    mst_task_t     *t;
    mst_request_t  *r, *same;

    (void) state;

    t = mst_task_create();
    assert_int_equal(set(t, "", &err), MST_OK);

    r = parse(",\"max_tokens\":3");
    same = parse(",\"max_tokens\":3");

    assert_int_equal(mst_task_apply(t, r), MST_OK);
    assert_memory_equal(&r->params, &same->params, sizeof(mst_params_t));
    assert_int_equal(r->max_tokens, 3);
    assert_int_equal(r->n_stop, 0);

    mst_request_destroy(r);
    mst_request_destroy(same);
    mst_task_destroy(t);
}


static void
test_refused(void **state)
{
    int          rc;
    size_t       i;
    mst_err_t    err;
    mst_task_t  *t;

    static const struct {
        const char  *text;
        int          rc;
        const char  *part;
    } bad[] = {
        { "temperature 3;", MST_ERROR, "temperature is 3, must be a number" },
        { "temperature warm;", MST_ERROR, "temperature is \"warm\", must be a "
          "number" },
        { "temperature 1e999;", MST_ERROR, "must be a number" },
        { "temperature nan;", MST_ERROR, "must be a number" },
        { "temperature true;", MST_ERROR, "must be a number" },
        { "temperature 1 2;", MST_ERROR, "takes one value, has 2" },
        { "temperature;", MST_ERROR, "takes one value, has 0" },
        { "temperature 1;temperature 1;", MST_ERROR, "is duplicate" },
        { "top_p 0;", MST_ERROR, "top_p is 0" },
        { "top_k 0.5;", MST_ERROR, "top_k is 0.5" },
        { "max_tokens 0;", MST_ERROR, "max_tokens is 0" },
        { "max_tokens 2k;", MST_ERROR, "must be a number" },
        { "max_new_tokens 20;hard_max_new_tokens 10;", MST_ERROR,
          "at least max_new_tokens, 20" },
        { "stop;", MST_ERROR, "takes one value" },
        { "stop \xff;", MST_ERROR, "UTF-8" },
        { "stop 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7;", MST_ERROR, "at most 16" },
        { "n 2;", MST_DECLINED, NULL },
        { "logprobs true;", MST_DECLINED, NULL },
        { "stream true;", MST_DECLINED, NULL },
        { "Temperature 1;", MST_DECLINED, NULL }
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        t = mst_task_create();

        rc = set(t, bad[i].text, &err);

        if (rc != bad[i].rc
            || (bad[i].part && !strstr(err.text, bad[i].part)))
        {
            fail_msg("%s: %d, %s", bad[i].text, rc, err.text);
        }

        mst_task_destroy(t);
    }
}


static void
test_take(void **state)
{
    int              rc;
    char             body[500];
    size_t           i;
    mst_str_t        name;
    mst_request_t   *r;
    mst_api_error_t  e;

    static const struct {
        const char  *messages;
        const char  *name;             /* NULL: none is found */
        size_t       n;                /* messages that are left */
        const char  *first;            /* the first of them */
    } heads[] = {
#define S(c)  "{\"role\":\"system\",\"content\":\"" c "\"}"
        { S("task: sum") "," U, "sum", 1, "hi" },
        { S("task:sum") "," U, "sum", 1, "hi" },
        { S("task: \\tsum \\t\\n") "," U, "sum", 1, "hi" },
        { S("task: a-B_9.x\\nBe brief.") "," U, "a-B_9.x", 2, "Be brief." },
        { S("task: sum\\r\\n\\r\\n Be brief.\\n") "," U, "sum", 2,
          " Be brief.\\n" },
        { "{\"role\":\"developer\",\"content\":\"task: sum\\nx\"}," U, "sum",
          2, "x" },
        { S("task: sum"), "sum", 0, NULL },
        { S("task: sum") "," S("task: two") "," U, "sum", 2, "task: two" },

        /* text like any other */

        { S("task: sum up"), NULL, 1, "task: sum up" },
        { S("task: sum\\tup"), NULL, 1, "task: sum\\tup" },
        { S("task: "), NULL, 1, "task: " },
        { S("task:"), NULL, 1, "task:" },
        { S("task"), NULL, 1, "task" },
        { S(""), NULL, 1, "" },
        { S(" task: sum"), NULL, 1, " task: sum" },
        { S("Task: sum"), NULL, 1, "Task: sum" },
        { S("task: s\\u00fcm"), NULL, 1, "task: s\xc3\xbcm" },
        { S("task: s\\u0000m"), NULL, 1, NULL },
        { S("task: 12345678901234567890123456789012"
            "345678901234567890123456789012345"), NULL, 1, NULL },
        { "{\"role\":\"user\",\"content\":\"task: sum\"}", NULL, 1,
          "task: sum" },
        { U "," S("task: sum"), NULL, 2, "hi" }
#undef S
    };

    (void) state;

    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        (void) snprintf(body, sizeof(body), "{\"messages\":[%s]}",
                        heads[i].messages);

        r = mst_request_parse(MST_API_CHAT, body, strlen(body), &e);
        assert_non_null(r);

        rc = mst_task_take(r, &name);

        if (rc != (heads[i].name ? MST_OK : MST_DECLINED)
            || (heads[i].name && !mst_str_eq(name, heads[i].name))
            || r->n_messages != heads[i].n)
        {
            fail_msg("%s", heads[i].messages);
        }

        if (heads[i].first && strchr(heads[i].first, '\\') == NULL) {
            assert_true(mst_str_eq(r->messages[0].content, heads[i].first));
        }

        mst_request_destroy(r);
    }
}


/* behind safe_prompt's words */

static void
test_take_safe(void **state)
{
    mst_str_t        name;
    mst_request_t   *r;
    mst_api_error_t  e;

    static const char  body[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"task: sum\\nx\"},"
        U "],\"safe_prompt\":true}";

    (void) state;

    r = mst_request_parse(MST_API_CHAT, body, strlen(body), &e);
    assert_non_null(r);

    assert_int_equal(mst_task_take(r, &name), MST_OK);
    assert_true(mst_str_eq(name, "sum"));
    assert_int_equal(r->n_messages, 3);
    assert_true(mst_str_eq(r->messages[1].content, "x"));

    mst_request_destroy(r);
}


static void
test_memory(void **state)
{
    int             rc;
    long            n;
    mst_err_t       err;
    mst_task_t     *t;
    mst_request_t  *r;

    (void) state;

    for (n = 1; n < 50; n++) {
        err.text[0] = '\0';
        r = parse("");

        mst_mem_fail_after(n);
        t = mst_task_create();
        rc = t ? set(t, ALL, &err) : MST_ERROR;
        rc = rc == MST_OK ? mst_task_apply(t, r) : rc;
        mst_mem_fail_after(0);

        mst_task_destroy(t);
        mst_request_destroy(r);

        if (rc == MST_OK) {
            break;
        }
    }

    assert_in_range(n, 2, 49);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_take_safe),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

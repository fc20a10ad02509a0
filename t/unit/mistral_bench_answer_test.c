
/*
 * Bodies of answers for the bench: events in whatever pieces, usage, errors,
 * and text that looks like keys.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "tools/mistral_bench_answer.c"


#define DELTA(s)  "{\"choices\":[{\"index\":0,\"delta\":{\"content\":" s "}}]}"

#define USAGE                                                                 \
    "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,"                 \
    "\"prompt_tokens_details\":{\"cached_tokens\":5}}"


static void
feed(mistral_answer_t *a, const char *text, size_t step)
{
    size_t  n, len;

    mistral_answer_reset(a, 1);
    len = strlen(text);

    for ( /* void */ ; len; len -= n, text += n) {
        n = step < len ? step : len;
        assert_int_equal(mistral_answer_feed(a, text, n), MST_OK);
    }
}


static void
test_stream(void **state)
{
    size_t            step;
    mistral_answer_t  a;

    static const char  text[] =
        ": a comment\n\n"
        "event: x\r\ndata: " DELTA("\"\"") "\r\n\r\n"
        "data: " DELTA("\"one\"") "\n\n"
        "data:" DELTA(" \"two\"") "\n\n"
        "data: {\"choices\":\ndata: [{\"text\" : \"three\"}]}\n\n"
        "data: " DELTA("null") "\n\n"
        "data: {\"choices\":[],\"usage\":null}\n\n"
        "data: {\"choices\":[]," USAGE "}\n\n"
        "data: [DONE]\n\n";

    (void) state;

    mistral_answer_init(&a);

    for (step = 1; step < sizeof(text); step++) {
        feed(&a, text, step);

        assert_int_equal(a.n_text, 3);
        assert_int_equal(a.done, 1);
        assert_int_equal(a.error, 0);
        assert_int_equal(a.has_usage, 1);
        assert_int_equal(a.prompt, 7);
        assert_int_equal(a.completion, 3);
        assert_int_equal(a.cached, 5);
    }

    mistral_answer_fini(&a);
}


/* what a model says is never taken for a key */

static void
test_quotes(void **state)
{
    mistral_answer_t  a;

    (void) state;

    mistral_answer_init(&a);

    feed(&a, "data: {\"x\":\"\\\"content\\\":\\\"a\\\"\"}\n\n", 1000);
    assert_int_equal(a.n_text, 0);

    feed(&a, "data: {\"x\":\"\\\"content\"}\n\n", 1000);
    assert_int_equal(a.n_text, 0);

    feed(&a, "data: " DELTA("\"\\\"error\\\": \\\"usage\\\":{\"") "\n\n", 1000);
    assert_int_equal(a.n_text, 1);
    assert_int_equal(a.error, 0);

    mistral_answer_fini(&a);
}


static void
test_error(void **state)
{
    mistral_answer_t  a;

    (void) state;

    mistral_answer_init(&a);

    feed(&a, "data: {\"error\":{\"message\":\"x\"}}\n\n", 3);
    assert_int_equal(a.error, 1);

    feed(&a, "data: {\"choices\":[],\"error\":null}\n\n", 3);
    assert_int_equal(a.error, 0);

    feed(&a, "data: {\"error\": broken\n\n", 3);
    assert_int_equal(a.error, 1);

    /* an event that was never ended is none */

    feed(&a, "data: [DONE]", 3);
    assert_int_equal(a.done, 0);

    mistral_answer_fini(&a);
}


static void
test_whole(void **state)
{
    size_t            i;
    mistral_answer_t  a;

    static const struct {
        const char  *text;
        int          rc;
        int          usage;
    } cases[] = {
        { "{\"choices\":[{}]," USAGE "}", MST_OK, 1 },
        { "{\"choices\":[{}]}", MST_OK, 0 },
        { "{\"choices\":{}}", MST_ERROR, 0 },
        { "{\"usage\":{\"prompt_tokens\":-1},\"choices\":[]}", MST_OK, 1 },
        { "[]", MST_ERROR, 0 },
        { "<html>", MST_ERROR, 0 },
        { "", MST_ERROR, 0 }
    };

    (void) state;

    mistral_answer_init(&a);

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        mistral_answer_reset(&a, 0);
        assert_int_equal(mistral_answer_feed(&a, cases[i].text,
                                             strlen(cases[i].text)), MST_OK);
        assert_int_equal(mistral_answer_whole(&a), cases[i].rc);
        assert_int_equal(a.has_usage, cases[i].usage);
        assert_int_equal(a.prompt, i == 0 ? 7 : 0);
    }

    mistral_answer_fini(&a);
}


/* a line without an end does not fill the memory */

static void
test_bounds(void **state)
{
    int               i, rc;
    mistral_answer_t  a;

    static const char  piece[65536] = "data: ";

    (void) state;

    mistral_answer_init(&a);
    mistral_answer_reset(&a, 1);

    for (i = 0, rc = MST_OK; i < 1000 && rc == MST_OK; i++) {
        rc = mistral_answer_feed(&a, piece, sizeof(piece));
    }

    assert_int_equal(rc, MST_ERROR);
    assert_true(i < 20);

    mistral_answer_fini(&a);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_bounds)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

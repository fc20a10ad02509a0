
/*
 * What an engine takes: a table of changes to a good submit.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "engine/mst_submit.h"


#define VOCAB  100


static uint32_t    prompt[4];
static uint32_t    stops[2];
static mst_bias_t  bias[2];


static void
good(mst_submit_t *s)
{
    memset(s, 0, sizeof(mst_submit_t));
    memset(prompt, 0, sizeof(prompt));
    memset(stops, 0, sizeof(stops));
    memset(bias, 0, sizeof(bias));
    mst_params_default(&s->params);

    prompt[3] = VOCAB - 1;
    stops[1] = VOCAB - 1;
    bias[1].id = VOCAB - 1;
    bias[1].value = -100;

    s->prompt = prompt;
    s->n_prompt = 4;
    s->stop_ids = stops;
    s->n_stop = 2;
    s->bias = bias;
    s->n_bias = 2;
}


#define bad(change, text_)                                                    \
    do {                                                                      \
        good(&s);                                                             \
        change;                                                               \
        err.text[0] = '\0';                                                   \
        assert_int_equal(mst_submit_check(&s, VOCAB, &err), MST_ERROR);       \
        assert_non_null(strstr(err.text, text_));                             \
    } while (0)


static void
test_check(void **state)
{
    mst_err_t     err = { "" };
    mst_submit_t  s;

    (void) state;

    good(&s);
    assert_int_equal(mst_submit_check(&s, VOCAB, &err), MST_OK);

    bad(s.n_prompt = 0, "the prompt is empty");
    bad(s.n_stop = MST_MAX_STOP_IDS + 1, "stop ids");
    bad(s.n_bias = MST_MAX_BIAS + 1, "biases");
    bad(prompt[2] = VOCAB, "token 2 of the prompt is 100");
    bad(stops[0] = UINT32_MAX, "stop id");
    bad(bias[0].id = VOCAB, "of token 100");
    bad(bias[0].value = NAN, "bias");
    bad(bias[0].value = 100.5f, "bias 100.5");
    bad(bias[0].value = -INFINITY, "bias");
    bad(s.params.top_p = 0, "top_p");
    bad(s.claim.priority = 99, "priority 99");
    bad(s.claim.fair_weight = 5000, "weight 5000");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_check)
    };

    return cmocka_run_group_tests_name("mst_submit", tests, NULL, NULL);
}

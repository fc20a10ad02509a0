
/*
 * Records: a table of good and bad ones, and random bytes.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "base/mst_hash.h"
#include "shm/mst_record.h"

#include "seed.h"


#define N_VOCAB  100


typedef struct {
    mst_rec_submit_t  s;
    uint32_t          ids[5 + 2];  /* 5 prompt, 2 stop */
    mst_bias_t        bias[1];
    uint32_t          pad;
} submit_t;


static void
good_submit(submit_t *r)
{
    uint32_t  i;

    memset(r, 0, sizeof(submit_t));

    r->s.head.type = MST_REC_SUBMIT;
    r->s.head.len = mst_record_submit_len(5, 2, 1);
    mst_params_default(&r->s.params);
    r->s.n_prompt = 5;
    r->s.n_stop = 2;
    r->s.n_bias = 1;

    for (i = 0; i < 7; i++) {
        r->ids[i] = N_VOCAB - 1 - i;
    }

    r->bias[0].id = 99;
    r->bias[0].value = -100;
}


static int
check_submit(submit_t *r, uint32_t len, mst_err_t *err)
{
    const uint32_t    *prompt, *stop;
    const mst_bias_t  *bias;

    memset(err, 0, sizeof(mst_err_t));

    return mst_record_check_submit(&r->s.head, len, N_VOCAB, &prompt, &stop,
                                   &bias, err);
}


static void
test_submit(void **state)
{
    uint32_t           len;
    submit_t           r;
    mst_err_t          err;
    const uint32_t    *prompt, *stop;
    const mst_bias_t  *bias;

    (void) state;

    good_submit(&r);
    len = r.s.head.len;
    assert_int_equal(len, (sizeof(mst_rec_submit_t) + 36 + 7) & ~7u);

    assert_int_equal(mst_record_check_submit(&r.s.head, len, N_VOCAB, &prompt,
                                             &stop, &bias, &err), MST_OK);
    assert_int_equal(prompt[0], 99);
    assert_int_equal(prompt[4], 95);
    assert_int_equal(stop[1], 93);
    assert_int_equal(bias[0].id, 99);
    assert_true(bias[0].value == -100);

    assert_int_equal(mst_record_submit_len(UINT32_MAX, 0, 0), 0);
    assert_true(mst_record_submit_len(1u << 28, 32, 1024) > 1u << 30);
}


#define bad(change)                                                           \
    do {                                                                      \
        good_submit(&r);                                                      \
        len = r.s.head.len;                                                   \
        change;                                                               \
                                                                              \
        if (check_submit(&r, len, &err) != MST_ERROR || !err.text[0]) {       \
            fail_msg("accepted: " #change);                                   \
        }                                                                     \
    } while (0)


static void
test_submit_bad(void **state)
{
    uint32_t   len;
    submit_t   r;
    mst_err_t  err;

    (void) state;

    bad(r.s.head.type = MST_REC_CANCEL);
    bad(r.s.head.len += 8);
    bad(len -= 8);
    bad(len += 8);
    bad(len = 8);
    bad(len = r.s.head.len = sizeof(mst_record_t));
    bad(r.s.n_prompt = 0);
    bad(r.s.n_prompt = 3);
    bad(r.s.n_prompt = 7);
    bad(r.s.n_prompt = 0xffffffff);
    bad(r.s.n_prompt = 0x40000005);
    bad(r.s.n_stop = MST_MAX_STOP_IDS + 1);
    bad(r.s.n_stop = 0xffffffff);
    bad(r.s.n_bias = MST_MAX_BIAS + 1);
    bad(r.s.n_bias = 0x80000001);
    bad(r.ids[0] = N_VOCAB);
    bad(r.ids[4] = 0xffffffff);
    bad(r.ids[5] = N_VOCAB);
    bad(r.ids[6] = N_VOCAB);
    bad(r.bias[0].id = N_VOCAB);
    bad(r.bias[0].value = 100.1f);
    bad(r.bias[0].value = NAN);
    bad(r.bias[0].value = -INFINITY);
    bad(r.s.params.temperature = NAN);
    bad(r.s.params.top_p = 0);
    bad(r.s.params.n_top = 21);
    bad(r.s.params.max_tokens = 0x80000000);
    bad(r.s.claim.priority = MST_PRIORITY_MAX + 1);
    bad(r.s.claim.priority = MST_PRIORITY_MIN - 1);
    bad(r.s.claim.priority = INT32_MIN);
    bad(r.s.claim.fair_weight = MST_WEIGHT_MAX + 1);
    bad(r.s.claim.flags = 2);
}


typedef union {
    mst_record_t      head;
    mst_rec_admit_t   admit;
    mst_rec_refuse_t  refuse;
    mst_rec_done_t    done;
    mst_rec_pace_t    pace;
    struct {
        mst_rec_tokens_t  t;
        mst_rec_token_t   a;
        mst_rec_top_t     top[2];
        mst_rec_token_t   b;
    } tokens;
    unsigned char     bytes[512];
} any_t;


static void
good(any_t *r, uint16_t type)
{
    memset(r, 0, sizeof(any_t));

    r->head.type = type;

    switch (type) {

    case MST_REC_CANCEL:
    case MST_REC_PAUSE:
    case MST_REC_RESUME:
        r->head.len = sizeof(mst_record_t);
        break;

    case MST_REC_PACE:
        r->head.len = sizeof(mst_rec_pace_t);
        r->pace.pace = UINT32_MAX;
        break;

    case MST_REC_ADMIT:
        r->head.len = sizeof(mst_rec_admit_t);
        break;

    case MST_REC_REFUSE:
        r->head.len = sizeof(mst_rec_refuse_t);
        r->refuse.reason = MST_REFUSE_KV_FULL;
        break;

    case MST_REC_TOKENS:
        r->head.len = sizeof(r->tokens);
        r->tokens.t.first = 7;
        r->tokens.t.n = 2;
        r->tokens.a.id = 1;
        r->tokens.a.n_top = 2;
        r->tokens.top[1].id = 11;
        r->tokens.b.id = 2;
        break;

    case MST_REC_DONE:
        r->head.len = sizeof(mst_rec_done_t);
        r->done.finish = MST_FINISH_ERROR;
        break;
    }
}


static void
test_good(void **state)
{
    any_t                   r;
    uint16_t                type;
    mst_err_t               err;
    const unsigned char    *p;
    const mst_rec_top_t    *top;
    const mst_rec_token_t  *token;

    (void) state;

    for (type = MST_REC_CANCEL; type < MST_REC_TYPES; type++) {
        good(&r, type);
        assert_int_equal(mst_record_check(&r.head, r.head.len, &err), MST_OK);
        assert_int_equal(mst_record_to_engine(&r.head),
                         type == MST_REC_CANCEL || type >= MST_REC_PACE);
    }

    good(&r, MST_REC_TOKENS);
    p = (const unsigned char *) (&r.tokens.t + 1);

    token = mst_record_next_token(&r.tokens.t, &p, &top);
    assert_int_equal(token->id, 1);
    assert_int_equal(top[1].id, 11);

    token = mst_record_next_token(&r.tokens.t, &p, &top);
    assert_int_equal(token->id, 2);
    assert_null(mst_record_next_token(&r.tokens.t, &p, &top));
}


#define bad_any(kind, change)                                                 \
    do {                                                                      \
        good(&r, kind);                                                       \
        len = r.head.len;                                                     \
        memset(&err, 0, sizeof(err));                                         \
        change;                                                               \
                                                                              \
        if (mst_record_check(&r.head, len, &err) != MST_ERROR                 \
            || !err.text[0])                                                  \
        {                                                                     \
            fail_msg("accepted: " #kind " " #change);                         \
        }                                                                     \
    } while (0)


static void
test_bad(void **state)
{
    any_t      r;
    uint32_t   len;
    mst_err_t  err;

    (void) state;

    bad_any(MST_REC_CANCEL, len = 16);
    bad_any(MST_REC_CANCEL, len = r.head.len = 32);
    bad_any(MST_REC_CANCEL, r.head.type = MST_REC_PAD);
    bad_any(MST_REC_CANCEL, r.head.type = MST_REC_SUBMIT);
    bad_any(MST_REC_CANCEL, r.head.type = MST_REC_TYPES);
    bad_any(MST_REC_CANCEL, r.head.type = 0xffff);
    bad_any(MST_REC_ADMIT, len += 8);
    bad_any(MST_REC_ADMIT, len = r.head.len += 8);
    bad_any(MST_REC_REFUSE, r.refuse.reason = 0);
    bad_any(MST_REC_REFUSE, r.refuse.reason = MST_REFUSE_YIELD + 1);
    bad_any(MST_REC_REFUSE, memset(r.refuse.text, 'x', 132));
    bad_any(MST_REC_PACE, len = r.head.len = sizeof(mst_record_t));
    bad_any(MST_REC_PACE, len = r.head.len += 8);
    bad_any(MST_REC_PAUSE, len = r.head.len += 8);
    bad_any(MST_REC_RESUME, len = r.head.len -= 8);
    bad_any(MST_REC_DONE, r.done.finish = 0);
    bad_any(MST_REC_DONE, r.done.finish = MST_FINISH_ERROR + 1);
    bad_any(MST_REC_DONE, len = r.head.len -= 8);
    bad_any(MST_REC_TOKENS, r.tokens.t.n = 0);
    bad_any(MST_REC_TOKENS, r.tokens.t.n = 1);
    bad_any(MST_REC_TOKENS, r.tokens.t.n = 3);
    bad_any(MST_REC_TOKENS, r.tokens.t.n = 0xffffffff);
    bad_any(MST_REC_TOKENS, r.tokens.t.first = 0xffffffff);
    bad_any(MST_REC_TOKENS, r.tokens.a.n_top = 1);
    bad_any(MST_REC_TOKENS, r.tokens.a.n_top = 21);
    bad_any(MST_REC_TOKENS, r.tokens.a.n_top = 0x20000002);
    bad_any(MST_REC_TOKENS, r.tokens.b.n_top = 1);
    bad_any(MST_REC_TOKENS, len = r.head.len = 24);
    bad_any(MST_REC_TOKENS, len = r.head.len = 32);
    bad_any(MST_REC_TOKENS, len = r.head.len -= 8);
}


/* whatever passes the check can be walked inside its bytes */

static void
test_random(void **state)
{
    any_t                   r;
    uint32_t                i, k, n, len, passed;
    uint64_t                x;
    mst_err_t               err;
    const unsigned char    *p;
    const mst_rec_top_t    *top;
    const mst_rec_token_t  *token;

    (void) state;

    x = test_seed();
    passed = 0;

    for (i = 0; i < 200000; i++) {
        good(&r, (uint16_t) (MST_REC_CANCEL
                             + i % (MST_REC_TYPES - MST_REC_CANCEL)));
        len = r.head.len;

        for (k = 0; k < 3; k++) {
            x = mst_hash_mix(x + 0x9e3779b97f4a7c15ull);
            r.bytes[x % len] ^= (unsigned char) (x >> 32);
        }

        if (r.head.len > sizeof(r)) {
            continue;
        }

        memset(&err, 0, sizeof(err));

        if (mst_record_check(&r.head, r.head.len, &err) != MST_OK) {
            assert_true(err.text[0]);
            continue;
        }

        passed++;

        if (r.head.type == MST_REC_TOKENS) {
            p = (const unsigned char *) (&r.tokens.t + 1);

            for (n = 0; /* void */ ; n++) {
                token = mst_record_next_token(&r.tokens.t, &p, &top);
                if (token == NULL) {
                    break;
                }

                assert_true(p <= r.bytes + r.head.len);
            }

            assert_int_equal(n, r.tokens.t.n);
        }
    }

    assert_true(passed > 1000);
}


static void
test_names(void **state)
{
    uint32_t  i;

    (void) state;

    assert_string_equal(mst_record_finish_name(MST_FINISH_STOP), "stop");
    assert_string_equal(mst_record_finish_name(MST_FINISH_LENGTH), "length");
    assert_string_equal(mst_record_refuse_name(MST_REFUSE_KV_FULL), "kv_full");

    for (i = 1; i <= MST_FINISH_ERROR; i++) {
        assert_string_not_equal(mst_record_finish_name(i), "unknown");
    }

    for (i = 1; i <= MST_REFUSE_YIELD; i++) {
        assert_string_not_equal(mst_record_refuse_name(i), "unknown");
    }

    assert_string_equal(mst_record_finish_name(0), "unknown");
    assert_string_equal(mst_record_refuse_name(0xffffffff), "unknown");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_submit),
        cmocka_unit_test(test_submit_bad),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_names)
    };

    return cmocka_run_group_tests_name("mst_record", tests, NULL, NULL);
}

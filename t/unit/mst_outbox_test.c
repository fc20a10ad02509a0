
/*
 * Outbox: any order of events and any room in the ring give the same
 * records, each token once and in order.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_outbox.h"

#include "seed.h"


#define SIZE  4096


static mst_ring_pos_t  pos;
static _Alignas(64) unsigned char  data[SIZE];
static mst_ring_t      p, c;
static mst_outbox_t    out;
static uint32_t        published;


static void
begin(int logprobs)
{
    mst_record_t  head;

    memset(&pos, 0, sizeof(pos));
    mst_ring_init(&p, &pos, data, SIZE, 1);
    mst_ring_init(&c, &pos, data, SIZE, 0);

    memset(&head, 0, sizeof(head));
    head.id = 0x123456789abcull;
    head.slot_epoch = 3;
    head.engine_epoch = 5;
    head.len = 4096;

    mst_outbox_init(&out, &head, logprobs);
    published = 0;
}


static const mst_record_t *
next(uint16_t type)
{
    static _Alignas(8) char  copy[SIZE];

    uint32_t             len;
    mst_err_t            err;
    mst_record_t        *rec;
    const mst_record_t  *r;

    if (mst_ring_peek(&c, &r, &len) != MST_OK) {
        return NULL;
    }

    memcpy(copy, r, len);
    mst_ring_consume(&c, len);

    rec = (mst_record_t *) copy;
    assert_int_equal(mst_record_check(rec, len, &err), MST_OK);
    assert_true(rec->id == 0x123456789abcull);
    assert_int_equal(rec->slot_epoch, 3);
    assert_int_equal(rec->engine_epoch, 5);

    if (type) {
        assert_int_equal(rec->type, type);
    }

    return rec;
}


static void
sampled(mst_sampled_t *s, uint32_t k)
{
    uint32_t  i;

    memset(s, 0, sizeof(mst_sampled_t));

    s->id = k * 7;
    s->logprob = -(float) k;
    s->n_top = k % 21;

    for (i = 0; i < s->n_top; i++) {
        s->top_ids[i] = k + i;
        s->top_logprobs[i] = -(float) i;
    }
}


static void
test_simple(void **state)
{
    mst_usage_t              usage;
    mst_sampled_t            s;
    const mst_rec_done_t    *done;
    const unsigned char     *at;
    const mst_rec_top_t     *top;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *tokens;

    (void) state;

    begin(0);
    assert_int_equal(mst_outbox_flush(&out, &p, &published), MST_OK);
    assert_int_equal(published, 0);

    mst_outbox_admit(&out, 17);
    sampled(&s, 5);
    assert_int_equal(mst_outbox_token(&out, &s), MST_OK);
    sampled(&s, 6);
    assert_int_equal(mst_outbox_token(&out, &s), MST_OK);
    assert_int_equal(mst_outbox_flush(&out, &p, &published), MST_OK);
    assert_int_equal(published, 2);

    assert_int_equal(((const mst_rec_admit_t *) next(MST_REC_ADMIT))->cached,
                     17);

    tokens = (const mst_rec_tokens_t *) next(MST_REC_TOKENS);
    assert_int_equal(tokens->first, 0);
    assert_int_equal(tokens->n, 2);
    at = (const unsigned char *) (tokens + 1);
    token = mst_record_next_token(tokens, &at, &top);
    assert_int_equal(token->id, 35);
    assert_int_equal(token->n_top, 0);
    token = mst_record_next_token(tokens, &at, &top);
    assert_int_equal(token->id, 42);

    sampled(&s, 7);
    assert_int_equal(mst_outbox_token(&out, &s), MST_OK);
    memset(&usage, 0, sizeof(usage));
    usage.completion = 3;
    assert_false(out.ended);
    mst_outbox_done(&out, MST_FINISH_LENGTH, &usage);
    assert_true(out.ended);
    assert_int_equal(mst_outbox_flush(&out, &p, &published), MST_OK);

    tokens = (const mst_rec_tokens_t *) next(MST_REC_TOKENS);
    assert_int_equal(tokens->first, 2);
    assert_int_equal(tokens->n, 1);

    done = (const mst_rec_done_t *) next(MST_REC_DONE);
    assert_int_equal(done->finish, MST_FINISH_LENGTH);
    assert_int_equal(done->usage.completion, 3);

    assert_int_equal(mst_outbox_flush(&out, &p, &published), MST_OK);
    assert_null(next(0));

    mst_outbox_fini(&out);
}


static void
test_refuse(void **state)
{
    char                     text[300];
    const mst_rec_refuse_t  *r;

    (void) state;

    begin(0);
    mst_outbox_refuse(&out, MST_REFUSE_KV_FULL, NULL);
    assert_int_equal(mst_outbox_flush(&out, &p, &published), MST_OK);
    r = (const mst_rec_refuse_t *) next(MST_REC_REFUSE);
    assert_int_equal(r->reason, MST_REFUSE_KV_FULL);
    assert_string_equal(r->text, "");
    mst_outbox_fini(&out);

    begin(1);
    memset(text, 'x', sizeof(text));
    text[299] = '\0';
    mst_outbox_refuse(&out, MST_REFUSE_INVALID, text);
    assert_int_equal(mst_outbox_flush(&out, &p, &published), MST_OK);
    r = (const mst_rec_refuse_t *) next(MST_REC_REFUSE);
    assert_int_equal(strlen(r->text), 131);
    assert_null(next(0));
    mst_outbox_fini(&out);
}


static void
check_token(const mst_rec_token_t *token, const mst_rec_top_t *top,
    uint32_t k, int logprobs)
{
    uint32_t       i;
    mst_sampled_t  s;

    sampled(&s, k);

    assert_int_equal(token->id, s.id);

    if (!logprobs) {
        assert_int_equal(token->n_top, 0);
        return;
    }

    assert_true(token->logprob == s.logprob);
    assert_int_equal(token->n_top, s.n_top);

    for (i = 0; i < s.n_top; i++) {
        assert_int_equal(top[i].id, s.top_ids[i]);
        assert_true(top[i].logprob == s.top_logprobs[i]);
    }
}


/* events and flushes in any order, a reader that is late */

static void
run(uint64_t x, int logprobs)
{
    uint32_t                 in, got, n, ended;
    mst_usage_t              usage;
    mst_sampled_t            s;
    const unsigned char     *at;
    const mst_record_t      *rec;
    const mst_rec_top_t     *top;
    const mst_rec_token_t   *token;
    const mst_rec_tokens_t  *tokens;

    begin(logprobs);
    mst_outbox_admit(&out, 1);

    n = (uint32_t) x % 3000;
    in = 0;
    got = 0;
    ended = 0;
    memset(&usage, 0, sizeof(usage));

    while (!ended) {
        x = mst_hash_mix(x + 1);

        switch (x % 4) {

        case 0:
        case 1:
            if (in < n) {
                sampled(&s, in++);
                assert_int_equal(mst_outbox_token(&out, &s), MST_OK);

            } else if (!out.ended) {
                mst_outbox_done(&out, MST_FINISH_STOP, &usage);
            }

            continue;

        case 2:
            if ((x >> 8) % 50 == 0 || in == n) {
                (void) mst_outbox_flush(&out, &p, &published);
            }

            continue;
        }

        if ((x >> 8) % 20) {
            continue;
        }

        rec = next(0);

        if (rec == NULL) {
            continue;
        }

        if (rec->type == MST_REC_DONE) {
            ended = 1;
            continue;
        }

        if (rec->type == MST_REC_ADMIT) {
            assert_int_equal(got, 0);
            continue;
        }

        tokens = (const mst_rec_tokens_t *) rec;
        assert_int_equal(tokens->first, got);
        at = (const unsigned char *) (tokens + 1);

        while ((token = mst_record_next_token(tokens, &at, &top)) != NULL) {
            check_token(token, top, got++, logprobs);
        }

        assert_int_equal(got, tokens->first + tokens->n);
    }

    assert_int_equal(got, n);
    assert_null(next(0));

    mst_outbox_fini(&out);
}


static void
test_random(void **state)
{
    int       i;
    uint64_t  x;

    (void) state;

    x = test_seed();

    for (i = 0; i < 200; i++) {
        x = mst_hash_mix(x + 1);
        run(x, i & 1);
    }
}


static void
test_memory(void **state)
{
    mst_sampled_t  s;

    (void) state;

    begin(1);
    sampled(&s, 3);

    mst_mem_fail_after(1);
    assert_int_equal(mst_outbox_token(&out, &s), MST_ERROR);
    mst_outbox_refuse(&out, MST_REFUSE_MEMORY, "no memory");
    mst_mem_fail_after(0);

    assert_int_equal(mst_outbox_flush(&out, &p, &published), MST_OK);
    assert_non_null(next(MST_REC_REFUSE));
    mst_outbox_fini(&out);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_outbox", tests, NULL, NULL);
}

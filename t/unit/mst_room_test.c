
/*
 * Blocks of sequences: promises are kept, and nobody gets what is promised to
 * another.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_mem.h"
#include "engine/mst_room.h"


#define N_BLOCKS  20
#define BLOCK     4


static mst_block_pool_t  pool;
static mst_prefix_t      prefix;
static mst_room_t        room;


static void
begin(int cache)
{
    assert_int_equal(mst_block_init(&pool, N_BLOCKS), MST_OK);
    assert_int_equal(mst_prefix_init(&prefix, &pool, BLOCK, mst_hash),
                     MST_OK);

    memset(&room, 0, sizeof(room));
    room.pool = &pool;
    room.prefix = cache ? &prefix : NULL;
    room.block_tokens = BLOCK;
}


static void
end(void)
{
    assert_int_equal(room.promised, 0);
    assert_int_equal(pool.n_used, 0);

    mst_prefix_fini(&prefix);
    mst_block_fini(&pool);
}


static mst_seq_t *
make(uint32_t n_prompt, uint32_t max_tokens, uint32_t reserve)
{
    mst_seq_t     *q;
    mst_submit_t   s;
    uint32_t       i, ids[100];

    memset(&s, 0, sizeof(s));
    mst_params_default(&s.params);

    for (i = 0; i < n_prompt; i++) {
        ids[i] = i;
    }

    s.prompt = ids;
    s.n_prompt = n_prompt;
    s.params.max_tokens = max_tokens;
    s.claim.kv_reserve = reserve;

    q = mst_seq_create(&s, 0);
    assert_non_null(q);

    return q;
}


static void
drop(mst_seq_t *q)
{
    mst_room_release(&room, q);
    assert_int_equal(q->n_blocks, 0);
    mst_seq_destroy(q);
}


static void
test_wants(void **state)
{
    int         all;
    uint32_t    i;
    mst_seq_t  *q;
    static const struct {
        uint32_t  prompt, max, reserve, context, blocks;
        int       all;
    } cases[] = {
        { 4, 8, 0, 0, 1, 0 },
        { 5, 8, 0, 0, 2, 0 },
        { 4, 8, 1, 0, 2, 0 },
        { 4, 8, 6, 0, 3, 0 },
        { 4, 8, 7, 0, 3, 1 },      /* the last one is never computed */
        { 4, 8, 8, 0, 3, 1 },
        { 4, 9, MST_RESERVE_FULL, 0, 3, 1 },
        { 4, 10, MST_RESERVE_FULL, 0, 4, 1 },
        { 4, 1, MST_RESERVE_FULL, 0, 1, 1 },
        { 4, 0, MST_RESERVE_FULL, 0, 1, 1 },
        { 4, 1, 0, 0, 1, 0 },
        { 4, INT32_MAX, MST_RESERVE_FULL, 0, N_BLOCKS, 1 },
        { 4, INT32_MAX, MST_RESERVE_FULL, 14, 4, 1 },
        { 4, INT32_MAX, 8, 14, 3, 0 },
        { 4, INT32_MAX, 9, 14, 4, 1 }
    };

    (void) state;

    begin(0);

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        q = make(cases[i].prompt, cases[i].max, cases[i].reserve);
        room.context = cases[i].context;

        assert_int_equal(mst_room_wants(&room, q, &all), cases[i].blocks);
        assert_int_equal(all, cases[i].all);

        mst_seq_destroy(q);
    }

    end();
}


static void
grow(mst_seq_t *q, uint32_t n, int rc)
{
    q->n_tokens = n;
    assert_int_equal(mst_room_grow(&room, q), rc);
}


static void
test_promise(void **state)
{
    mst_seq_t  *a, *b, *c;

    (void) state;

    begin(0);

    a = make(4, 29, MST_RESERVE_FULL);         /* 8 blocks */
    b = make(40, 100, 0);                      /* 10 blocks */
    c = make(12, 100, 0);                      /* 3 blocks */

    assert_int_equal(mst_room_take(&room, a), MST_OK);
    assert_int_equal(a->n_blocks, 1);
    assert_int_equal(room.promised, 7);
    assert_int_equal(pool.n_used, 1);

    assert_int_equal(mst_room_take(&room, b), MST_OK);
    assert_int_equal(mst_block_available(&pool), 9);

    /* nine are free, seven of them are spoken for */

    assert_int_equal(mst_room_take(&room, c), MST_BUSY);
    assert_int_equal(c->n_blocks, 0);

    grow(b, 41, MST_OK);
    grow(b, 45, MST_OK);
    grow(b, 49, MST_BUSY);
    assert_int_equal(b->n_blocks, 12);

    grow(a, 5, MST_OK);
    grow(a, 32, MST_OK);
    assert_int_equal(a->n_blocks, 8);
    assert_int_equal(room.promised, 0);
    grow(a, 33, MST_BUSY);

    drop(b);
    grow(a, 33, MST_OK);                       /* beyond: as anybody */
    assert_int_equal(mst_room_take(&room, c), MST_OK);

    drop(a);
    drop(c);
    end();
}


static void
computed(mst_seq_t *q)
{
    q->n_step = q->n_tokens - q->n_computed;
    mst_room_computed(&room, q);
}


static void
test_cached(void **state)
{
    mst_seq_t  *a, *b, *c;

    (void) state;

    begin(1);

    a = make(16, 10, 0);
    assert_int_equal(mst_room_cached(&room, a), 0);
    assert_int_equal(mst_room_take(&room, a), MST_OK);
    computed(a);

    /* shared with one who lives: they cost nothing */

    b = make(17, 40, MST_RESERVE_FULL);        /* 14 blocks */
    assert_int_equal(mst_room_cached(&room, b), 16);
    assert_int_equal(mst_room_take(&room, b), MST_OK);
    assert_int_equal(b->n_computed, 16);
    assert_int_equal(pool.n_used, 5);
    assert_int_equal(room.promised, 9);
    computed(b);

    /* 15 are free, 9 promised: 7 do not fit, though three are cached */

    c = make(13, 28, MST_RESERVE_FULL);        /* 10 blocks */
    assert_int_equal(mst_room_cached(&room, c), 12);
    assert_int_equal(mst_room_take(&room, c), MST_BUSY);

    drop(a);
    assert_int_equal(mst_room_take(&room, c), MST_BUSY);
    c->claim.kv_reserve = 23;                  /* 9 blocks */
    assert_int_equal(mst_room_take(&room, c), MST_OK);
    assert_int_equal(room.promised, 14);
    assert_int_equal(mst_block_available(&pool), 14);

    drop(c);

    /* cached ones that nobody holds are what is there to give */

    drop(b);
    a = make(17, 64, MST_RESERVE_FULL);        /* 20 blocks */
    assert_int_equal(mst_room_take(&room, a), MST_OK);
    assert_int_equal(a->n_computed, 16);
    assert_int_equal(room.promised, 15);
    assert_int_equal(mst_block_available(&pool), 15);
    computed(a);
    mst_room_forget(&room, a);
    drop(a);

    a = make(17, 1, 0);
    assert_int_equal(mst_room_cached(&room, a), 0);
    drop(a);

    end();
}


/* full blocks of the prompt's first tokens, computed or found, are kept */

static void
test_keep(void **state)
{
    uint32_t    i, n;
    mst_seq_t  *q;

    (void) state;

    begin(1);

    q = make(14, 10, 0);
    q->claim.keep = 0;
    assert_int_equal(mst_room_take(&room, q), MST_OK);
    computed(q);
    drop(q);

    q = make(14, 10, 0);
    q->claim.keep = 9;                 /* two blocks and a token */
    assert_int_equal(mst_room_take(&room, q), MST_OK);
    assert_int_equal(q->n_computed, 12);
    computed(q);
    drop(q);

    assert_int_equal(pool.lines[1].n, 2);
    assert_int_equal(pool.lines[0].n, 1);

    /* all other blocks are taken and given back: these two are still known */

    q = make(14, 10, 0);
    n = 0;

    while (pool.n_free || pool.lines[0].n) {
        (void) mst_block_get(&pool);
        n++;
    }

    assert_int_equal(n, N_BLOCKS - 2);
    assert_int_equal(mst_room_cached(&room, q), 8);
    mst_seq_destroy(q);

    for (i = 0; i < N_BLOCKS; i++) {
        if (pool.blocks[i].ref) {
            mst_block_unref(&pool, i);
        }
    }

    /* an answer's tokens are none of the prompt's, whatever is claimed */

    q = make(8, 10, 0);
    q->claim.keep = UINT32_MAX;
    assert_int_equal(mst_room_take(&room, q), MST_OK);
    computed(q);
    mst_room_forget(&room, q);
    drop(q);

    q = make(6, 10, 0);
    q->claim.keep = UINT32_MAX;
    assert_int_equal(mst_room_take(&room, q), MST_OK);
    computed(q);
    assert_int_equal(mst_seq_reserve_tokens(q, 9), MST_OK);
    q->tokens[6] = 1;
    q->tokens[7] = 2;
    q->tokens[8] = 3;
    q->n_tokens = 9;
    assert_int_equal(mst_room_grow(&room, q), MST_OK);
    computed(q);
    drop(q);

    assert_int_equal(pool.lines[1].n, 1);

    end();
}


static void
test_memory(void **state)
{
    mst_seq_t  *q;

    (void) state;

    begin(0);

    q = make(16, 10, 0);
    mst_mem_fail_after(1);
    assert_int_equal(mst_room_take(&room, q), MST_ERROR);
    mst_mem_fail_after(0);
    assert_int_equal(pool.n_used, 0);

    assert_int_equal(mst_room_take(&room, q), MST_OK);
    q->n_tokens = 17;
    mst_mem_fail_after(1);
    assert_int_equal(mst_room_grow(&room, q), MST_ERROR);
    mst_mem_fail_after(0);

    drop(q);
    end();
}


/* 60 tokens in steps of 6 with a window of 8: never more than
   (8 + 6) / 4 + 2 blocks, what is seen is held, and all come back */

static void
test_window(void **state)
{
    int         pinned;
    uint32_t    first, i, most, reserve;
    mst_seq_t  *q;

    (void) state;

    for (reserve = 0; reserve <= 1000; reserve += 1000) {
        begin(1);
        room.window = 8;
        room.chunk = 6;
        most = (8 + 6) / BLOCK + 2;

        q = make(60, 10, reserve);
        assert_int_equal(mst_room_needs(&room, q), most);
        assert_int_equal(mst_room_wants(&room, q, &pinned), most);
        assert_int_equal(pinned, reserve != 0);
        assert_int_equal(mst_room_most(&room, 5), 2);

        assert_int_equal(mst_room_take(&room, q), MST_OK);
        assert_int_equal(q->n_blocks, 2);
        q->pinned = pinned;

        while (q->n_computed < q->n_tokens) {
            assert_int_equal(mst_room_grow(&room, q), MST_OK);
            q->n_step = q->n_tokens - q->n_computed < 6
                        ? q->n_tokens - q->n_computed : 6;
            assert_true(q->n_blocks * BLOCK >= q->n_computed + q->n_step);

            first = q->n_computed >= 8 ? (q->n_computed - 7) / BLOCK : 0;

            for (i = 0; i < q->n_blocks; i++) {
                assert_int_equal(q->blocks[i] == MST_BLOCK_NONE, i < first);
            }

            assert_true(pool.n_used <= most);

            if (pinned) {
                assert_int_equal(q->n_blocks - q->n_gone + q->promise, most);
            }

            mst_room_computed(&room, q);
        }

        /* another one with the same tokens takes the end of what is known */

        mst_room_release(&room, q);
        assert_int_equal(pool.n_used, 0);
        assert_int_equal(mst_room_cached(&room, q), 56);
        assert_int_equal(mst_room_take(&room, q), MST_OK);
        assert_int_equal(q->n_computed, 56);
        assert_int_equal(q->n_gone, (56 - 7) / BLOCK);
        assert_true(pool.n_used <= most);
        mst_room_forget(&room, q);
        mst_room_release(&room, q);
        mst_seq_destroy(q);
        end();
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_wants),
        cmocka_unit_test(test_promise),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests_name("mst_room", tests, NULL, NULL);
}

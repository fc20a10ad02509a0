
/*
 * What tokens come from: by the ranks of tokens, where a rank decides between
 * two ways, and by a list of merges, which has no pair twice.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_bpe_rule.h"


/* ids of these */
enum { A, B, C, AB, BC, ABC, N };

static const char *const  names[N] = { "a", "b", "c", "ab", "bc", "abc" };


static void
begin(mst_vocab_t *v, mst_bpe_t *b)
{
    uint32_t  i;

    assert_int_equal(mst_vocab_init(v, N, 64), MST_OK);
    memset(b, 0, sizeof(mst_bpe_t));
    memset(b->byte_id, 0xff, sizeof(b->byte_id));

    for (i = 0; i < N; i++) {
        assert_int_equal(mst_vocab_put(v, i, MST_VOCAB_NORMAL, names[i],
                                       strlen(names[i])), MST_OK);
    }

    b->vocab = v;
    b->byte_id['a'] = A;
    b->byte_id['b'] = B;
    b->byte_id['c'] = C;
}


static int
comes_from(const mst_bpe_rule_t *rule, uint32_t id, uint32_t left,
    uint32_t right)
{
    mst_bpe_made_t  m;

    m.id = id;

    return mst_bpe_rule_make(rule, &m) && m.left == left && m.right == right;
}


static void
test_ranks(void **state)
{
    mst_bpe_t       b;
    mst_vocab_t     v;
    mst_bpe_made_t  m;
    mst_bpe_rule_t  rule;

    static const uint32_t  ab_first[N] = { 0, 1, 2, 3, 4, 5 };
    static const uint32_t  bc_first[N] = { 0, 1, 2, 4, 3, 5 };

    (void) state;

    begin(&v, &b);
    memset(&rule, 0, sizeof(rule));
    rule.bpe = &b;
    rule.ranks = ab_first;

    assert_true(comes_from(&rule, AB, A, B));
    assert_true(comes_from(&rule, ABC, AB, C));

    m.id = ABC;
    assert_int_equal(mst_bpe_rule_make(&rule, &m), 1);
    assert_int_equal(m.rank, 5);

    rule.ranks = bc_first;
    assert_true(comes_from(&rule, ABC, A, BC));

    /* one symbol comes from no merge, and a byte without a token is not */

    m.id = A;
    m.rank = 77;
    assert_int_equal(mst_bpe_rule_make(&rule, &m), 1);
    assert_int_equal(m.rank, 77);

    b.byte_id['b'] = MST_BPE_NONE;
    m.id = AB;
    assert_int_equal(mst_bpe_rule_make(&rule, &m), 0);

    mst_vocab_fini(&v);
}


static void
test_list(void **state)
{
    mst_bpe_t        b;
    uint32_t         other;
    mst_vocab_t      v;
    mst_bpe_made_t   m;
    mst_bpe_rule_t   rule;
    mst_bpe_merge_t  merge;

    (void) state;

    begin(&v, &b);
    memset(&rule, 0, sizeof(rule));
    rule.bpe = &b;

    mst_mem_fail_after(1);
    assert_int_equal(mst_bpe_rule_list(&rule, 3), MST_ERROR);
    mst_mem_fail_after(0);
    assert_int_equal(mst_bpe_rule_list(&rule, 3), MST_OK);

    merge = (mst_bpe_merge_t) { B, C, 7, BC };
    assert_int_equal(mst_bpe_rule_put(&rule, &merge, &other), MST_OK);
    merge = (mst_bpe_merge_t) { A, B, 8, AB };
    assert_int_equal(mst_bpe_rule_put(&rule, &merge, &other), MST_OK);

    merge = (mst_bpe_merge_t) { B, C, 9, BC };
    assert_int_equal(mst_bpe_rule_put(&rule, &merge, &other), MST_DECLINED);
    assert_int_equal(other, 7);

    /* "a", "bc" is in no list: no bytes lead to "abc" */

    assert_true(comes_from(&rule, AB, A, B));
    m.id = ABC;
    assert_int_equal(mst_bpe_rule_make(&rule, &m), 0);

    merge = (mst_bpe_merge_t) { A, BC, 9, ABC };
    assert_int_equal(mst_bpe_rule_put(&rule, &merge, &other), MST_OK);
    assert_true(comes_from(&rule, ABC, A, BC));

    mst_bpe_rule_fini(&rule);
    mst_bpe_rule_fini(&rule);
    mst_vocab_fini(&v);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_list)
    };

    return cmocka_run_group_tests_name("mst_bpe_rule", tests, NULL, NULL);
}


/*
 * The longest token at a place and those that are shorter, by definition.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_trie.h"

#include "seed.h"

#define TOKENS  300


static uint32_t
longest(const mst_vocab_t *v, const unsigned char *wanted, const char *p,
    size_t len)
{
    size_t    best;
    uint32_t  i, id;
    mst_str_t s;

    id = MST_TRIE_NONE;
    best = 0;

    for (i = 0; i < v->n; i++) {
        s = mst_vocab_token(v, i);

        if (wanted[i] && s.len <= len && s.len > best
            && memcmp(s.data, p, s.len) == 0)
        {
            best = s.len;
            id = i;
        }
    }

    return id;
}


static void
test_random(void **state)
{
    int            rc;
    char           text[64];
    size_t         i, k, len;
    unsigned       seed;
    mst_str_t      s;
    mst_trie_t     t;
    mst_vocab_t    v;
    unsigned char  wanted[TOKENS];

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    assert_int_equal(mst_vocab_init(&v, TOKENS, TOKENS * 64), MST_OK);

    for (i = 0; i < TOKENS; i++) {
        do {
            len = 1 + (size_t) rand() % 12;

            for (k = 0; k < len; k++) {
                text[k] = (char) (rand() % 3 ? rand() % 3 : rand());
            }
        } while (mst_vocab_put(&v, (uint32_t) i, MST_VOCAB_NORMAL, text, len)
                 != MST_OK);

        wanted[i] = rand() % 4 != 0;
    }

    assert_int_equal(mst_trie_init(&t, &v, wanted), MST_OK);

    for (i = 0; i < 20000; i++) {
        len = (size_t) rand() % sizeof(text);

        for (k = 0; k < len; k++) {
            text[k] = (char) (rand() % 3);
        }

        assert_int_equal(mst_trie_longest(&t, text, len),
                         longest(&v, wanted, text, len));
    }

    for (i = 0; i < TOKENS; i++) {
        s = mst_vocab_token(&v, (uint32_t) i);

        if (wanted[i]) {
            assert_int_equal(t.shorter[i],
                             longest(&v, wanted, s.data, s.len - 1));
        }
    }

    mst_trie_fini(&t);
    mst_trie_fini(&t);

    i = 0;

    do {
        mst_mem_fail_after((long) ++i);
        rc = mst_trie_init(&t, &v, wanted);
        mst_mem_fail_after(0);
        mst_trie_fini(&t);
    } while (rc == MST_ERROR);

    assert_true(i > 5);                        /* its table has grown */

    mst_vocab_fini(&v);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests_name("mst_trie", tests, NULL, NULL);
}

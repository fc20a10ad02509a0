
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mst_tally.h"

#include "seed.h"


typedef struct {
    unsigned   n;
    mst_buf_t  out;
} copy_t;


static void
copy_add(void *data, const mst_tally_t *t)
{
    copy_t  *c = data;

    c->n++;
    mst_tally_add(&c->out, t);
}


/* parsed and written again it is the same */

static void
round_trip(const mst_buf_t *in, unsigned n)
{
    copy_t     c;
    mst_err_t  err = { "" };

    c.n = 0;
    mst_buf_init(&c.out);
    mst_tally_begin(&c.out);

    assert_int_equal(mst_tally_parse(mst_str(in->data, in->len), copy_add, &c,
                                     &err), MST_OK);
    assert_string_equal(err.text, "");
    assert_int_equal(c.n, n);

    mst_tally_end(&c.out, c.n);
    assert_int_equal(c.out.len, in->len);
    assert_memory_equal(c.out.data, in->data, in->len);

    mst_buf_fini(&c.out);
}


static void
test_round_trip(void **state)
{
    char         key[MST_TALLY_KEY];
    size_t       i;
    mst_buf_t    b;
    mst_tally_t  t;

    (void) state;

    mst_buf_init(&b);

    mst_tally_begin(&b);
    mst_tally_end(&b, 0);
    assert_int_equal(b.len, strlen("mistral_quota 1\nend 0\n"));
    round_trip(&b, 0);

    for (i = 0; i < sizeof(key); i++) {
        key[i] = (char) (i + 1);
    }

    mst_buf_reset(&b);
    mst_tally_begin(&b);

    t.start = 1764460800;
    t.used = 1234;
    t.key = mst_str("alice", 5);
    mst_tally_add(&b, &t);

    t.start = 253402300799;
    t.used = UINT64_MAX;
    t.key = mst_str(key, sizeof(key));
    mst_tally_add(&b, &t);

    t.start = 0;
    t.used = 0;
    t.key = mst_str("\0end 1\n%", 8);
    mst_tally_add(&b, &t);

    mst_tally_end(&b, 3);
    round_trip(&b, 3);

    assert_non_null(strstr(b.data, "\n1764460800 1234 alice\n"));
    assert_non_null(strstr(b.data, "\n0 0 %00end%201%0A%25\nend 3\n"));

    mst_buf_fini(&b);
}


static void
test_broken(void **state)
{
    char        *text;
    copy_t       c;
    size_t       i;
    mst_err_t    err;
    static char  longest[1024];

    static const struct {
        const char  *text;
        const char  *why;
    } t[] = {
        { "", "line 1 is not" },
        { "mistral_quota 2\nend 0\n", "line 1 is not" },
        { "mistral_quota 1", "line 1 is not" },
        { "mistral_quota 1\n", "it has no end" },
        { "mistral_quota 1\n1 2 a\n", "it has no end" },
        { "mistral_quota 1\n1 2 a\nend 1", "line 3 is broken" },
        { "mistral_quota 1\n1 2 a\nend 2\n", "line 3 is no end of 1 entries" },
        { "mistral_quota 1\n1 2 a\nend x\n", "line 3 is no end" },
        { "mistral_quota 1\nend 0\n\n", "line 2 is no end" },
        { "mistral_quota 1\nend 0\nend 0\n", "line 2 is no end" },
        { "mistral_quota 1\n\nend 0\n", "line 2 is broken" },
        { "mistral_quota 1\n1 2\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n1 2 \nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n 1 2 a\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n-1 2 a\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n1 2 a b\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n1 2 a\r\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n1 2 %\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n1 2 %2\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n1 2 %zz\nend 1\n", "line 2 is broken" },
        { "mistral_quota 1\n1 18446744073709551616 a\nend 1\n",
          "line 2 is broken" },
        { "mistral_quota 1\n9223372036854775808 1 a\nend 1\n",
          "line 2 is broken" },
        { "mistral_quota 1\n9223372036854775807 1 a\nend 1\n",
          "line 2 is broken" },
        { "mistral_quota 1\n253402300800 1 a\nend 1\n", "line 2 is broken" },
        { longest, "line 2 is broken" }
    };

    (void) state;

    (void) snprintf(longest, sizeof(longest), "mistral_quota 1\n1 2 %0256d\n"
                    "end 1\n", 7);

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {

        /* from memory of just this size: nothing beyond it is read */

        text = malloc(strlen(t[i].text) + (t[i].text[0] == '\0'));
        assert_non_null(text);
        memcpy(text, t[i].text, strlen(t[i].text));

        c.n = 0;
        mst_buf_init(&c.out);
        err.text[0] = '\0';

        assert_int_equal(mst_tally_parse(mst_str(text, strlen(t[i].text)),
                                         copy_add, &c, &err), MST_ERROR);
        assert_memory_equal(err.text, t[i].why, strlen(t[i].why));
        assert_int_equal(c.n, 0);

        mst_buf_fini(&c.out);
        free(text);
    }
}


/* a file that lost a part, or changed a byte: nothing bad is read, and of
   lost parts nothing at all */

static void
test_random(void **state)
{
    char         *text;
    int           i;
    copy_t        c;
    size_t        len, k;
    unsigned      seed;
    mst_buf_t     b;
    mst_err_t     err;
    mst_tally_t   t;

    (void) state;

    seed = (unsigned) test_seed();

    mst_buf_init(&b);
    mst_tally_begin(&b);

    for (i = 0; i < 5; i++) {
        t.start = 1764460800 + i;
        t.used = (uint64_t) i * 1000;
        t.key = mst_str("a key % of mine" + i, 10);
        mst_tally_add(&b, &t);
    }

    mst_tally_end(&b, 5);

    for (len = 0; len < b.len; len++) {
        text = malloc(len + (len == 0));
        assert_non_null(text);
        memcpy(text, b.data, len);
        c.n = 0;
        mst_buf_init(&c.out);
        err.text[0] = '\0';
        assert_int_equal(mst_tally_parse(mst_str(text, len), copy_add, &c,
                                         &err), MST_ERROR);
        assert_int_equal(c.n, 0);
        mst_buf_fini(&c.out);
        free(text);
    }

    for (i = 0; i < 20000; i++) {
        text = malloc(b.len);
        assert_non_null(text);
        memcpy(text, b.data, b.len);
        k = (size_t) rand_r(&seed) % b.len;
        text[k] = (char) rand_r(&seed);
        c.n = 0;
        mst_buf_init(&c.out);
        err.text[0] = '\0';
        (void) mst_tally_parse(mst_str(text, b.len), copy_add, &c, &err);
        assert_true(c.n == 0 || c.n == 5);
        mst_buf_fini(&c.out);
        free(text);
    }

    mst_buf_fini(&b);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_random)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

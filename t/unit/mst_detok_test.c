
/*
 * Ids to streaming text: code points cut by tokens, control tokens between
 * them, and what the end leaves.
 */

#include "mst_real_model.h"

#include "base/mst_mem.h"
#include "text/mst_detok.h"

#include "seed.h"


static real_t  real;


static uint32_t
byte_id(unsigned char c)
{
    uint32_t   id;
    mst_str_t  s;

    for (id = 17; id < 252; id++) {
        s = mst_tokenizer_bytes(real.tokenizer, id);

        if (s.len == 1 && (unsigned char) s.data[0] == c) {
            return id;
        }
    }

    fail_msg("no token for byte %02X", c);

    return 0;
}


static void
expect(const mst_buf_t *out, const char *text)
{
    assert_int_equal(out->len, strlen(text));

    if (out->len) {
        assert_memory_equal(out->data, text, out->len);
    }
}


static void
test_pieces(void **state)
{
    mst_buf_t    out;
    mst_detok_t  d;

    (void) state;

    mst_buf_init(&out);
    mst_detok_init(&d, real.tokenizer);

    /* "The capital", control tokens, an id out of range */

    assert_int_equal(mst_detok_push(&d, 504, &out), MST_OK);
    expect(&out, "The");
    assert_int_equal(mst_detok_push(&d, 2, &out), MST_OK);
    assert_int_equal(mst_detok_push(&d, 4000000000, &out), MST_OK);
    expect(&out, "The");
    assert_int_equal(mst_detok_push(&d, 3575, &out), MST_OK);
    expect(&out, "The capital");

    /* a code point of three tokens, a control token in its middle */

    mst_buf_reset(&out);
    assert_int_equal(mst_detok_push(&d, byte_id(0xe6), &out), MST_OK);
    expect(&out, "");
    assert_int_equal(mst_detok_push(&d, 0, &out), MST_OK);
    assert_int_equal(mst_detok_push(&d, byte_id(0x97), &out), MST_OK);
    expect(&out, "");
    assert_int_equal(mst_detok_push(&d, byte_id(0xa5), &out), MST_OK);
    expect(&out, "\xe6\x97\xa5");

    /* broken off by text, and by the end */

    mst_buf_reset(&out);
    assert_int_equal(mst_detok_push(&d, byte_id(0xe6), &out), MST_OK);
    assert_int_equal(mst_detok_push(&d, byte_id(0x97), &out), MST_OK);
    assert_int_equal(mst_detok_push(&d, 504, &out), MST_OK);
    expect(&out, "\xef\xbf\xbdThe");
    assert_int_equal(mst_detok_push(&d, byte_id(0xc3), &out), MST_OK);
    assert_int_equal(mst_detok_finish(&d, &out), MST_OK);
    expect(&out, "\xef\xbf\xbdThe\xef\xbf\xbd");
    assert_int_equal(mst_detok_finish(&d, &out), MST_OK);
    expect(&out, "\xef\xbf\xbdThe\xef\xbf\xbd");

    mst_buf_fini(&out);
}


/* whatever ids come, what is sent is UTF-8 at every moment */

static void
test_random(void **state)
{
    size_t       i, k;
    unsigned     seed;
    mst_buf_t    out, raw, want;
    mst_utf8_t   u;
    uint32_t     id;
    mst_detok_t  d;

    (void) state;

    seed = (unsigned) test_seed();
    srand(seed);

    mst_buf_init(&out);
    mst_buf_init(&raw);
    mst_buf_init(&want);

    for (i = 0; i < 2000; i++) {
        mst_buf_reset(&out);
        mst_buf_reset(&raw);
        mst_buf_reset(&want);
        mst_detok_init(&d, real.tokenizer);

        for (k = 0; k < 20; k++) {
            id = (uint32_t) rand() % (rand() % 2 ? 260 : 50000);
            assert_int_equal(mst_buf_str(&raw,
                                         mst_tokenizer_bytes(real.tokenizer,
                                                             id)), MST_OK);
            assert_int_equal(mst_detok_push(&d, id, &out), MST_OK);
            assert_int_equal(mst_utf8_check(out.data, out.len), out.len);
        }

        assert_int_equal(mst_detok_finish(&d, &out), MST_OK);

        mst_utf8_init(&u);
        assert_int_equal(mst_utf8_push(&u, raw.data, raw.len, &want), MST_OK);
        assert_int_equal(mst_utf8_finish(&u, &want), MST_OK);
        assert_int_equal(out.len, want.len);

        if (out.len) {
            assert_memory_equal(out.data, want.data, want.len);
        }
    }

    mst_buf_fini(&out);
    mst_buf_fini(&raw);
    mst_buf_fini(&want);
}


/* the golden answers, token by token */

static void
test_golden(void **state)
{
    FILE         *f;
    size_t        i, lines;
    json_t       *line, *ids, *text;
    mst_buf_t     out;
    mst_detok_t   d;

    (void) state;

    f = fopen("t/data/golden/smollm2_greedy.jsonl", "r");
    assert_non_null(f);
    mst_buf_init(&out);

    for (lines = 0; (line = real_next_line(f)) != NULL; lines++) {
        ids = json_object_get(line, "greedy_ids");
        text = json_object_get(line, "greedy_text");
        mst_buf_reset(&out);
        mst_detok_init(&d, real.tokenizer);

        for (i = 0; i < json_array_size(ids); i++) {
            assert_int_equal(mst_detok_push(&d,
                             (uint32_t) json_integer_value(
                                            json_array_get(ids, i)), &out),
                             MST_OK);
        }

        assert_int_equal(mst_detok_finish(&d, &out), MST_OK);
        assert_int_equal(out.len, json_string_length(text));
        assert_memory_equal(out.data, json_string_value(text), out.len);

        json_decref(line);
    }

    assert_int_equal(lines, 15);
    mst_buf_fini(&out);
    fclose(f);
}


static void
test_no_memory(void **state)
{
    mst_buf_t    out;
    mst_detok_t  d;

    (void) state;

    mst_buf_init(&out);
    mst_detok_init(&d, real.tokenizer);

    mst_mem_fail_after(1);
    assert_int_equal(mst_detok_push(&d, 2, &out), MST_OK);
    assert_int_equal(mst_detok_push(&d, 504, &out), MST_ERROR);
    mst_mem_fail_after(0);
    mst_buf_fini(&out);
}


static int
setup(void **state)
{
    (void) state;
    real_open(&real);

    return 0;
}


static int
teardown(void **state)
{
    (void) state;
    real_close(&real);

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}


/*
 * SentencePiece: the golden ids of Mistral's own models, small models made
 * here, and damaged ones.
 */

#include "mst_golden_text.h"
#include "base/mst_mem.h"
#include "text/mst_encode.h"
#include "text/mst_spm.h"


static void
test_golden(void **state)
{
    char             *text, path[256];
    size_t            i, len;
    mst_err_t         err = { "" };
    mst_tokenizer_t  *t;

    static const struct {
        const char  *file, *key, *decoded;
    } models[] = {
        { "tokenizer.model.v1", "v1", NULL },
        { "mistral_instruct_tokenizer_240323.model.v3", "v3", "decode_v3" },
        { "mistral_instruct_tokenizer_241114.model.v7", "v7", NULL }
    };

    (void) state;

    for (i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        (void) snprintf(path, sizeof(path), TOKENIZERS "%s", models[i].file);
        text = golden_read(path, &len);
        t = mst_tokenizer_create_spm(text, len, "m", &err);
        assert_string_equal(err.text, "");
        free(text);

        assert_true(mst_tokenizer_is_spm(t));
        assert_int_equal(mst_tokenizer_info(t)->bos_id, 1);
        assert_int_equal(mst_tokenizer_info(t)->eos_id, 2);
        assert_int_equal(mst_tokenizer_control(t, "[INST]"), i ? 3 : -1);

        golden_check(t, "t/data/golden/spm.jsonl", models[i].key,
                     models[i].decoded);
        mst_tokenizer_destroy(t);
    }
}


/* a model file of pieces */

typedef struct {
    unsigned char  data[65536];
    size_t         len;
} model_t;


static void
put(model_t *m, const void *data, size_t len)
{
    assert_true(m->len + len <= sizeof(m->data));
    memcpy(m->data + m->len, data, len);
    m->len += len;
}


static void
byte(model_t *m, unsigned b)
{
    m->data[m->len++] = (unsigned char) b;
}


static void
piece(model_t *m, const char *text, float score, unsigned type)
{
    size_t  len;

    len = strlen(text);
    assert_true(len < 100);
    byte(m, 1 << 3 | 2);
    byte(m, (unsigned) (2 + len + 5 + 2));
    byte(m, 1 << 3 | 2);
    byte(m, (unsigned) len);
    put(m, text, len);
    byte(m, 2 << 3 | 5);
    put(m, &score, 4);
    byte(m, 3 << 3);
    byte(m, type);
}


static void
basic(model_t *m)
{
    int   i;
    char  name[8];

    m->len = 0;
    piece(m, "<unk>", 0, 2);
    piece(m, "<s>", 0, 3);
    piece(m, "</s>", 0, 3);

    for (i = 0; i < 256; i++) {
        (void) snprintf(name, sizeof(name), "<0x%02X>", i);
        piece(m, name, 0, 6);
    }
}


static mst_tokenizer_t *
load(const model_t *m, mst_err_t *err)
{
    err->text[0] = '\0';

    return mst_tokenizer_create_spm(m->data, m->len, "m", err);
}


static void
expect(const mst_tokenizer_t *t, const char *text, const uint32_t *want,
    size_t n)
{
    size_t     budget, got;
    uint32_t  *ids;

    for (budget = 1; budget < 40; budget += 3) {
        ids = golden_encode(t, text, strlen(text), budget, &got);
        assert_int_equal(got, n);
        assert_memory_equal(ids, want, n * sizeof(uint32_t));
        free(ids);
    }
}


/* ids: 259 "_", 260 a, 261 b, 262 "_a", 263 ab, 264 "__", 265 [REF], 266
   "_ab" */

static void
test_rules(void **state)
{
    model_t           m;
    mst_err_t         err;
    mst_tokenizer_t  *t;

    (void) state;

    basic(&m);
    piece(&m, "\xe2\x96\x81", -10, 1);
    piece(&m, "a", -11, 1);
    piece(&m, "b", -12, 1);
    piece(&m, "\xe2\x96\x81" "a", -2, 1);
    piece(&m, "ab", -1, 1);
    piece(&m, "\xe2\x96\x81\xe2\x96\x81", -9, 1);
    piece(&m, "[REF]", 0, 4);
    piece(&m, "\xe2\x96\x81" "ab", -3, 1);

    /* 267: [ and ] are bytes */

    t = load(&m, &err);
    assert_string_equal(err.text, "");

    expect(t, "", NULL, 0);
    expect(t, "a", (uint32_t[]) { 262 }, 1);
    expect(t, " a", (uint32_t[]) { 259, 262 }, 2);
    expect(t, "ab", (uint32_t[]) { 266 }, 1);
    expect(t, "ba ab", (uint32_t[]) { 259, 261, 260, 266 }, 4);
    expect(t, "a\xe2\x96\x81" "b", (uint32_t[]) { 262, 259, 261 }, 3);
    expect(t, "   a", (uint32_t[]) { 264, 259, 262 }, 3);
    expect(t, "[REF]a", (uint32_t[]) { 259, 265, 260 }, 3);
    expect(t, "\xc3\xa9" "a", (uint32_t[]) { 259, 3 + 0xc3, 3 + 0xa9, 260 },
           4);
    expect(t, "<s>", (uint32_t[]) { 259, 3 + '<', 3 + 's', 3 + '>' }, 4);

    assert_int_equal(mst_tokenizer_bytes(t, 3 + 0xc3).len, 1);
    assert_int_equal((unsigned char) mst_tokenizer_bytes(t, 3 + 0xc3).data[0],
                     0xc3);
    assert_true(mst_str_eq(mst_tokenizer_bytes(t, 262), " a"));
    assert_true(mst_str_eq(mst_tokenizer_bytes(t, 0), " \xe2\x81\x87 "));
    assert_int_equal(mst_tokenizer_bytes(t, 1).len, 0);
    mst_tokenizer_destroy(t);
}


/* a long part is copied within the budget, wherever that ends */

static void
test_copy(void **state)
{
    char              text[3 * 300 + 1];
    size_t            budget, calls, i, left, len;
    model_t           m;
    mst_err_t         err;
    mst_spm_part_t    part;
    mst_spm_split_t   split;
    mst_tokenizer_t  *t;

    (void) state;

    basic(&m);
    piece(&m, "\xe2\x96\x81", -10, 1);
    t = load(&m, &err);
    assert_non_null(t);

    for (len = 0, i = 0; i < 300; i++) {
        len += (size_t) sprintf(text + len, "%s",
                                i * i % 7 < 3 ? " " : "\xe2\x96\x81");
    }

    memset(&split, 0, sizeof(split));

    for (budget = 1; budget < 40; budget++) {
        mst_spm_split_init(&split, &t->bpe, text, len, 1);
        calls = 0;

        do {
            left = budget;
            calls++;
        } while (mst_spm_split_next(&split, &left, &part) == MST_AGAIN);

        assert_true(calls > 300 / budget + len / 16 / budget);
        assert_int_equal(part.kind, MST_SPM_TEXT);
        assert_int_equal(part.text.len, 301);

        for (i = 0; i < part.text.len; i++) {
            assert_int_equal(part.text.data[i], ' ');
        }

        left = 1;
        assert_int_equal(mst_spm_split_next(&split, &left, &part), MST_DONE);
    }

    mst_spm_split_fini(&split);
    mst_tokenizer_destroy(t);
}


static void
test_refused(void **state)
{
    size_t            len;
    model_t           m;
    mst_err_t         err;
    mst_tokenizer_t  *t;

    (void) state;

    basic(&m);
    piece(&m, "a b", 0, 1);
    assert_null(load(&m, &err));
    assert_non_null(strstr(err.text, "m: piece 259 has a space within"));

    basic(&m);
    piece(&m, "ab", 0, 1);
    assert_null(load(&m, &err));
    assert_non_null(strstr(err.text, "a character without a piece"));

    basic(&m);
    piece(&m, "a", 0, 1);
    piece(&m, "a", 0, 1);
    assert_null(load(&m, &err));
    assert_non_null(strstr(err.text, "piece 260 is there twice"));

    m.len = 0;
    piece(&m, "<unk>", 0, 2);
    piece(&m, "<s>", 0, 3);
    piece(&m, "</s>", 0, 3);
    assert_null(load(&m, &err));
    assert_non_null(strstr(err.text, "not all of <0x00> to <0xFF>"));

    basic(&m);
    put(&m, "\x12\x02\x18\x01", 4);            /* unigram */
    assert_null(load(&m, &err));
    assert_string_equal(err.text, "m: model_type is 1, 2 is supported");

    basic(&m);
    put(&m, "\x1a\x02\x18\x00", 4);            /* no space in front */
    assert_null(load(&m, &err));
    assert_non_null(strstr(err.text, "add_dummy_prefix is 0"));

    basic(&m);
    put(&m, "\x1a\x03\x12\x01x", 5);
    assert_null(load(&m, &err));
    assert_non_null(strstr(err.text, "its normalizer changes characters"));

    /* cut anywhere, or with any byte changed: no bad access */

    basic(&m);
    len = m.len;

    for (m.len = 0; m.len < len; m.len += 7) {
        assert_null(load(&m, &err));
        assert_true(err.text[0]);
    }

    for (m.len = 0; m.len < 300; m.len++) {
        len = m.len;
        basic(&m);
        m.data[len] ^= 0x55;
        t = load(&m, &err);
        mst_tokenizer_destroy(t);
        m.len = len;
    }
}


static void
test_no_memory(void **state)
{
    long              n;
    model_t           m;
    mst_err_t         err;
    mst_tokenizer_t  *t;

    (void) state;

    basic(&m);
    piece(&m, "a", 0, 1);

    for (n = 1; ; n++) {
        mst_mem_fail_after(n);
        t = load(&m, &err);
        mst_mem_fail_after(0);

        if (t) {
            break;
        }

        assert_non_null(strstr(err.text, "memory"));
    }

    assert_true(n > 8);
    mst_tokenizer_destroy(t);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory)
    };

    return cmocka_run_group_tests_name("mst_spm", tests, NULL, NULL);
}

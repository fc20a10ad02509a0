
/*
 * Small vocabularies for tests: a struct that each test may damage, and its
 * way into GGUF.  Tokens and merges are given as bytes; the spelling in
 * GPT-2's alphabet is made here, by its definition.
 */

#ifndef MST_VOCAB_BUILD_H
#define MST_VOCAB_BUILD_H

#include "mst_gguf_build.h"

#define VOCAB_MAX  6000


typedef struct {
    const char  *spelling;     /* as it stands in the file; in pool */
    size_t       len;
    uint32_t     type;
} vocab_token_t;


typedef struct {
    const char    *model;      /* NULL: the key is left out */
    const char    *pre;
    const char    *chat;       /* template */

    vocab_token_t  tokens[VOCAB_MAX];
    size_t         n;
    vocab_token_t  merges[VOCAB_MAX];
    size_t         n_merges;

    uint32_t       tokens_type;    /* of the array; 0xff: no such key */
    uint32_t       types_type;
    uint32_t       merges_type;
    size_t         n_types;        /* elements written */

    int64_t        bos;            /* -1: the key is left out */
    int64_t        eos;
    int64_t        eot;
    int64_t        unk;
    int64_t        pad;
    int            add_bos;
    int            add_eos;
    int            add_prefix;

    char           pool[400000];
    size_t         used;
} vocab_t;


static inline uint32_t
vocab_letter(unsigned char b)
{
    uint32_t  i, n;

    if ((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad)) {
        return b;
    }

    for (i = 0, n = 0x100; i < b; i++) {

        if (!((i >= 0x21 && i <= 0x7e) || (i >= 0xa1 && i != 0xad))) {
            n++;
        }
    }

    return n;
}


static inline void
vocab_put(vocab_t *v, char c)
{
    assert_true(v->used < sizeof(v->pool));
    v->pool[v->used++] = c;
}


static inline void
vocab_spell(vocab_t *v, const char *bytes, size_t len)
{
    size_t    i;
    uint32_t  cp;

    for (i = 0; i < len; i++) {
        cp = vocab_letter((unsigned char) bytes[i]);

        if (cp < 0x80) {
            vocab_put(v, (char) cp);

        } else {
            vocab_put(v, (char) (0xc0 | cp >> 6));
            vocab_put(v, (char) (0x80 | (cp & 0x3f)));
        }
    }
}


/* a token as it is spelled in the file */

static inline uint32_t
vocab_raw(vocab_t *v, const char *spelling, size_t len, uint32_t type)
{
    assert_true(v->n < VOCAB_MAX);

    v->tokens[v->n].spelling = spelling;
    v->tokens[v->n].len = len;
    v->tokens[v->n].type = type;
    v->n_types = v->n + 1;

    return (uint32_t) v->n++;
}


static inline uint32_t
vocab_control(vocab_t *v, const char *name)
{
    return vocab_raw(v, name, strlen(name), 3);
}


static inline uint32_t
vocab_text(vocab_t *v, const char *bytes, size_t len)
{
    size_t  from;

    from = v->used;
    vocab_spell(v, bytes, len);

    return vocab_raw(v, v->pool + from, v->used - from, 1);
}


static inline void
vocab_raw_merge(vocab_t *v, const char *text, size_t len)
{
    assert_true(v->n_merges < VOCAB_MAX);

    v->merges[v->n_merges].spelling = text;
    v->merges[v->n_merges++].len = len;
}


/* a merge and, unless it is there, its token */

static inline void
vocab_merge(vocab_t *v, const char *left, size_t l, const char *right,
    size_t r)
{
    char    both[64];
    size_t  i, from;

    from = v->used;
    vocab_spell(v, left, l);
    vocab_put(v, ' ');
    vocab_spell(v, right, r);
    vocab_raw_merge(v, v->pool + from, v->used - from);

    assert_true(l + r <= sizeof(both));
    memcpy(both, left, l);
    memcpy(both + l, right, r);

    from = v->used;
    vocab_spell(v, both, l + r);

    for (i = 0; i < v->n; i++) {

        if (v->tokens[i].len == v->used - from && v->tokens[i].type == 1
            && memcmp(v->tokens[i].spelling, v->pool + from,
                      v->tokens[i].len) == 0)
        {
            return;
        }
    }

    (void) vocab_raw(v, v->pool + from, v->used - from, 1);
}


/* three control tokens (0 .. 2), all bytes but 00 .. 08, and a few merges */

static inline void
vocab_init(vocab_t *v)
{
    int   i;
    char  c;

    memset(v, 0, sizeof(vocab_t));

    v->model = "gpt2";
    v->pre = "smollm";
    v->tokens_type = MST_GGUF_STRING;
    v->types_type = MST_GGUF_I32;
    v->merges_type = MST_GGUF_STRING;
    v->bos = 1;
    v->eos = 2;
    v->eot = -1;
    v->unk = 0;
    v->pad = 2;

    (void) vocab_control(v, "<|endoftext|>");
    (void) vocab_control(v, "<|im_start|>");
    (void) vocab_control(v, "<|im_end|>");

    for (i = 9; i < 256; i++) {
        c = (char) i;
        (void) vocab_text(v, &c, 1);
    }

    vocab_merge(v, " ", 1, "t", 1);
    vocab_merge(v, "h", 1, "e", 1);
    vocab_merge(v, " t", 2, "he", 2);
    vocab_merge(v, "a", 1, "a", 1);
    vocab_merge(v, "aa", 2, "aa", 2);
    vocab_merge(v, "a", 1, "b", 1);
}


static inline void
vocab_strings(build_t *b, const char *key, uint32_t type,
    const vocab_token_t *s, size_t n)
{
    size_t  i;

    if (type == 0xff) {
        return;
    }

    build_array(b, key, type, n);

    for (i = 0; i < n; i++) {

        if (type == MST_GGUF_STRING) {
            build_le(&b->keys, s[i].len, 8);
            assert_int_equal(mst_buf_append(&b->keys, s[i].spelling,
                                            s[i].len), MST_OK);

        } else {
            build_le(&b->keys, i, 4);
        }
    }
}


static inline void
vocab_id(build_t *b, const char *key, int64_t id)
{
    if (id >= 0) {
        build_u32(b, key, (uint32_t) id);
    }
}


static inline void
vocab_write(const vocab_t *v, build_t *b)
{
    size_t  i, size;

    build_init(b);

    if (v->model) {
        build_string(b, "tokenizer.ggml.model", v->model);
    }

    if (v->pre) {
        build_string(b, "tokenizer.ggml.pre", v->pre);
    }

    vocab_strings(b, "tokenizer.ggml.tokens", v->tokens_type, v->tokens,
                  v->n);

    if (v->types_type != 0xff) {
        build_array(b, "tokenizer.ggml.token_type", v->types_type,
                    v->n_types);
        size = v->types_type == MST_GGUF_U8 || v->types_type == MST_GGUF_BOOL
               ? 1 : 4;

        for (i = 0; i < v->n_types; i++) {
            build_le(&b->keys, v->tokens[i].type, size);
        }
    }

    vocab_strings(b, "tokenizer.ggml.merges", v->merges_type, v->merges,
                  v->n_merges);

    vocab_id(b, "tokenizer.ggml.bos_token_id", v->bos);
    vocab_id(b, "tokenizer.ggml.eos_token_id", v->eos);
    vocab_id(b, "tokenizer.ggml.eot_token_id", v->eot);
    vocab_id(b, "tokenizer.ggml.unknown_token_id", v->unk);
    vocab_id(b, "tokenizer.ggml.padding_token_id", v->pad);

    build_number(b, "tokenizer.ggml.add_bos_token", MST_GGUF_BOOL,
                 (uint64_t) v->add_bos, 1);
    build_number(b, "tokenizer.ggml.add_eos_token", MST_GGUF_BOOL,
                 (uint64_t) v->add_eos, 1);
    build_number(b, "tokenizer.ggml.add_space_prefix", MST_GGUF_BOOL,
                 (uint64_t) v->add_prefix, 1);

    if (v->chat) {
        build_string(b, "tokenizer.chat_template", v->chat);
    }
}


#endif /* MST_VOCAB_BUILD_H */

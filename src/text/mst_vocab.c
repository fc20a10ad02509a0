
/*
 * Reading a vocabulary out of GGUF: see mst_vocab.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_utf8.h"
#include "text/mst_vocab.h"


#define MST_VOCAB_MODEL   "tokenizer.ggml.model"
#define MST_VOCAB_TOKENS  "tokenizer.ggml.tokens"
#define MST_VOCAB_TYPES   "tokenizer.ggml.token_type"


/* the byte of GPT-2's alphabet that cp stands for, or -1 */

static int
mst_vocab_letter(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp <= 0xff)) {
        return cp == 0xad ? -1 : (int) cp;
    }

    if (cp < 0x100 || cp > 0x143) {
        return -1;
    }

    /* the bytes left over, in their order: 00 .. 20, 7F .. A0, AD */

    cp -= 0x100;

    return cp <= 0x20 ? (int) cp : cp == 0x43 ? 0xad : (int) cp + 0x5e;
}


int64_t
mst_vocab_unspell(mst_str_t s, char *bytes, uint32_t *cp)
{
    int      b;
    size_t   i;
    int64_t  n;

    n = 0;

    for (i = 0; i < s.len; n++) {
        i += mst_utf8_decode(s.data + i, s.len - i, cp);
        b = mst_vocab_letter(*cp);

        if (b < 0) {
            return -1;
        }

        bytes[n] = (char) b;
    }

    return n;
}


uint32_t
mst_vocab_table_size(uint32_t n)
{
    uint32_t  size;

    for (size = 16; size / 2 < n; size *= 2) {
        /* void */
    }

    return size;
}


static uint64_t
mst_vocab_hash(int special, const char *data, size_t len)
{
    return len ? mst_hash_short((uint64_t) special << 32, data, len) : 0;
}


static int
mst_vocab_is(const mst_vocab_t *v, uint32_t id, int special, const char *data,
    size_t len)
{
    mst_str_t  s;

    s = mst_vocab_token(v, id);

    return s.len == len
           && (v->type[id] != MST_VOCAB_NORMAL) == special
           && memcmp(s.data, data, len) == 0;
}


int64_t
mst_vocab_find(const mst_vocab_t *v, int special, const char *data,
    size_t len)
{
    uint32_t                 i;
    uint64_t                 h;
    const mst_vocab_slot_t  *slot;

    h = mst_vocab_hash(special, data, len);

    for (i = (uint32_t) h & v->mask; ; i = (i + 1) & v->mask) {
        slot = &v->slots[i];

        if (slot->ref == 0) {
            return -1;
        }

        if (slot->tag == (uint32_t) (h >> 32)
            && mst_vocab_is(v, slot->ref - 1, special, data, len))
        {
            return slot->ref - 1;
        }
    }
}


/*
 * The bound on probes keeps a file whose tokens were chosen to collide from
 * taking quadratic time; half-empty tables of honest ones need some dozens.
 */

int
mst_vocab_put(mst_vocab_t *v, uint32_t id, unsigned char type,
    const char *data, size_t len)
{
    int        special;
    uint32_t   i, n;
    uint64_t   h;

    special = type != MST_VOCAB_NORMAL;
    h = mst_vocab_hash(special, data, len);
    i = (uint32_t) h & v->mask;

    for (n = 0; v->slots[i].ref; n++) {

        if (n == MST_VOCAB_MAX_PROBES) {
            return MST_BUSY;
        }

        if (v->slots[i].tag == (uint32_t) (h >> 32)
            && mst_vocab_is(v, v->slots[i].ref - 1, special, data, len))
        {
            return MST_DECLINED;
        }

        i = (i + 1) & v->mask;
    }

    memcpy(v->data + v->off[id], data, len);
    v->off[id + 1] = v->off[id] + (uint32_t) len;
    v->type[id] = type;

    if (!special && len > v->max_token) {
        v->max_token = (uint32_t) len;
    }

    v->slots[i].tag = (uint32_t) (h >> 32);
    v->slots[i].ref = id + 1;

    return MST_OK;
}


int
mst_vocab_array(const mst_gguf_t *g, const char *key, mst_gguf_array_t *a,
    mst_err_t *err)
{
    int  rc;

    rc = mst_gguf_array(g, key, a, err);

    if (rc == MST_DECLINED) {
        return mst_gguf_error(g, err, "%s is missing", key);
    }

    return rc;
}


/* a string that must be there and have one value */

static int
mst_vocab_expect(const mst_gguf_t *g, const char *key, const char *value,
    mst_err_t *err)
{
    int        rc;
    char       q[MST_GGUF_SHOW];
    mst_str_t  s;

    rc = mst_gguf_string(g, key, &s, err);

    if (rc == MST_DECLINED) {
        return mst_gguf_error(g, err, "%s is missing; supported is \"%s\"",
                              key, value);
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    if (!mst_str_eq(s, value)) {
        return mst_gguf_error(g, err, "%s is \"%s\"; supported is \"%s\"", key,
                              mst_gguf_show(q, s), value);
    }

    return MST_OK;
}


static int
mst_vocab_set_type(mst_vocab_t *v, uint32_t id, double type,
    const mst_gguf_t *g, mst_err_t *err)
{
    if (type != MST_VOCAB_NORMAL && type != MST_VOCAB_CONTROL
        && type != MST_VOCAB_USER && type != MST_VOCAB_UNUSED)
    {
        return mst_gguf_error(g, err, MST_VOCAB_TYPES "[%u] is %.0f; "
                              "supported are 1 (normal), 3 (control), 4 "
                              "(user-defined) and 5 (unused)", id, type);
    }

    v->type[id] = (unsigned char) type;

    return MST_OK;
}


static int
mst_vocab_types(mst_vocab_t *v, const mst_gguf_t *g, mst_err_t *err)
{
    uint32_t          i;
    mst_gguf_array_t  a;

    if (mst_vocab_array(g, MST_VOCAB_TYPES, &a, err) != MST_OK) {
        return MST_ERROR;
    }

    switch (a.type) {

    case MST_GGUF_STRING:
    case MST_GGUF_ARRAY:
    case MST_GGUF_BOOL:
    case MST_GGUF_F32:
    case MST_GGUF_F64:
        return mst_gguf_error(g, err, MST_VOCAB_TYPES " is an array of type "
                              "%d, not of integers", (int) a.type);

    default:
        break;
    }

    if (a.n != v->n) {
        return mst_gguf_error(g, err, MST_VOCAB_TYPES " has %llu elements, "
                              MST_VOCAB_TOKENS " has %u",
                              (unsigned long long) a.n, v->n);
    }

    for (i = 0; i < v->n; i++) {

        if (mst_vocab_set_type(v, i, mst_gguf_number(&a, i), g, err)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/*
 * No spelling twice.  The name spaces are apart, but in the file they are
 * one: a control token spelled like a normal one is a damaged vocabulary.
 */

static int
mst_vocab_unique(const mst_vocab_t *v, uint32_t id, mst_str_t name,
    const mst_gguf_t *g, mst_err_t *err)
{
    char      bytes[MST_VOCAB_MAX_TOKEN];
    char      q[MST_GGUF_SHOW];
    int64_t   n, other;
    uint32_t  cp;

    other = mst_vocab_find(v, 1, name.data, name.len);

    if (other < 0) {
        n = mst_vocab_unspell(name, bytes, &cp);
        other = n < 0 ? -1 : mst_vocab_find(v, 0, bytes, (size_t) n);
    }

    if (other >= 0) {
        return mst_gguf_error(g, err, MST_VOCAB_TOKENS "[%u]: \"%s\" is token "
                              "%lld already", id, mst_gguf_show(q, name),
                              (long long) other);
    }

    return MST_OK;
}


/* copies token id to off[id], and sets off[id + 1] */

static int
mst_vocab_add(mst_vocab_t *v, uint32_t id, mst_str_t name,
    const mst_gguf_t *g, mst_err_t *err)
{
    char         bytes[MST_VOCAB_MAX_TOKEN];
    char         q[MST_GGUF_SHOW];
    int64_t      n;
    uint32_t     cp;
    const char  *p;

    if (name.len == 0 || name.len > MST_VOCAB_MAX_TOKEN) {
        return mst_gguf_error(g, err, MST_VOCAB_TOKENS "[%u] has %zu bytes, "
                              "the limits are 1 and %d", id, name.len,
                              MST_VOCAB_MAX_TOKEN);
    }

    if (mst_vocab_unique(v, id, name, g, err) != MST_OK) {
        return MST_ERROR;
    }

    p = name.data;
    n = (int64_t) name.len;

    if (v->type[id] != MST_VOCAB_NORMAL) {

        if (mst_utf8_check(name.data, name.len) != name.len) {
            return mst_gguf_error(g, err, MST_VOCAB_TOKENS "[%u]: \"%s\" is "
                                  "not UTF-8", id, mst_gguf_show(q, name));
        }

    } else {
        p = bytes;
        n = mst_vocab_unspell(name, bytes, &cp);

        if (n < 0) {
            return mst_gguf_error(g, err, MST_VOCAB_TOKENS "[%u]: \"%s\" has "
                                  "U+%04X, which stands for no byte", id,
                                  mst_gguf_show(q, name), cp);
        }
    }

    if (mst_vocab_put(v, id, v->type[id], p, (size_t) n) != MST_OK) {
        return mst_gguf_error(g, err, MST_VOCAB_TOKENS "[%u]: more than %d "
                              "tokens collide in the table", id,
                              MST_VOCAB_MAX_PROBES);
    }

    return MST_OK;
}


/* the bytes of all tokens as they are spelled, which is an upper bound */

static size_t
mst_vocab_spelled(mst_gguf_array_t a)
{
    size_t     total;
    mst_str_t  s;

    total = 0;

    while (mst_gguf_next_string(&a, &s) == MST_OK) {
        total += s.len;
    }

    return total;
}


int
mst_vocab_init(mst_vocab_t *v, uint32_t n, size_t size)
{
    uint32_t  slots;

    memset(v, 0, sizeof(mst_vocab_t));

    v->n = n;
    slots = mst_vocab_table_size(n);
    v->mask = slots - 1;

    v->data = mst_alloc(size ? size : 1);
    v->off = mst_calloc((size_t) n + 1, sizeof(uint32_t));
    v->type = mst_calloc(n, 1);
    v->slots = mst_mem_table(slots, sizeof(mst_vocab_slot_t));

    return v->data && v->off && v->type && v->slots ? MST_OK : MST_ERROR;
}


/*
 * Some byte values have no token in real vocabularies (SmolLM2 lacks 21,
 * none of them text that anybody writes) and are dropped.  One that lacks a
 * visible ASCII character, space or newline would eat text.
 */

static int
mst_vocab_bytes(const mst_vocab_t *v, const mst_gguf_t *g, mst_err_t *err)
{
    int   i;
    char  c;

    for (i = 0x20; i < 0x80; i++) {
        c = (char) (i == 0x7f ? '\n' : i);

        if (mst_vocab_find(v, 0, &c, 1) < 0) {
            return mst_gguf_error(g, err, MST_VOCAB_TOKENS ": no token for "
                                  "byte 0x%02X", (unsigned) c);
        }
    }

    return MST_OK;
}


int
mst_vocab_init_gguf(mst_vocab_t *v, const mst_gguf_t *g, mst_err_t *err)
{
    uint32_t          i;
    mst_str_t         name;
    mst_gguf_array_t  a;

    memset(v, 0, sizeof(mst_vocab_t));

    if (mst_vocab_expect(g, MST_VOCAB_MODEL, "gpt2", err) != MST_OK
        || mst_vocab_array(g, MST_VOCAB_TOKENS, &a, err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (a.type != MST_GGUF_STRING) {
        return mst_gguf_error(g, err, MST_VOCAB_TOKENS " is an array of type "
                              "%d, not of strings", (int) a.type);
    }

    if (a.n == 0 || a.n > MST_VOCAB_MAX_TOKENS) {
        return mst_gguf_error(g, err, MST_VOCAB_TOKENS " has %llu elements, "
                              "the limits are 1 and %d",
                              (unsigned long long) a.n,
                              MST_VOCAB_MAX_TOKENS);
    }

    if (mst_vocab_init(v, (uint32_t) a.n, mst_vocab_spelled(a)) != MST_OK) {
        return mst_gguf_error(g, err, "no memory for a vocabulary of %u "
                              "tokens", v->n);
    }

    if (mst_vocab_types(v, g, err) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; mst_gguf_next_string(&a, &name) == MST_OK; i++) {

        if (mst_vocab_add(v, i, name, g, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    return mst_vocab_bytes(v, g, err);
}


void
mst_vocab_fini(mst_vocab_t *v)
{
    mst_free(v->data);
    mst_free(v->off);
    mst_free(v->type);
    mst_free(v->slots);
    memset(v, 0, sizeof(mst_vocab_t));
}

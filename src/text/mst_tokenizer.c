
/*
 * The tokenizer: see mst_tokenizer.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_encode.h"
#include "text/mst_tekken.h"


#define MST_TOKENIZER_KEY  "tokenizer.ggml."


/* control tokens that end an answer wherever they occur */

static const char *const  mst_tokenizer_ends[] = {
    "<|endoftext|>", "<|im_end|>", "</s>", "<|eot_id|>"
};


/* an id of the file: in range, or -1 where the file names none */

static int
mst_tokenizer_id(const mst_gguf_t *g, const char *key, uint32_t n_vocab,
    int64_t *id, mst_err_t *err)
{
    int       rc;
    uint64_t  value;

    *id = -1;
    rc = mst_gguf_uint(g, key, &value, err);

    if (rc == MST_DECLINED) {
        return MST_OK;
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    if (value >= n_vocab) {
        return mst_gguf_error(g, err, "%s is %llu, the vocabulary has %u "
                              "tokens", key, (unsigned long long) value,
                              n_vocab);
    }

    *id = (int64_t) value;

    return MST_OK;
}


static int
mst_tokenizer_flag(const mst_gguf_t *g, const char *key, int *value,
    mst_err_t *err)
{
    int  rc;

    rc = mst_gguf_bool(g, key, value, err);

    return rc == MST_DECLINED ? MST_OK : rc;
}


static void
mst_tokenizer_add_stop(mst_tokenizer_info_t *info, int64_t id)
{
    uint32_t  i;

    if (id < 0 || info->n_stop == MST_MAX_STOP_IDS) {
        return;
    }

    for (i = 0; i < info->n_stop; i++) {

        if (info->stop_ids[i] == id) {
            return;
        }
    }

    info->stop_ids[info->n_stop++] = (uint32_t) id;
}


static int
mst_tokenizer_stops(mst_tokenizer_t *t, const mst_gguf_t *g, mst_err_t *err)
{
    size_t   i;
    int64_t  id;

    mst_tokenizer_add_stop(&t->info, t->info.eos_id);

    if (mst_tokenizer_id(g, MST_TOKENIZER_KEY "eot_token_id", t->vocab.n,
                         &id, err) != MST_OK)
    {
        return MST_ERROR;
    }

    mst_tokenizer_add_stop(&t->info, id);

    for (i = 0;
         i < sizeof(mst_tokenizer_ends) / sizeof(mst_tokenizer_ends[0]);
         i++)
    {
        mst_tokenizer_add_stop(&t->info,
                               mst_tokenizer_control(t,
                                                     mst_tokenizer_ends[i]));
    }

    return MST_OK;
}


/* "pre" of byte-level BPE, and whether a piece that is a token is taken
   whole */

static int
mst_tokenizer_pre(mst_tokenizer_t *t, const mst_gguf_t *g, mst_err_t *err)
{
    int        rc;
    char       show[MST_GGUF_SHOW];
    size_t     i;
    mst_str_t  s;

    static const struct {
        const char        *name;
        mst_split_kind_t   split;
        int                whole;
    } pres[] = {
        { "smollm", MST_SPLIT_SMOLLM, 0 },
        { "gpt-2", MST_SPLIT_GPT2, 0 },
        { "llama-bpe", MST_SPLIT_LLAMA3, 1 },
        { "llama-v3", MST_SPLIT_LLAMA3, 1 },
        { "llama3", MST_SPLIT_LLAMA3, 1 },
        { "qwen2", MST_SPLIT_QWEN2, 0 },
        { "tekken", MST_SPLIT_TEKKEN, 1 }
    };

    rc = mst_gguf_string(g, MST_TOKENIZER_KEY "pre", &s, err);

    if (rc != MST_OK) {
        return rc == MST_ERROR ? rc
               : mst_gguf_error(g, err, MST_TOKENIZER_KEY "pre is missing");
    }

    for (i = 0; i < sizeof(pres) / sizeof(pres[0]); i++) {
        if (mst_str_eq(s, pres[i].name)) {
            t->split = pres[i].split;
            t->whole = pres[i].whole;
            return MST_OK;
        }
    }

    return mst_gguf_error(g, err, MST_TOKENIZER_KEY "pre is \"%s\"; supported "
                          "are smollm, gpt-2, llama-bpe, qwen2 and tekken",
                          mst_gguf_show(show, s));
}


static int
mst_tokenizer_read_bpe(mst_tokenizer_t *t, const mst_gguf_t *g,
    mst_err_t *err)
{
    int  prefix;

    prefix = 0;
    t->kind = MST_TOKENIZER_BPE;

    if (mst_tokenizer_pre(t, g, err) != MST_OK
        || mst_vocab_init_gguf(&t->vocab, g, err) != MST_OK
        || mst_bpe_init_gguf(&t->bpe, &t->vocab, g, err) != MST_OK
        || mst_tokenizer_flag(g, MST_TOKENIZER_KEY "add_space_prefix",
                              &prefix, err) != MST_OK)
    {
        return MST_ERROR;
    }

    if (prefix) {
        return mst_gguf_error(g, err, MST_TOKENIZER_KEY "add_space_prefix is "
                              "true; supported is false");
    }

    return MST_OK;
}


/* SentencePiece's pieces as GGUF keeps them: three arrays */

static int
mst_tokenizer_pieces(mst_spm_piece_t *pieces, mst_gguf_array_t *tokens,
    const mst_gguf_t *g, mst_err_t *err)
{
    uint64_t          i;
    mst_str_t         s;
    mst_gguf_array_t  scores, types;

    if (mst_vocab_array(g, MST_TOKENIZER_KEY "scores", &scores, err) != MST_OK
        || mst_vocab_array(g, MST_TOKENIZER_KEY "token_type", &types, err)
           != MST_OK)
    {
        return MST_ERROR;
    }

    if (tokens->type != MST_GGUF_STRING || scores.type != MST_GGUF_F32
        || types.type == MST_GGUF_STRING || scores.n != tokens->n
        || types.n != tokens->n)
    {
        return mst_gguf_error(g, err, MST_TOKENIZER_KEY "tokens, scores and "
                              "token_type are no arrays of one length");
    }

    for (i = 0; mst_gguf_next_string(tokens, &s) == MST_OK; i++) {
        pieces[i].piece = s;
        pieces[i].score = (float) mst_gguf_number(&scores, i);
        pieces[i].type = (uint32_t) (int) mst_gguf_number(&types, i);
    }

    return MST_OK;
}


static void
mst_tokenizer_bytes_of(mst_tokenizer_t *t)
{
    int  i;

    t->kind = MST_TOKENIZER_SPM;

    for (i = 0; i < 256; i++) {
        t->byte[i] = (char) i;
    }
}


static int
mst_tokenizer_read_spm(mst_tokenizer_t *t, const mst_gguf_t *g,
    mst_err_t *err)
{
    int                rc;
    mst_gguf_array_t   tokens;
    mst_spm_piece_t   *pieces;

    if (mst_vocab_array(g, MST_TOKENIZER_KEY "tokens", &tokens, err)
        != MST_OK)
    {
        return MST_ERROR;
    }

    if (tokens.n < 3 || tokens.n > MST_VOCAB_MAX_TOKENS) {
        return mst_gguf_error(g, err, MST_TOKENIZER_KEY "tokens has %llu "
                              "elements, the limits are 3 and %d",
                              (unsigned long long) tokens.n,
                              MST_VOCAB_MAX_TOKENS);
    }

    pieces = mst_calloc(tokens.n, sizeof(mst_spm_piece_t));

    if (pieces == NULL) {
        return mst_gguf_error(g, err, "no memory for %llu pieces",
                              (unsigned long long) tokens.n);
    }

    rc = mst_tokenizer_pieces(pieces, &tokens, g, err);

    if (rc == MST_OK) {
        rc = mst_spm_init(&t->vocab, &t->bpe, pieces, (uint32_t) tokens.n,
                          mst_gguf_name(g), err);
    }

    mst_free(pieces);
    mst_tokenizer_bytes_of(t);

    return rc;
}


static int
mst_tokenizer_model(mst_tokenizer_t *t, const mst_gguf_t *g, mst_err_t *err)
{
    int        rc;
    char       show[MST_GGUF_SHOW];
    mst_str_t  s;

    rc = mst_gguf_string(g, MST_TOKENIZER_KEY "model", &s, err);

    if (rc == MST_DECLINED) {
        return mst_gguf_error(g, err, MST_TOKENIZER_KEY "model is missing; "
                              "supported are \"gpt2\" and \"llama\"");
    }

    if (rc != MST_OK) {
        return rc;
    }

    if (mst_str_eq(s, "gpt2")) {
        return mst_tokenizer_read_bpe(t, g, err);
    }

    if (mst_str_eq(s, "llama")) {
        t->info.add_bos = 1;                   /* unless the file says no */
        return mst_tokenizer_read_spm(t, g, err);
    }

    return mst_gguf_error(g, err, MST_TOKENIZER_KEY "model is \"%s\"; "
                          "supported are \"gpt2\" and \"llama\"",
                          mst_gguf_show(show, s));
}


static int
mst_tokenizer_read(mst_tokenizer_t *t, const mst_gguf_t *g, mst_err_t *err)
{
    int64_t                id;
    mst_tokenizer_info_t  *info;

    info = &t->info;

    if (mst_tokenizer_model(t, g, err) != MST_OK
        || mst_tokenizer_id(g, MST_TOKENIZER_KEY "bos_token_id", t->vocab.n,
                            &info->bos_id, err) != MST_OK
        || mst_tokenizer_id(g, MST_TOKENIZER_KEY "eos_token_id", t->vocab.n,
                            &info->eos_id, err) != MST_OK
        || mst_tokenizer_id(g, MST_TOKENIZER_KEY "unknown_token_id",
                            t->vocab.n, &id, err) != MST_OK
        || mst_tokenizer_id(g, MST_TOKENIZER_KEY "padding_token_id",
                            t->vocab.n, &id, err) != MST_OK
        || mst_tokenizer_flag(g, MST_TOKENIZER_KEY "add_bos_token",
                              &info->add_bos, err) != MST_OK
        || mst_tokenizer_flag(g, MST_TOKENIZER_KEY "add_eos_token",
                              &info->add_eos, err) != MST_OK)
    {
        return MST_ERROR;
    }

    info->n_vocab = t->vocab.n;
    info->max_token = t->vocab.max_token;

    if (info->add_bos && info->bos_id < 0) {
        return mst_gguf_error(g, err, MST_TOKENIZER_KEY "add_bos_token is "
                              "true and " MST_TOKENIZER_KEY "bos_token_id is "
                              "missing");
    }

    if (info->add_eos && info->eos_id < 0) {
        return mst_gguf_error(g, err, MST_TOKENIZER_KEY "add_eos_token is "
                              "true and " MST_TOKENIZER_KEY "eos_token_id is "
                              "missing");
    }

    return mst_tokenizer_stops(t, g, err);
}


/* "<s>" and "</s>", as all of Mistral's tokenizers have them */

static int
mst_tokenizer_mistral(mst_tokenizer_t *t, const char *name, mst_err_t *err)
{
    mst_tokenizer_info_t  *info;

    info = &t->info;
    info->n_vocab = t->vocab.n;
    info->max_token = t->vocab.max_token;
    info->bos_id = mst_tokenizer_control(t, "<s>");
    info->eos_id = mst_tokenizer_control(t, "</s>");
    info->add_bos = 1;

    if (info->bos_id < 0 || info->eos_id < 0) {
        return mst_err_set(err, "%s: <s> or </s> is no control token of it",
                           name);
    }

    mst_tokenizer_add_stop(info, info->eos_id);

    return MST_OK;
}


mst_tokenizer_t *
mst_tokenizer_create_spm(const void *data, size_t len, const char *name,
    mst_err_t *err)
{
    int               rc;
    uint32_t          n;
    mst_tokenizer_t  *t;
    mst_spm_piece_t  *pieces;

    t = mst_calloc(1, sizeof(mst_tokenizer_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a tokenizer");
        return NULL;
    }

    rc = mst_spm_read(data, len, name, &pieces, &n, err);

    if (rc == MST_OK) {
        rc = mst_spm_init(&t->vocab, &t->bpe, pieces, n, name, err);
    }

    mst_free(pieces);
    mst_tokenizer_bytes_of(t);

    if (rc != MST_OK || mst_tokenizer_mistral(t, name, err) != MST_OK) {
        mst_tokenizer_destroy(t);
        return NULL;
    }

    return t;
}


mst_tokenizer_t *
mst_tokenizer_create_tekken(const char *text, size_t len, const char *name,
    uint32_t *version, mst_err_t *err)
{
    mst_tokenizer_t    *t;
    mst_tekken_info_t   info;

    *version = 0;

    t = mst_calloc(1, sizeof(mst_tokenizer_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a tokenizer");
        return NULL;
    }

    t->kind = MST_TOKENIZER_BPE;
    t->split = MST_SPLIT_TEKKEN;
    t->whole = 1;

    if (mst_tekken_init(&t->vocab, &t->bpe, text, len, name, &info, err)
           != MST_OK
        || mst_tokenizer_mistral(t, name, err) != MST_OK)
    {
        mst_tokenizer_destroy(t);
        return NULL;
    }

    *version = info.version;
    t->info.efforts = info.efforts;
    t->info.effort = info.effort;

    return t;
}


mst_tokenizer_t *
mst_tokenizer_create_gguf(const mst_gguf_t *g, mst_err_t *err)
{
    mst_tokenizer_t  *t;

    t = mst_calloc(1, sizeof(mst_tokenizer_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a tokenizer");
        return NULL;
    }

    if (mst_tokenizer_read(t, g, err) != MST_OK) {
        mst_tokenizer_destroy(t);
        return NULL;
    }

    return t;
}


mst_tokenizer_t *
mst_tokenizer_create_hf(const char *text, size_t len, const char *name,
    const char *bos, const char *eos, mst_err_t *err)
{
    size_t                 i;
    mst_hf_t               hf;
    mst_tokenizer_t       *t;
    mst_tokenizer_info_t  *info;

    t = mst_calloc(1, sizeof(mst_tokenizer_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a tokenizer");
        return NULL;
    }

    if (mst_hf_init(&t->vocab, &t->bpe, text, len, name, &hf, err) != MST_OK) {
        mst_tokenizer_destroy(t);
        return NULL;
    }

    t->kind = MST_TOKENIZER_BPE;
    t->split = hf.split;
    t->whole = hf.whole;
    t->prefix = hf.prefix;

    if (hf.chars) {
        mst_tokenizer_bytes_of(t);
    }

    /* Mistral's, as converted, carry another model's expression */

    if (!hf.chars && t->vocab.n == 131072
        && mst_tokenizer_control(t, "[INST]") >= 0)
    {
        t->split = MST_SPLIT_TEKKEN;
    }

    info = &t->info;
    info->n_vocab = t->vocab.n;
    info->max_token = t->vocab.max_token;
    info->bos_id = bos ? mst_tokenizer_control(t, bos) : -1;
    info->eos_id = eos ? mst_tokenizer_control(t, eos) : -1;
    info->add_bos = info->bos_id >= 0;

    mst_tokenizer_add_stop(info, info->eos_id);

    for (i = 0;
         i < sizeof(mst_tokenizer_ends) / sizeof(mst_tokenizer_ends[0]);
         i++)
    {
        mst_tokenizer_add_stop(info,
                               mst_tokenizer_control(t,
                                                     mst_tokenizer_ends[i]));
    }

    return t;
}


mst_tokenizer_t *
mst_tokenizer_create_bytes(mst_err_t *err)
{
    mst_tokenizer_t  *t;

    t = mst_calloc(1, sizeof(mst_tokenizer_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a tokenizer");
        return NULL;
    }

    t->kind = MST_TOKENIZER_BYTES;
    t->info.n_vocab = 256;
    t->info.bos_id = -1;
    t->info.eos_id = -1;
    t->info.max_token = 1;

    return t;
}


void
mst_tokenizer_destroy(mst_tokenizer_t *t)
{
    if (t == NULL) {
        return;
    }

    mst_bpe_fini(&t->bpe);
    mst_vocab_fini(&t->vocab);
    mst_free(t);
}


void
mst_tokenizer_also_stop(mst_tokenizer_t *t, const uint32_t *ids, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        if (ids[i] < t->info.n_vocab) {
            mst_tokenizer_add_stop(&t->info, ids[i]);
        }
    }
}


const mst_tokenizer_info_t *
mst_tokenizer_info(const mst_tokenizer_t *t)
{
    return &t->info;
}


#define B4(n)   (char) (n), (char) ((n) + 1), (char) ((n) + 2),               \
                (char) ((n) + 3)
#define B16(n)  B4(n), B4((n) + 4), B4((n) + 8), B4((n) + 12)
#define B64(n)  B16(n), B16((n) + 16), B16((n) + 32), B16((n) + 48)

static const char  mst_tokenizer_byte[256] = {
    B64(0), B64(64), B64(128), B64(192)
};

#undef B4
#undef B16
#undef B64


mst_str_t
mst_tokenizer_name(const mst_tokenizer_t *t, uint32_t id)
{
    if (id >= t->info.n_vocab) {
        return mst_str(NULL, 0);
    }

    return t->kind == MST_TOKENIZER_BYTES
           ? mst_str(&mst_tokenizer_byte[id], 1)
           : mst_vocab_token(&t->vocab, id);
}


/* "<0x0A>" was checked when the vocabulary was read */

static mst_str_t
mst_tokenizer_byte_of(const mst_tokenizer_t *t, uint32_t id)
{
    size_t     i;
    unsigned   v;
    mst_str_t  s;

    s = mst_vocab_token(&t->vocab, id);
    v = 0;

    for (i = 3; i < 5 && s.len == 6; i++) {
        v = v << 4 | (unsigned) (s.data[i] <= '9' ? s.data[i] - '0'
                                 : (s.data[i] | 0x20) - 'a' + 10);
    }

    return mst_str(&t->byte[v & 0xff], 1);
}


mst_str_t
mst_tokenizer_bytes(const mst_tokenizer_t *t, uint32_t id)
{
    if (id >= t->info.n_vocab) {
        return mst_str(NULL, 0);
    }

    if (t->kind == MST_TOKENIZER_BYTES) {
        return mst_tokenizer_name(t, id);
    }

    switch (t->vocab.type[id]) {

    case MST_VOCAB_NORMAL:
    case MST_VOCAB_USER:
        return mst_tokenizer_name(t, id);

    case MST_VOCAB_BYTE:
        return mst_tokenizer_byte_of(t, id);

    case MST_VOCAB_UNKNOWN:
        return t->kind == MST_TOKENIZER_SPM
               ? mst_str(" \xe2\x81\x87 ", 5) : mst_str(NULL, 0);

    default:
        return mst_str(NULL, 0);
    }
}


int
mst_tokenizer_is_control(const mst_tokenizer_t *t, uint32_t id)
{
    return t->kind != MST_TOKENIZER_BYTES && id < t->info.n_vocab
           && t->vocab.type[id] == MST_VOCAB_CONTROL;
}


int
mst_tokenizer_is_spm(const mst_tokenizer_t *t)
{
    return t->kind == MST_TOKENIZER_SPM;
}


int64_t
mst_tokenizer_control(const mst_tokenizer_t *t, const char *name)
{
    int64_t  id;

    if (t->kind == MST_TOKENIZER_BYTES) {
        return -1;
    }

    id = mst_vocab_find(&t->vocab, 1, name, strlen(name));

    return id >= 0 && (t->vocab.type[id] == MST_VOCAB_CONTROL
                       || t->vocab.type[id] == MST_VOCAB_USER) ? id : -1;
}

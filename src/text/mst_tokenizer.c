
/*
 * The tokenizer: see mst_tokenizer.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_encode.h"


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

    *value = 0;
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


static int
mst_tokenizer_read(mst_tokenizer_t *t, const mst_gguf_t *g, mst_err_t *err)
{
    int                    prefix;
    int64_t                id;
    mst_tokenizer_info_t  *info;

    info = &t->info;

    if (mst_vocab_init_gguf(&t->vocab, g, err) != MST_OK
        || mst_bpe_init_gguf(&t->bpe, &t->vocab, g, err) != MST_OK
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
                              &info->add_eos, err) != MST_OK
        || mst_tokenizer_flag(g, MST_TOKENIZER_KEY "add_space_prefix",
                              &prefix, err) != MST_OK)
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

    if (prefix) {
        return mst_gguf_error(g, err, MST_TOKENIZER_KEY "add_space_prefix is "
                              "true; supported is false");
    }

    return mst_tokenizer_stops(t, g, err);
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
mst_tokenizer_create_bytes(mst_err_t *err)
{
    mst_tokenizer_t  *t;

    t = mst_calloc(1, sizeof(mst_tokenizer_t));
    if (t == NULL) {
        (void) mst_err_set(err, "no memory for a tokenizer");
        return NULL;
    }

    t->bytes = 1;
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

    return t->bytes ? mst_str(&mst_tokenizer_byte[id], 1)
                    : mst_vocab_token(&t->vocab, id);
}


mst_str_t
mst_tokenizer_bytes(const mst_tokenizer_t *t, uint32_t id)
{
    if (id >= t->info.n_vocab
        || (!t->bytes && t->vocab.type[id] != MST_VOCAB_NORMAL))
    {
        return mst_str(NULL, 0);
    }

    return mst_tokenizer_name(t, id);
}


int
mst_tokenizer_is_control(const mst_tokenizer_t *t, uint32_t id)
{
    return !t->bytes && id < t->info.n_vocab
           && t->vocab.type[id] == MST_VOCAB_CONTROL;
}


int64_t
mst_tokenizer_control(const mst_tokenizer_t *t, const char *name)
{
    int64_t  id;

    if (t->bytes) {
        return -1;
    }

    id = mst_vocab_find(&t->vocab, 1, name, strlen(name));

    return id >= 0 && mst_tokenizer_is_control(t, (uint32_t) id) ? id : -1;
}

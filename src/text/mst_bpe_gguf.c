
/*
 * The merges of a GGUF file, which spells both sides of each: see mst_bpe.h.
 */

#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_bpe.h"


#define MST_BPE_GGUF_MERGES  "tokenizer.ggml.merges"
#define MST_BPE_GGUF_MAX     (4 * MST_VOCAB_MAX_TOKENS)


/* the id of one side of a merge, its bytes appended to "bytes" */

static int64_t
mst_bpe_gguf_side(const mst_vocab_t *v, uint32_t rank, mst_str_t side,
    char *bytes, size_t *len, const mst_gguf_t *g, mst_err_t *err)
{
    char      q[MST_GGUF_SHOW];
    int64_t   n, id;
    uint32_t  cp;

    if (side.len > MST_VOCAB_MAX_TOKEN) {
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES "[%u]: a side of "
                              "%zu bytes, the limit is %d", rank, side.len,
                              MST_VOCAB_MAX_TOKEN);
    }

    n = mst_vocab_unspell(side, bytes + *len, &cp);
    id = n < 0 ? -1 : mst_vocab_find(v, 0, bytes + *len, (size_t) n);

    if (id < 0) {
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES "[%u]: \"%s\" is "
                              "not a normal token", rank,
                              mst_gguf_show(q, side));
    }

    *len += (size_t) n;

    return id;
}


/* "left right", as the file spells them */

static int
mst_bpe_gguf_merge(const mst_vocab_t *v, uint32_t rank, mst_str_t text,
    mst_bpe_merge_t *m, const mst_gguf_t *g, mst_err_t *err)
{
    char         bytes[2 * MST_VOCAB_MAX_TOKEN];
    char         q[MST_GGUF_SHOW];
    size_t       len;
    int64_t      left, right, id;
    mst_str_t    l, r;
    const char  *space;

    space = text.len ? memchr(text.data, ' ', text.len) : NULL;

    if (space == NULL) {
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES "[%u]: \"%s\" is "
                              "not two tokens", rank, mst_gguf_show(q, text));
    }

    l = mst_str(text.data, (size_t) (space - text.data));
    r = mst_str(space + 1, text.len - l.len - 1);
    len = 0;

    left = mst_bpe_gguf_side(v, rank, l, bytes, &len, g, err);
    right = left < 0 ? -1 : mst_bpe_gguf_side(v, rank, r, bytes, &len, g, err);

    if (right < 0) {
        return MST_ERROR;
    }

    id = mst_vocab_find(v, 0, bytes, len);

    if (id < 0) {
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES "[%u]: \"%s\" "
                              "merges to no token", rank,
                              mst_gguf_show(q, text));
    }

    m->left = (uint32_t) left;
    m->right = (uint32_t) right;
    m->id = (uint32_t) id;

    return MST_OK;
}


static int
mst_bpe_gguf_read(mst_bpe_t *b, const mst_vocab_t *v, mst_gguf_array_t *a,
    mst_bpe_merge_t *merges, const mst_gguf_t *g, mst_err_t *err)
{
    uint32_t         n;
    mst_str_t        text;
    mst_bpe_twice_t  twice;

    for (n = 0; mst_gguf_next_string(a, &text) == MST_OK; n++) {
        if (mst_bpe_gguf_merge(v, n, text, &merges[n], g, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    switch (mst_bpe_init_merges(b, v, merges, n, 0, &twice)) {

    case MST_OK:
        return MST_OK;

    case MST_DECLINED:
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES "[%u] is the same "
                              "as [%u]", twice.second, twice.first);

    case MST_BUSY:
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES ": more than %d "
                              "collide in a table", MST_VOCAB_MAX_PROBES);

    default:
        return mst_gguf_error(g, err, "no memory for %u merges", n);
    }
}


int
mst_bpe_init_gguf(mst_bpe_t *b, const mst_vocab_t *v, const mst_gguf_t *g,
    mst_err_t *err)
{
    int               rc;
    mst_gguf_array_t  a;
    mst_bpe_merge_t  *merges;

    memset(b, 0, sizeof(mst_bpe_t));

    if (mst_vocab_array(g, MST_BPE_GGUF_MERGES, &a, err) != MST_OK) {
        return MST_ERROR;
    }

    if (a.type != MST_GGUF_STRING) {
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES " is an array of "
                              "type %d, not of strings", (int) a.type);
    }

    if (a.n > MST_BPE_GGUF_MAX) {
        return mst_gguf_error(g, err, MST_BPE_GGUF_MERGES " has %llu elements, "
                              "the limit is %d", (unsigned long long) a.n,
                              MST_BPE_GGUF_MAX);
    }

    merges = mst_calloc(a.n, sizeof(mst_bpe_merge_t));

    if (merges == NULL) {
        return mst_gguf_error(g, err, "no memory for %u merges",
                              (uint32_t) a.n);
    }

    rc = mst_bpe_gguf_read(b, v, &a, merges, g, err);

    mst_free(merges);

    return rc;
}

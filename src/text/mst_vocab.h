
/*
 * The vocabulary of a model file: ids, spellings, types, and the way from a
 * spelling to its id.  Everything is copied and checked when the file is
 * read.  SentencePiece's U+2581 is kept as the space that it stands for.
 *
 * Two name spaces: text (normal tokens, by the bytes that they stand for)
 * and special (control and unused ones, by their spelling), so that no text
 * ever finds a control token.  Immutable afterwards: any thread.
 */

#ifndef MST_VOCAB_H
#define MST_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_hash.h"
#include "base/mst_str.h"
#include "file/mst_gguf.h"


#define MST_VOCAB_MAX_TOKENS  1048576
#define MST_VOCAB_MAX_TOKEN   256              /* bytes of one token */
#define MST_VOCAB_MAX_PROBES  256              /* in a hash table */

/* the numbers of tokenizer.ggml.token_type */
#define MST_VOCAB_NORMAL      1
#define MST_VOCAB_UNKNOWN     2
#define MST_VOCAB_CONTROL     3
#define MST_VOCAB_USER        4    /* found in text before anything else */
#define MST_VOCAB_UNUSED      5
#define MST_VOCAB_BYTE        6    /* "<0x0A>": bytes of what has no token */


typedef struct {
    uint32_t  tag;             /* other half of the hash */
    uint32_t  ref;             /* id + 1; 0: free */
} mst_vocab_slot_t;


typedef struct {
    char              *data;   /* the bytes of all tokens */
    uint32_t          *off;    /* [n + 1]: token i is off[i] .. off[i + 1] */
    unsigned char     *type;   /* [n], MST_VOCAB_* */
    mst_vocab_slot_t  *slots;  /* [mask + 1], at most half of them used */
    uint32_t           mask;
    uint32_t           n;
    uint32_t           max_token;   /* bytes of the longest normal token */
} mst_vocab_t;


/* room for n tokens of "size" bytes altogether; MST_ERROR: memory.  Leaves v
   fit for _fini whatever it returns */
int mst_vocab_init(mst_vocab_t *v, uint32_t n, size_t size);

/*
 * Token id, one after the other from 0 on; bytes of a normal one, spelling of
 * another.  MST_OK; MST_DECLINED: this spelling is there already; MST_BUSY:
 * too many collide in the table.
 */
int mst_vocab_put(mst_vocab_t *v, uint32_t id, unsigned char type,
    const char *data, size_t len);

/* of GPT-2's kind; leaves v fit for _fini whatever it returns */
int mst_vocab_init_gguf(mst_vocab_t *v, const mst_gguf_t *g, mst_err_t *err);
void mst_vocab_fini(mst_vocab_t *v);

/* id of the token of this name space, or -1 */
int64_t mst_vocab_find(const mst_vocab_t *v, int special, const char *data,
    size_t len);

/* an array value that must be there: MST_OK or MST_ERROR */
int mst_vocab_array(const mst_gguf_t *g, const char *key,
    mst_gguf_array_t *a, mst_err_t *err);

/*
 * The spelling of a normal token to the bytes that it stands for: each code
 * point of GPT-2's alphabet is a byte.  Room for s.len bytes.  Returns their
 * number, or -1 and the stranger in *cp.
 */
int64_t mst_vocab_unspell(mst_str_t s, char *bytes, uint32_t *cp);


/* slots of a table that holds n entries: a power of two, half of it free */
uint32_t mst_vocab_table_size(uint32_t n);


static inline mst_str_t
mst_vocab_token(const mst_vocab_t *v, uint32_t id)
{
    return mst_str(v->data + v->off[id], v->off[id + 1] - v->off[id]);
}


#endif /* MST_VOCAB_H */

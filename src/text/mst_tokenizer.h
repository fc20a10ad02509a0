
/*
 * Text to token ids and back: the one door of this room.  Behind it stand
 * byte-level BPE (GPT-2's kind and tekken), SentencePiece BPE, and the null
 * model's bytes.
 *
 * A tokenizer is immutable after it was created: the master loads it in the
 * configuration phase and the workers share its pages.  It keeps copies, not
 * the model file.  Encoders belong to one request and one thread.
 */

#ifndef MST_TOKENIZER_H
#define MST_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_buf.h"
#include "base/mst_params.h"
#include "base/mst_str.h"
#include "file/mst_gguf.h"
#include "text/mst_prompt.h"


typedef struct mst_tokenizer_s  mst_tokenizer_t;
typedef struct mst_encode_s     mst_encode_t;


typedef struct {
    uint32_t  n_vocab;         /* ids are 0 .. n_vocab - 1 */
    int64_t   bos_id;          /* -1: the model has none */
    int64_t   eos_id;          /* -1: none */
    int       add_bos;         /* a plain prompt starts with bos_id */
    int       add_eos;
    uint32_t  n_stop;          /* ids that end an answer by themselves */
    uint32_t  stop_ids[MST_MAX_STOP_IDS];
    size_t    max_token;       /* bytes of the longest token */
    uint32_t  efforts;         /* tekken.json: reasoning_effort, see there */
    int       effort;
} mst_tokenizer_info_t;


/* everything is validated; NULL with one sentence otherwise */
mst_tokenizer_t *mst_tokenizer_create_gguf(const mst_gguf_t *g,
    mst_err_t *err);

/* a SentencePiece model file ("tokenizer.model..."); "name" stands before
   sentences */
mst_tokenizer_t *mst_tokenizer_create_spm(const void *data, size_t len,
    const char *name, mst_err_t *err);

/* tekken.json; *version is what its config says: 3, 7, 11, ... */
mst_tokenizer_t *mst_tokenizer_create_tekken(const char *text, size_t len,
    const char *name, uint32_t *version, mst_err_t *err);

/* tokenizer.json; what begins and ends a text stands elsewhere: bos and eos
   are spellings of control tokens, or NULL */
mst_tokenizer_t *mst_tokenizer_create_hf(const char *text, size_t len,
    const char *name, const char *bos, const char *eos, mst_err_t *err);

/* the null model's: 256 ids, token id = byte value, no control tokens */
mst_tokenizer_t *mst_tokenizer_create_bytes(mst_err_t *err);

void mst_tokenizer_destroy(mst_tokenizer_t *t);  /* t may be NULL */

/* before anybody encodes: ids that end an answer, too, as the model's
   configuration says; those out of range and those too many are left out */
void mst_tokenizer_also_stop(mst_tokenizer_t *t, const uint32_t *ids,
    uint32_t n);

const mst_tokenizer_info_t *mst_tokenizer_info(const mst_tokenizer_t *t);

/* the bytes that id adds to the text: none for a control token and for
   ids out of range.  In the tokenizer's memory. */
mst_str_t mst_tokenizer_bytes(const mst_tokenizer_t *t, uint32_t id);

/* the spelling in the vocabulary, control tokens too ("<|im_end|>");
   other tokens as their bytes, which may be part of a code point */
mst_str_t mst_tokenizer_name(const mst_tokenizer_t *t, uint32_t id);

int mst_tokenizer_is_control(const mst_tokenizer_t *t, uint32_t id);

/* SentencePiece: an answer's first space is the tokenizer's own, and each
   invalid byte is shown as one U+FFFD */
int mst_tokenizer_is_spm(const mst_tokenizer_t *t);

/* id of the control or user-defined token with this spelling, or -1 */
int64_t mst_tokenizer_control(const mst_tokenizer_t *t, const char *name);


/* a budget that keeps a slice below 2 ms on a slow core, whatever the text */
#define MST_ENCODE_SLICE  16384

/*
 * The encoder may stop and go on, so that a worker never spends more than
 * about 2 ms at once on a long text.  "prompt" must stay as it is until the
 * encoder is destroyed.
 */
mst_encode_t *mst_encode_create(const mst_tokenizer_t *t,
    const mst_prompt_t *prompt);               /* NULL: memory */

/*
 * Does about "budget" bytes' worth of work, inside long pieces too.
 * MST_OK: all done; MST_AGAIN: call again; MST_ERROR: out of memory.
 * O(n log n) whatever the text.
 */
int mst_encode_run(mst_encode_t *e, size_t budget);

/* the ids so far; owned by the encoder */
const uint32_t *mst_encode_ids(const mst_encode_t *e, size_t *n);

void mst_encode_destroy(mst_encode_t *e);      /* e may be NULL */


#endif /* MST_TOKENIZER_H */

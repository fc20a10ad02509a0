
/*
 * SentencePiece BPE: its model file, and the cutting of text into pieces that
 * no merge can cross.
 *
 * Format: sentencepiece_model.proto.  Of a model the pieces, their scores and
 * types are read, and from the trainer's and normalizer's part what would
 * change the ids: another algorithm or normalization is refused.
 *
 * Text is taken as it is: one space is put in front, U+2581 is a space, and
 * nothing else is normalized.
 */

#ifndef MST_SPM_H
#define MST_SPM_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_str.h"
#include "text/mst_bpe.h"
#include "text/mst_vocab.h"


typedef struct {
    mst_str_t  piece;          /* in the model's bytes */
    float      score;
    uint32_t   type;           /* MST_VOCAB_* */
} mst_spm_piece_t;


/*
 * The pieces of a model file; *pieces is the caller's to mst_free().
 * name stands before sentences.
 */
int mst_spm_read(const void *data, size_t len, const char *name,
    mst_spm_piece_t **pieces, uint32_t *n, mst_err_t *err);

/* vocabulary and merging of n pieces; both are fit for _fini whatever it
   returns, and v must stay where it is */
int mst_spm_init(mst_vocab_t *v, mst_bpe_t *b, const mst_spm_piece_t *pieces,
    uint32_t n, const char *name, mst_err_t *err);


/* U+2581 to a space in "size" bytes; returns how many, -1: too long */
int mst_spm_unescape(mst_str_t s, char *bytes, int size);

/*
 * What the cutting relies on: a space only stands at a token's beginning, or
 * in a token of spaces; and each code point of a token has one of its own.
 */
int mst_spm_check(const mst_vocab_t *v, const char *name, mst_err_t *err);


typedef enum {
    MST_SPM_TEXT,              /* to be merged */
    MST_SPM_TOKEN,             /* a user-defined token: id */
    MST_SPM_BYTES              /* a code point without a token: its bytes */
} mst_spm_kind_t;


typedef struct {
    mst_spm_kind_t  kind;
    mst_str_t       text;
    uint32_t        id;
} mst_spm_part_t;


typedef struct {
    const mst_bpe_t  *bpe;
    const char       *pos;
    const char       *end;
    int               prefix;  /* the space is still to come */
    const char       *scan;    /* seen so far of the part that comes next */
    int               odd;     /* it is not as it stands in the text */
    const char       *at;      /* copied up to here; NULL: no part is */
    mst_buf_t         copy;    /* of a part that is not; owned */
} mst_spm_split_t;


/* s begins as zeroes, its memory is kept for the next text */
void mst_spm_split_init(mst_spm_split_t *s, const mst_bpe_t *b,
    const char *data, size_t len, int prefix);
void mst_spm_split_fini(mst_spm_split_t *s);

/* MST_OK and the next part, valid until the next call; MST_DONE; MST_AGAIN:
   the budget is used up; MST_ERROR: memory */
int mst_spm_split_next(mst_spm_split_t *s, size_t *budget,
    mst_spm_part_t *part);


#endif /* MST_SPM_H */

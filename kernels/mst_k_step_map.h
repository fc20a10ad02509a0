
/*
 * What a step's kernels read besides weights and activations, and where it
 * lies: all that changes from step to step comes in ONE copy from pinned
 * memory into one buffer of the device, so that a CUDA graph that was
 * recorded for a bucket serves every step of that bucket.
 *
 * A bucket is a number of rows and of sequences, both rounded up; the arrays
 * lie at offsets that the bucket alone decides (mst_k_step_layout()).  Rows
 * and sequences that only fill the bucket have slot -1, length 0.  The block
 * tables come last, one after the other without gaps: only what is used is
 * copied.
 *
 * Plain C, compiled by gcc and nvcc alike; t/unit/mst_k_step_test.c.
 */

#ifndef MST_K_STEP_MAP_H
#define MST_K_STEP_MAP_H

#include <stdint.h>

#define MST_K_BLOCK     64         /* tokens of a KV block */
#define MST_K_ALIGN     256        /* bytes, of each array of a step */
#define MST_K_FED       0x80000000 /* MST_SAMPLE_FED: the rest of the id says
                                      where the step before puts it */


/* indices into counts[] of a step: what of the bucket is filled */
enum {
    MST_K_ROWS = 0,
    MST_K_SEQS,
    MST_K_WANTED,
    MST_K_COUNTS = 8
};


/* the arrays of a step: pointers of the device in a kernel's arguments, of
   pinned memory where the host fills them */
typedef struct {
    int32_t   *counts;             /* [MST_K_COUNTS] */
    int32_t   *id;                 /* [rows] token, or MST_K_FED | index of
                                      fed ones; 0 where a row only fills */
    int32_t   *pos;                /* [rows] position in its sequence */
    int32_t   *seq;                /* [rows] index of its sequence */
    int32_t   *slot;               /* [rows] where its k and v go: block *
                                      MST_K_BLOCK + offset; -1: nowhere */
    float     *q_scale;            /* [rows] of q: 1 / sqrt(head_dim), times
                                      what grows with the position */
    double    *rope_base;          /* [seqs] 0 = the model's frequencies */
    int32_t   *seq_row;            /* [seqs] its first row */
    int32_t   *seq_n;              /* [seqs] its rows of this step; 0 = it
                                      only fills */
    int32_t   *seq_len;            /* [seqs] tokens after this step */
    int32_t   *seq_table;          /* [seqs] of its block table in blocks[] */
    int32_t   *seq_used;           /* [seqs] experts of one token */
    int32_t   *wanted;             /* [wanted] rows whose logits are wanted,
                                      rising */
    void      *work;               /* [work] bytes: attention's work list */
    void      *sample;             /* [sample] bytes: orders of sampling; the
                                      words they point to stand behind the
                                      block tables, counted from blocks on */
    int32_t   *blocks;             /* block tables, the one of sequence s from
                                      blocks[seq_table[s]] on: its i-th entry
                                      holds tokens i * MST_K_BLOCK .. */
} mst_k_step_t;


/* capacities; what is equal gives equal offsets */
typedef struct {
    uint32_t  rows;
    uint32_t  seqs;
    uint32_t  wanted;
    uint32_t  work;                /* bytes */
    uint32_t  sample;              /* bytes */
} mst_k_bucket_t;


static inline uint64_t
mst_k_step_take(uint64_t *at, uint64_t size)
{
    uint64_t  from;

    from = *at;
    *at = (from + size + MST_K_ALIGN - 1) / MST_K_ALIGN * MST_K_ALIGN;

    return from;
}


/* the arrays in a buffer at base; returns the bytes before the blocks */

static inline uint64_t
mst_k_step_layout(const mst_k_bucket_t *b, void *base, mst_k_step_t *s)
{
    char      *p;
    uint64_t   at;

    p = (char *) base;
    at = 0;

    s->counts = (int32_t *) (p + mst_k_step_take(&at, MST_K_COUNTS * 4));
    s->id = (int32_t *) (p + mst_k_step_take(&at, b->rows * 4ull));
    s->pos = (int32_t *) (p + mst_k_step_take(&at, b->rows * 4ull));
    s->seq = (int32_t *) (p + mst_k_step_take(&at, b->rows * 4ull));
    s->slot = (int32_t *) (p + mst_k_step_take(&at, b->rows * 4ull));
    s->q_scale = (float *) (p + mst_k_step_take(&at, b->rows * 4ull));
    s->rope_base = (double *) (p + mst_k_step_take(&at, b->seqs * 8ull));
    s->seq_row = (int32_t *) (p + mst_k_step_take(&at, b->seqs * 4ull));
    s->seq_n = (int32_t *) (p + mst_k_step_take(&at, b->seqs * 4ull));
    s->seq_len = (int32_t *) (p + mst_k_step_take(&at, b->seqs * 4ull));
    s->seq_table = (int32_t *) (p + mst_k_step_take(&at, b->seqs * 4ull));
    s->seq_used = (int32_t *) (p + mst_k_step_take(&at, b->seqs * 4ull));
    s->wanted = (int32_t *) (p + mst_k_step_take(&at, b->wanted * 4ull));
    s->work = p + mst_k_step_take(&at, b->work);
    s->sample = p + mst_k_step_take(&at, b->sample);
    s->blocks = (int32_t *) (p + at);

    return at;
}


/*
 * Rows of a bucket: small ones exactly as the decode kernels' tiles want
 * them, then in steps that add less than a quarter.
 */

static inline uint32_t
mst_k_bucket_rows(uint32_t rows)
{
    uint32_t  step;

    if (rows <= 2) {
        return rows;
    }

    step = rows <= 4 ? 4
         : rows <= 64 ? 8
         : rows <= 128 ? 16
         : rows <= 256 ? 32
         : rows <= 512 ? 64
         : rows <= 1024 ? 128
         : rows <= 4096 ? 256 : 512;

    return (rows + step - 1) / step * step;
}


/* the bucket after one of so many rows */

static inline uint32_t
mst_k_bucket_next(uint32_t rows)
{
    return mst_k_bucket_rows(rows + 1);
}


#endif /* MST_K_STEP_MAP_H */


/*
 * The CPU backend: what its files share.
 *
 * begin() .. logits() record commands, sync() runs them, each as a phase of
 * the pool: threads take pieces of it from a counter until there are none.
 * The counter and not a fixed share, because nginx's workers use the same
 * cores: a command does not wait for a thread that has not come.
 *
 * A row's result never depends on which thread computed it, nor on the other
 * rows: see mst_cpu_isa.h.
 */

#ifndef MST_CPU_H
#define MST_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "backend/mst_backend.h"
#include "backend/mst_cpu_coarse.h"
#include "backend/mst_cpu_isa.h"
#include "backend/mst_cpu_mem.h"
#include "backend/mst_cpu_pool.h"
#include "backend/mst_cpu_split.h"

#define MST_CPU_PARTS    3
#define MST_CPU_OWN      2         /* up to so many rows each thread prepares
                                      its own copy of a matrix's inputs,
                                      which saves a phase */
#define MST_CPU_GEMM_MANY  16      /* rows, with more tiles stay in the cache
                                      while all pass */
#define MST_CPU_QUERIES  48        /* that one unit of attention holds */

#define MST_CPU_DIGIT_FORM  1      /* how a matrix wants its inputs */
#define MST_CPU_FLOAT_FORM  2


/* rows of one tensor in tiles; tiles of a gate stand beside those of its
   other half, two by two */
typedef struct {
    mst_cpu_type_t   type;
    uint32_t         rows;
    uint32_t         n_tiles;
    size_t           tile_size;
    size_t           pair_size;    /* from tiles 2i, 2i + 1 to the next two */
    uint8_t         *base;
} mst_cpu_part_t;


struct mst_matrix_s {
    mst_matrix_t       *next;
    mst_matrix_kind_t   kind;
    uint32_t            width;     /* inputs */
    uint32_t            forms;
    uint32_t            n_units;   /* tiles, or of a gate: pairs of pairs */
    uint32_t            n_parts;
    mst_cpu_part_t      parts[MST_CPU_PARTS];
    mst_cpu_part_t      coarse;    /* a head's copy (mst_cpu_coarse.c); base is
                                      NULL where there is none */
    float               norm_max;  /* of its rows */
};


struct mst_vector_s {
    uint32_t   n;
    float     *f;                  /* padded with zeros to whole lanes */
};


/* inputs of a matrix: rows of the step in panels (mst_cpu_isa.h) */
typedef struct {
    int8_t           *q;
    mst_cpu_scale_t  *s;
    float            *f;
    uint32_t          width;
    uint32_t          rows;
    uint32_t          digits;      /* of an activation: 2, 3 */
} mst_cpu_input_t;


typedef struct mst_cpu_cmd_s  mst_cpu_cmd_t;

/* takes pieces until there are none: mst_cpu_pool_pt */
typedef void (*mst_cpu_run_pt)(mst_backend_t *b, mst_cpu_cmd_t *cmd,
    uint32_t thread, int last);

/* what to do with the outputs of a unit for columns row .. row + cols - 1:
   y[tile of the unit][column][lane] */
typedef void (*mst_cpu_finish_pt)(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    uint32_t unit, uint32_t row, uint32_t cols, float *y);


struct mst_cpu_cmd_s {
    _Alignas(64) uint32_t   next;  /* piece that nobody has taken; all
                                      threads add */
    _Alignas(64) uint32_t   job;   /* its number, for mst_cpu_split_take() */
    mst_cpu_run_pt          run;
    uint32_t                layer;
    const mst_matrix_t     *matrix;
    mst_cpu_finish_pt       finish;
    uint32_t                forms;     /* wanted of the outputs, where they
                                          are inputs of the next matrix */

    mst_cpu_input_t        *input;
    mst_cpu_input_t        *output;    /* of the next matrix, where the outputs
                                          are its inputs */
    const mst_vector_t     *bias[MST_CPU_PARTS];   /* of the parts, or NULL */
    const mst_backend_layer_t  *weights;           /* of experts */
    int                     own;   /* inputs are prepared by each thread */

    /* preparation of the inputs: row i is a norm or a copy of source row
       index[i] */
    const float            *source;    /* NULL: they are there already */
    size_t                  stride;
    const mst_vector_t     *norm;      /* NULL: a copy */
    const uint32_t         *index;     /* NULL: i */
};


/* what the experts of a layer work on: pairs of a row and one of its experts,
   those of an expert side by side; mst_cpu_expert.c */
typedef struct {
    float            *x;           /* [row][dim in lanes] after the norm */
    uint32_t         *used;        /* [row] experts */
    uint32_t         *expert;      /* [row][n_experts] those used, best first */
    float            *weight;      /* [row][n_experts] sum 1 */
    uint32_t         *pair;        /* [row][n_experts] */
    uint32_t          n_pairs;
    uint32_t         *row;         /* [pair] */
    float            *y;           /* [pair][dim in lanes] outputs */
    mst_cpu_input_t   in;          /* of all pairs; slices below */
    mst_cpu_input_t   in_down;
    mst_cpu_input_t  *up;          /* [n_experts] */
    mst_cpu_input_t  *down;        /* [n_experts] */
    uint32_t         *first;       /* [n_experts + 1] pair */
} mst_cpu_experts_t;


typedef struct {
    float             y;
    uint32_t          id;          /* a token, or a tile */
} mst_cpu_top_best_t;


/* rows whose likeliest token alone is wanted; mst_cpu_top.c */
typedef struct {
    uint32_t             rows;     /* 0 = there are none in this step */
    uint32_t            *ids;      /* [row] results; the caller's */
    int8_t              *q;        /* [row][block][96] digits */
    mst_cpu_scale_t     *s;        /* [row][block] */
    int8_t              *high;     /* the high ones, in panels */
    mst_cpu_scale_t     *high_s;
    float               *size;     /* norms of blocks, in panels */
    float               *slack;    /* [row] of a sum, for weights of norm 1 */
    float                norm_max;     /* of the head */
    int                  full;     /* no bound holds: all logits */
    uint32_t             tiles;    /* of the head */
    uint32_t             rest;     /* steps to come without, since it did not
                                      pay */
    uint32_t             bad;      /* times in a row that it did not */
    uint64_t             exact;    /* tiles computed in full for a row; all
                                      threads add */
    uint32_t             stride;   /* rows in whole cache lines */
    mst_cpu_top_best_t  *coarse;   /* [thread][stride] largest sum, its tile */
    mst_cpu_top_best_t  *seed;     /* [thread][stride] best logit in that */
    mst_cpu_top_best_t  *best;     /* [thread][stride] of all that were
                                      computed */
} mst_cpu_top_t;


/* rows of one sequence that attention takes together */
typedef struct {
    uint32_t          row;         /* first */
    uint32_t          n;
    uint32_t          seq;
} mst_cpu_unit_t;


struct mst_backend_s {
    mst_backend_conf_t      conf;
    mst_backend_info_t      info;
    const mst_cpu_isa_t    *isa;
    mst_cpu_pool_t         *pool;
    uint32_t                threads;
    uint32_t                jobs;      /* so far; wraps around */
    mst_cpu_split_t        *splits;    /* [threads] */
    mst_cpu_mem_t           weights;
    mst_cpu_mem_t           scratch;   /* and the KV pool */
    mst_matrix_t           *matrices;
    uint64_t                ram;       /* bytes that weights may fill */

    uint32_t                group;     /* query heads of a KV head */
    uint32_t                stride;    /* head_dim in whole lanes */
    uint32_t                digits;    /* of an activation: 2, 3 */
    uint32_t                q_dim;     /* n_heads * head_dim */
    float                   scale;     /* of queries */
    double                 *turn;      /* [rope_dim / 2] per position */
    uint32_t               *windows;   /* [n_layers] */

    unsigned char          *kv;        /* [block][layer][KV head] */
    mst_kv_type_t           kv_type;   /* f32, f16, q8 */
    uint32_t                kv_size;   /* bytes of an element */
    size_t                  kv_head_size;  /* bytes of a block's KV head; in
                                          it, after the keys: */
    size_t                  kv_value;
    size_t                  kv_key_scale;      /* of q8 */
    size_t                  kv_value_scale;

    /* one step */
    mst_backend_step_t      step;
    mst_cpu_cmd_t          *cmds;      /* [max_cmds] */
    uint32_t                n_cmds;
    uint32_t                max_cmds;
    uint32_t               *pos;       /* [row] */
    unsigned char         **row_kv;    /* [row] its block */
    mst_cpu_unit_t         *units;     /* [n_units], rows rising */
    uint32_t                n_units;
    float                  *turns;     /* [row][2][stride] cosines, sines */
    float                  *q_scale;   /* [row] of queries */
    float                  *x;         /* [row][dim in lanes] residual */
    float                  *q;         /* [KV head][row][group][head_dim] */
    float                  *mix;       /* [row][q_dim] attention's output,
                                          where it cannot become digits at
                                          once */
    float                  *logits;    /* [wanted][n_vocab] */
    mst_cpu_input_t         in;        /* of qkv and gate_up */
    mst_cpu_input_t         in_head;   /* the same memory, other rows */
    mst_cpu_input_t         in_out;    /* of out */
    mst_cpu_input_t         in_down;   /* of down */
    mst_cpu_experts_t       experts;
    mst_cpu_top_t           top;
    mst_cpu_input_t         own[MST_CPU_POOL_MAX];
    float                  *prepared[MST_CPU_POOL_MAX];    /* one row */
    float                  *states[MST_CPU_POOL_MAX];      /* attention */
};


extern const mst_backend_ops_t  mst_cpu_ops;


/* mst_cpu.c: by name, or the best of this machine for NULL; NULL with a
   sentence */
const mst_cpu_isa_t *mst_cpu_isa(const char *name, mst_err_t *err);

/* one more command, zeroed but for its function */
mst_cpu_cmd_t *mst_cpu_cmd(mst_backend_t *b, mst_cpu_run_pt run);

static inline uint32_t
mst_cpu_lanes(uint32_t n)
{
    return (n + MST_CPU_LANES - 1) / MST_CPU_LANES * MST_CPU_LANES;
}


static inline uint32_t
mst_cpu_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}


/* pieces at .. at + n - 1 of a command; 0: all are taken */

static inline uint32_t
mst_cpu_take(mst_cpu_cmd_t *cmd, uint32_t total, uint32_t n, uint32_t *at)
{
    /* partner: the same addition of the other threads; the data itself is
       ordered by the phases */
    *at = __atomic_fetch_add(&cmd->next, n, __ATOMIC_RELAXED);

    return *at >= total ? 0 : mst_cpu_min(n, total - *at);
}


/* mst_cpu_matrix.c */
mst_matrix_t *mst_cpu_matrix(mst_backend_t *b, mst_matrix_kind_t kind,
    const mst_matrix_part_t *parts, uint32_t n_parts, uint32_t width,
    mst_err_t *err);
size_t mst_cpu_matrix_tile_size(mst_cpu_type_t type, uint32_t width);
const uint8_t *mst_cpu_matrix_tile(const mst_cpu_part_t *part, uint32_t tile);
/* one row of the first part as floats */
void mst_cpu_matrix_row(const mst_matrix_t *m, uint32_t row, float *y);

/* mst_cpu_codes.c: tiles of Q5_0, Q5_1 and super-blocks: bytes, one row into
   one of zeros, and out of it */
size_t mst_cpu_codes_size(mst_cpu_type_t type, uint32_t width);
void mst_cpu_codes_pack(mst_cpu_type_t type, const uint8_t *src,
    uint8_t *tile, uint32_t lane, uint32_t width);
void mst_cpu_codes_row(mst_cpu_type_t type, const uint8_t *tile,
    uint32_t lane, uint32_t width, float *y);

/* mst_cpu_input.c */
int mst_cpu_input_init(mst_cpu_mem_t *mem, mst_cpu_input_t *in,
    uint32_t digits, uint32_t width, uint32_t rows, mst_err_t *err);
void mst_cpu_input_write(mst_backend_t *b, mst_cpu_input_t *in, uint32_t forms,
    uint32_t row, uint32_t at, const float *x, uint32_t n);
void mst_cpu_input_panel(const mst_cpu_input_t *in, uint32_t row,
    mst_cpu_panel_t *panel);

/* mst_cpu_gemm.c: records a matrix and, where the inputs are not there yet,
   their preparation */
void mst_cpu_gemm(mst_backend_t *b, const mst_cpu_cmd_t *cmd, uint32_t rows);
/* units at .. at + n - 1 of cmd's matrix for all rows of "in" */
void mst_cpu_gemm_units(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    const mst_cpu_input_t *in, uint32_t at, uint32_t n);
/* a share of a matrix's units that no thread waits long for */
uint32_t mst_cpu_gemm_share(const mst_backend_t *b, const mst_matrix_t *m,
    uint32_t rows);

/* mst_cpu.c: finish a tile of gate and up, into cmd->output */
void mst_cpu_gate(mst_backend_t *b, const mst_cpu_cmd_t *cmd, uint32_t unit,
    uint32_t row, uint32_t cols, float *y);

/* mst_cpu_expert.c */
int mst_cpu_experts_init(mst_backend_t *b, mst_err_t *err);
void mst_cpu_experts_begin(mst_backend_t *b);
void mst_cpu_experts(mst_backend_t *b, const mst_backend_layer_t *w);

/* mst_cpu_top.c */
int mst_cpu_top_init(mst_backend_t *b, mst_err_t *err);
int mst_cpu_top(mst_backend_t *b, const mst_vector_t *norm,
    const mst_matrix_t *head, uint32_t *ids);
void mst_cpu_top_end(mst_backend_t *b);

/* mst_cpu_spread.c: others' work, as mst_backend.h's "spread" */
void mst_cpu_spread(mst_backend_t *b, const mst_backend_work_t *work);

/* mst_cpu_kv.c */
int mst_cpu_kv_init(mst_backend_t *b, mst_err_t *err);
const char *mst_cpu_kv_name(mst_kv_type_t type);
void mst_cpu_kv_view(const mst_backend_t *b, const unsigned char *kv,
    mst_cpu_attend_t *a);
void mst_cpu_kv_store(const mst_backend_t *b, unsigned char *kv, int value,
    uint32_t slot, uint32_t dim, const float *y);
void mst_cpu_kv_store_one(const mst_backend_t *b, unsigned char *kv,
    int value, uint32_t slot, uint32_t dim, float y);

/* mst_cpu_attn.c */
void mst_cpu_attn_begin(mst_backend_t *b);
void mst_cpu_attn(mst_backend_t *b, uint32_t layer,
    const mst_backend_layer_t *w);
void mst_cpu_attn_qkv(mst_backend_t *b, const mst_cpu_cmd_t *cmd,
    uint32_t unit, uint32_t row, uint32_t cols, float *y);


#endif /* MST_CPU_H */

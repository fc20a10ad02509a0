
/*
 * Attention's arithmetic without a device: where a key or a value lies in a
 * KV block, and which part of the work each CTA of the decode kernel gets.
 * Plain C, compiled by gcc and nvcc alike; t/unit/mst_k_attn_test.c.
 *
 * KV.  A block holds MST_K_BLOCK tokens of one layer as
 *
 *     [n_kv_heads] of { keys, values }, each
 *         bf16  [head_dim / 64] [token] [64 dims = a line of 128 bytes]
 *         fp8   [token] [head_dim dims], then float scale[token]
 *
 * and the line's 16-byte units are swizzled: unit u of a line that belongs
 * to token t stands at u ^ (t & 7), which is the order of wgmma's 128-byte
 * swizzle (keys as a K-major operand, values as an MN-major one) and free of
 * bank conflicts for ldmatrix.  fp8 with head_dim 64 has two tokens in a
 * line: unit ((t & 1) * 4 + u) ^ ((t >> 1) & 3).  fp8 is e4m3 times the
 * token's scale (absmax / 448 of its keys, of its values).  So the keys of
 * one head in a block are one copy of mst_k_kv_half() contiguous bytes.
 *
 * Decode.  An item is one query row and one KV head: the pages (blocks) that
 * the row sees.  All items' pages stand in one line, T pages; CTA c of N
 * gets the pages between two cuts near c * T / N and (c + 1) * T / N.  Each
 * item offers places where it may be cut, about every "grain" pages; the
 * grain whose most burdened CTA has least to do is taken.  A CTA's share of
 * one item is a piece; pieces of an item that was cut meet in memory, and
 * the last CTA to arrive adds them in their order.
 */

#ifndef MST_K_ATTN_MAP_H
#define MST_K_ATTN_MAP_H

#include <stdint.h>

#include "kernels/mst_k_step_map.h"

/* MST_K_ROLLED: a loop that is not to become longer code, see
   mst_k_attn_plan.cu */

#ifdef __CUDACC__
#define MST_K_HD      static __host__ __device__ __forceinline__
#define MST_K_ROLLED  _Pragma("unroll 1")
#else
#define MST_K_HD      static inline
#define MST_K_ROLLED
#endif

#define MST_K_ATTN_TILE      128   /* rows (position, head) of a prefill tile */
#define MST_K_ATTN_PARTS     32    /* pieces of one item at most */
#define MST_K_ATTN_GRAINS    16    /* grains that are tried */
#define MST_K_ATTN_GROUP     16    /* query heads of a KV head at most */


/* cost of a CTA's share in sixteenths of a page, as measured at batch 8..128:
   a page is 32 KB, ~1 us of a busy H200; a piece's sums meet in shared memory
   (hidden in part behind the next loads); a cut item's go through memory */
#define MST_K_COST_PAGE      16
#define MST_K_COST_PIECE     4
#define MST_K_COST_CUT       20


typedef enum {
    MST_K_KV_BF16 = 0,
    MST_K_KV_FP8                   /* e4m3, a scale for each token and head */
} mst_k_kv_t;


/* bytes of the keys (or values) of one head in a block */

MST_K_HD uint32_t
mst_k_kv_half(uint32_t head_dim, mst_k_kv_t kv)
{
    return kv == MST_K_KV_FP8 ? MST_K_BLOCK * (head_dim + 4)
                              : MST_K_BLOCK * head_dim * 2;
}


/* bytes of one layer in a block; blocks lie at any multiple of 256 bytes */

MST_K_HD uint32_t
mst_k_kv_block(uint32_t n_kv_heads, uint32_t head_dim, mst_k_kv_t kv)
{
    return n_kv_heads * 2 * mst_k_kv_half(head_dim, kv);
}


/* byte of a dim of a token within one head's keys (or values) */

MST_K_HD uint32_t
mst_k_kv_at(uint32_t token, uint32_t dim, uint32_t head_dim, mst_k_kv_t kv)
{
    uint32_t  unit;

    if (kv == MST_K_KV_BF16) {
        unit = ((dim & 63) >> 3) ^ (token & 7);
        return (dim >> 6) * (MST_K_BLOCK * 128) + token * 128 + unit * 16
               + (dim & 7) * 2;
    }

    unit = dim >> 4;

    if (head_dim == 64) {
        unit = (((token & 1) << 2) | unit) ^ ((token >> 1) & 3);
        return (token >> 1) * 128 + unit * 16 + (dim & 15);
    }

    return token * 128 + (unit ^ (token & 7)) * 16 + (dim & 15);
}


/* byte of a token's scale, fp8 */

MST_K_HD uint32_t
mst_k_kv_scale_at(uint32_t token, uint32_t head_dim)
{
    return MST_K_BLOCK * head_dim + token * 4;
}


/* pages that a query at a position sees: the first, and how many */

MST_K_HD uint32_t
mst_k_attn_pages(uint32_t pos, uint32_t window, uint32_t *first)
{
    *first = window && pos >= window ? (pos - window + 1) / MST_K_BLOCK : 0;

    return pos / MST_K_BLOCK - *first + 1;
}


/* ---- decode: who does what ---- */

typedef struct {
    uint32_t  row;                 /* of the step */
    uint32_t  table;               /* of its sequence, in step.blocks[] */
    uint32_t  len;                 /* tokens it sees without a window */
    uint32_t  head;                /* KV head */
    uint32_t  page;                /* first page of the piece */
    uint32_t  n;                   /* pages */
    uint32_t  part;                /* number of the item's first piece */
    uint32_t  parts;               /* pieces of the item; 1 = whole */
} mst_k_attn_piece_t;


/* rows that decode, their pages and where they begin in the line of pages */
typedef struct {
    const uint32_t  *sum;          /* [rows + 1] pages of all KV heads before
                                      the row */
    uint32_t         rows;
    uint32_t         heads;        /* KV heads */
    uint32_t         ctas;         /* that may get work */
    uint32_t         grain;        /* pages between cuts; 0 = no cuts */
} mst_k_attn_line_t;


/* a place in the line: a page of an item, or the end of the line */
typedef struct {
    uint32_t  pos;                 /* pages before it */
    uint32_t  item;                /* row * heads + KV head */
    uint32_t  page;                /* of the item, from 0 */
    uint32_t  pages;               /* the item's; 0: the end of the line */
    uint32_t  rest;                /* of a page, in parts of "ctas" */
} mst_k_attn_mark_t;


MST_K_HD uint32_t
mst_k_attn_grain(uint32_t i)
{
    /* 0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128, 256 */
    return i < 7 ? i
         : i < 10 ? 2 * i - 6
         : i < 11 ? 16
         : i < 13 ? (i - 8) * 8
         : 8u << (i - 10);
}


/* grains worth a try: those from "longest" pages on cut as little as 0 does */

MST_K_HD uint32_t
mst_k_attn_grains(uint32_t longest)
{
    uint32_t  n;

    MST_K_ROLLED
    for (n = 1; n < MST_K_ATTN_GRAINS; n++) {
        if (mst_k_attn_grain(n) >= longest) {
            break;
        }
    }

    return n;
}


/* the grain whose most burdened CTA has least to do; of several the one that
   makes fewest pieces */

MST_K_HD uint32_t
mst_k_attn_best(const uint32_t *cost, uint32_t n)
{
    uint32_t  best, g;

    best = 0;

    MST_K_ROLLED
    for (g = n - 1; g > 0; g--) {
        best = cost[g] < cost[best] ? g : best;
    }

    return mst_k_attn_grain(best);
}


/* a quotient of 32 bits.  A device divides 64 bits by a hundred operations, of
   which a plan would have ten for each grain and CTA: seldom are there so many
   pages that it must */

MST_K_HD uint32_t
mst_k_attn_div(uint64_t n, uint32_t by)
{
    return n >> 32 ? (uint32_t) (n / by) : (uint32_t) n / by;
}


/* CTAs that share the line: fewer where an item would get too many parts */

MST_K_HD uint32_t
mst_k_attn_share(uint32_t total, uint32_t longest, uint32_t ctas)
{
    uint64_t  most;

    most = longest ? (uint64_t) total * (MST_K_ATTN_PARTS - 2) / longest : 1;

    return most < 1 ? 1 : most < ctas ? (uint32_t) most : ctas;
}


/* where CTA c would begin if every page could be cut, 0 <= c <= ctas */

MST_K_HD void
mst_k_attn_aim(const mst_k_attn_line_t *l, uint32_t c, mst_k_attn_mark_t *m)
{
    uint32_t  at, head, hi, lo, mid, total;

    total = l->sum[l->rows];
    at = mst_k_attn_div((uint64_t) c * total, l->ctas);

    m->pos = total;
    m->item = l->rows * l->heads;
    m->page = m->pages = m->rest = 0;

    if (at >= total) {
        return;
    }

    lo = 0;
    hi = l->rows;

    MST_K_ROLLED
    while (hi - lo > 1) {
        mid = (lo + hi) / 2;

        if (l->sum[mid] <= at) {
            lo = mid;

        } else {
            hi = mid;
        }
    }

    m->pos = at;
    m->rest = c * total - at * l->ctas;
    m->pages = (l->sum[lo + 1] - l->sum[lo]) / l->heads;

    at -= l->sum[lo];
    head = at / m->pages;
    m->item = lo * l->heads + head;
    m->page = at - head * m->pages;
}


/* the place to cut an item that is nearest to page + rest / of of it */

MST_K_HD uint32_t
mst_k_attn_snap(uint32_t pages, uint32_t grain, uint32_t page, uint32_t rest,
    uint32_t of)
{
    uint32_t  hi, k, lo, u;

    k = grain ? (pages + grain - 1) / grain : 1;

    /* cut u stands before page floor(pages * u / k): the last one that does
       not come after "page" */

    u = mst_k_attn_div((uint64_t) (page + 1) * k + pages - 1, pages) - 1;
    lo = mst_k_attn_div((uint64_t) pages * u, k);
    hi = mst_k_attn_div((uint64_t) pages * (u + 1), k);

    return (uint64_t) (page - lo) * of + rest < (uint64_t) (hi - page) * of
                                                - rest
           ? lo : hi;
}


/* from where a CTA would begin to where it does */

MST_K_HD void
mst_k_attn_settle(const mst_k_attn_line_t *l, mst_k_attn_mark_t *m)
{
    uint32_t  to;

    if (m->pages == 0) {
        return;
    }

    to = mst_k_attn_snap(m->pages, l->grain, m->page, m->rest, l->ctas);
    m->pos += to - m->page;
    m->item += to == m->pages;
    m->page = to == m->pages ? 0 : to;
}


/* number of the items that what is between two settled marks belongs to, and
   the share of the CTA that gets it in the units of MST_K_COST_* */

MST_K_HD uint32_t
mst_k_attn_count(const mst_k_attn_mark_t *from, const mst_k_attn_mark_t *to,
    uint32_t *cost)
{
    uint32_t  cuts, n;

    if (from->pos >= to->pos) {
        *cost = 0;
        return 0;
    }

    cuts = (from->page != 0) + (to->page != 0);
    n = to->item - from->item + (to->page != 0);

    *cost = (to->pos - from->pos) * MST_K_COST_PAGE + n * MST_K_COST_PIECE
            + (n == 1 && cuts ? 1 : cuts) * MST_K_COST_CUT;

    return n;
}


/* the last CTA whose share begins at or before a page: who has it, as empty
   shares begin where the next one does */

MST_K_HD uint32_t
mst_k_attn_owner(const mst_k_attn_line_t *l, const uint32_t *cut, uint32_t at)
{
    uint32_t  hi, lo, mid;

    lo = 0;
    hi = l->ctas;

    MST_K_ROLLED
    while (hi - lo > 1) {
        mid = (lo + hi) / 2;

        if (cut[mid] <= at) {
            lo = mid;

        } else {
            hi = mid;
        }
    }

    return lo;
}


/*
 * Piece i of CTA c, of the item "item"; cut[] [ctas + 1] are the cuts, off[]
 * [ctas + 1] the numbers of the CTAs' first pieces.  row, table, len and the
 * item's first page are the caller's, who knows the step; returns the index
 * of the row among those that decode.
 */

MST_K_HD uint32_t
mst_k_attn_piece(const mst_k_attn_line_t *l, const uint32_t *cut,
    const uint32_t *off, uint32_t c, uint32_t i, uint32_t item,
    mst_k_attn_piece_t *p)
{
    uint32_t  at, begin, end, first, last, pages, row;

    row = item / l->heads;
    p->head = item - row * l->heads;
    pages = (l->sum[row + 1] - l->sum[row]) / l->heads;

    begin = l->sum[row] + p->head * pages;
    end = begin + pages;
    at = i ? begin : cut[c];

    p->page = at - begin;
    p->n = (end < cut[c + 1] ? end : cut[c + 1]) - at;

    /* most items are whole */

    first = at == begin ? c : mst_k_attn_owner(l, cut, begin);
    last = at + p->n == end ? c : mst_k_attn_owner(l, cut, end - 1);

    /* it is the last piece of the first CTA, the only one of those between,
       and the first of the last; those between are not empty by a cut that
       stands before the item's end */

    p->part = first == c ? off[c] + i : off[first + 1] - 1;
    p->parts = (last == c ? off[c] + i : off[last]) - p->part + 1;

    return row;
}


/* ---- prefill: tiles of rows ---- */

/* positions of one tile */

MST_K_HD uint32_t
mst_k_attn_tile_rows(uint32_t group)
{
    return MST_K_ATTN_TILE / group;
}


/* tiles of a step at most */

MST_K_HD uint32_t
mst_k_attn_tiles(uint32_t rows, uint32_t seqs, uint32_t group)
{
    uint32_t  r;

    r = mst_k_attn_tile_rows(group);

    /* each sequence that has two rows or more may begin a tile of its own */

    return rows / r + (seqs < rows / 2 ? seqs : rows / 2) + 1;
}


typedef struct {
    uint32_t  row;                 /* first of the step */
    uint32_t  n;                   /* rows: positions */
    uint32_t  pos;                 /* of the first */
    uint32_t  table;               /* of the sequence, in step.blocks[] */
} mst_k_attn_tile_t;


/* pages that a tile's queries see together: the first, and how many */

MST_K_HD uint32_t
mst_k_attn_tile_pages(uint32_t pos, uint32_t n, uint32_t window,
    uint32_t *first)
{
    *first = window && pos >= window ? (pos - window + 1) / MST_K_BLOCK : 0;

    return (pos + n - 1) / MST_K_BLOCK - *first + 1;
}


/* ---- the work list's memory ---- */

/* bytes from the buffer's start */
typedef struct {
    uint64_t  off;                 /* uint32 [ctas + 1] */
    uint64_t  piece;               /* mst_k_attn_piece_t [pieces] */
    uint64_t  ticket;              /* uint32 [pieces] of an item's first */
    uint64_t  n_tiles;             /* uint32 */
    uint64_t  tile;                /* mst_k_attn_tile_t [tiles], longest
                                      first */
    uint64_t  scratch;             /* uint32 [max(rows, tiles) + 1] */
    uint64_t  part;                /* float [pieces][group][head_dim + 4] */
    uint64_t  size;
} mst_k_attn_work_t;


/* what the layout of a work list depends on */
typedef struct {
    uint32_t  rows;                /* of the bucket */
    uint32_t  seqs;                /* of the bucket */
    uint32_t  n_heads;
    uint32_t  n_kv_heads;
    uint32_t  head_dim;
    uint32_t  ctas;                /* of the decode kernel:
                                      mst_k_attn_ctas() */
    int       invariant;           /* a row's bits depend on its sequence
                                      alone: sequences of one row are
                                      prefilled like any other, and tiles
                                      begin at an even page */
} mst_k_attn_shape_t;


/* tiles of any step of this shape */

MST_K_HD uint32_t
mst_k_attn_grid(const mst_k_attn_shape_t *s)
{
    uint32_t  group;

    group = s->n_heads / s->n_kv_heads;

    return s->invariant ? s->rows / mst_k_attn_tile_rows(group) + s->seqs + 1
                        : mst_k_attn_tiles(s->rows, s->seqs, group);
}


/* CTAs of the decode kernel: two on each multiprocessor where whole items
   suffice for them, so that one computes while the other waits; else one, as
   items that are cut cost more than that gains (measured at batch 8 to 256:
   8 loses 15 % by two, 32 wins 10 %) */

MST_K_HD uint32_t
mst_k_attn_ctas(uint32_t seqs, uint32_t n_kv_heads, uint32_t sms)
{
    return 16 * seqs * n_kv_heads >= 30 * sms ? 2 * sms : sms;
}


MST_K_HD uint64_t
mst_k_attn_take(uint64_t *at, uint64_t size)
{
    uint64_t  from;

    from = *at;
    *at = (from + size + MST_K_ALIGN - 1) / MST_K_ALIGN * MST_K_ALIGN;

    return from;
}


MST_K_HD void
mst_k_attn_work(const mst_k_attn_shape_t *s, mst_k_attn_work_t *w)
{
    uint64_t  at, n, pieces, tiles;

    pieces = (uint64_t) s->seqs * s->n_kv_heads + s->ctas;
    tiles = mst_k_attn_grid(s);
    n = tiles > s->seqs ? tiles : s->seqs;
    at = 0;

    w->off = mst_k_attn_take(&at, (s->ctas + 1) * 4ull);
    w->piece = mst_k_attn_take(&at, pieces * sizeof(mst_k_attn_piece_t));
    w->ticket = mst_k_attn_take(&at, pieces * 4);
    w->n_tiles = mst_k_attn_take(&at, 4);
    w->tile = mst_k_attn_take(&at, tiles * sizeof(mst_k_attn_tile_t));
    w->scratch = mst_k_attn_take(&at, (n + 1) * 4);
    w->part = mst_k_attn_take(&at, pieces * (s->n_heads / s->n_kv_heads)
                                   * (s->head_dim + 4) * 4);
    w->size = at;
}


#endif /* MST_K_ATTN_MAP_H */

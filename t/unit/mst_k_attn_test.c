
/*
 * Attention's arithmetic: every byte of a block has one owner, and every page
 * that a row sees is in one piece, for ragged lengths of 1 to 256 sequences;
 * pieces of an item are numbered in their order, the shares are balanced.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/mst_k_attn_map.h"

#define SEQS   256
#define CTAS   264


typedef struct {
    uint32_t             sum[SEQS + 1];
    uint32_t             first[SEQS];
    uint32_t             cut[CTAS + 1];
    uint32_t             off[CTAS + 1];
    mst_k_attn_mark_t    mark[CTAS + 1];
    mst_k_attn_piece_t  *pieces;
    mst_k_attn_line_t    line;
    uint32_t             cost;
    uint32_t             longest;
} plan_t;


static uint64_t  seed = 7;


static uint32_t
draw(uint32_t n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;

    return (uint32_t) (seed >> 33) % n;
}


/* the short way of dividing beside the long one, on both sides of 2^32 */

static void
test_divide(void **state)
{
    uint32_t  by, i;
    uint64_t  n;

    (void) state;

    for (i = 0; i < 10000; i++) {
        by = draw(i % 2 ? 300 : 1u << 30) + 1;
        n = (uint64_t) draw(1u << 31) * by + draw(by);
        n = i % 3 ? n : n % by;

        assert_int_equal(mst_k_attn_div(n, by), (uint32_t) (n / by));
    }

    assert_int_equal(mst_k_attn_div(0xffffffff, 1), 0xffffffff);
    assert_int_equal(mst_k_attn_div(0x100000000, 2), 0x80000000);
}


/* what a mark says is what the line has there */

static void
marked(const plan_t *p, const mst_k_attn_mark_t *m)
{
    uint32_t  at, pages, row;

    if (m->item == p->line.rows * p->line.heads) {
        assert_int_equal(m->pos, p->sum[p->line.rows]);
        assert_int_equal(m->page, 0);
        return;
    }

    row = m->item / p->line.heads;
    pages = (p->sum[row + 1] - p->sum[row]) / p->line.heads;
    at = p->sum[row] + m->item % p->line.heads * pages;

    assert_true(m->page < pages);
    assert_int_equal(at + m->page, m->pos);
}


/* pieces and cost of the pages from .. to - 1, one after the other */

static uint32_t
counted(const plan_t *p, uint32_t from, uint32_t to, uint32_t *cost)
{
    uint32_t  at, begin, cuts, n, pages, row;

    begin = cuts = n = pages = row = 0;

    for (at = from; at < to; at++) {

        while (p->sum[row + 1] <= at) {
            row++;
        }

        pages = (p->sum[row + 1] - p->sum[row]) / p->line.heads;
        begin = (at - p->sum[row]) % pages;
        n += at == from || begin == 0;
        cuts += at == from && begin != 0;
    }

    if (to > from && begin + 1 != pages) {
        cuts += n > 1 || cuts == 0;
    }

    *cost = (to - from) * MST_K_COST_PAGE + n * MST_K_COST_PIECE
            + cuts * MST_K_COST_CUT;

    return n;
}


static uint32_t
shares(plan_t *p)
{
    uint32_t  c, cost, max, n, slow;

    max = n = 0;

    for (c = 0; c <= p->line.ctas; c++) {
        mst_k_attn_aim(&p->line, c, &p->mark[c]);
        marked(p, &p->mark[c]);
        mst_k_attn_settle(&p->line, &p->mark[c]);
        marked(p, &p->mark[c]);
        p->cut[c] = p->mark[c].pos;
    }

    for (c = 0; c < p->line.ctas; c++) {
        assert_true(p->cut[c] <= p->cut[c + 1]);
        p->off[c] = n;
        n += mst_k_attn_count(&p->mark[c], &p->mark[c + 1], &cost);
        assert_int_equal(counted(p, p->cut[c], p->cut[c + 1], &slow),
                         n - p->off[c]);
        assert_int_equal(slow, cost);
        max = cost > max ? cost : max;
    }

    p->off[c] = n;

    return max;
}


/* as mst_k_attn_plan() does it, one thread */

static void
plan(plan_t *p, const uint32_t *len, uint32_t n, uint32_t heads,
    uint32_t ctas, uint32_t window)
{
    uint32_t  all[MST_K_ATTN_GRAINS], best, c, cost, i, pages;

    memset(p, 0, sizeof(*p));

    for (i = 0; i < n; i++) {
        pages = mst_k_attn_pages(len[i] - 1, window, &p->first[i]);
        p->sum[i + 1] = p->sum[i] + pages * heads;
        p->longest = pages > p->longest ? pages : p->longest;
    }

    p->line.sum = p->sum;
    p->line.rows = n;
    p->line.heads = heads;
    p->line.ctas = mst_k_attn_share(p->sum[n], p->longest, ctas);
    best = 0;
    p->cost = UINT32_MAX;

    for (i = 0; i < MST_K_ATTN_GRAINS; i++) {
        p->line.grain = mst_k_attn_grain(i);
        cost = all[i] = shares(p);

        if (cost <= p->cost) {
            p->cost = cost;
            best = p->line.grain;
        }
    }

    /* those that are worth a try do as well as all of them */

    p->line.grain = mst_k_attn_best(all, mst_k_attn_grains(p->longest));
    assert_int_equal(shares(p), p->cost);
    assert_true(p->line.grain == best
                || (p->line.grain == 0 && best >= p->longest));

    p->pieces = calloc(p->off[p->line.ctas] + 1, sizeof(*p->pieces));
    assert_non_null(p->pieces);

    for (c = 0; c < p->line.ctas; c++) {
        for (i = p->off[c]; i < p->off[c + 1]; i++) {
            p->pieces[i].row = mst_k_attn_piece(&p->line, p->cut, p->off, c,
                                                i - p->off[c],
                                                p->mark[c].item + i
                                                - p->off[c], &p->pieces[i]);
        }
    }
}


/* every page of every item once, in order; parts numbered without gaps */

static void
whole(const plan_t *p)
{
    uint32_t                   at, i, pages, total;
    const mst_k_attn_piece_t  *q;

    total = p->off[p->line.ctas];
    at = 0;

    for (i = 0; i < total; i++) {
        q = &p->pieces[i];
        pages = (p->sum[q->row + 1] - p->sum[q->row]) / p->line.heads;

        assert_true(q->n > 0 && q->page + q->n <= pages);
        assert_true(q->head < p->line.heads);
        assert_int_equal(p->sum[q->row] + q->head * pages + q->page, at);
        at += q->n;

        assert_true(q->part <= i && i < q->part + q->parts);
        assert_true(q->parts <= MST_K_ATTN_PARTS);
        assert_int_equal(q->part == i, q->page == 0);
        assert_int_equal(q->part + q->parts == i + 1, q->page + q->n == pages);
        assert_int_equal(p->pieces[q->part].row, q->row);
        assert_int_equal(p->pieces[q->part].head, q->head);
        assert_int_equal(p->pieces[q->part].parts, q->parts);
    }

    assert_int_equal(at, p->sum[p->line.rows]);
    assert_true(total <= p->line.rows * p->line.heads + p->line.ctas);
}


/* nobody has much more than an even share, but for the cost of cuts */

static void
balanced(const plan_t *p, uint32_t ctas)
{
    uint32_t  even;

    even = (p->sum[p->line.rows] + p->line.ctas - 1) / p->line.ctas;

    assert_true(p->cost <= (even + 1) * (MST_K_COST_PAGE + MST_K_COST_PIECE)
                           + MST_K_COST_PIECE + 2 * MST_K_COST_CUT);

    if (p->line.ctas < ctas) {
        assert_true(even + 1 >= p->longest / (MST_K_ATTN_PARTS - 2));
    }
}


static void
test_pieces(void **state)
{
    plan_t    p;
    uint32_t  ctas, heads, i, len[SEQS], n, t, top, window;

    (void) state;

    for (t = 0; t < 300; t++) {
        n = t < 40 ? t / 8 + 1 : 1 + draw(SEQS);
        top = t % 4 == 0 ? 32768 : t % 4 == 1 ? 200 : t % 4 == 2 ? 2000 : 1;
        heads = t % 3 == 0 ? 8 : t % 3 == 1 ? 1 : 3;
        ctas = t % 5 == 0 ? CTAS : t % 5 == 1 ? 7 : 132;
        window = t % 7 == 0 ? 1 + draw(5000) : 0;

        for (i = 0; i < n; i++) {
            len[i] = top == 1 ? 576 : 1 + draw(top);
        }

        if (t % 4 == 2) {
            len[draw(n)] = 32768;
        }

        plan(&p, len, n, heads, ctas, window);
        whole(&p);
        balanced(&p, ctas);
        free(p.pieces);
    }
}


/* what was measured to be best: many equal items stay whole, few are cut */

static void
test_grains(void **state)
{
    plan_t    p;
    uint32_t  i, len[SEQS];

    (void) state;

    for (i = 0; i < SEQS; i++) {
        len[i] = 576;
    }

    plan(&p, len, 32, 8, 132, 0);
    assert_int_equal(p.off[p.line.ctas], 256);
    assert_int_equal(p.cost, 18 * MST_K_COST_PAGE + 2 * MST_K_COST_PIECE);
    free(p.pieces);

    plan(&p, len, 8, 8, 132, 0);
    assert_int_equal(p.off[p.line.ctas], 128);
    assert_int_equal(p.cost, 5 * MST_K_COST_PAGE + MST_K_COST_PIECE
                             + MST_K_COST_CUT);
    free(p.pieces);

    plan(&p, len, 1, 8, 132, 0);
    assert_int_equal(p.off[p.line.ctas], 72);
    free(p.pieces);
}


/* nobody decodes: no pieces */

static void
test_nothing(void **state)
{
    plan_t  p;

    (void) state;

    plan(&p, NULL, 0, 8, 132, 0);
    assert_int_equal(p.off[p.line.ctas], 0);
    free(p.pieces);
}


static void
test_window(void **state)
{
    uint32_t  first, n, pos, window;

    (void) state;

    for (window = 1; window < 400; window += 3) {
        for (pos = 0; pos < 1000; pos++) {
            n = mst_k_attn_pages(pos, window, &first);
            assert_int_equal(first + n - 1, pos / MST_K_BLOCK);
            assert_int_equal(first, pos < window ? 0
                                    : (pos - window + 1) / MST_K_BLOCK);
        }
    }

    assert_int_equal(mst_k_attn_pages(999, 0, &first), 16);
    assert_int_equal(mst_k_attn_tile_pages(100, 33, 64, &first), 3);
    assert_int_equal(first, 0);
    assert_int_equal(mst_k_attn_tile_pages(200, 1, 64, &first), 2);
    assert_int_equal(first, 2);
}


/* each byte of a half belongs to one element */

static void
test_layout(void **state)
{
    uint8_t          *seen;
    uint32_t          at, d, dim, kv, size, t;
    const uint32_t    bytes[] = { 2, 1 };

    (void) state;

    for (kv = MST_K_KV_BF16; kv <= MST_K_KV_FP8; kv++) {
        for (dim = 64; dim <= 128; dim += 64) {
            size = mst_k_kv_half(dim, kv);
            seen = calloc(1, size);
            assert_non_null(seen);

            for (t = 0; t < MST_K_BLOCK; t++) {
                for (d = 0; d < dim; d++) {
                    at = mst_k_kv_at(t, d, dim, kv);
                    assert_true(at % bytes[kv] == 0 && at < size);
                    assert_int_equal(seen[at]++, 0);
                }

                if (kv == MST_K_KV_FP8) {
                    at = mst_k_kv_scale_at(t, dim);
                    assert_true(at % 4 == 0 && at + 4 <= size);
                    assert_int_equal(seen[at]++, 0);
                }
            }

            /* a multiple of what blocks are aligned to, with both halves */
            assert_int_equal(mst_k_kv_block(1, dim, kv) % 256, 0);
            free(seen);
        }
    }
}


static void
test_work(void **state)
{
    mst_k_attn_work_t   w;
    mst_k_attn_shape_t  s = { 2048, 256, 32, 8, 128, 264, 0 };

    (void) state;

    mst_k_attn_work(&s, &w);
    assert_true(w.piece >= w.off + 265 * 4);
    assert_true(w.ticket - w.piece
                >= (2048 + 264) * sizeof(mst_k_attn_piece_t));
    assert_true(w.size >= w.part + (2048 + 264) * 4 * 130 * 4);
    assert_true(w.scratch - w.tile
                >= (2048 / 32 + 256) * sizeof(mst_k_attn_tile_t));
}


/* tiles of a step that is full, of sequences that fill theirs least */

static void
test_grid(void **state)
{
    uint32_t            group, i, n, r, rows, tiles;
    mst_k_attn_shape_t  s = { 0, 0, 32, 8, 128, 132, 0 };

    (void) state;

    for (i = 0; i < 2000; i++) {
        group = 1 + i % 16;
        s.invariant = i & 1;
        s.n_heads = 8 * group;
        s.rows = 1 + i;
        r = mst_k_attn_tile_rows(group);
        tiles = 0;
        s.seqs = 0;

        for (rows = s.rows; rows >= 2u - (uint32_t) s.invariant; rows -= n) {
            n = s.seqs % 3 ? 2 - (uint32_t) s.invariant : r + 1;
            n = n < rows ? n : rows;
            tiles += (n + r - 1) / r;
            s.seqs++;
        }

        assert_true(tiles <= mst_k_attn_grid(&s));
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_grains),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_divide),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_grid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

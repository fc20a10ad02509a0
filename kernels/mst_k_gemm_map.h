
/*
 * Where the elements of the decode GEMMs lie, and who computes what: plain
 * arithmetic, the same for nvcc and gcc (t/unit/mst_k_gemm_map_test.c).
 *
 * Weights, ONE layout for all decode sizes, bf16 and e4m3.  16 rows are a
 * unit, 256 bytes of their width a slot; unit x slot is a piece of 4 KB.
 * The units are shared out to 33 slabs:
 *
 *     [slab][slot][unit of the slab][half of 8 rows][128 bytes of width]
 *         [row][16 bytes ^ row]
 *
 * So any units of a slab that follow one another are one run of bytes per
 * slot (one bulk copy), and 1 to 4 of them are a tile of wgmma's 128-byte
 * swizzle whose groups of 8 rows are 2,048 bytes apart: a slab can be cut
 * into rows, in steps of 16, and into parts of the width, as the number of
 * tokens wants it.  The width is padded with zeros to whole slots, the rows
 * to whole units.  (With units apart, 4 KB a copy, gate-up took 59 us instead
 * of a prototype's 52.)
 *
 * A unit's rows are so ordered that a thread of the tensor cores, which has
 * rows r and r + 8, has what belongs together: two neighbouring outputs
 * (stack), or a gate and its up (gate).
 *
 * Activations ("blocked"): tokens padded to n = 8, 16, 32, 64, 128,
 *
 *     [128 bytes of width][token of n][16 bytes ^ (token & 7)]
 *
 * with the width padded to whole slots; what pads must be zero.
 *
 * Sums of squares of the residual, for the norm of whoever reads it, are
 * partial sums in an order that the number of tokens does not change: of
 * units, added up per slab in rising order, then over slabs.  Over 16 tokens
 * the wgmma kernels store the slabs' sums, [slab][token], else the units'.
 */

#ifndef MST_K_GEMM_MAP_H
#define MST_K_GEMM_MAP_H

#include <stddef.h>
#include <stdint.h>


#ifdef __CUDACC__
#define MST_K_FN  static __host__ __device__ __forceinline__
#else
#define MST_K_FN  static inline
#endif

#define MST_K_GEMM_MAX   128    /* tokens of a step */
#define MST_K_GEMM_THIN  16     /* up to here a CTA has the whole width */
#define MST_K_GEMM_UNIT  16     /* rows */
#define MST_K_GEMM_SLOT  256    /* bytes of the width */
#define MST_K_GEMM_PIECE 4096   /* bytes of a unit x slot */
#define MST_K_GEMM_PARTS 4      /* of the width, summed apart, then in order */
#define MST_K_GEMM_SLABS 33     /* of rows: x 4 parts = 132 CTAs */


/* a share of n things: i of m, differing by one at most */
typedef struct {
    uint32_t  first;
    uint32_t  n;
} mst_k_share_t;


MST_K_FN mst_k_share_t
mst_k_share(uint32_t n, uint32_t m, uint32_t i)
{
    mst_k_share_t  s;
    uint32_t       rest;

    rest = n % m;
    s.first = i * (n / m) + (i < rest ? i : rest);
    s.n = n / m + (i < rest);

    return s;
}


/* tokens, padded; 0: too many */
MST_K_FN uint32_t
mst_k_gemm_pad(uint32_t n)
{
    return n <= 8 ? 8 : n <= 16 ? 16 : n <= 32 ? 32 : n <= 64 ? 64
           : n <= MST_K_GEMM_MAX ? 128 : 0;
}


MST_K_FN uint32_t
mst_k_gemm_units(uint32_t rows)
{
    return (rows + MST_K_GEMM_UNIT - 1) / MST_K_GEMM_UNIT;
}


/* size: bytes of an element, 2 (bf16) or 1 (e4m3) */
MST_K_FN uint32_t
mst_k_gemm_slots(uint32_t width, uint32_t size)
{
    return (width * size + MST_K_GEMM_SLOT - 1) / MST_K_GEMM_SLOT;
}


MST_K_FN size_t
mst_k_gemm_w_size(uint32_t rows, uint32_t width, uint32_t size)
{
    return (size_t) mst_k_gemm_units(rows) * mst_k_gemm_slots(width, size)
           * MST_K_GEMM_PIECE;
}


/* a row of the matrix in the order of the tiles: stack */
MST_K_FN uint32_t
mst_k_gemm_row(uint32_t row)
{
    return (row & ~15u) | (row & 1) << 3 | (row & 15) >> 1;
}


/* gate: row of part 0 (gate) or 1 (up) */
MST_K_FN uint32_t
mst_k_gemm_gate_row(uint32_t part, uint32_t row)
{
    return (row >> 3) << 4 | part << 3 | (row & 7);
}


/* the slab of a unit of so many */
MST_K_FN uint32_t
mst_k_gemm_slab(uint32_t unit, uint32_t units)
{
    uint32_t  n, rest;

    n = units / MST_K_GEMM_SLABS;
    rest = units % MST_K_GEMM_SLABS;

    return unit < rest * (n + 1) ? unit / (n + 1) : (unit - rest) / n;
}


/* the piece of a unit of slab s, in pieces */
MST_K_FN size_t
mst_k_gemm_piece(mst_k_share_t s, uint32_t unit, uint32_t slot,
    uint32_t slots)
{
    return (size_t) s.first * slots + (size_t) slot * s.n + (unit - s.first);
}


/* byte of the tiles; t is a row in their order */
MST_K_FN size_t
mst_k_gemm_w_at(uint32_t t, uint32_t k, uint32_t rows, uint32_t width,
    uint32_t size)
{
    uint32_t       b, r, units;
    mst_k_share_t  s;

    b = k * size;
    r = t & 7;
    units = mst_k_gemm_units(rows);
    s = mst_k_share(units, MST_K_GEMM_SLABS, mst_k_gemm_slab(t >> 4, units));

    return mst_k_gemm_piece(s, t >> 4, b >> 8, mst_k_gemm_slots(width, size))
           * MST_K_GEMM_PIECE
           + ((t >> 3 & 1) << 11 | (b >> 7 & 1) << 10 | r << 7
              | (((b >> 4) ^ r) & 7) << 4 | (b & 15));
}


MST_K_FN size_t
mst_k_gemm_x_size(uint32_t n_pad, uint32_t width, uint32_t size)
{
    return (size_t) mst_k_gemm_slots(width, size) * MST_K_GEMM_SLOT * n_pad;
}


/* byte of blocked activations */
MST_K_FN size_t
mst_k_gemm_x_at(uint32_t token, uint32_t k, uint32_t n_pad, uint32_t size)
{
    uint32_t  b;

    b = k * size;

    return ((size_t) (b >> 7) * n_pad + token) * 128
           + ((((b >> 4) ^ token) & 7) << 4 | (b & 15));
}


/* floats that partial sums of any number of tokens need */
MST_K_FN size_t
mst_k_gemm_sums_size(uint32_t width)
{
    size_t  n;

    n = mst_k_gemm_units(width);

    return (n > MST_K_GEMM_SLABS ? n : MST_K_GEMM_SLABS) * MST_K_GEMM_MAX;
}


/* units that a CTA has in its registers at once: 4 tiles of 4 units */
#define MST_K_GEMM_PASS  16

/* passes that the CTAs of a slab make over rows */
MST_K_FN uint32_t
mst_k_gemm_passes(uint32_t rows)
{
    uint32_t  n;

    n = (mst_k_gemm_units(rows) + MST_K_GEMM_SLABS - 1) / MST_K_GEMM_SLABS;

    return (n + MST_K_GEMM_PASS - 1) / MST_K_GEMM_PASS;
}


/* bytes through which the parts of the width meet, n_pad tokens */
MST_K_FN size_t
mst_k_gemm_work_size(uint32_t rows, uint32_t n_pad)
{
    return (size_t) MST_K_GEMM_SLABS * mst_k_gemm_passes(rows)
           * MST_K_GEMM_PASS * MST_K_GEMM_UNIT * MST_K_GEMM_PARTS * n_pad
           * sizeof(float);
}


#endif /* MST_K_GEMM_MAP_H */


/*
 * A launch of the decode GEMM over quantised weights: the numbers of a form
 * at compile time, and what stands where in a CTA's shared memory.
 */

#ifndef MST_K_QUANT_RUN_CUH
#define MST_K_QUANT_RUN_CUH

#include "kernels/mst_k_gemm_put.h"
#include "kernels/mst_k_quant.h"

/* warps: that multiply, for T tokens, and that finish what these have added
   up; one more brings weights */
#define MST_K_QUANT_WARPS(t)    ((t) == 1 ? 8 : 16)
#define MST_K_QUANT_ENDS        3
#define MST_K_QUANT_THREADS(t)                                                \
    (32 * (MST_K_QUANT_WARPS(t) + MST_K_QUANT_ENDS + 1))

#define MST_K_QUANT_OPS      4                 /* of a launch at most */
#define MST_K_QUANT_FEW      1                 /* tokens of several at most: x
                                                  of more leaves too little of
                                                  the ring (4: 1.72 ms instead
                                                  of 1.64) */
#define MST_K_QUANT_RING     12                /* chunks at most */

/* of them on their way at once: what is small (x, sums, where CTAs meet) waits
   behind them, so no more than the memory's time asks for (int4's step of one
   token with 1 / 2 / 3 / 5 / 12: 1.78 / 1.52 / 1.55 / 1.60 / 1.60 ms) */
#define MST_K_QUANT_FLIGHT(w4)  ((w4) ? 2 : 3)

#define MST_K_QUANT_SHARED   (116 * 1024)      /* at least: CTAs that could
                                                  share an SM stand unevenly
                                                  before long, beside other
                                                  kernels (0.3 ms a step) */
#define MST_K_QUANT_X        (148 * 1024)      /* of x at most */
#define MST_K_QUANT_LITTLE   (48 * 1024)       /* before sm_90 */


/* an operation of a launch */
typedef struct {
    mst_k_gemm_t  a;
    uint32_t      blocks;      /* of the width */
    uint32_t      pass;        /* blocks whose x is in shared memory */
} mst_k_quant_op_t;


typedef struct {
    mst_k_quant_op_t   op[MST_K_QUANT_OPS];    /* one after the other */
    uint32_t           n_ops;
    uint32_t           pass;   /* the most of an operation */
    uint32_t           ring;   /* chunks */
    uint32_t           flight; /* of them on their way at once */
    uint32_t           tiles;  /* of T tokens; several operations: 1 */
    uint32_t          *met;    /* several operations: mst_k_quant_gemms() */
} mst_k_quant_run_t;


typedef struct {
    uint8_t       *ring;
    uint8_t       *x;          /* [pass][4][T] of 64 bytes: mst_k_quant_x.cuh */
    float2        *xs;         /* [pass][parts][T] scale of x, sum of x */
    float         *meet;       /* [rooms][units of a round][warp][16][T] */
    float         *rs;         /* [128] */
    float         *qs;
    uint64_t      *full;
    uint64_t      *empty;
} mst_k_quant_room_t;


template <mst_k_quant_form_t FORM>
struct mst_k_quant_of {
    static constexpr uint32_t  W4 = FORM == MST_K_QUANT_W4_32
                                    || FORM == MST_K_QUANT_W4_128;
    static constexpr uint32_t  GROUP = FORM == MST_K_QUANT_W4_128 ? 128
                                       : FORM == MST_K_QUANT_W8_16 ? 16 : 32;
    static constexpr uint32_t  CODES = W4 ? 1024 : 2048;
    static constexpr uint32_t  SCALE = W4 ? 4 : 2;
    static constexpr uint32_t  BLOCK = CODES + 16 * 128 * SCALE / GROUP;
    static constexpr uint32_t  CHUNK = MST_K_QUANT_CODES / CODES;

    /* scales of x of a block, and chains of sums between scales of w that
       run side by side */
    static constexpr uint32_t  PARTS = GROUP == 128 ? 1 : 4;
    static constexpr uint32_t  HALVES = GROUP == 16 ? 2 : 1;
};


/* units whose sums meet at a time, and how many times there is room for
   them: sums come while those before are finished, where there are two */

static __host__ __device__ __forceinline__ uint32_t
mst_k_quant_round(uint32_t t)
{
    return t == 16 ? 2 : 3;
}


static __host__ __device__ __forceinline__ uint32_t
mst_k_quant_rooms(uint32_t t)
{
    return t == 16 ? 1 : 2;
}


/* floats of a round's sums */

static __host__ __device__ __forceinline__ uint32_t
mst_k_quant_meet(uint32_t t)
{
    return mst_k_quant_round(t) * MST_K_QUANT_WARPS(t) * 16 * t;
}


/* bytes of shared memory */

template <mst_k_quant_form_t FORM>
static __host__ __device__ __forceinline__ uint32_t
mst_k_quant_room_size(uint32_t t, uint32_t pass, uint32_t ring)
{
    typedef mst_k_quant_of<FORM>  f;

    return ring * f::CHUNK * f::BLOCK + pass * t * (256 + 8 * f::PARTS)
           + 4 * (mst_k_quant_rooms(t) * mst_k_quant_meet(t)
                  + 2 * MST_K_GEMM_MAX)
           + 16 * MST_K_QUANT_RING;
}


template <mst_k_quant_form_t FORM>
static __device__ __forceinline__ mst_k_quant_room_t
mst_k_quant_room(const mst_k_quant_run_t &r, uint32_t t, uint8_t *p)
{
    typedef mst_k_quant_of<FORM>  f;

    mst_k_quant_room_t  s;

    s.ring = p;
    s.x = p + r.ring * f::CHUNK * f::BLOCK;
    s.full = (uint64_t *) (s.x + r.pass * t * 256);
    s.empty = s.full + MST_K_QUANT_RING;
    s.rs = (float *) (s.empty + MST_K_QUANT_RING);
    s.qs = s.rs + MST_K_GEMM_MAX;
    s.meet = s.qs + MST_K_GEMM_MAX;
    s.xs = (float2 *) (s.meet + mst_k_quant_rooms(t) * mst_k_quant_meet(t));

    return s;
}


/* barriers of a CTA: sums of a room are there, a room is free, the warps that
   finish have the norm's scales or have finished, the next operation's x is
   there */
#define MST_K_QUANT_MET     1
#define MST_K_QUANT_FREE    3
#define MST_K_QUANT_SCALES  5
#define MST_K_QUANT_NEXT    6

static __device__ __forceinline__ void
mst_k_quant_wait(uint32_t barrier, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}


static __device__ __forceinline__ void
mst_k_quant_arrive(uint32_t barrier, uint32_t threads)
{
    asm volatile("bar.arrive %0, %1;"
                 :: "r"(barrier), "r"(threads) : "memory");
}


#ifdef __cplusplus
extern "C" {
#endif

/* of a device: what decides how a launch looks */
typedef struct {
    int  n_sms;
    int  major;
    int  shared;               /* bytes that a CTA can have */
    int  alone;                /* no other process' kernels run beside ours */
} mst_k_quant_device_t;

/* operations that are one launch */
typedef struct {
    const mst_k_gemm_t  *a;    /* [n] */
    uint32_t             n;
    uint32_t            *met;
} mst_k_quant_ops_t;

/* the kernels by the bits of the codes */
int mst_k_quant_w4(const mst_k_quant_ops_t *ops, mst_k_quant_form_t form,
    const mst_k_quant_device_t *d, cudaStream_t stream);
int mst_k_quant_w8(const mst_k_quant_ops_t *ops, mst_k_quant_form_t form,
    const mst_k_quant_device_t *d, cudaStream_t stream);

#ifdef __cplusplus
}
#endif


#endif /* MST_K_QUANT_RUN_CUH */

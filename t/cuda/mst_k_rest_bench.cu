
/*
 * What the kernels take that a Mistral-7B on an H200 seldom or never runs: the
 * decode GEMM by mma.sync, products over lists (batch_invariant where weights
 * stand once, mixtures), a mixture's other kernels, attention for heads of any
 * size.  Random data; microseconds of one of several in a graph.
 *
 *     mst_k_rest_bench
 */

#define RIG_MASK  0xbfbfbfbf        /* of e4m3 nothing is a NaN, either */

#include "device_rig.cuh"
#include "fill_rig.cuh"
#include "kernels/mst_kernels.h"

#define DIM      4096
#define FF       14336
#define EXPERTS  8
#define USED     2
#define TIMES    8                 /* of a kernel in a graph */


static cudaStream_t  stream;


template <class A>
static float
one_us(const A &a, int (*kernel)(const A *, cudaStream_t))
{
    return time_us(stream, 7, [&] {
        for (int i = 0; i < TIMES; i++) {
            CHECK(kernel(&a, stream));
        }
    }) / TIMES;
}


/* gate and up, 28,672 x 4,096 */

static void
bench_mma(int e4m3)
{
    mst_k_gemm_t  a = {};

    a.op = MST_K_GEMM_GATE_UP;
    a.way = MST_K_GEMM_MMA;
    a.rows = 2 * FF;
    a.width = DIM;
    a.w = filled(mst_k_gemm_w_size(2 * FF, DIM, e4m3 ? 1 : 2));
    a.w_scale = e4m3 ? (float *) filled(2 * FF * 4) : NULL;
    a.x = filled(mst_k_gemm_x_size(128, DIM, 2));
    a.x_mul = a.y_mul = 1;
    a.y_e4m3 = e4m3;
    a.y = filled(mst_k_gemm_x_size(128, FF, 2));

    printf("mma.sync, %u x %u, %s:", a.rows, a.width,
           e4m3 ? "e4m3" : "bf16");

    for (uint32_t n : { 1, 8, 32, 128 }) {
        a.n = n;
        printf(" %u tokens %.1f", n, one_us(a, mst_k_gemm));
    }

    printf("\n");
    release({ a.w, a.w_scale, a.x, a.y });
}


static void
bench_list(void)
{
    mst_k_list_t  a = {};

    a.w = (uint16_t *) filled((size_t) 2 * FF * DIM * 2);
    a.x = (uint16_t *) filled((size_t) 2048 * DIM * 2);
    a.y = filled((size_t) 2048 * 2 * FF * 2);
    a.outputs = 2 * FF;
    a.width = DIM;
    a.lists = 1;
    a.n_used = 1;

    printf("one list, %u x %u:", a.outputs, a.width);

    for (uint32_t n : { 1, 64, 128, 2048 }) {
        a.places = n;
        printf(" %u rows %.1f", n, one_us(a, mst_k_list));
    }

    printf("\n");
    release({ a.w, a.x, a.y });
}


/* 8 experts, of which a row uses two, and their products */

static void
bench_mixture(uint32_t rows)
{
    float                          us[5];
    mst_k_list_t                   up = {}, down;
    mst_k_route_t                  r = {};
    mst_k_swiglu_t                 act = {};
    mst_k_moe_sum_t                sum = {};
    std::vector<const uint16_t *>  ups, downs;

    for (int i = 0; i < EXPERTS; i++) {
        ups.push_back((uint16_t *) filled((size_t) 2 * FF * DIM * 2));
        downs.push_back((uint16_t *) filled((size_t) FF * DIM * 2));
    }

    r.step.counts = upload(std::vector<int32_t>{ (int32_t) rows, 1 });
    r.step.seq = upload(std::vector<int32_t>(rows, 0));
    r.step.seq_used = upload(std::vector<int32_t>{ USED });

    std::vector<float>  h((size_t) rows * DIM), gate(EXPERTS * DIM);

    for (float &f : h) {
        f = rndf(-1, 1);
    }

    for (float &f : gate) {
        f = rndf(-1, 1);
    }

    r.h = upload(h);
    r.gain = (float *) filled(DIM * 4);
    r.router = upload(gate);
    r.x = (uint16_t *) filled((size_t) rows * DIM * 2);
    r.expert = (int32_t *) filled(rows * USED * 4);
    r.weight = (float *) filled(rows * USED * 4);
    r.first = (int32_t *) filled((EXPERTS + 1) * 4);
    r.pair = (int32_t *) filled(rows * USED * 4);
    r.place = (int32_t *) filled(rows * USED * 4);
    r.eps = 1e-5f;
    r.dim = DIM;
    r.n_experts = EXPERTS;
    r.stride = USED;
    r.rows = rows;
    us[0] = one_us(r, mst_k_route);

    up.ws = upload(ups);
    up.x = r.x;
    up.first = r.first;
    up.pair = r.pair;
    up.y = filled((size_t) rows * USED * 2 * FF * 2);
    up.outputs = 2 * FF;
    up.width = DIM;
    up.lists = EXPERTS;
    up.n_used = USED;
    up.places = rows * USED;
    us[1] = one_us(up, mst_k_list);

    act.gate_up = (uint16_t *) up.y;
    act.y = (uint16_t *) filled((size_t) rows * USED * FF * 2);
    act.ff_dim = FF;
    act.rows = rows * USED;
    us[2] = one_us(act, mst_k_swiglu);

    down = up;
    down.ws = upload(downs);
    down.x = act.y;
    down.pair = NULL;
    down.y = filled((size_t) rows * USED * DIM * 4);
    down.out = MST_K_LIST_F32;
    down.outputs = DIM;
    down.width = FF;
    us[3] = one_us(down, mst_k_list);

    sum.y = (float *) down.y;
    sum.expert = r.expert;
    sum.weight = r.weight;
    sum.place = r.place;
    sum.h = (float *) r.h;
    sum.dim = DIM;
    sum.stride = USED;
    sum.rows = rows;
    us[4] = one_us(sum, mst_k_moe_sum);

    printf("8 experts, 2 used, %4u rows: route and lists %.1f, up %.1f, "
           "SwiGLU %.1f, down %.1f, sum %.1f\n", rows, us[0], us[1], us[2],
           us[3], us[4]);

    for (int i = 0; i < EXPERTS; i++) {
        release({ ups[i], downs[i] });
    }

    release({ r.step.counts, r.step.seq, r.step.seq_used, r.h, r.gain,
              r.router, r.x, r.expert, r.weight, r.first, r.pair, r.place,
              up.ws, up.y, act.y, down.ws, down.y });
}


/* rows of sequences of "context" tokens each: their last ones, or all */

static void
bench_plain(uint32_t seqs, uint32_t context, int prompt)
{
    float                 turn, us;
    uint32_t              blocks, i, k, rows;
    mst_k_plain_t         a = {};
    std::vector<int32_t>  pos, seq, slot, table, tables;

    blocks = (context + MST_K_BLOCK - 1) / MST_K_BLOCK;

    for (i = 0; i < seqs; i++) {
        table.push_back((int32_t) tables.size());

        for (k = 0; k < blocks; k++) {
            tables.push_back((int32_t) (i * blocks + k));
        }

        for (k = prompt ? 0 : context - 1; k < context; k++) {
            pos.push_back((int32_t) k);
            seq.push_back((int32_t) i);
            slot.push_back((int32_t) (i * blocks * MST_K_BLOCK + k));
        }
    }

    rows = (uint32_t) pos.size();

    a.n_heads = 32;
    a.n_kv_heads = 8;
    a.head_dim = a.rope_dim = 96;
    a.rows = rows;
    a.step.pos = upload(pos);
    a.step.seq = upload(seq);
    a.step.slot = upload(slot);
    a.step.q_scale = upload(std::vector<float>(rows, 0.1f));
    a.step.seq_table = upload(table);
    a.step.blocks = upload(tables);
    a.block_stride = (uint64_t) 2 * 8 * MST_K_BLOCK * 96;
    a.qkv = (uint16_t *) filled((size_t) rows * 48 * 96 * 2);
    a.turns = (float *) filled((size_t) rows * 96 * 4);
    a.kv = (uint16_t *) filled(tables.size() * a.block_stride * 2);
    a.out = (uint16_t *) filled((size_t) rows * 32 * 96 * 2);

    turn = one_us(a, mst_k_plain_rope);
    us = one_us(a, mst_k_plain_attn);

    printf("heads of 96, 32 for 8, %s %u x %u: rotation %.1f, attention "
           "%.1f\n", prompt ? "prompts of" : "decode", seqs, context, turn,
           us);

    release({ a.step.pos, a.step.seq, a.step.slot, a.step.q_scale,
              a.step.seq_table, a.step.blocks, a.qkv, a.turns, a.kv,
              a.out });
}


int
main(void)
{
    if (!device_found(0)) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    CHECK(cudaStreamCreate(&stream));

    bench_mma(0);
    bench_mma(1);
    bench_list();
    bench_mixture(1);
    bench_mixture(32);
    bench_mixture(1024);
    bench_plain(1, 576, 0);
    bench_plain(32, 576, 0);
    bench_plain(1, 2048, 1);

    return 0;
}

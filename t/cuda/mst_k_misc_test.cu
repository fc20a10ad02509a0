
/*
 * The small kernels (kernels/mst_k_misc.h), the decoders of a file's elements
 * (mst_k_load.h) and attention without tensor cores (mst_k_plain.h) against
 * double and the decoders of the CPU: ragged sizes, fresh random inputs,
 * poison in and behind what is written; rotations of positions up to the
 * largest.
 */

#include <math.h>

#include "device_rig.cuh"

extern "C" {
#include "file/mst_quant.h"
}

#include "kernels/mst_k_load.h"
#include "kernels/mst_k_misc.h"
#include "kernels/mst_k_plain.h"


typedef std::vector<float>     floats;
typedef std::vector<double>    doubles;
typedef std::vector<uint16_t>  halves;
typedef std::vector<int32_t>   ints;

static int  passed, failed, verbose;


static void
said(int good, const char *what, uint32_t rows, uint32_t width, double worst)
{
    passed += good;
    failed += !good;

    if (!good || verbose) {
        printf("%s %s %u x %u: %.3g\n", good ? "ok" : "FAIL", what, rows,
               width, worst);
    }
}


static floats
random_floats(size_t n, float scale)
{
    floats  v(n);

    for (float &f : v) {
        f = rndf(-scale, scale);
    }

    return v;
}


/* rounded; what they are is in v then */

static halves
narrow(floats &v)
{
    halves  h(v.size());

    for (size_t i = 0; i < v.size(); i++) {
        h[i] = bf16_of(v[i]);
        v[i] = f32_of(h[i]);
    }

    return h;
}


/* what is behind n elements is as it was */

template <class T>
static int
kept(const T *p, size_t n)
{
    std::vector<uint8_t>  v;

    v = download((const uint8_t *) (p + n), RIG_POISON);

    return std::all_of(v.begin(), v.end(), [](uint8_t x) { return x == 255; });
}


/* the worst distance, in half a step of bf16 and what float32 may lose of the
   terms of a sum; NaN is found */

static double
distance(const halves &got, const doubles &want, double most)
{
    double  d, worst;

    worst = 0;

    for (size_t i = 0; i < want.size(); i++) {
        d = fabs((double) f32_of(got[i]) - want[i])
            / (fabs(want[i]) * 0x1p-8 + most);
        worst = d <= worst ? worst : d;
    }

    return worst;
}


/* the embedding, and rotations: an angle is a double, so that a cosine is as
   good at the last position as at the first */

static void
check_embed(uint32_t rows, uint32_t dim, uint32_t rope_dim, int32_t far)
{
    int                    good;
    double                 angle, base, freq, worst;
    size_t                 i, row;
    floats                 embd, got, scales, turns;
    ints                   id(rows), pos(rows), seq(rows);
    doubles                bases(2), freqs(rope_dim / 2);
    mst_k_embed_t          a = {};
    std::vector<uint32_t>  fed(3);

    embd = random_floats((size_t) 99 * dim, 2);
    fed = { 7, 98, 13 };
    bases = { 0, 12345 };

    for (i = 0; i < rope_dim / 2; i++) {
        freqs[i] = pow(1e6, -2.0 * i / rope_dim);
    }

    for (i = 0; i < rows; i++) {
        id[i] = i % 3 ? (int32_t) rnd(99) : (int32_t) (MST_K_FED | i / 3 % 3);
        pos[i] = far - (int32_t) rnd(far < 1000 ? far + 1 : 1000);
        seq[i] = i & 1;
    }

    a.embd = up(narrow(embd));
    a.fed = up(fed);
    a.freqs = up(freqs);
    a.step.id = up(id);
    a.step.pos = up(pos);
    a.step.seq = up(seq);
    a.step.rope_base = up(bases);
    a.h = poisoned<float>((size_t) rows * dim);
    a.turns = poisoned<float>((size_t) rows * rope_dim);
    a.rope_scale = 1.25f;
    a.rope_dim = rope_dim;
    a.dim = dim;
    a.rows = rows;
    a.n_vocab = 99;
    CHECK(mst_k_embed(&a, 0));

    got = download(a.h, (size_t) rows * dim);
    turns = download(a.turns, (size_t) rows * rope_dim);
    good = kept(a.h, (size_t) rows * dim)
           && kept(a.turns, (size_t) rows * rope_dim);
    worst = 0;

    for (i = 0; i < (size_t) rows * dim; i++) {
        row = i / dim;
        row = (uint32_t) id[row] & MST_K_FED ? fed[row / 3 % 3]
                                             : (uint32_t) id[row];
        good = good && got[i] == embd[row * dim + i % dim];
    }

    for (i = 0; i < (size_t) rows * rope_dim; i += 2) {
        row = i / rope_dim;
        base = bases[row & 1];
        freq = base != 0 ? pow(base, -1.0 * (i % rope_dim) / rope_dim)
                         : freqs[i % rope_dim / 2];
        angle = pos[row] * freq;
        worst = std::max({ worst, fabs(turns[i] - 1.25 * cos(angle)),
                           fabs(turns[i + 1] - 1.25 * sin(angle)) });
        good = good && turns[i] == turns[i] && turns[i + 1] == turns[i + 1];
    }

    said(good && worst < 2e-7, "embed", rows, (uint32_t) far, worst);
    release({ a.embd, a.fed, a.freqs, a.step.id, a.step.pos, a.step.seq,
              a.step.rope_base, a.h, a.turns });
}


static void
check_norm(uint32_t rows, uint32_t dim, int picked)
{
    int            good;
    double         sum, worst;
    floats         gain, h;
    halves         got;
    doubles        want;
    ints           n(1), pick(rows);
    uint32_t       i, r, row;
    mst_k_norm_t   a = {};

    h = random_floats((size_t) (rows + 5) * dim, 3);
    gain = random_floats(dim, 2);
    n[0] = (int32_t) (rows + 1) / 2;

    for (r = 0; r < rows; r++) {
        pick[r] = (int32_t) rnd(rows + 5);
        row = !picked ? r : r < (uint32_t) n[0] ? pick[r] : 0;

        for (i = 0, sum = 0; i < dim; i++) {
            sum += (double) h[row * dim + i] * h[row * dim + i];
        }

        sum = 1 / sqrt(sum / dim + 1e-5);

        for (i = 0; i < dim; i++) {
            want.push_back(h[row * dim + i] * sum * gain[i]);
        }
    }

    a.h = up(h);
    a.gain = up(gain);
    a.x = poisoned<uint16_t>((size_t) rows * dim);
    a.pick = picked ? up(pick) : NULL;
    a.n_pick = picked ? up(n) : NULL;
    a.eps = 1e-5f;
    a.dim = dim;
    a.rows = rows;
    CHECK(mst_k_norm(&a, 0));

    got = download(a.x, (size_t) rows * dim);
    good = kept(a.x, (size_t) rows * dim);
    worst = distance(got, want, 1e-6);
    said(good && worst < 1.01, picked ? "norm of some" : "norm", rows, dim,
         worst);
    release({ a.h, a.gain, a.x, a.pick, a.n_pick });
}


/* h with a product's parts, and the norm of that, or the sum alone */

static void
check_sum(uint32_t rows, uint32_t dim, int biased, int alone)
{
    int            good;
    double         sum, v, worst;
    floats         bias, gain, h, now, y;
    halves         got;
    doubles        want;
    uint32_t       i, p, r;
    mst_k_norm_t   a = {};

    h = random_floats((size_t) rows * dim, 3);
    y = random_floats((size_t) rows * dim * MST_K_NORM_PARTS, 2);
    bias = random_floats(dim, 1);
    gain = random_floats(dim, 2);

    a.h = up(h);
    a.y = up(y);
    a.bias = biased ? up(bias) : NULL;
    a.gain = alone ? NULL : up(gain);
    a.x = poisoned<uint16_t>((size_t) rows * dim);
    a.eps = 1e-5f;
    a.dim = dim;
    a.rows = rows;
    CHECK(mst_k_norm(&a, 0));

    now = download(a.h, (size_t) rows * dim);
    good = kept(a.h, (size_t) rows * dim)
           && kept(a.x, alone ? 0 : (size_t) rows * dim);
    worst = 0;

    for (r = 0; r < rows; r++) {
        for (i = 0, sum = 0; i < dim; i++) {
            v = (double) h[r * dim + i] + (biased ? bias[i] : 0);

            for (p = 0; p < MST_K_NORM_PARTS; p++) {
                v += y[((size_t) p * rows + r) * dim + i];
            }

            good = good && fabs(now[r * dim + i] - v) < 1e-5;
            want.push_back(v);
            sum += v * v;
        }

        sum = 1 / sqrt(sum / dim + 1e-5);

        for (i = 0; i < dim; i++) {
            want[(size_t) r * dim + i] *= sum * gain[i];
        }
    }

    if (!alone) {
        got = download(a.x, (size_t) rows * dim);
        worst = distance(got, want, 1e-5);
    }

    said(good && worst < 1.01, alone ? "sum" : "sum and norm", rows, dim,
         worst);
    release({ a.h, a.y, a.bias, a.gain, a.x });
}


static void
check_bias(uint32_t rows, uint32_t width, uint32_t pitch, int bf16)
{
    int            good;
    double         d, worst;
    size_t         at, size;
    floats         bias, got, y;
    halves         h;
    uint32_t       i, r;
    mst_k_bias_t   a = {};

    size = (size_t) rows * pitch;
    y = random_floats(size, 4);
    bias = random_floats(width, 4);
    h = bf16 ? narrow(y) : halves(1);

    a.y = bf16 ? (void *) up(h) : (void *) up(y);
    a.pitch = pitch;
    a.bias = up(bias);
    a.width = width;
    a.rows = rows;
    a.bf16 = bf16;
    CHECK(mst_k_bias(&a, 0));

    got = bf16 ? floats(size) : download((float *) a.y, size);
    h = bf16 ? download((uint16_t *) a.y, size) : h;
    good = bf16 ? kept((uint16_t *) a.y, size) : kept((float *) a.y, size);
    worst = 0;

    for (r = 0; r < rows; r++) {
        for (i = 0; i < pitch; i++) {
            at = (size_t) r * pitch + i;
            d = (double) (bf16 ? f32_of(h[at]) : got[at]) - y[at]
                - (i < width ? (double) bias[i] : 0);
            worst = std::max(worst, fabs(d));
            good = good && d == d;
        }
    }

    said(good && worst < (bf16 ? 0.016 : 1e-6),
         bf16 ? "bias of bf16" : "bias", rows, width, worst);
    release({ a.y, a.bias });
}


static void
check_swiglu(uint32_t rows, uint32_t ff_dim, int biased)
{
    int              good;
    double           g, u, worst;
    floats           gate_up, gb, ub;
    halves           got;
    doubles          want;
    uint32_t         i, r;
    mst_k_swiglu_t   a = {};

    gate_up = random_floats((size_t) rows * 2 * ff_dim, 9);
    gb = random_floats(ff_dim, 1);
    ub = random_floats(ff_dim, 1);
    a.gate_up = up(narrow(gate_up));

    for (r = 0; r < rows; r++) {
        for (i = 0; i < ff_dim; i++) {
            g = gate_up[(size_t) r * 2 * ff_dim + i] + (biased ? gb[i] : 0);
            u = gate_up[((size_t) r * 2 + 1) * ff_dim + i]
                + (biased ? ub[i] : 0);
            want.push_back(g / (1 + exp(-g)) * u);
        }
    }

    a.gate_bias = biased ? up(gb) : NULL;
    a.up_bias = biased ? up(ub) : NULL;
    a.y = poisoned<uint16_t>((size_t) rows * ff_dim);
    a.ff_dim = ff_dim;
    a.rows = rows;
    CHECK(mst_k_swiglu(&a, 0));

    got = download(a.y, (size_t) rows * ff_dim);
    good = kept(a.y, (size_t) rows * ff_dim);
    worst = distance(got, want, 1e-5);
    said(good && worst < 1.01, "swiglu", rows, ff_dim, worst);
    release({ a.gate_up, a.gate_bias, a.up_bias, a.y });
}


/* all types of a file beside the decoders of the CPU, the same numbers; scales
   are plain ones, as a checkpoint's are */

static void
check_load(mst_type_t type, uint32_t blocks)
{
    int                     good;
    floats                  want;
    halves                  got;
    size_t                  i, n;
    mst_k_load_t            a = {};
    std::vector<uint8_t>    file;
    const mst_type_info_t  *info;

    info = mst_type_info(type);
    n = (size_t) blocks * info->block;
    want.resize(n);
    file.resize((size_t) blocks * info->size);

    for (i = 0; i < file.size(); i++) {
        file[i] = (uint8_t) rnd(256);
    }

    /* of f16: neither infinite nor NaN; of others the two bytes on top */

    for (i = 0; i < file.size(); i += info->size) {
        file[i + 1] &= 0xbf;
        file[i + (info->block > 1 && info->size == 20 ? 3 : 1)] &= 0xbf;

        if (info->size == 4) {
            file[i + 3] = (uint8_t) (0x3f | rnd(2) << 7);
        }
    }

    CHECK(mst_quant_decode(type, file.data(), want.data(), n));

    a.type = (mst_k_load_type_t) type;
    a.from = up(file);
    a.to = poisoned<uint16_t>(n);
    a.n = n;
    CHECK(mst_k_load(&a, 0));
    got = download(a.to, n);
    good = kept(a.to, n);

    for (i = 0; i < n; i++) {
        good = good && f32_of(got[i]) == f32_of(bf16_of(want[i]));
    }

    said(good, info->name, blocks, info->block, 0);
    release({ a.from, a.to });
}


/* two sequences whose blocks lie in any order, and a row that only fills */

struct sequences {
    ints    blocks, pos, seq, slot, table;
    floats  q_scale;

    sequences(const uint32_t *lens, float scale) : table(2)
    {
        for (uint32_t i = 0; i < 2; i++) {
            table[i] = (int32_t) blocks.size();

            for (uint32_t j = 0; j < lens[i]; j++) {
                if (j % MST_K_BLOCK == 0) {
                    blocks.push_back((int32_t) (9 - blocks.size()));
                }

                add(j, i, blocks.back() * MST_K_BLOCK + j % MST_K_BLOCK,
                    scale * (1 + j % 3));
            }
        }

        add(0, 1, -1, 0);
    }

    void add(int32_t at, int32_t of, int32_t to, float scale)
    {
        pos.push_back(at);
        seq.push_back(of);
        slot.push_back(to);
        q_scale.push_back(scale);
    }
};


/* pairs that rotate are turned, all else is as it was: in the rows, and of
   keys and values in the blocks, where nothing else was written */

static void
check_turned(const mst_k_plain_t &a, const floats &qkv, const floats &turns,
    const ints &slot, const halves &rows)
{
    int      good;
    double   cs, d, sn, want, worst;
    size_t   at, c, dim, j, row, size, width;
    halves   kv;
    ints     written(10 * a.block_stride);

    dim = a.head_dim;
    width = (a.n_heads + 2 * a.n_kv_heads) * dim;
    size = 10 * a.block_stride;
    kv = download(a.kv, size);
    good = kept(a.kv, size) && kept(a.qkv, a.rows * width);
    worst = 0;

    for (at = 0; at < a.rows * width; at++) {
        row = at / width;
        c = at % width / dim;
        j = at % dim;
        want = qkv[at];

        if (c < a.n_heads + a.n_kv_heads && j < a.rope_dim) {
            cs = turns[row * a.rope_dim + (j & ~1)];
            sn = turns[row * a.rope_dim + (j | 1)];
            want = j & 1 ? qkv[at - 1] * sn + qkv[at] * cs
                         : qkv[at] * cs - qkv[at + 1] * sn;
        }

        /* half a step of bf16, and float32's of the terms */

        d = fabs(f32_of(rows[at]) - want) / (fabs(want) * 0x1p-8 + 5e-7);
        worst = d <= worst ? worst : d;

        if (c >= a.n_heads && slot[row] >= 0) {
            c -= a.n_heads;
            c = slot[row] / MST_K_BLOCK * a.block_stride
                + (c * MST_K_BLOCK + slot[row] % MST_K_BLOCK) * dim + j;
            written[c] = 1;
            good = good && kv[c] == rows[at];
        }
    }

    for (at = 0; at < size; at++) {
        good = good && (written[at] || kv[at] == 0xffff);
    }

    said(good && worst < 1.01, "rotations", a.n_heads, a.head_dim, worst);
}


/* of the rows as they were turned */

static void
check_attended(const mst_k_plain_t &a, const sequences &q, const halves &rows,
    const halves &got)
{
    int      good;
    double   most, s, sum;
    size_t   at, c, d, dim, first, i, n, width;
    halves   one;
    double   worst;

    dim = a.head_dim;
    width = (a.n_heads + 2 * a.n_kv_heads) * dim;
    good = kept(a.out, (size_t) a.rows * a.n_heads * dim);
    worst = 0;

    for (i = 0; i + 1 < a.rows; i++) {
        first = a.window && q.pos[i] >= (int32_t) a.window
                ? i - a.window + 1 : i - q.pos[i];

        for (c = 0; c < a.n_heads; c++) {
            doubles  out(dim), scores;

            at = (a.n_heads + c / (a.n_heads / a.n_kv_heads)) * dim;
            most = -INFINITY;
            sum = 0;

            for (n = first; n <= i; n++) {
                for (d = 0, s = 0; d < dim; d++) {
                    s += (double) f32_of(rows[i * width + c * dim + d])
                         * f32_of(rows[n * width + at + d]) * q.q_scale[i];
                }

                scores.push_back(s);
                most = std::max(most, s);
            }

            for (n = first; n <= i; n++) {
                s = exp(scores[n - first] - most);
                sum += s;

                for (d = 0; d < dim; d++) {
                    out[d] += s * f32_of(rows[n * width + at
                                              + a.n_kv_heads * dim + d]);
                }
            }

            for (d = 0; d < dim; d++) {
                out[d] /= sum;
            }

            one.assign(got.begin() + (i * a.n_heads + c) * dim,
                       got.begin() + (i * a.n_heads + c + 1) * dim);
            s = distance(one, out, 4e-4);
            worst = s <= worst ? worst : s;
        }
    }

    said(good && worst < 1.1, "attention", a.n_heads, a.head_dim, worst);
}


static void
check_plain(uint32_t heads, uint32_t kv_heads, uint32_t dim,
    uint32_t rope_dim, uint32_t window, const uint32_t *lens)
{
    size_t          size, width;
    floats          qkv, turns;
    halves          rows;
    sequences       q(lens, 1 / sqrtf((float) dim));
    mst_k_plain_t   a = {};

    width = (heads + 2 * kv_heads) * dim;
    size = q.pos.size() * width;
    qkv = random_floats(size, 2);
    turns = random_floats(q.pos.size() * rope_dim, 1);
    rows = narrow(qkv);

    a.step.pos = up(q.pos);
    a.step.seq = up(q.seq);
    a.step.slot = up(q.slot);
    a.step.q_scale = up(q.q_scale);
    a.step.seq_table = up(q.table);
    a.step.blocks = up(q.blocks);
    a.qkv = up(rows);
    a.turns = up(turns);
    a.block_stride = (uint64_t) 2 * kv_heads * MST_K_BLOCK * dim;
    a.kv = poisoned<uint16_t>(10 * a.block_stride);
    a.out = poisoned<uint16_t>(q.pos.size() * heads * dim);
    a.rows = (uint32_t) q.pos.size();
    a.n_heads = heads;
    a.n_kv_heads = kv_heads;
    a.head_dim = dim;
    a.rope_dim = rope_dim;
    a.window = window;
    CHECK(mst_k_plain_rope(&a, 0));
    CHECK(mst_k_plain_attn(&a, 0));

    rows = download(a.qkv, size);
    check_turned(a, qkv, turns, q.slot, rows);
    check_attended(a, q, rows, download(a.out, q.pos.size() * heads * dim));

    release({ a.step.pos, a.step.seq, a.step.slot, a.step.q_scale,
              a.step.seq_table, a.step.blocks, a.qkv, a.turns, a.kv, a.out });
}


int
main(int argc, char **argv)
{
    int  k, quick;

    static const uint32_t  lens[][2] = { { 1, 1 }, { 64, 65 }, { 130, 7 } };

    quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    verbose = argc > 1 && !quick;

    if (!device_found(0)) {
        printf("skipped: no CUDA device\n");
        return 0;
    }

    for (int32_t far : { 0, 1, 4095, 32767, 131071, 1048575, 2097151 }) {
        check_embed(1, 8, 2, far);
        check_embed(37, 100, 40, far);
        check_embed(200, 64, 128, far);
    }

    for (uint32_t dim : { 1u, 3u, 16u, 66u, 576u, 2044u, 4096u, 9000u }) {
        check_norm(1, dim, 0);
        check_norm(33, dim, 0);
        check_norm(33, dim, 1);
        check_sum(1, dim, 0, 0);
        check_sum(33, dim, 1, 0);
        check_sum(33, dim, 1, 1);
        check_bias(3, dim, dim, 0);
        check_bias(17, dim, dim + 5, 1);
        check_swiglu(1, dim, 0);
        check_swiglu(19, dim, 1);
    }

    for (mst_type_t type : { MST_TYPE_F32, MST_TYPE_F16, MST_TYPE_BF16,
                             MST_TYPE_Q4_0, MST_TYPE_Q4_1, MST_TYPE_Q8_0 })
    {
        check_load(type, 1);
        check_load(type, 37);
        check_load(type, quick ? 999 : 99999);
    }

    for (k = 0; k < 3; k++) {
        check_plain(4, 4, 16, 16, 0, lens[k]);
        check_plain(6, 2, 40, 40, 33, lens[k]);
        check_plain(5, 1, 2, 2, 2, lens[k]);
        check_plain(8, 1, 128, 64, 0, lens[k]);
        check_plain(2, 2, 256, 256, 64, lens[k]);
    }

    printf("%d passed, %d failed\n", passed, failed);

    return failed != 0;
}


/*
 * Element types and block layouts: see mst_quant.h.
 *
 * Written to be read, not to be fast: the truth that kernels are tested
 * against.  Any thread.
 */

#include <string.h>

#include "file/mst_quant.h"

#define MST_QUANT_BLOCK  32        /* elements of a Q4_0 .. Q8_0 block */
#define MST_QUANT_SUPER  256       /* of a Q4_K, Q5_K, Q6_K block */


typedef void (*mst_quant_decode_pt)(const unsigned char *src, float *y);


typedef struct {
    uint32_t             type;     /* mst_type_t */
    mst_type_info_t      info;
    mst_quant_decode_pt  decode;   /* one block */
} mst_quant_format_t;


static void mst_quant_f32(const unsigned char *src, float *y);
static void mst_quant_f16(const unsigned char *src, float *y);
static void mst_quant_bf16(const unsigned char *src, float *y);
static void mst_quant_q4_0(const unsigned char *src, float *y);
static void mst_quant_q4_1(const unsigned char *src, float *y);
static void mst_quant_q5_0(const unsigned char *src, float *y);
static void mst_quant_q5_1(const unsigned char *src, float *y);
static void mst_quant_q8_0(const unsigned char *src, float *y);
static void mst_quant_q4_k(const unsigned char *src, float *y);
static void mst_quant_q5_k(const unsigned char *src, float *y);
static void mst_quant_q6_k(const unsigned char *src, float *y);


static const mst_quant_format_t  mst_quant_formats[] = {
    { MST_TYPE_F32, { "F32", 1, 4 }, mst_quant_f32 },
    { MST_TYPE_F16, { "F16", 1, 2 }, mst_quant_f16 },
    { MST_TYPE_BF16, { "BF16", 1, 2 }, mst_quant_bf16 },
    { MST_TYPE_Q4_0, { "Q4_0", 32, 18 }, mst_quant_q4_0 },
    { MST_TYPE_Q4_1, { "Q4_1", 32, 20 }, mst_quant_q4_1 },
    { MST_TYPE_Q5_0, { "Q5_0", 32, 22 }, mst_quant_q5_0 },
    { MST_TYPE_Q5_1, { "Q5_1", 32, 24 }, mst_quant_q5_1 },
    { MST_TYPE_Q8_0, { "Q8_0", 32, 34 }, mst_quant_q8_0 },
    { MST_TYPE_Q4_K, { "Q4_K", 256, 144 }, mst_quant_q4_k },
    { MST_TYPE_Q5_K, { "Q5_K", 256, 176 }, mst_quant_q5_k },
    { MST_TYPE_Q6_K, { "Q6_K", 256, 210 }, mst_quant_q6_k }
};


/* by GGUF's number; a hole is a type that was withdrawn */
static const char *const  mst_quant_names[] = {
    "F32", "F16", "Q4_0", "Q4_1", NULL, NULL, "Q5_0", "Q5_1", "Q8_0", "Q8_1",
    "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16",
    "I32", "I64", "F64", "IQ1_M", "BF16", NULL, NULL, NULL, "TQ1_0", "TQ2_0",
    NULL, NULL, NULL, "MXFP4", "NVFP4"
};


static const mst_quant_format_t *
mst_quant_format(uint32_t type)
{
    size_t  i;

    for (i = 0; i < sizeof(mst_quant_formats) / sizeof(*mst_quant_formats);
         i++)
    {
        if (mst_quant_formats[i].type == type) {
            return &mst_quant_formats[i];
        }
    }

    return NULL;
}


const mst_type_info_t *
mst_type_info(uint32_t type)
{
    const mst_quant_format_t  *f;

    f = mst_quant_format(type);

    return f ? &f->info : NULL;
}


const char *
mst_type_name(uint32_t type)
{
    if (type >= sizeof(mst_quant_names) / sizeof(*mst_quant_names)
        || mst_quant_names[type] == NULL)
    {
        return "unknown";
    }

    return mst_quant_names[type];
}


static uint32_t
mst_quant_bits(float f)
{
    uint32_t  u;

    memcpy(&u, &f, sizeof(u));

    return u;
}


static float
mst_quant_float(uint32_t u)
{
    float  f;

    memcpy(&f, &u, sizeof(f));

    return f;
}


float
mst_f16_to_f32(uint16_t h)
{
    int       e;
    uint32_t  sign, exp, frac;

    sign = (uint32_t) (h & 0x8000) << 16;
    exp = (h >> 10) & 0x1f;
    frac = h & 0x3ff;

    if (exp == 31) {
        return mst_quant_float(sign | 0x7f800000 | frac << 13);
    }

    if (exp != 0) {
        return mst_quant_float(sign | (exp + 127 - 15) << 23 | frac << 13);
    }

    if (frac == 0) {
        return mst_quant_float(sign);
    }

    /* subnormal: frac * 2^-24, shifted until its leading one is implied */

    for (e = 127 - 14; (frac & 0x400) == 0; e--) {
        frac <<= 1;
    }

    return mst_quant_float(sign | (uint32_t) e << 23 | (frac & 0x3ff) << 13);
}


uint16_t
mst_f32_to_f16(float f)
{
    int       shift;
    uint32_t  u, sign, frac, half, rest;

    u = mst_quant_bits(f);
    sign = (u >> 16) & 0x8000;
    u &= 0x7fffffff;

    if (u > 0x7f800000) {
        frac = (u >> 13) & 0x3ff;
        return (uint16_t) (sign | 0x7c00 | (frac ? frac : 0x200));
    }

    if (u >= 0x477ff000) {                     /* 65520 rounds to infinity */
        return (uint16_t) (sign | 0x7c00);
    }

    if (u < 0x33000000) {                      /* below 2^-25: zero */
        return (uint16_t) sign;
    }

    if (u >= 0x38800000) {                     /* 2^-14: normal */
        shift = 13;
        frac = u - ((127 - 15) << 23);

    } else {
        shift = 126 - (int) (u >> 23);
        frac = (u & 0x7fffff) | 0x800000;
    }

    half = frac >> shift;
    rest = frac & ((1u << shift) - 1);

    if (rest > 1u << (shift - 1)
        || (rest == 1u << (shift - 1) && (half & 1)))
    {
        half++;                                /* may carry into the exponent */
    }

    return (uint16_t) (sign | half);
}


float
mst_bf16_to_f32(uint16_t h)
{
    return mst_quant_float((uint32_t) h << 16);
}


uint16_t
mst_f32_to_bf16(float f)
{
    uint32_t  u;

    u = mst_quant_bits(f);

    if ((u & 0x7fffffff) > 0x7f800000) {

        /* rounding could make an infinity of a NaN */

        u >>= 16;
        return (uint16_t) ((u & 0x7f) ? u : u | 0x40);
    }

    return (uint16_t) ((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}


static uint16_t
mst_quant_u16(const unsigned char *p)
{
    return (uint16_t) (p[0] | p[1] << 8);
}


static void
mst_quant_f32(const unsigned char *src, float *y)
{
    *y = mst_quant_float(mst_quant_u16(src)
                         | (uint32_t) mst_quant_u16(src + 2) << 16);
}


static void
mst_quant_f16(const unsigned char *src, float *y)
{
    *y = mst_f16_to_f32(mst_quant_u16(src));
}


static void
mst_quant_bf16(const unsigned char *src, float *y)
{
    *y = mst_bf16_to_f32(mst_quant_u16(src));
}


/* d, then 16 bytes: low nibbles are elements 0 .. 15, high ones 16 .. 31 */

static void
mst_quant_q4_0(const unsigned char *src, float *y)
{
    int    j;
    float  d;

    d = mst_f16_to_f32(mst_quant_u16(src));
    src += 2;

    for (j = 0; j < MST_QUANT_BLOCK / 2; j++) {
        y[j] = (float) ((src[j] & 15) - 8) * d;
        y[j + MST_QUANT_BLOCK / 2] = (float) ((src[j] >> 4) - 8) * d;
    }
}


/* d, m, then nibbles as in Q4_0 */

static void
mst_quant_q4_1(const unsigned char *src, float *y)
{
    int    j;
    float  d, m;

    d = mst_f16_to_f32(mst_quant_u16(src));
    m = mst_f16_to_f32(mst_quant_u16(src + 2));
    src += 4;

    for (j = 0; j < MST_QUANT_BLOCK / 2; j++) {
        y[j] = (float) (src[j] & 15) * d + m;
        y[j + MST_QUANT_BLOCK / 2] = (float) (src[j] >> 4) * d + m;
    }
}


/* 32 bits, then nibbles as in Q4_0: element i has bit i above its nibble */

static int
mst_quant_five(const unsigned char *p, int i)
{
    int  q;

    q = p[4 + i % 16];
    q = i < 16 ? q & 15 : q >> 4;

    return q | (p[i / 8] >> i % 8 & 1) << 4;
}


static void
mst_quant_q5_0(const unsigned char *src, float *y)
{
    int    i;
    float  d;

    d = mst_f16_to_f32(mst_quant_u16(src));

    for (i = 0; i < MST_QUANT_BLOCK; i++) {
        y[i] = (float) (mst_quant_five(src + 2, i) - 16) * d;
    }
}


static void
mst_quant_q5_1(const unsigned char *src, float *y)
{
    int    i;
    float  d, m;

    d = mst_f16_to_f32(mst_quant_u16(src));
    m = mst_f16_to_f32(mst_quant_u16(src + 2));

    for (i = 0; i < MST_QUANT_BLOCK; i++) {
        y[i] = (float) mst_quant_five(src + 4, i) * d + m;
    }
}


/* d, then 32 signed bytes */

static void
mst_quant_q8_0(const unsigned char *src, float *y)
{
    int    j;
    float  d;

    d = mst_f16_to_f32(mst_quant_u16(src));
    src += 2;

    for (j = 0; j < MST_QUANT_BLOCK; j++) {
        y[j] = (float) (signed char) src[j] * d;
    }
}


/* scale and min of sub-block j, 6 bits each, of 12 bytes: the first four have
   a byte each; the lower bits of the others share a byte, and their upper two
   stand above the first four's */

void
mst_quant_k_scales(const unsigned char *p, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = p[j] & 63;
        *min = p[j + 4] & 63;

    } else {
        *scale = (p[j + 4] & 15) | (p[j - 4] >> 6) << 4;
        *min = (p[j + 4] >> 4) | (p[j] >> 6) << 4;
    }
}


/* d, dmin, 12 bytes of scales and mins for 8 sub-blocks of 32, with high != 0
   a fifth bit of the elements, 32 bytes of which bit j belongs to sub-block j,
   then nibbles: 32 bytes hold two sub-blocks, the first one in the lower
   halves */

static void
mst_quant_q45_k(const unsigned char *src, float *y, int high)
{
    int                   i, j, min, q, scale;
    float                 d, dmin;
    const unsigned char  *p;

    d = mst_f16_to_f32(mst_quant_u16(src));
    dmin = mst_f16_to_f32(mst_quant_u16(src + 2));

    for (j = 0; j < 8; j++) {
        mst_quant_k_scales(src + 4, j, &scale, &min);

        p = src + 16 + high * 32 + j / 2 * 32;

        for (i = 0; i < 32; i++) {
            q = j % 2 ? p[i] >> 4 : p[i] & 15;
            q |= high ? (src[16 + i] >> j & 1) << 4 : 0;
            y[j * 32 + i] = (float) q * (d * (float) scale)
                            - dmin * (float) min;
        }
    }
}


static void
mst_quant_q4_k(const unsigned char *src, float *y)
{
    mst_quant_q45_k(src, y, 0);
}


static void
mst_quant_q5_k(const unsigned char *src, float *y)
{
    mst_quant_q45_k(src, y, 1);
}


/* 128 bytes of lower 4 bits, 64 of upper 2, 16 signed scales of 16 elements
   each, d.  Both halves of 128 elements are alike: of each 64 bytes the lower
   halves are elements 0 .. 63; of each 32 bytes the lowest two bits are those
   of elements 0 .. 31 */

static void
mst_quant_q6_k(const unsigned char *src, float *y)
{
    int                   h, i, q;
    float                 d;
    const unsigned char  *low, *high, *scales;

    d = mst_f16_to_f32(mst_quant_u16(src + 208));

    for (h = 0; h < 2; h++) {
        low = src + 64 * h;
        high = src + 128 + 32 * h;
        scales = src + 192 + 8 * h;

        for (i = 0; i < MST_QUANT_SUPER / 2; i++) {
            q = (low[i % 64] >> (i / 64 * 4) & 15)
                | (high[i % 32] >> (i / 32 * 2) & 3) << 4;

            *y++ = (float) (q - 32)
                   * (d * (float) (signed char) scales[i / 16]);
        }
    }
}


int
mst_quant_decode(mst_type_t type, const void *src, float *y, size_t n)
{
    const unsigned char       *p;
    const mst_quant_format_t  *f;

    f = mst_quant_format(type);

    if (f == NULL) {
        return MST_DECLINED;
    }

    if (n % f->info.block) {
        return MST_ERROR;
    }

    for (p = src; n; n -= f->info.block) {
        f->decode(p, y);
        p += f->info.size;
        y += f->info.block;
    }

    return MST_OK;
}

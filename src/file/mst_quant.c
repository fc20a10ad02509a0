
/*
 * Element types and block layouts: see mst_quant.h.
 *
 * Written to be read, not to be fast: the truth that kernels are tested
 * against.  Any thread.
 */

#include <string.h>

#include "file/mst_quant.h"

#define MST_QUANT_BLOCK  32        /* elements of a Q4_0, Q4_1, Q8_0 block */


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
static void mst_quant_q8_0(const unsigned char *src, float *y);


static const mst_quant_format_t  mst_quant_formats[] = {
    { MST_TYPE_F32, { "F32", 1, 4 }, mst_quant_f32 },
    { MST_TYPE_F16, { "F16", 1, 2 }, mst_quant_f16 },
    { MST_TYPE_BF16, { "BF16", 1, 2 }, mst_quant_bf16 },
    { MST_TYPE_Q4_0, { "Q4_0", 32, 18 }, mst_quant_q4_0 },
    { MST_TYPE_Q4_1, { "Q4_1", 32, 20 }, mst_quant_q4_1 },
    { MST_TYPE_Q8_0, { "Q8_0", 32, 34 }, mst_quant_q8_0 }
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

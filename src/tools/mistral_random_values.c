
/*
 * The numbers of a random model: see mistral_random_local.h.
 */

#include <string.h>

#include "tools/mistral_random_local.h"


/* what makes random bits about -a .. a: f16 at these bytes of a block, of a
   times these factors */

typedef struct {
    mst_type_t   type;
    uint32_t     scale;
    float        factor;
    uint32_t     min;              /* 0 = none */
    float        min_factor;
} mistral_random_scale_t;

static const mistral_random_scale_t  mistral_random_scales[] = {
    { MST_TYPE_Q4_0, 0, 1 / 8.0f, 0, 0 },
    { MST_TYPE_Q4_1, 0, 1 / 7.5f, 2, -1 },
    { MST_TYPE_Q5_0, 0, 1 / 16.0f, 0, 0 },
    { MST_TYPE_Q5_1, 0, 1 / 15.5f, 2, -1 },
    { MST_TYPE_Q8_0, 0, 1 / 128.0f, 0, 0 },
    { MST_TYPE_Q4_K, 0, 1 / 360.0f, 2, 1 / 48.0f },
    { MST_TYPE_Q5_K, 0, 1 / 720.0f, 2, 1 / 48.0f },
    { MST_TYPE_Q6_K, 208, 1 / 2400.0f, 0, 0 }
};


static const mistral_random_scale_t *
mistral_random_scale(mst_type_t type)
{
    size_t  i;

    for (i = 0;
         i < sizeof(mistral_random_scales) / sizeof(mistral_random_scales[0]);
         i++)
    {
        if (mistral_random_scales[i].type == type) {
            return &mistral_random_scales[i];
        }
    }

    return NULL;
}


int
mistral_random_able(mst_type_t type)
{
    return type == MST_TYPE_F32 || type == MST_TYPE_F16
           || type == MST_TYPE_BF16 || mistral_random_scale(type) != NULL;
}


/* splitmix64: 64 bits for each count */

static inline uint64_t
mistral_random_bits(uint64_t *state)
{
    uint64_t  z;

    *state += 0x9e3779b97f4a7c15ull;
    z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;

    return z ^ z >> 31;
}


/* one element of a type that is no block; returns where the next begins */

static unsigned char *
mistral_random_put(mst_type_t type, float f, unsigned char *p)
{
    uint16_t  h;

    if (type == MST_TYPE_F32) {
        memcpy(p, &f, 4);
        return p + 4;
    }

    h = type == MST_TYPE_BF16 ? mst_f32_to_bf16(f) : mst_f32_to_f16(f);
    memcpy(p, &h, 2);

    return p + 2;
}


static void
mistral_random_floats(mst_type_t type, uint64_t *state, float a, uint32_t n,
    unsigned char *p)
{
    uint32_t  i;
    uint64_t  bits;

    bits = 0;

    for (i = 0; i < n; i++) {

        if (i % 4 == 0) {
            bits = mistral_random_bits(state);
        }

        p = mistral_random_put(type, (float) (int16_t) bits * (a / 32768), p);
        bits >>= 16;
    }
}


static void
mistral_random_blocks(mst_type_t type, uint64_t *state, float a, uint32_t n,
    unsigned char *p)
{
    uint16_t                       h;
    uint32_t                       i, k;
    uint64_t                       bits;
    const mst_type_info_t         *info;
    const mistral_random_scale_t  *s;

    info = mst_type_info(type);
    s = mistral_random_scale(type);

    for (i = 0; i < n; i += info->block, p += info->size) {

        for (k = 0; k < info->size; k += 8) {
            bits = mistral_random_bits(state);
            memcpy(p + k, &bits, info->size - k < 8 ? info->size - k : 8);
        }

        h = mst_f32_to_f16(a * s->factor);
        memcpy(p + s->scale, &h, 2);

        if (s->min) {
            h = mst_f32_to_f16(a * s->min_factor);
            memcpy(p + s->min, &h, 2);
        }
    }
}


void
mistral_random_values(mst_type_t type, uint64_t *state, float a, uint32_t n,
    unsigned char *p)
{
    if (mst_type_info(type)->block == 1) {
        mistral_random_floats(type, state, a, n, p);
    } else {
        mistral_random_blocks(type, state, a, n, p);
    }
}


void
mistral_random_ones(mst_type_t type, uint32_t n, unsigned char *p)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        p = mistral_random_put(type, 1, p);
    }
}

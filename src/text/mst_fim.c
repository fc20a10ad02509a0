
/*
 * Filling in the middle: see mst_fim.h.
 */

#include "text/mst_fim.h"


/* dropped with its SentencePiece space: what follows it has none */
#define MST_FIM_SMILE  "\xe2\x98\xba"


typedef struct {
    int64_t  bos;
    int64_t  suffix;
    int64_t  prefix;
} mst_fim_t;


static int
mst_fim_find(const mst_tokenizer_t *t, mst_fim_t *f)
{
    f->bos = mst_tokenizer_info(t)->bos_id;
    f->suffix = mst_tokenizer_control(t, "[SUFFIX]");
    f->prefix = mst_tokenizer_control(t, "[PREFIX]");

    return f->bos >= 0 && f->suffix >= 0 && f->prefix >= 0;
}


/* ids of the smile alone: two in Mistral's vocabularies */

static int
mst_fim_smile(const mst_tokenizer_t *t, uint32_t *n)
{
    int            rc;
    size_t         len;
    mst_prompt_t   p;
    mst_encode_t  *e;

    mst_prompt_init(&p);

    rc = mst_prompt_text(&p, MST_FIM_SMILE, sizeof(MST_FIM_SMILE) - 1);
    e = rc == MST_OK ? mst_encode_create(t, &p) : NULL;

    if (e && mst_encode_run(e, SIZE_MAX) == MST_OK) {
        (void) mst_encode_ids(e, &len);
        *n = (uint32_t) len;

    } else {
        rc = MST_ERROR;
    }

    mst_encode_destroy(e);
    mst_prompt_fini(&p);

    return rc;
}


int
mst_fim_can(const mst_tokenizer_t *t)
{
    mst_fim_t  f;

    return mst_fim_find(t, &f);
}


int
mst_fim_render(const mst_tokenizer_t *t, mst_str_t prompt, mst_str_t suffix,
    mst_prompt_t *out)
{
    uint32_t   n;
    mst_fim_t  f;

    if (!mst_fim_find(t, &f)
        || mst_fim_smile(t, &n) != MST_OK
        || mst_prompt_control(out, (uint32_t) f.bos) != MST_OK
        || mst_prompt_control(out, (uint32_t) f.suffix) != MST_OK)
    {
        return MST_ERROR;
    }

    if (suffix.len) {
        mst_prompt_part(out, 0, n);

        if (mst_prompt_text(out, MST_FIM_SMILE, sizeof(MST_FIM_SMILE) - 1)
            != MST_OK
            || mst_prompt_text(out, suffix.data, suffix.len) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_prompt_control(out, (uint32_t) f.prefix) != MST_OK) {
        return MST_ERROR;
    }

    mst_prompt_part(out, 0, 0);

    return mst_prompt_text(out, prompt.data, prompt.len);
}

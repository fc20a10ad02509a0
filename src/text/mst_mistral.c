
/*
 * Chats in Mistral's own formats: see mst_mistral.h.
 */

#include <string.h>

#include "text/mst_mistral.h"
#include "text/mst_tekken.h"


#define MST_MISTRAL_MEMORY  33554432       /* bytes, beside the chat's */
#define MST_MISTRAL_FACTOR  8              /* bytes for one of the chat's */
#define MST_MISTRAL_STEPS   8000000


static const struct {
    const char  *name;
    uint32_t     from;         /* versions that have it */
    uint32_t     to;
} mst_mistral_tokens[MST_MISTRAL_TOKENS] = {
    [MST_MISTRAL_INST] = { "[INST]", 2, 99 },
    [MST_MISTRAL_INST_END] = { "[/INST]", 2, 99 },
    [MST_MISTRAL_CALLS] = { "[TOOL_CALLS]", 2, 99 },
    [MST_MISTRAL_TOOLS] = { "[AVAILABLE_TOOLS]", 2, 99 },
    [MST_MISTRAL_TOOLS_END] = { "[/AVAILABLE_TOOLS]", 2, 99 },
    [MST_MISTRAL_RESULTS] = { "[TOOL_RESULTS]", 2, 99 },
    [MST_MISTRAL_RESULTS_END] = { "[/TOOL_RESULTS]", 2, 99 },
    [MST_MISTRAL_SYSTEM] = { "[SYSTEM_PROMPT]", 7, 99 },
    [MST_MISTRAL_SYSTEM_END] = { "[/SYSTEM_PROMPT]", 7, 99 },
    [MST_MISTRAL_CONTENT] = { "[TOOL_CONTENT]", 7, 11 },
    [MST_MISTRAL_CALL_ID] = { "[CALL_ID]", 11, 11 },
    [MST_MISTRAL_ARGS] = { "[ARGS]", 11, 99 },
    [MST_MISTRAL_SETTINGS] = { "[MODEL_SETTINGS]", 15, 99 },
    [MST_MISTRAL_SETTINGS_END] = { "[/MODEL_SETTINGS]", 15, 99 },

    /* not every vocabulary of these versions has them */

    [MST_MISTRAL_THINK] = { "[THINK]", 0, 0 },
    [MST_MISTRAL_THINK_END] = { "[/THINK]", 0, 0 }
};

static const char *const  mst_mistral_efforts[] = { MST_TEKKEN_EFFORTS };


static int
mst_mistral_known(uint32_t version)
{
    size_t  i;

    static const uint32_t  versions[] = { 1, 2, 3, 7, 11, 13, 15 };

    for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {

        if (versions[i] == version) {
            return 1;
        }
    }

    return 0;
}


static void
mst_mistral_settings(mst_mistral_t *f, const mst_tokenizer_t *t)
{
    const mst_tokenizer_info_t  *info;

    info = mst_tokenizer_info(t);

    if (f->version >= 15) {
        f->efforts = info->efforts;
        f->effort = info->effort;
    }
}


int
mst_mistral_init(mst_mistral_t *f, uint32_t version,
    const mst_tokenizer_t *t, mst_err_t *err)
{
    size_t  i;

    memset(f, 0, sizeof(mst_mistral_t));
    f->version = version;

    if (!mst_mistral_known(version)
        || (version > 7 && mst_tokenizer_is_spm(t)))
    {
        return mst_err_set(err, "chats in Mistral's format of version %u%s "
                           "are not supported%s", version,
                           mst_mistral_known(version)
                           ? " with a SentencePiece model" : "",
                           mst_mistral_known(version)
                           ? "" : ", those of 1, 2, 3, 7, 11, 13 and 15 are");
    }

    f->ids[MST_MISTRAL_BOS] = mst_tokenizer_info(t)->bos_id;
    f->ids[MST_MISTRAL_EOS] = mst_tokenizer_info(t)->eos_id;

    if (f->ids[MST_MISTRAL_BOS] < 0 || f->ids[MST_MISTRAL_EOS] < 0) {
        return mst_err_set(err, "the vocabulary has no tokens that begin and "
                           "end a text, which Mistral's formats need");
    }

    for (i = MST_MISTRAL_INST; i < MST_MISTRAL_TOKENS; i++) {
        f->ids[i] = mst_tokenizer_control(t, mst_mistral_tokens[i].name);

        if (f->ids[i] < 0 && version >= mst_mistral_tokens[i].from
            && version <= mst_mistral_tokens[i].to)
        {
            return mst_err_set(err, "the vocabulary has no control token "
                               "\"%s\", which Mistral's format of version "
                               "%u needs", mst_mistral_tokens[i].name,
                               version);
        }
    }

    mst_mistral_settings(f, t);

    return MST_OK;
}


int
mst_mistral_render(const mst_mistral_t *f, const mst_template_chat_t *c,
    mst_prompt_t *out, mst_err_t *err)
{
    int                   rc;
    size_t                i, k, size;
    mst_work_t            w;
    mst_mistral_turns_t   turns;

    if (c->variables.len) {
        return mst_err_set(err, "chat_template_kwargs are for templates that "
                           "have variables, which Mistral's own formats have "
                           "not");
    }

    rc = mst_mistral_check(f, c, err);

    if (rc != MST_OK) {
        return rc;
    }

    size = c->tools.len;

    for (i = 0; i < c->n; i++) {
        size += c->messages[i].content.len + c->messages[i].thinking.len
                + sizeof(mst_message_t);

        for (k = 0; k < c->messages[i].n_calls; k++) {
            size += c->messages[i].calls[k].arguments.len;
        }

        size += c->messages[i].n_parts * sizeof(mst_part_t);
    }

    mst_work_init(&w, MST_MISTRAL_MEMORY + MST_MISTRAL_FACTOR * size,
                  MST_MISTRAL_STEPS, err);

    rc = mst_mistral_turns(f, c, &w, &turns);

    if (rc == MST_OK) {
        rc = mst_mistral_write(f, c, &w, &turns, out);
    }

    mst_work_fini(&w);

    return rc;
}


int
mst_mistral_effort(mst_str_t name)
{
    int  i;

    for (i = 0; i < (int) (sizeof(mst_mistral_efforts) / sizeof(char *));
         i++)
    {
        if (mst_str_eq(name, mst_mistral_efforts[i])) {
            return i;
        }
    }

    return -1;
}


const char *
mst_mistral_effort_name(int effort)
{
    return mst_mistral_efforts[effort];
}

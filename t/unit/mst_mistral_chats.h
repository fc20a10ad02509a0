
/*
 * Chats in Mistral's formats for tests: tokenizers of every version, and
 * bodies that go the way of a client's, through the API's parser.
 *
 * The wheel's tekken.json stops at version 3; with a list of control tokens
 * of the later ones it is a tokenizer of those.
 */

#ifndef MST_MISTRAL_CHATS_H
#define MST_MISTRAL_CHATS_H

#include "mst_golden_text.h"

#include "api/mst_request.h"
#include "text/mst_mistral.h"

#define CHATS_SPM  4


typedef struct {
    mst_tokenizer_t  *spm[CHATS_SPM];      /* of versions 1, 2, 3, 7 */
    mst_tokenizer_t  *tekken;
} chats_t;

static const uint32_t  chats_versions[CHATS_SPM] = { 1, 2, 3, 7 };


/* control tokens by rank; others are fillers */

static inline const char *
chats_special(int rank)
{
    int  i;

    static const struct {
        int          rank;
        const char  *name;
    } names[] = {
        { 0, "<unk>" }, { 1, "<s>" }, { 2, "</s>" }, { 3, "[INST]" },
        { 4, "[/INST]" }, { 5, "[AVAILABLE_TOOLS]" },
        { 6, "[/AVAILABLE_TOOLS]" }, { 7, "[TOOL_RESULTS]" },
        { 8, "[/TOOL_RESULTS]" }, { 9, "[TOOL_CALLS]" }, { 10, "[IMG]" },
        { 11, "<pad>" }, { 12, "[IMG_BREAK]" }, { 13, "[IMG_END]" },
        { 14, "[PREFIX]" }, { 15, "[MIDDLE]" }, { 16, "[SUFFIX]" },
        { 17, "[SYSTEM_PROMPT]" }, { 18, "[/SYSTEM_PROMPT]" },
        { 19, "[TOOL_CONTENT]" }, { 32, "[ARGS]" }, { 33, "[CALL_ID]" },
        { 35, "[THINK]" }, { 36, "[/THINK]" }, { 37, "[MODEL_SETTINGS]" },
        { 38, "[/MODEL_SETTINGS]" }
    };

    for (i = 0; i < (int) (sizeof(names) / sizeof(names[0])); i++) {

        if (names[i].rank == rank) {
            return names[i].name;
        }
    }

    return NULL;
}


/* the file's text with a version and a list of control tokens of its own;
   without parsing fifteen megabytes */

static inline char *
chats_tekken(size_t *len)
{
    int     i, n;
    char   *text, *all, *p;
    size_t  size;

    text = golden_read(TOKENIZERS "tekken_240718.json", &size);
    assert_int_equal(text[0], '{');

    p = strstr(text, "\"version\"");
    assert_non_null(p);
    p = strstr(p, "\"v3\"");
    assert_non_null(p);

    all = malloc(size + 100000);
    assert_non_null(all);

    /* ... "version": "v15" ..., and what the list is first */

    n = sprintf(all, "{\"model_settings_builder\": {\"reasoning_effort\": "
                "{\"type\": \"enum\", \"values\": [\"none\", \"high\"], "
                "\"accepts_none\": true, \"default\": \"none\"}}, "
                "\"special_tokens\": [");

    for (i = 0; i < 50; i++) {
        n += sprintf(all + n, "%s{\"rank\": %d, \"token_str\": \"", i ? ", "
                     : "", i);
        n += chats_special(i) ? sprintf(all + n, "%s", chats_special(i))
                              : sprintf(all + n, "<SPECIAL_%d>", i);
        n += sprintf(all + n, "\", \"is_control\": true}");
    }

    n += sprintf(all + n, "], ");
    memcpy(all + n, text + 1, (size_t) (p - text - 1));
    n += (int) (p - text - 1);
    n += sprintf(all + n, "\"v15\"");
    p += 4;
    memcpy(all + n, p, size - (size_t) (p - text));
    *len = (size_t) n + size - (size_t) (p - text);

    free(text);

    return all;
}


static inline void
chats_open(chats_t *c)
{
    int        i;
    char      *text;
    size_t     len;
    uint32_t   version;
    mst_err_t  err = { "" };

    static const char *const  files[CHATS_SPM] = {
        "tokenizer.model.v1", "mistral_instruct_tokenizer_240216.model.v2",
        "mistral_instruct_tokenizer_240323.model.v3",
        "mistral_instruct_tokenizer_241114.model.v7"
    };

    for (i = 0; i < CHATS_SPM; i++) {
        char  path[200];

        (void) snprintf(path, sizeof(path), TOKENIZERS "%s", files[i]);
        text = golden_read(path, &len);
        c->spm[i] = mst_tokenizer_create_spm(text, len, path, &err);
        free(text);

        if (c->spm[i] == NULL) {
            fail_msg("%s", err.text);
        }
    }

    text = chats_tekken(&len);
    c->tekken = mst_tokenizer_create_tekken(text, len, "tekken", &version,
                                            &err);
    free(text);

    if (c->tekken == NULL) {
        fail_msg("%s", err.text);
    }

    assert_int_equal(version, 15);
}


static inline void
chats_close(chats_t *c)
{
    int  i;

    for (i = 0; i < CHATS_SPM; i++) {
        mst_tokenizer_destroy(c->spm[i]);
    }

    mst_tokenizer_destroy(c->tekken);
}


static inline mst_tokenizer_t *
chats_tokenizer(const chats_t *c, int spm, uint32_t version)
{
    int  i;

    for (i = 0; spm && i < CHATS_SPM; i++) {

        if (chats_versions[i] == version) {
            return c->spm[i];
        }
    }

    return spm ? NULL : c->tekken;
}


/*
 * The body {"messages": ..., "tools": ..., ...} to spans.  MST_OK, or an
 * error with its sentence, the API's too.
 */

static inline int
chats_render(const mst_tokenizer_t *t, uint32_t version, const char *body,
    mst_prompt_t *p, mst_err_t *err)
{
    int                   rc;
    mst_mistral_t         f;
    mst_request_t        *r;
    mst_api_error_t       e;
    mst_template_chat_t   c;

    memset(&e, 0, sizeof(e));
    err->text[0] = '\0';
    mst_prompt_init(p);

    if (mst_mistral_init(&f, version, t, err) != MST_OK) {
        return MST_ERROR;
    }

    r = mst_request_parse(MST_API_CHAT, body, strlen(body), &e);

    if (r == NULL) {
        return mst_err_set(err, "%s", e.message);
    }

    memset(&c, 0, sizeof(c));

    c.messages = r->messages;
    c.n = r->n_messages;
    c.tools = r->tools.json;
    c.effort = r->effort;
    c.end = r->continue_last ? MST_TEMPLATE_CONTINUE
            : r->closed ? MST_TEMPLATE_CLOSED : MST_TEMPLATE_ANSWER;

    rc = mst_mistral_render(&f, &c, p, err);
    mst_request_destroy(r);

    return rc;
}


/* the ids of a prompt; the caller destroys the encoder */

static inline mst_encode_t *
chats_encode(const mst_tokenizer_t *t, const mst_prompt_t *p)
{
    mst_encode_t  *e;

    e = mst_encode_create(t, p);
    assert_non_null(e);
    assert_int_equal(mst_encode_run(e, SIZE_MAX), MST_OK);

    return e;
}


/* what the tests of a group share */

static chats_t  chats;


static inline int
chats_setup(void **state)
{
    (void) state;
    chats_open(&chats);

    return 0;
}


static inline int
chats_teardown(void **state)
{
    (void) state;
    chats_close(&chats);

    return 0;
}


#endif /* MST_MISTRAL_CHATS_H */


/*
 * A hostile chat in Mistral's own formats: a byte that says which version,
 * then a body.  What is refused has a sentence; what is rendered begins with
 * one <s>, its control tokens are the format's and no text makes another,
 * its texts are UTF-8, and a second time it is the same.  The first message
 * and the last one are a prefix and a suffix, too.
 */

#include "fuzz.h"

#include "api/mst_request.h"
#include "text/mst_fim.h"
#include "text/mst_mistral.h"
#include "text/mst_utf8.h"

#define SPECIALS  32
#define BYTES     256

#define PATTERN                                                               \
    "\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\"          \
    "\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\"          \
    "r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}"           \
    "\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| ?[^"          \
    "\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\"          \
    "s+(?!\\\\S)|\\\\s+\""


static const char *const  names[SPECIALS] = {
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]",
    "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
    "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "[MODEL_SETTINGS]",
    "[/MODEL_SETTINGS]", "<SPECIAL_26>", "<SPECIAL_27>", "<SPECIAL_28>",
    "<SPECIAL_29>", "<SPECIAL_30>", "<SPECIAL_31>"
};

static const uint32_t  versions[] = { 1, 2, 3, 7, 11, 13, 15 };


/* a tekken.json of bytes alone */

static mst_tokenizer_t *
fuzz_tokenizer(void)
{
    int               i;
    mst_buf_t         b;
    mst_err_t         err = { "" };
    uint32_t          version;
    mst_tokenizer_t  *t;

    static const char  digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789+/";

    mst_buf_init(&b);
    (void) mst_buf_printf(&b, "{\"config\":{\"pattern\":" PATTERN ","
                          "\"num_vocab_tokens\":%d,\"default_vocab_size\":%d,"
                          "\"default_num_special_tokens\":%d,"
                          "\"version\":\"v15\"},\"model_settings_builder\":"
                          "{\"reasoning_effort\":{\"type\":\"enum\","
                          "\"values\":[\"none\",\"high\"],\"accepts_none\":"
                          "true,\"default\":\"none\"}},\"vocab\":[", BYTES,
                          BYTES + SPECIALS, SPECIALS);

    for (i = 0; i < BYTES; i++) {
        (void) mst_buf_printf(&b, "%s{\"rank\":%d,\"token_bytes\":\"%c%c==\"}",
                              i ? "," : "", i, digits[i >> 2],
                              digits[(i & 3) << 4]);
    }

    (void) mst_buf_text(&b, "],\"special_tokens\":[");

    for (i = 0; i < SPECIALS; i++) {
        (void) mst_buf_printf(&b, "%s{\"rank\":%d,\"token_str\":\"%s\","
                              "\"is_control\":true}", i ? "," : "", i,
                              names[i]);
    }

    (void) mst_buf_text(&b, "]}");
    t = mst_tokenizer_create_tekken(b.data, b.len, "fuzz", &version, &err);

    if (t == NULL) {
        fprintf(stderr, "%s\n", err.text);
    }

    fuzz_check(t != NULL);
    mst_buf_fini(&b);

    return t;
}


/* control tokens of the prompt and of its ids are the same */

static void
fuzz_prompt(const mst_tokenizer_t *t, const mst_prompt_t *p)
{
    int              rc;
    size_t           i, n, control;
    mst_encode_t    *e;
    const uint32_t  *ids;

    for (control = 0, i = 0; i < p->n; i++) {
        if (p->spans[i].len == 0) {
            fuzz_check(p->spans[i].id < SPECIALS);
            control++;
            continue;
        }

        fuzz_check(p->spans[i].off + p->spans[i].len <= p->text.len);
        fuzz_check(mst_utf8_check(p->text.data + p->spans[i].off,
                                  p->spans[i].len) == p->spans[i].len);
    }

    e = mst_encode_create(t, p);
    fuzz_check(e != NULL);

    do {
        rc = mst_encode_run(e, 50);
    } while (rc == MST_AGAIN);

    fuzz_check(rc == MST_OK);
    ids = mst_encode_ids(e, &n);

    for (i = 0; i < n; i++) {
        control -= ids[i] < SPECIALS;
    }

    fuzz_check(control == 0);
    mst_encode_destroy(e);
}


static void
fuzz_render(const mst_tokenizer_t *t, const mst_mistral_t *f,
    const mst_template_chat_t *c)
{
    int           rc, again;
    size_t        i;
    mst_err_t     err = { "" };
    mst_prompt_t  p, q;

    mst_prompt_init(&p);
    mst_prompt_init(&q);

    rc = mst_mistral_render(f, c, &p, &err);
    again = mst_mistral_render(f, c, &q, &err);
    fuzz_check(rc == again);

    if (rc != MST_OK) {
        fuzz_check(err.text[0] != '\0');

    } else {
        fuzz_check(p.n > 0 && p.spans[0].len == 0 && p.spans[0].id == 1);

        for (i = 1; i < p.n; i++) {
            fuzz_check(p.spans[i].len != 0 || p.spans[i].id != 1);
        }

        fuzz_check(p.n == q.n && p.text.len == q.text.len
                   && memcmp(p.text.data ? p.text.data : "", q.text.data
                             ? q.text.data : "", p.text.len) == 0);
        fuzz_prompt(t, &p);
    }

    mst_prompt_fini(&p);
    mst_prompt_fini(&q);
}


static void
fuzz_middle(const mst_tokenizer_t *t, const mst_request_t *r)
{
    mst_prompt_t  p;

    mst_prompt_init(&p);
    fuzz_check(mst_fim_can(t));
    fuzz_check(mst_fim_render(t, r->messages[0].content,
                              r->messages[r->n_messages - 1].content, &p)
               == MST_OK);
    fuzz_prompt(t, &p);
    mst_prompt_fini(&p);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mst_err_t                err = { "" };
    mst_mistral_t            f;
    mst_request_t           *r;
    mst_api_error_t          e;
    mst_template_chat_t      c;
    static mst_tokenizer_t  *t;

    if (t == NULL) {
        t = fuzz_tokenizer();
    }

    if (size == 0) {
        return 0;
    }

    fuzz_check(mst_mistral_init(&f, versions[data[0] % 7], t, &err)
               == MST_OK);

    memset(&e, 0, sizeof(e));
    r = mst_request_parse(MST_API_CHAT, (const char *) data + 1, size - 1, &e);

    if (r == NULL) {
        return 0;
    }

    memset(&c, 0, sizeof(c));
    c.messages = r->messages;
    c.n = r->n_messages;
    c.tools = r->tools.json;
    c.variables = r->variables;
    c.effort = r->effort;
    c.end = r->continue_last ? MST_TEMPLATE_CONTINUE
            : r->closed ? MST_TEMPLATE_CLOSED : MST_TEMPLATE_ANSWER;

    fuzz_render(t, &f, &c);
    fuzz_middle(t, r);
    mst_request_destroy(r);

    return 0;
}

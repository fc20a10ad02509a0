
/*
 * A hostile chat: rendered, encoded, detokenised, cut at stop strings.  What
 * a message says never becomes a control token, and the cut is where a slow
 * search finds it.
 */

#include "mst_vocab_build.h"

#include "fuzz.h"

#include "text/mst_detok.h"
#include "text/mst_stop.h"
#include "text/mst_template.h"

#define CHAT  "{% for message in messages %}{% if loop.first and messages[0]"  \
    "['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assi" \
    "stant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{" \
    "'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end" \
    "|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>as" \
    "sistant\n' }}{% endif %}"

#define MESSAGES  8
#define STOPS     4


static mst_tokenizer_t  *tokenizer;
static mst_template_t   *templates[2];


static void
fuzz_open(void)
{
    build_t         b;
    mst_err_t       err = { "" };
    mst_gguf_t     *g;
    static vocab_t  vocab;

    vocab_init(&vocab);
    vocab.chat = CHAT;
    vocab_write(&vocab, &b);

    g = build_open(&b);
    tokenizer = mst_tokenizer_create_gguf(g, &err);
    fuzz_check(tokenizer != NULL);

    templates[0] = mst_template_create_gguf(g, tokenizer, &err);
    templates[1] = mst_template_create_plain(&err);
    fuzz_check(templates[0] != NULL && templates[1] != NULL);

    mst_gguf_close(g);
    build_fini(&b);
}


/* bytes before the stop string that ends first, of equal ones the longest */

static size_t
fuzz_cut(const mst_buf_t *text, const mst_str_t *stops, size_t n)
{
    size_t  end, i, cut;

    for (end = 1; end <= text->len; end++) {
        cut = end;

        for (i = 0; i < n; i++) {
            if (stops[i].len <= end && end - stops[i].len < cut
                && memcmp(text->data + end - stops[i].len, stops[i].data,
                          stops[i].len) == 0)
            {
                cut = end - stops[i].len;
            }
        }

        if (cut < end) {
            return cut;
        }
    }

    return text->len;
}


static void
fuzz_stop(const mst_buf_t *text, const mst_str_t *stops, size_t n, size_t part)
{
    int          rc;
    size_t       i, k;
    mst_buf_t    out;
    mst_stop_t  *stop;

    stop = mst_stop_create(stops, n);
    fuzz_check(stop != NULL);

    mst_buf_init(&out);
    rc = MST_OK;

    for (i = 0; i < text->len && rc == MST_OK; i += k) {
        k = (part < text->len - i) ? part : text->len - i;
        rc = mst_stop_push(stop, text->data + i, k, &out);
    }

    fuzz_check(rc == MST_DONE || mst_stop_finish(stop, &out) == MST_OK);
    fuzz_check(out.len == fuzz_cut(text, stops, n));
    fuzz_check(out.len == 0 || memcmp(out.data, text->data, out.len) == 0);

    mst_buf_fini(&out);
    mst_stop_destroy(stop);
}


static void
fuzz_prompt(const mst_prompt_t *p, mst_buf_t *text)
{
    size_t           i, n, controls;
    mst_detok_t      detok;
    mst_encode_t    *e;
    const uint32_t  *ids;

    e = mst_encode_create(tokenizer, p);
    fuzz_check(e != NULL && mst_encode_run(e, SIZE_MAX) == MST_OK);

    ids = mst_encode_ids(e, &n);
    mst_detok_init(&detok, tokenizer);
    controls = 0;

    for (i = 0; i < n; i++) {
        controls += mst_tokenizer_is_control(tokenizer, ids[i]) != 0;
        fuzz_check(mst_detok_push(&detok, ids[i], text) == MST_OK);
    }

    fuzz_check(mst_detok_finish(&detok, text) == MST_OK);
    fuzz_check(mst_utf8_check(text->data, text->len) == text->len);

    for (i = 0; i < p->n; i++) {
        controls -= p->spans[i].len == 0;
    }

    fuzz_check(controls == 0);

    mst_encode_destroy(e);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t              i, n, n_stops, part, which;
    fuzz_t              f = { data, size };
    mst_str_t           stops[STOPS];
    mst_err_t           err = { "" };
    mst_buf_t           text;
    mst_prompt_t        p;
    mst_message_t       m[MESSAGES];
    mst_template_end_t  end;

    if (tokenizer == NULL) {
        fuzz_open();
    }

    which = fuzz_uint(&f, 1);
    end = (mst_template_end_t) (which / 2 % 3);
    part = 1 + fuzz_uint(&f, 1) % 16;
    n_stops = fuzz_uint(&f, 1) % (STOPS + 1);

    for (i = 0; i < n_stops; i++) {
        stops[i].len = 1 + fuzz_uint(&f, 1) % 8;
        stops[i].data = fuzz_bytes(&f, &stops[i].len);

        if (stops[i].len == 0) {
            n_stops = i;
        }
    }

    n = 1 + fuzz_uint(&f, 1) % MESSAGES;

    memset(m, 0, sizeof(m));

    for (i = 0; i < n; i++) {
        m[i].role = (mst_role_t) (fuzz_uint(&f, 1) & 3);
        m[i].content.len = (i + 1 < n) ? fuzz_uint(&f, 1) : SIZE_MAX;
        m[i].content.data = fuzz_bytes(&f, &m[i].content.len);
    }

    mst_buf_init(&text);
    mst_prompt_init(&p);

    fuzz_check(mst_template_render_as(templates[which & 1], m, n, end, &p,
                                      &err)
               == MST_OK || err.text[0] != '\0');

    fuzz_prompt(&p, &text);

    if (n_stops) {
        fuzz_stop(&text, stops, n_stops, part);
    }

    mst_prompt_fini(&p);
    mst_buf_fini(&text);

    return 0;
}


/*
 * Prompts of the command line: see mistral_prompt.h.
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_utf8.h"
#include "tools/mistral_prompt.h"

#define MISTRAL_PROMPT_MAX     (64 << 20)      /* bytes of a prompt */
#define MISTRAL_PROMPT_BUDGET  (1 << 20)


static int
mistral_prompt_read(FILE *f, const char *name, mst_buf_t *out,
    mst_err_t *err)
{
    size_t  n;

    do {
        if (mst_buf_reserve(out, 65536) != MST_OK) {
            return mst_err_set(err, "%s: no memory to read it", name);
        }

        n = fread(out->data + out->len, 1, 65536, f);
        out->len += n;

        if (out->len > MISTRAL_PROMPT_MAX) {
            return mst_err_set(err, "%s: a prompt of more than %d MiB", name,
                               MISTRAL_PROMPT_MAX >> 20);
        }

    } while (n);

    if (ferror(f)) {
        return mst_err_errno(err, errno, "%s: cannot be read", name);
    }

    return MST_OK;
}


int
mistral_prompt_text(const char *text, mst_buf_t *out, mst_err_t *err)
{
    int     rc;
    size_t  bad;

    if (strcmp(text, "-") == 0) {
        rc = mistral_prompt_read(stdin, "stdin", out, err);

    } else {
        rc = mst_buf_text(out, text);
    }

    if (rc != MST_OK) {
        return mst_err_set(err, "no memory for the prompt");
    }

    bad = mst_utf8_check(out->data, out->len);

    if (bad < out->len) {
        return mst_err_set(err, "the prompt is no UTF-8: byte %zu is 0x%02x",
                           bad, (unsigned char) out->data[bad]);
    }

    return MST_OK;
}


static int
mistral_prompt_render(const mistral_words_t *w, const mst_buf_t *text,
    mst_prompt_t *out, mst_err_t *err)
{
    int              rc;
    mst_message_t    message;
    mst_template_t  *template;

    template = mistral_words_template(w, err);

    if (template == NULL) {
        return MST_DECLINED;
    }

    memset(&message, 0, sizeof(mst_message_t));
    message.role = MST_ROLE_USER;
    message.content = mst_str(text->data, text->len);

    rc = mst_template_render(template, &message, 1, out, err);

    mst_template_destroy(template);

    return rc;
}


static int
mistral_prompt_plain(const mst_tokenizer_t *t, const mst_buf_t *text,
    mst_prompt_t *out)
{
    const mst_tokenizer_info_t  *info;

    info = mst_tokenizer_info(t);

    if (info->add_bos && info->bos_id >= 0
        && mst_prompt_control(out, (uint32_t) info->bos_id) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_prompt_text(out, text->data, text->len);
}


static int
mistral_prompt_run(const mst_tokenizer_t *t, const mst_prompt_t *prompt,
    mistral_ids_t *out)
{
    int              rc;
    size_t           n;
    mst_encode_t    *e;
    const uint32_t  *ids;

    e = mst_encode_create(t, prompt);

    if (e == NULL) {
        return MST_ERROR;
    }

    do {
        rc = mst_encode_run(e, MISTRAL_PROMPT_BUDGET);
    } while (rc == MST_AGAIN);

    if (rc == MST_OK) {
        ids = mst_encode_ids(e, &n);
        out->ids = mst_calloc(n, sizeof(uint32_t));

        if (out->ids == NULL) {
            rc = MST_ERROR;

        } else if (n) {
            memcpy(out->ids, ids, n * sizeof(uint32_t));
            out->n = n;
        }
    }

    mst_encode_destroy(e);

    return rc;
}


int
mistral_prompt_encode(const mistral_words_t *w, const mst_buf_t *text,
    int chat, mistral_ids_t *out, mst_err_t *err)
{
    int           rc;
    mst_prompt_t  prompt;

    mst_prompt_init(&prompt);

    rc = chat ? mistral_prompt_render(w, text, &prompt, err)
              : mistral_prompt_plain(w->tokenizer, text, &prompt);

    if (rc == MST_OK) {
        rc = mistral_prompt_run(w->tokenizer, &prompt, out);
    }

    mst_prompt_fini(&prompt);

    if (rc == MST_ERROR) {
        (void) mst_err_set(err, "no memory for the prompt");
    }

    return rc;
}


static int
mistral_prompt_take(const json_t *list, const char *name, uint32_t n_vocab,
    mistral_ids_t *out, mst_err_t *err)
{
    size_t         i;
    json_int_t     id;
    const json_t  *item;

    if (!json_is_array(list)) {
        return mst_err_set(err, "%s: a JSON array of token ids is needed",
                           name);
    }

    out->n = json_array_size(list);
    out->ids = mst_calloc(out->n, sizeof(uint32_t));

    if (out->ids == NULL) {
        return mst_err_set(err, "no memory for the prompt");
    }

    for (i = 0; i < out->n; i++) {
        item = json_array_get(list, i);

        if (!json_is_integer(item)) {
            return mst_err_set(err, "%s: element %zu is no integer", name, i);
        }

        id = json_integer_value(item);

        if (id < 0 || id >= (json_int_t) n_vocab) {
            return mst_err_set(err, "%s: element %zu is %lld, the vocabulary "
                               "has %u tokens", name, i, (long long) id,
                               n_vocab);
        }

        out->ids[i] = (uint32_t) id;
    }

    return MST_OK;
}


static size_t
mistral_prompt_blank(const mst_buf_t *text, size_t i)
{
    while (i < text->len && memchr(" ,\t\r\n", text->data[i], 5)) {
        i++;
    }

    return i;
}


/* numbers become the array that they would be: every run of what stands
   between them is one comma */

static int
mistral_prompt_array(const mst_buf_t *text, size_t i, mst_buf_t *out)
{
    int     rc;
    size_t  next;

    rc = mst_buf_char(out, '[');

    while (i < text->len && rc == MST_OK) {
        next = mistral_prompt_blank(text, i);

        if (next > i) {
            rc = next < text->len ? mst_buf_char(out, ',') : MST_OK;
            i = next;
            continue;
        }

        rc = mst_buf_char(out, text->data[i++]);
    }

    return rc == MST_OK ? mst_buf_char(out, ']') : rc;
}


static json_t *
mistral_prompt_parse(const mst_buf_t *text, const char *name, mst_err_t *err)
{
    size_t         first;
    json_t        *list;
    mst_buf_t      array;
    json_error_t   bad;

    first = mistral_prompt_blank(text, 0);

    if (first == text->len || text->data[first] < '0'
        || text->data[first] > '9')
    {
        list = json_loadb(text->data, text->len, 0, &bad);

    } else {
        mst_buf_init(&array);

        if (mistral_prompt_array(text, first, &array) != MST_OK) {
            mst_buf_fini(&array);
            (void) mst_err_set(err, "no memory for the prompt");
            return NULL;
        }

        list = json_loadb(array.data, array.len, 0, &bad);
        mst_buf_fini(&array);
    }

    if (list == NULL) {
        (void) mst_err_set(err, "%s: no JSON: %s at byte %d", name, bad.text,
                           bad.position);
    }

    return list;
}


int
mistral_prompt_ids(const char *path, uint32_t n_vocab, mistral_ids_t *out,
    mst_err_t *err)
{
    int           rc;
    FILE         *f;
    json_t       *list;
    mst_buf_t     text;
    const char   *name;

    name = path;
    f = stdin;

    if (strcmp(path, "-") == 0) {
        name = "stdin";

    } else if ((f = fopen(path, "re")) == NULL) {
        return mst_err_errno(err, errno, "%s: cannot be opened", path);
    }

    mst_buf_init(&text);
    rc = mistral_prompt_read(f, name, &text, err);

    if (f != stdin) {
        (void) fclose(f);
    }

    if (rc == MST_OK) {
        list = mistral_prompt_parse(&text, name, err);
        rc = list ? mistral_prompt_take(list, name, n_vocab, out, err)
                  : MST_ERROR;
        json_decref(list);
    }

    mst_buf_fini(&text);

    return rc;
}


/*
 * A prompt as text: control tokens in brackets of their own, "|" between
 * spans, for tests of Mistral's formats.
 */

#ifndef MST_MISTRAL_SPANS_H
#define MST_MISTRAL_SPANS_H

#include "mst_mistral_chats.h"


static inline void
spans_expect(const mst_tokenizer_t *t, uint32_t version, const char *body,
    const char *want)
{
    size_t        i, n;
    char          text[4000];
    mst_str_t     s;
    mst_err_t     err;
    mst_prompt_t  p;

    if (chats_render(t, version, body, &p, &err) != MST_OK) {
        fail_msg("v%u: %s: %s", version, body, err.text);
    }

    for (i = 0, n = 0; i < p.n; i++) {

        if (p.spans[i].len == 0) {
            s = mst_tokenizer_name(t, p.spans[i].id);

        } else {
            s = mst_str(p.text.data + p.spans[i].off, p.spans[i].len);
            n += (size_t) snprintf(text + n, sizeof(text) - n, "%s",
                                   i && p.spans[i - 1].len ? "|" : "");
        }

        n += (size_t) snprintf(text + n, sizeof(text) - n, "%.*s",
                               (int) s.len, s.data);
    }

    text[n] = '\0';
    mst_prompt_fini(&p);

    if (strcmp(text, want) != 0) {
        fail_msg("v%u: %s\n  is   %s\n  not  %s", version, body, text, want);
    }
}


#endif /* MST_MISTRAL_SPANS_H */

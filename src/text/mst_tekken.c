
/*
 * tekken.json: see mst_tekken.h.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/mst_mem.h"
#include "text/mst_tekken.h"

#define MST_TEKKEN_NAME  128


/* of files of versions up to 7 that list none */

static const char *const  mst_tekken_specials[] = {
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]",
    "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]"
};

#define MST_TEKKEN_SPECIALS                                                   \
    (sizeof(mst_tekken_specials) / sizeof(mst_tekken_specials[0]))


static const char  mst_tekken_pattern[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?"
    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";


typedef struct {
    const char  *name;
    mst_err_t   *err;
    uint32_t     version;
    uint32_t     n_special;
    uint32_t     n_vocab;      /* with them */
    json_t      *vocab;
    json_t      *specials;     /* may be NULL */
} mst_tekken_t;


/* bytes of the digit, or 64 */

static unsigned
mst_tekken_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (unsigned) (c - 'A');
    }

    if (c >= 'a' && c <= 'z') {
        return (unsigned) (c - 'a') + 26;
    }

    if (c >= '0' && c <= '9') {
        return (unsigned) (c - '0') + 52;
    }

    return c == '+' ? 62 : c == '/' ? 63 : 64;
}


/* base64 with its padding; room for len / 4 * 3 bytes; -1: it is none */

static int
mst_tekken_decode(const char *s, size_t len, char *bytes)
{
    int       n;
    size_t    i, k, pad;
    unsigned  d;
    uint32_t  v;

    if (len == 0 || len % 4) {
        return -1;
    }

    pad = (size_t) (s[len - 1] == '=') + (s[len - 2] == '=');
    n = 0;

    for (i = 0; i < len; i += 4) {
        for (v = 0, k = 0; k < 4; k++) {
            d = i + k < len - pad ? mst_tekken_digit(s[i + k]) : 0;

            if (d == 64) {
                return -1;
            }

            v = v << 6 | d;
        }

        bytes[n++] = (char) (v >> 16);
        bytes[n++] = (char) (v >> 8);
        bytes[n++] = (char) v;
    }

    return n - (int) pad;
}


static int
mst_tekken_number(const mst_tekken_t *t, const json_t *config,
    const char *key, uint32_t *value)
{
    json_int_t     n;
    const json_t  *v;

    v = json_object_get(config, key);
    n = json_is_integer(v) ? json_integer_value(v) : -1;

    if (n < 1 || n > MST_VOCAB_MAX_TOKENS) {
        return mst_err_set(t->err, "%s: config.%s is no number from 1 to %d",
                           t->name, key, MST_VOCAB_MAX_TOKENS);
    }

    *value = (uint32_t) n;

    return MST_OK;
}


static int
mst_tekken_config(mst_tekken_t *t, const json_t *root)
{
    const char    *s;
    const json_t  *config;

    config = json_object_get(root, "config");
    s = json_string_value(json_object_get(config, "pattern"));

    if (s == NULL || strcmp(s, mst_tekken_pattern) != 0) {
        return mst_err_set(t->err, "%s: config.pattern is missing, or another "
                           "one than that of the tekken files known", t->name);
    }

    s = json_string_value(json_object_get(config, "version"));
    t->version = (s && s[0] == 'v') ? (uint32_t) strtoul(s + 1, NULL, 10) : 0;

    if (t->version < 1 || t->version > 99) {
        return mst_err_set(t->err, "%s: config.version is no \"v3\" or such",
                           t->name);
    }

    if (mst_tekken_number(t, config, "default_vocab_size", &t->n_vocab)
           != MST_OK
        || mst_tekken_number(t, config, "default_num_special_tokens",
                             &t->n_special) != MST_OK)
    {
        return MST_ERROR;
    }

    t->vocab = json_object_get(root, "vocab");
    t->specials = json_object_get(root, "special_tokens");
    t->specials = json_is_array(t->specials) ? t->specials : NULL;

    if (t->n_vocab < t->n_special + 256
        || json_array_size(t->vocab) < t->n_vocab - t->n_special
        || t->n_special < MST_TEKKEN_SPECIALS)
    {
        return mst_err_set(t->err, "%s: %u tokens, %u of them special, and a "
                           "vocab of %zu", t->name, t->n_vocab, t->n_special,
                           json_array_size(t->vocab));
    }

    return MST_OK;
}


/* in the order of their ranks: special_tokens need not be */

static int
mst_tekken_names(const mst_tekken_t *t, const char **names)
{
    size_t         i, n;
    json_int_t     rank;
    const char    *s;
    const json_t  *o, *r;

    for (i = 0; t->specials == NULL && i < MST_TEKKEN_SPECIALS; i++) {
        names[i] = mst_tekken_specials[i];
    }

    n = json_array_size(t->specials);

    for (i = 0; i < n; i++) {
        o = json_array_get(t->specials, i);
        r = json_object_get(o, "rank");
        s = json_string_value(json_object_get(o, "token_str"));
        rank = json_is_integer(r) ? json_integer_value(r) : -1;

        if (s == NULL || s[0] == '\0' || strlen(s) >= MST_TEKKEN_NAME
            || rank < 0 || rank >= (json_int_t) t->n_special
            || names[rank] != NULL)
        {
            return mst_err_set(t->err, "%s: special_tokens[%zu] has no rank "
                               "below %u of its own, or no token_str",
                               t->name, i, t->n_special);
        }

        names[rank] = s;
    }

    return MST_OK;
}


static int
mst_tekken_special(mst_vocab_t *v, const mst_tekken_t *t)
{
    int           rc;
    char          filler[MST_TEKKEN_NAME];
    uint32_t      i;
    const char  **names, *s;

    names = mst_calloc(t->n_special, sizeof(char *));

    if (names == NULL) {
        return mst_err_set(t->err, "%s: no memory", t->name);
    }

    rc = mst_tekken_names(t, names);

    for (i = 0; rc == MST_OK && i < t->n_special; i++) {
        s = names[i];

        if (s == NULL) {
            (void) snprintf(filler, sizeof(filler), "<SPECIAL_%u>", i);
            s = filler;
        }

        if (mst_vocab_put(v, i, i == 0 ? MST_VOCAB_UNKNOWN
                                       : MST_VOCAB_CONTROL, s, strlen(s))
            != MST_OK)
        {
            rc = mst_err_set(t->err, "%s: special token %u is there twice",
                             t->name, i);
        }
    }

    mst_free(names);

    return rc;
}


static int
mst_tekken_token(mst_vocab_t *v, const mst_tekken_t *t, uint32_t rank)
{
    int            n;
    char           bytes[MST_VOCAB_MAX_TOKEN + 4];
    size_t         len;
    const char    *s;
    const json_t  *o, *r;

    o = json_array_get(t->vocab, rank);
    r = json_object_get(o, "rank");
    s = json_string_value(json_object_get(o, "token_bytes"));
    len = s ? strlen(s) : 0;
    n = len / 4 * 3 <= sizeof(bytes) ? mst_tekken_decode(s, len, bytes) : -1;

    if (n < 1 || n > MST_VOCAB_MAX_TOKEN || !json_is_integer(r)
        || json_integer_value(r) != (json_int_t) rank
        || (rank < 256 && (n != 1 || (unsigned char) bytes[0] != rank)))
    {
        return mst_err_set(t->err, "%s: vocab[%u] has another rank, or bytes "
                           "that are none, not its own or over %d", t->name,
                           rank, MST_VOCAB_MAX_TOKEN);
    }

    if (mst_vocab_put(v, t->n_special + rank, MST_VOCAB_NORMAL, bytes,
                      (size_t) n) != MST_OK)
    {
        return mst_err_set(t->err, "%s: vocab[%u] is there twice, or collides "
                           "with others", t->name, rank);
    }

    return MST_OK;
}


static int
mst_tekken_fill(mst_vocab_t *v, mst_bpe_t *b, const mst_tekken_t *t)
{
    int        rc;
    size_t     size;
    uint32_t   i, n, *ranks;

    n = t->n_vocab - t->n_special;
    size = (size_t) t->n_special * MST_TEKKEN_NAME;

    for (i = 0; i < n; i++) {
        size += json_string_length(json_object_get(json_array_get(t->vocab, i),
                                                   "token_bytes"));
    }

    if (mst_vocab_init(v, t->n_vocab, size) != MST_OK) {
        return mst_err_set(t->err, "%s: no memory for %u tokens", t->name,
                           t->n_vocab);
    }

    if (mst_tekken_special(v, t) != MST_OK) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        if (mst_tekken_token(v, t, i) != MST_OK) {
            return MST_ERROR;
        }
    }

    ranks = mst_calloc(t->n_vocab, sizeof(uint32_t));

    if (ranks == NULL) {
        return mst_err_set(t->err, "%s: no memory for %u tokens", t->name,
                           t->n_vocab);
    }

    for (i = 0; i < t->n_vocab; i++) {
        ranks[i] = i;
    }

    rc = mst_bpe_init_ranks(b, v, ranks, 0);

    mst_free(ranks);

    return rc == MST_OK ? MST_OK
           : mst_err_set(t->err, "%s: no memory for %u tokens", t->name,
                         t->n_vocab);
}


static int
mst_tekken_effort(const json_t *word)
{
    int          i;
    const char  *s;

    static const char *const  words[] = { MST_TEKKEN_EFFORTS };

    s = json_string_value(word);

    for (i = 0; s && i < (int) (sizeof(words) / sizeof(char *)); i++) {

        if (strcmp(s, words[i]) == 0) {
            return i;
        }
    }

    return -1;
}


/* "model_settings_builder", from version 15 on */

static int
mst_tekken_settings(const mst_tekken_t *t, const json_t *root,
    mst_tekken_info_t *info)
{
    int            n;
    size_t         i;
    const json_t  *effort, *values;

    info->efforts = 0;
    info->effort = 0;

    effort = json_object_get(json_object_get(root, "model_settings_builder"),
                             "reasoning_effort");

    if (t->version < 15 || !json_is_object(effort)) {
        return MST_OK;
    }

    values = json_object_get(effort, "values");

    for (i = 0; i < json_array_size(values); i++) {
        n = mst_tekken_effort(json_array_get(values, i));

        if (n < 0) {
            return mst_err_set(t->err, "%s: a value of reasoning_effort is "
                               "not known", t->name);
        }

        info->efforts |= 1u << n;
    }

    info->effort = mst_tekken_effort(json_object_get(effort, "default"));

    if (info->effort < 0 || !(info->efforts >> info->effort & 1)) {
        return mst_err_set(t->err, "%s: the default of reasoning_effort is "
                           "none of its values", t->name);
    }

    return MST_OK;
}


int
mst_tekken_init(mst_vocab_t *v, mst_bpe_t *b, const char *text, size_t len,
    const char *name, mst_tekken_info_t *info, mst_err_t *err)
{
    int            rc;
    json_t        *root;
    json_error_t   e;
    mst_tekken_t   t;

    memset(v, 0, sizeof(mst_vocab_t));
    memset(b, 0, sizeof(mst_bpe_t));
    memset(&t, 0, sizeof(t));

    t.name = name;
    t.err = err;
    root = json_loadb(text, len, JSON_ALLOW_NUL, &e);

    if (!json_is_object(root)) {
        json_decref(root);
        return mst_err_set(err, "%s: no JSON object: %.120s", name, e.text);
    }

    rc = mst_tekken_config(&t, root);

    info->version = t.version;

    if (rc == MST_OK) {
        rc = mst_tekken_settings(&t, root, info);
    }

    if (rc == MST_OK) {
        rc = mst_tekken_fill(v, b, &t);
    }

    json_decref(root);

    return rc;
}


/*
 * tokenizer.json: see mst_hf.h.
 */

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/mst_mem.h"
#include "text/mst_hf.h"
#include "text/mst_spm.h"
#include "text/mst_utf8.h"

#define MST_HF_PIECE  (3 * MST_VOCAB_MAX_TOKEN)


typedef struct {
    const char   *name;
    mst_err_t    *err;
    mst_hf_t     *hf;
    json_t       *root;
    json_t       *model;
    json_t       *vocab;       /* {"piece": id} */
    json_t       *added;       /* may be NULL */
    uint32_t      n;           /* ids */
    mst_str_t    *pieces;      /* [n] */
    unsigned char  *types;     /* [n] MST_VOCAB_*; 0: no such id */
} mst_hf_file_t;


/* the expressions that are known, by the kind that does the same */

static const struct {
    const char        *regex;
    mst_split_kind_t   split;
} mst_hf_regexes[] = {
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
      "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)"
      "|\\s+", MST_SPLIT_LLAMA3 },
    { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
      "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)"
      "|\\s+", MST_SPLIT_QWEN2 },
    { "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?"
      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
      "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      MST_SPLIT_TEKKEN }
};


static const char *
mst_hf_type(const json_t *o)
{
    const char  *s;

    s = json_string_value(json_object_get(o, "type"));

    return s ? s : "";
}


static int
mst_hf_strange(const mst_hf_file_t *f, const char *part)
{
    return mst_err_set(f->err, "%s: its %s is not one that is known", f->name,
                       part);
}


static int
mst_hf_regex(const mst_hf_file_t *f, const json_t *split)
{
    size_t       i;
    const char  *s;

    s = json_string_value(json_object_get(json_object_get(split, "pattern"),
                                          "Regex"));

    for (i = 0; s && i < sizeof(mst_hf_regexes) / sizeof(mst_hf_regexes[0]);
         i++)
    {
        if (strcmp(s, mst_hf_regexes[i].regex) == 0) {
            f->hf->split = mst_hf_regexes[i].split;
            return MST_OK;
        }
    }

    return mst_hf_strange(f, "pre_tokenizer's expression");
}


/* ByteLevel behind nothing, behind single digits or behind an expression */

static int
mst_hf_bytes(const mst_hf_file_t *f)
{
    size_t         n;
    const json_t  *first, *last, *list, *pre;

    pre = json_object_get(f->root, "pre_tokenizer");
    list = json_object_get(pre, "pretokenizers");
    n = json_array_size(list);
    first = n == 2 ? json_array_get(list, 0) : NULL;
    last = n ? json_array_get(list, n - 1) : pre;

    if (n > 2 || strcmp(mst_hf_type(last), "ByteLevel") != 0
        || json_is_true(json_object_get(last, "add_prefix_space")))
    {
        return mst_hf_strange(f, "pre_tokenizer");
    }

    if (!json_is_null(json_object_get(f->root, "normalizer"))
        && json_object_get(f->root, "normalizer") != NULL)
    {
        return mst_hf_strange(f, "normalizer");
    }

    if (json_is_false(json_object_get(last, "use_regex"))) {
        return first && strcmp(mst_hf_type(first), "Split") == 0
               ? mst_hf_regex(f, first) : mst_hf_strange(f, "pre_tokenizer");
    }

    if (first && (strcmp(mst_hf_type(first), "Digits") != 0
                  || !json_is_true(json_object_get(first,
                                                   "individual_digits"))))
    {
        return mst_hf_strange(f, "pre_tokenizer");
    }

    f->hf->split = first ? MST_SPLIT_SMOLLM : MST_SPLIT_GPT2;

    return MST_OK;
}


/* "Prepend" and "Replace" of a normalizer, or a "Metaspace" */

static int
mst_hf_chars(const mst_hf_file_t *f)
{
    size_t         i, n;
    const char    *scheme, *type;
    const json_t  *list, *norm, *pre;

    norm = json_object_get(f->root, "normalizer");
    pre = json_object_get(f->root, "pre_tokenizer");
    list = json_object_get(norm, "normalizers");
    n = json_array_size(list);

    if (n == 0 && json_is_object(norm)) {
        return mst_hf_strange(f, "normalizer");
    }

    f->hf->prefix = MST_HF_PREFIX_NONE;

    for (i = 0; i < n; i++) {
        type = mst_hf_type(json_array_get(list, i));

        if (strcmp(type, "Prepend") == 0) {
            f->hf->prefix = MST_HF_PREFIX;

        } else if (strcmp(type, "Replace") != 0) {
            return mst_hf_strange(f, "normalizer");
        }
    }

    if (!json_is_object(pre)) {
        return n ? MST_OK : mst_hf_strange(f, "pre_tokenizer");
    }

    if (strcmp(mst_hf_type(pre), "Metaspace") != 0) {
        return mst_hf_strange(f, "pre_tokenizer");
    }

    scheme = json_string_value(json_object_get(pre, "prepend_scheme"));

    if (scheme == NULL || strcmp(scheme, "never") != 0) {
        f->hf->prefix = MST_HF_PREFIX_UNLESS;
    }

    return MST_OK;
}


static int
mst_hf_note(const mst_hf_file_t *f, const char *piece, size_t len,
    json_int_t id, unsigned char type)
{
    if (id < 0 || id >= (json_int_t) f->n || len == 0 || len > MST_HF_PIECE) {
        return mst_err_set(f->err, "%s: token %lld is out of range, empty or "
                           "over %d bytes", f->name, (long long) id,
                           MST_HF_PIECE);
    }

    f->pieces[id] = mst_str(piece, len);
    f->types[id] = type;

    return MST_OK;
}


/* added tokens come last, as they may stand in the vocabulary, too */

static int
mst_hf_list(const mst_hf_file_t *f)
{
    int            special;
    size_t         i;
    json_t        *id;
    const char    *piece;
    const json_t  *o, *text;

    json_object_foreach(f->vocab, piece, id) {
        if (!json_is_integer(id)) {
            return mst_err_set(f->err, "%s: model.vocab is damaged", f->name);
        }

        if (mst_hf_note(f, piece, strlen(piece), json_integer_value(id),
                        f->hf->chars && strlen(piece) == 6
                        && strncmp(piece, "<0x", 3) == 0
                        ? MST_VOCAB_BYTE : MST_VOCAB_NORMAL) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    for (i = 0; i < json_array_size(f->added); i++) {
        o = json_array_get(f->added, i);
        text = json_object_get(o, "content");
        special = !json_is_false(json_object_get(o, "special"));

        if (!json_is_string(text)
            || !json_is_integer(json_object_get(o, "id")))
        {
            return mst_err_set(f->err, "%s: added_tokens[%zu] is damaged",
                               f->name, i);
        }

        if (mst_hf_note(f, json_string_value(text), json_string_length(text),
                        json_integer_value(json_object_get(o, "id")),
                        special ? MST_VOCAB_CONTROL : MST_VOCAB_USER)
            != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* bytes that a normal piece stands for, or -1 */

static int64_t
mst_hf_spell(const mst_hf_file_t *f, mst_str_t piece, char *bytes)
{
    uint32_t  cp;

    return f->hf->chars ? mst_spm_unescape(piece, bytes, MST_HF_PIECE)
                        : mst_vocab_unspell(piece, bytes, &cp);
}


static int
mst_hf_fill(mst_vocab_t *v, const mst_hf_file_t *f)
{
    char        bytes[MST_HF_PIECE], filler[32];
    int64_t     n;
    uint32_t    id;
    mst_str_t   s;

    for (id = 0; id < f->n; id++) {
        s = f->pieces[id];

        if (f->types[id] == 0) {
            (void) snprintf(filler, sizeof(filler), "<unused_%u>", id);
            f->types[id] = MST_VOCAB_UNUSED;
            s = mst_str(filler, strlen(filler));
        }

        if (f->types[id] == MST_VOCAB_NORMAL) {
            n = mst_hf_spell(f, s, bytes);
            s = mst_str(bytes, n < 0 ? 0 : (size_t) n);
        }

        if (s.len == 0 || s.len > MST_VOCAB_MAX_TOKEN
            || mst_vocab_put(v, id, f->types[id], s.data, s.len) != MST_OK)
        {
            return mst_err_set(f->err, "%s: token %u is there twice, over %d "
                               "bytes, or stands for no bytes", f->name, id,
                               MST_VOCAB_MAX_TOKEN);
        }
    }

    return MST_OK;
}


/* one side of a merge: its id, its bytes behind those of the other one */

static int64_t
mst_hf_side(const mst_vocab_t *v, const mst_hf_file_t *f, mst_str_t side,
    char *bytes, size_t *len)
{
    int64_t  id, n;

    if (side.len == 0 || side.len > MST_HF_PIECE) {
        return -1;
    }

    n = mst_hf_spell(f, side, bytes + *len);
    id = n > 0 ? mst_vocab_find(v, 0, bytes + *len, (size_t) n) : -1;
    *len += n > 0 ? (size_t) n : 0;

    return id;
}


/* "a b" or ["a", "b"] */

static int
mst_hf_merge(const mst_vocab_t *v, const mst_hf_file_t *f, const json_t *o,
    mst_bpe_merge_t *m)
{
    char         bytes[2 * MST_HF_PIECE];
    size_t       len;
    int64_t      id, left, right;
    mst_str_t    l, r;
    const char  *s, *space;

    l = mst_str(NULL, 0);
    r = mst_str(NULL, 0);
    s = json_string_value(o);
    space = s ? strchr(s, ' ') : NULL;

    if (space) {
        l = mst_str(s, (size_t) (space - s));
        r = mst_str(space + 1, strlen(space + 1));

    } else if (json_array_size(o) == 2) {
        s = json_string_value(json_array_get(o, 0));
        l = mst_str(s, s ? strlen(s) : 0);
        s = json_string_value(json_array_get(o, 1));
        r = mst_str(s, s ? strlen(s) : 0);
    }

    len = 0;
    left = mst_hf_side(v, f, l, bytes, &len);
    right = left < 0 ? -1 : mst_hf_side(v, f, r, bytes, &len);
    id = right < 0 ? -1 : mst_vocab_find(v, 0, bytes, len);

    m->left = (uint32_t) left;
    m->right = (uint32_t) right;
    m->id = (uint32_t) id;

    return id < 0 ? MST_ERROR : MST_OK;
}


static int
mst_hf_merges(const mst_vocab_t *v, mst_bpe_t *b, const mst_hf_file_t *f)
{
    int               rc;
    size_t            i, n;
    mst_bpe_twice_t   twice;
    const json_t     *list;
    mst_bpe_merge_t  *merges;

    list = json_object_get(f->model, "merges");
    n = json_array_size(list);

    if (!json_is_array(list) || n > 4 * MST_VOCAB_MAX_TOKENS) {
        return mst_err_set(f->err, "%s: model.merges is no list of at most %d",
                           f->name, 4 * MST_VOCAB_MAX_TOKENS);
    }

    merges = mst_calloc(n ? n : 1, sizeof(mst_bpe_merge_t));

    if (merges == NULL) {
        return mst_err_set(f->err, "%s: no memory for %zu merges", f->name, n);
    }

    for (i = 0; i < n; i++) {
        if (mst_hf_merge(v, f, json_array_get(list, i), &merges[i])
            != MST_OK)
        {
            mst_free(merges);
            return mst_err_set(f->err, "%s: model.merges[%zu] is not two "
                               "tokens that make a third", f->name, i);
        }
    }

    rc = mst_bpe_init_merges(b, v, merges, (uint32_t) n, f->hf->chars,
                             &twice);

    mst_free(merges);

    switch (rc) {

    case MST_OK:
        return MST_OK;

    case MST_DECLINED:
        return mst_err_set(f->err, "%s: model.merges[%u] is there twice",
                           f->name, twice.second);

    case MST_BUSY:
        return mst_err_set(f->err, "%s: more than %d of its merges collide in "
                           "a table", f->name, MST_VOCAB_MAX_PROBES);

    default:
        return mst_err_set(f->err, "%s: no memory for %zu merges", f->name, n);
    }
}


static int
mst_hf_load(mst_vocab_t *v, mst_bpe_t *b, mst_hf_file_t *f)
{
    size_t     size;
    uint32_t   id;

    if (mst_hf_list(f) != MST_OK) {
        return MST_ERROR;
    }

    for (size = 0, id = 0; id < f->n; id++) {
        size += f->types[id] ? f->pieces[id].len : 32;
    }

    if (mst_vocab_init(v, f->n, size) != MST_OK) {
        return mst_err_set(f->err, "%s: no memory for %u tokens", f->name,
                           f->n);
    }

    if (mst_hf_fill(v, f) != MST_OK || mst_hf_merges(v, b, f) != MST_OK) {
        return MST_ERROR;
    }

    if (f->hf->chars && mst_spm_check(v, f->name, f->err) != MST_OK) {
        return MST_ERROR;
    }

    if (f->hf->chars && b->drops) {
        return mst_err_set(f->err, "%s: not all of <0x00> to <0xFF> are there",
                           f->name);
    }

    return MST_OK;
}


/* so many ids: the largest one and 1 */

static int
mst_hf_count(mst_hf_file_t *f)
{
    size_t         i;
    json_t        *id;
    json_int_t     top;
    const char    *piece;
    const json_t  *v;

    top = -1;

    json_object_foreach(f->vocab, piece, id) {
        top = json_integer_value(id) > top ? json_integer_value(id) : top;
    }

    for (i = 0; i < json_array_size(f->added); i++) {
        v = json_object_get(json_array_get(f->added, i), "id");
        top = json_integer_value(v) > top ? json_integer_value(v) : top;
    }

    if (top < 1 || top >= MST_VOCAB_MAX_TOKENS) {
        return mst_err_set(f->err, "%s: ids up to %lld, the limit is %d",
                           f->name, (long long) top, MST_VOCAB_MAX_TOKENS - 1);
    }

    f->n = (uint32_t) top + 1;
    f->pieces = mst_calloc(f->n, sizeof(mst_str_t));
    f->types = mst_calloc(f->n, 1);

    return f->pieces && f->types ? MST_OK
           : mst_err_set(f->err, "%s: no memory for %u tokens", f->name, f->n);
}


static int
mst_hf_read(mst_vocab_t *v, mst_bpe_t *b, mst_hf_file_t *f)
{
    const char  *type;

    f->model = json_object_get(f->root, "model");
    f->vocab = json_object_get(f->model, "vocab");
    f->added = json_object_get(f->root, "added_tokens");
    type = mst_hf_type(f->model);

    if ((type[0] && strcmp(type, "BPE") != 0) || !json_is_object(f->vocab)) {
        return mst_err_set(f->err, "%s: its model is no BPE", f->name);
    }

    f->hf->chars = json_is_true(json_object_get(f->model, "byte_fallback"));
    f->hf->whole = json_is_true(json_object_get(f->model, "ignore_merges"));

    if ((f->hf->chars ? mst_hf_chars(f) : mst_hf_bytes(f)) != MST_OK
        || mst_hf_count(f) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_hf_load(v, b, f);
}


int
mst_hf_init(mst_vocab_t *v, mst_bpe_t *b, const char *text, size_t len,
    const char *name, mst_hf_t *hf, mst_err_t *err)
{
    int            rc;
    json_error_t   e;
    mst_hf_file_t  f;

    memset(v, 0, sizeof(mst_vocab_t));
    memset(b, 0, sizeof(mst_bpe_t));
    memset(hf, 0, sizeof(mst_hf_t));
    memset(&f, 0, sizeof(f));

    f.name = name;
    f.err = err;
    f.hf = hf;
    f.root = json_loadb(text, len, JSON_ALLOW_NUL, &e);

    rc = json_is_object(f.root)
         ? mst_hf_read(v, b, &f)
         : mst_err_set(err, "%s: no JSON object: %.120s", name, e.text);

    mst_free(f.pieces);
    mst_free(f.types);
    json_decref(f.root);

    return rc;
}

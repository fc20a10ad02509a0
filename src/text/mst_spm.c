
/*
 * SentencePiece BPE: see mst_spm.h.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_mem.h"
#include "text/mst_spm.h"
#include "text/mst_utf8.h"

#define MST_SPM_BPE    2           /* TrainerSpec.model_type */
#define MST_SPM_SPACE  "\xe2\x96\x81"          /* U+2581 */
#define MST_SPM_COPY   8           /* bytes copied for one looked at */


/* one field of a protobuf message */
typedef struct {
    uint32_t              number;
    uint32_t              wire;    /* 0 varint, 1 eight bytes, 2 length, 5 four
                                      bytes */
    uint64_t              value;   /* of a varint or of fixed bytes */
    const unsigned char  *data;    /* of a length, "value" bytes */
} mst_spm_field_t;


typedef struct {
    const unsigned char  *p;
    const unsigned char  *end;
} mst_spm_cursor_t;


static int
mst_spm_varint(mst_spm_cursor_t *c, uint64_t *value)
{
    uint32_t  shift;

    *value = 0;

    for (shift = 0; shift < 64 && c->p < c->end; shift += 7) {
        *value |= (uint64_t) (*c->p & 0x7f) << shift;

        if ((*c->p++ & 0x80) == 0) {
            return MST_OK;
        }
    }

    return MST_ERROR;
}


/* MST_DONE: no more; MST_ERROR: damaged */

static int
mst_spm_next(mst_spm_cursor_t *c, mst_spm_field_t *f)
{
    size_t    n;
    uint32_t  i;
    uint64_t  key;

    if (c->p == c->end) {
        return MST_DONE;
    }

    if (mst_spm_varint(c, &key) != MST_OK || key >> 3 > UINT32_MAX) {
        return MST_ERROR;
    }

    f->number = (uint32_t) (key >> 3);
    f->wire = key & 7;
    f->data = NULL;

    switch (f->wire) {

    case 0:
        return mst_spm_varint(c, &f->value);

    case 1:
    case 5:
        n = f->wire == 1 ? 8 : 4;

        if ((size_t) (c->end - c->p) < n) {
            return MST_ERROR;
        }

        for (f->value = 0, i = 0; i < n; i++) {
            f->value |= (uint64_t) c->p[i] << 8 * i;
        }

        c->p += n;
        return MST_OK;

    case 2:
        if (mst_spm_varint(c, &f->value) != MST_OK
            || f->value > (uint64_t) (c->end - c->p))
        {
            return MST_ERROR;
        }

        f->data = c->p;
        c->p += f->value;
        return MST_OK;

    default:
        return MST_ERROR;
    }
}


static int
mst_spm_read_piece(const mst_spm_field_t *piece, mst_spm_piece_t *out)
{
    int               rc;
    uint32_t          bits;
    mst_spm_field_t   f;
    mst_spm_cursor_t  c;

    c.p = piece->data;
    c.end = piece->data + piece->value;
    out->piece = mst_str(NULL, 0);
    out->score = 0;
    out->type = MST_VOCAB_NORMAL;

    while ((rc = mst_spm_next(&c, &f)) == MST_OK) {

        if (f.number == 1 && f.wire == 2) {
            out->piece = mst_str((const char *) f.data, (size_t) f.value);

        } else if (f.number == 2 && f.wire == 5) {
            bits = (uint32_t) f.value;
            memcpy(&out->score, &bits, sizeof(float));

        } else if (f.number == 3 && f.wire == 0) {
            out->type = f.value <= MST_VOCAB_BYTE ? (uint32_t) f.value : 0;
        }
    }

    return rc == MST_DONE ? MST_OK : MST_ERROR;
}


/* what a part of the model says about numbers, with the one that we run */

static int
mst_spm_expect(const mst_spm_field_t *part, const char *name, int trainer,
    mst_err_t *err)
{
    int               rc;
    size_t            i;
    mst_spm_field_t   f;
    mst_spm_cursor_t  c;

    static const struct {
        int          trainer;
        uint32_t     number;
        uint64_t     value;
        const char  *what;
    } wanted[] = {
        { 1, 3, MST_SPM_BPE, "model_type" },
        { 0, 3, 1, "add_dummy_prefix" },
        { 0, 4, 0, "remove_extra_whitespaces" },
        { 0, 5, 1, "escape_whitespaces" }
    };

    c.p = part->data;
    c.end = part->data + part->value;

    while ((rc = mst_spm_next(&c, &f)) == MST_OK) {

        if (!trainer && f.number == 2 && f.wire == 2 && f.value) {
            return mst_err_set(err, "%s: its normalizer changes characters, "
                               "which is not supported; \"identity\" is",
                               name);
        }

        for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
            if (wanted[i].trainer == trainer && wanted[i].number == f.number
                && f.wire == 0 && wanted[i].value != f.value)
            {
                return mst_err_set(err, "%s: %s is %llu, %llu is supported",
                                   name, wanted[i].what,
                                   (unsigned long long) f.value,
                                   (unsigned long long) wanted[i].value);
            }
        }
    }

    return rc == MST_DONE ? MST_OK
           : mst_err_set(err, "%s: no SentencePiece model, or damaged", name);
}


int
mst_spm_read(const void *data, size_t len, const char *name,
    mst_spm_piece_t **pieces, uint32_t *n, mst_err_t *err)
{
    int               rc;
    size_t            size;
    mst_spm_field_t   f;
    mst_spm_piece_t  *more;
    mst_spm_cursor_t  c;

    c.p = data;
    c.end = c.p + len;
    *pieces = NULL;
    *n = 0;
    size = 0;

    while ((rc = mst_spm_next(&c, &f)) == MST_OK) {

        if ((f.number == 2 || f.number == 3) && f.wire == 2) {
            if (mst_spm_expect(&f, name, f.number == 2, err) != MST_OK) {
                goto failed;
            }

            continue;
        }

        if (f.number != 1 || f.wire != 2) {
            continue;
        }

        if (*n == size) {
            size = size ? 2 * size : 32768;
            more = size > MST_VOCAB_MAX_TOKENS ? NULL
                   : mst_realloc(*pieces, size, sizeof(mst_spm_piece_t));

            if (more == NULL) {
                (void) mst_err_set(err, "%s: no memory for %u pieces, or too "
                                   "many", name, *n);
                goto failed;
            }

            *pieces = more;
        }

        if (mst_spm_read_piece(&f, &(*pieces)[(*n)++]) != MST_OK) {
            rc = MST_ERROR;
            break;
        }
    }

    if (rc == MST_DONE && *n >= 3) {
        return MST_OK;
    }

    (void) mst_err_set(err, "%s: no SentencePiece model, or damaged", name);

failed:

    mst_free(*pieces);
    *pieces = NULL;

    return MST_ERROR;
}


int
mst_spm_unescape(mst_str_t s, char *bytes, int size)
{
    int     n;
    size_t  i;

    n = 0;

    for (i = 0; i < s.len; n++) {

        if (n == size) {
            return -1;
        }

        if (s.len - i >= 3 && memcmp(s.data + i, MST_SPM_SPACE, 3) == 0) {
            bytes[n] = ' ';
            i += 3;
            continue;
        }

        bytes[n] = s.data[i++];
    }

    return n;
}


static int
mst_spm_put(mst_vocab_t *v, uint32_t id, const mst_spm_piece_t *p,
    const char *name, mst_err_t *err)
{
    int   n;
    char  bytes[MST_VOCAB_MAX_TOKEN];

    if (p->type < MST_VOCAB_NORMAL || p->type > MST_VOCAB_BYTE
        || p->piece.len == 0
        || mst_utf8_check(p->piece.data, p->piece.len) != p->piece.len)
    {
        return mst_err_set(err, "%s: piece %u is empty, no UTF-8 or of type "
                           "%u", name, id, p->type);
    }

    n = mst_spm_unescape(p->piece, bytes, sizeof(bytes));

    if (n < 0) {
        return mst_err_set(err, "%s: piece %u has more than %d bytes", name,
                           id, MST_VOCAB_MAX_TOKEN);
    }

    if (mst_vocab_put(v, id, (unsigned char) p->type, bytes, (size_t) n)
        != MST_OK)
    {
        return mst_err_set(err, "%s: piece %u is there twice, or collides with "
                           "others", name, id);
    }

    return MST_OK;
}


typedef struct {
    float     score;
    uint32_t  id;
} mst_spm_order_t;


static int
mst_spm_compare(const void *one, const void *two)
{
    const mst_spm_order_t  *a, *b;

    a = one;
    b = two;

    return a->score > b->score ? -1 : a->score < b->score;
}


/* the higher the score the lower the rank; equal scores rank equal */

static int
mst_spm_ranks(mst_vocab_t *v, mst_bpe_t *b, const mst_spm_piece_t *pieces,
    mst_spm_order_t *order, uint32_t *ranks)
{
    uint32_t  i, k;

    for (i = 0; i < v->n; i++) {
        order[i].id = i;
        order[i].score = isnan(pieces[i].score) ? -INFINITY
                                                : pieces[i].score;
    }

    qsort(order, v->n, sizeof(mst_spm_order_t), mst_spm_compare);

    for (i = 0, k = 0; i < v->n; i++) {
        k = i && order[i].score != order[i - 1].score ? i : k;
        ranks[order[i].id] = k;
    }

    return mst_bpe_init_ranks(b, v, ranks, 1);
}


int
mst_spm_check(const mst_vocab_t *v, const char *name, mst_err_t *err)
{
    size_t     k, size;
    uint32_t   cp, i;
    mst_str_t  s;

    for (i = 0; i < v->n; i++) {
        s = mst_vocab_token(v, i);

        for (k = 0; v->type[i] == MST_VOCAB_NORMAL && k < s.len; k += size) {
            size = mst_utf8_decode(s.data + k, s.len - k, &cp);

            if ((k && s.data[k] == ' ' && s.data[k - 1] != ' ')
                || mst_vocab_find(v, 0, s.data + k, size) < 0)
            {
                return mst_err_set(err, "%s: piece %u has a space within, or "
                                   "a character without a piece, which is not "
                                   "supported", name, i);
            }
        }
    }

    return MST_OK;
}


int
mst_spm_init(mst_vocab_t *v, mst_bpe_t *b, const mst_spm_piece_t *pieces,
    uint32_t n, const char *name, mst_err_t *err)
{
    int               rc;
    size_t            size;
    uint32_t          i, *ranks;
    mst_spm_order_t  *order;

    memset(b, 0, sizeof(mst_bpe_t));

    for (size = 0, i = 0; i < n; i++) {
        size += pieces[i].piece.len;
    }

    if (mst_vocab_init(v, n, size) != MST_OK) {
        return mst_err_set(err, "%s: no memory for %u pieces", name, n);
    }

    for (i = 0; i < n; i++) {
        if (mst_spm_put(v, i, &pieces[i], name, err) != MST_OK) {
            return MST_ERROR;
        }
    }

    if (mst_spm_check(v, name, err) != MST_OK) {
        return MST_ERROR;
    }

    order = mst_calloc(n, sizeof(mst_spm_order_t));
    ranks = mst_calloc(n, sizeof(uint32_t));

    rc = order && ranks ? mst_spm_ranks(v, b, pieces, order, ranks)
                        : MST_ERROR;

    mst_free(order);
    mst_free(ranks);

    if (rc != MST_OK) {
        return mst_err_set(err, "%s: no memory for %u pieces", name, n);
    }

    if (b->drops) {
        return mst_err_set(err, "%s: not all of <0x00> to <0xFF> are there",
                           name);
    }

    return MST_OK;
}


void
mst_spm_split_init(mst_spm_split_t *s, const mst_bpe_t *b, const char *data,
    size_t len, int prefix)
{
    s->bpe = b;
    s->pos = data;
    s->end = data + len;
    s->scan = data;
    s->at = NULL;
    s->prefix = prefix && len;
    s->odd = s->prefix;
}


void
mst_spm_split_fini(mst_spm_split_t *s)
{
    mst_buf_fini(&s->copy);
}


/* bytes of the space at p, in either spelling; 0: there is none */

static size_t
mst_spm_space(const char *p, const char *end)
{
    if (*p == ' ') {
        return 1;
    }

    return end - p >= 3 && memcmp(p, MST_SPM_SPACE, 3) == 0 ? 3 : 0;
}


/* the longest user-defined token at p; *len: its bytes in the text */

static int64_t
mst_spm_user(const mst_spm_split_t *s, const char *p, size_t *len)
{
    size_t              k, n;
    int64_t             best, id;
    const mst_vocab_t  *v;

    v = s->bpe->vocab;
    best = -1;

    /* they are few and begin with a bracket, in all files known */

    if (*p != '[') {
        return -1;
    }

    n = (size_t) (s->end - p);
    n = n < 64 ? n : 64;

    for (k = 2; k <= n; k++) {

        if (p[k - 1] != ']') {
            continue;
        }

        id = mst_vocab_find(v, 1, p, k);

        if (id >= 0 && v->type[id] == MST_VOCAB_USER) {
            best = id;
            *len = k;
        }
    }

    return best;
}


/* goes on with the copy of the part from pos to scan: MST_AGAIN, MST_OK when
   it is whole, or MST_ERROR */

static int
mst_spm_copy(mst_spm_split_t *s, size_t *budget)
{
    size_t       cost;
    const char  *from, *run, *stop;

    if (s->at == NULL) {
        s->at = s->pos;
        mst_buf_reset(&s->copy);
        (void) mst_buf_reserve(&s->copy, (size_t) (s->scan - s->pos) + 1);

        if (s->prefix) {
            (void) mst_buf_char(&s->copy, ' ');
        }
    }

    from = s->at;
    stop = (size_t) (s->scan - from) / MST_SPM_COPY > *budget
           ? from + *budget * MST_SPM_COPY : s->scan;

    while (s->at < stop) {

        /* one may begin before "stop" and end behind it */

        run = s->scan - stop > 2 ? stop + 2 : s->scan;
        run = memmem(s->at, (size_t) (run - s->at), MST_SPM_SPACE, 3);

        (void) mst_buf_append(&s->copy, s->at,
                              (size_t) ((run ? run : stop) - s->at));
        s->at = stop;

        if (run) {
            (void) mst_buf_char(&s->copy, ' ');
            s->at = run + 3;
        }
    }

    cost = (size_t) (s->at - from) / MST_SPM_COPY;
    *budget -= cost < *budget ? cost : *budget;

    return s->copy.failed ? MST_ERROR
           : s->at < s->scan ? MST_AGAIN : MST_OK;
}


/* the part from pos to scan, as a copy where it is not what it means */

static int
mst_spm_part(mst_spm_split_t *s, size_t *budget, mst_spm_part_t *part)
{
    int  rc;

    part->kind = MST_SPM_TEXT;
    part->text = mst_str(s->pos, (size_t) (s->scan - s->pos));

    if (s->odd) {
        rc = mst_spm_copy(s, budget);

        if (rc != MST_OK) {
            return rc;
        }

        part->text = mst_str(s->copy.data, s->copy.len);
    }

    s->pos = s->scan;
    s->at = NULL;
    s->prefix = 0;
    s->odd = 0;

    return MST_OK;
}


/* does a part end before the character at s->scan, or is it one itself? */

static int
mst_spm_ends(const mst_spm_split_t *s, size_t *size, mst_spm_part_t *part)
{
    size_t       space;
    int64_t      id;
    uint32_t     cp;
    const char  *p;

    p = s->scan;
    id = mst_spm_user(s, p, size);

    if (id >= 0) {
        part->kind = MST_SPM_TOKEN;
        part->id = (uint32_t) id;
        return 1;
    }

    space = mst_spm_space(p, s->end);
    *size = space ? space : mst_utf8_decode(p, (size_t) (s->end - p), &cp);

    if (space) {
        part->kind = MST_SPM_TEXT;

        /* a space behind something else begins a token, if anything does */

        return p > s->pos && !(p[-1] == ' '
                               || (p - s->pos >= 3
                                   && mst_spm_space(p - 3, p) == 3));
    }

    part->kind = MST_SPM_BYTES;

    return mst_vocab_find(s->bpe->vocab, 0, p, *size) < 0;
}


int
mst_spm_split_next(mst_spm_split_t *s, size_t *budget, mst_spm_part_t *part)
{
    size_t       size;
    const char  *from, *stop;

    if (s->at) {
        return mst_spm_part(s, budget, part);
    }

    while (s->scan < s->end) {

        if (*budget == 0) {
            return MST_AGAIN;
        }

        if (mst_spm_ends(s, &size, part)) {

            if (s->scan > s->pos || s->prefix) {
                return mst_spm_part(s, budget, part);
            }

            if (part->kind != MST_SPM_TEXT) {
                part->text = mst_str(s->scan, size);
                s->scan += size;
                s->pos = s->scan;
                --*budget;
                return MST_OK;
            }
        }

        s->odd |= size == 3 && mst_spm_space(s->scan, s->end) == 3;
        from = s->scan;
        s->scan += size;
        stop = (size_t) (s->end - from) > *budget ? from + *budget : s->end;

        while (s->scan < stop
               && s->bpe->plain[(unsigned char) *s->scan])
        {
            s->scan++;
        }

        size = (size_t) (s->scan - from);
        *budget -= size < *budget ? size : *budget;
    }

    return s->scan > s->pos || s->prefix ? mst_spm_part(s, budget, part)
                                         : MST_DONE;
}

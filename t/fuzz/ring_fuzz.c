
/*
 * A ring whose every byte is the peer's, head, tail and lengths included,
 * some of them changed between two looks; and each record of it through the
 * checks of both sides.
 */

#include "fuzz.h"

#include "shm/mst_ring.h"

#define RING  512


static void
fuzz_submit(const mst_record_t *rec, uint32_t len)
{
    mst_err_t                err = { "" };
    const uint32_t          *prompt, *stop;
    const mst_bias_t        *bias;
    const mst_rec_submit_t  *s;

    if (mst_record_check_submit(rec, len, 1000, &prompt, &stop, &bias, &err)
        != MST_OK)
    {
        fuzz_check(err.text[0] != '\0');
        return;
    }

    s = (const mst_rec_submit_t *) rec;
    fuzz_touch(prompt, s->n_prompt * sizeof(uint32_t));
    fuzz_touch(stop, s->n_stop * sizeof(uint32_t));
    fuzz_touch(bias, s->n_bias * sizeof(mst_bias_t));
}


static void
fuzz_record(const mst_record_t *rec, uint32_t len)
{
    uint32_t                n;
    mst_err_t               err = { "" };
    const mst_rec_top_t    *top;
    const unsigned char    *p;
    const mst_rec_token_t  *token;

    fuzz_submit(rec, len);

    if (mst_record_check(rec, len, &err) != MST_OK) {
        fuzz_check(err.text[0] != '\0');
        return;
    }

    fuzz_check(rec->type >= MST_REC_CANCEL && rec->type < MST_REC_TYPES);
    fuzz_check(mst_record_to_engine(rec) == (rec->type == MST_REC_CANCEL
                                             || rec->type >= MST_REC_PACE));
    fuzz_touch(rec, len);

    if (rec->type == MST_REC_REFUSE) {
        fuzz_check(strlen(((const mst_rec_refuse_t *) rec)->text)
                   < sizeof(((mst_rec_refuse_t *) 0)->text));
        return;
    }

    if (rec->type != MST_REC_TOKENS) {
        return;
    }

    n = 0;
    p = (const unsigned char *) ((const mst_rec_tokens_t *) rec + 1);

    while ((token = mst_record_next_token((const mst_rec_tokens_t *) rec, &p,
                                          &top))
           != NULL)
    {
        fuzz_check(token->n_top <= MST_MAX_TOP_LOGPROBS);
        fuzz_touch(token, sizeof(*token));
        fuzz_touch(top, token->n_top * sizeof(*top));
        n++;
    }

    fuzz_check(n == ((const mst_rec_tokens_t *) rec)->n);
}


static void
fuzz_consume(fuzz_t *f, mst_ring_t *r)
{
    int                  i;
    uint32_t             len;
    mst_record_t        *copy;
    const mst_record_t  *rec;

    for (i = 0; i < 64 && mst_ring_peek(r, &rec, &len) == MST_OK; i++) {

        /* the peer writes meanwhile */

        if (fuzz_uint(f, 1) & 1) {
            r->data[fuzz_uint(f, 2) % RING] ^= (unsigned char) fuzz_uint(f, 1);
        }

        copy = malloc(len);
        fuzz_check(copy != NULL);

        mst_ring_copy(copy, rec, len);
        mst_ring_consume(r, len);

        fuzz_record(copy, len);
        free(copy);
    }
}


static void
fuzz_produce(fuzz_t *f, mst_ring_t *r)
{
    int            i;
    uint32_t       len, room;
    mst_record_t  *rec;

    for (i = 0; i < 16; i++) {
        atomic_store(&r->pos->head, r->own - fuzz_uint(f, 2) % (RING + 64));

        room = mst_ring_room(r);
        len = (uint32_t) fuzz_uint(f, 2) % (RING + 8);
        rec = mst_ring_reserve(r, len);

        fuzz_check(room <= RING / 2);
        fuzz_check(rec == NULL || len <= room);

        if (rec != NULL) {
            rec->type = MST_REC_DONE;
            memset(rec + 1, 0xa5, len - sizeof(mst_record_t));
            mst_ring_publish(r, rec);
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t           n;
    fuzz_t           f = { data, size };
    mst_ring_t       r;
    const char      *p;
    unsigned char   *bytes;
    mst_ring_pos_t   pos;

    bytes = calloc(1, RING);
    fuzz_check(bytes != NULL);

    atomic_store(&pos.head, fuzz_uint(&f, 2));
    atomic_store(&pos.tail, atomic_load(&pos.head) + fuzz_uint(&f, 2));

    n = RING;
    p = fuzz_bytes(&f, &n);
    memcpy(bytes, p, n);

    mst_ring_init(&r, &pos, bytes, RING, 0);
    fuzz_consume(&f, &r);

    mst_ring_init(&r, &pos, bytes, RING, 1);
    fuzz_produce(&f, &r);

    free(bytes);

    return 0;
}

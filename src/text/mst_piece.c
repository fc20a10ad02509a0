
/*
 * The table of short tokens: see mst_piece.h.
 */

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "text/mst_piece.h"
#include "text/mst_vocab.h"


int
mst_piece_init(mst_piece_t *t, uint32_t n)
{
    uint32_t  size;

    size = mst_vocab_table_size(n);

    t->mask = size - 1;
    t->shift = 64 - __builtin_ctz(size);
    t->slots = mst_mem_table(size, sizeof(mst_piece_slot_t));
    t->bits = mst_calloc(size / MST_SIEVE_SLOTS, sizeof(uint64_t));

    return t->slots && t->bits ? MST_OK : MST_ERROR;
}


void
mst_piece_fini(mst_piece_t *t)
{
    mst_free(t->slots);
    mst_free(t->bits);
    memset(t, 0, sizeof(mst_piece_t));
}


int
mst_piece_put(mst_piece_t *t, const char *data, size_t len, uint32_t id)
{
    uint32_t          i, n;
    uint64_t          h;
    mst_piece_slot_t  s;

    if (len > MST_PIECE_MAX) {
        h = mst_hash_short(0, data, len) * 0x9e3779b97f4a7c15ull;
        mst_sieve_add(t->bits, h, t->shift);
        return MST_OK;
    }

    s = mst_piece_slot(data, len);
    h = mst_piece_hash(&s);
    i = (uint32_t) (h >> t->shift);

    mst_sieve_add(t->bits, h, t->shift);

    for (n = 0; t->slots[i].id; n++) {

        if (n == MST_VOCAB_MAX_PROBES) {
            return MST_BUSY;
        }

        i = (i + 1) & t->mask;
    }

    s.id |= id;
    t->slots[i] = s;

    return MST_OK;
}

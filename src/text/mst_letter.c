
/*
 * Letters of several bytes: see mst_letter.h.
 */

#include <string.h>

#include "base/mst_err.h"
#include "base/mst_mem.h"
#include "text/mst_letter.h"
#include "text/mst_utf8.h"


#define MST_LETTER_TABLE  65536


int
mst_letter_init(mst_letter_t *l)
{
    size_t  size;

    size = MST_LETTER_TABLE * sizeof(uint32_t);

    l->symbol = mst_alloc(size);
    l->before = mst_alloc(size);
    l->behind = mst_alloc(size);

    if (l->symbol == NULL || l->before == NULL || l->behind == NULL) {
        return MST_ERROR;
    }

    memset(l->symbol, 0xff, size);
    memset(l->before, 0xff, size);
    memset(l->behind, 0xff, size);

    return MST_OK;
}


void
mst_letter_fini(mst_letter_t *l)
{
    mst_free(l->symbol);
    mst_free(l->before);
    mst_free(l->behind);
    memset(l, 0, sizeof(mst_letter_t));
}


static void
mst_letter_least(uint32_t *table, unsigned char left, unsigned char right,
    uint32_t rank)
{
    uint32_t  *p;

    p = &table[left << 8 | right];
    *p = rank < *p ? rank : *p;
}


void
mst_letter_merge(mst_letter_t *l, mst_str_t left, mst_str_t right,
    uint32_t rank)
{
    size_t         i, size;
    unsigned char  first, last;

    first = (unsigned char) right.data[0];
    last = (unsigned char) left.data[left.len - 1];

    /* the beginning of a letter, to something before it */

    size = first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

    if (right.len < size) {
        mst_letter_least(l->before, last, first, rank);
    }

    /* the end of one, to something behind it */

    for (i = 0; i < left.len; i++) {
        if ((left.data[i] & 0xc0) != 0x80) {
            return;
        }
    }

    mst_letter_least(l->behind, last, first, rank);
}


void
mst_letter_drop(mst_letter_t *l, unsigned char byte)
{
    uint32_t  i;

    for (i = 0; i < 256; i++) {
        l->before[byte << 8 | i] = 0;
        l->behind[i << 8 | byte] = 0;
    }
}


void
mst_letter_put(mst_letter_t *l, mst_str_t token, uint32_t number)
{
    uint32_t  cp;

    if ((token.len != 2 && token.len != 3)
        || mst_utf8_check(token.data, token.len) != token.len
        || mst_utf8_decode(token.data, token.len, &cp) != token.len)
    {
        return;
    }

    l->symbol[cp] = number;
}

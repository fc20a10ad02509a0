
/*
 * Token ids to streaming text: see mst_detok.h.
 */

#include "text/mst_detok.h"
#include "text/mst_encode.h"


void
mst_detok_init(mst_detok_t *d, const mst_tokenizer_t *t)
{
    d->tokenizer = t;
    mst_utf8_init(&d->utf8);
    d->strip = mst_tokenizer_is_spm(t);
    d->utf8.each = d->strip;
}


void
mst_detok_continue(mst_detok_t *d)
{
    d->strip = 0;
}


/* a control token does not end a code point that is held: the reference
   drops such ids first and joins the bytes around them */

int
mst_detok_push(mst_detok_t *d, uint32_t id, mst_buf_t *out)
{
    mst_str_t  s;

    s = mst_tokenizer_bytes(d->tokenizer, id);

    if (s.len == 0) {
        return MST_OK;
    }

    if (d->strip) {
        d->strip = 0;

        /* a token of that byte was meant */

        if (s.data[0] == ' ' && s.data != &d->tokenizer->byte[' ']) {
            s = mst_str(s.data + 1, s.len - 1);
        }
    }

    return mst_utf8_push(&d->utf8, s.data, s.len, out);
}


int
mst_detok_finish(mst_detok_t *d, mst_buf_t *out)
{
    return mst_utf8_finish(&d->utf8, out);
}

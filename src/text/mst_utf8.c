
/*
 * UTF-8, whole and in pieces: see mst_utf8.h.
 *
 * What may follow a lead byte depends, for the second byte, on the lead
 * (Unicode, table 3-7); that one table serves the checker, the decoder and
 * the incremental decoder alike.
 */

#include <string.h>

#include "text/mst_utf8.h"


static const char  mst_utf8_replacement[3] = { '\xef', '\xbf', '\xbd' };


/* bytes of the sequence that begins with b; 0: none does */

static uint32_t
mst_utf8_length(unsigned char b)
{
    if (b < 0x80) {
        return 1;
    }

    if (b < 0xc2) {
        return 0;
    }

    return b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : 0;
}


/* may b be byte number i (1 .. 3) behind this lead? */

static int
mst_utf8_follows(unsigned char lead, uint32_t i, unsigned char b)
{
    if (i > 1) {
        return (b & 0xc0) == 0x80;
    }

    switch (lead) {

    case 0xe0:
        return b >= 0xa0 && b <= 0xbf;

    case 0xed:
        return b >= 0x80 && b <= 0x9f;

    case 0xf0:
        return b >= 0x90 && b <= 0xbf;

    case 0xf4:
        return b >= 0x80 && b <= 0x8f;

    default:
        return (b & 0xc0) == 0x80;
    }
}


/* the bytes from p on that are ASCII */

static size_t
mst_utf8_ascii(const unsigned char *p, size_t len)
{
    size_t    i;
    uint64_t  w;

    for (i = 0; len - i >= 8; i += 8) {
        memcpy(&w, p + i, 8);

        if (w & 0x8080808080808080ull) {
            break;
        }
    }

    while (i < len && p[i] < 0x80) {
        i++;
    }

    return i;
}


void
mst_utf8_init(mst_utf8_t *u)
{
    u->n = 0;
    u->each = 0;
}


/* what is held turned out to be nothing */

static int
mst_utf8_drop(mst_utf8_t *u, mst_buf_t *out)
{
    uint32_t  n;

    n = u->each ? u->n : 1;
    u->n = 0;

    for ( /* void */ ; n; n--) {
        if (mst_buf_append(out, mst_utf8_replacement, 3) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_utf8_push(mst_utf8_t *u, const void *data, size_t len, mst_buf_t *out)
{
    size_t                i, n;
    const unsigned char  *p;

    p = data;
    i = 0;

    while (i < len) {

        if (u->n) {

            if (!mst_utf8_follows(u->held[0], u->n, p[i])) {

                /* p[i] is looked at again, as a beginning */

                if (mst_utf8_drop(u, out) != MST_OK) {
                    return MST_ERROR;
                }

                continue;
            }

            u->held[u->n++] = p[i++];

            if (u->n < mst_utf8_length(u->held[0])) {
                continue;
            }

            n = u->n;
            u->n = 0;

            if (mst_buf_append(out, u->held, n) != MST_OK) {
                return MST_ERROR;
            }

            continue;
        }

        n = mst_utf8_ascii(p + i, len - i);

        if (n && mst_buf_append(out, p + i, n) != MST_OK) {
            return MST_ERROR;
        }

        i += n;

        if (i == len) {
            break;
        }

        if (mst_utf8_length(p[i])) {
            u->held[u->n++] = p[i++];
            continue;
        }

        i++;

        if (mst_buf_append(out, mst_utf8_replacement, 3) != MST_OK) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


int
mst_utf8_finish(mst_utf8_t *u, mst_buf_t *out)
{
    return u->n ? mst_utf8_drop(u, out) : MST_OK;
}


size_t
mst_utf8_check(const void *data, size_t len)
{
    size_t                i, n;
    uint32_t              cp;
    const unsigned char  *p;

    p = data;
    i = 0;

    while (i < len) {
        i += mst_utf8_ascii(p + i, len - i);

        if (i == len) {
            break;
        }

        n = mst_utf8_decode(p + i, len - i, &cp);

        if (n == 1) {
            break;
        }

        i += n;
    }

    return i;
}


size_t
mst_utf8_decode(const void *data, size_t len, uint32_t *cp)
{
    uint32_t              i, n, c;
    const unsigned char  *p;

    p = data;
    n = mst_utf8_length(p[0]);

    if (n == 1) {
        *cp = p[0];
        return 1;
    }

    *cp = 0xfffd;

    if (n == 0 || n > len) {
        return 1;
    }

    c = p[0] & (0x7fu >> n);

    for (i = 1; i < n; i++) {

        if (!mst_utf8_follows(p[0], i, p[i])) {
            return 1;
        }

        c = c << 6 | (p[i] & 0x3f);
    }

    *cp = c;

    return n;
}


/*
 * base64url: see mst_b64url.h.
 */

#include "api/mst_b64url.h"
#include "base/mst_err.h"


static int mst_b64url_value(unsigned char c);


int
mst_b64url_decode(mst_str_t s, unsigned char *out, size_t *len)
{
    int             v;
    size_t          i;
    unsigned        bits;
    unsigned char  *p;

    if (s.len % 4 == 1) {
        return MST_ERROR;
    }

    p = out;
    bits = 0;

    for (i = 0; i < s.len; i++) {
        v = mst_b64url_value((unsigned char) s.data[i]);
        if (v < 0) {
            return MST_ERROR;
        }

        bits = bits << 6 | (unsigned) v;

        if (i % 4) {
            *p++ = (unsigned char) (bits >> (6 - i % 4 * 2));
        }
    }

    /* 2 or 3 characters at the end leave 4 or 2 bits over */

    if ((s.len % 4 == 2 && (bits & 0xf)) || (s.len % 4 == 3 && (bits & 0x3))) {
        return MST_ERROR;
    }

    *len = (size_t) (p - out);

    return MST_OK;
}


static int
mst_b64url_value(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }

    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }

    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }

    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

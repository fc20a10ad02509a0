
/*
 * base64url as JWS and JWK write it (RFC 7515): no padding, no spaces, and
 * one spelling for each value: bits behind the last byte are zero.  Any
 * thread.
 */

#ifndef MST_B64URL_H
#define MST_B64URL_H

#include <stddef.h>

#include "base/mst_str.h"


/* bytes that n characters stand for, at most */
#define mst_b64url_size(n)  ((n) / 4 * 3 + 2)


/* MST_OK with the bytes in out, of mst_b64url_size(s.len), and their number
   in *len; MST_ERROR: it is no base64url */
int mst_b64url_decode(mst_str_t s, unsigned char *out, size_t *len);


#endif /* MST_B64URL_H */

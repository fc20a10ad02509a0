
/*
 * JSON at the door: a text that is read at once (in pieces: mst_json_read.h),
 * and a writer of strings and numbers.
 *
 * Keeps nothing: any thread, each with its own text and buffer.
 */

#ifndef MST_JSON_H
#define MST_JSON_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "api/mst_api_error.h"
#include "base/mst_buf.h"
#include "base/mst_str.h"


/* one JSON object, or NULL with e set; what is refused: mst_json_read.h */
json_t *mst_json_parse(const char *data, size_t len, mst_api_error_t *e);

/* appends "..." with everything escaped that must be; invalid UTF-8 becomes
   U+FFFD */
int mst_json_string(mst_buf_t *out, mst_str_t s);

/* shortest number that reads back as the same double; not finite: null */
int mst_json_number(mst_buf_t *out, double x);

/* the same for a float: nine digits at most */
int mst_json_float(mst_buf_t *out, float x);

/* text of JSON with what its strings' escapes stand for; "to" has room for
   s.len bytes and gets UTF-8, like s.  Returns how many.  What is no escape
   stays as it is. */
size_t mst_json_unescape(mst_str_t s, char *to);

/* the number of four hexadecimal digits; -1: they are none */
int32_t mst_json_hex(const char *p, const char *end);

/* length of the valid UTF-8 character at p < end, 0 = invalid */
size_t mst_json_utf8(const unsigned char *p, const unsigned char *end);


#endif /* MST_JSON_H */

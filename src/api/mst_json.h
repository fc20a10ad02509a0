
/*
 * JSON at the door (jansson behind it): a scan that bounds what the parser
 * may cost, the parser's strict mode, and a writer of strings.
 */

#ifndef MST_JSON_H
#define MST_JSON_H

#include <stddef.h>

#include <jansson.h>

#include "api/mst_api_error.h"
#include "base/mst_buf.h"
#include "base/mst_str.h"


#define MST_JSON_MAX_DEPTH     64
#define MST_JSON_MAX_OBJECTS   20000       /* objects and arrays */
#define MST_JSON_MAX_VALUES    400000      /* everything behind a comma */


/*
 * One JSON object, or NULL with a 400 in e: invalid UTF-8, raw control
 * characters, trailing bytes, too deep, too many values.  Duplicate keys:
 * the last wins, as in Python and JavaScript.  The escape \u0000 is legal.
 */
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

/* length of the valid UTF-8 character at p < end, 0 = invalid */
size_t mst_json_utf8(const unsigned char *p, const unsigned char *end);


#endif /* MST_JSON_H */

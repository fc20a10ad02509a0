
/*
 * Where does a JSON value end that comes in pieces, and is it one at all?
 * Byte by byte, without memory: strict RFC 8259, UTF-8 excepted, which the
 * detokenizer made.  For what a model writes; requests have api/mst_json.h.
 *
 * Plain memory, one thread at a time.
 */

#ifndef MST_JSON_SCAN_H
#define MST_JSON_SCAN_H

#include <stdint.h>

#include "base/mst_err.h"


#define MST_JSON_SCAN_DEPTH  64


typedef struct {
    uint64_t     objects;      /* bit d: the level d is an object's */
    const char  *rest;         /* of a literal */
    uint8_t      depth;        /* levels that are open */
    uint8_t      state;
    uint8_t      key;          /* the string is one of an object's keys */
    uint8_t      hex;          /* digits of \u that are missing */
} mst_json_scan_t;


/* the next byte is space or the first of a value */
void mst_json_scan_init(mst_json_scan_t *s);

/*
 * MST_OK: goes on; MST_DONE: the value ends with c; MST_DECLINED: it ended
 * before c, which is not its own (numbers); MST_ERROR: no JSON, or deeper
 * than MST_JSON_SCAN_DEPTH.  After another answer than MST_OK it must be
 * initialized anew.
 */
int mst_json_scan_push(mst_json_scan_t *s, char c);


#endif /* MST_JSON_SCAN_H */

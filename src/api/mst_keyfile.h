
/*
 * A file of API keys, one a line:
 *
 *     name:{SHA256}hex[:tier[:models[:quota]]]
 *
 * Only the digest of a key is kept, so the file gives no key away.  Empty
 * lines and lines that begin with "#" say nothing.  A name may have several
 * keys.  A parsed file does not change: processes that fork may share it.
 */

#ifndef MST_KEYFILE_H
#define MST_KEYFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_str.h"


#define MST_KEYFILE_DIGEST    32
#define MST_KEYFILE_MAX_LINE  4096     /* bytes */


typedef struct {
    mst_str_t       name;              /* 1 byte at least; these four are */
    mst_str_t       tier;              /* printable ASCII without ":" */
    mst_str_t       models;            /* names with commas between them */
    mst_str_t       quota;             /* a number, 10, 10k or 10m */
    unsigned char   digest[MST_KEYFILE_DIGEST];
    uint32_t        next;              /* in its bucket, + 1; 0: the last */
} mst_key_t;

typedef struct mst_keyfile_s  mst_keyfile_t;


/* NULL with "line N: ..." in err; seed: of the table, secret */
mst_keyfile_t *mst_keyfile_parse(const char *data, size_t len, uint64_t seed,
    mst_err_t *err);
void mst_keyfile_destroy(mst_keyfile_t *file);         /* NULL is fine */

/* whose key this is, NULL: nobody's; the time that it takes tells nothing
   of the keys in the file */
const mst_key_t *mst_keyfile_find(const mst_keyfile_t *file, mst_str_t key);

size_t mst_keyfile_count(const mst_keyfile_t *file);


#endif /* MST_KEYFILE_H */

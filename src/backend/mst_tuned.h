
/*
 * What was measured to be the fastest, kept for the next start: for a product
 * of a shape, which of the ways that a library offers was chosen.
 *
 * One file of a directory is for one key, a text that names all that a choice
 * depends on besides the shape (device, driver, library).  The file is nobody's
 * but the user's who wrote it; what it says is not trusted: a choice is a
 * number among offers that the caller asks the library for anew, so the worst
 * that a file can do is to be slow.  Nothing here is an error: without a file
 * everything is measured, which one line of the log says.
 *
 * One thread calls.
 */

#ifndef MST_TUNED_H
#define MST_TUNED_H

#include <stdint.h>

#include "base/mst_log.h"

#define MST_TUNED_MAX   4096       /* entries of a file */
#define MST_TUNED_PATH  1200       /* bytes, with the NUL */


/* plain data: part of the file */
typedef struct {
    uint32_t  rows;                /* of the matrix */
    uint32_t  width;
    uint32_t  n;                   /* rows of the other one */
    uint32_t  kind;                /* types, and what becomes of the result:
                                      the caller's number */
    uint32_t  choice;              /* index of the offers */
} mst_tuned_entry_t;


typedef struct {
    const mst_log_t    *log;
    char                path[MST_TUNED_PATH];  /* "": none is kept */
    uint64_t            key;
    mst_tuned_entry_t  *entries;
    uint32_t            n;
    uint32_t            added;     /* since the file was read */
} mst_tuned_t;


/* reads the file of a key, where there is one; dir NULL or "": none is kept */
void mst_tuned_init(mst_tuned_t *t, const char *dir, const char *key,
    const mst_log_t *log);
void mst_tuned_fini(mst_tuned_t *t);

/* choice of the entry that is like e in all but its choice; -1: none */
int mst_tuned_find(const mst_tuned_t *t, const mst_tuned_entry_t *e);

/* one of MST_TUNED_MAX at most, in place of its like */
void mst_tuned_add(mst_tuned_t *t, const mst_tuned_entry_t *e);

/* into a new file that takes the place of the old one, if there is anything
   new */
void mst_tuned_save(mst_tuned_t *t);


#endif /* MST_TUNED_H */

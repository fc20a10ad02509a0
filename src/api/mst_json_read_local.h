
/*
 * What the files of the reader of JSON share: mst_json_read.c (marks, numbers
 * and the tree), mst_json_string.c (keys and strings).  Nobody else includes
 * it.
 *
 * A worker runs both for a body that has come, and whoever calls
 * mst_json_parse(); they allocate, and never wait.
 */

#ifndef MST_JSON_READ_LOCAL_H
#define MST_JSON_READ_LOCAL_H

#include <stddef.h>

#include "api/mst_json.h"
#include "api/mst_json_read.h"
#include "base/mst_buf.h"


typedef enum {
    MST_JSON_READ_ANY = 0,                     /* a value */
    MST_JSON_READ_ITEM,                        /* a value, or ] */
    MST_JSON_READ_NAME,                        /* a key */
    MST_JSON_READ_FIRST,                       /* a key, or } */
    MST_JSON_READ_COLON,
    MST_JSON_READ_NEXT,                        /* a comma, or an end */
    MST_JSON_READ_TAIL,                        /* nothing more */
    MST_JSON_READ_STRING,                      /* its end */
    MST_JSON_READ_UNESCAPE,                    /* of one that has ended */
    MST_JSON_READ_DONE
} mst_json_read_state_t;


struct mst_json_read_s {
    const unsigned char    *start;
    const unsigned char    *p;
    const unsigned char    *end;
    size_t                  left;              /* of the budget */
    mst_json_read_state_t   state;
    mst_api_error_t        *e;

    json_t                 *root;
    json_t                 *open[MST_JSON_MAX_DEPTH];  /* parts of root */
    size_t                  depth;
    size_t                  lists;
    size_t                  values;

    const unsigned char    *from;              /* of a string, what is not yet
                                                  copied */
    const unsigned char    *last;              /* its quotation mark */
    int                     name;              /* it is a key */
    int                     escaped;
    mst_buf_t               key;               /* with a NUL */
    mst_buf_t               text;              /* without its escapes */
};


/* mst_json_read.c */

static inline void
mst_json_read_spend(mst_json_read_t *r, size_t n)
{
    r->left -= n < r->left ? n : r->left;
}

/* each sets r->e and is MST_ERROR; "bad" is a byte at r->p that stands at the
   wrong place, or none */
int mst_json_read_memory(mst_json_read_t *r);
int mst_json_read_error(mst_json_read_t *r, const char *what);
int mst_json_read_bad(mst_json_read_t *r, const char *what);

/* v has its place, or is freed; NULL: no memory */
int mst_json_read_put(mst_json_read_t *r, json_t *v);


/* mst_json_string.c */

/*
 * From r->p, behind a quotation mark or where it was left, to the end of the
 * string if that is near; an open one comes to r->end.  Then the key is there,
 * or the value has its place, or it is to be unescaped: r->state.  MST_OK with
 * nothing left of the budget: there may be more to do.
 */
int mst_json_string_scan(mst_json_read_t *r);

/* copies the one that has ended without its escapes, which are good, and puts
   it; MST_OK as above */
int mst_json_string_unescape(mst_json_read_t *r);


#endif /* MST_JSON_READ_LOCAL_H */

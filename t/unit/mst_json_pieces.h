
/*
 * A text of JSON that is read in pieces, and how many they were.
 */

#ifndef MST_JSON_PIECES_H
#define MST_JSON_PIECES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "api/mst_json_read.h"
#include "base/mst_buf.h"


typedef struct {
    const char  *open;
    const char  *unit;
    const char  *close;
    double       least;                /* turns for 4096 bytes of it */
} pieces_case_t;


/* the end of the text stands at the end of its heap block, for ASan; *turns
   gets how many times there was more to do */

static json_t *
pieces(const char *text, size_t len, size_t budget, size_t *turns,
    mst_api_error_t *e)
{
    int               rc;
    char             *copy;
    json_t           *root;
    mst_json_read_t  *r;

    memset(e, 0, sizeof(mst_api_error_t));
    copy = malloc(len ? len : 1);
    memcpy(copy, text, len);

    r = mst_json_read_create(copy, len);
    assert_non_null(r);

    for (*turns = 0; (rc = mst_json_read_run(r, budget, e)) == MST_AGAIN;
         (*turns)++)
    {
        assert_true(*turns < 1u << 24);
    }

    root = rc == MST_OK ? mst_json_read_take(r) : NULL;
    mst_json_read_destroy(r);
    free(copy);

    return root;
}


/* pieces of one text: what a budget's work is, by how often it was not
   enough */

static void
pieces_case(const pieces_case_t *cases, size_t n_cases)
{
    size_t           i, n, turns;
    json_t          *root;
    mst_buf_t        b;
    mst_api_error_t  e;

    mst_buf_init(&b);

    for (i = 0; i < n_cases; i++) {
        mst_buf_reset(&b);
        (void) mst_buf_text(&b, cases[i].open);

        for (n = 0; b.len < 1 << 19; n++) {
            (void) mst_buf_text(&b, cases[i].unit);
        }

        (void) mst_buf_text(&b, cases[i].close);
        root = pieces(b.data, b.len, 4096, &turns, &e);

        if (root == NULL) {
            fail_msg("case %zu: %s", i, e.message);
        }

        if ((double) turns < cases[i].least * (double) (b.len / 4096 - 1)) {
            fail_msg("case %zu: %zu turns", i, turns);
        }

        json_decref(root);
    }

    mst_buf_fini(&b);
}


#endif /* MST_JSON_PIECES_H */

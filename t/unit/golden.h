
/*
 * The checkpoints of t/data/golden/tiny and what a reference in float64
 * computed of them: logits of two rows, and a greedy answer with the margins
 * of its tokens.
 */

#ifndef GOLDEN_H
#define GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define GOLDEN_TINY    "t/data/golden/tiny/"
#define GOLDEN_TOKENS  128


typedef struct {
    uint32_t   ids[GOLDEN_TOKENS]; /* the prompt, then the answer */
    uint32_t   n;
    uint32_t   prompt;             /* of them */
    double     margins[GOLDEN_TOKENS];     /* [n], 0 in the prompt */
    uint32_t   mid;                /* a position */
    double    *mid_logits;
    double    *last_logits;        /* of the prompt */
} golden_t;


static const char *const  golden_dense[] = {
    "llama-f16", "llama-mha", "llama-tied-f32", "ministral-layers",
    "ministral3-temp", "mistral-plain", "mistral-window", "rope-linear",
    "rope-llama3", "rope-yarn", NULL
};


static inline double *
golden_row(const json_t *o, const char *name)
{
    size_t   i, n;
    double  *row;

    o = json_object_get(o, name);
    n = json_array_size(o);
    row = calloc(n + 1, sizeof(double));
    assert_true(n && row);

    for (i = 0; i < n; i++) {
        row[i] = json_number_value(json_array_get(o, i));
    }

    return row;
}


static inline void
golden_load(golden_t *g, const char *name)
{
    char           path[256];
    size_t         i;
    json_t        *o, *ids;
    json_error_t   e;

    (void) snprintf(path, sizeof(path), GOLDEN_TINY "%s/expected.json", name);
    o = json_load_file(path, 0, &e);
    assert_non_null(o);

    ids = json_object_get(o, "prompt_ids");
    g->prompt = (uint32_t) json_array_size(ids);
    g->n = 0;

    for (i = 0; i < json_array_size(ids); i++) {
        assert_true(g->n < GOLDEN_TOKENS);
        g->margins[g->n] = 0;
        g->ids[g->n++] = (uint32_t) json_integer_value(json_array_get(ids, i));
    }

    ids = json_object_get(o, "greedy_ids");
    assert_true(json_array_size(ids) > 0);

    for (i = 0; i < json_array_size(ids); i++) {
        assert_true(g->n < GOLDEN_TOKENS);
        g->margins[g->n] = json_number_value(json_array_get(
            json_object_get(o, "greedy_margins"), i));
        g->ids[g->n++] = (uint32_t) json_integer_value(json_array_get(ids, i));
    }

    g->mid = (uint32_t) json_integer_value(json_object_get(o,
                                                           "mid_position"));
    g->mid_logits = golden_row(o, "mid_logits");
    g->last_logits = golden_row(o, "last_logits");
    json_decref(o);
}


static inline void
golden_free(golden_t *g)
{
    free(g->mid_logits);
    free(g->last_logits);
}


#endif /* GOLDEN_H */

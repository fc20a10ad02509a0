
/*
 * What is served, by the end of the URI, whatever the location's prefix.
 *
 * Tables that nobody changes: any thread.
 */

#ifndef MST_API_H
#define MST_API_H

#include "base/mst_str.h"


typedef enum {
    MST_API_UNKNOWN,
    MST_API_CHAT,                  /* POST .../chat/completions */
    MST_API_COMPLETION,            /* POST .../completions */
    MST_API_FIM,                   /* POST .../fim/completions */
    MST_API_MODELS,                /* GET .../models */
    MST_API_MODEL,                 /* GET .../models/ID */
    MST_API_TOKENIZE,              /* POST .../tokenize */
    MST_API_DETOKENIZE             /* POST .../detokenize */
} mst_api_t;


/* the model is asked for an answer */

static inline int
mst_api_answers(mst_api_t api)
{
    return api == MST_API_CHAT || api == MST_API_COMPLETION
           || api == MST_API_FIM;
}


/* whose form the answer has: what fills in the middle is an assistant's
   message */

static inline mst_api_t
mst_api_form(mst_api_t api)
{
    return api == MST_API_FIM ? MST_API_CHAT : api;
}


/* *id is empty, for MST_API_MODEL the rest behind "/models/" (may hold
   slashes); it points into uri */
mst_api_t mst_api_find(mst_str_t uri, mst_str_t *id);

/* "POST, OPTIONS" or "GET, HEAD, OPTIONS": for Allow; NULL for
   MST_API_UNKNOWN */
const char *mst_api_allow(mst_api_t api);


#endif /* MST_API_H */

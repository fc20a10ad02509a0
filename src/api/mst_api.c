
/*
 * URIs of the API: see mst_api.h.
 */

#include <string.h>

#include "api/mst_api.h"


#define MST_API_ALLOW_POST  "POST, OPTIONS"
#define MST_API_ALLOW_GET   "GET, HEAD, OPTIONS"


typedef struct {
    mst_str_t    end;              /* of the URI */
    mst_api_t    api;
    const char  *allow;
} mst_api_end_t;


/* "/chat/completions" ends in "/completions" too: the longer ones are
   first */

static const mst_api_end_t  mst_api_ends[] = {
    { mst_string("/chat/completions"), MST_API_CHAT, MST_API_ALLOW_POST },
    { mst_string("/fim/completions"), MST_API_FIM, MST_API_ALLOW_POST },
    { mst_string("/completions"), MST_API_COMPLETION, MST_API_ALLOW_POST },
    { mst_string("/models"), MST_API_MODELS, MST_API_ALLOW_GET },
    { mst_string("/tokenize"), MST_API_TOKENIZE, MST_API_ALLOW_POST },
    { mst_string("/detokenize"), MST_API_DETOKENIZE, MST_API_ALLOW_POST },
    { mst_string(""), MST_API_MODEL, MST_API_ALLOW_GET }
};


mst_api_t
mst_api_find(mst_str_t uri, mst_str_t *id)
{
    size_t                i;
    const char           *p;
    const mst_api_end_t  *t;

    /* an ID may hold slashes, even "/models/": the first one counts, but one
       behind "/v1" is surer than one that may belong to the prefix */

    static const mst_str_t  models[] = {
        mst_string("/v1/models/"), mst_string("/models/")
    };

    *id = mst_str("", 0);

    for (t = mst_api_ends; t->end.len; t++) {

        if (uri.len >= t->end.len
            && memcmp(uri.data + uri.len - t->end.len, t->end.data,
                      t->end.len) == 0)
        {
            return t->api;
        }
    }

    for (i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        p = memmem(uri.data, uri.len, models[i].data, models[i].len);

        if (p != NULL) {
            p += models[i].len;
            *id = mst_str(p, (size_t) (uri.data + uri.len - p));

            return id->len ? MST_API_MODEL : MST_API_UNKNOWN;
        }
    }

    return MST_API_UNKNOWN;
}


const char *
mst_api_allow(mst_api_t api)
{
    size_t  i;

    for (i = 0; i < sizeof(mst_api_ends) / sizeof(mst_api_ends[0]); i++) {

        if (mst_api_ends[i].api == api) {
            return mst_api_ends[i].allow;
        }
    }

    return NULL;
}

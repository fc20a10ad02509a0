
/*
 * "http://HOST[:PORT][/PATH]", and connections to it.
 */

#ifndef MISTRAL_BENCH_URL_H
#define MISTRAL_BENCH_URL_H

#include <sys/socket.h>

#include "base/mst_err.h"


typedef struct {
    char                     host[264];    /* as it stands in the URL */
    char                     port[8];
    char                     path[1024];   /* of the API, "/v1/completions" */
    struct sockaddr_storage  addr;
    socklen_t                addr_len;
} mistral_bench_url_t;


/* MST_OK, or MST_ERROR with a sentence */
int mistral_bench_url_parse(mistral_bench_url_t *u, const char *text,
    mst_err_t *err);

/* looks the name up and takes the first of its addresses where somebody
   answers */
int mistral_bench_url_resolve(mistral_bench_url_t *u, mst_err_t *err);


#endif /* MISTRAL_BENCH_URL_H */

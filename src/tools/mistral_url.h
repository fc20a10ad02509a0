
/*
 * "http://HOST[:PORT][/PATH]", and connections to it.
 */

#ifndef MISTRAL_URL_H
#define MISTRAL_URL_H

#include <sys/socket.h>

#include "base/mst_err.h"


typedef struct {
    char                     host[264];    /* as it stands in the URL */
    char                     port[8];
    char                     path[1024];   /* "/" where there is none */
    struct sockaddr_storage  addr;
    socklen_t                addr_len;
} mistral_url_t;


/* MST_OK, or MST_ERROR with a sentence; the path stays as it stands there */
int mistral_url_parse(mistral_url_t *u, const char *text,
    mst_err_t *err);

/* makes the path that of an API: a base gets "/chat/completions", "/" is the
   base "/v1" */
int mistral_url_api(mistral_url_t *u, mst_err_t *err);

/* looks the name up and takes the first of its addresses where somebody
   answers: the descriptor, or -1 with a sentence; addr is set */
int mistral_url_connect(mistral_url_t *u, mst_err_t *err);

/* the same for the address alone; MST_OK or MST_ERROR */
int mistral_url_resolve(mistral_url_t *u, mst_err_t *err);


#endif /* MISTRAL_URL_H */

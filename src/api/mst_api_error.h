
/*
 * An error as the OpenAI API shows it.  Set once, by whoever finds it.  It
 * belongs to one request.
 */

#ifndef MST_API_ERROR_H
#define MST_API_ERROR_H

#include "base/mst_buf.h"


typedef struct {
    int          status;           /* HTTP; 0 = no error */
    const char  *type;             /* "invalid_request_error"; static */
    const char  *code;             /* static, NULL = null */
    char         param[96];        /* JSON path "messages[3].role", "" = null */
    char         message[512];     /* one sentence */
} mst_api_error_t;


/* fills e, returns MST_ERROR; type follows from the status: 401 is
   authentication_error, 429 rate_limit_error, another 4xx
   invalid_request_error, 5xx server_error */
int mst_api_error_set(mst_api_error_t *e, int status, const char *code,
    const char *param, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* another status, and the type that follows from it */
void mst_api_error_status(mst_api_error_t *e, int status);

/* {"error":{"message":..,"type":..,"param":..,"code":..}}\n */
int mst_api_error_json(const mst_api_error_t *e, mst_buf_t *out);


#endif /* MST_API_ERROR_H */

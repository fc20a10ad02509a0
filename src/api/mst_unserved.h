
/*
 * Fields that OpenAI, Mistral or widespread engines know and this server
 * does not serve.  What a client asked for is never silently left out: any
 * value but the one that changes nothing is 400 with code "unsupported".
 */

#ifndef MST_UNSERVED_H
#define MST_UNSERVED_H

#include "api/mst_field.h"
#include "api/mst_request.h"


/* MST_OK, or MST_ERROR for the first such field in the order of the table */
int mst_unserved_check(const mst_field_t *f, mst_api_t api);


#endif /* MST_UNSERVED_H */

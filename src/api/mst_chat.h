
/*
 * "messages" of a chat: roles and texts.
 */

#ifndef MST_CHAT_H
#define MST_CHAT_H

#include <jansson.h>

#include "api/mst_api_error.h"
#include "base/mst_buf.h"
#include "base/mst_message.h"


/*
 * Checks the list and fills *messages (mst_free() it, also after an error)
 * and *n.  The texts are copied into "text", which must have room for them:
 * it is never grown, so that pointers into it stay good.  All text of a JSON
 * document fits in the document's own size.
 *
 * Parts of one message are joined by newlines, as other engines do.  *prefix
 * says whether the last message, an assistant's, is "prefix": true.
 */
int mst_chat_parse(const json_t *list, mst_buf_t *text,
    mst_message_t **messages, size_t *n, int *prefix, mst_api_error_t *e);

/* "safe_prompt": Mistral's words for it as a first system message */
int mst_chat_safe(mst_message_t **messages, size_t *n, mst_api_error_t *e);

/* the copy of s in "text" */
mst_str_t mst_chat_copy(mst_buf_t *text, mst_str_t s);


#endif /* MST_CHAT_H */

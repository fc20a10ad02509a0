
/*
 * The body of a request to a plain struct, with every field's type and range
 * checked.  Unknown fields are ignored; known fields that this build does
 * not serve are 400 with code "unsupported", never ignored.
 *
 * A request owns its memory; strings point into it.  No nginx, no tokens.  A
 * request belongs to one thread, and so does what reads its parts
 * (mst_field.h, mst_chat.h, mst_call.h, mst_input.h, mst_sampling.h,
 * mst_tools.h, mst_unserved.h): a worker's, or a test's.
 */

#ifndef MST_REQUEST_H
#define MST_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "api/mst_api.h"
#include "api/mst_api_error.h"
#include "api/mst_tools.h"
#include "base/mst_message.h"
#include "base/mst_params.h"
#include "base/mst_str.h"


/* one prompt of a text completion or of /tokenize; /detokenize's tokens */
typedef struct {
    mst_str_t        text;
    const uint32_t  *ids;              /* [n_ids] instead of text, or NULL */
    size_t           n_ids;
} mst_input_t;


/* what the body itself says, so that no default of the host replaces it */
#define MST_GIVEN_TEMPERATURE         0x0001
#define MST_GIVEN_TOP_P               0x0002
#define MST_GIVEN_TOP_K               0x0004
#define MST_GIVEN_MIN_P               0x0008
#define MST_GIVEN_FREQUENCY_PENALTY   0x0010
#define MST_GIVEN_PRESENCE_PENALTY    0x0020
#define MST_GIVEN_REPETITION_PENALTY  0x0040
#define MST_GIVEN_SEED                0x0080
#define MST_GIVEN_STOP                0x0100
#define MST_GIVEN_LENGTH              0x0200   /* any limit on the answer */


typedef struct {
    mst_api_t        api;
    mst_str_t        model;            /* len 0: absent */
    uint32_t         given;            /* MST_GIVEN_* */

    mst_message_t   *messages;         /* [n_messages] chat, tokenize */
    size_t           n_messages;
    int              safe;             /* the first is safe_prompt's */
    mst_part_t      *parts;            /* of all messages, owned */
    mst_call_t      *calls;            /* [n_calls] of all messages, owned */
    size_t           n_calls;
    char            *system;           /* mst_system.c's text, owned */
    mst_str_t        effort;           /* reasoning_effort; len 0: absent */
    mst_str_t        variables;        /* chat_template_kwargs, as JSON */
    char            *variables_owned;  /* its memory */

    int              continue_last;    /* the last message, an assistant's, is
                                          what the answer goes on with */
    int              closed;           /* no assistant's turn is opened */

    mst_tools_t      tools;            /* chat */

    mst_input_t     *inputs;           /* [n_inputs] where there are no
                                          messages */
    size_t           n_inputs;
    int              has_prompt;       /* inputs were given */
    mst_str_t        suffix;           /* fim: what the one input, the prefix,
                                          is to be led to; may be empty */

    mst_params_t     params;           /* max_tokens, soft_tokens: left alone,
                                          mst_fit.h fills them */
    int              has_seed;         /* else the host sets a random one */
    mst_bias_t      *bias;             /* [n_bias] */
    size_t           n_bias;
    uint32_t        *stop_ids;         /* [n_stop_ids] stop_token_ids */
    size_t           n_stop_ids;
    mst_str_t       *stop;             /* [n_stop] stop strings */
    size_t           n_stop;

    /* limits on the answer as given; 0 = absent */
    uint32_t         max_tokens;       /* strict: max_completion_tokens wins */
    uint32_t         max_new_tokens;   /* soft */
    uint32_t         hard_max_new_tokens;

    uint32_t         cap;              /* the host's own strict limit */

    int              prompt_only;      /* "max_tokens": 0 */

    uint32_t         n;                /* answers to each input, 1 .. 128 */
    int              echo;             /* the answer begins with the input, or
                                          with the message that it continues */
    int              stream;
    int              include_usage;    /* stream_options.include_usage */
    int              logprobs;         /* report; params.n_top alternatives */
    int              add_special_tokens;   /* tokenize; default 1 */
    int              return_token_strs;    /* tokenize */
    mst_str_t        user;
    mst_str_t        task;             /* len 0: absent */
    mst_str_t        cache_salt;       /* len 0: absent */
} mst_request_t;


/* NULL with e set; mst_request_destroy() frees it */
mst_request_t *mst_request_parse(mst_api_t api, const char *body, size_t len,
    mst_api_error_t *e);

/* of a body of so many bytes that was read already; root is the callee's */
mst_request_t *mst_request_take(mst_api_t api, json_t *root, size_t len,
    mst_api_error_t *e);

void mst_request_destroy(mst_request_t *r);    /* r may be NULL */


#endif /* MST_REQUEST_H */


/*
 * The body of a request for each API (the first byte says which), and what
 * the gateway does with it before a token is known.
 */

#include "fuzz.h"

#include "api/mst_fit.h"
#include "api/mst_json.h"
#include "text/mst_utf8.h"


static const mst_api_t  apis[] = {
    MST_API_CHAT, MST_API_COMPLETION, MST_API_TOKENIZE, MST_API_DETOKENIZE
};


static void
fuzz_error(const mst_api_error_t *e)
{
    json_t     *json;
    mst_buf_t   out;

    fuzz_check(e->status >= 400 && e->status < 500 && e->message[0] != '\0');

    mst_buf_init(&out);
    fuzz_check(mst_api_error_json(e, &out) == MST_OK);

    json = json_loadb(out.data, out.len, 0, NULL);
    fuzz_check(json != NULL);

    json_decref(json);
    mst_buf_fini(&out);
}


static void
fuzz_text(mst_str_t s)
{
    fuzz_check(mst_utf8_check(s.data, s.len) == s.len);
}


/* of those that generate: the engine will not refuse it */

static void
fuzz_limits(mst_request_t *r)
{
    uint32_t         context;
    mst_err_t        err = { "" };
    mst_api_error_t  e;

    fuzz_check(r->n_stop <= 16 && r->n_stop_ids <= MST_MAX_STOP_IDS
               && r->n_bias <= MST_MAX_BIAS && r->n >= 1 && r->n <= 128);

    for (context = 1; context <= 65536; context *= 16) {
        memset(&e, 0, sizeof(e));

        if (mst_fit_length(r, 0, 17, context, &e) != MST_OK) {
            fuzz_error(&e);
            continue;
        }

        fuzz_check(mst_params_check(&r->params, &err) == MST_OK);
        fuzz_check(17 + (uint64_t) r->params.max_tokens <= context);
    }
}


static void
fuzz_request(mst_request_t *r)
{
    size_t           i;
    mst_api_error_t  e;

    fuzz_text(r->model);
    fuzz_text(r->user);

    for (i = 0; i < r->n_inputs; i++) {
        fuzz_text(r->inputs[i].text);
        fuzz_touch(r->inputs[i].ids, r->inputs[i].n_ids * sizeof(uint32_t));
    }

    for (i = 0; i < r->n_messages; i++) {
        fuzz_check(r->messages[i].role <= MST_ROLE_TOOL);
        fuzz_text(r->messages[i].content);
    }

    for (i = 0; i < r->n_stop; i++) {
        fuzz_check(r->stop[i].len != 0);
        fuzz_text(r->stop[i]);
    }

    memset(&e, 0, sizeof(e));

    if (mst_fit_ids(r, 49152, &e) != MST_OK) {
        fuzz_error(&e);
    }

    if (r->api == MST_API_CHAT || r->api == MST_API_COMPLETION) {
        fuzz_limits(r);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mst_str_t        id;
    mst_request_t   *r;
    mst_api_error_t  e;

    if (size == 0) {
        return 0;
    }

    (void) mst_api_find(mst_str((const char *) data, size), &id);

    memset(&e, 0, sizeof(e));

    r = mst_request_parse(apis[data[0] % 4], (const char *) data + 1,
                          size - 1, &e);
    if (r == NULL) {
        fuzz_error(&e);
        return 0;
    }

    fuzz_request(r);
    mst_request_destroy(r);

    return 0;
}

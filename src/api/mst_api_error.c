
/*
 * Errors in OpenAI's form: see mst_api_error.h.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/mst_api_error.h"
#include "api/mst_json.h"


static void mst_api_error_trim(char *text);
static const char *mst_api_error_type(int status);
static int mst_api_error_text(mst_buf_t *out, const char *text);


int
mst_api_error_set(mst_api_error_t *e, int status, const char *code,
    const char *param, const char *fmt, ...)
{
    int      n;
    va_list  args;

    e->status = status;
    e->type = mst_api_error_type(status);
    e->code = code;

    (void) snprintf(e->param, sizeof(e->param), "%s", param ? param : "");

    va_start(args, fmt);
    n = vsnprintf(e->message, sizeof(e->message), fmt, args);
    va_end(args);

    if (n >= (int) sizeof(e->message)) {
        mst_api_error_trim(e->message);
    }

    return MST_ERROR;
}


void
mst_api_error_status(mst_api_error_t *e, int status)
{
    e->status = status;
    e->type = mst_api_error_type(status);
}


/* a message that was cut must not end in half a character */

static void
mst_api_error_trim(char *text)
{
    size_t  n;

    n = strlen(text);

    while (n && (text[n - 1] & 0xc0) == 0x80) {
        n--;
    }

    if (n && (text[n - 1] & 0x80)) {
        n--;
    }

    text[n] = '\0';
}


static const char *
mst_api_error_type(int status)
{
    if (status == 401) {
        return "authentication_error";
    }

    if (status == 429) {
        return "rate_limit_error";
    }

    return status < 500 ? "invalid_request_error" : "server_error";
}


int
mst_api_error_json(const mst_api_error_t *e, mst_buf_t *out)
{
    (void) mst_buf_text(out, "{\"error\":{\"message\":");
    (void) mst_json_string(out, mst_str(e->message, strlen(e->message)));
    (void) mst_buf_text(out, ",\"type\":");
    (void) mst_api_error_text(out, e->type);
    (void) mst_buf_text(out, ",\"param\":");
    (void) mst_api_error_text(out, e->param[0] ? e->param : NULL);
    (void) mst_buf_text(out, ",\"code\":");
    (void) mst_api_error_text(out, e->code);

    return mst_buf_text(out, "}}\n");
}


static int
mst_api_error_text(mst_buf_t *out, const char *text)
{
    if (text == NULL) {
        return mst_buf_text(out, "null");
    }

    return mst_json_string(out, mst_str(text, strlen(text)));
}


/*
 * The end of a JSON value: see mst_json_scan.h.
 */

#include "text/mst_json_scan.h"


typedef enum {
    MST_SCAN_VALUE,            /* a value must come */
    MST_SCAN_FIRST,            /* behind "[": or its end */
    MST_SCAN_FIRST_KEY,        /* behind "{": or its end */
    MST_SCAN_KEY,
    MST_SCAN_COLON,
    MST_SCAN_AFTER,            /* a comma or an end */
    MST_SCAN_STRING,
    MST_SCAN_ESCAPE,
    MST_SCAN_HEX,
    MST_SCAN_LITERAL,
    MST_SCAN_MINUS,            /* numbers */
    MST_SCAN_ZERO,
    MST_SCAN_INT,
    MST_SCAN_DOT,
    MST_SCAN_FRACTION,
    MST_SCAN_EXP,
    MST_SCAN_SIGN,
    MST_SCAN_POWER
} mst_scan_state_t;


void
mst_json_scan_init(mst_json_scan_t *s)
{
    s->objects = 0;
    s->rest = "";
    s->depth = 0;
    s->state = MST_SCAN_VALUE;
    s->key = 0;
    s->hex = 0;
}


static int
mst_json_scan_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}


static int
mst_json_scan_is_digit(char c)
{
    return c >= '0' && c <= '9';
}


static int
mst_json_scan_go(mst_json_scan_t *s, mst_scan_state_t state)
{
    s->state = (uint8_t) state;

    return MST_OK;
}


/* a value is complete */

static int
mst_json_scan_end(mst_json_scan_t *s)
{
    s->state = MST_SCAN_AFTER;

    return s->depth ? MST_OK : MST_DONE;
}


static int
mst_json_scan_open(mst_json_scan_t *s, int object)
{
    if (s->depth == MST_JSON_SCAN_DEPTH) {
        return MST_ERROR;
    }

    s->objects &= ~(1ull << s->depth);
    s->objects |= (uint64_t) object << s->depth;
    s->depth++;

    return mst_json_scan_go(s, object ? MST_SCAN_FIRST_KEY : MST_SCAN_FIRST);
}


static int
mst_json_scan_in_object(const mst_json_scan_t *s)
{
    return (int) (s->objects >> (s->depth - 1) & 1);
}


static int
mst_json_scan_close(mst_json_scan_t *s, int object)
{
    if (s->depth == 0 || mst_json_scan_in_object(s) != object) {
        return MST_ERROR;
    }

    s->depth--;

    return mst_json_scan_end(s);
}


static int
mst_json_scan_quote(mst_json_scan_t *s, int key)
{
    s->key = (uint8_t) key;

    return mst_json_scan_go(s, MST_SCAN_STRING);
}


static int
mst_json_scan_literal(mst_json_scan_t *s, const char *rest)
{
    s->rest = rest;

    return mst_json_scan_go(s, MST_SCAN_LITERAL);
}


static int
mst_json_scan_value(mst_json_scan_t *s, char c)
{
    switch (c) {

    case '{':
        return mst_json_scan_open(s, 1);

    case '[':
        return mst_json_scan_open(s, 0);

    case '"':
        return mst_json_scan_quote(s, 0);

    case 't':
        return mst_json_scan_literal(s, "rue");

    case 'f':
        return mst_json_scan_literal(s, "alse");

    case 'n':
        return mst_json_scan_literal(s, "ull");

    case '-':
        return mst_json_scan_go(s, MST_SCAN_MINUS);

    case '0':
        return mst_json_scan_go(s, MST_SCAN_ZERO);

    default:
        return mst_json_scan_is_digit(c) ? mst_json_scan_go(s, MST_SCAN_INT)
                                         : MST_ERROR;
    }
}


/* between values: space is skipped */

static int
mst_json_scan_between(mst_json_scan_t *s, char c)
{
    if (mst_json_scan_is_space(c)) {
        return MST_OK;
    }

    switch (s->state) {

    case MST_SCAN_FIRST:
        return c == ']' ? mst_json_scan_close(s, 0)
                        : mst_json_scan_value(s, c);

    case MST_SCAN_FIRST_KEY:
        if (c == '}') {
            return mst_json_scan_close(s, 1);
        }

        /* fall through */

    case MST_SCAN_KEY:
        return c == '"' ? mst_json_scan_quote(s, 1) : MST_ERROR;

    case MST_SCAN_COLON:
        return c == ':' ? mst_json_scan_go(s, MST_SCAN_VALUE) : MST_ERROR;

    case MST_SCAN_AFTER:
        if (c == ',') {
            return mst_json_scan_go(s, mst_json_scan_in_object(s)
                                       ? MST_SCAN_KEY : MST_SCAN_VALUE);
        }

        return c == '}' || c == ']' ? mst_json_scan_close(s, c == '}')
                                    : MST_ERROR;

    default:
        return mst_json_scan_value(s, c);
    }
}


static int
mst_json_scan_string(mst_json_scan_t *s, char c)
{
    if (c == '\\') {
        return mst_json_scan_go(s, MST_SCAN_ESCAPE);
    }

    if (c != '"') {
        return (unsigned char) c < 0x20 ? MST_ERROR : MST_OK;
    }

    return s->key ? mst_json_scan_go(s, MST_SCAN_COLON)
                  : mst_json_scan_end(s);
}


static int
mst_json_scan_escape(mst_json_scan_t *s, char c)
{
    switch (c) {

    case 'u':
        s->hex = 4;
        return mst_json_scan_go(s, MST_SCAN_HEX);

    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return mst_json_scan_go(s, MST_SCAN_STRING);

    default:
        return MST_ERROR;
    }
}


static int
mst_json_scan_hex(mst_json_scan_t *s, char c)
{
    if (!mst_json_scan_is_digit(c) && !(c >= 'a' && c <= 'f')
        && !(c >= 'A' && c <= 'F'))
    {
        return MST_ERROR;
    }

    s->hex--;

    return s->hex ? MST_OK : mst_json_scan_go(s, MST_SCAN_STRING);
}


/* the byte behind a number belongs to what is around it */

static int
mst_json_scan_number_end(mst_json_scan_t *s, char c)
{
    if (s->state == MST_SCAN_MINUS || s->state == MST_SCAN_DOT
        || s->state == MST_SCAN_EXP || s->state == MST_SCAN_SIGN)
    {
        return MST_ERROR;
    }

    if (s->depth == 0) {
        return MST_DECLINED;
    }

    s->state = MST_SCAN_AFTER;

    return mst_json_scan_between(s, c);
}


static int
mst_json_scan_number(mst_json_scan_t *s, char c)
{
    if (mst_json_scan_is_digit(c)) {

        switch (s->state) {

        case MST_SCAN_MINUS:
            return mst_json_scan_go(s, c == '0' ? MST_SCAN_ZERO
                                                : MST_SCAN_INT);

        case MST_SCAN_ZERO:
            return MST_ERROR;

        case MST_SCAN_DOT:
            return mst_json_scan_go(s, MST_SCAN_FRACTION);

        case MST_SCAN_EXP:
        case MST_SCAN_SIGN:
            return mst_json_scan_go(s, MST_SCAN_POWER);

        default:
            return MST_OK;
        }
    }

    if (c == '.' && (s->state == MST_SCAN_ZERO || s->state == MST_SCAN_INT)) {
        return mst_json_scan_go(s, MST_SCAN_DOT);
    }

    if ((c == 'e' || c == 'E')
        && (s->state == MST_SCAN_ZERO || s->state == MST_SCAN_INT
            || s->state == MST_SCAN_FRACTION))
    {
        return mst_json_scan_go(s, MST_SCAN_EXP);
    }

    if ((c == '+' || c == '-') && s->state == MST_SCAN_EXP) {
        return mst_json_scan_go(s, MST_SCAN_SIGN);
    }

    return mst_json_scan_number_end(s, c);
}


int
mst_json_scan_push(mst_json_scan_t *s, char c)
{
    if (s->state <= MST_SCAN_AFTER) {
        return mst_json_scan_between(s, c);
    }

    switch (s->state) {

    case MST_SCAN_STRING:
        return mst_json_scan_string(s, c);

    case MST_SCAN_ESCAPE:
        return mst_json_scan_escape(s, c);

    case MST_SCAN_HEX:
        return mst_json_scan_hex(s, c);

    case MST_SCAN_LITERAL:
        if (c != *s->rest) {
            return MST_ERROR;
        }

        return *++s->rest ? MST_OK : mst_json_scan_end(s);

    default:
        return mst_json_scan_number(s, c);
    }
}

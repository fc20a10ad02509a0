
/*
 * Tasks: see mst_task.h.
 *
 * A block's lines become a JSON object, which the reader of a request's
 * sampling parameters reads: one place knows names, types and ranges.
 */

#include <string.h>

#include "api/mst_chat.h"
#include "api/mst_sampling.h"
#include "api/mst_task.h"
#include "base/mst_mem.h"


typedef enum {
    MST_TASK_NUMBER,
    MST_TASK_STRINGS
} mst_task_kind_t;


typedef struct {
    const char       *name;
    mst_task_kind_t   kind;
    uint32_t          given;           /* MST_GIVEN_* */
    size_t            offset;          /* in mst_request_t */
    size_t            size;            /* bytes; 0 = not copied as it is */
} mst_task_setting_t;


struct mst_task_s {
    json_t           *object;          /* until the task is closed */
    mst_request_t     defaults;
    mst_buf_t         text;            /* behind the stop strings */
    size_t            text_size;
};


static const mst_task_setting_t *mst_task_find(mst_str_t name);
static json_t *mst_task_number(mst_str_t value);
static json_t *mst_task_strings(const mst_str_t *values, size_t n);
static int mst_task_stop(const mst_task_t *t, mst_request_t *r);


#define mst_task_field(field)                                                 \
    offsetof(mst_request_t, field), sizeof(((mst_request_t *) 0)->field)

static const mst_task_setting_t  mst_task_settings[] = {
    { "temperature", MST_TASK_NUMBER, MST_GIVEN_TEMPERATURE,
      mst_task_field(params.temperature) },
    { "top_p", MST_TASK_NUMBER, MST_GIVEN_TOP_P,
      mst_task_field(params.top_p) },
    { "top_k", MST_TASK_NUMBER, MST_GIVEN_TOP_K,
      mst_task_field(params.top_k) },
    { "min_p", MST_TASK_NUMBER, MST_GIVEN_MIN_P,
      mst_task_field(params.min_p) },
    { "frequency_penalty", MST_TASK_NUMBER, MST_GIVEN_FREQUENCY_PENALTY,
      mst_task_field(params.frequency_penalty) },
    { "presence_penalty", MST_TASK_NUMBER, MST_GIVEN_PRESENCE_PENALTY,
      mst_task_field(params.presence_penalty) },
    { "repetition_penalty", MST_TASK_NUMBER, MST_GIVEN_REPETITION_PENALTY,
      mst_task_field(params.repetition_penalty) },
    { "seed", MST_TASK_NUMBER, MST_GIVEN_SEED, mst_task_field(params.seed) },
    { "max_tokens", MST_TASK_NUMBER, MST_GIVEN_LENGTH,
      mst_task_field(max_tokens) },
    { "max_new_tokens", MST_TASK_NUMBER, MST_GIVEN_LENGTH,
      mst_task_field(max_new_tokens) },
    { "hard_max_new_tokens", MST_TASK_NUMBER, MST_GIVEN_LENGTH,
      mst_task_field(hard_max_new_tokens) },
    { "stop", MST_TASK_STRINGS, MST_GIVEN_STOP, 0, 0 }
};

#undef mst_task_field

#define MST_TASK_N_SETTINGS                                                   \
    (sizeof(mst_task_settings) / sizeof(mst_task_settings[0]))


mst_task_t *
mst_task_create(void)
{
    mst_task_t  *t;

    t = mst_calloc(1, sizeof(mst_task_t));

    if (t == NULL) {
        return NULL;
    }

    mst_buf_init(&t->text);
    t->object = json_object();

    if (t->object == NULL) {
        mst_task_destroy(t);
        return NULL;
    }

    return t;
}


void
mst_task_destroy(mst_task_t *t)
{
    if (t == NULL) {
        return;
    }

    json_decref(t->object);
    mst_free(t->defaults.stop);
    mst_buf_fini(&t->text);
    mst_free(t);
}


int
mst_task_set(mst_task_t *t, mst_str_t name, const mst_str_t *values,
    size_t n, mst_err_t *err)
{
    json_t                    *value;
    const mst_task_setting_t  *s;

    s = mst_task_find(name);

    if (s == NULL) {
        return MST_DECLINED;
    }

    if (json_object_get(t->object, s->name)) {
        return mst_err_set(err, "%s is duplicate", s->name);
    }

    if (n == 0 || (n > 1 && s->kind == MST_TASK_NUMBER)) {
        return mst_err_set(err, "%s takes one value, has %zu", s->name, n);
    }

    value = s->kind == MST_TASK_NUMBER ? mst_task_number(values[0])
                                       : mst_task_strings(values, n);
    if (value == NULL) {
        return mst_err_set(err, "%s is \"%.*s\", must be %s", s->name,
                           (int) (values[0].len < 64 ? values[0].len : 64),
                           values[0].data, s->kind == MST_TASK_NUMBER
                                           ? "a number" : "UTF-8");
    }

    if (json_object_set_new(t->object, s->name, value) != 0) {
        return mst_err_set(err, "out of memory");
    }

    while (n) {
        t->text_size += values[--n].len;
    }

    return MST_OK;
}


static const mst_task_setting_t *
mst_task_find(mst_str_t name)
{
    size_t  i;

    for (i = 0; i < MST_TASK_N_SETTINGS; i++) {

        if (mst_str_eq(name, mst_task_settings[i].name)) {
            return &mst_task_settings[i];
        }
    }

    return NULL;
}


static json_t *
mst_task_number(mst_str_t value)
{
    json_t  *number;

    number = json_loadb(value.data, value.len, JSON_DECODE_ANY, NULL);

    if (!json_is_number(number)) {
        json_decref(number);
        return NULL;
    }

    return number;
}


static json_t *
mst_task_strings(const mst_str_t *values, size_t n)
{
    size_t   i;
    json_t  *list;

    list = json_array();

    for (i = 0; i < n; i++) {

        /* refuses what is no UTF-8 */

        if (json_array_append_new(list, json_stringn(values[i].data,
                                                     values[i].len))
            != 0)
        {
            json_decref(list);
            return NULL;
        }
    }

    return list;
}


int
mst_task_close(mst_task_t *t, mst_err_t *err)
{
    int              rc;
    mst_field_t      f;
    mst_api_error_t  e;

    if (mst_buf_reserve(&t->text, t->text_size + 1) != MST_OK) {
        return mst_err_set(err, "out of memory");
    }

    f.object = t->object;
    f.path[0] = '\0';
    f.e = &e;

    t->defaults.api = MST_API_CHAT;

    rc = mst_sampling_parse(&f, &t->defaults, &t->text);

    json_decref(t->object);
    t->object = NULL;

    return rc == MST_OK ? MST_OK : mst_err_set(err, "%s", e.message);
}


int
mst_task_apply(const mst_task_t *t, mst_request_t *r)
{
    size_t                     i;
    uint32_t                   set;
    const mst_task_setting_t  *s;

    set = t->defaults.given & ~r->given;

    for (i = 0; i < MST_TASK_N_SETTINGS; i++) {
        s = &mst_task_settings[i];

        if (set & s->given) {
            memcpy((char *) r + s->offset,
                   (const char *) &t->defaults + s->offset, s->size);
        }
    }

    /* what the body asks for at least is more than a default */

    if (r->max_tokens && r->max_tokens < r->params.min_tokens) {
        r->max_tokens = r->params.min_tokens;
    }

    if (set & MST_GIVEN_SEED) {
        r->has_seed = 1;
    }

    if ((set & MST_GIVEN_STOP) && mst_task_stop(t, r) != MST_OK) {
        return MST_ERROR;
    }

    r->given |= set;

    return MST_OK;
}


/* the list is the request's own, the strings are not */

static int
mst_task_stop(const mst_task_t *t, mst_request_t *r)
{
    r->stop = mst_calloc(t->defaults.n_stop, sizeof(mst_str_t));

    if (r->stop == NULL) {
        return MST_ERROR;
    }

    memcpy(r->stop, t->defaults.stop, t->defaults.n_stop * sizeof(mst_str_t));
    r->n_stop = t->defaults.n_stop;

    return MST_OK;
}


int
mst_task_is_name(mst_str_t name)
{
    size_t  i;
    char    c;

    if (name.len == 0 || name.len > MST_TASK_MAX_NAME) {
        return 0;
    }

    for (i = 0; i < name.len; i++) {
        c = name.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
              || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
        {
            return 0;
        }
    }

    return 1;
}


/* a text like "task: sum these up" is no name and stays what it is */

int
mst_task_take(mst_request_t *r, mst_str_t *name)
{
    size_t          at;
    mst_str_t       s;
    const char     *p, *end, *last;
    mst_message_t  *m;

    at = r->safe ? 1 : 0;

    if (at >= r->n_messages || r->messages[at].role != MST_ROLE_SYSTEM) {
        return MST_DECLINED;
    }

    m = &r->messages[at];

    if (m->content.len < 5 || memcmp(m->content.data, "task:", 5) != 0) {
        return MST_DECLINED;
    }

    p = m->content.data + 5;
    end = m->content.data + m->content.len;

    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }

    for (last = p; last < end && *last != '\n' && *last != '\r'; last++) {
        /* void */
    }

    s = mst_str(p, (size_t) (last - p));

    while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t')) {
        s.len--;
    }

    if (!mst_task_is_name(s)) {
        return MST_DECLINED;
    }

    while (last < end && (*last == '\n' || *last == '\r')) {
        last++;
    }

    *name = s;
    m->content = mst_str(last, (size_t) (end - last));

    if (m->content.len == 0) {
        r->n_messages--;
        memmove(m, m + 1, (r->n_messages - at) * sizeof(mst_message_t));
    }

    return MST_OK;
}


/*
 * The JSON of Mistral's formats as values: see mst_mistral.h.
 */

#include <string.h>

#include "text/mst_python_loads.h"
#include "text/mst_mistral.h"


static int
mst_mistral_json_str(mst_work_t *w, mst_str_t s, mst_value_t *v)
{
    return mst_value_str(w, s.data, s.len, MST_TEXT_VALUE, v);
}


int
mst_mistral_json_value(mst_work_t *w, mst_str_t s, mst_value_t *v)
{
    int          rc;
    mst_dict_t  *d;

    if (s.len == 0) {
        d = mst_dict_create(w, 0);
        *v = mst_value_dict(MST_VALUE_DICT, d);

        return d ? MST_OK : MST_ERROR;
    }

    rc = mst_python_loads(w, s, v);

    return rc == MST_DECLINED ? mst_mistral_json_str(w, s, v) : rc;
}


/* a field of a tool, or what stands for it where it is not there or null */

static int
mst_mistral_json_field(mst_work_t *w, const mst_dict_t *from,
    const char *name, mst_value_t fallback, mst_dict_t *to)
{
    mst_value_t  *v;

    v = mst_dict_get(from, mst_str(name, strlen(name)));

    return mst_dict_put(w, to, name, v && v->type != MST_VALUE_NONE
                                     ? *v : fallback);
}


static int
mst_mistral_json_tool(mst_work_t *w, mst_value_t tool, mst_value_t *v)
{
    mst_dict_t   *to, *function;
    mst_value_t  *from, type, empty, nothing;

    to = mst_dict_create(w, 2);
    function = mst_dict_create(w, 3);
    from = tool.type == MST_VALUE_DICT
           ? mst_dict_get(tool.u.dict, mst_str("function", 8)) : NULL;
    nothing = mst_value_dict(MST_VALUE_DICT, mst_dict_create(w, 0));

    if (from == NULL || from->type != MST_VALUE_DICT) {
        return mst_err_set(w->err, "a tool has no function");
    }

    if (to == NULL || function == NULL || nothing.u.dict == NULL
        || mst_value_str(w, "function", 8, MST_TEXT_VALUE, &type) != MST_OK
        || mst_value_str(w, "", 0, MST_TEXT_VALUE, &empty) != MST_OK
        || mst_mistral_json_field(w, from->u.dict, "name", empty, function)
           != MST_OK
        || mst_mistral_json_field(w, from->u.dict, "description", empty,
                                  function) != MST_OK
        || mst_mistral_json_field(w, from->u.dict, "parameters", nothing,
                                  function) != MST_OK
        || mst_dict_put(w, to, "type", type) != MST_OK
        || mst_dict_put(w, to, "function",
                        mst_value_dict(MST_VALUE_DICT, function)) != MST_OK)
    {
        return MST_ERROR;
    }

    *v = mst_value_dict(MST_VALUE_DICT, to);

    return MST_OK;
}


int
mst_mistral_json_tools(mst_work_t *w, mst_str_t tools, mst_value_t *v)
{
    int           rc;
    size_t        i;
    mst_list_t   *list;
    mst_value_t   from, tool;

    list = mst_list_create(w, 0);
    rc = list ? mst_python_loads(w, tools, &from) : MST_ERROR;

    if (rc == MST_ERROR) {
        return MST_ERROR;
    }

    if (rc != MST_OK || from.type != MST_VALUE_LIST) {
        return mst_err_set(w->err, "the tools are no list");
    }

    for (i = 0; i < from.u.list->n; i++) {

        if (mst_mistral_json_tool(w, from.u.list->items[i], &tool) != MST_OK
            || mst_list_add(w, list, tool) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return MST_OK;
}


int
mst_mistral_json_settings(mst_work_t *w, int effort, mst_value_t *v)
{
    mst_dict_t   *d;
    const char   *name;
    mst_value_t   value;

    name = mst_mistral_effort_name(effort);
    d = mst_dict_create(w, 1);

    if (d == NULL
        || mst_value_str(w, name, strlen(name), MST_TEXT_VALUE, &value)
           != MST_OK
        || mst_dict_put(w, d, "reasoning_effort", value) != MST_OK)
    {
        return MST_ERROR;
    }

    *v = mst_value_dict(MST_VALUE_DICT, d);

    return MST_OK;
}


int
mst_mistral_json_calls(const mst_mistral_t *f, mst_work_t *w,
    const mst_mistral_turn_t *turn, mst_value_t *v)
{
    size_t             i;
    mst_dict_t        *d;
    mst_list_t        *list;
    mst_value_t        arguments, name, id;
    const mst_call_t  *c;

    list = mst_list_create(w, turn->n_calls);
    if (list == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < turn->n_calls; i++) {
        c = &turn->calls[i];
        d = mst_dict_create(w, 3);

        if (d == NULL
            || mst_mistral_json_str(w, c->name, &name) != MST_OK
            || mst_mistral_json_value(w, c->arguments, &arguments) != MST_OK
            || mst_mistral_json_str(w, mst_mistral_call_id(f, c->id), &id)
               != MST_OK
            || mst_dict_put(w, d, "name", name) != MST_OK
            || mst_dict_put(w, d, "arguments", arguments) != MST_OK
            || (f->version >= 3 && mst_dict_put(w, d, "id", id) != MST_OK)
            || mst_list_add(w, list, mst_value_dict(MST_VALUE_DICT, d))
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return MST_OK;
}


int
mst_mistral_json_result(const mst_mistral_t *f, mst_work_t *w,
    const mst_mistral_turn_t *turn, mst_str_t content, mst_value_t *v)
{
    mst_dict_t   *d;
    mst_list_t   *list;
    mst_value_t   said, name, id;

    d = mst_dict_create(w, 2);
    list = mst_list_create(w, 1);
    name = mst_value(MST_VALUE_NONE);

    if (d == NULL || list == NULL
        || mst_mistral_json_value(w, content, &said) != MST_OK
        || mst_mistral_json_str(w, turn->call_id, &id) != MST_OK
        || (turn->name.len
            && mst_mistral_json_str(w, turn->name, &name) != MST_OK))
    {
        return MST_ERROR;
    }

    if (f->version > 2) {
        *v = mst_value_dict(MST_VALUE_DICT, d);

        return mst_dict_put(w, d, "content", said) != MST_OK
               || mst_dict_put(w, d, "call_id", id) != MST_OK
               ? MST_ERROR : MST_OK;
    }

    *v = mst_value_list(MST_VALUE_LIST, list);

    return mst_dict_put(w, d, "name", name) != MST_OK
           || mst_dict_put(w, d, "content", said) != MST_OK
           || mst_list_add(w, list, mst_value_dict(MST_VALUE_DICT, d))
              != MST_OK
           ? MST_ERROR : MST_OK;
}


/*
 * The parser of what a value is put in: the names before "=" and behind "for",
 * those of macros and imports, attributes of a namespace.  See
 * mst_jinja_parse.h.
 */

#include "text/mst_jinja_parse.h"


int
mst_jinja_target_name(mst_jinja_parse_t *p, uint32_t *id)
{
    mst_value_t  name;

    name = p->t->value;

    if (mst_jinja_parse_expect_type(p, MST_JINJA_NAME, "a name") != MST_OK
        || mst_jinja_parse_name(p, name, id) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_dict_set(p->w, p->bound, name, mst_value(MST_VALUE_NONE));
}


static int
mst_jinja_target_one(mst_jinja_parse_t *p, int ref, mst_jinja_node_t **n)
{
    if (mst_jinja_parse_skip(p, '(')) {

        if (mst_jinja_target(p, 0, NULL, n) != MST_OK) {
            return MST_ERROR;
        }

        return mst_jinja_parse_expect(p, ')');
    }

    *n = mst_jinja_parse_node(p, MST_JINJA_VAR);

    if (*n == NULL) {
        return MST_ERROR;
    }

    if (ref && p->t->type == MST_JINJA_NAME
        && p->t[1].type == MST_JINJA_OPERATOR && p->t[1].op == '.')
    {
        (*n)->kind = MST_JINJA_REF;

        if (mst_jinja_parse_name(p, p->t->value, &(*n)->id) != MST_OK) {
            return MST_ERROR;
        }

        p->t += 2;
        (*n)->value = p->t->value;

        return mst_jinja_parse_expect_type(p, MST_JINJA_NAME, "a name");
    }

    return mst_jinja_target_name(p, &(*n)->id);
}


int
mst_jinja_target(mst_jinja_parse_t *p, int ref, const char *stop,
    mst_jinja_node_t **n)
{
    mst_jinja_node_t  *tuple, **last;

    if (mst_jinja_parse_enter(p) != MST_OK
        || mst_jinja_target_one(p, ref, n) != MST_OK)
    {
        return MST_ERROR;
    }

    p->depth--;

    if (!mst_jinja_parse_is(p, ',')) {
        return MST_OK;
    }

    tuple = mst_jinja_parse_node(p, MST_JINJA_TUPLE);
    if (tuple == NULL) {
        return MST_ERROR;
    }

    tuple->list = *n;
    last = &(*n)->next;
    *n = tuple;

    while (mst_jinja_parse_skip(p, ',')) {

        if (mst_jinja_parse_is(p, '=')
            || mst_jinja_expr_tuple_end(p, stop))
        {
            break;
        }

        if (mst_jinja_target_one(p, ref, last) != MST_OK) {
            return MST_ERROR;
        }

        last = &(*last)->next;
    }

    return MST_OK;
}

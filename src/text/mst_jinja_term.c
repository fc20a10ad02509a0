
/*
 * The parser of what stands between a template's operators: constants,
 * names, lists and dictionaries, their attributes, items and calls, filters
 * and tests.  See mst_jinja_parse.h.
 *
 * Filters, tests and methods that are not there are refused here, when the
 * template is read, rather than in a chat.
 */

#include <string.h>

#include "text/mst_jinja_parse.h"
#include "text/mst_jinja_run.h"


static int mst_jinja_term_postfix(mst_jinja_parse_t *p,
    mst_jinja_node_t **n);


/* [a, b,] and {a: b, c: d} behind the bracket */

static int
mst_jinja_term_items(mst_jinja_parse_t *p, mst_jinja_node_t *n)
{
    uint32_t            close;
    mst_jinja_node_t  **last, *pair;

    close = n->kind == MST_JINJA_DICT ? '}' : ']';
    last = &n->list;

    while (!mst_jinja_parse_skip(p, close)) {

        if (n->list) {

            if (mst_jinja_parse_expect(p, ',') != MST_OK) {
                return MST_ERROR;
            }

            if (mst_jinja_parse_skip(p, close)) {
                break;
            }
        }

        if (n->kind != MST_JINJA_DICT) {

            if (mst_jinja_expr(p, last) != MST_OK) {
                return MST_ERROR;
            }

        } else {
            pair = mst_jinja_parse_node(p, MST_JINJA_PAIR);

            if (pair == NULL || mst_jinja_expr(p, &pair->a) != MST_OK
                || mst_jinja_parse_expect(p, ':') != MST_OK
                || mst_jinja_expr(p, &pair->b) != MST_OK)
            {
                return MST_ERROR;
            }

            *last = pair;
        }

        last = &(*last)->next;
    }

    return MST_OK;
}


static int
mst_jinja_term_const(mst_jinja_parse_t *p, mst_value_t value,
    mst_jinja_node_t **n)
{
    *n = mst_jinja_parse_node(p, MST_JINJA_CONST);

    if (*n == NULL) {
        return MST_ERROR;
    }

    (*n)->value = value;
    p->t++;

    return MST_OK;
}


static int
mst_jinja_term_name(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    size_t  i;

    static const struct {
        const char       *word;
        mst_value_type_t  type;
        int               is;
    } words[] = {
        { "true", MST_VALUE_BOOL, 1 }, { "True", MST_VALUE_BOOL, 1 },
        { "false", MST_VALUE_BOOL, 0 }, { "False", MST_VALUE_BOOL, 0 },
        { "none", MST_VALUE_NONE, 0 }, { "None", MST_VALUE_NONE, 0 }
    };

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {

        if (mst_jinja_parse_is_word(p, words[i].word)) {
            return mst_jinja_term_const(p, words[i].type == MST_VALUE_NONE
                                        ? mst_value(MST_VALUE_NONE)
                                        : mst_value_bool(words[i].is), n);
        }
    }

    *n = mst_jinja_parse_node(p, MST_JINJA_VAR);

    if (*n == NULL
        || mst_jinja_parse_name(p, p->t->value, &(*n)->id) != MST_OK)
    {
        return MST_ERROR;
    }

    (*n)->value = p->t->value;
    p->t++;

    p->asked |= (*n)->id == MST_JINJA_ID_CALLER ? MST_JINJA_CALLER
                : (*n)->id == MST_JINJA_ID_VARARGS ? MST_JINJA_VARARGS
                : (*n)->id == MST_JINJA_ID_KWARGS ? MST_JINJA_KWARGS : 0;

    return MST_OK;
}


/* neighbours are one: "a" "b" */

static int
mst_jinja_term_string(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_text_t  *t;

    if (mst_jinja_term_const(p, p->t->value, n) != MST_OK) {
        return MST_ERROR;
    }

    while (p->t->type == MST_JINJA_STRING) {
        t = mst_text_sum(p->w, (*n)->value.u.text, p->t->value.u.text);

        if (t == NULL || mst_text_flat(p->w, t) != MST_OK) {
            return MST_ERROR;
        }

        (*n)->value.u.text = t;
        p->t++;
    }

    return MST_OK;
}


static int
mst_jinja_term_primary(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    char  text[64];

    switch (p->t->type) {

    case MST_JINJA_NAME:
        return mst_jinja_term_name(p, n);

    case MST_JINJA_STRING:
        return mst_jinja_term_string(p, n);

    case MST_JINJA_NUMBER:
        return mst_jinja_term_const(p, p->t->value, n);

    default:
        break;
    }

    if (mst_jinja_parse_skip(p, '(')) {

        if (mst_jinja_parse_is(p, ')')) {
            *n = mst_jinja_parse_node(p, MST_JINJA_TUPLE);

            if (*n == NULL) {
                return MST_ERROR;
            }

        } else if (mst_jinja_expr_tuple(p, 1, NULL, n) != MST_OK) {
            return MST_ERROR;
        }

        return mst_jinja_parse_expect(p, ')');
    }

    if (mst_jinja_parse_is(p, '[') || mst_jinja_parse_is(p, '{')) {
        *n = mst_jinja_parse_node(p, p->t->op == '[' ? MST_JINJA_LIST
                                                     : MST_JINJA_DICT);
        p->t++;

        return *n ? mst_jinja_term_items(p, *n) : MST_ERROR;
    }

    return mst_jinja_parse_error(p, p->t->line, "an expression is expected "
                                 "where %s stands",
                                 mst_jinja_parse_seen(p, text, sizeof(text)));
}


/* behind the bracket: a value or a slice */

static int
mst_jinja_term_subscript(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                i;
    mst_jinja_node_t  *slice, *part;

    slice = NULL;

    for (i = 0; i < 3; i++) {
        part = NULL;

        if (!mst_jinja_parse_is(p, ':') && !mst_jinja_parse_is(p, ']')
            && mst_jinja_expr(p, &part) != MST_OK)
        {
            return MST_ERROR;
        }

        if (i == 0) {

            if (part && !mst_jinja_parse_is(p, ':')) {
                *n = part;
                break;
            }

            slice = mst_jinja_parse_node(p, MST_JINJA_SLICE);

            if (slice == NULL) {
                return MST_ERROR;
            }

            *n = slice;
        }

        *(i == 0 ? &slice->a : i == 1 ? &slice->b : &slice->c) = part;

        if (i == 2 || !mst_jinja_parse_skip(p, ':')) {
            break;
        }
    }

    return mst_jinja_parse_expect(p, ']');
}


static int
mst_jinja_term_argument(mst_jinja_parse_t *p, int named,
    mst_jinja_node_t **n)
{
    if (mst_jinja_parse_is(p, '*') || mst_jinja_parse_is(p, MST_JINJA_POWER))
    {
        return mst_jinja_parse_error(p, p->t->line, "*args and **kwargs in a "
                                     "call are not supported");
    }

    if (p->t->type == MST_JINJA_NAME && p->t[1].type == MST_JINJA_OPERATOR
        && p->t[1].op == '=')
    {
        *n = mst_jinja_parse_node(p, MST_JINJA_KEYWORD);

        if (*n == NULL) {
            return MST_ERROR;
        }

        (*n)->value = p->t->value;
        p->t += 2;

        return mst_jinja_expr(p, &(*n)->a);
    }

    if (named) {
        return mst_jinja_parse_error(p, p->t->line, "an argument without a "
                                     "name follows one with a name");
    }

    return mst_jinja_expr(p, n);
}


static int
mst_jinja_term_arguments(mst_jinja_parse_t *p, mst_jinja_node_t **list)
{
    int  named;

    named = 0;

    if (mst_jinja_parse_expect(p, '(') != MST_OK) {
        return MST_ERROR;
    }

    while (!mst_jinja_parse_skip(p, ')')) {

        if (mst_jinja_term_argument(p, named, list) != MST_OK) {
            return MST_ERROR;
        }

        named = (*list)->kind == MST_JINJA_KEYWORD;
        list = &(*list)->next;

        if (!mst_jinja_parse_is(p, ')')
            && mst_jinja_parse_expect(p, ',') != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_jinja_term_call(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_str_t          name;
    mst_jinja_node_t  *call, *f;

    call = mst_jinja_parse_node(p, MST_JINJA_CALL);
    if (call == NULL) {
        return MST_ERROR;
    }

    f = *n;
    call->a = f;
    *n = call;

    if (f->kind == MST_JINJA_ATTR) {
        name = mst_text_str(f->value.u.text);

        if (!mst_jinja_method_known(name)) {
            return mst_jinja_parse_error(p, f->line, "the method \"%.*s\" is "
                                         "not supported",
                                         (int) (name.len < 40 ? name.len
                                                              : 40),
                                         name.data);
        }
    }

    if (f->kind == MST_JINJA_VAR
        && (mst_list_add(p->w, p->called, f->value) != MST_OK
            || mst_list_add(p->w, p->called, mst_value_int(f->line))
               != MST_OK))
    {
        return MST_ERROR;
    }

    return mst_jinja_term_arguments(p, &call->list);
}


static int
mst_jinja_term_postfix(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                count;
    mst_jinja_node_t  *item;

    for (count = 0; ; ) {

        if (mst_jinja_expr_long(p, &count) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_jinja_parse_is(p, '(')) {

            if (mst_jinja_term_call(p, n) != MST_OK) {
                return MST_ERROR;
            }

            continue;
        }

        if (!mst_jinja_parse_is(p, '.') && !mst_jinja_parse_is(p, '[')) {
            return MST_OK;
        }

        item = mst_jinja_parse_node(p, MST_JINJA_ITEM);
        if (item == NULL) {
            return MST_ERROR;
        }

        item->a = *n;
        *n = item;

        if (mst_jinja_parse_skip(p, '[')) {

            if (mst_jinja_term_subscript(p, &item->b) != MST_OK) {
                return MST_ERROR;
            }

            continue;
        }

        p->t++;

        if (p->t->type == MST_JINJA_NUMBER
            && p->t->value.type == MST_VALUE_INT)
        {
            if (mst_jinja_term_const(p, p->t->value, &item->b) != MST_OK) {
                return MST_ERROR;
            }

            continue;
        }

        item->kind = MST_JINJA_ATTR;
        item->value = p->t->value;

        if (mst_jinja_parse_expect_type(p, MST_JINJA_NAME, "a name")
            != MST_OK)
        {
            return MST_ERROR;
        }
    }
}


int
mst_jinja_term_filter(mst_jinja_parse_t *p, mst_jinja_node_t *subject,
    mst_jinja_node_t **n)
{
    mst_str_t  name;

    *n = mst_jinja_parse_node(p, MST_JINJA_FILTER);

    if (*n == NULL) {
        return MST_ERROR;
    }

    (*n)->a = subject;
    name = p->t->type == MST_JINJA_NAME ? mst_text_str(p->t->value.u.text)
                                        : mst_str("", 0);

    if (mst_jinja_parse_expect_type(p, MST_JINJA_NAME, "the name of a filter")
        != MST_OK)
    {
        return MST_ERROR;
    }

    (*n)->builtin = mst_jinja_filter_find(name);

    if ((*n)->builtin == NULL) {
        return mst_jinja_parse_error(p, (*n)->line, "the filter \"%.*s\" is "
                                     "not supported",
                                     (int) (name.len < 40 ? name.len : 40),
                                     name.data);
    }

    return mst_jinja_parse_is(p, '(')
           ? mst_jinja_term_arguments(p, &(*n)->list) : MST_OK;
}


int
mst_jinja_term_filters(mst_jinja_parse_t *p, mst_jinja_node_t *first,
    mst_jinja_node_t **n)
{
    int  count;

    *n = first;

    for (count = 0; mst_jinja_parse_skip(p, '|'); /* void */) {

        if (mst_jinja_expr_long(p, &count) != MST_OK
            || mst_jinja_term_filter(p, *n, n) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* the test's one argument may stand without parentheses */

static int
mst_jinja_term_test_argument(mst_jinja_parse_t *p, mst_jinja_node_t *test)
{
    if (mst_jinja_parse_is(p, '(')) {
        return mst_jinja_term_arguments(p, &test->list);
    }

    if (mst_jinja_parse_is_word(p, "is")) {
        return mst_jinja_parse_error(p, p->t->line, "a test follows a test");
    }

    if ((p->t->type == MST_JINJA_NAME && !mst_jinja_parse_is_word(p, "else")
         && !mst_jinja_parse_is_word(p, "or")
         && !mst_jinja_parse_is_word(p, "and"))
        || p->t->type == MST_JINJA_STRING || p->t->type == MST_JINJA_NUMBER
        || mst_jinja_parse_is(p, '[') || mst_jinja_parse_is(p, '{'))
    {
        if (mst_jinja_term_primary(p, &test->list) != MST_OK) {
            return MST_ERROR;
        }

        return mst_jinja_term_postfix(p, &test->list);
    }

    return MST_OK;
}


static int
mst_jinja_term_test(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                is_not;
    mst_str_t          name;
    mst_jinja_node_t  *test, *not;

    is_not = mst_jinja_parse_skip_word(p, "not");
    test = mst_jinja_parse_node(p, MST_JINJA_TEST);
    not = is_not ? mst_jinja_parse_node(p, MST_JINJA_NOT) : NULL;

    if (test == NULL || (is_not && not == NULL)) {
        return MST_ERROR;
    }

    test->a = *n;
    name = p->t->type == MST_JINJA_NAME ? mst_text_str(p->t->value.u.text)
                                        : mst_str("", 0);

    if (mst_jinja_parse_expect_type(p, MST_JINJA_NAME, "the name of a test")
        != MST_OK)
    {
        return MST_ERROR;
    }

    test->builtin = mst_jinja_is_find(name);

    if (test->builtin == NULL) {
        return mst_jinja_parse_error(p, test->line, "the test \"%.*s\" is "
                                     "not supported",
                                     (int) (name.len < 40 ? name.len : 40),
                                     name.data);
    }

    *n = test;

    if (not) {
        not->a = test;
        *n = not;
    }

    return mst_jinja_term_test_argument(p, test);
}


int
mst_jinja_term(mst_jinja_parse_t *p, int filters, mst_jinja_node_t **n)
{
    int                rc, count;
    mst_jinja_node_t  *sign;

    if (mst_jinja_parse_enter(p) != MST_OK) {
        return MST_ERROR;
    }

    if (mst_jinja_parse_is(p, '-') || mst_jinja_parse_is(p, '+')) {
        sign = mst_jinja_parse_node(p, p->t->op == '-' ? MST_JINJA_NEG
                                                       : MST_JINJA_POS);
        p->t++;

        rc = sign ? mst_jinja_term(p, 0, &sign->a) : MST_ERROR;
        *n = sign;

    } else {
        rc = mst_jinja_term_primary(p, n);
    }

    if (rc == MST_OK) {
        rc = mst_jinja_term_postfix(p, n);
    }

    for (count = 0; filters && rc == MST_OK; /* void */) {
        rc = mst_jinja_expr_long(p, &count);

        if (rc != MST_OK) {
            break;
        }

        if (mst_jinja_parse_is(p, '|')) {
            rc = mst_jinja_term_filters(p, *n, n);

        } else if (mst_jinja_parse_skip_word(p, "is")) {
            rc = mst_jinja_term_test(p, n);

        } else if (mst_jinja_parse_is(p, '(')) {
            rc = mst_jinja_term_call(p, n);

        } else {
            break;
        }
    }

    p->depth--;

    return rc;
}

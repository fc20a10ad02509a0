
/*
 * The parser of a template's expressions: see mst_jinja_parse.h.  From the
 * loosest operator to the tightest, as jinja2 binds them: if, or, and, not,
 * comparisons, + -, ~, * / // %, **; what these stand between is
 * mst_jinja_term.c's.
 */

#include <string.h>

#include "text/mst_jinja_parse.h"


static int mst_jinja_expr_or(mst_jinja_parse_t *p, mst_jinja_node_t **n);


/* an operator between two operands in *left and right */

static int
mst_jinja_expr_pair(mst_jinja_parse_t *p, mst_jinja_kind_t kind, uint32_t id,
    mst_jinja_node_t **left, mst_jinja_node_t *right)
{
    mst_jinja_node_t  *n;

    n = mst_jinja_parse_node(p, kind);
    if (n == NULL) {
        return MST_ERROR;
    }

    n->id = id;
    n->a = *left;
    n->b = right;
    *left = n;

    return MST_OK;
}


int
mst_jinja_expr_long(mst_jinja_parse_t *p, int *count)
{
    if (++*count > MST_JINJA_PARSE_CHAIN) {
        return mst_jinja_parse_error(p, p->t->line, "an expression is longer "
                                     "than %d operators",
                                     MST_JINJA_PARSE_CHAIN);
    }

    return MST_OK;
}


int
mst_jinja_expr(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                count;
    mst_jinja_node_t  *cond;

    if (mst_jinja_parse_enter(p) != MST_OK
        || mst_jinja_expr_or(p, n) != MST_OK)
    {
        return MST_ERROR;
    }

    count = 0;

    while (mst_jinja_parse_skip_word(p, "if")) {
        cond = mst_jinja_parse_node(p, MST_JINJA_COND);

        if (cond == NULL || mst_jinja_expr_long(p, &count) != MST_OK
            || mst_jinja_expr_or(p, &cond->a) != MST_OK)
        {
            return MST_ERROR;
        }

        cond->b = *n;
        *n = cond;

        if (mst_jinja_parse_skip_word(p, "else")
            && mst_jinja_expr(p, &cond->c) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    p->depth--;

    return MST_OK;
}


static int
mst_jinja_expr_operand(mst_jinja_parse_t *p, mst_jinja_node_t **last)
{
    mst_jinja_node_t  *n;

    n = mst_jinja_parse_node(p, MST_JINJA_OPERAND);
    if (n == NULL) {
        return MST_ERROR;
    }

    if (mst_jinja_parse_skip_word(p, "in")) {
        n->id = MST_JINJA_IN;

    } else if (mst_jinja_parse_is_word(p, "not")) {
        n->id = MST_JINJA_NOT_IN;
        p->t += 2;

    } else {
        n->id = p->t->op;
        p->t++;
    }

    *last = n;

    return MST_OK;
}


static int
mst_jinja_expr_is_compare(const mst_jinja_parse_t *p)
{
    if (p->t->type == MST_JINJA_OPERATOR) {
        return p->t->op == MST_JINJA_EQ || p->t->op == MST_JINJA_NE
               || p->t->op == MST_JINJA_LE || p->t->op == MST_JINJA_GE
               || p->t->op == '<' || p->t->op == '>';
    }

    if (mst_jinja_parse_is_word(p, "in")) {
        return 1;
    }

    return mst_jinja_parse_is_word(p, "not")
           && p->t[1].type == MST_JINJA_NAME
           && mst_str_eq(mst_text_str(p->t[1].value.u.text), "in");
}


static int
mst_jinja_expr_pow(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                count;
    mst_jinja_node_t  *right;

    if (mst_jinja_term(p, 1, n) != MST_OK) {
        return MST_ERROR;
    }

    for (count = 0; mst_jinja_parse_skip(p, MST_JINJA_POWER); /* void */) {

        if (mst_jinja_expr_long(p, &count) != MST_OK
            || mst_jinja_term(p, 1, &right) != MST_OK
            || mst_jinja_expr_pair(p, MST_JINJA_MATH, MST_JINJA_POWER, n,
                                   right)
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_jinja_expr_product(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                count;
    uint32_t           op;
    mst_jinja_node_t  *right;

    if (mst_jinja_expr_pow(p, n) != MST_OK) {
        return MST_ERROR;
    }

    for (count = 0; mst_jinja_parse_is(p, '*') || mst_jinja_parse_is(p, '/')
         || mst_jinja_parse_is(p, '%')
         || mst_jinja_parse_is(p, MST_JINJA_FLOORDIV); /* void */)
    {
        op = p->t->op;
        p->t++;

        if (mst_jinja_expr_long(p, &count) != MST_OK
            || mst_jinja_expr_pow(p, &right) != MST_OK
            || mst_jinja_expr_pair(p, MST_JINJA_MATH, op, n, right)
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_jinja_expr_concat(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_jinja_node_t  *all, **last;

    if (mst_jinja_expr_product(p, n) != MST_OK) {
        return MST_ERROR;
    }

    if (!mst_jinja_parse_is(p, '~')) {
        return MST_OK;
    }

    all = mst_jinja_parse_node(p, MST_JINJA_CONCAT);
    if (all == NULL) {
        return MST_ERROR;
    }

    all->list = *n;
    last = &(*n)->next;

    while (mst_jinja_parse_skip(p, '~')) {

        if (mst_jinja_expr_product(p, last) != MST_OK) {
            return MST_ERROR;
        }

        last = &(*last)->next;
    }

    *n = all;

    return MST_OK;
}


static int
mst_jinja_expr_sum(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                count;
    uint32_t           op;
    mst_jinja_node_t  *right;

    if (mst_jinja_expr_concat(p, n) != MST_OK) {
        return MST_ERROR;
    }

    for (count = 0; mst_jinja_parse_is(p, '+') || mst_jinja_parse_is(p, '-');
         /* void */)
    {
        op = p->t->op;
        p->t++;

        if (mst_jinja_expr_long(p, &count) != MST_OK
            || mst_jinja_expr_concat(p, &right) != MST_OK
            || mst_jinja_expr_pair(p, MST_JINJA_MATH, op, n, right)
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_jinja_expr_compare(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_jinja_node_t  *all, **last;

    if (mst_jinja_expr_sum(p, n) != MST_OK) {
        return MST_ERROR;
    }

    if (!mst_jinja_expr_is_compare(p)) {
        return MST_OK;
    }

    all = mst_jinja_parse_node(p, MST_JINJA_COMPARE);
    if (all == NULL) {
        return MST_ERROR;
    }

    all->a = *n;
    *n = all;
    last = &all->list;

    while (mst_jinja_expr_is_compare(p)) {

        if (mst_jinja_expr_operand(p, last) != MST_OK
            || mst_jinja_expr_sum(p, &(*last)->a) != MST_OK)
        {
            return MST_ERROR;
        }

        last = &(*last)->next;
    }

    return MST_OK;
}


static int
mst_jinja_expr_not(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int  rc;

    if (!mst_jinja_parse_is_word(p, "not")) {
        return mst_jinja_expr_compare(p, n);
    }

    *n = mst_jinja_parse_node(p, MST_JINJA_NOT);
    p->t++;

    if (*n == NULL || mst_jinja_parse_enter(p) != MST_OK) {
        return MST_ERROR;
    }

    rc = mst_jinja_expr_not(p, &(*n)->a);
    p->depth--;

    return rc;
}


static int
mst_jinja_expr_and(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                count;
    mst_jinja_node_t  *right;

    if (mst_jinja_expr_not(p, n) != MST_OK) {
        return MST_ERROR;
    }

    for (count = 0; mst_jinja_parse_skip_word(p, "and"); /* void */) {

        if (mst_jinja_expr_long(p, &count) != MST_OK
            || mst_jinja_expr_not(p, &right) != MST_OK
            || mst_jinja_expr_pair(p, MST_JINJA_AND, 0, n, right) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_jinja_expr_or(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    int                count;
    mst_jinja_node_t  *right;

    if (mst_jinja_expr_and(p, n) != MST_OK) {
        return MST_ERROR;
    }

    for (count = 0; mst_jinja_parse_skip_word(p, "or"); /* void */) {

        if (mst_jinja_expr_long(p, &count) != MST_OK
            || mst_jinja_expr_and(p, &right) != MST_OK
            || mst_jinja_expr_pair(p, MST_JINJA_OR, 0, n, right) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* is nothing more to come in a tuple? */

int
mst_jinja_expr_tuple_end(const mst_jinja_parse_t *p, const char *stop)
{
    return p->t->type == MST_JINJA_PRINT_END
           || p->t->type == MST_JINJA_TAG_END || mst_jinja_parse_is(p, ')')
           || (stop && mst_jinja_parse_is_word(p, stop));
}


int
mst_jinja_expr_tuple(mst_jinja_parse_t *p, int cond, const char *stop,
    mst_jinja_node_t **n)
{
    int                rc;
    mst_jinja_node_t  *tuple, **last;

    tuple = NULL;
    last = n;

    for ( ;; ) {

        if (cond) {
            rc = mst_jinja_expr(p, last);

        } else {
            rc = mst_jinja_parse_enter(p);
            rc = rc == MST_OK ? mst_jinja_expr_or(p, last) : rc;
            p->depth--;
        }

        if (rc != MST_OK) {
            return MST_ERROR;
        }

        if (!mst_jinja_parse_skip(p, ',')) {
            break;
        }

        if (tuple == NULL) {
            tuple = mst_jinja_parse_node(p, MST_JINJA_TUPLE);

            if (tuple == NULL) {
                return MST_ERROR;
            }

            tuple->list = *n;
            last = &tuple->list;
            *n = tuple;
        }

        last = &(*last)->next;

        if (mst_jinja_expr_tuple_end(p, stop)) {
            break;
        }
    }

    return MST_OK;
}

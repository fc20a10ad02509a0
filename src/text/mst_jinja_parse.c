
/*
 * The parser of templates: see mst_jinja_node.h.  Its way through the tokens
 * and what is checked at the end; statements are mst_jinja_block.c's.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/mst_jinja_parse.h"
#include "text/mst_jinja_run.h"


int
mst_jinja_parse_error(const mst_jinja_parse_t *p, uint32_t line,
    const char *fmt, ...)
{
    char     text[256];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    return mst_err_set(p->w->err, "line %u: %s", line, text);
}


mst_jinja_node_t *
mst_jinja_parse_node(mst_jinja_parse_t *p, mst_jinja_kind_t kind)
{
    mst_jinja_node_t  *n;

    n = mst_work_alloc(p->w, sizeof(mst_jinja_node_t));

    if (n) {
        memset(n, 0, sizeof(mst_jinja_node_t));
        n->kind = kind;
        n->line = p->t->line;
        n->value = mst_value(MST_VALUE_NONE);
    }

    return n;
}


int
mst_jinja_parse_name(mst_jinja_parse_t *p, mst_value_t name, uint32_t *id)
{
    int                rc;
    mst_dict_entry_t  *e;

    e = mst_dict_find(p->w, p->tree->names, name, &rc);

    if (e) {
        *id = (uint32_t) e->value.u.n;
        return MST_OK;
    }

    if (rc != MST_OK) {
        return MST_ERROR;
    }

    *id = p->tree->n_names++;

    return mst_dict_set(p->w, p->tree->names, name, mst_value_int(*id));
}


int
mst_jinja_parse_is(const mst_jinja_parse_t *p, uint32_t op)
{
    return p->t->type == MST_JINJA_OPERATOR && p->t->op == op;
}


int
mst_jinja_parse_is_word(const mst_jinja_parse_t *p, const char *word)
{
    return p->t->type == MST_JINJA_NAME
           && mst_str_eq(mst_text_str(p->t->value.u.text), word);
}


int
mst_jinja_parse_skip(mst_jinja_parse_t *p, uint32_t op)
{
    if (!mst_jinja_parse_is(p, op)) {
        return 0;
    }

    p->t++;

    return 1;
}


int
mst_jinja_parse_skip_word(mst_jinja_parse_t *p, const char *word)
{
    if (!mst_jinja_parse_is_word(p, word)) {
        return 0;
    }

    p->t++;

    return 1;
}


const char *
mst_jinja_parse_seen(const mst_jinja_parse_t *p, char *text, size_t size)
{
    size_t             n;
    const mst_text_t  *t;

    switch (p->t->type) {

    case MST_JINJA_NAME:
        t = p->t->value.u.text;
        n = t->len < 40 ? t->len : 40;
        (void) snprintf(text, size, "\"%.*s\"", (int) n, t->data);
        return text;

    case MST_JINJA_OPERATOR:
        (void) snprintf(text, size, "\"%c%c\"", (char) (p->t->op & 0xff),
                        p->t->op > 0xff ? (char) (p->t->op >> 8) : '"');
        if (p->t->op <= 0xff) {
            text[3] = '\0';
        }

        return text;

    case MST_JINJA_STRING:
        return "a string";

    case MST_JINJA_NUMBER:
        return "a number";

    case MST_JINJA_PRINT_END:
        return "\"}}\"";

    case MST_JINJA_TAG_END:
        return "\"%}\"";

    default:
        return "the end of the template";
    }
}


int
mst_jinja_parse_expect(mst_jinja_parse_t *p, uint32_t op)
{
    char  text[64];

    if (mst_jinja_parse_skip(p, op)) {
        return MST_OK;
    }

    return mst_jinja_parse_error(p, p->t->line, "\"%c\" is expected where %s "
                                 "stands", (char) op,
                                 mst_jinja_parse_seen(p, text, sizeof(text)));
}


int
mst_jinja_parse_expect_word(mst_jinja_parse_t *p, const char *word)
{
    char  text[64];

    if (mst_jinja_parse_skip_word(p, word)) {
        return MST_OK;
    }

    return mst_jinja_parse_error(p, p->t->line, "\"%s\" is expected where %s "
                                 "stands", word,
                                 mst_jinja_parse_seen(p, text, sizeof(text)));
}


int
mst_jinja_parse_expect_type(mst_jinja_parse_t *p,
    mst_jinja_token_type_t type, const char *what)
{
    char  text[64];

    if (p->t->type == type) {
        p->t++;
        return MST_OK;
    }

    return mst_jinja_parse_error(p, p->t->line, "%s is expected where %s "
                                 "stands", what,
                                 mst_jinja_parse_seen(p, text, sizeof(text)));
}


int
mst_jinja_parse_enter(mst_jinja_parse_t *p)
{
    if (++p->depth > MST_JINJA_PARSE_DEPTH) {
        return mst_jinja_parse_error(p, p->t->line, "more than %d levels are "
                                     "nested", MST_JINJA_PARSE_DEPTH);
    }

    return MST_OK;
}


/* a name that is called must be a function or be set somewhere */

static int
mst_jinja_parse_calls(mst_jinja_parse_t *p)
{
    int          rc;
    size_t       i;
    mst_str_t    name;
    mst_value_t  v;

    for (i = 0; i < p->called->n; i += 2) {
        v = p->called->items[i];
        name = mst_text_str(v.u.text);

        if (mst_dict_find(p->w, p->bound, v, &rc)
            || mst_jinja_function_find(name) || mst_str_eq(name, "caller")
            || mst_str_eq(name, "loop"))
        {
            continue;
        }

        return mst_jinja_parse_error(p, (uint32_t)
                                     p->called->items[i + 1].u.n,
                                     "the function \"%.*s\" is not supported",
                                     (int) (name.len < 40 ? name.len : 40),
                                     name.data);
    }

    return MST_OK;
}


static int
mst_jinja_parse_names(mst_jinja_parse_t *p)
{
    size_t             i, n;
    mst_str_t          name;
    mst_jinja_tree_t  *tree;

    tree = p->tree;
    n = tree->names->n;

    tree->functions = mst_work_array(p->w, n, sizeof(void *));
    tree->spelling = mst_work_array(p->w, n, sizeof(void *));

    if (tree->functions == NULL || tree->spelling == NULL) {
        return MST_ERROR;
    }

    for (i = 0; i < n; i++) {
        tree->spelling[i] = tree->names->entries[i].key.u.text;
        name = mst_text_str(tree->spelling[i]);
        tree->functions[i] = mst_jinja_function_find(name);
    }

    return MST_OK;
}


int
mst_jinja_parse(mst_work_t *w, mst_str_t source, mst_jinja_tree_t *tree)
{
    size_t             i;
    mst_value_t        v;
    mst_jinja_parse_t  p;

    static const char *const  none[] = { NULL };
    static const char *const  names[] = {
        "loop", "caller", "varargs", "kwargs"  /* in mst_jinja_id_t's order */
    };

    memset(&p, 0, sizeof(mst_jinja_parse_t));
    memset(tree, 0, sizeof(mst_jinja_tree_t));

    p.w = w;
    p.tree = tree;
    p.t = mst_jinja_lex(w, source);
    p.bound = mst_dict_create(w, 0);
    p.called = mst_list_create(w, 0);
    tree->names = mst_dict_create(w, 0);

    if (p.t == NULL || p.bound == NULL || p.called == NULL
        || tree->names == NULL)
    {
        return MST_ERROR;
    }

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {

        if (mst_value_str(w, names[i], strlen(names[i]), MST_TEXT_TEMPLATE,
                          &v)
            != MST_OK
            || mst_dict_set(w, tree->names, v,
                            mst_value_int(tree->n_names++))
               != MST_OK)
        {
            return MST_ERROR;
        }
    }

    if (mst_jinja_block_body(&p, none, &tree->root) != MST_OK
        || mst_jinja_parse_calls(&p) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_jinja_parse_names(&p);
}


/*
 * The parser of a template's statements: see mst_jinja_parse.h.
 */

#include "text/mst_jinja_parse.h"


typedef int (*mst_jinja_block_pt)(mst_jinja_parse_t *p,
    mst_jinja_node_t **n);

typedef struct {
    const char          *word;
    mst_jinja_block_pt   parse;
} mst_jinja_block_tag_t;


static int mst_jinja_block_if(mst_jinja_parse_t *p, mst_jinja_node_t **n);
static int mst_jinja_block_for(mst_jinja_parse_t *p, mst_jinja_node_t **n);
static int mst_jinja_block_set(mst_jinja_parse_t *p, mst_jinja_node_t **n);
static int mst_jinja_block_macro(mst_jinja_parse_t *p, mst_jinja_node_t **n);
static int mst_jinja_block_call_block(mst_jinja_parse_t *p,
    mst_jinja_node_t **n);
static int mst_jinja_block_filter_block(mst_jinja_parse_t *p,
    mst_jinja_node_t **n);
static int mst_jinja_block_with(mst_jinja_parse_t *p, mst_jinja_node_t **n);
static int mst_jinja_block_generation(mst_jinja_parse_t *p,
    mst_jinja_node_t **n);
static int mst_jinja_block_jump(mst_jinja_parse_t *p, mst_jinja_node_t **n);


static const mst_jinja_block_tag_t  mst_jinja_block_tags[] = {
    { "if", mst_jinja_block_if },
    { "for", mst_jinja_block_for },
    { "set", mst_jinja_block_set },
    { "macro", mst_jinja_block_macro },
    { "call", mst_jinja_block_call_block },
    { "filter", mst_jinja_block_filter_block },
    { "with", mst_jinja_block_with },
    { "generation", mst_jinja_block_generation },
    { "break", mst_jinja_block_jump },
    { "continue", mst_jinja_block_jump }
};


static int
mst_jinja_block_tag_end(mst_jinja_parse_t *p)
{
    return mst_jinja_parse_expect_type(p, MST_JINJA_TAG_END, "\"%}\"");
}


static int
mst_jinja_block_output(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_jinja_node_t  *text;

    *n = mst_jinja_parse_node(p, MST_JINJA_OUTPUT);

    if (*n == NULL) {
        return MST_ERROR;
    }

    if (p->t->type == MST_JINJA_DATA) {
        text = mst_jinja_parse_node(p, MST_JINJA_CONST);

        if (text == NULL) {
            return MST_ERROR;
        }

        text->value = p->t->value;
        (*n)->a = text;
        p->t++;

        return MST_OK;
    }

    p->t++;

    if (mst_jinja_expr_tuple(p, 1, NULL, &(*n)->a) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_parse_expect_type(p, MST_JINJA_PRINT_END, "\"}}\"");
}


static int
mst_jinja_block_tag(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    char    text[64];
    size_t  i;

    for (i = 0; i < sizeof(mst_jinja_block_tags)
                    / sizeof(mst_jinja_block_tag_t); i++)
    {
        if (mst_jinja_parse_is_word(p, mst_jinja_block_tags[i].word)) {
            return mst_jinja_block_tags[i].parse(p, n);
        }
    }

    return mst_jinja_parse_error(p, p->t->line, p->t->type == MST_JINJA_NAME
                                 ? "the tag %s is not supported here"
                                 : "a tag begins with %s",
                                 mst_jinja_parse_seen(p, text, sizeof(text)));
}


static int
mst_jinja_block_at_end(const mst_jinja_parse_t *p, const char *const *ends)
{
    for ( /* void */ ; *ends; ends++) {

        if (mst_jinja_parse_is_word(p, *ends)) {
            return 1;
        }
    }

    return 0;
}


/* up to a tag that is one of "ends", whose word is the next token then; the
   whole template where "ends" is empty */

int
mst_jinja_block_body(mst_jinja_parse_t *p, const char *const *ends,
    mst_jinja_node_t **list)
{
    int  rc;

    if (mst_jinja_parse_enter(p) != MST_OK) {
        return MST_ERROR;
    }

    for ( /* void */ ; p->t->type != MST_JINJA_END; list = &(*list)->next) {

        if (p->t->type != MST_JINJA_TAG) {
            rc = mst_jinja_block_output(p, list);

        } else {
            p->t++;

            if (mst_jinja_block_at_end(p, ends)) {
                break;
            }

            rc = mst_jinja_block_tag(p, list);

            if (rc == MST_OK) {
                rc = mst_jinja_block_tag_end(p);
            }
        }

        if (rc != MST_OK) {
            return MST_ERROR;
        }
    }

    p->depth--;

    if (*ends && p->t->type == MST_JINJA_END) {
        return mst_jinja_parse_error(p, p->t->line, "\"%s\" is expected "
                                     "where the template ends", *ends);
    }

    return MST_OK;
}


/* from the end of the opening tag past the word that ends the block */

static int
mst_jinja_block_list(mst_jinja_parse_t *p, const char *end,
    mst_jinja_node_t **list)
{
    const char  *ends[2];

    ends[0] = end;
    ends[1] = NULL;

    if (mst_jinja_block_tag_end(p) != MST_OK
        || mst_jinja_block_body(p, ends, list) != MST_OK)
    {
        return MST_ERROR;
    }

    p->t++;

    return MST_OK;
}


static int
mst_jinja_block_if(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_jinja_node_t  **place;

    static const char *const  ends[] = { "endif", "elif", "else", NULL };

    /* "elif" is an if in the else of another */

    for (place = n; ; place = &(*place)->other) {
        *place = mst_jinja_parse_node(p, MST_JINJA_IF);
        p->t++;

        if (*place == NULL
            || mst_jinja_expr_tuple(p, 0, NULL, &(*place)->a) != MST_OK
            || mst_jinja_block_tag_end(p) != MST_OK
            || mst_jinja_block_body(p, ends, &(*place)->list) != MST_OK)
        {
            return MST_ERROR;
        }

        if (mst_jinja_parse_skip_word(p, "endif")) {
            return MST_OK;
        }

        if (mst_jinja_parse_skip_word(p, "else")) {
            return mst_jinja_block_list(p, "endif", &(*place)->other);
        }
    }
}


static int
mst_jinja_block_for(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_jinja_node_t  *f;

    static const char *const  ends[] = { "endfor", "else", NULL };

    f = mst_jinja_parse_node(p, MST_JINJA_FOR);
    *n = f;
    p->t++;

    if (f == NULL || mst_jinja_target(p, 0, "in", &f->a) != MST_OK
        || mst_jinja_parse_expect_word(p, "in") != MST_OK
        || mst_jinja_expr_tuple(p, 0, "recursive", &f->b) != MST_OK
        || (mst_jinja_parse_skip_word(p, "if")
            && mst_jinja_expr(p, &f->c) != MST_OK))
    {
        return MST_ERROR;
    }

    f->flags = (uint32_t) mst_jinja_parse_skip_word(p, "recursive");

    p->loops++;

    if (mst_jinja_block_tag_end(p) != MST_OK
        || mst_jinja_block_body(p, ends, &f->list) != MST_OK)
    {
        return MST_ERROR;
    }

    p->loops--;

    if (mst_jinja_parse_skip_word(p, "endfor")) {
        return MST_OK;
    }

    p->t++;

    return mst_jinja_block_list(p, "endfor", &f->other);
}


/* a block of which no jump leads out */

static int
mst_jinja_block_closed(mst_jinja_parse_t *p, const char *end,
    mst_jinja_node_t **list)
{
    int  rc, loops;

    loops = p->loops;
    p->loops = 0;

    rc = mst_jinja_block_list(p, end, list);

    p->loops = loops;

    return rc;
}


static int
mst_jinja_block_set(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    *n = mst_jinja_parse_node(p, MST_JINJA_SET);
    p->t++;

    if (*n == NULL || mst_jinja_target(p, 1, NULL, &(*n)->a) != MST_OK) {
        return MST_ERROR;
    }

    if (mst_jinja_parse_skip(p, '=')) {
        return mst_jinja_expr_tuple(p, 1, NULL, &(*n)->b);
    }

    (*n)->kind = MST_JINJA_CAPTURE;

    if (mst_jinja_term_filters(p, NULL, &(*n)->b) != MST_OK) {
        return MST_ERROR;
    }

    return mst_jinja_block_closed(p, "endset", &(*n)->list);
}


/* (a, b=1) */

static int
mst_jinja_block_params(mst_jinja_parse_t *p, mst_jinja_node_t **list)
{
    int                given;
    mst_jinja_node_t  *n;

    given = 0;

    if (mst_jinja_parse_expect(p, '(') != MST_OK) {
        return MST_ERROR;
    }

    while (!mst_jinja_parse_skip(p, ')')) {
        n = mst_jinja_parse_node(p, MST_JINJA_PARAM);

        if (n == NULL) {
            return MST_ERROR;
        }

        n->value = p->t->value;
        *list = n;
        list = &n->next;

        if (mst_jinja_target_name(p, &n->id) != MST_OK) {
            return MST_ERROR;
        }

        if (mst_jinja_parse_skip(p, '=')) {
            given = 1;

            if (mst_jinja_expr(p, &n->a) != MST_OK) {
                return MST_ERROR;
            }

        } else if (given) {
            return mst_jinja_parse_error(p, n->line, "a parameter without a "
                                         "default follows one with one");
        }

        if (!mst_jinja_parse_is(p, ')')
            && mst_jinja_parse_expect(p, ',') != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


/* what a macro's own body asks for is not asked of the one around it */

static int
mst_jinja_block_macro_body(mst_jinja_parse_t *p, const char *end,
    mst_jinja_node_t *n)
{
    int       rc;
    uint32_t  asked;

    asked = p->asked;
    p->asked = 0;

    rc = mst_jinja_block_closed(p, end, &n->list);

    n->flags = p->asked;
    p->asked = asked;

    return rc;
}


static int
mst_jinja_block_macro(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    *n = mst_jinja_parse_node(p, MST_JINJA_MACRO);
    p->t++;

    if (*n == NULL) {
        return MST_ERROR;
    }

    (*n)->value = p->t->value;

    if (mst_jinja_target_name(p, &(*n)->id) != MST_OK
        || mst_jinja_block_params(p, &(*n)->params) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_jinja_block_macro_body(p, "endmacro", *n);
}


static int
mst_jinja_block_call_block(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    *n = mst_jinja_parse_node(p, MST_JINJA_CALL_BLOCK);
    p->t++;

    if (*n == NULL
        || (mst_jinja_parse_is(p, '(')
            && mst_jinja_block_params(p, &(*n)->params) != MST_OK)
        || mst_jinja_expr(p, &(*n)->a) != MST_OK)
    {
        return MST_ERROR;
    }

    if ((*n)->a->kind != MST_JINJA_CALL) {
        return mst_jinja_parse_error(p, (*n)->line, "{%% call %%} needs a "
                                     "call");
    }

    (*n)->value = mst_value(MST_VALUE_NONE);

    return mst_jinja_block_macro_body(p, "endcall", *n);
}


static int
mst_jinja_block_filter_block(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    *n = mst_jinja_parse_node(p, MST_JINJA_FILTER_BLOCK);
    p->t++;

    if (*n == NULL
        || mst_jinja_term_filter(p, NULL, &(*n)->b) != MST_OK
        || mst_jinja_term_filters(p, (*n)->b, &(*n)->b) != MST_OK)
    {
        return MST_ERROR;
    }

    return mst_jinja_block_closed(p, "endfilter", &(*n)->list);
}


static int
mst_jinja_block_with(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    mst_jinja_node_t  **last;

    *n = mst_jinja_parse_node(p, MST_JINJA_WITH);
    p->t++;

    if (*n == NULL) {
        return MST_ERROR;
    }

    for (last = &(*n)->params; p->t->type != MST_JINJA_TAG_END;
         last = &(*last)->next)
    {
        if ((*n)->params && mst_jinja_parse_expect(p, ',') != MST_OK) {
            return MST_ERROR;
        }

        *last = mst_jinja_parse_node(p, MST_JINJA_SET);

        if (*last == NULL
            || mst_jinja_target(p, 0, NULL, &(*last)->a) != MST_OK
            || mst_jinja_parse_expect(p, '=') != MST_OK
            || mst_jinja_expr(p, &(*last)->b) != MST_OK)
        {
            return MST_ERROR;
        }
    }

    return mst_jinja_block_list(p, "endwith", &(*n)->list);
}


/* a mark for training, which says what the assistant said */

static int
mst_jinja_block_generation(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    *n = mst_jinja_parse_node(p, MST_JINJA_SCOPE);
    p->t++;

    return *n ? mst_jinja_block_closed(p, "endgeneration", &(*n)->list)
              : MST_ERROR;
}


static int
mst_jinja_block_jump(mst_jinja_parse_t *p, mst_jinja_node_t **n)
{
    *n = mst_jinja_parse_node(p, mst_jinja_parse_is_word(p, "break")
                              ? MST_JINJA_BREAK : MST_JINJA_CONTINUE);

    if (*n == NULL) {
        return MST_ERROR;
    }

    if (p->loops == 0) {
        return mst_jinja_parse_error(p, (*n)->line, "a jump stands outside "
                                     "of a loop");
    }

    p->t++;

    return MST_OK;
}

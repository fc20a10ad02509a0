
/*
 * What a chat says of tools: "tools", "tool_choice", "parallel_tool_calls",
 * in OpenAI's form and Mistral's ("any" is "required").
 */

#ifndef MST_TOOLS_H
#define MST_TOOLS_H

#include <stdint.h>

#include "api/mst_field.h"
#include "base/mst_buf.h"
#include "base/mst_str.h"


#define MST_TOOLS_MAX  128


typedef enum {
    MST_TOOLS_AUTO,                /* the model chooses */
    MST_TOOLS_NONE,                /* it calls none */
    MST_TOOLS_REQUIRED,            /* it calls one at least */
    MST_TOOLS_NAMED                /* it calls this one */
} mst_tools_choice_t;


typedef struct {
    uint32_t            n;         /* of tools, 0: none were given */
    mst_tools_choice_t  choice;
    mst_str_t           name;      /* of the tool that must be called */
    int                 single;    /* "parallel_tool_calls": false */
    mst_str_t           json;      /* the list as compact JSON; len 0: none */
    mst_str_t           names;     /* of all, each with a newline behind */
    char               *owned;     /* memory of both, mst_free() it */
} mst_tools_t;


/*
 * Fills *tools, which is zero; what is kept is copied into "text", which has
 * room for all text of the document.  MST_OK, or MST_ERROR with a 400 that
 * names the field.
 */
int mst_tools_parse(const mst_field_t *f, mst_buf_t *text,
    mst_tools_t *tools);

/* one of them has this name */
int mst_tools_has(const mst_tools_t *tools, mst_str_t name);


#endif /* MST_TOOLS_H */


/*
 * Tasks: named sets of defaults for what a request leaves open.
 *
 * A setting has the name and the range of the request's field, since it is
 * checked by the same code.  The host creates tasks while it reads its
 * configuration; a closed task is immutable.  No nginx.
 */

#ifndef MST_TASK_H
#define MST_TASK_H

#include <stddef.h>

#include "api/mst_request.h"
#include "base/mst_err.h"
#include "base/mst_str.h"


#define MST_TASK_MAX_NAME  64      /* bytes */


typedef struct mst_task_s  mst_task_t;


mst_task_t *mst_task_create(void);             /* NULL: memory */
void mst_task_destroy(mst_task_t *t);          /* t may be NULL */

/*
 * One line of a task's block: "temperature" "0.2".  MST_DECLINED: there is
 * no such setting; MST_ERROR: a sentence about the value.
 */
int mst_task_set(mst_task_t *t, mst_str_t name, const mst_str_t *values,
    size_t n, mst_err_t *err);

/* the end of the block: ranges are checked, also against each other */
int mst_task_close(mst_task_t *t, mst_err_t *err);

/*
 * Each setting where the body gave none.  The limits on the answer go
 * together: the body's one replaces all of them.  MST_OK or MST_ERROR
 * (memory).
 */
int mst_task_apply(const mst_task_t *t, mst_request_t *r);


/* letters, digits, ".", "_", "-"; not empty, not too long */
int mst_task_is_name(mst_str_t name);

/*
 * "task: NAME" as the first line of the chat's first message, a system
 * message.  MST_OK: *name is set; the line, and the empty lines behind it,
 * are taken out, with the message if it holds nothing else.  MST_DECLINED:
 * no such line, nothing is changed.
 */
int mst_task_take(mst_request_t *r, mst_str_t *name);


#endif /* MST_TASK_H */

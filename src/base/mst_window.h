
/*
 * How many of the requests of the last so many seconds went badly, counted
 * by several processes in memory that they share.
 *
 * The time is cut into parts, each with its two counts in one word, that are
 * used in a circle: what happened counts for at least 15/16 of the window and
 * never longer than all of it.  No lock; a process that is killed loses at
 * most the request it was counting.  All zeros is an empty window.  Times are
 * mst_time_ns().  Any process, any thread.
 */

#ifndef MST_WINDOW_H
#define MST_WINDOW_H

#include <stdatomic.h>
#include <stdint.h>


#define MST_WINDOW_PARTS  16


typedef struct {
    _Atomic uint64_t  parts[MST_WINDOW_PARTS];     /* CAS; [turn:32 |
                                                      all:16 | bad:16] */
} mst_window_t;


/* window_ns >= MST_WINDOW_PARTS, the same in all calls */
void mst_window_add(mst_window_t *w, uint64_t window_ns, uint64_t now_ns,
    int bad);
void mst_window_sum(const mst_window_t *w, uint64_t window_ns,
    uint64_t now_ns, uint64_t *all, uint64_t *bad);
void mst_window_reset(mst_window_t *w);


#endif /* MST_WINDOW_H */

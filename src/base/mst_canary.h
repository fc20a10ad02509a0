
/*
 * A canary: who of all is to meet it, and whether it did too badly to go on.
 *
 * The choice is a matter of the key alone: the key's point, a number below a
 * million that follows from canary's name and key, is below the canary's part
 * or it is not.  So a key always gets the same answer, on every host, a
 * larger part keeps all keys of a smaller one, 0 is nobody and all is all;
 * and two canaries choose independently of each other.
 *
 * The counts lie in memory that processes share (mst_window.h); all zeros is
 * a canary that nothing was seen of.  Any process, any thread.
 */

#ifndef MST_CANARY_H
#define MST_CANARY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_str.h"
#include "base/mst_window.h"


#define MST_CANARY_ALL  1000000                /* parts of the whole */


typedef struct {
    uint64_t  window_ns;
    uint32_t  max_errors;                      /* of MST_CANARY_ALL */
    uint32_t  min;                             /* requests in the window from
                                                  which on a rate is one */
} mst_canary_conf_t;


typedef struct {
    _Atomic uint32_t  rolled_back;             /* 0 | 1; CAS */
    _Atomic uint64_t  requests;                /* ever */
    _Atomic uint64_t  errors;
    mst_window_t      window;
} mst_canary_t;


/* "0%" .. "100%", up to 4 decimals; MST_OK or MST_ERROR */
int mst_canary_percent(mst_str_t text, uint32_t *part);

/* the point of a key: 0 .. MST_CANARY_ALL - 1, below its part: chosen */
uint32_t mst_canary_point(mst_str_t name, mst_str_t key);

/*
 * A request ended.  MST_DONE: with it the errors are more than max_errors
 * of the *requests in the window, *errors of them: it is rolled back, by
 * this call.
 */
int mst_canary_count(mst_canary_t *c, const mst_canary_conf_t *conf,
    uint64_t now_ns, int bad, uint64_t *requests, uint64_t *errors);

/* begins anew, rolled back or not */
void mst_canary_resume(mst_canary_t *c);


#endif /* MST_CANARY_H */

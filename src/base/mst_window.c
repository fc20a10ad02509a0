
/*
 * Counts by time, see the header.
 */

#include "base/mst_window.h"


#define MST_WINDOW_TURN  32                    /* bits below it */
#define MST_WINDOW_ALL   16
#define MST_WINDOW_MAX   0xffffull


static uint32_t mst_window_turn(uint64_t window_ns, uint64_t now_ns);


static uint32_t
mst_window_turn(uint64_t window_ns, uint64_t now_ns)
{
    return (uint32_t) (now_ns / (window_ns / MST_WINDOW_PARTS));
}


void
mst_window_add(mst_window_t *w, uint64_t window_ns, uint64_t now_ns, int bad)
{
    uint32_t           turn;
    uint64_t           old, new, all, n;
    _Atomic uint64_t  *part;

    turn = mst_window_turn(window_ns, now_ns);
    part = &w->parts[turn % MST_WINDOW_PARTS];
    old = atomic_load(part);

    do {
        all = 0;
        n = 0;

        if ((uint32_t) (old >> MST_WINDOW_TURN) == turn) {
            all = old >> MST_WINDOW_ALL & MST_WINDOW_MAX;
            n = old & MST_WINDOW_MAX;

        } else if (old && (int32_t) ((uint32_t) (old >> MST_WINDOW_TURN)
                                     - turn) > 0)
        {
            return;                            /* we slept for a window */
        }

        if (all == MST_WINDOW_MAX) {           /* the rate is what counts */
            all /= 2;
            n /= 2;
        }

        new = (uint64_t) turn << MST_WINDOW_TURN
              | (all + 1) << MST_WINDOW_ALL | (n + (bad != 0));

    } while (!atomic_compare_exchange_weak(part, &old, new));
}


void
mst_window_sum(const mst_window_t *w, uint64_t window_ns, uint64_t now_ns,
    uint64_t *all, uint64_t *bad)
{
    uint32_t  i, turn;
    uint64_t  word;

    turn = mst_window_turn(window_ns, now_ns);
    *all = 0;
    *bad = 0;

    for (i = 0; i < MST_WINDOW_PARTS; i++) {
        word = atomic_load(&w->parts[i]);

        if (turn - (uint32_t) (word >> MST_WINDOW_TURN) < MST_WINDOW_PARTS) {
            *all += word >> MST_WINDOW_ALL & MST_WINDOW_MAX;
            *bad += word & MST_WINDOW_MAX;
        }
    }
}


void
mst_window_reset(mst_window_t *w)
{
    uint32_t  i;

    for (i = 0; i < MST_WINDOW_PARTS; i++) {
        atomic_store(&w->parts[i], 0);
    }
}


/*
 * Choice and counts of a canary, see the header.
 */

#include "base/mst_canary.h"

#include "base/mst_hash.h"


#define MST_CANARY_DECIMALS  4                 /* 1 percent is 10^4 parts */


int
mst_canary_percent(mst_str_t text, uint32_t *part)
{
    size_t    i;
    uint32_t  n, digits, decimals, dot;

    n = 0;
    digits = 0;
    decimals = 0;
    dot = 0;

    if (text.len == 0 || text.data[text.len - 1] != '%') {
        return MST_ERROR;
    }

    for (i = 0; i < text.len - 1; i++) {

        if (text.data[i] == '.' && !dot && digits) {
            dot = 1;
            continue;
        }

        if (text.data[i] < '0' || text.data[i] > '9'
            || decimals == MST_CANARY_DECIMALS)
        {
            return MST_ERROR;
        }

        n = n * 10 + (uint32_t) (text.data[i] - '0');
        digits++;
        decimals += dot;

        if (n > MST_CANARY_ALL) {
            return MST_ERROR;
        }
    }

    if (digits == 0 || (dot && decimals == 0)) {
        return MST_ERROR;
    }

    for ( /* void */ ; decimals < MST_CANARY_DECIMALS; decimals++) {
        n *= 10;

        if (n > MST_CANARY_ALL) {
            return MST_ERROR;
        }
    }

    *part = n;

    return MST_OK;
}


uint32_t
mst_canary_point(mst_str_t name, mst_str_t key)
{
    uint64_t  h;

    h = mst_hash(mst_hash(0, name.data, name.len), key.data, key.len);

    return (uint32_t) ((h >> 32) * MST_CANARY_ALL >> 32);
}


int
mst_canary_count(mst_canary_t *c, const mst_canary_conf_t *conf,
    uint64_t now_ns, int bad, uint64_t *requests, uint64_t *errors)
{
    uint32_t  no;

    (void) atomic_fetch_add_explicit(&c->requests, 1, memory_order_relaxed);

    if (bad) {
        (void) atomic_fetch_add_explicit(&c->errors, 1, memory_order_relaxed);
    }

    mst_window_add(&c->window, conf->window_ns, now_ns, bad);

    mst_window_sum(&c->window, conf->window_ns, now_ns, requests, errors);

    if (*requests < conf->min
        || *errors * MST_CANARY_ALL <= *requests * conf->max_errors)
    {
        return MST_OK;
    }

    no = 0;

    return atomic_compare_exchange_strong(&c->rolled_back, &no, 1) ? MST_DONE
                                                                   : MST_OK;
}


void
mst_canary_resume(mst_canary_t *c)
{
    mst_window_reset(&c->window);
    atomic_store(&c->rolled_back, 0);
}

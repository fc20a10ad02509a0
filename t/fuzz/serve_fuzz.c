
/*
 * A hostile worker against the engine's loop: true and broken records, and
 * any word of the segment that a worker can write.  The engine goes on.
 */

#include "serve.h"

#include "fuzz.h"

#define FUZZ_OPS  64


static void
fuzz_word(fuzz_t *f, void *area, size_t size)
{
    size_t    at, n;
    uint64_t  v;

    n = 4 + (fuzz_uint(f, 1) & 4);
    at = fuzz_uint(f, 2) % (size / 8) * 8;
    v = fuzz_uint(f, n);

    memcpy((char *) area + at, &v, n);
}


/* a SUBMIT, with up to three bytes of it changed */

static void
fuzz_submit(fuzz_t *f, world_t *w, worker_t *k)
{
    size_t             n, at;
    uint32_t           len, n_prompt;
    mst_rec_submit_t  *s;

    n_prompt = 1 + (uint32_t) fuzz_uint(f, 1);
    len = mst_record_submit_len(n_prompt, 0, 0);
    s = (mst_rec_submit_t *) mst_ring_reserve(&k->req, len);

    if (s == NULL) {
        return;
    }

    memset((char *) s + sizeof(mst_record_t), 0, len - sizeof(mst_record_t));
    mst_params_default(&s->params);

    s->head.type = MST_REC_SUBMIT;
    s->head.id = fuzz_uint(f, 1) & 7;
    s->head.slot_epoch = k->slot->epoch;
    s->head.engine_epoch = w->epoch;
    s->n_prompt = n_prompt;
    s->params.max_tokens = (uint32_t) fuzz_uint(f, 1);
    s->place_tokens = n_prompt;

    (void) mst_place_take(w->map.shm, k->slot, n_prompt, 1000, 0);

    for (n = fuzz_uint(f, 1) & 3; n; n--) {
        at = fuzz_uint(f, 2) % len;
        ((unsigned char *) s)[at] = (unsigned char) fuzz_uint(f, 1);
    }

    mst_ring_publish(&k->req, &s->head);
}


static void
fuzz_raw(fuzz_t *f, worker_t *k)
{
    size_t       n;
    const char  *p;

    n = fuzz_uint(f, 1);
    p = fuzz_bytes(f, &n);

    memcpy(k->req.data, p, n);
    atomic_store(&k->slot->req.tail, fuzz_uint(f, 2));
}


/* CANCEL, PACE, PAUSE or RESUME */

static void
fuzz_control(fuzz_t *f, world_t *w, worker_t *k)
{
    uint32_t         what, len;
    mst_record_t    *rec;
    mst_rec_pace_t  *pace;

    what = (uint32_t) fuzz_uint(f, 1);
    len = (what & 0x18) == 0x08 ? sizeof(mst_rec_pace_t)
                                : sizeof(mst_record_t);
    rec = mst_ring_reserve(&k->req, len);

    if (rec == NULL) {
        return;
    }

    rec->type = (what & 0x18) == 0x00 ? MST_REC_CANCEL
                : (what & 0x18) == 0x08 ? MST_REC_PACE
                : (what & 0x18) == 0x10 ? MST_REC_PAUSE : MST_REC_RESUME;
    rec->id = what & 7;
    rec->slot_epoch = k->slot->epoch;
    rec->engine_epoch = w->epoch;

    if (rec->type == MST_REC_PACE) {
        pace = (mst_rec_pace_t *) rec;
        pace->pace = (uint32_t) fuzz_uint(f, 4);
        pace->unused = 0;
    }

    mst_ring_publish(&k->req, rec);
}


static void
fuzz_op(fuzz_t *f, world_t *w, worker_t *k)
{
    switch (fuzz_uint(f, 1) % 10) {

    case 0:
        fuzz_word(f, k->slot, sizeof(mst_slot_t));
        break;

    case 1:
        fuzz_word(f, &w->map.shm->state, sizeof(mst_shm_t)
                                         - offsetof(mst_shm_t, state));
        break;

    case 2:
        fuzz_raw(f, k);
        break;

    case 3:
        fuzz_control(f, w, k);
        break;

    case 4:
        atomic_store(&k->slot->rsp.head, atomic_load(&k->slot->rsp.tail));
        break;

    case 5:
        mst_serve_poll(w->serve, 0);
        break;

    case 6:
        mst_slot_leave(&w->map, k->i);
        pass(w, 1);
        worker_claim(w, k, (uint32_t) getpid());
        break;

    case 7:
        pass(w, 1 + (int) (fuzz_uint(f, 1) & 7));
        break;

    default:
        fuzz_submit(f, w, k);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int              i;
    fuzz_t           f = { data, size };
    mst_null_conf_t  null;

    static world_t   w;
    static worker_t  k;

    memset(&null, 0, sizeof(null));
    null.context = 256;
    null.n_blocks = 40;

    world_init(&w, &null, 4);
    worker_claim(&w, &k, (uint32_t) getpid());

    for (i = 0; i < FUZZ_OPS && f.n; i++) {
        fuzz_op(&f, &w, &k);
    }

    pass(&w, 4);
    world_fini(&w);

    return 0;
}


/*
 * What comes in: stale and hostile records, and workers that write anywhere,
 * ask for too much or do not read.  Their ends: mst_serve_owner_test.c.
 */

#include "serve.h"

#include "base/mst_hash.h"
#include "engine/mst_serve_local.h"

#include "seed.h"


static void
test_stale(void **state)
{
    world_t            w;
    worker_t           a;
    mst_record_t      *rec;
    mst_rec_submit_t  *s;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());

    s = worker_submit(&w, &a, 1, 10, 5);
    s->head.engine_epoch--;
    worker_send(&a, s);

    s = worker_submit(&w, &a, 2, 20, 5);
    s->head.slot_epoch--;
    worker_send(&a, s);

    rec = mst_ring_reserve(&a.req, sizeof(mst_record_t));
    rec->type = MST_REC_CANCEL;
    rec->id = 3;
    rec->engine_epoch = 0;
    rec->slot_epoch = a.slot->epoch;
    mst_ring_publish(&a.req, rec);

    world_held(&w, 2, 30);
    settle(&w, 10);
    world_held(&w, 0, 0);
    assert_null(worker_next(&a));
    assert_int_equal(w.map.shm->stat.bad_records, 0);

    world_fini(&w);
}


/* a request that makes no sense is refused, its slot lives on */

static void
test_invalid(void **state)
{
    world_t                  w;
    worker_t                 a;
    mst_rec_submit_t        *s;
    const mst_rec_refuse_t  *r;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());

    s = worker_submit(&w, &a, 1, 10, 5);
    ((uint32_t *) (s + 1))[3] = 256;
    worker_send(&a, s);

    s = worker_submit(&w, &a, 2, 10, 5);
    s->n_prompt = 5000;
    worker_send(&a, s);

    s = worker_submit(&w, &a, 3, 10, 5);
    s->params.top_p = 7;
    worker_send(&a, s);

    s = worker_submit(&w, &a, 4, 10, 5);
    s->place_tokens = 4000000000u;             /* it took 10 */
    worker_send(&a, s);

    settle(&w, 20);

    r = (const mst_rec_refuse_t *) worker_expect(&a, MST_REC_REFUSE, 1);
    assert_int_equal(r->reason, MST_REFUSE_INVALID);
    assert_non_null(strstr(r->text, "256"));
    (void) worker_expect(&a, MST_REC_REFUSE, 2);
    r = (const mst_rec_refuse_t *) worker_expect(&a, MST_REC_REFUSE, 3);
    assert_non_null(strstr(r->text, "top_p"));
    (void) worker_expect(&a, MST_REC_ADMIT, 4);

    world_held(&w, 0, 0);
    assert_int_equal(w.map.shm->stat.bad_records, 3);

    /* a prompt as long as the context is no nonsense, but refused */

    s = worker_submit(&w, &a, 5, 10, 5);
    worker_send(&a, s);
    settle(&w, 20);
    assert_int_equal(w.map.shm->stat.bad_records, 3);

    world_fini(&w);
}


static void
test_duplicate(void **state)
{
    int                  n;
    world_t              w;
    worker_t             a, b;
    const mst_record_t  *rec;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());
    worker_claim(&w, &b, (uint32_t) getpid());

    worker_send(&a, worker_submit(&w, &a, 1, 10, 50));
    worker_send(&a, worker_submit(&w, &a, 1, 10, 50));
    worker_send(&b, worker_submit(&w, &b, 1, 10, 50));   /* another's id */
    settle(&w, 200);

    n = 0;

    while ((rec = worker_next(&a)) != NULL) {
        n += rec->type == MST_REC_DONE;
    }

    assert_int_equal(n, 1);
    assert_int_equal(w.map.shm->stat.bad_records, 1);
    (void) worker_expect(&b, MST_REC_ADMIT, 1);
    world_held(&w, 0, 0);

    world_fini(&w);
}


static uint32_t
tokens(worker_t *k)
{
    uint32_t             n;
    const mst_record_t  *rec;

    n = 0;

    while ((rec = worker_next(k)) != NULL) {
        n += rec->type == MST_REC_TOKENS ? ((mst_rec_tokens_t *) rec)->n : 0;
    }

    return n;
}


static void
test_control(void **state)
{
    world_t            w;
    worker_t           a, b;
    mst_rec_submit_t  *s;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());
    worker_claim(&w, &b, (uint32_t) getpid());

    worker_send(&a, worker_submit(&w, &a, 1, 10, 1000));
    worker_send(&b, worker_submit(&w, &b, 1, 10, 1000));
    pass(&w, 10);
    assert_int_equal(tokens(&a), 10);
    assert_int_equal(tokens(&b), 10);

    /* of this slot only, and of no other request */

    worker_control(&w, &a, 1, MST_REC_PAUSE);
    worker_control(&w, &a, 2, MST_REC_PAUSE);
    pass(&w, 10);
    assert_int_equal(tokens(&a), 0);
    assert_int_equal(tokens(&b), 10);

    /* 1000 s for a token */

    worker_pace(&w, &b, 1, 1);
    worker_control(&w, &a, 1, MST_REC_RESUME);
    pass(&w, 10);
    assert_int_equal(tokens(&a), 10);
    assert_int_equal(tokens(&b), 0);

    worker_pace(&w, &b, 1, 0);
    worker_control(&w, &b, 1, MST_REC_RESUME);
    worker_control(&w, &a, 1, MST_REC_PAUSE);
    worker_control(&w, &a, 1, MST_REC_PAUSE);
    pass(&w, 10);
    assert_int_equal(tokens(&a), 0);
    assert_int_equal(tokens(&b), 10);

    worker_cancel(&w, &a, 1);
    worker_control(&w, &a, 1, MST_REC_RESUME);     /* too late */
    pass(&w, 1);
    (void) worker_expect(&a, MST_REC_DONE, 1);

    /* with a pace from the first token on */

    s = worker_submit(&w, &a, 2, 10, 1000);
    s->claim.pace = 1;
    worker_send(&a, s);
    pass(&w, 10);
    assert_int_equal(tokens(&a), 1);

    assert_int_equal(w.map.shm->stat.bad_records, 0);
    world_fini(&w);
}


/* nonsense closes the slot, and nobody else's */

static void
broken(uint16_t type, uint32_t tail)
{
    world_t              w;
    worker_t             a, b;
    mst_record_t        *rec;
    const mst_record_t  *r;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());
    worker_claim(&w, &b, (uint32_t) getpid());

    worker_send(&a, worker_submit(&w, &a, 1, 10, 1000));
    worker_send(&b, worker_submit(&w, &b, 1, 10, 3));
    pass(&w, 2);

    if (tail) {
        a.slot->req.tail += tail;

    } else {
        rec = mst_ring_reserve(&a.req, 64);
        memset((char *) rec + 4, 0xff, 60);
        rec->type = type;
        mst_ring_publish(&a.req, rec);
    }

    settle(&w, 50);
    world_held(&w, 0, 0);
    assert_int_equal(w.map.shm->stat.bad_records, 1);
    assert_int_equal(w.map.shm->stat.running, 0);

    /* what ran was ended with a record */

    do {
        r = worker_next(&a);
        assert_non_null(r);
    } while (r->type != MST_REC_DONE);

    /* deaf now */

    worker_send(&a, worker_submit(&w, &a, 2, 10, 3));
    settle(&w, 50);
    assert_null(worker_next(&a));

    worker_send(&b, worker_submit(&w, &b, 2, 10, 3));
    settle(&w, 50);
    world_held(&w, 1, 10);

    /* it leaves: all is well again */

    mst_slot_leave(&w.map, a.i);
    settle(&w, 50);
    world_held(&w, 0, 0);
    assert_int_equal(mst_slot_state(a.slot), MST_SLOT_FREE);
    assert_int_equal(w.map.shm->stat.slots_reclaimed, 0);

    worker_claim(&w, &a, (uint32_t) getpid());
    worker_send(&a, worker_submit(&w, &a, 1, 10, 3));
    settle(&w, 50);
    (void) worker_expect(&a, MST_REC_ADMIT, 1);

    world_fini(&w);
}


static void
test_broken(void **state)
{
    (void) state;

    broken(MST_REC_DONE, 0);
    broken(MST_REC_CANCEL, 0);
    broken(0xffff, 0);
    broken(0, 4);
    broken(0, 3 * RING);
}


/* a worker that writes anything anywhere: the engine serves on */

static void
test_scribble(void **state)
{
    int        i, k;
    size_t     n;
    world_t    w;
    worker_t   a;
    uint64_t  *word, *end, x, seed;

    (void) state;

    seed = test_seed();
    x = seed;

    world_init(&w, NULL, 8);
    w.log.level = MST_LOG_ALERT;

    word = (uint64_t *) w.map.slots;
    end = (uint64_t *) ((char *) w.map.shm + w.map.size);

    for (i = 0; i < 30000; i++) {

        /* a slot in order, as the engine left it or found it */

        if (i % 8 == 0) {
            k = mst_slot_claim(&w.map, (uint32_t) getpid());

            if (k < 0) {
                k = (i / 8) % N_SLOTS;
                mst_slot_leave(&w.map, (uint32_t) k);
                pass(&w, 2);
                continue;
            }

            a.i = (uint32_t) k;
            a.slot = &w.map.slots[k];
            mst_slot_rings(&w.map, a.i, 1, &a.req, &a.rsp);
        }

        w.map.shm->places = 0;                 /* no matter what it says */

        if (mst_ring_room(&a.req) > 512) {
            worker_send(&a, worker_submit(&w, &a, (uint64_t) i, 5,
                                          (uint32_t) (i % 50)));
        }

        x = mst_hash_mix(x + 1);
        n = (size_t) (end - word);

        /* the words of the slots are few: half of all hits go there */

        if (x & 1) {
            n = N_SLOTS * sizeof(mst_slot_t) / sizeof(uint64_t);
        }

        switch ((x >> 1) % 4) {

        case 0:
            word[(x >> 8) % n] = mst_hash_mix(x);
            break;

        case 1:
            word[(x >> 8) % n] ^= 1ull << (x >> 3) % 64;
            break;

        case 2:
            word[(x >> 8) % n] += (uint64_t) (x >> 3) % 256;
            break;

        case 3:
            word[(x >> 8) % n] = (x >> 3) % 32;
            break;
        }

        pass(&w, 1 + (int) (x >> 40) % 3);
    }

    assert_true(w.map.shm->stat.completion_tokens > 1000);
    print_message("%llu tokens, %llu bad records\n",
                  (unsigned long long) w.map.shm->stat.completion_tokens,
                  (unsigned long long) w.map.shm->stat.bad_records);
    world_fini(&w);
}


/* what a slot may have in work is bounded: the rest waits in its ring */

static void
test_bounded(void **state)
{
    uint64_t   id, wake;
    world_t    w;
    worker_t   a, b;
    mst_err_t  err;
    const mst_record_t  *rec;

    (void) state;

    world_init(&w, NULL, 8);
    w.serve->max_calls = 3;
    worker_claim(&w, &a, (uint32_t) getpid());
    worker_claim(&w, &b, (uint32_t) getpid());

    for (id = 1; id <= 7; id++) {
        worker_send(&a, worker_submit(&w, &a, id, 10, 20));
    }

    pass(&w, 1);
    assert_int_equal(w.serve->slots[a.i].n_calls, 3);
    assert_true(a.req.pos->head != a.req.pos->tail);

    /* another worker is not held up */

    worker_send(&b, worker_submit(&w, &b, 1, 10, 1));
    pass(&w, 2);
    (void) worker_expect(&b, MST_REC_ADMIT, 1);

    /* the rest follows, and nothing is counted that is over */

    settle(&w, 200);

    for (id = 0; (rec = worker_next(&a)) != NULL; /* void */ ) {
        id += rec->type == MST_REC_DONE;
    }

    assert_int_equal(id, 7);
    assert_int_equal(w.serve->slots[a.i].n_calls, 0);
    assert_int_equal(w.serve->slots[a.i].n_tokens, 0);
    world_held(&w, 0, 0);

    /* prompts count, too; one that cannot be admitted counts for nothing */

    w.serve->max_calls = 100;
    w.serve->max_tokens = 25;

    for (id = 11; id <= 15; id++) {
        worker_send(&a, worker_submit(&w, &a, id, 10, 20));
    }

    pass(&w, 1);
    assert_int_equal(w.serve->slots[a.i].n_calls, 3);
    assert_int_equal(w.serve->slots[a.i].n_tokens, 30);
    settle(&w, 200);
    world_held(&w, 0, 0);

    /* a full slot is no work: the loop sleeps */

    while (worker_next(&a) != NULL) {
        /* void */
    }

    w.serve->max_calls = 0;
    worker_send(&a, worker_submit(&w, &a, 21, 10, 20));
    err.text[0] = '\0';
    assert_int_equal(mst_serve_pass(w.serve, &wake, &err), MST_AGAIN);
    w.serve->max_calls = 100;
    settle(&w, 200);
    (void) worker_expect(&a, MST_REC_ADMIT, 21);

    world_fini(&w);
}


/* who does not read is no reason to remember without end */

static void
unread(int late)
{
    uint32_t   n, last;
    world_t    w;
    worker_t   a;
    const mst_rec_done_t    *done;
    const mst_record_t      *rec;
    const mst_rec_tokens_t  *tokens;

    world_init(&w, NULL, 8);
    world_engine_dies(&w);
    w.late = late;
    w.telling = late;
    world_engine(&w, NULL, 8);
    w.serve->max_unread = 8192;
    worker_claim(&w, &a, (uint32_t) getpid());

    worker_send(&a, worker_submit(&w, &a, 1, 10, 4000));
    settle(&w, 5000);                          /* it was ended: no more steps */

    assert_true(w.serve->slots[a.i].choked);
    assert_non_null(strstr(w.lines[0], "does not read"));
    assert_int_equal(w.n_lines, 1);
    world_held(&w, 0, 0);

    /* nothing new meanwhile */

    worker_send(&a, worker_submit(&w, &a, 2, 10, 5));
    pass(&w, 3);
    assert_int_equal(w.serve->slots[a.i].n_calls, 1);

    /* it reads: all that was sampled comes, then the end, then the next */

    n = 0;
    done = NULL;

    for (last = 0; last < 1000 && done == NULL; last++) {
        while ((rec = worker_next(&a)) != NULL) {

            if (rec->type == MST_REC_TOKENS) {
                tokens = (const mst_rec_tokens_t *) rec;
                assert_int_equal(tokens->first, n);
                n += tokens->n;

            } else if (rec->type == MST_REC_DONE) {
                done = (const mst_rec_done_t *) rec;
                break;
            }
        }

        pass(&w, 1);
    }

    assert_non_null(done);
    assert_int_equal(done->finish, MST_FINISH_CANCELLED);
    assert_int_equal(done->usage.completion, n);
    assert_true(n > 1000 && n < 4000);

    settle(&w, 50);
    assert_false(w.serve->slots[a.i].choked);
    (void) worker_expect(&a, MST_REC_ADMIT, 2);
    world_held(&w, 0, 0);

    world_fini(&w);
}


static void
test_unread(void **state)
{
    (void) state;

    unread(0);
    unread(1);
}


/* ids that fall into one chain where the hash is known do not here */

static void
test_chains(void **state)
{
    uint64_t   id, n;
    uint32_t   i, longest, len;
    world_t    w;
    worker_t   a;
    mst_serve_call_t  *call;

    (void) state;

    world_init(&w, NULL, 8);
    worker_claim(&w, &a, (uint32_t) getpid());

    n = 0;

    for (id = 1; n < 400; id++) {

        /* one in 1024: all of them in one chain of a table without a key */

        if ((mst_hash_mix(mst_hash_mix(id) + a.i) & 1023) != 7) {
            continue;
        }

        worker_send(&a, worker_submit(&w, &a, id, 1, 1000));
        pass(&w, 1);
        n++;

        while (worker_next(&a) != NULL) {
            /* void */
        }
    }

    longest = 0;

    for (i = 0; i < w.serve->n_table; i++) {
        len = 0;

        for (call = w.serve->table[i]; call != NULL; call = call->next) {
            len++;
        }

        longest = (len > longest) ? len : longest;
    }

    assert_true(w.serve->n_calls > 300);
    assert_true(longest < 20);

    world_fini(&w);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_duplicate),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_scribble),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_chains)
    };

    return cmocka_run_group_tests_name("mst_serve_slot", tests, NULL, NULL);
}

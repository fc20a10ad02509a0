
/*
 * Byte ring: order and content across many wraps, room, padding, hostile
 * indexes and lengths, writers killed with SIGKILL at random points.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mst_hash.h"
#include "shm/mst_ring.h"

#include "seed.h"


#define SIZE     8192
#define N_KILL   300
#define N_LEAST  40                     /* records before each of them */


typedef struct {
    mst_ring_pos_t    pos;
    _Alignas(64) unsigned char data[SIZE];
} area_t;


/* what a writer puts into a record: its number and a hash of the rest */
typedef struct {
    mst_record_t  head;
    uint64_t      seq;
    uint64_t      sum;
    unsigned char bytes[];
} item_t;


static area_t *
area_create(void)
{
    area_t  *a;

    a = mmap(NULL, sizeof(area_t), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(a != MAP_FAILED);

    return a;
}


static void
area_destroy(area_t *a)
{
    assert_int_equal(munmap(a, sizeof(area_t)), 0);
}


static uint32_t
rnd(uint64_t *x)
{
    *x = mst_hash_mix(*x + 0x9e3779b97f4a7c15ull);

    return (uint32_t) *x;
}


static int
put(mst_ring_t *r, uint64_t seq, uint64_t *x)
{
    item_t    *it;
    uint32_t   i, n;

    n = (seq & 7) ? rnd(x) % 60 : rnd(x) % 1200;

    it = (item_t *) mst_ring_reserve(r, (uint32_t) sizeof(item_t) + n);
    if (it == NULL) {
        return MST_BUSY;
    }

    it->head.type = MST_REC_TOKENS;
    it->head.id = seq;
    it->seq = seq;

    n = it->head.len - (uint32_t) sizeof(item_t);

    for (i = 0; i < n; i++) {
        it->bytes[i] = (unsigned char) (seq + i);
    }

    it->sum = mst_hash(seq, it->bytes, n);

    mst_ring_publish(r, &it->head);

    return MST_OK;
}


static int
get(mst_ring_t *r, uint64_t *seq)
{
    int                  rc;
    uint32_t             len;
    const item_t        *it;
    const mst_record_t  *rec;

    rc = mst_ring_peek(r, &rec, &len);
    if (rc != MST_OK) {
        return rc;
    }

    it = (const item_t *) rec;

    if (len < sizeof(item_t) || it->head.type != MST_REC_TOKENS
        || it->head.id != it->seq
        || it->sum != mst_hash(it->seq, it->bytes, len - sizeof(item_t)))
    {
        return MST_ERROR;
    }

    *seq = it->seq;
    mst_ring_consume(r, len);

    return MST_OK;
}


/* everything that stands there, each exactly once and in order */

static int
drain(mst_ring_t *c, uint64_t *next)
{
    int       rc;
    uint64_t  seq;

    for ( ;; ) {
        rc = get(c, &seq);

        if (rc != MST_OK) {
            return rc;
        }

        if (seq != *next) {
            return MST_ERROR;
        }

        (*next)++;
    }
}


static void
test_order(void **state)
{
    area_t      *a;
    uint64_t     in, out, x, seq;
    uint32_t     n;
    mst_ring_t   p, c;

    (void) state;

    a = area_create();
    mst_ring_init(&p, &a->pos, a->data, SIZE, 1);
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);

    x = 1;
    in = 0;
    out = 0;

    while (out < 200000) {
        for (n = rnd(&x) % 40; n > 0 && put(&p, in, &x) == MST_OK; n--) {
            in++;
        }

        for (n = rnd(&x) % 40; n > 0 && get(&c, &seq) == MST_OK; n--) {
            assert_int_equal(seq, out);
            out++;
        }
    }

    assert_int_equal(drain(&c, &out), MST_AGAIN);
    assert_int_equal(in, out);

    /* handles made anew go on where the old ones stood */

    assert_int_equal(put(&p, in, &x), MST_OK);
    mst_ring_init(&p, &a->pos, a->data, SIZE, 1);
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);
    assert_int_equal(put(&p, in + 1, &x), MST_OK);
    assert_int_equal(drain(&c, &out), MST_AGAIN);
    assert_int_equal(out, in + 2);

    area_destroy(a);
}


static void
test_room(void **state)
{
    area_t               *a;
    uint32_t              i, room, len;
    uint64_t              x;
    mst_ring_t            p, c;
    mst_record_t         *rec;
    const mst_record_t   *r;

    (void) state;

    a = area_create();
    mst_ring_init(&p, &a->pos, a->data, SIZE, 1);
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);

    assert_null(mst_ring_reserve(&p, SIZE / 2 + 1));
    assert_null(mst_ring_reserve(&p, sizeof(mst_record_t) - 1));
    assert_non_null(mst_ring_reserve(&p, SIZE / 2));

    x = 2;

    for (i = 0; i < 100000; i++) {
        room = mst_ring_room(&p);

        if (room < SIZE / 2) {
            assert_null(mst_ring_reserve(&p, room + 8));
        }

        if (room >= sizeof(mst_record_t)) {
            assert_non_null(mst_ring_reserve(&p, room));
        }

        rec = mst_ring_reserve(&p, 24 + rnd(&x) % 900);

        if (rec != NULL) {
            assert_int_equal(rec->unused, 0);
            rec->type = MST_REC_CANCEL;
            rec->unused = 0xffff;
            mst_ring_publish(&p, rec);
        }

        if (rnd(&x) % 3 == 0 && mst_ring_peek(&c, &r, &len) == MST_OK) {
            assert_int_equal(r->len, len);
            mst_ring_consume(&c, len);
        }
    }

    area_destroy(a);
}


/* two records of half the ring fit whatever the index */

static void
test_half(void **state)
{
    area_t              *a;
    uint32_t             i, len;
    mst_ring_t           p, c;
    mst_record_t        *rec;
    const mst_record_t  *r;

    (void) state;

    a = area_create();
    mst_ring_init(&p, &a->pos, a->data, SIZE, 1);
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);

    for (i = 0; i < SIZE / 8 * 3; i++) {
        rec = mst_ring_reserve(&p, SIZE / 2);
        assert_non_null(rec);
        rec->type = MST_REC_CANCEL;
        mst_ring_publish(&p, rec);

        assert_int_equal(mst_ring_peek(&c, &r, &len), MST_OK);
        assert_int_equal(len, SIZE / 2);
        assert_ptr_equal(r, rec);
        mst_ring_consume(&c, len);

        rec = mst_ring_reserve(&p, 24);
        rec->type = MST_REC_CANCEL;
        mst_ring_publish(&p, rec);
        assert_int_equal(mst_ring_peek(&c, &r, &len), MST_OK);
        mst_ring_consume(&c, len);
    }

    area_destroy(a);
}


static void
test_hostile(void **state)
{
    int                  rc;
    area_t              *a;
    uint32_t             i, k, len;
    uint64_t             x, seed;
    mst_ring_t           p, c;
    mst_record_t        *w;
    const mst_record_t  *r;

    (void) state;

    seed = test_seed();
    x = seed;

    a = area_create();

    for (i = 0; i < 20000; i++) {
        for (k = 0; k < SIZE / 4; k++) {
            ((uint32_t *) a->data)[k] = (rnd(&x) & 3) ? rnd(&x) % 600
                                                      : rnd(&x);
        }

        a->pos.head = (uint64_t) rnd(&x) << (rnd(&x) % 33);
        a->pos.tail = (rnd(&x) & 1) ? a->pos.head + rnd(&x) % (SIZE + 64)
                                    : (uint64_t) rnd(&x) << 7;

        mst_ring_init(&c, &a->pos, a->data, SIZE, 0);
        mst_ring_init(&p, &a->pos, a->data, SIZE, 1);

        for (k = 0; k < 2000; k++) {
            rc = mst_ring_peek(&c, &r, &len);

            if (rc != MST_OK) {
                assert_true(rc == MST_AGAIN || rc == MST_ERROR);
                break;
            }

            assert_true(len >= sizeof(mst_record_t) && len <= SIZE);
            assert_true((const unsigned char *) r >= a->data);
            assert_true((const unsigned char *) r + len <= a->data + SIZE);
            assert_int_equal((uintptr_t) r & 7, 0);

            mst_ring_consume(&c, len);
        }

        assert_true(k < 2000);

        a->pos.head = (uint64_t) rnd(&x) << (rnd(&x) % 33);
        assert_true(mst_ring_room(&p) <= SIZE / 2);
        w = mst_ring_reserve(&p, 24 + rnd(&x) % SIZE);

        if (w != NULL) {
            assert_true((unsigned char *) w >= a->data);
            assert_true((unsigned char *) w + w->len <= a->data + SIZE);

            /* the peer changes it behind our back: only our index counts */

            x += p.own;
            w->len = 0xfffffff1;
            mst_ring_publish(&p, w);
            assert_int_equal(p.own & 7, 0);
        }
    }

    area_destroy(a);
}


/* what the reader has copied is its own, whatever comes after it */

static void
test_copy(void **state)
{
    area_t              *a;
    uint32_t             len;
    mst_ring_t           p, c;
    mst_record_t         copy[2], *w;
    const mst_record_t  *r;

    (void) state;

    a = area_create();
    mst_ring_init(&p, &a->pos, a->data, SIZE, 1);
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);

    w = mst_ring_reserve(&p, sizeof(mst_record_t));
    assert_non_null(w);
    w->type = MST_REC_CANCEL;
    w->id = 77;
    mst_ring_publish(&p, w);

    memset(copy, 0xa5, sizeof(copy));
    assert_int_equal(mst_ring_peek(&c, &r, &len), MST_OK);
    mst_ring_copy(copy, r, len);

    w->len = 4096;
    w->type = MST_REC_DONE;
    w->id = 78;

    assert_int_equal(copy[0].len, sizeof(mst_record_t));
    assert_int_equal(copy[0].type, MST_REC_CANCEL);
    assert_int_equal(copy[0].id, 77);
    assert_int_equal(copy[1].len, 0xa5a5a5a5u);

    mst_ring_consume(&c, len);
    assert_int_equal(mst_ring_peek(&c, &r, &len), MST_AGAIN);

    area_destroy(a);
}


static const struct {
    const char  *what;
    uint64_t     head;
    uint64_t     tail;
    uint32_t     at;               /* where a record head is written */
    uint32_t     len;
    uint16_t     type;
    int          rc;
} cases[] = {
    { "empty", 64, 64, 64, 24, MST_REC_DONE, MST_AGAIN },
    { "good", 64, 88, 64, 24, MST_REC_DONE, MST_OK },
    { "tail behind", 64, 56, 64, 24, MST_REC_DONE, MST_ERROR },
    { "too far", 64, 64 + SIZE + 8, 64, 24, MST_REC_DONE, MST_ERROR },
    { "odd tail", 64, 89, 64, 24, MST_REC_DONE, MST_ERROR },
    { "zero len", 64, 88, 64, 0, MST_REC_DONE, MST_ERROR },
    { "odd len", 64, 128, 64, 25, MST_REC_DONE, MST_ERROR },
    { "short len", 64, 88, 64, 16, MST_REC_DONE, MST_ERROR },
    { "over the tail", 64, 88, 64, 32, MST_REC_DONE, MST_ERROR },
    { "over the end", SIZE - 64, SIZE + 64, SIZE - 64, 72, MST_REC_DONE,
      MST_ERROR },
    { "up to the end", SIZE - 64, SIZE, SIZE - 64, 64, MST_REC_DONE, MST_OK },
    { "padding to the end", SIZE - 64, SIZE + 24, SIZE - 64, 64, MST_REC_PAD,
      MST_OK },
    { "padding short", SIZE - 64, SIZE + 24, SIZE - 64, 56, MST_REC_PAD,
      MST_ERROR },
    { "padding alone", SIZE - 64, SIZE, SIZE - 64, 64, MST_REC_PAD,
      MST_ERROR },
    { "no head fits", SIZE - 16, SIZE + 24, 64, 24, MST_REC_DONE, MST_OK },
    { "padding of all", 0, SIZE, 0, SIZE, MST_REC_PAD, MST_ERROR }
};


static void
test_cases(void **state)
{
    int                  rc;
    area_t              *a;
    size_t               i;
    uint32_t             len;
    mst_ring_t           c;
    mst_record_t        *w;
    const mst_record_t  *r;

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        a = area_create();

        w = (mst_record_t *) a->data;          /* what padding leads to */
        w->len = 24;
        w->type = MST_REC_ADMIT;

        w = (mst_record_t *) (a->data + cases[i].at);
        w->len = cases[i].len;
        w->type = cases[i].type;

        a->pos.head = cases[i].head;
        mst_ring_init(&c, &a->pos, a->data, SIZE, 0);
        a->pos.tail = cases[i].tail;

        rc = mst_ring_peek(&c, &r, &len);

        if (rc != cases[i].rc) {
            fail_msg("%s: %d", cases[i].what, rc);
        }

        area_destroy(a);
    }
}


static pid_t
producer(area_t *a, uint64_t first, uint64_t n)
{
    pid_t       pid;
    uint64_t    i, x;
    mst_ring_t  p;

    pid = fork();

    if (pid != 0) {
        assert_true(pid > 0);
        return pid;
    }

    mst_ring_init(&p, &a->pos, a->data, SIZE, 1);
    x = first;

    for (i = first; i < first + n; /* void */ ) {
        if (put(&p, i, &x) == MST_OK) {
            i++;

        } else {
            (void) sched_yield();
        }
    }

    _exit(0);
}


static void
test_kill(void **state)
{
    int              i, rc, status;
    pid_t            pid;
    area_t          *a;
    uint64_t         first, out, x, seed, until;
    mst_ring_t       c;
    struct timespec  ts;

    (void) state;

    seed = test_seed();
    x = seed;

    a = area_create();
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);
    out = 0;

    for (i = 0; i < N_KILL; i++) {
        first = out;
        pid = producer(a, first, UINT64_MAX / 2);

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        until = (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec
                + 200000 + rnd(&x) % 3000000;

        do {
            rc = drain(&c, &out);
            assert_int_equal(rc, MST_AGAIN);
            (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        } while ((uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec
                 < until
                 || out < first + N_LEAST);   /* on a busy machine, too */

        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));

        /* what was published is whole, and nothing else is there */

        assert_int_equal(drain(&c, &out), MST_AGAIN);
        assert_int_equal(a->pos.tail, a->pos.head);
    }

    printf("%d kills, %llu records\n", N_KILL, (unsigned long long) out);
    assert_true(out >= N_KILL * N_LEAST);

    area_destroy(a);
}


static void
test_processes(void **state)
{
    int          status;
    pid_t        pid;
    area_t      *a;
    uint64_t     out;
    mst_ring_t   c;

    (void) state;

    a = area_create();
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);
    out = 0;

    pid = producer(a, 0, 2000000);

    while (out < 2000000) {
        assert_int_equal(drain(&c, &out), MST_AGAIN);
        (void) sched_yield();
    }

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);

    area_destroy(a);
}


static void *
thread_main(void *data)
{
    area_t      *a;
    uint64_t     i, x;
    mst_ring_t   p;

    a = data;
    mst_ring_init(&p, &a->pos, a->data, SIZE, 1);
    x = 7;

    for (i = 0; i < 100000; /* void */ ) {
        if (put(&p, i, &x) == MST_OK) {
            i++;

        } else {
            (void) sched_yield();
        }
    }

    return NULL;
}


/* the same by threads, so that the thread sanitizer sees both sides */

static void
test_threads(void **state)
{
    area_t      *a;
    uint64_t     out;
    pthread_t    thread;
    mst_ring_t   c;

    (void) state;

    a = area_create();
    mst_ring_init(&c, &a->pos, a->data, SIZE, 0);
    out = 0;

    assert_int_equal(pthread_create(&thread, NULL, thread_main, a), 0);

    while (out < 100000) {
        assert_int_equal(drain(&c, &out), MST_AGAIN);
        (void) sched_yield();
    }

    assert_int_equal(pthread_join(thread, NULL), 0);

    area_destroy(a);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_threads)
    };

#ifdef __SANITIZE_THREAD__

    /* of processes it sees nothing */

    cmocka_set_test_filter("test_threads");
#endif

    return cmocka_run_group_tests_name("mst_ring", tests, NULL, NULL);
}

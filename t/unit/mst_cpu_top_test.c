
/*
 * The likeliest token without all logits: of random heads and of such as are
 * made to mislead it, it is the first of the largest logits that the same
 * backend computes in full, for any number of rows and threads, by each
 * instruction set, with a head of its own and with one that others packed;
 * few tiles are computed in full; numbers that no bound holds for give all
 * logits.
 */

#include "mst_cpu_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/mst_cpu_store.h"

#define VOCAB  3000
#define DIM    192
#define ROWS   20

#define ROW_SIZE  (DIM / 32 * 34)


/* heads */
typedef enum {
    RANDOM,
    EQUAL,                             /* every third row is another's */
    NEAR,                              /* all rows are the same but for one
                                          weight by one */
    CLIPPED,                           /* weights are -128 and 127 */
    ZERO,
    HEADS
} kind_t;


typedef struct {
    mst_backend_t       *b;
    float               *embd;
    const mst_matrix_t  *m[2];         /* embeddings, head */
    const mst_vector_t  *norm;
} rig_t;


static const char *const  isas[] = { "avx512", "avx2", "c" };


static int
has(const char *isa)
{
    mst_err_t  err = { "" };

    return mst_cpu_isa(isa, &err) != NULL;
}


static mst_matrix_t *
matrix(mst_backend_t *b, mst_matrix_kind_t kind, mst_type_t type,
    const void *data)
{
    mst_err_t          err = { "" };
    mst_matrix_t      *m;
    mst_matrix_part_t  part = { type, VOCAB, data };

    m = mst_cpu_ops.matrix(b, kind, &part, 1, DIM, &err);
    assert_string_equal(err.text, "");
    assert_non_null(m);

    return m;
}


/* the rows as in a file; scale: of one block, or 0 */

static uint8_t *
make_head(kind_t kind, uint16_t scale)
{
    float     *f;
    size_t     i;
    uint8_t   *head;

    head = rig_tensor(MST_TYPE_Q8_0, VOCAB, DIM, &f);
    free(f);

    for (i = 0; i < VOCAB; i++) {

        if (kind == EQUAL && i % 3 == 0) {
            memcpy(head + i * ROW_SIZE,
                   head + rig_random() % VOCAB * ROW_SIZE, ROW_SIZE);
        }

        if (kind == NEAR && i) {
            memcpy(head + i * ROW_SIZE, head, ROW_SIZE);
            head[i * ROW_SIZE + 2 + rig_random() % 32] ^= 1;
        }
    }

    for (i = 0; kind >= CLIPPED && i < (size_t) VOCAB * ROW_SIZE; i++) {
        if (i % 34 >= 2) {
            head[i] = kind == ZERO ? 0 : rig_random() & 32 ? 127 : 128;
        }
    }

    if (scale) {
        memcpy(head + 1234 * ROW_SIZE + 34, &scale, 2);
    }

    return head;
}


static void
make_rig(rig_t *r, uint32_t threads, const char *isa)
{
    void                *data;
    size_t               i;
    mst_backend_conf_t   conf;

    conf = rig_conf(threads);
    conf.dim = DIM;
    conf.n_vocab = VOCAB;
    conf.max_seqs = ROWS;
    conf.isa = isa;
    r->b = rig_create(&conf);
    data = rig_tensor(MST_TYPE_F32, VOCAB, DIM, &r->embd);
    free(data);

    /* few large inputs, as there are in models, and one row of none */

    for (i = 0; i < (size_t) VOCAB * DIM; i++) {
        r->embd[i] *= i / DIM == 77 ? 0 : i % 61 == 0 ? 30 : 1;
    }
}


static void
fill_rig(rig_t *r, const void *head)
{
    float      norm[DIM];
    uint32_t   i;
    mst_err_t  err = { "" };

    r->m[0] = matrix(r->b, MST_MATRIX_STACK, MST_TYPE_F32, r->embd);
    r->m[1] = matrix(r->b, MST_MATRIX_HEAD, MST_TYPE_Q8_0, head);

    for (i = 0; i < DIM; i++) {
        norm[i] = 1 + rig_float() / 2;
    }

    r->norm = mst_cpu_ops.vector(r->b, norm, DIM, &err);
    assert_non_null(r->norm);
}


static void
open_rig(rig_t *r, uint32_t threads, const char *isa, uint16_t scale,
    kind_t kind)
{
    uint8_t  *head;

    make_rig(r, threads, isa);
    head = make_head(kind, scale);
    fill_rig(r, head);
    free(head);
}


static void
close_rig(rig_t *r)
{
    mst_cpu_ops.destroy(r->b);
    free(r->embd);
}


/* logits of random rows; top: ids instead, and whether they were taken */

static int
run(rig_t *r, uint32_t *ids, uint32_t rows, uint32_t *top,
    const float **logits)
{
    int                  taken;
    uint32_t             blocks[2] = { 1, 0 }, i, wanted[ROWS];
    mst_err_t            err = { "" };
    mst_backend_seq_t    seq = { ids, rows, 0, blocks, 0, 0 };
    mst_backend_step_t   step = { &seq, 1, rows, wanted, rows };

    for (i = 0; i < rows; i++) {
        wanted[i] = i;
    }

    mst_cpu_ops.begin(r->b, &step);
    mst_cpu_ops.embed(r->b, r->m[0]);
    taken = top ? mst_cpu_ops.top(r->b, r->norm, r->m[1], top) : 0;

    if (!taken) {
        mst_cpu_ops.logits(r->b, r->norm, r->m[1]);
    }

    assert_int_equal(mst_cpu_ops.sync(r->b, logits, &err), MST_OK);

    return taken;
}


static uint32_t
first_of_largest(const float *logits)
{
    uint32_t  best, i;

    for (best = 0, i = 1; i < VOCAB; i++) {
        best = logits[i] > logits[best] ? i : best;
    }

    return best;
}


static void
check(rig_t *r, uint32_t rows)
{
    float        *row;
    uint32_t      i, ids[ROWS], top[ROWS];
    const float  *logits;

    for (i = 0; i < rows; i++) {
        ids[i] = i == 3 ? 77 : rig_random() % VOCAB;
    }

    r->b->top.rest = 0;
    assert_int_equal(run(r, ids, rows, top, &logits), 1);
    assert_int_equal(run(r, ids, rows, NULL, &logits), 0);

    for (i = 0; i < rows; i++) {
        row = (float *) logits + (size_t) i * VOCAB;
        assert_int_equal(top[i], first_of_largest(row));
    }
}


static void
test_random(void **state)
{
    rig_t      r;
    size_t     i;
    uint32_t   all, exact, kind, rows, threads;

    (void) state;

    for (i = 0; i < sizeof(isas) / sizeof(*isas); i++) {
        if (!has(isas[i])) {
            print_message("no %s\n", isas[i]);
            continue;
        }

        for (kind = 0; kind < HEADS; kind++) {
            threads = 1 + kind % 3;
            open_rig(&r, threads, isas[i], 0, kind);
            all = 0;
            exact = 0;

            for (rows = 1; rows <= ROWS; rows += 1 + rows / 9) {
                check(&r, rows);
                all += rows * ((VOCAB + 15) / 16);
                exact += (uint32_t) r.b->top.exact;
            }

            /* at least one tile of each row; where there is one best row, most
               are not */

            assert_true(exact > 0);
            assert_true(kind > EQUAL || exact < all / 4);
            close_rig(&r);
        }
    }
}


/* the likeliest row loses by the copy what it can lose at all, another gains:
   the bound is what tells them apart, and there is no room in it */

static void
test_tight(void **state)
{
    int           k;
    rig_t         r;
    uint8_t      *head;
    uint32_t      i, ids[1] = { 5 }, top[1];
    uint16_t      one;
    const float  *logits;

    (void) state;

    head = make_head(ZERO, 0);
    make_rig(&r, 2, NULL);
    one = mst_f32_to_f16(1);

    for (i = 0; i < DIM; i++) {
        k = rig_random() & 1 ? 1 : -1;
        r.embd[5 * DIM + i] = (float) k;

        /* 19 becomes 16, -19 -16; 20 and -21 become 24 and -24 */

        memcpy(head + 2000 * ROW_SIZE + i / 32 * 34, &one, 2);
        memcpy(head + 100 * ROW_SIZE + i / 32 * 34, &one, 2);
        head[2000 * ROW_SIZE + i / 32 * 34 + 2 + i % 32] =
            (uint8_t) (k * 19);
        head[100 * ROW_SIZE + i / 32 * 34 + 2 + i % 32] =
            (uint8_t) (i % 12 == 0 ? 0 : k > 0 ? 20 : -21);
    }

    fill_rig(&r, head);

    for (i = 0; i < DIM; i++) {
        r.norm->f[i] = 1;
    }

    assert_int_equal(run(&r, ids, 1, top, &logits), 1);
    assert_int_equal(top[0], 2000);
    assert_int_equal(run(&r, ids, 1, NULL, &logits), 0);
    assert_int_equal(first_of_largest(logits), 2000);

    free(head);
    close_rig(&r);
}


/* ids do not depend on threads or on rows beside */

static void
test_same(void **state)
{
    rig_t         r;
    uint32_t      i, ids[ROWS], k, threads, top[ROWS], want[ROWS];
    const float  *logits;

    (void) state;

    for (threads = 1; threads <= 4; threads++) {
        rig_seed = 7;
        open_rig(&r, threads, NULL, 0, EQUAL);

        for (i = 0; i < ROWS; i++) {
            ids[i] = rig_random() % VOCAB;
        }

        r.b->top.rest = 0;
        assert_int_equal(run(&r, ids, ROWS, threads == 1 ? want : top,
                             &logits), 1);

        for (i = 0; i < ROWS; i++) {
            r.b->top.rest = 0;
            assert_int_equal(run(&r, &ids[i], 1, &k, &logits), 1);
            assert_int_equal(k, want[i]);
            assert_true(threads == 1 || top[i] == want[i]);
        }

        close_rig(&r);
    }
}


/* an input that is no number: all logits, of all rows */

static void
test_broken_input(void **state)
{
    rig_t         r;
    uint32_t      i, k, ids[3] = { 5, 6, 7 }, top[3];
    float         want[3 * VOCAB];
    const float  *logits;

    (void) state;

    open_rig(&r, 2, NULL, 0, RANDOM);
    ((float *) r.m[0]->parts[0].base)[6] = NAN;    /* of row 6 */

    assert_int_equal(run(&r, ids, 3, NULL, &logits), 0);
    memcpy(want, logits, sizeof(want));
    memset((float *) logits, 0, sizeof(want));
    assert_int_equal(run(&r, ids, 3, top, &logits), 1);

    for (i = 0; i < 3; i++) {
        assert_int_equal(top[i], MST_BACKEND_NONE);

        for (k = 0; k < VOCAB; k++) {
            assert_true(i == 1 ? isnan(logits[VOCAB + k])
                        : memcmp(&logits[i * VOCAB + k],
                                 &want[i * VOCAB + k], 4) == 0);
        }
    }

    close_rig(&r);
}


/* scales of one block of one row: infinite, not a number, too large for the
   copy; and such as are none of it */

static void
test_scales(void **state)
{
    rig_t         r;
    size_t        i;
    uint32_t      ids[1] = { 5 }, top[1];
    const float  *logits;

    static const struct {
        uint16_t  scale;
        int       taken;
    } scales[] = {
        { 0x7c00, 0 }, { 0xfc00, 0 }, { 0x7e00, 0 }, { 0x7000, 0 },
        { 0x6fff, 1 }, { 0xefff, 1 }, { 0x6c00, 1 }, { 0x0001, 1 },
        { 0x83ff, 1 }, { 0x8000, 1 }
    };

    (void) state;

    for (i = 0; i < sizeof(scales) / sizeof(*scales); i++) {
        open_rig(&r, 2, NULL, scales[i].scale, RANDOM);

        if (scales[i].taken) {
            check(&r, 3);

        } else {
            assert_int_equal(run(&r, ids, 1, top, &logits), 0);
        }

        close_rig(&r);
    }
}


/* a head of which every row may win: once is no reason to do without, then it
   is tried less and less often, until it pays again */

static void
test_rest(void **state)
{
    rig_t                r;
    uint8_t             *head;
    uint32_t             i, k, ids[1] = { 5 }, top[1];
    const float         *logits;
    const mst_matrix_t  *near;

    static const uint32_t  rest[] = { 0, 1, 3, 7, 15, 31, 31 };

    (void) state;

    open_rig(&r, 1, NULL, 0, NEAR);

    for (i = 0; i < sizeof(rest) / sizeof(*rest); i++) {
        assert_int_equal(run(&r, ids, 1, top, &logits), 1);

        for (k = 0; k < rest[i]; k++) {
            assert_int_equal(run(&r, ids, 1, top, &logits), 0);
        }
    }

    near = r.m[1];
    head = make_head(RANDOM, 0);
    r.m[1] = matrix(r.b, MST_MATRIX_HEAD, MST_TYPE_Q8_0, head);
    free(head);
    assert_int_equal(run(&r, ids, 1, top, &logits), 1);

    r.m[1] = near;
    assert_int_equal(run(&r, ids, 1, top, &logits), 1);
    assert_int_equal(run(&r, ids, 1, top, &logits), 1);
    assert_int_equal(run(&r, ids, 1, top, &logits), 0);
    close_rig(&r);
}


/* coarser activations, and a matrix that is no head: no */

static void
test_refused(void **state)
{
    float               *f;
    rig_t                r;
    void                *data;
    uint32_t             ids[1] = { 5 }, top[1];
    const float         *logits;

    (void) state;

    open_rig(&r, 1, NULL, 0, RANDOM);
    r.b->digits = 2;
    assert_int_equal(mst_cpu_ops.top(r.b, r.norm, r.m[1], top), 0);
    r.b->digits = 3;

    data = rig_tensor(MST_TYPE_Q8_0, VOCAB, DIM, &f);
    r.m[1] = matrix(r.b, MST_MATRIX_STACK, MST_TYPE_Q8_0, data);
    assert_int_equal(run(&r, ids, 1, top, &logits), 0);

    free(data);
    free(f);
    close_rig(&r);
}


/* one engine packs, the next one finds the head, its copy and the bounds */

static void
test_shared(void **state)
{
    int               fd, k;
    rig_t             r;
    uint8_t          *head;
    uint32_t          i, ids[ROWS], top[2][ROWS];
    mst_err_t         err = { "" };
    const float      *logits;
    mst_cpu_store_t  *s;

    (void) state;

    fd = memfd_create("mistral-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd != -1);
    head = make_head(EQUAL, 0);

    for (k = 0; k < 2; k++) {
        s = mst_cpu_store_open(fd, 9, &err);

        if (s == NULL) {
            print_message("%s\n", err.text);
            break;
        }

        assert_int_equal(mst_cpu_store_ready(s), k);
        rig_seed = 11;
        make_rig(&r, 2, NULL);
        assert_int_equal(mst_cpu_store_use(s, r.b, &err), MST_OK);
        fill_rig(&r, head);
        assert_int_equal(mst_cpu_store_seal(s, &err), MST_OK);

        for (i = 0; i < ROWS; i++) {
            ids[i] = i * 100;
        }

        assert_int_equal(run(&r, ids, ROWS, top[k], &logits), 1);
        check(&r, ROWS);
        close_rig(&r);
        mst_cpu_store_close(s);
    }

    assert_true(k == 0 || k == 2);

    if (k) {
        assert_memory_equal(top[0], top[1], sizeof(top[0]));
    }

    (void) close(fd);
    free(head);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_tight),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_broken_input),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_shared)
    };

    return cmocka_run_group_tests_name("mst_cpu_top", tests, NULL, NULL);
}

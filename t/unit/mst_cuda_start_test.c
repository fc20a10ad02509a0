
/*
 * How the CUDA backend starts, and fails, on a device that is none
 * (fake_cuda.c): any call that fails, memory that is too little, threads and
 * pinned memory that cannot be had, choices that an earlier start left or
 * somebody forged.  Whatever happens is one sentence, and nothing stays behind.
 *
 * Passed by where there is no toolkit whose headers it needs: make units.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mst_cuda_size.h"
#include "backend/mst_tuned.h"
#include "entries.h"
#include "fake_cuda.h"
#include "model/mst_forward.h"
#include "mst_model_gguf.h"
#include "mst_tiny.h"

#define MIB     (1ull << 20)
#define IDS     90
#define ILLEGAL 700                /* cudaErrorIllegalAddress */
#define VALUES  264                /* rows of the embedding */


/* heads of 64 that the fast kernels take, and matrices for tiles */

static const mst_tiny_t  tiny = {
    2, 256, 320, 8, 2, 64, 64, VALUES, 4096, 1,
    MST_TYPE_BF16, MST_TYPE_BF16, MST_TYPE_BF16, MST_TYPE_BF16, MST_TYPE_F16,
    MST_TYPE_Q8_0, MST_TYPE_BF16, MST_TYPE_BF16, 1e-5, 10000
};

static char       library[4096], dir[64], said[16384];
static fake_t    *fake;
static fake_t     fresh;                       /* as it is at first */
static mst_buf_t  file;


static void
on_log(void *data, mst_log_level_t level, const char *text)
{
    (void) data;
    (void) level;

    strncat(said, text, sizeof(said) - strlen(said) - 2);
    strcat(said, "\n");
}


static const mst_log_t  own_log = { on_log, NULL, MST_LOG_DEBUG };


static mst_model_conf_t
conf(void)
{
    mst_model_conf_t  c;

    memset(&c, 0, sizeof(c));
    c.library = library;
    c.max_rows = 128;
    c.max_seqs = 4;
    c.context = 1024;
    c.kv_type = MST_KV_AUTO;
    c.log = &own_log;

    return c;
}


/* a model or a sentence; *fake as it is set */

static mst_model_t *
start(const mst_model_conf_t *c, mst_err_t *err)
{
    mst_gguf_t   *g;
    mst_model_t  *m;

    memset(err, 0, sizeof(*err));
    said[0] = '\0';
    g = mst_gguf_open_memory(file.data, file.len, "tiny", err);
    assert_non_null(g);
    m = model_of_gguf(g, c, err);

    if (m == NULL) {
        mst_gguf_close(g);
    }

    return m;
}


/* one sentence, of a device; nothing of it is left */

static void
clean(const mst_err_t *err)
{
    if (strncmp(err->text, "cuda:0", 6) != 0
        && strncmp(err->text, "no CUDA device can be used: ", 28) != 0)
    {
        fail_msg("\"%s\" of call %u", err->text, (unsigned) fake->fail_at);
    }

    assert_null(strchr(err->text, '\n'));
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->used, 0);
}


static int
step_at(mst_model_t *m, uint32_t at, uint32_t n, mst_err_t *err)
{
    uint32_t         i, ids[IDS], table[16];
    const float     *logits;
    mst_batch_seq_t  s = { ids, n, at, table, MST_LOGITS_LAST, at + n, 0 };
    mst_batch_t      b = { &s, 1, n };

    for (i = 0; i < IDS; i++) {
        ids[i] = i;
    }

    for (i = 0; i < 16; i++) {
        table[i] = i;
    }

    return mst_forward(m, &b, &logits, err);
}


static int
step(mst_model_t *m, uint32_t n, mst_err_t *err)
{
    return step_at(m, 0, n, err);
}


static int
prepare(void **state)
{
    (void) state;
    *fake = fresh;

    return 0;
}


static void
test_start(void **state)
{
    mst_err_t           err;
    mst_model_t        *m;
    mst_model_conf_t    c;
    const mst_tensor_t *t;
    mst_gguf_t         *g;

    (void) state;

    /* what lies in the file as bf16 arrives as it is, in pieces */

    g = mst_gguf_open_memory(file.data, file.len, "tiny", &err);
    assert_non_null(g);
    t = mst_gguf_tensor(g, "token_embd.weight");
    assert_non_null(t);
    fake->find = t->data;
    fake->find_size = t->size;

    c = conf();
    m = start(&c, &err);
    assert_string_equal(err.text, "");
    assert_non_null(m);
    assert_true(fake->found > 0);
    fake->find = NULL;

    assert_non_null(strstr(said, "cuda:0: loaded "));
    assert_non_null(strstr(said, "MiB of weights"));
    assert_non_null(strstr(said, "GEMMs chosen in"));
    assert_true(fake->live > 50);

    assert_int_equal(step(m, 1, &err), MST_OK);
    assert_int_equal(step(m, IDS, &err), MST_OK);
    mst_model_destroy(m);
    assert_int_equal(fake->live, 0);
    assert_int_equal(fake->used, 0);
    mst_gguf_close(g);
}


/* each call up to the last one of a start and of two steps fails once, alone
   and with all that follow */

static void
test_calls(void **state)
{
    int                sticky;
    uint64_t           i, n;
    mst_err_t          err;
    mst_model_t       *m;
    mst_model_conf_t   c;

    (void) state;

    c = conf();
    m = start(&c, &err);
    assert_non_null(m);
    assert_int_equal(step(m, 1, &err), MST_OK);
    assert_int_equal(step(m, IDS, &err), MST_OK);
    mst_model_destroy(m);
    n = fake->calls;
    assert_true(n > 500);

    for (sticky = 0; sticky < 2; sticky++) {
        for (i = 1; i <= n; i += i < 60 ? 1 : n / 60 + sticky) {
            *fake = fresh;
            fake->fail_at = i;
            fake->sticky = sticky;
            fake->rc = ILLEGAL;
            m = start(&c, &err);

            if (m) {
                (void) (step(m, 1, &err) == MST_OK
                        && step(m, IDS, &err) == MST_OK);
                mst_model_destroy(m);
            }

            /* one that is measured only may fail without harm */

            if (err.text[0] || sticky) {
                clean(&err);
            }

            assert_int_equal(fake->live, 0);
        }
    }
}


/* a step that fails ends it: the next one is refused */

static void
test_step(void **state)
{
    mst_err_t          err;
    mst_model_t       *m;
    mst_model_conf_t   c;

    (void) state;

    c = conf();
    m = start(&c, &err);
    assert_non_null(m);
    fake->fail_at = fake->calls + 3;
    fake->rc = ILLEGAL;
    assert_int_equal(step(m, IDS, &err), MST_ERROR);
    assert_string_equal(err.text, "cuda:0: a step: an illegal memory access "
                                  "was encountered");
    memset(&err, 0, sizeof(err));
    assert_int_equal(step(m, IDS, &err), MST_ERROR);
    assert_string_equal(err.text, "cuda:0 failed before");
    mst_model_destroy(m);
    clean(&err);
}


/* products of the library in a step */

static uint64_t
products(mst_model_t *m, uint32_t at, uint32_t n)
{
    mst_err_t  err;

    memset(&err, 0, sizeof(err));
    fake->products = 0;
    assert_int_equal(step_at(m, at, n, &err), MST_OK);

    return fake->products;
}


/* of weights in e4m3 the rows of a prompt, how few they are, have products
   with a scale for each row; what decodes has the decode GEMMs, and a graph
   that is there already, and so has bf16 for both */

static void
test_scales(void **state)
{
    mst_err_t          err;
    mst_model_t       *m;
    mst_model_conf_t   c;

    (void) state;

    c = conf();
    c.weight_layouts = 2;
    c.dtype = MST_DTYPE_FP8;
    m = start(&c, &err);
    assert_non_null(m);
    assert_int_equal(products(m, 0, 1), 4 * tiny.layers);
    assert_int_equal(products(m, 0, 9), 4 * tiny.layers);
    assert_int_equal(products(m, 9, 9), 4 * tiny.layers);
    assert_int_equal(products(m, 18, 1), 0);
    mst_model_destroy(m);
    assert_int_equal(fake->live, 0);

    c.dtype = MST_DTYPE_BF16;
    m = start(&c, &err);
    assert_non_null(m);
    assert_int_equal(products(m, 0, 1), 0);
    assert_int_equal(products(m, 0, 9), 0);
    assert_int_equal(products(m, 9, 1), 0);
    assert_true(products(m, 0, IDS) >= 4 * tiny.layers);
    mst_model_destroy(m);
}


/* devices of any size: a sentence with numbers, or a start that leaves the
   reserve and never takes more than there is */

static void
test_memory(void **state)
{
    uint64_t            least, total;
    mst_err_t           err;
    mst_model_t        *m;
    mst_model_conf_t    c;
    unsigned long long  asked, left, of, taken;

    (void) state;

    c = conf();
    least = 0;

    for (total = 0; total < 1200 * MIB; total += 19 * MIB) {
        *fake = fresh;
        fake->total = total;
        m = start(&c, &err);

        if (m) {
            least = least ? least : total;
            assert_true(fake->used + MST_CUDA_RESERVE <= total);
            mst_model_destroy(m);
            assert_int_equal(fake->live, 0);
            continue;
        }

        assert_int_equal(least, 0);            /* not again with more */
        clean(&err);

        if (sscanf(err.text, "cuda:0 has no memory for the KV cache: %llu MiB "
                   "are asked for, a block of 64 tokens has %*u KiB, %llu of "
                   "%llu MiB are left beside %llu MiB of weights and buffers",
                   &asked, &left, &of, &taken) == 4)
        {
            assert_int_equal(asked, 0);
            assert_in_range(left + taken, of - 1, of);

        } else {
            assert_non_null(strstr(err.text, "cuda:0 has no memory for "));
            assert_non_null(strstr(err.text, " MiB: "));
            assert_non_null(strstr(err.text, " MiB are taken, "));
            assert_non_null(strstr(err.text, " MiB free"));
        }
    }

    assert_in_range(least, MST_CUDA_RESERVE, 1100 * MIB);

    /* a pool that is asked for is had as it is or not at all */

    *fake = fresh;
    fake->total = 2000 * MIB;
    c.kv_size = 3000 * MIB;
    assert_null(start(&c, &err));
    assert_non_null(strstr(err.text, "cuda:0 has no memory for the KV cache: "
                                     "3000 MiB are asked for"));
    clean(&err);

    c.kv_size = 100 * MIB;
    m = start(&c, &err);
    assert_non_null(m);
    assert_int_equal(mst_model_info(m)->n_blocks,
                     100 * MIB / mst_model_info(m)->block_size);
    mst_model_destroy(m);
}


/* without threads the caller carries alone; with little pinned memory few do,
   without any it is a sentence */

static void
test_carriers(void **state)
{
    int64_t            n;
    mst_err_t          err;
    mst_model_t       *m;
    mst_model_conf_t   c;

    (void) state;

    c = conf();

    for (n = 0; n < 4; n++) {
        *fake = fresh;
        fake->threads = n;
        m = start(&c, &err);
        assert_non_null(m);
        assert_int_equal(step(m, IDS, &err), MST_OK);
        mst_model_destroy(m);
        assert_int_equal(fake->live, 0);
    }

    for (n = 0, m = NULL; m == NULL; n++) {
        *fake = fresh;
        fake->pinned = n;
        m = start(&c, &err);

        if (m == NULL) {
            assert_string_equal(err.text,
                                "cuda:0: pinned memory: out of memory");
            clean(&err);
            assert_true(n < 40);
        }
    }

    assert_true(n > 1);
    mst_model_destroy(m);
}


/* GEMMs chosen, and of them as before */

static void
tuned(const mst_model_conf_t *c, unsigned *chosen, unsigned *before)
{
    const char   *p;
    mst_err_t     err;
    mst_model_t  *m;

    fake->products = 0;
    m = start(c, &err);
    assert_string_equal(err.text, "");
    assert_non_null(m);
    mst_model_destroy(m);
    assert_int_equal(fake->live, 0);

    p = strstr(said, " GEMMs chosen");
    assert_non_null(p);

    while (p > said && p[-1] != ' ') {
        p--;
    }

    assert_int_equal(sscanf(p, "%u GEMMs chosen in %*u ms, %u as before",
                            chosen, before), 2);
}


/* choices of a file, which lies or not */

static void
forge(const char *path, uint32_t choice)
{
    FILE                *f;
    uint32_t             i, n;
    mst_tuned_t          t;
    mst_tuned_entry_t   *e;

    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fseek(f, 12, SEEK_SET), 0);
    assert_int_equal(fread(&n, sizeof(n), 1, f), 1);
    fclose(f);

    memset(&t, 0, sizeof(t));
    t.log = &own_log;
    (void) snprintf(t.path, sizeof(t.path), "%s", path);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fseek(f, 16, SEEK_SET), 0);
    assert_int_equal(fread(&t.key, sizeof(t.key), 1, f), 1);
    assert_int_equal(fseek(f, 32, SEEK_SET), 0);
    e = calloc(n, sizeof(*e));
    assert_non_null(e);
    assert_int_equal(fread(e, sizeof(*e), n, f), n);
    fclose(f);

    t.entries = e;
    t.n = n;
    t.added = 1;

    for (i = 0; i < n; i++) {
        e[i].choice = choice;
    }

    mst_tuned_save(&t);
    assert_int_equal(t.added, 0);
    free(e);
}


static void
test_tuned(void **state)
{
    int               i;
    char              path[512];
    uint64_t          measured;
    unsigned          before, chosen, n;
    mst_model_conf_t  c;

    (void) state;

    c = conf();
    c.weight_layouts = 1;
    c.tuned = dir;
    fake->offers = 5;

    for (i = 0; i < FAKE_OFFERS; i++) {
        fake->ms[i] = 5;
    }

    fake->ms[1] = -1;                          /* does not run */
    fake->ms[3] = 2;

    /* the first start measures, and writes one file */

    tuned(&c, &n, &before);
    assert_true(n >= 5);
    assert_int_equal(before, 0);
    measured = fake->products;
    assert_int_equal(entries(dir, path, sizeof(path)), 1);

    /* the next ones do not */

    tuned(&c, &chosen, &before);
    assert_int_equal(chosen, n);
    assert_int_equal(before, n);
    assert_true(fake->products * 4 < measured);

    /* what they found is the fastest: with that one out of the way all is
       measured, and kept */

    fake->ms[3] = -1;
    tuned(&c, &chosen, &before);
    assert_int_equal(before, 0);
    tuned(&c, &chosen, &before);
    assert_int_equal(before, n);

    /* numbers beyond the offers, and of one that does not run */

    forge(path, 5);
    tuned(&c, &chosen, &before);
    assert_int_equal(before, 0);
    forge(path, 0x7fffffff);
    tuned(&c, &chosen, &before);
    assert_int_equal(before, 0);
    forge(path, 1);
    tuned(&c, &chosen, &before);
    assert_int_equal(before, 0);
    forge(path, 0);
    tuned(&c, &chosen, &before);
    assert_int_equal(before, n);

    /* no number at all: damaged, and replaced */

    forge(path, 0x80000000);
    tuned(&c, &chosen, &before);
    assert_int_equal(before, 0);
    assert_non_null(strstr(said, "\": it is damaged"));
    tuned(&c, &chosen, &before);
    assert_int_equal(before, n);

    /* without the directory it is measured, and one line says so */

    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    tuned(&c, &chosen, &before);
    assert_int_equal(before, 0);
    assert_non_null(strstr(said, "what was measured is not kept: writing"));
    assert_null(strstr(said, "is not read"));

    /* batch_invariant does without the library's products */

    c.batch_invariant = 1;
    c.weight_layouts = 0;
    fake->products = 0;
    mst_model_destroy(start(&c, &(mst_err_t) { "" }));
    assert_int_equal(fake->products, 0);
    assert_null(strstr(said, "GEMMs chosen"));
}


static int
setup(void **state)
{
    ssize_t          n;
    fake_cuda_pt     of;
    mst_tiny_file_t  f;

    (void) state;

    /* beside this program */

    n = readlink("/proc/self/exe", library, sizeof(library) - 32);

    if (n <= 0) {
        return -1;
    }

    library[n] = '\0';
    strcpy(strrchr(library, '/'), "/libmst_fake.so");

    if (access(library, R_OK) == -1) {
        return 0;
    }

    *(void **) &of = dlsym(dlopen(library, RTLD_NOW|RTLD_LOCAL), FAKE_SYMBOL);

    if (of == NULL) {
        return -1;
    }

    fake = of();
    fresh = *fake;
    (void) snprintf(dir, sizeof(dir), "/tmp/mst_cuda_start_test.XXXXXX");
    mst_tiny_write(&tiny, 7, &f, &file);
    mst_buf_fini(&f.data);

    return mkdtemp(dir) ? 0 : -1;
}


static int
teardown(void **state)
{
    (void) state;
    mst_buf_fini(&file);

    return 0;
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test_setup(test_start, prepare),
        cmocka_unit_test_setup(test_calls, prepare),
        cmocka_unit_test_setup(test_step, prepare),
        cmocka_unit_test_setup(test_scales, prepare),
        cmocka_unit_test_setup(test_memory, prepare),
        cmocka_unit_test_setup(test_carriers, prepare),
        cmocka_unit_test_setup(test_tuned, prepare)
    };

    if (setup(NULL) != 0) {
        return 1;
    }

    if (fake == NULL) {
        (void) printf("1..0 # SKIP no %s: make units, which needs the"
                      " headers of a CUDA toolkit\n", library);
        return 0;
    }

    return cmocka_run_group_tests_name("mst_cuda_start", tests, NULL,
                                       teardown);
}

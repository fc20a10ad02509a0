
/*
 * tuning_cache: a second start finds what the first one measured, computes the
 * same bits with it and writes nothing; a file that is damaged is measured
 * anew and replaced; the log has the bytes that were loaded.
 *
 *     mst_cuda_tuned_test [libmst_cuda.so]
 */

#include <sys/stat.h>
#include <unistd.h>

#include "cuda_rig.h"
#include "entries.h"

#define IDS  150


static char                dir[64], path[512], lines[8192];
static unsigned            chosen, before;
static unsigned long long  loaded;


static void
handler(void *data, mst_log_level_t level, const char *text)
{
    const char  *p;

    (void) data;
    (void) level;

    strncat(lines, text, sizeof(lines) - strlen(lines) - 2);
    strcat(lines, "\n");
    p = strchr(text, ' ');

    if (p) {
        (void) sscanf(p, " %u GEMMs chosen in %*u ms, %u as", &chosen,
                      &before);
        (void) sscanf(p, " loaded %llu bytes", &loaded);
    }
}


/* logits of a start */

static float *
start(void)
{
    float             *got;
    rig_t              cuda;
    uint32_t           ids[IDS];
    mst_log_t          own = { handler, NULL, MST_LOG_DEBUG };
    mst_model_conf_t   conf;

    lines[0] = '\0';
    chosen = before = 0;
    loaded = 0;

    rig_conf(&conf, RIG_CUDA);
    conf.weight_layouts = 1;
    conf.tuned = dir;
    conf.log = &own;
    rig_tiny_conf(&cuda, &rig_shapes[0], 4711, &conf);

    got = malloc((size_t) IDS * cuda.vocab * sizeof(float));
    rig_random_ids(ids, IDS, cuda.vocab, 3);
    rig_prefill(&cuda, 0, ids, 0, IDS, 64, got);
    rig_close(&cuda);

    return got;
}


static void
same(float *a, float *b)
{
    assert_memory_equal(a, b, (size_t) IDS * rig_shapes[0].tiny.vocab
                              * sizeof(float));
    free(b);
}


/* the one file of the directory */

static void
find(struct stat *st)
{
    assert_int_equal(entries(dir, path, sizeof(path)), 1);
    assert_int_equal(stat(path, st), 0);
    assert_int_equal(st->st_mode & 0777, 0600);
}


static void
test_again(void **state)
{
    float        *first;
    struct stat   st, then;

    (void) state;

    (void) snprintf(dir, sizeof(dir), "/tmp/mst_cuda_tuned_test.XXXXXX");
    assert_non_null(mkdtemp(dir));

    first = start();
    print_message("%s", lines);
    assert_true(chosen > 20);
    assert_int_equal(before, 0);
    assert_true(loaded > 100000);
    find(&st);

    same(first, start());
    assert_int_equal(before, chosen);
    find(&then);
    assert_int_equal(st.st_ino, then.st_ino);

    assert_int_equal(truncate(path, st.st_size - 1), 0);
    free(start());
    assert_int_equal(before, 0);
    assert_non_null(strstr(lines, "is not read"));
    find(&then);
    assert_int_equal(st.st_size, then.st_size);

    free(start());
    assert_int_equal(before, chosen);
    free(first);
}


/* nowhere to write: one line, and a model that computes */

static void
test_nowhere(void **state)
{
    (void) state;

    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    free(start());
    assert_true(chosen > 20);
    assert_non_null(strstr(lines, "is not kept"));
}


int
main(int argc, char **argv)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_nowhere)
    };

    return rig_main(argc, argv, tests);
}

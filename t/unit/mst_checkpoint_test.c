
/*
 * The small checkpoints of t/data/golden/tiny: logits of a float64 reference
 * by transformers, and its greedy answers.  The reference had cast its whole
 * model to the type of the weights, frequencies included, hence rope_cast.
 *
 * Then a checkpoint in Mistral's naming, made of one of them, and damage.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/mst_safetensors.h"
#include "model/mst_check.h"
#include "model/mst_forward.h"

#define TINY    "t/data/golden/tiny/"
#define TOKENS  128
#define VOCAB   320


typedef struct {
    mst_model_t  *m;
    uint32_t      ids[TOKENS];
    uint32_t      n;               /* of the prompt */
    uint32_t      blocks[TOKENS];
} run_t;


/* percents only grow, to 100; several matrices are several */

static struct {
    uint32_t  last;
    uint32_t  n;                   /* different ones */
} loaded;


static void
on_loaded(void *data, uint32_t percent)
{
    assert_ptr_equal(data, &loaded);
    assert_in_range(percent, loaded.last, 100);
    loaded.n += percent > loaded.last;
    loaded.last = percent;
}


static mst_model_t *
load(const char *dir, int cast, uint32_t threads)
{
    mst_err_t          err = { "" };
    mst_model_t       *m;
    mst_checkpoint_t  *cp;
    mst_check_files_t  files;
    mst_model_conf_t   conf = {
        .threads = threads, .max_rows = TOKENS, .max_seqs = 2,
        .kv_size = 1 << 22, .rope_cast = cast, .loaded = on_loaded,
        .progress_data = &loaded
    };

    memset(&loaded, 0, sizeof(loaded));

    if (mst_check_open(dir, &files, &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    cp = mst_checkpoint_open(files.fd, files.n, dir, &err);
    mst_check_close(&files);

    m = cp ? mst_model_create(cp, &conf, &err) : NULL;

    if (m == NULL) {
        fail_msg("%s", err.text);
    }

    assert_int_equal(mst_model_info(m)->n_vocab, VOCAB);
    assert_int_equal(loaded.last, 100);
    assert_true(loaded.n > 8);

    return m;
}


/* logits of tokens from .. from + n - 1, all rows */

static const float *
step(run_t *r, uint32_t from, uint32_t n)
{
    mst_err_t        err = { "" };
    const float     *logits;
    mst_batch_seq_t  s = {
        r->ids + from, n, from, r->blocks, MST_LOGITS_ALL, r->n, 0
    };
    mst_batch_t      b = { &s, 1, n };

    if (mst_forward(r->m, &b, &logits, &err) != MST_OK) {
        fail_msg("%s", err.text);
    }

    return logits;
}


static void
compare(const char *name, const float *row, const json_t *want)
{
    double  d, worst;
    size_t  i;

    worst = 0;

    for (i = 0; i < VOCAB; i++) {
        d = fabs((double) row[i]
                 - json_number_value(json_array_get(want, i)));
        worst = d > worst ? d : worst;
    }

    print_message("%s: %.1e\n", name, worst);
    assert_true(worst <= 2e-4);
}


static uint32_t
best(const float *row)
{
    uint32_t  i, b;

    for (b = 0, i = 1; i < VOCAB; i++) {
        b = row[i] > row[b] ? i : b;
    }

    return b;
}


/* bits of chunks of "size" against those of one step */

static void
chunks(run_t *r, const float *all, uint32_t size)
{
    uint32_t      at, n;
    const float  *row;

    for (at = 0; at < r->n; at += n) {
        n = r->n - at < size ? r->n - at : size;
        row = step(r, at, n);
        assert_memory_equal(row, all + (size_t) at * VOCAB,
                            n * VOCAB * sizeof(float));
    }
}


static void
check(const char *name)
{
    int           mid;
    char          path[256];
    float        *all;
    run_t         r;
    size_t        i;
    json_t       *want, *ids, *greedy;
    json_error_t  e;
    const float  *row;

    (void) snprintf(path, sizeof(path), TINY "%s/expected.json", name);
    want = json_load_file(path, 0, &e);
    assert_non_null(want);

    (void) snprintf(path, sizeof(path), TINY "%s", name);
    r.m = load(path, 1, 2);

    ids = json_object_get(want, "prompt_ids");
    greedy = json_object_get(want, "greedy_ids");
    r.n = (uint32_t) json_array_size(ids);
    assert_true(r.n + json_array_size(greedy) <= TOKENS);

    for (i = 0; i < r.n; i++) {
        r.ids[i] = (uint32_t) json_integer_value(json_array_get(ids, i));
    }

    for (i = 0; i < TOKENS; i++) {
        r.blocks[i] = (uint32_t) (7 + 3 * i)
                      % mst_model_info(r.m)->n_blocks;
    }

    all = malloc((size_t) r.n * VOCAB * sizeof(float));
    memcpy(all, step(&r, 0, r.n), (size_t) r.n * VOCAB * sizeof(float));

    mid = (int) json_integer_value(json_object_get(want, "mid_position"));
    compare(name, all + (size_t) (r.n - 1) * VOCAB,
            json_object_get(want, "last_logits"));
    compare(name, all + (size_t) mid * VOCAB,
            json_object_get(want, "mid_logits"));

    chunks(&r, all, 1);
    chunks(&r, all, 13);

    row = all + (size_t) (r.n - 1) * VOCAB;

    for (i = 0; i < json_array_size(greedy); i++) {
        r.ids[r.n + i] = best(row);
        assert_int_equal(r.ids[r.n + i],
                         json_integer_value(json_array_get(greedy, i)));
        row = step(&r, r.n + (uint32_t) i, 1);
    }

    free(all);
    mst_model_destroy(r.m);
    json_decref(want);
}


static void
test_golden(void **state)
{
    size_t  i;

    static const char *const  names[] = {
        "llama-f16", "llama-mha", "llama-tied-f32", "ministral-layers",
        "ministral3-temp", "mistral-plain", "mistral-window", "mixtral-4x",
        "rope-linear", "rope-llama3", "rope-yarn"
    };

    (void) state;

    for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
        check(names[i]);
    }
}


/* a block that every window has left may have gone: its number is not even
   looked at */

static void
test_window(void **state)
{
    run_t      r;
    float      want[VOCAB];
    uint32_t   i;

    (void) state;

    r.m = load(TINY "mistral-window", 0, 1);
    assert_int_equal(mst_model_info(r.m)->window, 16);
    r.n = 100;

    for (i = 0; i < TOKENS; i++) {
        r.ids[i] = i * 7 % VOCAB;
        r.blocks[i] = i;
    }

    (void) step(&r, 0, 100);
    memcpy(want, step(&r, 100, 1), sizeof(want));

    (void) step(&r, 0, 100);
    r.blocks[0] = UINT32_MAX;
    r.blocks[1] = UINT32_MAX;
    assert_memory_equal(want, step(&r, 100, 1), sizeof(want));
    mst_model_destroy(r.m);

    r.m = load(TINY "ministral-layers", 0, 1);
    assert_int_equal(mst_model_info(r.m)->window, 0);
    mst_model_destroy(r.m);
}


/* Mistral's names and order of rows for mistral-plain's tensors */

typedef struct {
    char   name[128];
    char   path[64];
    FILE  *header;
    FILE  *data;
    long   at;
} made_t;


static void
put(made_t *f, const char *name, const mst_tensor_t *t, int pairs)
{
    uint64_t  from, i, pos, rows, size;

    rows = t->dims[1] > 1 ? t->dims[1] : 1;
    size = t->size / rows;

    (void) fprintf(f->header, "%c\"%s\":{\"dtype\":\"BF16\",\"shape\":[",
                   f->at ? ',' : '{', name);

    if (rows > 1) {
        (void) fprintf(f->header, "%d,", (int) rows);
    }

    (void) fprintf(f->header, "%d],\"data_offsets\":[%ld,%ld]}",
                   (int) t->dims[0], f->at, f->at + (long) t->size);
    f->at += (long) t->size;

    for (i = 0; i < rows; i++) {
        pos = i % 16;
        from = pairs ? i - pos + pos % 2 * 8 + pos / 2 : i;
        (void) fwrite((const char *) t->data + from * size, 1, size, f->data);
    }
}


static void
make(const char *dir, const mst_checkpoint_t *cp)
{
    char          path[256], *header, *data, name[128];
    FILE         *out;
    made_t        f;
    size_t        n_header, n_data;
    uint32_t      i, k;
    uint64_t      len;

    static const struct {
        const char    *name;
        mst_weight_t   role;
    } layer[] = {
        { "attention_norm", MST_WEIGHT_ATTN_NORM },
        { "attention.wq", MST_WEIGHT_Q }, { "attention.wk", MST_WEIGHT_K },
        { "attention.wv", MST_WEIGHT_V }, { "attention.wo", MST_WEIGHT_OUT },
        { "ffn_norm", MST_WEIGHT_FFN_NORM },
        { "feed_forward.w1", MST_WEIGHT_GATE },
        { "feed_forward.w2", MST_WEIGHT_DOWN },
        { "feed_forward.w3", MST_WEIGHT_UP }
    };

    memset(&f, 0, sizeof(f));
    f.header = open_memstream(&header, &n_header);
    f.data = open_memstream(&data, &n_data);

    put(&f, "tok_embeddings.weight",
        mst_checkpoint_tensor(cp, MST_WEIGHT_EMBD, 0, 0), 0);
    put(&f, "norm.weight", mst_checkpoint_tensor(cp, MST_WEIGHT_NORM, 0, 0),
        0);
    put(&f, "output.weight", mst_checkpoint_tensor(cp, MST_WEIGHT_HEAD, 0, 0),
        0);

    for (i = 0; i < 3; i++) {
        for (k = 0; k < sizeof(layer) / sizeof(*layer); k++) {
            (void) snprintf(name, sizeof(name), "layers.%u.%s.weight", i,
                            layer[k].name);
            put(&f, name, mst_checkpoint_tensor(cp, layer[k].role, i, 0),
                layer[k].role == MST_WEIGHT_Q
                || layer[k].role == MST_WEIGHT_K);
        }
    }

    (void) fprintf(f.header, "}");
    (void) fclose(f.header);
    (void) fclose(f.data);

    (void) snprintf(path, sizeof(path), "%s/consolidated.safetensors", dir);
    out = fopen(path, "we");
    assert_non_null(out);
    len = n_header;
    (void) fwrite(&len, 8, 1, out);
    (void) fwrite(header, 1, n_header, out);
    (void) fwrite(data, 1, n_data, out);
    (void) fclose(out);

    (void) snprintf(path, sizeof(path), "%s/params.json", dir);
    out = fopen(path, "we");
    assert_non_null(out);
    (void) fprintf(out, "{\"dim\":64,\"n_layers\":3,\"head_dim\":16,"
                   "\"hidden_dim\":96,\"n_heads\":4,\"n_kv_heads\":2,"
                   "\"norm_eps\":1e-5,\"vocab_size\":320,"
                   "\"rope_theta\":1000000.0,\"max_seq_len\":128}");
    (void) fclose(out);

    free(header);
    free(data);
}


static mst_checkpoint_t *
open_dir(const char *dir, mst_err_t *err)
{
    mst_checkpoint_t   *cp;
    mst_check_files_t   files;

    err->text[0] = '\0';

    if (mst_check_open(dir, &files, err) != MST_OK) {
        return NULL;
    }

    cp = mst_checkpoint_open(files.fd, files.n, dir, err);
    mst_check_close(&files);

    return cp;
}


static void
test_consolidated(void **state)
{
    char               dir[] = "/tmp/mst_checkpoint_XXXXXX", path[256];
    float              want[VOCAB];
    run_t              a, b;
    uint32_t           i;
    mst_err_t          err;
    mst_checkpoint_t  *cp;

    (void) state;

    assert_non_null(mkdtemp(dir));
    cp = open_dir(TINY "mistral-plain", &err);
    assert_string_equal(err.text, "");
    make(dir, cp);
    mst_checkpoint_close(cp);

    a.m = load(TINY "mistral-plain", 0, 1);
    b.m = load(dir, 0, 1);
    a.n = b.n = 50;

    for (i = 0; i < TOKENS; i++) {
        a.ids[i] = b.ids[i] = i * 11 % VOCAB;
        a.blocks[i] = b.blocks[i] = i;
    }

    memcpy(want, step(&a, 0, 50) + 49 * VOCAB, sizeof(want));
    assert_memory_equal(want, step(&b, 0, 50) + 49 * VOCAB, sizeof(want));

    mst_model_destroy(a.m);
    mst_model_destroy(b.m);

    /* a shard that is cut off, at any of some places */

    (void) snprintf(path, sizeof(path), "%s/consolidated.safetensors", dir);

    for (i = 0; i < 300000; i += 9973) {
        make(dir, cp = open_dir(TINY "mistral-plain", &err));
        mst_checkpoint_close(cp);
        assert_int_equal(truncate(path, i), 0);
        assert_null(open_dir(dir, &err));
        assert_true(strncmp(err.text, dir, strlen(dir)) == 0);
    }

    (void) unlink(path);
    assert_null(open_dir(dir, &err));
    assert_non_null(strstr(err.text, "a directory without config.json"));
    (void) snprintf(path, sizeof(path), "%s/params.json", dir);
    (void) unlink(path);
    (void) rmdir(dir);
}


/* every byte of sharded files reached by open fds in any other order; and
   what is missing is named */

static void
test_missing(void **state)
{
    int                 fd;
    mst_err_t           err = { "" };
    mst_checkpoint_t   *cp;
    mst_check_files_t   f;

    (void) state;

    assert_int_equal(mst_check_open(TINY "mixtral-4x", &f, &err), MST_OK);
    assert_int_equal(f.n, 8);

    fd = f.fd[1];
    f.fd[1] = f.fd[5];
    f.fd[5] = fd;
    cp = mst_checkpoint_open(f.fd, f.n, "m", &err);
    assert_string_equal(err.text, "");
    assert_int_equal(mst_checkpoint_config(cp)->n_experts, 4);
    mst_checkpoint_close(cp);

    assert_null(mst_checkpoint_open(f.fd, f.n - 1, "m", &err));
    assert_non_null(strstr(err.text, "\" is missing"));

    f.fd[7] = f.fd[6];
    err.text[0] = '\0';
    assert_null(mst_checkpoint_open(f.fd, f.n, "m", &err));
    assert_non_null(strstr(err.text, "\" is there twice"));

    /* config.json where a shard should be */

    fd = f.fd[6];
    f.fd[6] = f.fd[0];
    err.text[0] = '\0';
    assert_null(mst_checkpoint_open(f.fd, f.n, "m", &err));
    assert_non_null(strstr(err.text, "(file 6 of 7)"));
    f.fd[6] = f.fd[7] = fd;
    f.n = 7;
    mst_check_close(&f);
    mst_check_close(&f);
}


static void
hear(void *data, const mst_err_t *why)
{
    assert_true(why->text[0] != '\0');

    if (strlen(data) < 4096) {
        (void) strcat(strcat(data, why->text), "\n");
    }
}


/* all that is wrong, where open() says the first of it */

static void
test_examine(void **state)
{
    int                 last;
    char                said[8192];
    mst_err_t           err = { "" };
    mst_config_t        c;
    mst_faults_t        faults;
    mst_check_files_t   f;

    (void) state;

    faults.tell = hear;
    faults.data = said;
    faults.n = 0;
    said[0] = '\0';

    assert_int_equal(mst_check_open_most(TINY "mixtral-4x", &f, &faults,
                                         &err), MST_OK);
    assert_true(f.directory);
    assert_int_equal(mst_checkpoint_examine(f.fd, f.n, "m", &c, &faults),
                     MST_OK);
    assert_string_equal(said, "");
    assert_int_equal(c.n_experts, 4);

    /* of a shard that is not given each tensor is missing */

    assert_int_equal(mst_checkpoint_examine(f.fd, f.n - 1, "m", &c, &faults),
                     MST_OK);
    assert_true(faults.n > 1);
    assert_non_null(strstr(said, "\" is missing\nm: tensor "));

    /* of one that cannot be read none, and the others are read */

    last = f.fd[f.n - 1];
    f.fd[f.n - 1] = f.fd[0];
    faults.n = 0;
    said[0] = '\0';

    assert_int_equal(mst_checkpoint_examine(f.fd, f.n, "m", &c, &faults),
                     MST_OK);
    assert_int_equal(faults.n, 1);
    assert_non_null(strstr(said, "(file 7 of 7)\n"));

    /* no configuration: the shards are read all the same */

    f.fd[f.n - 1] = last;
    faults.n = 0;
    said[0] = '\0';

    assert_int_equal(mst_checkpoint_examine(f.fd + 1, f.n - 1, "m", &c,
                                            &faults), MST_ERROR);
    assert_int_equal(faults.n, 1);
    assert_int_equal(mst_checkpoint_examine(f.fd, 1, "m", &c, &faults),
                     MST_OK);

    mst_check_close(&f);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_consolidated),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_examine)
    };

    return cmocka_run_group_tests_name("mst_checkpoint", tests, NULL, NULL);
}

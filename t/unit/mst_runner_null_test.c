
/*
 * The null model in the real engine: what it says, and when.
 */

#include "mst_engine_host.h"


static void
test_fox(void **state)
{
    host_t        h;
    mst_runner_t  r;

    (void) state;

    host_null(&r, 0, 0, 0, 0);
    host_open(&h, &r, 4, 64, 3);

    host_submit(&h, 1, 5, 100);
    host_submit(&h, 2, 200, 7);

    /* 5 + 59, 63, 63, 15 tokens of the second prompt: its first answer in
       the fourth step */

    assert_int_equal(host_run(&h, 0), 100);

    host_check_fox(&h.answers[1], 100);
    host_check_fox(&h.answers[2], 7);
    assert_int_equal(h.answers[1].finish, MST_FINISH_LENGTH);
    assert_int_equal(h.answers[2].finish, MST_FINISH_LENGTH);
    assert_null(mst_engine_logits(h.e));

    host_close(&h);
}


static void
test_len(void **state)
{
    host_t        h;
    mst_runner_t  r;

    (void) state;

    host_null(&r, 0, 0, 50, 0);
    host_open(&h, &r, 4, 64, 3);

    host_submit(&h, 1, 5, 100);
    host_submit(&h, 2, 5, 49);
    host_run(&h, 0);

    host_check_fox(&h.answers[1], 50);
    assert_int_equal(h.answers[1].finish, MST_FINISH_STOP);
    host_check_fox(&h.answers[2], 49);
    assert_int_equal(h.answers[2].finish, MST_FINISH_LENGTH);

    host_close(&h);
}


static void
test_text(void **state)
{
    char             text[] = "h\xc3\xa9!\0x";
    host_t           h;
    uint32_t         i;
    mst_err_t        err;
    mst_runner_t     r;
    mst_null_conf_t  conf;

    (void) state;

    memset(&conf, 0, sizeof(conf));
    err.text[0] = '\0';
    conf.context = 100;
    conf.text = text;
    conf.text_len = 6;

    assert_int_equal(mst_runner_null(&r, &conf, &err), MST_OK);

    memset(text, 'z', 6);              /* it has a copy */

    host_open(&h, &r, 4, 64, 3);
    host_submit(&h, 1, 5, 90);
    host_run(&h, 0);

    assert_int_equal(h.answers[1].n, 6);
    assert_int_equal(h.answers[1].finish, MST_FINISH_STOP);

    for (i = 0; i < 6; i++) {
        assert_int_equal(h.answers[1].ids[i],
                         (unsigned char) "h\xc3\xa9!\0x"[i]);
    }

    host_close(&h);
}


/* the entry of the turn, or the last one; never more than the limit */

static void
test_script(void **state)
{
    host_t           h;
    uint32_t         i, k, first;
    mst_err_t        err;
    mst_runner_t     r;
    mst_submit_t     s;
    mst_script_t     script;
    mst_null_conf_t  conf;

    static const char      text[] = "[[1000, 7], [99999], [1, 2, 3, 4]]";
    static const uint32_t  ends[] = { 2, 3, 7, 7 };
    static const uint32_t  ids[] = { 1000, 7, 99999, 1, 2, 3, 4 };

    (void) state;

    assert_int_equal(mst_script_parse(&script, text, sizeof(text) - 1,
                                      100000, &err), MST_OK);

    memset(&conf, 0, sizeof(conf));
    conf.context = 100;
    conf.n_vocab = 100000;
    conf.script = &script;

    assert_int_equal(mst_runner_null(&r, &conf, &err), MST_OK);
    assert_int_equal(r.info.n_vocab, 100000);
    mst_script_fini(&script);          /* it has a copy */

    host_open(&h, &r, 8, 64, 8);

    for (i = 0; i < 4; i++) {
        host_submit_init(&s, i + 1, ids, 5, 90);
        s.params.turn = i;
        mst_engine_submit(h.e, &s, h.now);
    }

    host_submit_init(&s, 5, ids, 5, 3);
    s.params.turn = 2;
    mst_engine_submit(h.e, &s, h.now);
    host_run(&h, 0);

    for (i = 0; i < 4; i++) {
        first = i < 3 && i ? ends[i - 1] : i ? ends[1] : 0;

        assert_int_equal(h.answers[i + 1].n, ends[i] - first);
        assert_int_equal(h.answers[i + 1].finish, MST_FINISH_STOP);

        for (k = 0; k < h.answers[i + 1].n; k++) {
            assert_int_equal(h.answers[i + 1].ids[k], ids[first + k]);
        }
    }

    assert_int_equal(h.answers[5].n, 3);
    assert_int_equal(h.answers[5].finish, MST_FINISH_LENGTH);

    host_close(&h);
}


/* the first after the delay, the k-th at the first's time + k / rate */

static void
test_rate(void **state)
{
    int           late;
    host_t        h;
    uint32_t      k;
    uint64_t      want;
    mst_runner_t  r;

    (void) state;

    for (late = 0; late < 2; late++) {
        host_null(&r, 1000, 5 * MST_MS, 0, 0);
        host_open(&h, &r, 4, 64, 3);

        host_submit(&h, 1, 5, 40);

        assert_int_equal(host_step(&h), MST_OK);
        assert_int_equal(h.answers[1].admits, 1);
        assert_int_equal(h.answers[1].n, 0);
        assert_int_equal(host_step(&h), MST_AGAIN);
        assert_int_equal(h.wake, 1000 + 5 * MST_MS);

        h.now = h.wake + 20;                   /* the host is a bit late */

        for (k = 0; k < 10; k++) {
            assert_int_equal(host_step(&h), MST_OK);
            assert_int_equal(host_step(&h), MST_AGAIN);
            want = 1020 + 5 * MST_MS + (k + 1) * MST_MS;
            assert_int_equal(h.wake, want);
            h.now = h.wake + (uint64_t) late * 300000;
        }

        /* much too late: what is due comes at once, and then the pace is the
           old one */

        h.now += 4 * MST_MS;
        host_run(&h, 0);
        assert_int_equal(h.answers[1].n, 15);
        want = 1020 + 5 * MST_MS + 15 * MST_MS;
        assert_int_equal(h.wake, want);

        host_run(&h, 1);
        host_check_fox(&h.answers[1], 40);
        assert_true(h.answers[1].usage.decode_ns == 39 * MST_MS);

        host_close(&h);
    }
}


/* a slow clock of one does not hold another */

static void
test_rate_many(void **state)
{
    host_t        h;
    uint32_t      i;
    mst_runner_t  r;

    (void) state;

    host_null(&r, 100, 0, 0, 0);
    host_open(&h, &r, 64, 1000, 33);

    for (i = 0; i < 33; i++) {
        host_submit(&h, i, 5 + i, 20);
        host_run(&h, 0);
        h.now += 777777;
    }

    host_run(&h, 1);

    for (i = 0; i < 33; i++) {
        host_check_fox(&h.answers[i], 20);
        assert_true(h.answers[i].times[0] == 1000 + i * 777777ull);
        assert_true(h.answers[i].times[19] - h.answers[i].times[0]
                    == 190 * MST_MS);
    }

    host_close(&h);
}


static void
test_conf(void **state)
{
    size_t           i;
    mst_err_t        err;
    mst_runner_t     r;
    mst_null_conf_t  conf;
    static const struct {
        double       rate;
        const char  *text;
        size_t       len;
        uint32_t     context;
        const char  *err;
    } bad[] = {
        { -1, NULL, 0, 100,
          "null model: rate -1 is outside 0 .. 1e9" },
        { 0.0 / 0.0, NULL, 0, 100, "null model: rate " },
        { 1e10, NULL, 0, 100,
          "null model: rate 1e+10 is outside 0 .. 1e9" },
        { 0, "", 0, 100,
          "null model: a text of 0 bytes, expected 1 .. 2147483647" },
        { 0, NULL, 0, 1,
          "null model: context 1 is outside 2 .. 2147483647" }
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memset(&conf, 0, sizeof(conf));
        err.text[0] = '\0';
        conf.rate = bad[i].rate;
        conf.text = bad[i].text;
        conf.text_len = bad[i].len;
        conf.context = bad[i].context;

        assert_int_equal(mst_runner_null(&r, &conf, &err), MST_ERROR);
        assert_memory_equal(err.text, bad[i].err, strlen(bad[i].err));
    }

    memset(&conf, 0, sizeof(conf));
    conf.context = 1000;
    err.text[0] = '\0';

    assert_int_equal(mst_runner_null(&r, &conf, &err), MST_OK);
    assert_int_equal(r.info.n_blocks, 63 * 64);
    assert_int_equal(r.info.n_vocab, 256);
    r.destroy(r.data);

    mst_mem_fail_after(1);
    assert_int_equal(mst_runner_null(&r, &conf, &err), MST_ERROR);
    mst_mem_fail_after(0);
}


static uint64_t
cpu_ns(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);

    return (uint64_t) ts.tv_sec * MST_S + (uint64_t) ts.tv_nsec;
}


/* 16,384 sequences: a step of all is milliseconds, a step of none nothing */

static void
test_many(void **state)
{
    host_t        h;
    uint32_t      i, k, n;
    uint64_t      t, best;
    mst_runner_t  r;

    (void) state;

    n = 16384;

    host_null(&r, 10, 0, 0, 4 * n);
    host_open(&h, &r, n, 4 * n, n);

    for (i = 0; i < n; i++) {
        host_submit(&h, i, 4, 50);
    }

    host_run(&h, 0);
    best = UINT64_MAX;

    for (k = 0; k < 8; k++) {
        h.now = h.wake;
        t = cpu_ns();
        assert_int_equal(host_step(&h), MST_OK);
        t = cpu_ns() - t;
        best = t < best ? t : best;
        assert_int_equal(host_step(&h), MST_AGAIN);

        for (i = 0; i < n; i++) {
            assert_int_equal(h.answers[i].n, k + 2);
        }
    }

    print_message("a step of 16384: %.2f ms\n", (double) best / 1e6);
    assert_true(best < 100 * MST_MS);          /* also under a sanitizer */

    t = cpu_ns();

    for (k = 0; k < 10000; k++) {
        assert_int_equal(host_step(&h), MST_AGAIN);
    }

    t = cpu_ns() - t;
    print_message("a step of none: %.0f ns\n", (double) t / 10000);
    assert_true(t < 10000 * 20000ull);

    for (i = 0; i < n; i += 2) {
        mst_engine_cancel(h.e, i, h.now);
    }

    host_run(&h, 1);

    for (i = 0; i < n; i++) {
        host_check_fox(&h.answers[i], i % 2 ? 50 : 9);
    }

    host_close(&h);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_fox),
        cmocka_unit_test(test_len),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_rate_many),
        cmocka_unit_test(test_conf),
        cmocka_unit_test(test_many)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

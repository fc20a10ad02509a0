
/*
 * Which file of a directory is taken, and what it says about chats.
 */

#include "mst_golden_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/mst_tokenizer_dir.h"


static char  dir[64];


static void
write_file(const char *name, const char *text, size_t len)
{
    char   path[256];
    FILE  *f;

    (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    (void) fclose(f);
}


static void
copy(const char *from, const char *to)
{
    char   *text, path[256];
    size_t  len;

    (void) snprintf(path, sizeof(path), TOKENIZERS "%s", from);
    text = golden_read(path, &len);
    write_file(to, text, len);
    free(text);
}


static void
drop(const char *name)
{
    char  path[256];

    (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
}


static int
open_dir(mst_tokenizer_dir_t *d, const char *arch, mst_err_t *err)
{
    int  fd, rc;

    err->text[0] = '\0';
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd != -1);
    rc = mst_tokenizer_dir_open(d, fd, "D", arch, err);
    (void) close(fd);

    return rc;
}


static void
test_choice(void **state)
{
    mst_err_t            err;
    mst_tokenizer_dir_t  d;

    static const char  hf[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{"
        "\"id\":0,\"content\":\"<b>\"},{\"id\":1,\"content\":\"<e>\"}],"
        "\"model\":{\"vocab\":{\"a\":2},\"merges\":[]}}";
    static const char  config[] =
        "{\"bos_token\":\"<b>\",\"eos_token\":{\"content\":\"<e>\"},"
        "\"chat_template\":[{\"name\":\"x\",\"template\":\"X\"},"
        "{\"name\":\"default\",\"template\":\"T\"}]}";

    (void) state;

    (void) strcpy(dir, "/tmp/mst_tokenizer_dir_XXXXXX");
    assert_non_null(mkdtemp(dir));

    assert_int_equal(open_dir(&d, "llama", &err), MST_DECLINED);
    assert_string_equal(err.text, "D: neither tekken.json, tokenizer.model "
                        "nor tokenizer.json is there");
    assert_null(d.tokenizer);

    write_file("tokenizer.json", hf, sizeof(hf) - 1);
    write_file("tokenizer_config.json", config, sizeof(config) - 1);
    assert_int_equal(open_dir(&d, "llama", &err), MST_OK);
    assert_string_equal(d.file, "tokenizer.json");
    assert_string_equal(d.chat, "T");
    assert_int_equal(d.version, 0);
    assert_int_equal(mst_tokenizer_info(d.tokenizer)->bos_id, 0);
    assert_int_equal(mst_tokenizer_info(d.tokenizer)->eos_id, 1);
    mst_tokenizer_dir_close(&d);
    mst_tokenizer_dir_close(&d);

    write_file("chat_template.jinja", "J", 1);
    copy("tokenizer.model.v1", "tokenizer.model");
    assert_int_equal(open_dir(&d, "llama", &err), MST_OK);
    assert_string_equal(d.file, "SentencePiece");
    assert_string_equal(d.chat, "J");
    assert_int_equal(d.version, 0);
    mst_tokenizer_dir_close(&d);
    assert_int_equal(open_dir(&d, "mistral", &err), MST_OK);
    assert_int_equal(d.version, 1);
    mst_tokenizer_dir_close(&d);

    copy("mistral_instruct_tokenizer_240323.model.v3", "tokenizer.model");
    assert_int_equal(open_dir(&d, "mistral", &err), MST_OK);
    assert_int_equal(d.version, 3);
    mst_tokenizer_dir_close(&d);

    copy("mistral_instruct_tokenizer_241114.model.v7", "tokenizer.model.v7m1");
    copy("mistral_instruct_tokenizer_240216.model.v2", "x.model.v2");
    assert_int_equal(open_dir(&d, "mistral", &err), MST_OK);
    assert_int_equal(d.version, 7);
    mst_tokenizer_dir_close(&d);
    drop("tokenizer.model.v7m1");
    assert_int_equal(open_dir(&d, "mistral", &err), MST_OK);
    assert_int_equal(d.version, 2);
    mst_tokenizer_dir_close(&d);

    write_file("tekken.json", "{}", 2);
    assert_int_equal(open_dir(&d, "mistral", &err), MST_ERROR);
    assert_memory_equal(err.text, "D/tekken.json: ", 15);

    write_file("tokenizer_config.json", "[", 1);
    assert_int_equal(open_dir(&d, "mistral", &err), MST_ERROR);
    assert_memory_equal(err.text, "D/tokenizer_config.json: no JSON", 32);

    drop("tekken.json");
    drop("tokenizer_config.json");
    drop("chat_template.jinja");
    drop("tokenizer.json");
    drop("tokenizer.model");
    drop("x.model.v2");
    (void) rmdir(dir);
}


static int
open_file(mst_tokenizer_dir_t *d, const char *file, mst_err_t *err)
{
    int  fd, rc;

    err->text[0] = '\0';
    fd = open(TOKENIZERS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd != -1);
    rc = mst_tokenizer_dir_open_file(d, fd, "D", file, "mistral", err);
    (void) close(fd);

    return rc;
}


static void
test_file(void **state)
{
    size_t               i;
    mst_err_t            err;
    mst_tokenizer_dir_t  d;

    static const struct {
        const char  *file;
        uint32_t     version;
    } good[] = {
        { "mistral_instruct_tokenizer_240216.model.v2", 2 },
        { "mistral_instruct_tokenizer_241114.model.v7m1", 7 },
        { "tokenizer.model.v1", 1 },
        { "tekken_240718.json", 3 }
    };

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {

        if (open_file(&d, good[i].file, &err) != MST_OK) {
            fail_msg("%s: %s", good[i].file, err.text);
        }

        assert_int_equal(d.version, good[i].version);
        assert_non_null(d.tokenizer);
        mst_tokenizer_dir_close(&d);
    }

    assert_int_equal(open_file(&d, "tokenizer.bin", &err), MST_ERROR);
    assert_non_null(strstr(err.text, "is no tokenizer by its name"));
    assert_int_equal(open_file(&d, "no_tekken.json", &err), MST_ERROR);
    assert_string_equal(err.text, "D/no_tekken.json: is not there");
    assert_null(d.tokenizer);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_file)
    };

    return cmocka_run_group_tests_name("mst_tokenizer_dir", tests, NULL,
                                       NULL);
}

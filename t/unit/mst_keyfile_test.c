
/* Lines of a key file, and whose a key is. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "api/mst_keyfile.h"
#include "base/mst_mem.h"


/* of "alpha", "beta" and "" */

#define ALPHA  "{SHA256}8ed3f6ad685b959ead7022518e1af76c"                     \
               "d816f8e8ec7ccdda1ed4018e8f2223f8"
#define BETA   "{SHA256}F44E64E75F3948E9F73F8DFA94721C4C"                     \
               "E8CBB4F265C4790C702B2D41CFBF2753"
#define EMPTY  "{SHA256}e3b0c44298fc1c149afbf4c8996fb924"                     \
               "27ae41e4649b934ca495991b7852b855"


static mst_keyfile_t *
parse(const char *text, mst_err_t *err)
{
    char           *copy;
    size_t          len;
    mst_keyfile_t  *f;

    err->text[0] = '\0';

    /* where a byte too much would be seen */

    len = strlen(text);
    copy = malloc(len ? len : 1);
    memcpy(copy, text, len);
    f = mst_keyfile_parse(copy, len, 42, err);
    free(copy);

    assert_int_equal(f == NULL, err->text[0] != '\0');

    return f;
}


static const mst_key_t *
find(const mst_keyfile_t *f, const char *key)
{
    return mst_keyfile_find(f, mst_str(key, strlen(key)));
}


static void
test_find(void **state)
{
    mst_err_t         err;
    mst_keyfile_t    *f;
    const mst_key_t  *key;

    (void) state;

    f = parse("# who may ask\n"
              "\n"
              "  \r\n"
              "alice:" ALPHA ":gold:smollm2,gpt-4o-mini:1000k\r\n"
              "bob-2@example.com:" BETA "  ", &err);
    assert_non_null(f);
    assert_int_equal(mst_keyfile_count(f), 2);

    key = find(f, "alpha");
    assert_non_null(key);
    assert_true(mst_str_eq(key->name, "alice"));
    assert_true(mst_str_eq(key->tier, "gold"));
    assert_true(mst_str_eq(key->models, "smollm2,gpt-4o-mini"));
    assert_true(mst_str_eq(key->quota, "1000k"));

    key = find(f, "beta");
    assert_non_null(key);
    assert_true(mst_str_eq(key->name, "bob-2@example.com"));
    assert_int_equal(key->tier.len + key->models.len + key->quota.len, 0);

    assert_null(find(f, "Alpha"));
    assert_null(find(f, "alph"));
    assert_null(find(f, "alphaa"));
    assert_null(find(f, ""));
    assert_null(mst_keyfile_find(f, mst_str("alpha\0", 6)));

    /* the digest is no key */

    assert_null(find(f, ALPHA));
    assert_null(find(f, ALPHA + 8));

    mst_keyfile_destroy(f);
}


static void
test_fields(void **state)
{
    mst_err_t         err;
    mst_keyfile_t    *f;
    const mst_key_t  *key;

    (void) state;

    /* two keys of one name, fields that are empty */

    f = parse("a:" ALPHA ":::7\na:" BETA "::m\n", &err);
    assert_non_null(f);

    key = find(f, "alpha");
    assert_int_equal(key->tier.len + key->models.len, 0);
    assert_true(mst_str_eq(key->quota, "7"));

    key = find(f, "beta");
    assert_true(mst_str_eq(key->name, "a"));
    assert_true(mst_str_eq(key->models, "m"));
    mst_keyfile_destroy(f);

    /* nobody has a key */

    f = parse("", &err);
    assert_non_null(f);
    assert_int_equal(mst_keyfile_count(f), 0);
    assert_null(find(f, ""));
    assert_null(find(f, "alpha"));
    mst_keyfile_destroy(f);
}


typedef struct {
    const char  *text;
    const char  *part;
} mst_case_t;


static void
test_errors(void **state)
{
    char        long_line[MST_KEYFILE_MAX_LINE + 100];
    size_t      i;
    mst_err_t   err;

    static const mst_case_t  cases[] = {
        { "alice\n", "line 1: the second field" },
        { "\n#\nalice:\n", "line 3: the second field" },
        { ":" ALPHA, "line 1: has no name" },
        { "a:" ALPHA ":b:c:1:e", "line 1: has more than 5 fields" },
        { "a:{SHA1}00", "{SHA256}" },
        { "a:{sha256}8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e"
          "8f2223f8", "{SHA256}" },
        { "a:{PLAIN}secret", "{SHA256}" },
        { "a:" ALPHA "0", "{SHA256} and 64 hex digits" },
        { "a:{SHA256}8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e"
          "8f2223fg", "not 64 hex digits" },
        { "a:{SHA256}8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e"
          "8f2223f", "{SHA256} and 64 hex digits" },
        { "a b:" ALPHA, "byte 2 is a space or no printable ASCII" },
        { "\xc3\xa9:" ALPHA, "byte 1 is a space or no printable" },
        { "a\tb:" ALPHA, "byte 2" },
        { "a:" ALPHA ":g\x01", "no printable" },
        { "a:" ALPHA ":::many", "quota" },
        { "a:" ALPHA ":::-1", "quota" },
        { "a:" ALPHA ":::k", "quota" },
        { "a:" ALPHA ":::1.5k", "quota" },
        { "a:" ALPHA "\nb:" ALPHA, "\"a\" and \"b\" have the same key" }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_null(parse(cases[i].text, &err));

        if (strstr(err.text, cases[i].part) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", cases[i].part, err.text);
        }

        /* a log is read by more people than the file */

        assert_null(strstr(err.text, "8ed3f6"));
    }

    memset(long_line, 'a', sizeof(long_line));
    long_line[sizeof(long_line) - 1] = '\0';
    assert_null(parse(long_line, &err));
    assert_non_null(strstr(err.text, "at most 4096"));
}


static void
test_many(void **state)
{
    int             i, n;
    char            key[32], *text, *p;
    size_t          j;
    mst_err_t       err;
    unsigned char   md[EVP_MAX_MD_SIZE];
    mst_keyfile_t  *f;

    (void) state;

    n = 5000;
    text = malloc((size_t) n * 100);
    p = text;

    for (i = 0; i < n; i++) {
        (void) snprintf(key, sizeof(key), "sk-%d", i);
        EVP_Digest(key, strlen(key), md, NULL, EVP_sha256(), NULL);
        p += sprintf(p, "u%d:{SHA256}", i);

        for (j = 0; j < 32; j++) {
            p += sprintf(p, "%02x", md[j]);
        }

        p += sprintf(p, ":t%d\n", i % 7);
    }

    f = parse(text, &err);
    assert_non_null(f);
    assert_int_equal(mst_keyfile_count(f), n);

    for (i = 0; i < n; i++) {
        (void) snprintf(key, sizeof(key), "sk-%d", i);
        assert_non_null(find(f, key));
        assert_int_equal(atoi(find(f, key)->name.data + 1), i);
    }

    assert_null(find(f, "sk-5000"));
    assert_int_equal(ERR_peek_error(), 0);

    mst_keyfile_destroy(f);
    free(text);
}


static void
test_memory(void **state)
{
    long            n;
    mst_err_t       err;
    mst_keyfile_t  *f;

    (void) state;

    f = NULL;

    for (n = 1; f == NULL; n++) {
        mst_mem_fail_after(n);
        f = parse("a:" ALPHA "\nb:" EMPTY "\n", &err);
        mst_mem_fail_after(0);
        assert_int_equal(f == NULL, strstr(err.text, "memory") != NULL);
    }

    assert_true(n > 4);
    mst_keyfile_destroy(f);
    mst_keyfile_destroy(NULL);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_memory)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

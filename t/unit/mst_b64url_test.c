
/* base64url: one spelling for each value, and nothing else. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/mst_b64url.h"
#include "base/mst_err.h"


typedef struct {
    mst_str_t    text;
    const char  *value;                /* NULL: refused */
    size_t       len;
} mst_case_t;

#define good(text, value)  { mst_string(text), value, sizeof(value) - 1 }
#define bad(text)          { mst_string(text), NULL, 0 }


static void
test_cases(void **state)
{
    size_t          i, len;
    char           *copy;
    unsigned char  *out;

    static const mst_case_t  cases[] = {
        good("", ""), good("Zg", "f"), good("Zm8", "fo"),
        good("Zm9v", "foo"), good("Zm9vYg", "foob"), good("Zm9vYmE", "fooba"),
        good("Zm9vYmFy", "foobar"), good("_-_-", "\xff\xef\xfe"),
        good("AAAA", "\0\0\0"),

        /* padding, spaces, base64's own digits, half a byte */
        bad("Zg=="), bad("Zm8="), bad("Zm9v "), bad("Zm9v\n"), bad("+/+/"),
        bad("Z"), bad("Zm9vY"), bad("Zm9v\0AAA"), bad("\xc3\xa9g"),
        bad("Zm.v"), bad("===="),

        /* bits behind the last byte */
        bad("Zh"), bad("Zv"), bad("Zm9"), bad("Zm-"), bad("Zm9vYh")
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        /* where a byte too much would be seen */

        copy = malloc(cases[i].text.len + 1);
        out = malloc(mst_b64url_size(cases[i].text.len));
        memcpy(copy, cases[i].text.data, cases[i].text.len);

        if (cases[i].value == NULL) {
            assert_int_equal(mst_b64url_decode(mst_str(copy,
                                                       cases[i].text.len),
                                               out, &len), MST_ERROR);
        } else {
            assert_int_equal(mst_b64url_decode(mst_str(copy,
                                                       cases[i].text.len),
                                               out, &len), MST_OK);
            assert_int_equal(len, cases[i].len);
            assert_memory_equal(out, cases[i].value, len);
        }

        free(copy);
        free(out);
    }
}


/* what is accepted is the one spelling of its value */

static void
test_canonical(void **state)
{
    int             a, b, n;
    char            text[3];
    size_t          len;
    unsigned char   out[8];

    (void) state;

    n = 0;

    for (a = 0; a < 256; a++) {
        for (b = 0; b < 256; b++) {
            text[0] = (char) a;
            text[1] = (char) b;
            n += mst_b64url_decode(mst_str(text, 2), out, &len) == MST_OK;
        }
    }

    assert_int_equal(n, 256);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_canonical)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}


/*
 * Classes of code points: how many of each, and the borders of some.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/mst_unicode.h"


static void
test_counts(void **state)
{
    uint32_t  cp, n[4] = { 0, 0, 0, 0 };

    (void) state;

    for (cp = 0; cp < 0x110000; cp++) {
        n[mst_unicode_class(cp)]++;
    }

    /* Unicode 16: 141028 letters, 1911 numbers, 25 spaces; 13 numbers of 17 */

    assert_int_equal(n[MST_UNICODE_LETTER], 141028);
    assert_int_equal(n[MST_UNICODE_NUMBER], 1911 + 13);
    assert_int_equal(n[MST_UNICODE_SPACE], 25);
}


static void
test_samples(void **state)
{
    size_t  i;

    static const struct {
        uint32_t  cp;
        uint32_t  class;
    } t[] = {
        { 0, MST_UNICODE_OTHER },
        { '\t', MST_UNICODE_SPACE },
        { '\r', MST_UNICODE_SPACE },
        { 0x0e, MST_UNICODE_OTHER },
        { 0x1c, MST_UNICODE_OTHER },
        { ' ', MST_UNICODE_SPACE },
        { '0', MST_UNICODE_NUMBER },
        { '9', MST_UNICODE_NUMBER },
        { 'A', MST_UNICODE_LETTER },
        { '_', MST_UNICODE_OTHER },
        { 'z', MST_UNICODE_LETTER },
        { 0x7f, MST_UNICODE_OTHER },
        { 0x80, MST_UNICODE_OTHER },
        { 0x85, MST_UNICODE_SPACE },
        { 0xa0, MST_UNICODE_SPACE },
        { 0xad, MST_UNICODE_OTHER },
        { 0xb2, MST_UNICODE_NUMBER },
        { 0xbd, MST_UNICODE_NUMBER },
        { 0xd7, MST_UNICODE_OTHER },
        { 0xe9, MST_UNICODE_LETTER },
        { 0x301, MST_UNICODE_OTHER },
        { 0x3b1, MST_UNICODE_LETTER },
        { 0x660, MST_UNICODE_NUMBER },
        { 0x180e, MST_UNICODE_OTHER },
        { 0x200b, MST_UNICODE_OTHER },
        { 0x2028, MST_UNICODE_SPACE },
        { 0x2160, MST_UNICODE_NUMBER },
        { 0x3000, MST_UNICODE_SPACE },
        { 0x4e00, MST_UNICODE_LETTER },
        { 0xac00, MST_UNICODE_LETTER },
        { 0xd800, MST_UNICODE_OTHER },
        { 0xfeff, MST_UNICODE_OTHER },
        { 0xff11, MST_UNICODE_NUMBER },
        { 0xfffd, MST_UNICODE_OTHER },
        { 0x11de0, MST_UNICODE_NUMBER },
        { 0x1d7ce, MST_UNICODE_NUMBER },
        { 0x1f44d, MST_UNICODE_OTHER },
        { 0x2ebf0, MST_UNICODE_LETTER },
        { 0x323af, MST_UNICODE_LETTER },
        { 0x323b0, MST_UNICODE_OTHER },
        { 0x10ffff, MST_UNICODE_OTHER },
        { 0x110000, MST_UNICODE_OTHER },
        { 0xffffffff, MST_UNICODE_OTHER }
    };

    (void) state;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        assert_int_equal(mst_unicode_class(t[i].cp), t[i].class);
    }
}


static void
test_fill(void **state)
{
    uint32_t              cp;
    static unsigned char  bits[65536];

    (void) state;

    mst_unicode_fill(bits);

    for (cp = 0; cp < 65536; cp++) {
        assert_int_equal(bits[cp], mst_unicode_bits(cp));
    }
}


/* every code point as Rust's regular expressions class it, which tiktoken and
   tokenizers use */

static void
test_golden(void **state)
{
    char            line[256];
    FILE           *f;
    unsigned        lo, hi, bits;
    uint32_t        cp;
    unsigned char  *want;

    (void) state;

    want = calloc(0x110000, 1);
    f = fopen("t/data/golden/unicode16_tekken_classes.txt", "re");
    assert_non_null(want);
    assert_non_null(f);

    while (fgets(line, sizeof(line), f)) {

        if (sscanf(line, "%x %x %u", &lo, &hi, &bits) == 3) {
            assert_in_range(hi, lo, 0x10ffff);

            for (cp = lo; cp <= hi; cp++) {
                want[cp] = (unsigned char) bits;
            }
        }
    }

    (void) fclose(f);

    for (cp = 0; cp < 0x110000; cp++) {
        if ((mst_unicode_bits(cp) & ~(uint32_t) MST_UNICODE_N17) != want[cp]) {
            fail_msg("U+%04X: bits %u, expected %u", cp, mst_unicode_bits(cp),
                     want[cp]);
        }
    }

    free(want);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_golden)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

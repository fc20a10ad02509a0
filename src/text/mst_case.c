
/*
 * Case: see mst_case.h.
 */

#include <locale.h>
#include <string.h>
#include <wctype.h>

#include "text/mst_case.h"


static locale_t  mst_case_locale;


void
mst_case_open(void)
{
    if (mst_case_locale == (locale_t) 0) {
        mst_case_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t) 0);
    }
}


static uint32_t
mst_case_to(uint32_t cp, int upper)
{
    if (cp < 0x80) {

        if (upper ? cp >= 'a' && cp <= 'z' : cp >= 'A' && cp <= 'Z') {
            cp ^= 32;
        }

        return cp;
    }

    if (mst_case_locale == (locale_t) 0) {
        return cp;
    }

    return (uint32_t) (upper ? towupper_l((wint_t) cp, mst_case_locale)
                             : towlower_l((wint_t) cp, mst_case_locale));
}


static int
mst_case_cased(uint32_t cp)
{
    return mst_case_to(cp, 1) != cp || mst_case_to(cp, 0) != cp
           || cp == 0xdf;
}


/* letters that become two or three; the rest of SpecialCasing.txt are
   ligatures and Greek with iota that no chat template changes */

static int
mst_case_special(uint32_t cp, int upper, char *p, size_t *n)
{
    size_t  i;

    static const struct {
        uint32_t     cp;
        int          upper;
        const char  *to;
    } table[] = {
        { 0xdf, 1, "SS" }, { 0x130, 0, "i\xcc\x87" },
        { 0x149, 1, "\xca\xbcN" }, { 0x1f0, 1, "J\xcc\x8c" },
        { 0x587, 1, "\xd4\xb5\xd5\x92" }, { 0xfb00, 1, "FF" },
        { 0xfb01, 1, "FI" }, { 0xfb02, 1, "FL" }, { 0xfb03, 1, "FFI" },
        { 0xfb04, 1, "FFL" }, { 0xfb05, 1, "ST" }, { 0xfb06, 1, "ST" }
    };

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {

        if (table[i].cp == cp && table[i].upper == upper) {
            *n = strlen(table[i].to);
            memcpy(p, table[i].to, *n);
            return 1;
        }
    }

    return 0;
}


/* capital sigma at the end of a word */

static int
mst_case_final(const mst_text_t *t, size_t at, int before)
{
    size_t  n;

    if (!before || at + 2 >= t->len) {
        return before;
    }

    return !mst_case_cased(mst_text_decode(t->data + at + 2,
                                           t->data + t->len, &n));
}


static mst_text_t *
mst_case_ascii(mst_work_t *w, const mst_text_t *t, int upper)
{
    char        *p;
    size_t       i;
    mst_text_t  *to;

    to = mst_text_copy(w, t->data, t->len, (mst_text_from_t) t->from);
    if (to == NULL) {
        return NULL;
    }

    to->mark = t->mark;
    p = (char *) to->data;

    for (i = 0; i < t->len; i++) {
        p[i] = (char) mst_case_to((unsigned char) p[i], upper);
    }

    return to;
}


static int
mst_case_is_ascii(const mst_text_t *t)
{
    size_t  i;

    for (i = 0; i < t->len; i++) {

        if ((unsigned char) t->data[i] >= 0x80) {
            return 0;
        }
    }

    return 1;
}


static int
mst_case_write(mst_work_t *w, const mst_text_t *t, mst_case_t how,
    mst_text_out_t *out)
{
    int          upper, before;
    char         to[16];
    size_t       i, n, size;
    uint32_t     cp;
    const char  *end;

    end = t->data + t->len;
    before = 0;

    for (i = 0; i < t->len; i += n) {
        cp = mst_text_decode(t->data + i, end, &n);

        upper = how == MST_CASE_UPPER
                || (how == MST_CASE_CAPITALIZE && i == 0)
                || (how == MST_CASE_TITLE && !before)
                || (how == MST_CASE_SWAP && mst_case_to(cp, 1) != cp);

        if (cp == 0x3a3 && !upper && mst_case_final(t, i, before)) {
            mst_text_encode(0x3c2, to, &size);

        } else if (!mst_case_special(cp, upper, to, &size)) {
            mst_text_encode(mst_case_to(cp, upper), to, &size);
        }

        /* "Ss", not "SS", begins a title */

        if (how != MST_CASE_UPPER && how != MST_CASE_SWAP && upper && size > 1
            && (unsigned char) to[0] < 0x80 && cp >= 0x80)
        {
            to[1] = (char) mst_case_to((unsigned char) to[1], 0);
        }

        if (mst_text_out_bytes(out, w, to, size, (mst_text_from_t)
                               (t->mark ? t->mark[i] : t->from))
            != MST_OK)
        {
            return MST_ERROR;
        }

        before = mst_case_cased(cp);
    }

    return MST_OK;
}


mst_text_t *
mst_case(mst_work_t *w, const mst_text_t *t, mst_case_t how)
{
    int             rc;
    mst_text_t     *to;
    mst_text_out_t  out;

    if (mst_work_steps(w, t->len / 8) != MST_OK) {
        return NULL;
    }

    if (how <= MST_CASE_LOWER && mst_case_is_ascii(t)) {
        return mst_case_ascii(w, t, how == MST_CASE_UPPER);
    }

    mst_text_out_init(&out);

    rc = mst_case_write(w, t, how, &out);
    to = rc == MST_OK ? mst_text_out_take(&out, w) : NULL;

    mst_text_out_fini(&out);

    return to;
}


static int
mst_case_is_one(uint32_t cp, mst_case_is_t what)
{
    int  alpha, digit;

    digit = cp >= '0' && cp <= '9';

    if (what == MST_CASE_IS_DIGIT) {
        return digit;
    }

    if (what == MST_CASE_IS_SPACE) {
        return mst_text_is_space(cp);
    }

    alpha = (cp | 32) >= 'a' && (cp | 32) <= 'z';

    if (cp >= 0x80) {
        alpha = mst_case_locale != (locale_t) 0
                && iswalpha_l((wint_t) cp, mst_case_locale);
    }

    return alpha || (digit && what == MST_CASE_IS_ALNUM);
}


int
mst_case_is(const mst_text_t *t, mst_case_is_t what)
{
    int          cased;
    size_t       i, n;
    uint32_t     cp;
    const char  *end;

    end = t->data + t->len;
    cased = 0;

    for (i = 0; i < t->len; i += n) {
        cp = mst_text_decode(t->data + i, end, &n);

        if (what < MST_CASE_IS_LOWER) {

            if (!mst_case_is_one(cp, what)) {
                return 0;
            }

            continue;
        }

        if (mst_case_to(cp, what == MST_CASE_IS_UPPER) != cp) {
            return 0;
        }

        cased |= mst_case_cased(cp);
    }

    return what < MST_CASE_IS_LOWER ? t->len != 0 : cased;
}

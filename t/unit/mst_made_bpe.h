
/*
 * Vocabularies of byte-level BPE that no training made: tokens begin and end
 * anywhere within letters, ranks have no order, some are equal.
 */

#ifndef MST_MADE_BPE_H
#define MST_MADE_BPE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "text/mst_bpe.h"

#define LETTERS  8
#define TOKENS   120


typedef struct {
    mst_vocab_t  vocab;
    mst_bpe_t    bpe;
    uint32_t     n;
    uint32_t     ranks[256 + TOKENS];
} made_t;


static const char *const  letters[LETTERS] = {
    "a", " ", "\xd0\xb0", "\xd0\xb1", "\xd1\xb0", "\xe3\x81\x82",
    "\xe3\x81\x84", "\xe3\x82\x82"
};


static inline size_t
text_of(char *text, size_t n)
{
    size_t       i, len;
    const char  *s;

    for (len = 0, i = 0; i < n; i++) {
        s = letters[rand() % LETTERS];
        memcpy(text + len, s, strlen(s));
        len += strlen(s);
    }

    return len;
}


typedef enum {
    RANKS_EQUAL = 0,           /* some are */
    RANKS_RISING,              /* as training gives them: short tokens first */
    RANKS_MIXED                /* all differ, in no order */
} ranks_t;


/* all bytes, then parts of texts */

static inline void
make(made_t *m, ranks_t order)
{
    char      text[64];
    size_t    at, len, n;
    uint32_t  i;

    assert_int_equal(mst_vocab_init(&m->vocab, 256 + TOKENS, 8192), MST_OK);

    for (i = 0; i < 256; i++) {
        text[0] = (char) i;
        m->ranks[i] = i;
        assert_int_equal(mst_vocab_put(&m->vocab, i, MST_VOCAB_NORMAL, text,
                                       1), MST_OK);
    }

    for (i = 256; i < 256 + TOKENS; i++) {

        do {
            n = text_of(text, 8);
            len = order == RANKS_RISING ? 2 + (i - 256) / 24
                  : 2 + (size_t) rand() % 5;
            at = (size_t) rand() % (n - len + 1);
        } while (mst_vocab_put(&m->vocab, i, MST_VOCAB_NORMAL, text + at, len)
                 != MST_OK);

        m->ranks[i] = order == RANKS_RISING ? i
                      : order == RANKS_MIXED ? 1000 + i * 7919 % 100003
                      : (uint32_t) rand() % 100;
    }

    m->n = 256 + TOKENS;
    assert_int_equal(mst_bpe_init_ranks(&m->bpe, &m->vocab, m->ranks, 0),
                     MST_OK);
}


static inline void
unmake(made_t *m)
{
    mst_bpe_fini(&m->bpe);
    mst_vocab_fini(&m->vocab);
}


#endif /* MST_MADE_BPE_H */

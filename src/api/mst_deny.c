
/*
 * Patterns that no text may match: see mst_deny.h.
 *
 * PCRE2 counts its steps anew at each place where a match may begin, so that
 * a limit on them alone leaves the product of both.  A search is therefore
 * cut into windows of places (PCRE2_USE_OFFSET_LIMIT).  The larger a window,
 * the fewer steps each of its places has: one call costs about the same
 * whatever the text is.  Where these few do not do, the window is one place
 * with all the steps there are.  Windows are not kept small always, since
 * PCRE2 looks for a match's first character up to the end of the text, in
 * each of them anew.
 *
 * The time is that of the thread: it stands still while another process has
 * the core, so that a busy machine refuses nobody.
 */

#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH  8
#include <pcre2.h>

#include "api/mst_deny.h"
#include "base/mst_mem.h"
#include "base/mst_time.h"


#define MST_DENY_STEPS       200000    /* at one place, or in one window */
#define MST_DENY_FEW_STEPS   64        /* at one place of a large window */
#define MST_DENY_WINDOW      16384     /* places, at most */
#define MST_DENY_HEAP        4096      /* KiB to go back, interpreted */
#define MST_DENY_STACK       (256 * 1024)      /* bytes for it, compiled */

/* one pattern may take so long, and for each byte of text so much longer */
#define MST_DENY_TIME        (20 * MST_MS)
#define MST_DENY_BYTE_TIME   1000ull   /* ns */

/* shorter texts are searched before a look at the clock would be over */
#define MST_DENY_SHORT       4096      /* bytes */

#define MST_DENY_SHOWN       80        /* bytes of a pattern in a sentence */


typedef struct {
    mst_str_t    pattern;              /* owned */
    pcre2_code  *code;
} mst_deny_pattern_t;


struct mst_deny_s {
    mst_deny_pattern_t     *patterns;  /* [n] */
    size_t                  n;
    pcre2_general_context  *general;
    pcre2_compile_context  *compile;
    pcre2_match_context    *match;
    pcre2_match_data       *data;
    pcre2_jit_stack        *stack;     /* NULL: nothing is compiled */
};


static int mst_deny_compile(mst_deny_t *d, mst_str_t pattern,
    pcre2_code **code, mst_err_t *err);
static int mst_deny_search(mst_deny_t *d, mst_deny_at_t *at, mst_str_t text,
    uint64_t end_ns);
static int mst_deny_window(mst_deny_t *d, mst_deny_at_t *at, mst_str_t text);
static uint64_t mst_deny_cpu_ns(void);
static void *mst_deny_alloc(size_t size, void *data);
static void mst_deny_free(void *p, void *data);


int
mst_deny_add(mst_deny_t *d, mst_str_t pattern, mst_err_t *err)
{
    char                *copy;
    pcre2_code          *code;
    mst_deny_pattern_t  *p;

    if (mst_deny_compile(d, pattern, &code, err) != MST_OK) {
        return MST_ERROR;
    }

    copy = mst_alloc(pattern.len);
    p = mst_realloc(d->patterns, d->n + 1, sizeof(mst_deny_pattern_t));

    if (p) {
        d->patterns = p;
    }

    if (copy == NULL || p == NULL) {
        mst_free(copy);
        pcre2_code_free(code);
        return mst_err_set(err, "out of memory");
    }

    memcpy(copy, pattern.data, pattern.len);

    p[d->n].pattern = mst_str(copy, pattern.len);
    p[d->n].code = code;
    d->n++;

    return MST_OK;
}


static int
mst_deny_compile(mst_deny_t *d, mst_str_t pattern, pcre2_code **code,
    mst_err_t *err)
{
    int         rc, shown;
    char        text[128];
    size_t      skip;
    uint32_t    options;
    PCRE2_SIZE  offset;

    options = PCRE2_UTF | PCRE2_UCP | PCRE2_USE_OFFSET_LIMIT
              | PCRE2_NEVER_BACKSLASH_C;

    skip = pattern.len && pattern.data[0] == '~' ? 1 : 0;
    shown = (int) (pattern.len < MST_DENY_SHOWN ? pattern.len
                                                : MST_DENY_SHOWN);

    if (skip && pattern.len > 1 && pattern.data[1] == '*') {
        options |= PCRE2_CASELESS;
        skip = 2;
    }

    *code = pcre2_compile((PCRE2_SPTR) pattern.data + skip,
                          pattern.len - skip, options, &rc, &offset,
                          d->compile);

    if (*code == NULL) {
        (void) pcre2_get_error_message(rc, (PCRE2_UCHAR *) text,
                                       sizeof(text));

        return mst_err_set(err, "the pattern \"%.*s\" is wrong at byte %zu: "
                           "%s", shown, pattern.data, (size_t) offset + skip,
                           text);
    }

    /* what a system forbids to compile is interpreted */

    if (d->stack) {
        (void) pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
    }

    (void) pcre2_set_offset_limit(d->match, 0);
    (void) pcre2_set_match_limit(d->match, MST_DENY_STEPS);

    rc = pcre2_match(*code, (PCRE2_SPTR) "", 0, 0, 0, d->data, d->match);

    if (rc != PCRE2_ERROR_NOMATCH) {
        pcre2_code_free(*code);

        return mst_err_set(err, "the pattern \"%.*s\" %s", shown,
                           pattern.data, rc >= 0
                           ? "is found in the empty text and thus in any"
                           : "cannot be searched for");
    }

    return MST_OK;
}


mst_str_t
mst_deny_pattern(const mst_deny_t *d, size_t i)
{
    return d->patterns[i].pattern;
}


int
mst_deny_run(mst_deny_t *d, mst_deny_at_t *at, mst_str_t text,
    uint64_t end_ns)
{
    int  rc;

    if (text.len == 0) {
        text.data = "";
    }

    while (at->pattern < d->n) {
        rc = mst_deny_search(d, at, text, end_ns);

        if (rc != MST_OK) {
            return rc;
        }

        at->pattern++;
        at->offset = 0;
        at->window = 0;
        at->spent_ns = 0;
    }

    return MST_OK;
}


/* for one pattern, from where it stands */

static int
mst_deny_search(mst_deny_t *d, mst_deny_at_t *at, mst_str_t text,
    uint64_t end_ns)
{
    int       rc;
    uint64_t  now, looked, cpu, before;

    if (at->window == 0) {
        at->window = MST_DENY_WINDOW;
    }

    looked = mst_time_ns();
    before = at->offset || text.len > MST_DENY_SHORT ? mst_deny_cpu_ns() : 0;

    while (at->offset <= text.len) {
        rc = mst_deny_window(d, at, text);

        if (rc != MST_OK && rc != MST_AGAIN) {
            return rc;
        }

        now = mst_time_ns();

        if (now - looked < MST_MS && now < end_ns) {
            continue;
        }

        looked = now;
        cpu = mst_deny_cpu_ns();
        at->spent_ns += before ? cpu - before : 0;
        before = cpu;

        if (at->spent_ns > MST_DENY_TIME + text.len * MST_DENY_BYTE_TIME) {
            return MST_BUSY;
        }

        if (now >= end_ns) {
            return MST_AGAIN;
        }
    }

    return MST_OK;
}


/* MST_AGAIN: the same place once more, with more steps */

static int
mst_deny_window(mst_deny_t *d, mst_deny_at_t *at, mst_str_t text)
{
    int       rc;
    size_t    last;
    uint32_t  steps;

    last = at->offset + at->window - 1;
    steps = (uint32_t) (MST_DENY_STEPS / at->window);

    (void) pcre2_set_offset_limit(d->match, last);
    (void) pcre2_set_match_limit(d->match, steps < MST_DENY_FEW_STEPS
                                           ? MST_DENY_FEW_STEPS : steps);

    rc = pcre2_match(d->patterns[at->pattern].code, (PCRE2_SPTR) text.data,
                     text.len, at->offset, PCRE2_NO_UTF_CHECK, d->data,
                     d->match);

    if (rc >= 0) {
        return MST_DECLINED;
    }

    if (rc == PCRE2_ERROR_NOMEMORY) {
        return MST_ERROR;
    }

    if (rc == PCRE2_ERROR_MATCHLIMIT && at->window > 1) {
        at->window = 1;
        return MST_AGAIN;
    }

    if (rc != PCRE2_ERROR_NOMATCH) {
        return MST_BUSY;
    }

    at->offset = last + 1;

    /* a character begins the next one */

    while (at->offset < text.len
           && ((unsigned char) text.data[at->offset] & 0xc0) == 0x80)
    {
        at->offset++;
    }

    if (at->window < MST_DENY_WINDOW) {
        at->window *= 2;
    }

    return MST_OK;
}


static uint64_t
mst_deny_cpu_ns(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);

    return (uint64_t) ts.tv_sec * MST_S + (uint64_t) ts.tv_nsec;
}


static void *
mst_deny_alloc(size_t size, void *data)
{
    (void) data;

    return mst_alloc(size);
}


static void
mst_deny_free(void *p, void *data)
{
    (void) data;

    mst_free(p);
}


mst_deny_t *
mst_deny_create(void)
{
    uint32_t     jit;
    mst_deny_t  *d;

    d = mst_calloc(1, sizeof(mst_deny_t));

    if (d == NULL) {
        return NULL;
    }

    jit = 0;
    (void) pcre2_config(PCRE2_CONFIG_JIT, &jit);

    d->general = pcre2_general_context_create(mst_deny_alloc, mst_deny_free,
                                              NULL);
    if (d->general == NULL) {
        mst_deny_destroy(d);
        return NULL;
    }

    d->compile = pcre2_compile_context_create(d->general);
    d->match = pcre2_match_context_create(d->general);
    d->data = pcre2_match_data_create(1, d->general);

    if (d->compile == NULL || d->match == NULL || d->data == NULL) {
        mst_deny_destroy(d);
        return NULL;
    }

    (void) pcre2_set_heap_limit(d->match, MST_DENY_HEAP);

    if (jit) {
        d->stack = pcre2_jit_stack_create(32 * 1024, MST_DENY_STACK,
                                          d->general);
    }

    if (d->stack) {
        pcre2_jit_stack_assign(d->match, NULL, d->stack);
    }

    return d;
}


void
mst_deny_destroy(mst_deny_t *d)
{
    size_t  i;

    if (d == NULL) {
        return;
    }

    for (i = 0; i < d->n; i++) {
        pcre2_code_free(d->patterns[i].code);
        mst_free((void *) d->patterns[i].pattern.data);
    }

    pcre2_jit_stack_free(d->stack);
    pcre2_match_data_free(d->data);
    pcre2_match_context_free(d->match);
    pcre2_compile_context_free(d->compile);
    pcre2_general_context_free(d->general);

    mst_free(d->patterns);
    mst_free(d);
}

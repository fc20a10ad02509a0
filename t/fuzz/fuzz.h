
/*
 * What the fuzz targets share.  A target is one function of bytes; it is
 * linked with libFuzzer (make fuzz) or with replay.c (t/fuzz.t).  Beside
 * what the sanitizers see it says itself what must hold: fuzz_check().
 */

#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


#define fuzz_check(what)                                                      \
    do {                                                                      \
        if (!(what)) {                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,        \
                    #what);                                                   \
            abort();                                                          \
        }                                                                     \
    } while (0)


/* the rest of an input; behind its end there are zeroes */
typedef struct {
    const uint8_t  *p;
    size_t          n;
} fuzz_t;


static inline uint64_t
fuzz_uint(fuzz_t *f, size_t size)
{
    uint64_t  v;

    for (v = 0; size && f->n; size--, f->n--) {
        v = v << 8 | *f->p++;
    }

    return v;
}


/* at most *n bytes, and their number in *n */

static inline const char *
fuzz_bytes(fuzz_t *f, size_t *n)
{
    const char  *p;

    p = (const char *) f->p;
    *n = (*n < f->n) ? *n : f->n;

    f->p += *n;
    f->n -= *n;

    return p;
}


/* a copy that ends where its memory does, free() it */

static inline void *
fuzz_copy(const void *p, size_t n)
{
    void  *copy;

    copy = malloc(n ? n : 1);
    fuzz_check(copy != NULL);

    if (n) {
        memcpy(copy, p, n);
    }

    return copy;
}


/* reads all of it */

static inline void
fuzz_touch(const void *p, size_t n)
{
    const volatile char  *byte;

    for (byte = p; n; n--) {
        (void) *byte++;
    }
}


#endif /* FUZZ_H */


/*
 * Bytes that end where a page begins which may not be touched: who reads one
 * byte too many is found by any build.
 */

#ifndef GUARD_H
#define GUARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>


/* n bytes that end at a page without access, or back to nothing */

static inline char *
guard(const void *data, size_t n, size_t *mapped)
{
    char    *p;
    size_t   page;

    page = (size_t) sysconf(_SC_PAGESIZE);
    *mapped = (n + page - 1) / page * page + page;

    p = mmap(NULL, *mapped, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(mprotect(p + *mapped - page, page, PROT_NONE), 0);

    p += *mapped - page - n;
    memcpy(p, data, n);

    return p;
}


static inline void
unguard(char *p, size_t n, size_t mapped)
{
    size_t  page;

    page = (size_t) sysconf(_SC_PAGESIZE);

    assert_int_equal(munmap(p + n - (mapped - page), mapped), 0);
}


#endif /* GUARD_H */

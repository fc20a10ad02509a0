
/*
 * Loaded into nginx before AddressSanitizer.  Modules stay mapped, so that
 * what they lost at the very end still has names of functions.  Leaks are
 * looked for in processes that started no other: workers, "nginx -t", one
 * without a master; not where a daemon's parent or a master ends.
 */

#include <pthread.h>


static int  mst_san_forked;


int dlclose(void *handle);
int __lsan_is_turned_off(void);


int
dlclose(void *handle)
{
    (void) handle;

    return 0;
}


int
__lsan_is_turned_off(void)
{
    return mst_san_forked;
}


static void
mst_san_parent(void)
{
    mst_san_forked = 1;
}


static void
mst_san_child(void)
{
    mst_san_forked = 0;
}


__attribute__((constructor)) static void
mst_san_init(void)
{
    (void) pthread_atfork(NULL, mst_san_parent, mst_san_child);
}


/*
 * Loaded into nginx beside AddressSanitizer: modules stay mapped, so that
 * what they lost at the very end still has names of functions.
 */

int dlclose(void *handle);


int
dlclose(void *handle)
{
    (void) handle;

    return 0;
}

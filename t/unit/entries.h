
/*
 * What a directory holds, for tests of files that others write.
 */

#ifndef MST_ENTRIES_H
#define MST_ENTRIES_H

#include <dirent.h>
#include <stdio.h>


/* entries of the directory; the path of the last one */

static inline uint32_t
entries(const char *dir, char *path, size_t size)
{
    DIR            *d;
    uint32_t        n;
    struct dirent  *e;

    d = opendir(dir);
    assert_non_null(d);

    for (n = 0; (e = readdir(d)) != NULL; /* void */ ) {
        if (e->d_name[0] != '.') {
            (void) snprintf(path, size, "%s/%s", dir, e->d_name);
            n++;
        }
    }

    closedir(d);

    return n;
}


#endif /* MST_ENTRIES_H */


/*
 * Files of a configuration: see mst_config_file.h.
 */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_mem.h"
#include "model/mst_config_file.h"


#define MST_CONFIG_FILE_SIZE  (8 << 20)        /* bytes at most */


char *
mst_config_file_read(int fd, const char *name, size_t *len, mst_err_t *err)
{
    char         *text;
    size_t        n;
    ssize_t       got;
    struct stat   st;

    if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) || st.st_size < 2
        || st.st_size > MST_CONFIG_FILE_SIZE)
    {
        (void) mst_err_set(err, "%s: its configuration is no file of 2 bytes "
                           "to %d MiB", name, MST_CONFIG_FILE_SIZE >> 20);
        return NULL;
    }

    text = mst_alloc((size_t) st.st_size);

    if (text == NULL) {
        (void) mst_err_set(err, "%s: no memory for its configuration", name);
        return NULL;
    }

    for (n = 0; n < (size_t) st.st_size; n += (size_t) got) {
        got = pread(fd, text + n, (size_t) st.st_size - n, (off_t) n);

        if (got <= 0) {
            mst_free(text);
            (void) mst_err_set(err, "%s: its configuration cannot be read",
                               name);
            return NULL;
        }
    }

    *len = n;

    return text;
}


/* only params.json has "dim" */

int
mst_config_file_parse(const char *text, size_t len, const char *name,
    mst_names_t *names, mst_config_t *config, mst_faults_t *faults,
    mst_err_t *err)
{
    if (memmem(text, len, "\"dim\"", 5) != NULL) {
        *names = MST_NAMES_MISTRAL;
        return mst_config_params(text, len, name, config, faults, err);
    }

    *names = MST_NAMES_HF;

    return mst_config_hf(text, len, name, config, faults, err);
}

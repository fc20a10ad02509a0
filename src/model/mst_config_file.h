
/*
 * A config.json or params.json: the file, and which of both it is.
 */

#ifndef MST_CONFIG_FILE_H
#define MST_CONFIG_FILE_H

#include <stddef.h>

#include "base/mst_err.h"
#include "model/mst_config.h"
#include "model/mst_weight.h"


/* the whole of it, for mst_free(); the descriptor's offset, which others may
   share, stays.  NULL with a sentence, which begins with name. */
char *mst_config_file_read(int fd, const char *name, size_t *len,
    mst_err_t *err);

/* the names that its model's tensors have are a matter of the file's form */
int mst_config_file_parse(const char *text, size_t len, const char *name,
    mst_names_t *names, mst_config_t *config, mst_faults_t *faults,
    mst_err_t *err);


#endif /* MST_CONFIG_FILE_H */


/*
 * Mistral's tekken.json: tokens by rank behind a block of control tokens.
 *
 * Layout: config.pattern, version, default_vocab_size, and
 * default_num_special_tokens; vocab of {rank, token_bytes (base64)}, of which
 * the first default_vocab_size - default_num_special_tokens are used;
 * special_tokens of {rank, token_str}, or none in old files, which then have
 * the twenty of version 3.  id = rank + default_num_special_tokens.
 *
 * Once, while the vocabulary is made ready: the master, or a tool.
 */

#ifndef MST_TEKKEN_H
#define MST_TEKKEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "text/mst_bpe.h"
#include "text/mst_vocab.h"


/* what the file says of chats */
typedef struct {
    uint32_t  version;         /* 3, 7, 11, 13, ... */
    uint32_t  efforts;         /* bits of MST_TEKKEN_EFFORTS' words that
                                  reasoning_effort may be; 0: no such setting */
    int       effort;          /* where none is given */
} mst_tekken_info_t;

/* the words of reasoning_effort, the first is 0 */
#define MST_TEKKEN_EFFORTS  "none", "minimal", "low", "medium", "high",       \
                            "xhigh", "max"


/* v and b are fit for _fini whatever it returns, and v must stay where it
   is */
int mst_tekken_init(mst_vocab_t *v, mst_bpe_t *b, const char *text,
    size_t len, const char *name, mst_tekken_info_t *info, mst_err_t *err);


#endif /* MST_TEKKEN_H */

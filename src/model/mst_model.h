
/*
 * A loaded model: the weights of each layer in a backend.  Private to the
 * model room; the engine sees mst_forward.h.
 */

#ifndef MST_MODEL_H
#define MST_MODEL_H

#include "backend/mst_backend.h"
#include "model/mst_checkpoint.h"
#include "model/mst_forward.h"


struct mst_model_s {
    mst_checkpoint_t         *checkpoint;  /* owned once all went well */
    mst_config_t              config;
    mst_model_info_t          info;
    uint32_t                  max_rows;
    uint32_t                  max_seqs;
    const mst_backend_ops_t  *ops;
    mst_backend_t            *backend;
    mst_backend_layer_t      *layers;      /* [n_layers] */
    const mst_matrix_t      **experts;     /* [n_layers][2][n_experts] */
    const mst_matrix_t       *embd;
    const mst_matrix_t       *head;        /* maybe embd */
    const mst_vector_t       *norm;        /* before the head */

    const mst_model_conf_t   *conf;        /* while it is loaded */
    uint64_t                  loaded;      /* bytes */
    uint64_t                  said_ns;     /* the last line about them */
    void                     *pairs[3];    /* rows of a part in our order, for
                                              all layers: fresh memory would
                                              cost more than the copy */
    size_t                    pairs_size[3];   /* bytes */

    mst_backend_seq_t        *seqs;        /* [max_seqs] of this step */
    uint32_t                 *wanted;      /* [max_rows] of this step */
    uint32_t                  n_fed;       /* sequences of the step that was
                                              launched last; 0 = the last one
                                              was none of these */
};


#endif /* MST_MODEL_H */


/*
 * The state of "mistral generate", between the part that runs the engine
 * (mistral_generate.c) and the part that prints (mistral_report.c).
 */

#ifndef MISTRAL_GENERATE_H
#define MISTRAL_GENERATE_H

#include "base/mst_buf.h"
#include "engine/mst_engine.h"
#include "model/mst_forward.h"
#include "text/mst_detok.h"
#include "tools/mistral_prompt.h"

#define MISTRAL_GENERATE_CHUNK  256            /* tokens of a prefill step */


typedef struct {
    const char  *model;
    const char  *prompt;
    const char  *prompt_ids;
    const char  *device;           /* "cpu", "cuda:N"; NULL = cpu */
    const char  *dtype;            /* NULL = auto */
    const char  *kv_cache;         /* NULL = auto */
    const char  *isa;
    const char  *logits;
    const char  *rope;             /* "exact", "cast"; NULL = see there */
    int          chat;
    int          json;
    int          ignore_eos;
    int          help;
    uint64_t     max_tokens;
    uint64_t     seed;
    uint64_t     top_k;
    uint64_t     threads;
    uint64_t     activations;      /* bits; 0 = 22 */
    uint64_t     weight_layouts;   /* 0 = auto */
    uint64_t     context;
    double       temperature;
    double       top_p;
    double       min_p;
} mistral_generate_conf_t;


typedef struct {
    uint32_t  id;
    float     logprob;
} mistral_token_t;


typedef struct {
    mst_checkpoint_t *checkpoint;  /* the model's after it was loaded */
    const mst_config_t *config;    /* its */
    mistral_words_t   words;       /* no tokenizer: ids in, ids out */
    int               wordless;    /* there is no file of one */
    mistral_ids_t     prompt;
    uint32_t          stop_ids[MST_MAX_STOP_IDS];
    uint32_t          n_stop;
    mst_model_t      *model;       /* the engine's after it was created */
    mst_engine_t     *engine;

    mst_detok_t       detok;
    mst_buf_t         text;        /* of one token */
    mst_buf_t         tokens;      /* mistral_token_t each */
    uint64_t          n_tokens;
    float            *last;        /* [n_vocab] with --logits last */
    mst_finish_t      finish;      /* 0: not yet */
    mst_usage_t       usage;
    int               progress;    /* a line of progress stands there */
    mst_err_t         err;
} mistral_generate_t;


extern mistral_generate_conf_t  mistral_generate_conf;


/* a line on the terminal that the next one, or the answer, overwrites; a NULL
   removes it */
void mistral_report_progress(mistral_generate_t *g, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* prints what the tokens from "first" on add to the answer */
int mistral_report_text(mistral_generate_t *g, uint64_t first);

/* the whole answer as one object */
int mistral_report_json(mistral_generate_t *g);

/* tokens per second, and whether the context cut the answer, on stderr */
void mistral_report_speed(const mistral_generate_t *g);


#endif /* MISTRAL_GENERATE_H */

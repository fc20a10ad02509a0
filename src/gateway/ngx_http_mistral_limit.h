
/*
 * Token limits and quotas: what limit.c, limit_conf.c, limit_zone.c and
 * quota.c share.
 *
 *   limit_conf.c  the directives; limit_zone_conf.c those of zones
 *   limit.c       a request: what it used, and what its tokens may still take
 *   limit_ask.c   what it asks for, and its refusal
 *   limit_show.c  what it is told
 *   limit_debit.c debits, who holds them, and whose holder is dead
 *   limit_zone.c  the shared memory: keys
 *   bucket.c      what a key's node is for a limit
 *   quota.c       and for a quota: windows; quota_state.c and quota_save.c
 *                 their file
 *
 * A debit is taken before the engine hears of a request and settled when it
 * is known what the answer took.  While it is open, a hold in the zone says
 * whose it is, so that others settle it if its worker dies.
 */

#ifndef NGX_HTTP_MISTRAL_LIMIT_H
#define NGX_HTTP_MISTRAL_LIMIT_H

#include "gateway/ngx_http_mistral_policy.h"

#include "base/mst_bucket.h"
#include "base/mst_budget.h"


#define NGX_HTTP_MISTRAL_LIMIT_KEY  255        /* bytes; of a longer one its
                                                  MD5 */


typedef struct ngx_http_mistral_limit_zone_s   ngx_http_mistral_limit_zone_t;
typedef struct ngx_http_mistral_limit_table_s  ngx_http_mistral_limit_table_t;
typedef struct ngx_http_mistral_limit_node_s   ngx_http_mistral_limit_node_t;
typedef struct ngx_http_mistral_limit_owner_s  ngx_http_mistral_limit_owner_t;
typedef struct ngx_http_mistral_limit_hold_s   ngx_http_mistral_limit_hold_t;
typedef struct ngx_http_mistral_limit_kind_s   ngx_http_mistral_limit_kind_t;
typedef struct ngx_http_mistral_save_s         ngx_http_mistral_save_t;


typedef enum {
    NGX_HTTP_MISTRAL_LIMIT_TOTAL = 0,
    NGX_HTTP_MISTRAL_LIMIT_PROMPT,
    NGX_HTTP_MISTRAL_LIMIT_UNCACHED,
    NGX_HTTP_MISTRAL_LIMIT_COMPLETION
} ngx_http_mistral_limit_count_e;


typedef enum {
    NGX_HTTP_MISTRAL_LIMIT_FINISH = 0,
    NGX_HTTP_MISTRAL_LIMIT_STOP,
    NGX_HTTP_MISTRAL_LIMIT_PACE
} ngx_http_mistral_limit_overrun_e;


typedef enum {
    NGX_HTTP_MISTRAL_LIMIT_PASSED = 0,
    NGX_HTTP_MISTRAL_LIMIT_REJECTED,
    NGX_HTTP_MISTRAL_LIMIT_REJECTED_DRY_RUN,
    NGX_HTTP_MISTRAL_LIMIT_STATUSES
} ngx_http_mistral_limit_status_e;


#define NGX_HTTP_MISTRAL_LIMIT_ALL  UINT32_MAX /* reserve: max_tokens */


/* mistral_limit_zone or mistral_quota_zone; cycle pool, and what a process
   keeps of it */
struct ngx_http_mistral_limit_zone_s {
    const ngx_http_mistral_limit_kind_t  *kind;
    ngx_str_t                        name;
    ngx_shm_zone_t                  *shm_zone;
    ngx_slab_pool_t                 *pool;
    ngx_http_mistral_limit_table_t  *table;    /* in it; NULL in nginx -t */

    ngx_http_complex_value_t         key;
    ngx_http_complex_value_t         rate;     /* of a quota: its tokens */
    ngx_http_complex_value_t         burst;    /* data NULL: by the rate */
    mst_rate_t                       fixed;    /* without variables */
    unsigned                         variable:1;

    ngx_str_t                        window_text;
    mst_budget_window_t              window;   /* of a quota */
    ngx_str_t                        state;    /* file; len 0: none */
    ngx_str_t                        directory;    /* of it */
    ngx_cycle_t                     *cycle;

    int                              fd;       /* see limit_zone.c */
    ngx_http_mistral_limit_owner_t  *owner;    /* this process */
    uint64_t                         generation;   /* of it */
    mst_budget_span_t                span;     /* of the calendar, as last
                                                  seen */
    ngx_event_t                      timer;    /* saves the state */
    ngx_http_mistral_save_t         *save;     /* is at it; NULL: is not */
};


/* mistral_limit or mistral_quota */
typedef struct {
    ngx_http_mistral_limit_zone_t   *zone;     /* found in the merge */
    ngx_str_t                        name;
    ngx_uint_t                       count;
    uint32_t                         reserve;  /* tokens of each answer */
    ngx_uint_t                       overrun;
    u_char                          *file_name;    /* of the directive */
    ngx_uint_t                       line;
} ngx_http_mistral_limit_t;


typedef struct {
    ngx_array_t                      zones;    /* of _zone_t * */
} ngx_http_mistral_limit_main_conf_t;


typedef struct {
    ngx_array_t                     *limits;   /* of _limit_t; NULL: none */
    ngx_array_t                     *quotas;
    ngx_int_t                        status_code;
    ngx_flag_t                       dry_run;
} ngx_http_mistral_limit_loc_conf_t;


/* what a request takes of one zone; lives with it */
typedef struct {
    const ngx_http_mistral_limit_t  *limit;
    mst_rate_t                       rate;     /* of this request */
    ngx_http_mistral_limit_hold_t   *hold;     /* shared; NULL: none */
    uint64_t                         generation;
    uint64_t                         tokens;   /* of the hold */

    /* when it was last looked at */
    uint64_t                         left;     /* tokens */
    uint64_t                         debt;     /* tokens below nothing */
    uint64_t                         reset_ns; /* until it is full again */
    uint64_t                         wait_ns;  /* of a refusal; UINT64_MAX:
                                                  for ever */
    uint32_t                         paced;    /* answers that share what
                                                  comes */
} ngx_http_mistral_debit_t;


/* name=value of a line; the value's data NULL: not given */
typedef struct {
    ngx_str_t                        name;
    ngx_str_t                        value;
} ngx_http_mistral_limit_param_t;


/* a node's contents; under the zone's lock, "now" as the kind has it */
struct ngx_http_mistral_limit_kind_s {
    const char  *zone;                         /* the directives' names */
    const char  *limit;
    void       (*init)(ngx_http_mistral_limit_node_t *node);
    void       (*roll)(ngx_http_mistral_limit_zone_t *zone,
                       ngx_http_mistral_limit_node_t *node,
                       const mst_rate_t *rate);
    int        (*take)(ngx_http_mistral_limit_node_t *node,
                       ngx_http_mistral_debit_t *d, mst_hold_t *hold,
                       uint64_t tokens);
    uint64_t   (*more)(ngx_http_mistral_limit_node_t *node,
                       ngx_http_mistral_debit_t *d, mst_hold_t *hold,
                       uint64_t tokens, int debt);
    void       (*settle)(ngx_http_mistral_limit_node_t *node,
                         const mst_rate_t *rate, mst_hold_t *hold,
                         uint64_t tokens);
    void       (*look)(ngx_http_mistral_limit_node_t *node,
                       ngx_http_mistral_debit_t *d);

    mst_list_t *(*holds)(ngx_http_mistral_limit_node_t *node);

    /* without holds it is as if it had never been */
    ngx_uint_t (*idle)(const ngx_http_mistral_limit_node_t *node);
};


struct ngx_http_mistral_limit_node_s {
    ngx_rbtree_node_t                node;     /* key: hash of the key */
    ngx_queue_t                      lru;
    mst_rate_t                       rate;     /* of its last request */
    uint64_t                         now;      /* of its last roll, ns */
    uint32_t                         paced;    /* answers */
    u_short                          len;

    union {
        mst_bucket_t                 bucket;
        mst_budget_t                 budget;
    } u;

    u_char                           data[1];
};


/* a request's */
typedef struct {
    ngx_http_request_t              *request;
    ngx_array_t                      debits;   /* of _debit_t */
    ngx_http_mistral_debit_t         refusal;  /* limit NULL: none */
    ngx_uint_t                       status;
    unsigned                         asked:1;  /* there is a status */
    unsigned                         dry_run:1;
    unsigned                         scarce:1; /* an answer may need more than
                                                  its reserve */
} ngx_http_mistral_limit_ctx_t;


/* what an answer has taken so far, by all that may be counted */
typedef struct {
    uint64_t                         prompt;
    uint64_t                         cached;
    uint64_t                         completion;
} ngx_http_mistral_limit_used_t;


/* an open debit, in the shared memory */
struct ngx_http_mistral_limit_hold_s {
    mst_hold_t                       hold;     /* in its node */
    ngx_queue_t                      queue;    /* of its owner */
    ngx_http_mistral_limit_node_t   *node;     /* NULL: gone */
    mst_rate_t                       rate;
    _Atomic uint64_t                 used;     /* tokens so far; the owner
                                                  writes, without the lock */
    uint32_t                         paced;    /* in the node's sum */
};


/* the head of a zone */
struct ngx_http_mistral_limit_table_s {
    _Atomic uint32_t                 inside;   /* somebody changes it */
    uint64_t                         generation;   /* changes when all of it
                                                  is made anew */
    ngx_rbtree_t                     rbtree;
    ngx_rbtree_node_t                sentinel;
    ngx_queue_t                      lru;      /* newest first */
    ngx_queue_t                      owners;
    uint64_t                         swept_ns; /* owners were looked at */
    uint64_t                         warned_ns;    /* of too little memory */
    _Atomic uint64_t                 counts[NGX_HTTP_MISTRAL_LIMIT_STATUSES];

    /* the state file as this nginx knows it */
    ngx_uint_t                       dirty;
    uint64_t                         saved_ns; /* begun */
    uint64_t                         save_ns;  /* how long it took */
    _Atomic uint32_t                 unwritten;    /* cannot be, and this is
                                                  logged */
    ino_t                            file_ino;
    off_t                            file_size;
    struct timespec                  file_mtime;
};


extern ngx_module_t  ngx_http_mistral_limit_module;
extern const ngx_http_mistral_policy_t  ngx_http_mistral_limit_policy;
extern const ngx_http_mistral_limit_kind_t  ngx_http_mistral_limit_bucket;
extern const ngx_http_mistral_limit_kind_t  ngx_http_mistral_limit_quota;


/* limit_conf.c; the line's parameters from the first on, into a table that
   ends with an empty name; invalid: logs why, and is NGX_ERROR */
ngx_int_t ngx_http_mistral_limit_params(ngx_conf_t *cf, ngx_uint_t first,
    ngx_http_mistral_limit_param_t *params);
ngx_int_t ngx_http_mistral_limit_invalid(ngx_conf_t *cf,
    ngx_http_mistral_limit_param_t *p, const char *why);

/* limit_zone_conf.c */
char *ngx_http_mistral_limit_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mistral_quota_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* limit.c; get_ctx: NULL, it has come to no limit */
ngx_http_mistral_limit_ctx_t *ngx_http_mistral_limit_get_ctx(
    ngx_http_request_t *r);
uint64_t ngx_http_mistral_limit_real(const ngx_http_mistral_limit_t *limit,
    const ngx_http_mistral_limit_used_t *used);

/* limit_ask.c; all of them (NULL: none), each a debit more; NGX_DECLINED: the
   request has its error; seconds: until there is enough, 0: never */
ngx_int_t ngx_http_mistral_limit_ask(ngx_http_mistral_ctx_t *ctx,
    ngx_http_mistral_limit_ctx_t *lctx, ngx_array_t *limits);
uint64_t ngx_http_mistral_limit_seconds(ngx_http_mistral_debit_t *d);

/* limit_show.c */
ngx_int_t ngx_http_mistral_limit_headers(ngx_http_mistral_ctx_t *ctx);
ngx_int_t ngx_http_mistral_limit_add_variables(ngx_conf_t *cf);
void ngx_http_mistral_limit_show(ngx_http_request_t *r, mst_buf_t *out);


/* limit_zone.c; but for the first one and the lock all under the lock */
ngx_int_t ngx_http_mistral_limit_init_zone(ngx_shm_zone_t *shm_zone,
    void *data);
void ngx_http_mistral_limit_lock(ngx_http_mistral_limit_zone_t *zone);
void ngx_http_mistral_limit_unlock(ngx_http_mistral_limit_zone_t *zone);

/* the key's node: NULL, there is none; or made if there is none: NULL, no
   memory */
ngx_http_mistral_limit_node_t *ngx_http_mistral_limit_find(
    ngx_http_mistral_limit_zone_t *zone, ngx_str_t *key);
ngx_http_mistral_limit_node_t *ngx_http_mistral_limit_node(
    ngx_http_mistral_limit_zone_t *zone, ngx_str_t *key);

/* zeroed; other keys may go for it, but for "keep" */
void *ngx_http_mistral_limit_alloc(ngx_http_mistral_limit_zone_t *zone,
    size_t size, ngx_http_mistral_limit_node_t *keep);

/* in the order of the tree: up to "max" nodes after that of "key" (len 0:
   from the first on) */
ngx_uint_t ngx_http_mistral_limit_walk(ngx_http_mistral_limit_zone_t *zone,
    ngx_str_t *key, ngx_http_mistral_limit_node_t **nodes, ngx_uint_t max);

/* limit_debit.c: a worker's start and end */
ngx_int_t ngx_http_mistral_limit_enter(ngx_http_mistral_limit_zone_t *zone);
void ngx_http_mistral_limit_leave(ngx_http_mistral_limit_zone_t *zone);

/* NGX_OK: the debit has its hold, NGX_BUSY, NGX_DECLINED: never, NGX_ERROR:
   the zone is full of holds */
ngx_int_t ngx_http_mistral_debit_take(ngx_http_mistral_debit_t *d,
    ngx_str_t *key, uint64_t tokens);

/* how many of "tokens" more are paid for; paced: answers of this request that
   want to be told their share */
uint64_t ngx_http_mistral_debit_more(ngx_http_mistral_debit_t *d,
    uint64_t tokens, ngx_uint_t debt, uint32_t paced);

/* what was used so far, for whoever settles it if we die */
void ngx_http_mistral_debit_note(ngx_http_mistral_debit_t *d,
    uint64_t tokens);
void ngx_http_mistral_debit_settle(ngx_http_mistral_debit_t *d,
    uint64_t tokens);

/* quota_state.c: for the master */
ngx_int_t ngx_http_mistral_quota_init(ngx_http_mistral_limit_zone_t *zone,
    ngx_uint_t fresh);

/* for workers: 1, the file is not as we left it, or another worker just
   writes it: under the directory's lock it is sure */
ngx_uint_t ngx_http_mistral_quota_differs(ngx_http_mistral_limit_zone_t *zone,
    struct stat *st);

/* under the directory's lock: reads it if it differs; it is as we leave it
   now */
void ngx_http_mistral_quota_changed(ngx_http_mistral_limit_zone_t *zone);
void ngx_http_mistral_quota_remember(ngx_http_mistral_limit_zone_t *zone);

/* quota_save.c */
void ngx_http_mistral_quota_start(ngx_http_mistral_limit_zone_t *zone);
void ngx_http_mistral_quota_finish(ngx_http_mistral_limit_zone_t *zone);
void ngx_http_mistral_quota_stop(ngx_http_mistral_limit_zone_t *zone);


#endif /* NGX_HTTP_MISTRAL_LIMIT_H */

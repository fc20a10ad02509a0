
/*
 * What the files of the supervisor share: mistral_engine_super.c (its life),
 * mistral_engine_adopt.c (an engine that is its parent, not its child),
 * mistral_engine_users.c (is anybody left who needs the engine?).  Nobody
 * else includes it.
 */

#ifndef MISTRAL_ENGINE_SUPER_H
#define MISTRAL_ENGINE_SUPER_H

#include <stdint.h>
#include <sys/types.h>

#include "tools/mistral_engine.h"


#define MISTRAL_SUPER_MASTERS  16


typedef struct {
    mistral_engine_t  *e;
    mst_shm_t         *shm;
    int                exe;        /* of ourselves, O_PATH */
    int                sfd;        /* signalfd */

    pid_t              engine;     /* 0 = none */
    int                adopted;    /* it is our parent, not our child */
    uint64_t           started_ns;
    uint64_t           start_ns;   /* while there is none: when to start */
    uint32_t           deaths;     /* since the last good life */
    uint64_t           term_ns;    /* last TERM that we got ourselves */

    uint64_t           look_ns;    /* next look at what has no event */
    uint32_t           masters[MISTRAL_SUPER_MASTERS];  /* known and alive */
    int                quiet;      /* looks in a row that found nobody */
    uint64_t           beat_ns;    /* the heartbeat of the last look */
    uint64_t           hung_ms;    /* its age when we killed the engine; 0 =
                                      we did not */
} mistral_super_t;


/* mistral_engine_adopt.c */

/* MST_ERROR: there is another supervisor */
int mistral_adopt_take(mistral_super_t *s, pid_t engine, pid_t before);

/* of the engine, child or parent; gone: waits for a child at the same time */
void mistral_adopt_kill(mistral_super_t *s, int signo);
int mistral_adopt_gone(mistral_super_t *s);


/* mistral_engine_users.c: once a second; 1 = nobody is left */
int mistral_users_nobody(mistral_super_t *s);


#endif /* MISTRAL_ENGINE_SUPER_H */

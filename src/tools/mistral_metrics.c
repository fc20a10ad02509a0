
/*
 * mistral metrics: what a running engine says of itself in its segment of
 * shared memory.
 *
 * The segment is reached through a process of the engine and mapped for
 * reading, so that nothing here can disturb it.  What stands there is
 * checked as by any other reader (shm/mst_shm.h).
 */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_time.h"
#include "shm/mst_place.h"
#include "shm/mst_slot.h"
#include "tools/mistral_option.h"
#include "tools/mistral_tool.h"

#define MISTRAL_METRICS_ENGINES  64


static struct {
    int       help;
    int       json;
    uint64_t  pid;
} mistral_metrics_args;


static const mistral_option_t  mistral_metrics_options[] = {
    { "--help", MISTRAL_FLAG, &mistral_metrics_args.help, 0, 0 },
    { "-h", MISTRAL_FLAG, &mistral_metrics_args.help, 0, 0 },
    { "--json", MISTRAL_FLAG, &mistral_metrics_args.json, 0, 0 },
    { "--pid", MISTRAL_UINT, &mistral_metrics_args.pid, 1, INT32_MAX }
};


static const char  mistral_metrics_help[] =
    "usage: mistral metrics [OPTION...]\n"
    "\n"
    "Shows state, gauges and counters of the engines of nginx that run here,\n"
    "read from their shared memory.  Needs to be root or the engine's user.\n"
    "\n"
    "state is init, loading, ready, draining, or down: dead, or ready with a\n"
    "heartbeat (beat_age_ns) older than engine_timeout; master_pid is nginx,\n"
    "whose workers use the engine; the other fields: docs/metrics.md\n"
    "\n"
    "  --pid N  the engine or the supervisor with this process id (default:\n"
    "           all engines that can be found)\n"
    "  --json   print a list of objects\n";


typedef struct {
    const char  *name;
    size_t       offset;           /* of the word in mst_stat_t */
} mistral_metric_t;

#define MISTRAL_METRIC(field)  { #field, offsetof(mst_stat_t, field) }

static const mistral_metric_t  mistral_metrics_words[] = {
    MISTRAL_METRIC(load_ns),
    MISTRAL_METRIC(loaded),
    MISTRAL_METRIC(steps),
    MISTRAL_METRIC(last_step_ns),
    MISTRAL_METRIC(running),
    MISTRAL_METRIC(waiting),
    MISTRAL_METRIC(waiting_tokens),
    MISTRAL_METRIC(blocks_total),
    MISTRAL_METRIC(blocks_used),
    MISTRAL_METRIC(blocks_cached),
    MISTRAL_METRIC(block_tokens),
    MISTRAL_METRIC(slack_tokens),
    MISTRAL_METRIC(weight_size),
    MISTRAL_METRIC(total_steps),
    MISTRAL_METRIC(prompt_tokens),
    MISTRAL_METRIC(cached_tokens),
    MISTRAL_METRIC(completion_tokens),
    MISTRAL_METRIC(preemptions),
    MISTRAL_METRIC(finished),
    MISTRAL_METRIC(refused),
    MISTRAL_METRIC(cancelled),
    MISTRAL_METRIC(slots_reclaimed),
    MISTRAL_METRIC(bad_records)
};

#undef MISTRAL_METRIC

#define MISTRAL_METRICS_WORDS                                                 \
    (sizeof(mistral_metrics_words) / sizeof(*mistral_metrics_words))


/* the words before the setup are the segment's size and identity; they are
   read once and what was checked is what is used */

static int
mistral_metrics_check(int fd, uint64_t *size, uint32_t *n_slots,
    mst_err_t *err)
{
    int          seals;
    ssize_t      n;
    mst_shm_t    head;
    struct stat  st;

    n = pread(fd, &head, offsetof(mst_shm_t, name), 0);

    if (n != (ssize_t) offsetof(mst_shm_t, name)
        || head.magic != MST_SHM_MAGIC)
    {
        return mst_err_set(err, "descriptor %d of it is not the shared memory "
                           "of an engine", MST_FD_MEM);
    }

    if (head.layout != mst_shm_layout()) {
        return mst_err_set(err, "its shared memory has layout %016llx, this "
                           "program is built for %016llx",
                           (unsigned long long) head.layout,
                           (unsigned long long) mst_shm_layout());
    }

    seals = fcntl(fd, F_GET_SEALS);

    if (fstat(fd, &st) == -1 || seals == -1 || !(seals & F_SEAL_SHRINK)
        || (uint64_t) st.st_size != head.size || head.n_slots > MST_MAX_SLOTS
        || head.size < sizeof(mst_shm_t) + head.n_slots * sizeof(mst_slot_t))
    {
        return mst_err_set(err, "its shared memory is damaged");
    }

    *size = head.size;
    *n_slots = head.n_slots;

    return MST_OK;
}


static int
mistral_metrics_attach(mst_map_t *m, uint64_t pid, mst_err_t *err)
{
    int       fd, rc;
    void     *p;
    char      path[64];
    uint64_t  size;

    memset(m, 0, sizeof(*m));

    (void) snprintf(path, sizeof(path), "/proc/%llu/fd/%d",
                    (unsigned long long) pid, MST_FD_MEM);
    fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd == -1) {
        return mst_err_errno(err, errno, "the shared memory cannot be opened");
    }

    rc = mistral_metrics_check(fd, &size, &m->n_slots, err);

    if (rc == MST_OK) {
        p = mmap(NULL, (size_t) size, PROT_READ, MAP_SHARED, fd, 0);

        if (p == MAP_FAILED) {
            rc = mst_err_errno(err, errno, "the shared memory cannot be "
                               "mapped");
        } else {
            m->shm = p;
            m->size = (size_t) size;
            m->slots = (mst_slot_t *) ((unsigned char *) p
                                       + sizeof(mst_shm_t));
        }
    }

    (void) close(fd);

    return rc;
}


/* what the engine wrote last, unless its heartbeat is too old: it hangs, or
   it is dead and nobody was left to say so */

static const char *
mistral_metrics_state(const mst_shm_t *shm, uint64_t beat_age)
{
    uint32_t  state, timeout;

    static const char *const  names[] = {
        "init", "loading", "ready", "draining", "down"
    };

    state = atomic_load(&shm->state);
    timeout = atomic_load(&shm->timeout_ms);

    if (state == MST_STATE_READY && timeout && beat_age > timeout * MST_MS) {
        return "down";
    }

    return state < sizeof(names) / sizeof(*names) ? names[state] : "damaged";
}


/* the block's name: printable, terminated */

static void
mistral_metrics_name(const mst_shm_t *shm, char name[64])
{
    size_t  i;

    for (i = 0; i < 63 && shm->name[i]; i++) {
        name[i] = shm->name[i];

        if (name[i] < ' ' || name[i] > '~') {
            name[i] = '?';
        }
    }

    name[i] = '\0';
}


static json_t *
mistral_metrics_object(const mst_map_t *m)
{
    char              name[64], backend[64];
    size_t            i;
    json_t           *o;
    uint32_t          requests, workers, master;
    uint64_t          tokens, beat_age;
    const mst_shm_t  *shm;

    shm = m->shm;
    beat_age = mst_stat_beat_age(&shm->stat, mst_time_ns());
    mistral_metrics_name(shm, name);
    mst_stat_backend(&shm->stat, backend);
    mst_place_held(shm, &requests, &tokens);

    for (i = 0, workers = 0, master = 0; i < m->n_slots; i++) {

        if (mst_slot_state(&m->slots[i]) == MST_SLOT_USED) {
            workers++;
            master = atomic_load(&m->slots[i].master);
        }
    }

    o = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}",
                  "model", name,
                  "state", mistral_metrics_state(shm, beat_age),
                  "backend", backend,
                  "engine_pid", (json_int_t) atomic_load(&shm->engine_pid),
                  "supervisor_pid",
                  (json_int_t) atomic_load(&shm->supervisor_pid),
                  "engine_epoch", (json_int_t) atomic_load(&shm->engine_epoch),
                  "restarts", (json_int_t) atomic_load(&shm->restarts),
                  "max_batch", (json_int_t) atomic_load(&shm->max_batch),
                  "context", (json_int_t) atomic_load(&shm->context));

    (void) json_object_update_new(o,
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}",
                  "master_pid", (json_int_t) master,
                  "workers", (json_int_t) workers,
                  "slots", (json_int_t) m->n_slots,
                  "held_requests", (json_int_t) requests,
                  "held_tokens", (json_int_t) tokens,
                  "beat_age_ns", (json_int_t) beat_age));

    for (i = 0; i < MISTRAL_METRICS_WORDS; i++) {
        (void) json_object_set_new(o, mistral_metrics_words[i].name,
            json_integer((json_int_t)
                mst_stat_get((const _Atomic uint64_t *) (const void *)
                             ((const char *) &shm->stat
                              + mistral_metrics_words[i].offset))));
    }

    return o;
}


static void
mistral_metrics_text(json_t *o)
{
    json_t      *value;
    const char  *key;

    json_object_foreach(o, key, value) {

        if (json_is_string(value)) {
            (void) printf("%-18s %s\n", key, json_string_value(value));

        } else {
            (void) printf("%-18s %lld\n", key,
                          (long long) json_integer_value(value));
        }
    }
}


/* "mistral engine" by its command line; its memory may be out of reach */

static int
mistral_metrics_is_engine(const char *pid)
{
    int      fd;
    char     path[300], line[4096];
    size_t   first;
    ssize_t  n;

    (void) snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd == -1) {
        return 0;
    }

    n = read(fd, line, sizeof(line) - 1);
    (void) close(fd);

    if (n <= 0) {
        return 0;
    }

    line[n] = '\0';
    first = strlen(line);

    return first >= 7 && strcmp(line + first - 7, "mistral") == 0
           && (ssize_t) first + 1 < n
           && strcmp(line + first + 1, "engine") == 0;
}


/* engine and supervisor have one segment; its supervisor tells it */

static int
mistral_metrics_known(const json_t *list, const json_t *o)
{
    size_t             i;
    const json_t      *pid;

    pid = json_object_get(o, "supervisor_pid");

    for (i = 0; i < json_array_size(list); i++) {
        if (json_equal(json_object_get(json_array_get(list, i),
                                       "supervisor_pid"), pid))
        {
            return 1;
        }
    }

    return 0;
}


static int
mistral_metrics_add(json_t *list, uint64_t pid, mst_err_t *err)
{
    json_t     *o;
    mst_map_t   map;

    if (mistral_metrics_attach(&map, pid, err) != MST_OK) {
        return MST_ERROR;
    }

    o = mistral_metrics_object(&map);

    if (mistral_metrics_known(list, o)) {
        json_decref(o);

    } else {
        (void) json_array_append_new(list, o);
    }

    mst_shm_detach(&map);

    return MST_OK;
}


static int
mistral_metrics_all(json_t *list)
{
    DIR            *dir;
    uint64_t        denied;
    mst_err_t       err;
    struct dirent  *entry;

    dir = opendir("/proc");

    if (dir == NULL) {
        return mistral_complain(MISTRAL_FAILED, "metrics", "/proc: %s",
                                strerror(errno));
    }

    denied = 0;

    while ((entry = readdir(dir)) != NULL) {

        if (!isdigit((unsigned char) entry->d_name[0])
            || json_array_size(list) == MISTRAL_METRICS_ENGINES
            || !mistral_metrics_is_engine(entry->d_name))
        {
            continue;
        }

        err.text[0] = '\0';

        if (mistral_metrics_add(list, strtoull(entry->d_name, NULL, 10), &err)
            != MST_OK)
        {
            denied = strtoull(entry->d_name, NULL, 10);
        }
    }

    (void) closedir(dir);

    if (json_array_size(list)) {
        return MISTRAL_OK;
    }

    if (denied) {
        return mistral_complain(MISTRAL_FAILED, "metrics", "process %llu: %s",
                                (unsigned long long) denied, err.text);
    }

    return mistral_complain(MISTRAL_FAILED, "metrics", "no engine of nginx "
                            "runs here");
}


int
mistral_metrics(int argc, char **argv)
{
    int         rc;
    size_t      i;
    json_t     *list;
    mst_err_t   err;

    rc = mistral_option_parse(mistral_metrics_options,
                              sizeof(mistral_metrics_options)
                              / sizeof(*mistral_metrics_options), argc, argv);

    if (rc != MISTRAL_OK) {
        return rc;
    }

    if (mistral_metrics_args.help) {
        (void) fputs(mistral_metrics_help, stdout);
        return MISTRAL_OK;
    }

    err.text[0] = '\0';
    list = json_array();

    if (mistral_metrics_args.pid == 0) {
        rc = mistral_metrics_all(list);

    } else if (mistral_metrics_add(list, mistral_metrics_args.pid, &err)
               != MST_OK)
    {
        rc = mistral_complain(MISTRAL_FAILED, argv[0], "process %llu: %s",
                              (unsigned long long) mistral_metrics_args.pid,
                              err.text);
    }

    if (rc == MISTRAL_OK && mistral_metrics_args.json) {
        (void) json_dumpf(list, stdout, JSON_INDENT(2));
        (void) putchar('\n');
    }

    for (i = 0; rc == MISTRAL_OK && !mistral_metrics_args.json
                && i < json_array_size(list); i++)
    {
        (void) fputs(i ? "\n" : "", stdout);
        mistral_metrics_text(json_array_get(list, i));
    }

    json_decref(list);

    if (rc == MISTRAL_OK && (fflush(stdout) == EOF || ferror(stdout))) {
        rc = mistral_complain(MISTRAL_FAILED, argv[0], "stdout: %s",
                              strerror(errno));
    }

    return rc;
}

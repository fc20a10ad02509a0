
/*
 * The program: one binary, a table of commands.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_version.h"
#include "tools/mistral_tool.h"


typedef struct {
    const char   *name;
    int         (*run)(int argc, char **argv);
    const char   *what;        /* one line for --help */
} mistral_command_t;


static const mistral_command_t  mistral_commands[] = {
    { "bench", mistral_bench, "measure a server, or the engine alone" },
    { "diagnose", mistral_diagnose,
      "what there is to compute with, each kernel once" },
    { "engine", mistral_engine, "what nginx runs; --probe" },
    { "generate", mistral_generate, "answer one prompt on the terminal" },
    { "healthcheck", mistral_healthcheck,
      "ask a URL whether a server is ready" },
    { "inspect", mistral_inspect, "what a model holds, whether it would run" },
    { "metrics", mistral_metrics, "what a running engine says of itself" }
};

#define MISTRAL_COMMANDS                                                      \
    (sizeof(mistral_commands) / sizeof(*mistral_commands))


int
mistral_complain(int code, const char *name, const char *fmt, ...)
{
    va_list  args;

    (void) fprintf(stderr, "mistral %s: ", name);

    va_start(args, fmt);
    (void) vfprintf(stderr, fmt, args);
    va_end(args);

    (void) fputc('\n', stderr);

    return code;
}


static void
mistral_help(FILE *out)
{
    size_t  i;

    (void) fputs("usage: mistral COMMAND [OPTION...]\n"
                 "       mistral COMMAND --help\n"
                 "       mistral --version\n"
                 "\n"
                 "commands:\n", out);

    for (i = 0; i < MISTRAL_COMMANDS; i++) {
        (void) fprintf(out, "  %-12s %s\n", mistral_commands[i].name,
                       mistral_commands[i].what);
    }

    (void) fputs("\n"
                 "exit codes:\n"
                 "  0   done\n"
                 "  1   it was tried and failed\n"
                 "  2   the command line makes no sense\n"
                 "  78  the configuration or the model cannot be run\n", out);
}


int
main(int argc, char **argv)
{
    size_t  i;

    if (argc < 2) {
        mistral_help(stderr);
        return MISTRAL_USAGE;
    }

    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0
        || strcmp(argv[1], "help") == 0)
    {
        mistral_help(stdout);
        return MISTRAL_OK;
    }

    if (strcmp(argv[1], "--version") == 0) {
        (void) puts("mistral " MST_VERSION);
        return MISTRAL_OK;
    }

    for (i = 0; i < MISTRAL_COMMANDS; i++) {
        if (strcmp(argv[1], mistral_commands[i].name) == 0) {
            return mistral_commands[i].run(argc - 1, argv + 1);
        }
    }

    (void) fprintf(stderr, "mistral: there is no command \"%s\", see "
                   "\"mistral --help\"\n", argv[1]);

    return MISTRAL_USAGE;
}

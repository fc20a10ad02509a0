
/*
 * The commands of the program "mistral" and what they share.
 *
 * A command gets its own name as argv[0] and returns the exit code.  It
 * prints what it was asked for on stdout, everything else on stderr, and
 * answers --help.
 */

#ifndef MISTRAL_TOOL_H
#define MISTRAL_TOOL_H


#define MISTRAL_OK       0
#define MISTRAL_FAILED   1         /* it was tried and did not work */
#define MISTRAL_USAGE    2         /* the command line makes no sense */
#define MISTRAL_REFUSED  78        /* the configuration or the model cannot
                                      be run, and trying again will not help;
                                      sysexits.h: EX_CONFIG */


int mistral_bench(int argc, char **argv);
int mistral_diagnose(int argc, char **argv);
int mistral_engine(int argc, char **argv);
int mistral_generate(int argc, char **argv);
int mistral_healthcheck(int argc, char **argv);
int mistral_inspect(int argc, char **argv);
int mistral_metrics(int argc, char **argv);

/* "mistral NAME: sentence" on stderr; returns the code, for "return" */
int mistral_complain(int code, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));


#endif /* MISTRAL_TOOL_H */

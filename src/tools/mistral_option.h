
/*
 * Command line options from a table.  Strict: no abbreviations, numbers are
 * whole and in range, and what is not understood is one sentence.
 */

#ifndef MISTRAL_OPTION_H
#define MISTRAL_OPTION_H

#include <stddef.h>
#include <stdint.h>


typedef enum {
    MISTRAL_FLAG,              /* int: set to 1 */
    MISTRAL_TEXT,              /* const char *, into argv */
    MISTRAL_LIST,              /* const char *[high + 1], into argv: may be
                                  given "high" times, NULL ends it */
    MISTRAL_UINT,              /* uint64_t */
    MISTRAL_REAL               /* double */
} mistral_kind_t;


typedef struct {
    const char      *name;     /* "--seed" */
    mistral_kind_t   kind;
    void            *value;    /* of the type that goes with the kind; left as
                                  it was when the option is not given */
    double           low;      /* of numbers */
    double           high;
} mistral_option_t;


/* argv[0] is the command's name, for messages.  "--name value" and
   "--name=value"; MISTRAL_OK or MISTRAL_USAGE. */
int mistral_option_parse(const mistral_option_t *table, size_t n, int argc,
    char **argv);

/*
 * Takes the first argument that is no option and no option's value out of
 * argv; NULL: there is none.  For commands with one operand, before
 * mistral_option_parse(), which complains about every further one.
 */
const char *mistral_option_operand(const mistral_option_t *table, size_t n,
    int *argc, char **argv);


#endif /* MISTRAL_OPTION_H */

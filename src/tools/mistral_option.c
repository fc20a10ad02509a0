
/*
 * Command line options: see mistral_option.h.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mistral_option.h"
#include "tools/mistral_tool.h"


static const mistral_option_t *
mistral_option_find(const mistral_option_t *table, size_t n, const char *arg)
{
    size_t  i, len;

    len = strcspn(arg, "=");

    for (i = 0; i < n; i++) {
        if (strncmp(table[i].name, arg, len) == 0
            && table[i].name[len] == '\0')
        {
            return &table[i];
        }
    }

    return NULL;
}


static int
mistral_option_add(const mistral_option_t *o, const char *value,
    const char *command)
{
    size_t        n;
    const char  **list;

    list = o->value;

    for (n = 0; list[n]; n++) { /* void */ }

    if (n == (size_t) o->high) {
        return mistral_complain(MISTRAL_USAGE, command, "%s is given more "
                                "than %g times", o->name, o->high);
    }

    list[n] = value;

    return MISTRAL_OK;
}


static int
mistral_option_set(const mistral_option_t *o, const char *value,
    const char *command)
{
    char      *end;
    double     number;
    uint64_t   whole;

    if (o->kind == MISTRAL_TEXT) {
        *(const char **) o->value = value;
        return MISTRAL_OK;
    }

    if (o->kind == MISTRAL_LIST) {
        return mistral_option_add(o, value, command);
    }

    /* the C library would take "", " 5", "-1" as unsigned and "0x1p3" */

    if (value[0] == '\0' || strspn(value, "0123456789.eE+-") != strlen(value)) {
        return mistral_complain(MISTRAL_USAGE, command, "%s \"%s\" is no "
                                "number", o->name, value);
    }

    errno = 0;

    if (o->kind == MISTRAL_UINT) {

        if (strspn(value, "0123456789") != strlen(value)) {
            return mistral_complain(MISTRAL_USAGE, command, "%s \"%s\" is no "
                                    "whole number", o->name, value);
        }

        whole = strtoull(value, &end, 10);
        number = (double) whole;

    } else {
        whole = 0;
        number = strtod(value, &end);
    }

    if (*end != '\0') {
        return mistral_complain(MISTRAL_USAGE, command, "%s \"%s\" is no "
                                "number", o->name, value);
    }

    if (errno == ERANGE || !(number >= o->low && number <= o->high)) {
        return mistral_complain(MISTRAL_USAGE, command, "%s %s is outside %g "
                                ".. %.10g", o->name, value, o->low, o->high);
    }

    if (o->kind == MISTRAL_UINT) {
        *(uint64_t *) o->value = whole;

    } else {
        *(double *) o->value = number;
    }

    return MISTRAL_OK;
}


int
mistral_option_parse(const mistral_option_t *table, size_t n, int argc,
    char **argv)
{
    int                      i, rc;
    const char              *value;
    const mistral_option_t  *o;

    for (i = 1; i < argc; i++) {

        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            return mistral_complain(MISTRAL_USAGE, argv[0], "argument \"%s\" "
                                    "belongs to no option", argv[i]);
        }

        o = mistral_option_find(table, n, argv[i]);

        if (o == NULL) {
            return mistral_complain(MISTRAL_USAGE, argv[0], "there is no "
                                    "option \"%s\", see \"mistral %s --help\"",
                                    argv[i], argv[0]);
        }

        value = strchr(argv[i], '=');

        if (o->kind == MISTRAL_FLAG) {

            if (value) {
                return mistral_complain(MISTRAL_USAGE, argv[0], "%s takes no "
                                        "value", o->name);
            }

            *(int *) o->value = 1;
            continue;
        }

        if (value) {
            value++;

        } else if (i + 1 < argc) {
            value = argv[++i];

        } else {
            return mistral_complain(MISTRAL_USAGE, argv[0], "%s needs a "
                                    "value", o->name);
        }

        rc = mistral_option_set(o, value, argv[0]);

        if (rc != MISTRAL_OK) {
            return rc;
        }
    }

    return MISTRAL_OK;
}


const char *
mistral_option_operand(const mistral_option_t *table, size_t n, int *argc,
    char **argv)
{
    int                      i;
    const char              *operand;
    const mistral_option_t  *o;

    for (i = 1; i < *argc; i++) {

        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            operand = argv[i];

            memmove(&argv[i], &argv[i + 1],
                    (size_t) (*argc - i) * sizeof(char *));
            (*argc)--;

            return operand;
        }

        o = mistral_option_find(table, n, argv[i]);

        if (o && o->kind != MISTRAL_FLAG && strchr(argv[i], '=') == NULL) {
            i++;
        }
    }

    return NULL;
}

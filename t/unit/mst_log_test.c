
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_log.h"


typedef struct {
    int              calls;
    mst_log_level_t  level;
    char             text[2000];
} seen_t;


static void
handler(void *data, mst_log_level_t level, const char *text)
{
    seen_t  *seen = data;

    seen->calls++;
    seen->level = level;
    (void) snprintf(seen->text, sizeof(seen->text), "%s", text);
}


static void
test_levels(void **state)
{
    seen_t     seen = { 0 };
    mst_log_t  log = { handler, &seen, MST_LOG_WARN };

    (void) state;

    mst_log(&log, MST_LOG_WARN, "%s %d", "text", 5);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.level, MST_LOG_WARN);
    assert_string_equal(seen.text, "text 5");

    mst_log(&log, MST_LOG_NOTICE, "dropped");
    mst_log(&log, MST_LOG_DEBUG, "dropped");
    assert_int_equal(seen.calls, 1);

    mst_log(&log, MST_LOG_ALERT, "kept");
    assert_int_equal(seen.calls, 2);
    assert_string_equal(seen.text, "kept");
}


static void
test_nobody(void **state)
{
    mst_log_t  log = { NULL, NULL, MST_LOG_DEBUG };

    (void) state;

    mst_log(NULL, MST_LOG_ALERT, "x");
    mst_log(&log, MST_LOG_ALERT, "x");
}


static void
test_lines(void **state)
{
    char       text[1500];
    seen_t     seen = { 0 };
    mst_log_t  log = { handler, &seen, MST_LOG_DEBUG };

    (void) state;

    mst_log(&log, MST_LOG_INFO, "%s", "one\ntwo\r\n[alert] forged");
    assert_string_equal(seen.text, "one two  [alert] forged");

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    mst_log(&log, MST_LOG_INFO, "%s", text);
    assert_int_equal(strlen(seen.text), 1000);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_lines)
    };

    return cmocka_run_group_tests_name("mst_log", tests, NULL, NULL);
}

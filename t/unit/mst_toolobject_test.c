
/*
 * What a call is made of: names, ids, objects and arguments as a transcript,
 * those that are malformed, too.
 */

#include "mst_toolcall_hear.h"


/* the same whether calls are told whole or not */

static const struct {
    const char  *text;
    const char  *want;
} good[] = {

    /* a list */

    { "\1[{\"name\": \"f\", \"arguments\": {\"a\": [1, \"]\"]}}]",
      "C:f|A:{\"a\": [1, \"]\"]}" },
    { "I look.\1 [{\"name\":\"f\",\"arguments\":{}} , \n"
      "{\"name\":\"g-2_X\",\"arguments\":{\"b\":\"\\\"}\"},\"id\":\"q\"}]\n",
      "T:I look.|C:f|A:{}|C:g-2_X|A:{\"b\":\"\\\"}\"}" },
    { "\1[{\"arguments\": {\"x\": 1}, \"name\": \"late\"}]",
      "C:late|A:{\"x\": 1}" },
    { "\1[{\"id\": 12, \"type\": null, \"name\": \"f\"}]", "C:f|A:{}" },
    { "\1{\"name\": \"f\", \"parameters\": {\"k\": {}}}",
      "C:f|A:{\"k\": {}}" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}] and more",
      "C:f|A:{}|T:and more" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}]\1[{\"name\": \"g\"}]",
      "C:f|A:{}|C:g|A:{}" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}", "C:f|A:{}" },

    /* names and marks */

    { "\1f\3{\"a\": 1}", "C:f|A:{\"a\": 1}" },
    { "Text \1f\2abcdefghi\3{\"a\": 1}\1g\2k\3 {}\n",
      "T:Text |C:f|A:{\"a\": 1}|C:g|A:{}" },
    { "\1 f \n\3{}\1g\3{\"x\":\"\xc3\xa9\"}",
      "C:f|A:{}|C:g|A:{\"x\":\"\xc3\xa9\"}" },
    { "\1f{\"a\": 1}", "C:f|A:{\"a\": 1}" },

    /* none */

    { "\1[]", "X:!|T:[]" },
    { "\1hello world", "X:!|T:hello world" },
    { "\1two words\3{}", "X:!|T:two words{}" },
    { "\1[{\"name\": \"f g\", \"arguments\": {}}] x",
      "X:!|T:[{\"name\": \"f g\", \"arguments\": {}}] x" },
    { "\1[{\"arguments\": {}}]", "X:!|T:[{\"arguments\": {}}]" },
    { "\1[{\"name\": \"f\", \"arguments\": \"{}\"}]",
      "X:!|T:[{\"name\": \"f\", \"arguments\": \"{}\"}]" },
    { "\1[{\"name\": \"f\", \"name\": \"g\"}]",
      "X:!|T:[{\"name\": \"f\", \"name\": \"g\"}]" },
    { "\1[{\"name\": \"f\", ]", "X:!|T:[{\"name\": \"f\", ]" },
    { "\1[{\"n\\u0061me\": 1}]", "X:!|T:[{\"n\\u0061me\": 1}]" },
    { "\1f\3\"x\"", "X:!|T:f\"x\"" },
    { "\1[{\"name\": \"f\", \"arguments\": {}}, oh",
      "C:f|A:{}|X:!|T:, oh" }
};


static void
test_good(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        check(&marks, 0, 0, good[i].text, good[i].want, 0);
        check(&marks, 1, 0, good[i].text, good[i].want, 0);
    }
}


/* told already or not makes the difference */

static void
test_malformed(void **state)
{
    (void) state;

    check(&marks, 0, 0, "a\1f\3{\"x\": tru!} b", "T:a|C:f|A:{\"x\": tru|X:!"
          "|T:!} b", 0);
    check(&marks, 1, 0, "a\1f\3{\"x\": tru!} b", "T:a|X:!|T:f{\"x\": tru!} b",
          0);

    check(&marks, 0, 0, "\1f\3{\"x\": 1", "C:f|A:{\"x\": 1|X:!", 0);
    check(&marks, 1, 0, "\1f\3{\"x\": 1", "X:!|T:f{\"x\": 1", 0);

    check(&marks, 1, 0, "\1[{\"name\": \"f\", \"arguments\": {}}, "
          "{\"name\": \"g\", \"arguments\": {x}}]",
          "C:f|A:{}|X:!|T:, {\"name\": \"g\", \"arguments\": {x}}]", 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_malformed)
    };

    return cmocka_run_group_tests_name("mst_toolobject", tests, NULL, NULL);
}


/*
 * Names to roles and back; what a configuration asks for.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "model/mst_weight.h"


static void
test_match(void **state)
{
    int                 rc;
    size_t              i;
    mst_weight_match_t  m;

    static const struct {
        mst_names_t   names;
        const char   *name;
        int           rc;
        mst_weight_t  role;
        uint32_t      layer, expert;
    } cases[] = {
        { MST_NAMES_GGUF, "token_embd.weight", MST_OK, MST_WEIGHT_EMBD, 0, 0 },
        { MST_NAMES_GGUF, "blk.12.attn_q.weight", MST_OK, MST_WEIGHT_Q, 12,
          0 },
        { MST_NAMES_GGUF, "blk.3.ffn_down.7.weight", MST_OK, MST_WEIGHT_DOWN,
          3, 7 },
        { MST_NAMES_GGUF, "blk.3.ffn_down_exps.weight", MST_OK,
          MST_WEIGHT_DOWN, 3, 0 },
        { MST_NAMES_GGUF, "blk.03.attn_q.weight", MST_DECLINED, 0, 0, 0 },
        { MST_NAMES_GGUF, "blk..attn_q.weight", MST_DECLINED, 0, 0, 0 },
        { MST_NAMES_GGUF, "blk.3.attn_q.weight.", MST_DECLINED, 0, 0, 0 },
        { MST_NAMES_GGUF, "blk.99999999999999999999.attn_q.weight",
          MST_DECLINED, 0, 0, 0 },
        { MST_NAMES_HF, "model.layers.0.self_attn.k_proj.bias", MST_OK,
          MST_WEIGHT_K_BIAS, 0, 0 },
        { MST_NAMES_HF, "model.layers.31.block_sparse_moe.experts.5.w3.weight",
          MST_OK, MST_WEIGHT_UP, 31, 5 },
        { MST_NAMES_HF, "language_model.model.norm.weight", MST_OK,
          MST_WEIGHT_NORM, 0, 0 },
        { MST_NAMES_HF, "language_model.lm_head.weight", MST_OK,
          MST_WEIGHT_HEAD, 0, 0 },
        { MST_NAMES_HF, "model.language_model.layers.1.mlp.up_proj.weight",
          MST_OK, MST_WEIGHT_UP, 1, 0 },
        { MST_NAMES_HF, "vision_tower.patch_conv.weight", MST_DONE, 0, 0, 0 },
        { MST_NAMES_HF, "token_embd.weight", MST_DECLINED, 0, 0, 0 },
        { MST_NAMES_MISTRAL, "layers.2.feed_forward.experts.1.w2.weight",
          MST_OK, MST_WEIGHT_DOWN, 2, 1 },
        { MST_NAMES_MISTRAL, "layers.2.feed_forward.w1.weight", MST_OK,
          MST_WEIGHT_GATE, 2, 0 },
        { MST_NAMES_MISTRAL, "output.weight", MST_OK, MST_WEIGHT_HEAD, 0, 0 },
        { MST_NAMES_MISTRAL, "", MST_DECLINED, 0, 0, 0 }
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        rc = mst_weight_match(cases[i].names,
                              mst_str(cases[i].name, strlen(cases[i].name)),
                              &m);

        if (rc != cases[i].rc
            || (rc == MST_OK && (m.role != cases[i].role
                                 || m.layer != cases[i].layer
                                 || m.expert != cases[i].expert)))
        {
            fail_msg("\"%s\": %d, role %d, layer %u, expert %u",
                     cases[i].name, rc, m.role, m.layer, m.expert);
        }

        assert_int_equal(rc == MST_OK && m.stacked,
                         strstr(cases[i].name, "_exps.") != NULL);
    }
}


/* each role's name is found again, in each naming */

static void
test_names(void **state)
{
    int                 moe;
    char                name[160];
    mst_names_t         names;
    mst_weight_t        role;
    mst_weight_match_t  m;

    (void) state;

    for (names = 0; names < MST_NAMES; names++) {
        for (role = 0; role < MST_WEIGHTS; role++) {
            for (moe = 0; moe < 2; moe++) {

                (void) mst_weight_name(names, role, 4, 6, moe, name,
                                       sizeof(name));

                if (name[0] == '\0') {
                    continue;
                }

                assert_int_equal(mst_weight_match(names,
                                     mst_str(name, strlen(name)), &m), MST_OK);
                assert_int_equal(m.role, role);
                assert_int_equal(m.layer, role < MST_WEIGHT_GLOBALS ? 0 : 4);
                assert_int_equal(m.expert,
                                 moe && role >= MST_WEIGHT_GATE ? 6 : 0);
            }
        }
    }
}


/* a mixture without biases, and a dense model with all of them */

static void
test_shapes(void **state)
{
    uint64_t      in, out;
    mst_config_t  c;

    (void) state;

    memset(&c, 0, sizeof(c));
    c.dim = 64;
    c.ff_dim = 96;
    c.n_heads = 4;
    c.n_kv_heads = 2;
    c.head_dim = 32;
    c.rope_dim = 32;
    c.n_vocab = 1000;
    c.n_experts = 8;
    c.tied = 1;

    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_EMBD), 1);
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_HEAD), 0);
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_ROUTER), 1);
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_Q_BIAS), 0);

    mst_weight_shape(&c, MST_WEIGHT_ROUTER, &in, &out);
    assert_int_equal(in, 64);
    assert_int_equal(out, 8);
    mst_weight_shape(&c, MST_WEIGHT_OUT, &in, &out);
    assert_int_equal(in, 128);
    assert_int_equal(out, 64);
    mst_weight_shape(&c, MST_WEIGHT_V, &in, &out);
    assert_int_equal(in, 64);
    assert_int_equal(out, 64);
    mst_weight_shape(&c, MST_WEIGHT_DOWN, &in, &out);
    assert_int_equal(in, 96);
    assert_int_equal(out, 64);
    mst_weight_shape(&c, MST_WEIGHT_FREQS, &in, &out);
    assert_int_equal(in, 16);
    assert_int_equal(out, 0);

    c.n_experts = 0;
    c.tied = 0;
    c.attn_bias = 1;
    c.out_bias = 1;
    c.mlp_bias = 1;

    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_HEAD), 1);
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_ROUTER), 0);
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_K_BIAS), 1);
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_OUT_BIAS), 1);
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_GATE_BIAS), 1);

    mst_weight_shape(&c, MST_WEIGHT_UP_BIAS, &in, &out);
    assert_int_equal(in, 96);
    assert_int_equal(out, 0);

    /* a mixture's experts have none */

    c.n_experts = 8;
    assert_int_equal(mst_weight_has(&c, MST_WEIGHT_GATE_BIAS), 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_shapes)
    };

    return cmocka_run_group_tests_name("mst_weight", tests, NULL, NULL);
}

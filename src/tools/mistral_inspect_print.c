
/*
 * What "mistral inspect" prints: a page, or an object.
 */

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/mistral_inspect.h"


static const char *const  mistral_inspect_ropes[] = {
    "default", "linear", "dynamic", "llama3", "yarn"
};


/* of the first layer that has one; 0: no layer has */

static uint32_t
mistral_inspect_window(const mst_config_t *c)
{
    uint32_t  i;

    for (i = 0; i < c->n_layers; i++) {
        if (c->windows[i]) {
            return c->windows[i];
        }
    }

    return 0;
}


static uint32_t
mistral_inspect_windowed(const mst_config_t *c)
{
    uint32_t  i, n;

    n = 0;

    for (i = 0; i < c->n_layers; i++) {
        n += c->windows[i] != 0;
    }

    return n;
}


static double
mistral_inspect_mib(uint64_t bytes)
{
    return (double) bytes / 1048576;
}


static void
mistral_inspect_text_shape(const mst_config_t *c)
{
    (void) printf("layers:        %u\n"
                  "width:         %u, feed-forward %u\n"
                  "heads:         %u of %u, %u for keys and values\n"
                  "vocabulary:    %u%s\n"
                  "context:       %u\n"
                  "rotation:      base %g, %u of %u\n", c->n_layers, c->dim,
                  c->ff_dim, c->n_heads, c->head_dim, c->n_kv_heads,
                  c->n_vocab, c->tied ? ", input and output are one" : "",
                  c->context, c->rope.base, c->rope_dim, c->head_dim);

    if (c->rope.kind != MST_ROPE_PLAIN) {
        (void) printf("rope scaling:  %s, factor %g\n",
                      mistral_inspect_ropes[c->rope.kind], c->rope.factor);
    }

    if (c->n_experts) {
        (void) printf("experts:       %u, %u for a token\n", c->n_experts,
                      c->n_used);
    }

    if (mistral_inspect_window(c)) {
        (void) printf("window:        %u tokens in %u of %u layers\n",
                      mistral_inspect_window(c), mistral_inspect_windowed(c),
                      c->n_layers);
    }
}


static void
mistral_inspect_text_words(const mistral_inspect_t *m)
{
    const mst_tokenizer_info_t  *info;

    (void) printf("tokenizer:     %s", m->vocabulary[0] ? m->vocabulary
                                                        : "none");
    if (m->words.tokenizer) {
        info = mst_tokenizer_info(m->words.tokenizer);
        (void) printf("; %u tokens, %u of them end an answer\n", info->n_vocab,
                      info->n_stop);

    } else {
        (void) printf(m->vocabulary[0] ? "; not known\n" : "\n");
    }

    (void) printf("chat template: %s\n", m->template
                  ? mst_template_name(m->template)
                  : m->vocabulary[0] ? "not known" : "none");

    if (m->template) {
        (void) printf("tool calls:    %s\n",
                      mst_template_shows_tools(m->template)
                      ? mst_toolmark_name(&m->marks) : "none");
    }
}


static void
mistral_inspect_text_memory(const mistral_inspect_t *m)
{
    const mst_backend_info_t  *b;

    b = &m->memory;

    (void) printf("\nmemory for %llu sequences of %llu tokens:\n"
                  "weights       %10.1f MiB\n"
                  "head's copy   %10.1f MiB\n"
                  "KV cache      %10.1f MiB, f32, %.1f KiB per token\n"
                  "together      %10.1f MiB of %.1f MiB\n"
                  "kv_cache auto %10.1f MiB, %llu tokens\n",
                  (unsigned long long) m->batch,
                  (unsigned long long) m->context,
                  mistral_inspect_mib(m->weights),
                  mistral_inspect_mib(m->coarse),
                  mistral_inspect_mib(m->kv_full),
                  (double) b->block_size / b->block_tokens / 1024,
                  mistral_inspect_mib(m->weights + m->coarse + m->kv_full),
                  mistral_inspect_mib(m->ram),
                  mistral_inspect_mib(b->n_blocks * b->block_size),
                  (unsigned long long) b->n_blocks * b->block_tokens);
}


int
mistral_inspect_text(const mistral_inspect_t *m)
{
    size_t                         i;
    const mistral_inspect_type_t  *t;

    if (m->size == 0) {
        return MST_OK;                         /* the reason says it all */
    }

    (void) printf("file:          %s, %.1f MiB\n"
                  "architecture:  %s\n"
                  "name:          %s\n"
                  "parameters:    %llu in %llu tensors\n", m->path,
                  mistral_inspect_mib(m->size), m->arch,
                  m->name, (unsigned long long) m->parameters,
                  (unsigned long long) m->tensors);

    if (m->has_config) {
        mistral_inspect_text_shape(&m->config);
    }

    mistral_inspect_text_words(m);

    (void) printf("\ntype     tensors     parameters          bytes\n");

    for (i = 0; i < m->n_types; i++) {
        t = &m->types[i];

        (void) printf("%-8s %7llu %14llu %14llu%s\n", mst_type_name(t->type),
                      (unsigned long long) t->tensors,
                      (unsigned long long) t->parameters,
                      (unsigned long long) t->size,
                      mst_type_info(t->type) ? "" : "  not supported");
    }

    if (m->has_memory) {
        mistral_inspect_text_memory(m);
    }

    (void) printf("\nwould run:     %s\n",
                  m->ids_only
                  ? "no: there is no tokenizer (token ids only)"
                  : m->n_reasons ? "no" : "yes");

    return MST_OK;
}


static json_t *
mistral_inspect_json_types(const mistral_inspect_t *m)
{
    size_t                         i;
    json_t                        *list;
    const mistral_inspect_type_t  *t;

    list = json_array();

    for (i = 0; i < m->n_types; i++) {
        t = &m->types[i];

        (void) json_array_append_new(list,
            json_pack("{s:s, s:I, s:I, s:I, s:b}",
                      "type", mst_type_name(t->type),
                      "tensors", (json_int_t) t->tensors,
                      "parameters", (json_int_t) t->parameters,
                      "bytes", (json_int_t) t->size,
                      "supported", mst_type_info(t->type) != NULL));
    }

    return list;
}


static json_t *
mistral_inspect_json_shape(const mst_config_t *c)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:s,"
                     " s:f, s:i, s:i, s:i, s:i}",
                     "layers", (int) c->n_layers,
                     "dim", (int) c->dim,
                     "ff_dim", (int) c->ff_dim,
                     "heads", (int) c->n_heads,
                     "kv_heads", (int) c->n_kv_heads,
                     "head_dim", (int) c->head_dim,
                     "rope_dim", (int) c->rope_dim,
                     "vocabulary", (int) c->n_vocab,
                     "rope_base", c->rope.base,
                     "tied", c->tied,
                     "rope_kind", mistral_inspect_ropes[c->rope.kind],
                     "rope_factor", c->rope.factor,
                     "experts", (int) c->n_experts,
                     "experts_per_token", (int) c->n_used,
                     "window", (int) mistral_inspect_window(c),
                     "windowed_layers", (int) mistral_inspect_windowed(c));
}


static json_t *
mistral_inspect_json_words(const mistral_inspect_t *m)
{
    json_t                      *o;
    const mst_tokenizer_info_t  *info;

    o = json_pack("{s:s, s:b}", "kind", m->vocabulary, "known",
                  m->words.tokenizer != NULL);

    if (m->words.tokenizer) {
        info = mst_tokenizer_info(m->words.tokenizer);

        (void) json_object_update_new(o,
            json_pack("{s:i, s:I, s:I, s:i}",
                      "tokens", (int) info->n_vocab,
                      "bos", (json_int_t) info->bos_id,
                      "eos", (json_int_t) info->eos_id,
                      "stops", (int) info->n_stop));
    }

    return o;
}


static json_t *
mistral_inspect_json_memory(const mistral_inspect_t *m)
{
    const mst_backend_info_t  *b;

    b = &m->memory;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                     "context", (json_int_t) m->context,
                     "batch", (json_int_t) m->batch,
                     "weights", (json_int_t) m->weights,
                     "coarse_head", (json_int_t) m->coarse,
                     "kv", (json_int_t) m->kv_full,
                     "total", (json_int_t) (m->weights + m->coarse
                                            + m->kv_full),
                     "available", (json_int_t) m->ram,
                     "block_tokens", (json_int_t) b->block_tokens,
                     "block_bytes", (json_int_t) b->block_size,
                     "kv_auto", (json_int_t) (b->n_blocks * b->block_size));
}


int
mistral_inspect_json(const mistral_inspect_t *m)
{
    int      rc;
    size_t   i;
    json_t  *o, *reasons;

    reasons = json_array();

    for (i = 0; i < m->n_reasons; i++) {
        (void) json_array_append_new(reasons,
                                     json_string(m->reasons[i].text));
    }

    o = json_pack("{s:b, s:o}", "runs",
                  m->n_reasons == 0 && !m->ids_only, "reasons",
                  reasons);

    /* a path may be no UTF-8: then it is left out */

    (void) json_object_set_new(o, "file", json_string(m->path));

    if (m->size) {
        (void) json_object_update_new(o,
            json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:o, s:o}",
                      "size", (json_int_t) m->size,
                      "architecture", m->arch,
                      "name", m->name,
                      "tensors", (json_int_t) m->tensors,
                      "parameters", (json_int_t) m->parameters,
                      "context", (json_int_t) (m->has_config
                                               ? m->config.context : 0),
                      "types", mistral_inspect_json_types(m),
                      "tokenizer", mistral_inspect_json_words(m)));

        (void) json_object_set_new(o, "shape", m->has_config
                                   ? mistral_inspect_json_shape(&m->config)
                                   : json_null());
        (void) json_object_set_new(o, "template", m->template
                              ? json_string(mst_template_name(m->template))
                              : json_null());
        (void) json_object_set_new(o, "calls", m->template
                              && mst_template_shows_tools(m->template)
                              && mst_toolmark_can(&m->marks)
                              ? json_string(mst_toolmark_name(&m->marks))
                              : json_null());
        (void) json_object_set_new(o, "memory", m->has_memory
                                   ? mistral_inspect_json_memory(m)
                                   : json_null());
    }

    rc = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    rc |= fputc('\n', stdout) == EOF;
    json_decref(o);

    return rc ? MST_ERROR : MST_OK;
}

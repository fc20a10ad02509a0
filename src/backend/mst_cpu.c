
/*
 * The CPU backend: its table, its memory, and the operations that are small
 * or only record a command.  See mst_cpu.h.
 */

#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/mst_mem.h"
#include "backend/mst_cpu.h"


static void mst_cpu_destroy(mst_backend_t *b);


static const mst_cpu_isa_t *const  mst_cpu_isas[] = {      /* best first */
#if defined(__x86_64__)
    &mst_cpu_avx512,
    &mst_cpu_avx2,
#endif
    &mst_cpu_c
};


const mst_cpu_isa_t *
mst_cpu_isa(const char *name, mst_err_t *err)
{
    size_t                i;
    const mst_cpu_isa_t  *isa;

    for (i = 0; i < sizeof(mst_cpu_isas) / sizeof(*mst_cpu_isas); i++) {
        isa = mst_cpu_isas[i];

        if (name == NULL && isa->supported()) {
            return isa;
        }

        if (name && strcmp(name, isa->name) == 0) {

            if (!isa->supported()) {
                (void) mst_err_set(err, "this machine's CPU lacks the "
                                   "instruction set \"%s\"", isa->name);
                return NULL;
            }

            return isa;
        }
    }

    (void) mst_err_set(err, "instruction set \"%s\" is not in this build, "
                       "avx512, avx2 and c are", name);

    return NULL;
}


static int
mst_cpu_inputs(mst_backend_t *b, mst_err_t *err)
{
    uint32_t                   i, queries, width;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    width = c->dim > b->q_dim ? c->dim : b->q_dim;
    queries = b->group > MST_CPU_QUERIES ? b->group : MST_CPU_QUERIES;

    if (mst_cpu_input_init(&b->scratch, &b->in, b->digits, c->dim,
                           c->max_rows, err) != MST_OK
        || mst_cpu_input_init(&b->scratch, &b->in_out, b->digits, b->q_dim,
                              c->max_rows, err) != MST_OK
        || mst_cpu_input_init(&b->scratch, &b->in_down, b->digits, c->ff_dim,
                              c->max_rows, err) != MST_OK)
    {
        return MST_ERROR;
    }

    b->in_head = b->in;

    for (i = 0; i < b->threads; i++) {
        if (mst_cpu_input_init(&b->scratch, &b->own[i], b->digits, width,
                               MST_CPU_OWN, err) != MST_OK)
        {
            return MST_ERROR;
        }

        b->prepared[i] = mst_cpu_mem_take(&b->scratch,
                                          (mst_cpu_lanes(c->dim) + b->stride)
                                          * sizeof(float), err);

        /* behind the states: limits and firsts, one word for each */

        b->states[i] = mst_cpu_mem_take(&b->scratch,
                                        (uint64_t) queries
                                        * (MST_CPU_STATE + b->stride + 2)
                                        * sizeof(float), err);

        if (b->prepared[i] == NULL || b->states[i] == NULL) {
            return MST_ERROR;
        }
    }

    return MST_OK;
}


static int
mst_cpu_rows(mst_backend_t *b, mst_err_t *err)
{
    uint64_t                   rows;
    const mst_backend_conf_t  *c;

    c = &b->conf;
    rows = c->max_rows;

    b->max_cmds = 12 * c->n_layers + 8;
    b->cmds = mst_cpu_mem_take(&b->scratch,
                               b->max_cmds * sizeof(mst_cpu_cmd_t), err);
    b->splits = mst_cpu_mem_take(&b->scratch,
                                 b->threads * sizeof(mst_cpu_split_t), err);
    b->pos = mst_cpu_mem_take(&b->scratch, rows * sizeof(uint32_t), err);
    b->row_kv = mst_cpu_mem_take(&b->scratch, rows * sizeof(void *), err);
    b->units = mst_cpu_mem_take(&b->scratch, rows * sizeof(mst_cpu_unit_t),
                                err);
    b->turns = mst_cpu_mem_take(&b->scratch,
                                rows * 2 * b->stride * sizeof(float), err);
    b->q_scale = mst_cpu_mem_take(&b->scratch, rows * sizeof(float), err);
    b->x = mst_cpu_mem_take(&b->scratch,
                            rows * mst_cpu_lanes(c->dim) * sizeof(float), err);
    b->q = mst_cpu_mem_take(&b->scratch, rows * b->q_dim * sizeof(float),
                            err);
    b->mix = mst_cpu_mem_take(&b->scratch, rows * b->q_dim * sizeof(float),
                              err);
    b->logits = mst_cpu_mem_take(&b->scratch,
                                 rows * c->n_vocab * sizeof(float), err);

    return b->cmds && b->splits && b->pos && b->row_kv && b->units && b->turns
           && b->x && b->q_scale && b->q && b->mix && b->logits
           ? MST_OK : MST_ERROR;
}


static int
mst_cpu_turn(mst_backend_t *b, mst_err_t *err)
{
    b->turn = mst_cpu_mem_take(&b->scratch,
                               b->conf.rope_dim / 2 * sizeof(double), err);
    b->windows = mst_cpu_mem_take(&b->scratch,
                                  b->conf.n_layers * sizeof(uint32_t), err);

    if (b->turn == NULL || b->windows == NULL) {
        return MST_ERROR;
    }

    memcpy(b->turn, b->conf.rope_freqs,
           b->conf.rope_dim / 2 * sizeof(double));

    if (b->conf.windows) {
        memcpy(b->windows, b->conf.windows,
               b->conf.n_layers * sizeof(uint32_t));
    }

    return MST_OK;
}


static mst_backend_t *
mst_cpu_create(const mst_backend_conf_t *conf, mst_err_t *err)
{
    mst_backend_t  *b;

    b = mst_calloc(1, sizeof(mst_backend_t));

    if (b == NULL) {
        (void) mst_err_set(err, "out of memory for the CPU backend");
        return NULL;
    }

    b->conf = *conf;
    b->group = conf->n_heads / conf->n_kv_heads;
    b->stride = mst_cpu_lanes(conf->head_dim);
    b->q_dim = conf->n_heads * conf->head_dim;
    b->scale = 1.0f / sqrtf((float) conf->head_dim);
    b->threads = conf->threads ? conf->threads : mst_cpu_pool_cores();
    b->digits = conf->activations == 16 ? 2 : MST_CPU_DIGITS;
    b->ram = mst_cpu_mem_limit();

    if (conf->dtype != MST_DTYPE_AUTO) {
        (void) mst_err_set(err, "the CPU keeps the types of the file, dtype "
                           "auto");
        goto failed;
    }

    if (conf->activations != 0 && conf->activations != 16
        && conf->activations != 22)
    {
        (void) mst_err_set(err, "activations of %u bits, the CPU computes "
                           "with 16 and 22", conf->activations);
        goto failed;
    }

    b->isa = mst_cpu_isa(conf->isa, err);

    if (b->isa == NULL) {
        goto failed;
    }

    b->pool = mst_cpu_pool_create(b->threads, err);

    if (b->pool == NULL
        || mst_cpu_kv_init(b, err) != MST_OK
        || mst_cpu_turn(b, err) != MST_OK
        || mst_cpu_inputs(b, err) != MST_OK
        || mst_cpu_rows(b, err) != MST_OK
        || mst_cpu_experts_init(b, err) != MST_OK
        || mst_cpu_top_init(b, err) != MST_OK)
    {
        goto failed;
    }

    mst_log(conf->log, MST_LOG_INFO, "cpu: %s, %u threads, activations of %u "
            "bits, kv_cache %s of %u blocks of %u tokens", b->isa->name,
            b->threads, b->digits == 2 ? 16 : 22,
            mst_cpu_kv_name(b->kv_type), b->info.n_blocks,
            b->info.block_tokens);

    return b;

failed:

    mst_cpu_destroy(b);

    return NULL;
}


static void
mst_cpu_destroy(mst_backend_t *b)
{
    mst_matrix_t  *m;

    mst_cpu_pool_destroy(b->pool);

    while (b->matrices) {
        m = b->matrices;
        b->matrices = m->next;
        mst_free(m);
    }

    mst_cpu_mem_fini(&b->weights);
    mst_cpu_mem_fini(&b->scratch);
    mst_free(b);
}


static void
mst_cpu_info(const mst_backend_t *b, mst_backend_info_t *info)
{
    *info = b->info;
}


static mst_vector_t *
mst_cpu_vector(mst_backend_t *b, const void *f32, uint32_t n, mst_err_t *err)
{
    mst_vector_t  *v;

    v = mst_cpu_mem_take(&b->weights, sizeof(mst_vector_t), err);

    if (v == NULL) {
        return NULL;
    }

    v->n = n;
    v->f = mst_cpu_mem_take(&b->weights, mst_cpu_lanes(n) * sizeof(float),
                            err);

    if (v->f == NULL) {
        return NULL;
    }

    memcpy(v->f, f32, n * sizeof(float));
    b->info.weight_size += mst_cpu_lanes(n) * sizeof(float);

    return v;
}


mst_cpu_cmd_t *
mst_cpu_cmd(mst_backend_t *b, mst_cpu_run_pt run)
{
    mst_cpu_cmd_t  *cmd;

    cmd = &b->cmds[b->n_cmds++];
    memset(cmd, 0, sizeof(mst_cpu_cmd_t));
    cmd->run = run;
    cmd->job = ++b->jobs;

    return cmd;
}


static void
mst_cpu_begin(mst_backend_t *b, const mst_backend_step_t *step)
{
    b->step = *step;
    b->n_cmds = 0;
    b->top.rows = 0;
    mst_cpu_attn_begin(b);
    mst_cpu_experts_begin(b);
}


/* cosines and sines of a row; what does not rotate turns by nothing */

static void
mst_cpu_turns(mst_backend_t *b, uint32_t row, double base)
{
    float     *cs, *sn;
    double     angle, scale;
    uint32_t   i;

    cs = b->turns + (size_t) row * 2 * b->stride;
    sn = cs + b->stride;
    scale = b->conf.rope_scale != 0 ? (double) b->conf.rope_scale : 1;

    for (i = 0; i < b->stride / 2; i++) {

        if (i >= b->conf.rope_dim / 2) {
            angle = 0;
            scale = 1;

        } else if (base != 0) {
            angle = b->pos[row] * pow(base, -2.0 * i / b->conf.rope_dim);

        } else {
            angle = b->pos[row] * b->turn[i];
        }

        cs[2 * i] = (float) (cos(angle) * scale);
        cs[2 * i + 1] = cs[2 * i];
        sn[2 * i + 1] = (float) (sin(angle) * scale);
        sn[2 * i] = -sn[2 * i + 1];
    }

    b->q_scale[row] = b->scale;

    if (b->conf.temp_length) {
        b->q_scale[row] *= (float) (1 + b->conf.temp_beta
                                    * log(1 + floor((double) b->pos[row]
                                              / b->conf.temp_length)));
    }
}


static void
mst_cpu_embed_run(mst_backend_t *b, mst_cpu_cmd_t *cmd, uint32_t thread,
    int last)
{
    uint32_t               row;
    const mst_cpu_unit_t  *u;

    (void) thread;
    (void) last;

    while (mst_cpu_take(cmd, b->n_units, 1, &row)) {
        u = &b->units[row];

        for (row = u->row; row < u->row + u->n; row++) {
            mst_cpu_turns(b, row, b->step.seqs[u->seq].rope_base);
            mst_cpu_matrix_row(cmd->matrix,
                               b->step.seqs[u->seq].ids[
                                   b->pos[row]
                                   - b->step.seqs[u->seq].position],
                               b->x + (size_t) row
                                      * mst_cpu_lanes(b->conf.dim));
        }
    }
}


static void
mst_cpu_embed(mst_backend_t *b, const mst_matrix_t *embd)
{
    mst_cpu_cmd(b, mst_cpu_embed_run)->matrix = embd;
}


/* inputs are norms of the residual stream */

static void
mst_cpu_from_x(mst_backend_t *b, mst_cpu_cmd_t *cmd, const mst_vector_t *norm)
{
    cmd->input = &b->in;
    cmd->source = b->x;
    cmd->stride = mst_cpu_lanes(b->conf.dim);
    cmd->norm = norm;
}


static void
mst_cpu_qkv(mst_backend_t *b, uint32_t layer, const mst_backend_layer_t *w)
{
    mst_cpu_cmd_t  cmd = { 0 };

    mst_cpu_from_x(b, &cmd, w->attn_norm);
    cmd.layer = layer;
    cmd.matrix = w->qkv;
    cmd.bias[0] = w->q_bias;
    cmd.bias[1] = w->k_bias;
    cmd.bias[2] = w->v_bias;
    cmd.finish = mst_cpu_attn_qkv;
    mst_cpu_gemm(b, &cmd, b->step.n_rows);
}


/* x += outputs; the padding behind the last row of a matrix meets the
   padding of x */

static void
mst_cpu_add(mst_backend_t *b, const mst_cpu_cmd_t *cmd, uint32_t unit,
    uint32_t row, uint32_t cols, float *y)
{
    float        *x;
    uint32_t      c, i, n;
    const float  *bias;

    n = mst_cpu_min(MST_CPU_LANES, cmd->matrix->parts[0].rows
                                   - unit * MST_CPU_LANES);
    bias = cmd->bias[0] ? cmd->bias[0]->f + unit * MST_CPU_LANES : NULL;

    for (c = 0; c < cols; c++, y += MST_CPU_LANES) {
        x = b->x + (size_t) (row + c) * mst_cpu_lanes(b->conf.dim)
            + unit * MST_CPU_LANES;

        for (i = 0; i < n; i++) {
            x[i] += bias ? y[i] + bias[i] : y[i];
        }
    }
}


static void
mst_cpu_out(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_cpu_cmd_t  cmd = { 0 };

    cmd.input = &b->in_out;
    cmd.matrix = w->out;
    cmd.bias[0] = w->out_bias;
    cmd.finish = mst_cpu_add;

    if ((w->out->forms & MST_CPU_DIGIT_FORM)
        && b->conf.head_dim % MST_CPU_BLOCK)
    {
        cmd.source = b->mix;
        cmd.stride = b->q_dim;
    }

    mst_cpu_gemm(b, &cmd, b->step.n_rows);
}


static void
mst_cpu_gate_bias(const mst_vector_t *bias, uint32_t unit, float *y)
{
    uint32_t  i, n;

    n = mst_cpu_min(MST_CPU_LANES, mst_cpu_lanes(bias->n)
                                   - unit * MST_CPU_LANES);

    for (i = 0; i < n; i++) {
        y[i] += bias->f[unit * MST_CPU_LANES + i];
    }
}


void
mst_cpu_gate(mst_backend_t *b, const mst_cpu_cmd_t *cmd, uint32_t unit,
    uint32_t row, uint32_t cols, float *y)
{
    float     f[2 * MST_CPU_LANES];
    uint32_t  c, i, n, tile;

    tile = MST_CPU_COLS * MST_CPU_LANES;
    n = mst_cpu_min(2 * MST_CPU_LANES, b->conf.ff_dim
                                       - unit * 2 * MST_CPU_LANES);

    for (c = 0; c < cols; c++, y += MST_CPU_LANES) {

        for (i = 0; i < 4 && cmd->bias[i / 2]; i++) {
            if (2 * unit + i % 2 < cmd->matrix->parts[0].n_tiles) {
                mst_cpu_gate_bias(cmd->bias[i / 2], 2 * unit + i % 2,
                                  y + i * tile);
            }
        }

        b->isa->silu(y, y + 2 * tile, f, MST_CPU_LANES);
        b->isa->silu(y + tile, y + 3 * tile, f + MST_CPU_LANES,
                     MST_CPU_LANES);

        mst_cpu_input_write(b, cmd->output, cmd->forms, row + c,
                            unit * 2 * MST_CPU_LANES, f, n);
    }
}


static void
mst_cpu_gate_up(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_cpu_cmd_t  cmd = { 0 };

    mst_cpu_from_x(b, &cmd, w->ffn_norm);
    cmd.matrix = w->gate_up;
    cmd.bias[0] = w->gate_bias;
    cmd.bias[1] = w->up_bias;
    cmd.output = &b->in_down;
    cmd.finish = mst_cpu_gate;
    cmd.forms = w->down->forms;
    b->in_down.rows = b->step.n_rows;
    mst_cpu_gemm(b, &cmd, b->step.n_rows);
}


static void
mst_cpu_down(mst_backend_t *b, const mst_backend_layer_t *w)
{
    mst_cpu_cmd_t  cmd = { 0 };

    cmd.input = &b->in_down;
    cmd.matrix = w->down;
    cmd.bias[0] = w->down_bias;
    cmd.finish = mst_cpu_add;
    mst_cpu_gemm(b, &cmd, b->step.n_rows);
}


static void
mst_cpu_head(mst_backend_t *b, const mst_cpu_cmd_t *cmd, uint32_t unit,
    uint32_t row, uint32_t cols, float *y)
{
    uint32_t  c, n;

    (void) cmd;

    n = mst_cpu_min(MST_CPU_LANES, b->conf.n_vocab - unit * MST_CPU_LANES);

    for (c = 0; c < cols; c++, y += MST_CPU_LANES) {
        memcpy(b->logits + (size_t) (row + c) * b->conf.n_vocab
               + unit * MST_CPU_LANES, y, n * sizeof(float));
    }
}


static void
mst_cpu_logits(mst_backend_t *b, const mst_vector_t *norm,
    const mst_matrix_t *head)
{
    mst_cpu_cmd_t  cmd = { 0 };

    if (b->step.n_wanted == 0) {
        return;
    }

    mst_cpu_from_x(b, &cmd, norm);
    cmd.input = &b->in_head;
    cmd.matrix = head;
    cmd.finish = mst_cpu_head;
    cmd.index = b->step.wanted;
    mst_cpu_gemm(b, &cmd, b->step.n_wanted);
}


static void
mst_cpu_progress(mst_backend_t *b, uint32_t phase)
{
    int  more;

    if (b->conf.progress) {
        more = b->conf.progress(b->conf.progress_data);
        mst_cpu_pool_hold(b->pool, more ? phase + 1 : 0);
    }
}


/* a process that is woken on this thread's core takes it: now, while there is
   nothing in hand here that the others would wait for */

static void
mst_cpu_begun(void *data)
{
    int             core;
    mst_backend_t  *b;

    b = data;

    if (b->conf.progress == NULL) {
        return;
    }

    do {
        core = b->conf.progress(b->conf.progress_data);
    } while (core > 1 && core == sched_getcpu() + 2);

    mst_cpu_pool_hold(b->pool, core ? 1 : 0);
}


static void
mst_cpu_run(void *data, uint32_t phase, uint32_t thread, int last)
{
    mst_backend_t  *b;

    b = data;

    if (thread == 0 && phase != 0 && !last) {
        mst_cpu_progress(b, phase);
    }

    b->cmds[phase].run(b, &b->cmds[phase], thread, last);
}


static int
mst_cpu_sync(mst_backend_t *b, const float **logits, mst_err_t *err)
{
    mst_cpu_pool_job_t  job = { 0 };

    (void) err;

    job.run = mst_cpu_run;
    job.begun = mst_cpu_begun;
    job.data = b;
    job.n_phases = b->n_cmds;

    mst_cpu_pool_run(b->pool, &job);
    mst_cpu_top_end(b);
    *logits = b->logits;

    return MST_OK;
}


const mst_backend_ops_t  mst_cpu_ops = {
    .name = "cpu",
    .create = mst_cpu_create,
    .destroy = mst_cpu_destroy,
    .info = mst_cpu_info,
    .matrix = mst_cpu_matrix,
    .vector = mst_cpu_vector,
    .begin = mst_cpu_begin,
    .embed = mst_cpu_embed,
    .qkv = mst_cpu_qkv,
    .attend = mst_cpu_attn,
    .out = mst_cpu_out,
    .gate_up = mst_cpu_gate_up,
    .down = mst_cpu_down,
    .experts = mst_cpu_experts,
    .logits = mst_cpu_logits,
    .top = mst_cpu_top,
    .sync = mst_cpu_sync,
    .spread = mst_cpu_spread
};

"""Checkpoints of every shape beside the formulas in float64: random weights,
the logits behind a prompt, and the ids of a greedy answer.  The same weights
under Mistral's names, rows of queries and keys in another order, are the same
bits.  Prints TAP."""

import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import numpy as np

from harness import BUILD, ok, done, same, seed

PROGRAM = BUILD + "/mistral"
VOCAB, ANSWER, LIMIT = 320, 6, 2e-5

BASE = dict(model_type="llama", hidden_size=64, intermediate_size=96,
            num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=VOCAB, rms_norm_eps=1e-5,
            max_position_embeddings=128, rope_theta=10000.0)


def rope(kind, **more):
    return dict(rope_scaling=dict(rope_type=kind, **more))


# what differs from BASE; the prompt's length and the type of the weights go
# round

CASES = {
    "plain": {},
    "one head of keys": dict(num_key_value_heads=1),
    "as many as of queries": dict(num_key_value_heads=4),
    "long heads": dict(head_dim=32),
    "tied": dict(tie_word_embeddings=True),
    "biases": dict(attention_bias=True, mlp_bias=True),
    "linear": rope("linear", factor=2.5),
    "dynamic": dict(max_position_embeddings=40, **rope("dynamic",
                                                       factor=4.0)),
    "dynamic, long": dict(max_position_embeddings=17, **rope("dynamic",
                                                             factor=7.5)),
    "dynamic, short": rope("dynamic", factor=4.0),
    "dynamic, version 5": dict(
        max_position_embeddings=40, rope_theta=None, rope_parameters=dict(
            rope_type="dynamic", factor=3.0, rope_theta=5000.0)),
    "llama3": rope("llama3", factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0,
                   original_max_position_embeddings=64),
    "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=32),
    "yarn, a factor": rope("yarn", factor=4.0, attention_factor=0.7,
                           original_max_position_embeddings=32),
    "yarn, scales": rope("yarn", factor=16.0, mscale=1.0, mscale_all_dim=0.5,
                         original_max_position_embeddings=16),
    "yarn, smooth": rope("yarn", factor=4.0, truncate=False, beta_fast=16.0,
                         beta_slow=2.0, original_max_position_embeddings=32),
    "a window": dict(model_type="mistral", sliding_window=9),
    "no window": dict(model_type="mistral", sliding_window=None),
    "windows": dict(model_type="ministral", sliding_window=12,
                    layer_types=["full_attention", "sliding_attention"]),
    "temperature": dict(
        model_type="ministral3", rope_theta=None, rope_parameters=dict(
            rope_type="yarn", factor=4.0, rope_theta=1e6, mscale=1.0,
            mscale_all_dim=1.0, original_max_position_embeddings=32,
            llama_4_scaling_beta=0.1)),
    "two of 16 experts": dict(model_type="mixtral", num_local_experts=16,
                              num_experts_per_tok=2, sliding_window=None),
    "four of 8 experts": dict(model_type="mixtral", num_local_experts=8,
                              num_experts_per_tok=4, sliding_window=20),
}

# those that params.json has words for

MISTRAL = ["long heads", "a window", "no window", "two of 16 experts",
           "four of 8 experts"]


def floats(kind, raw):
    if kind == "BF16":
        raw = np.frombuffer(raw, np.uint16).astype(np.uint32) << 16
        return raw.view(np.float32)
    return np.frombuffer(raw, np.float16 if kind == "F16" else np.float32)


def tensors(path):
    """name: (type, shape, bytes)"""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])])
            for k, v in head.items() if k != "__metadata__"}


def frequencies(c, dim, length):
    """of this many tokens at the start; and what cosines are times"""
    r = c.get("rope_parameters") or c.get("rope_scaling") or {}
    kind, s = r.get("rope_type", "default"), r.get("factor", 1)
    base, most = c["rope_theta"] or r["rope_theta"], \
        c["max_position_embeddings"]
    if kind == "dynamic" and length > most:
        base *= (s * length / most - (s - 1)) ** (dim / (dim - 2))

    f = base ** (-2 * np.arange(dim // 2) / dim)
    first = r.get("original_max_position_embeddings", most)

    if kind == "linear":
        return f / s, 1, r

    if kind == "llama3":
        turns = first * f / (2 * math.pi)
        low, high = r["low_freq_factor"], r["high_freq_factor"]
        part = np.clip((turns - low) / (high - low), 0, 1)
        return (1 - part) * f / s + part * f, 1, r

    if kind != "yarn":
        return f, 1, r

    low, high = (dim * math.log(first / (2 * math.pi * r.get(k, d)))
                 / (2 * math.log(base))
                 for k, d in (("beta_fast", 32), ("beta_slow", 1)))
    if r.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    part = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)

    def scale(m):
        return 0.1 * m * math.log(s) + 1

    times = r.get("attention_factor", scale(1))
    if "mscale" in r:
        times = scale(r["mscale"]) / scale(r["mscale_all_dim"])
    return f / s * part + f * (1 - part), times, r


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Reference:
    """Llama and its family as they are written down, nothing else"""

    def __init__(self, c, weights):
        self.c = c
        self.w = {k: floats(t, raw).astype(np.float64).reshape(shape)
                  for k, (t, shape, raw) in weights.items()}

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True)
                           + self.c["rms_norm_eps"]) * self.w[name + ".weight"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def gated(self, x, gate, up, down):
        z = self.linear(x, gate)
        return self.linear(z / (1 + np.exp(-z)) * self.linear(x, up), down)

    def experts(self, x, name):
        n = self.c["num_experts_per_tok"]
        likely = softmax(self.linear(x, name + ".gate"))
        out = np.zeros_like(x)
        for t, p in enumerate(likely):
            best = np.argsort(-p)[:n]
            for e in best:
                at = "%s.experts.%d.w" % (name, e)
                out[t] += p[e] / p[best].sum() * self.gated(
                    x[t], at + "1", at + "3", at + "2")
        return out

    def sees(self, layer, at):
        c, mask = self.c, at[None] <= at[:, None]
        window = c.get("sliding_window")
        if not window or c.get("layer_types", {layer: 0})[layer] \
                == "full_attention":
            return mask
        return mask & (at[None] > at[:, None] - window)

    def attend(self, x, layer, length):
        c, p = self.c, "model.layers.%d.self_attn." % layer
        heads, keys = c["num_attention_heads"], c["num_key_value_heads"]
        dim = c.get("head_dim") or c["hidden_size"] // heads
        f, times, r = frequencies(c, dim, length)
        at = np.arange(len(x))
        turn = np.tile(at[:, None] * f[None], 2)[:, None]

        def project(name, n):
            return self.linear(x, p + name).reshape(len(x), n, dim)

        def rotate(v):
            half = np.concatenate([-v[..., dim // 2:], v[..., :dim // 2]], -1)
            return times * (v * np.cos(turn) + half * np.sin(turn))

        q, k = rotate(project("q_proj", heads)), rotate(project("k_proj",
                                                                keys))
        beta = r.get("llama_4_scaling_beta")
        if beta:
            q *= (1 + beta * np.log(1 + at // r[
                "original_max_position_embeddings"]))[:, None, None]
        k, v = (np.repeat(a, heads // keys, 1)
                for a in (k, project("v_proj", keys)))
        score = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(dim)
        score = softmax(np.where(self.sees(layer, at), score, -np.inf))
        out = np.einsum("hqk,khd->qhd", score, v).reshape(len(x), -1)
        return self.linear(out, p + "o_proj")

    def logits(self, ids, length):
        """behind the last of ids, of a sequence that began with so many"""
        x = self.w["model.embed_tokens.weight"][ids]
        for layer in range(self.c["num_hidden_layers"]):
            p = "model.layers.%d." % layer
            x = x + self.attend(self.norm(x, p + "input_layernorm"), layer,
                                length)
            h = self.norm(x, p + "post_attention_layernorm")
            x = x + (self.experts(h, p + "block_sparse_moe")
                     if "num_local_experts" in self.c else
                     self.gated(h, *(p + "mlp.%s_proj" % n
                                     for n in ("gate", "up", "down"))))
        x = self.norm(x, "model.norm")[-1]
        return x @ self.w.get("lm_head.weight",
                              self.w["model.embed_tokens.weight"]).T

    def greedy(self, ids, n):
        ids, length = list(ids), len(ids)
        for _ in range(n):
            ids.append(int(self.logits(ids, length).argmax()))
        return ids[length:]


def run(*args, **more):
    r = subprocess.run([PROGRAM, *args], capture_output=True, text=True,
                       **more)
    if r.returncode:
        raise RuntimeError(r.stderr)
    return r.stdout


def generate(path, ids):
    return json.loads(run("generate", "--model", path, "--prompt-ids", "-",
                          "--json", "--logits", "last", "--ignore-eos",
                          "--rope", "exact", "--max-tokens", str(ANSWER),
                          input=json.dumps(ids)))


def interleaved(shape, raw, heads):
    """rows of halves to rows of pairs"""
    rows = np.frombuffer(raw, np.uint8).reshape(heads, 2, -1,
                                                len(raw) // shape[0])
    return np.ascontiguousarray(rows.transpose(0, 2, 1, 3)).tobytes()


NAMES = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj":
         "attention.wk", "self_attn.v_proj": "attention.wv",
         "self_attn.o_proj": "attention.wo",
         "input_layernorm": "attention_norm",
         "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
         "mlp.down_proj": "feed_forward.w2",
         "block_sparse_moe": "feed_forward", "embed_tokens": "tok_embeddings",
         "lm_head": "output", "model.": ""}


def mistral(c, weights, path):
    """the checkpoint in Mistral's form"""
    heads = {"wq": c["num_attention_heads"], "wk": c["num_key_value_heads"]}
    head, data = {}, b""
    for name, (kind, shape, raw) in weights.items():
        for a, b in NAMES.items():
            name = name.replace(a, b)
        n = heads.get(name.split(".")[-2])
        raw = interleaved(shape, raw, n) if n else raw
        head[name] = dict(dtype=kind, shape=shape, data_offsets=[
            len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(head).encode()
    os.mkdir(path)
    with open(path + "/consolidated.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)

    params = dict(dim=c["hidden_size"], n_layers=c["num_hidden_layers"],
                  head_dim=c.get("head_dim", 16), norm_eps=c["rms_norm_eps"],
                  hidden_dim=c["intermediate_size"], vocab_size=VOCAB,
                  n_heads=heads["wq"], n_kv_heads=heads["wk"],
                  rope_theta=c["rope_theta"],
                  sliding_window=c.get("sliding_window"))
    if "num_local_experts" in c:
        params["moe"] = dict(num_experts=c["num_local_experts"],
                             num_experts_per_tok=c["num_experts_per_tok"])
    with open(path + "/params.json", "w") as f:
        json.dump(params, f)


def check(directory, i, name, r):
    c = {**BASE, **CASES[name]}
    path = "%s/%d" % (directory, i)
    with open(path + ".json", "w") as f:
        json.dump({k: v for k, v in c.items()
                   if k != "rope_theta" or v is not None}, f)

    kind = ("f32", "bf16", "f16")[i % 3]
    n = 100 if "dynamic" in name else r.choice((5, 60, 100))
    ids = [r.randrange(VOCAB) for _ in range(n)]
    run("inspect", path, "--make-random", path + ".json", "--format",
        "safetensors", "--type", kind, "--seed", str(r.randrange(1000)))

    weights = tensors(path + "/model.safetensors")
    reference = Reference(c, weights)
    got = generate(path, ids)
    far = np.abs(got["logits"][0] - reference.logits(ids, n)).max()

    ok(far < LIMIT, "%s, %s, %d tokens: logits" % (name, kind, n), far)
    same(got["ids"], reference.greedy(ids, ANSWER), name + ": ids")

    if name in MISTRAL:
        mistral(c, weights, path + "m")
        same(generate(path + "m", ids), got, name + ": in Mistral's form")


def main():
    r = random.Random(seed())
    with tempfile.TemporaryDirectory() as directory:
        for i, name in enumerate(CASES):
            check(directory, i, name, r)
    done()


main()

"""Token ids beside those of the libraries that made the formats: seeded
random texts of all planes, broken joins, digits, code and white space; and
what they make of random ids, half of them bytes.  Prints TAP."""

import base64
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import sentencepiece
import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, \
    pre_tokenizers

from harness import BUILD, done, ok, seed

PROGRAM = BUILD + "/t/tokenize"
FILES = BUILD + "/tokenizers/"
COUNT = 2000

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def any_char(rng):
    while True:
        c = rng.randrange(0x110000) if rng.random() < 0.5 \
            else rng.randrange(0x3000)
        if not 0xd800 <= c < 0xe000:
            return chr(c)


WORDS = ("the of Hello WORLD don't I'll it's HeLLo x1 42 3.14159 12345678 "
         "def return import int main ( ) { } [ ] == != // /* */ <s> </s> "
         "[INST] [/INST] <0x0A> naïve Über straße Привет мир こんにちは 你好 "
         "안녕 नमस्ते שלום مرحبا 👍🏽 👨‍👩‍👧 ﬁ ① Ⅷ ½ e\u0301 \u200d \ufeff "
         "\u2581 \u00a0 \u3000 \t \n \r\n \n\n ...").split(" ")


def text(rng):
    kind = rng.randrange(5)
    if kind == 0:
        return "".join(any_char(rng) for _ in range(rng.randrange(1, 40)))
    if kind == 1:
        return rng.choice(["", " "]).join(
            rng.choice(WORDS) for _ in range(rng.randrange(1, 30)))
    if kind == 2:
        return "".join(rng.choice(" \t\n\rab1.'") for _ in
                       range(rng.randrange(1, 60)))
    if kind == 3:
        return rng.choice([" ", "a", "ab", "\n", "1", "é", "日", "aA", "=="]) \
            * rng.randrange(1, 300)
    return " ".join(rng.choice(WORDS) + any_char(rng) for _ in
                    range(rng.randrange(1, 20)))


def ours(kind, path, texts):
    out = subprocess.run([PROGRAM, kind, path], input=json.dumps(texts),
                         capture_output=True, text=True)
    if out.returncode:
        ok(False, "tokenize %s %s" % (kind, path), out.stderr)
        return []
    return json.loads(out.stdout)


def compare(name, kind, path, texts, reference):
    bad = [(t, got, want)
           for t, got, want in zip(texts, ours(kind, path, texts),
                                   map(reference, texts)) if got != want]
    ok(not bad, "%s: %d texts" % (name, len(texts)), bad[:1])


def gguf_value(v):
    """type and bytes of a value of metadata"""
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return 4, struct.pack("<I", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, str):
        return 8, struct.pack("<Q", len(v.encode())) + v.encode()
    kind = gguf_value(v[0])[0]
    return 9, struct.pack("<IQ", kind, len(v)) + b"".join(
        gguf_value(x)[1] for x in v)


def gguf(name, keys, texts, reference):
    """the vocabulary of a GGUF file"""
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for key, v in keys.items():
        kind, value = gguf_value(v)
        data += gguf_value("tokenizer.ggml." + key)[1] \
            + struct.pack("<I", kind) + value
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "v.gguf")
        with open(path, "wb") as f:
            f.write(data + bytes(-len(data) % 32))
        compare("GGUF, " + name, "gguf", path, texts, reference)


def gguf_spm(file, texts):
    sp = sentencepiece.SentencePieceProcessor(model_file=FILES + file)
    ids = range(sp.get_piece_size())
    gguf("llama", {
        "model": "llama", "tokens": [sp.id_to_piece(i) for i in ids],
        "scores": [float(sp.get_score(i)) for i in ids],
        "token_type": [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else
                       6 if sp.is_byte(i) else 1 for i in ids],
        "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0,
        "add_bos_token": True}, texts, sp.encode)


def lists(rng, kinds):
    """of ids, drawn from these"""
    return [[rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(20))]
            for _ in range(COUNT)]


def spm(file, texts, rng):
    sp = sentencepiece.SentencePieceProcessor(model_file=FILES + file)
    compare(file, "spm", FILES + file, texts, sp.encode)

    ids = range(sp.get_piece_size())
    parts = [i for i in ids if sp.is_byte(i)]
    pieces = [i for i in ids if not (sp.is_byte(i) or sp.is_control(i)
                                     or sp.is_unknown(i))]
    compare(file + ", decoded", "spm", FILES + file,
            [[i] for i in parts] + lists(rng, [parts, pieces]), sp.decode)


def tekken(texts, rng):
    path = FILES + "tekken_240718.json"
    with open(path) as f:
        d = json.load(f)
    n = d["config"]["default_vocab_size"] \
        - d["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"]
             for t in d["vocab"][:n]}
    enc = tiktoken.Encoding(name="t", pat_str=d["config"]["pattern"],
                            mergeable_ranks=ranks, special_tokens={})
    compare("tekken", "tekken", path, texts,
            lambda t: [i + 1000 for i in enc.encode_ordinary(t)])
    compare("tekken, decoded", "tekken", path,
            lists(rng, [range(1000, 1256), range(1000, n + 1000)]),
            lambda ids: enc.decode([i - 1000 for i in ids]))
    return ranks, d["config"]["pattern"]


def merges_of(ranks, limit):
    """Merges of the first tokens, as conversions list them."""
    small = {t: r for t, r in ranks.items() if r < limit}
    merges = []
    for t, r in small.items():
        splits = [(small[t[:i]], small[t[i:]], t[:i], t[i:])
                  for i in range(1, len(t)) if t[:i] in small
                  and t[i:] in small]
        merges += [(r, a, b, x, y) for a, b, x, y in splits]
    return small, [(x, y) for _, _, _, x, y in sorted(merges)]


def letters():
    """GPT-2's alphabet."""
    keep = list(range(33, 127)) + list(range(161, 173)) \
        + list(range(174, 256))
    table, n = {}, 0
    for b in range(256):
        table[b] = chr(b) if b in keep else chr(256 + n)
        n += b not in keep
    return table


def hf_bytes(name, ranks, pre, texts, ignore=False, of=None):
    """of: what GGUF calls it"""
    table = letters()
    spell = lambda t: "".join(table[b] for b in t)
    small, merges = merges_of(ranks, 20000)
    t = Tokenizer(models.BPE(
        vocab={spell(k): v for k, v in small.items()},
        merges=[(spell(a), spell(b)) for a, b in merges],
        ignore_merges=ignore))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    hf(name, t, texts)

    if of:
        tokens = [spell(k) for k in sorted(small, key=small.get)]
        gguf(of, {"model": "gpt2", "pre": of, "tokens": tokens,
                  "token_type": [1] * len(tokens), "add_bos_token": False,
                  "eos_token_id": 0,
                  "merges": [spell(a) + " " + spell(b) for a, b in merges]},
             texts, lambda s: t.encode(s, add_special_tokens=False).ids)


def hf(name, t, texts):
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "tokenizer.json")
        t.save(path)
        compare("tokenizer.json, " + name, "hf", path, texts,
                lambda s: t.encode(s, add_special_tokens=False).ids)


def hf_chars(texts):
    """Mistral's v3 model as conversions write it: merges by rank of what
    they make."""
    sp = sentencepiece.SentencePieceProcessor(
        model_file=FILES + "mistral_instruct_tokenizer_240323.model.v3")
    n = 12000
    vocab = {sp.id_to_piece(i): i for i in range(n)}
    merges = []
    for piece, i in vocab.items():
        if sp.is_control(i) or sp.is_byte(i) or sp.is_unknown(i) or i < 1027:
            continue
        merges += [(-sp.get_score(i), vocab[piece[:k]], vocab[piece[k:]],
                    piece[:k], piece[k:]) for k in range(1, len(piece))
                   if piece[:k] in vocab and piece[k:] in vocab]
    chars = {c for p in vocab for c in p}
    for c in sorted(chars):
        vocab.setdefault(c, len(vocab))
    t = Tokenizer(models.BPE(vocab=vocab, merges=[m[3:] for m in
                                                  sorted(merges)],
                             byte_fallback=True, fuse_unk=True,
                             unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                         normalizers.Replace(" ", "▁")])
    t.add_special_tokens(["<s>", "</s>"])
    plain = [s for s in texts if "<s>" not in s and "</s>" not in s]
    hf("characters", t, plain)


def main():
    rng = random.Random(seed())
    texts = [text(rng) for _ in range(COUNT)]

    for file in ("tokenizer.model.v1",
                 "mistral_instruct_tokenizer_240216.model.v2",
                 "mistral_instruct_tokenizer_240323.model.v3",
                 "mistral_instruct_tokenizer_241114.model.v7"):
        spm(file, texts, rng)

    ranks, pattern = tekken(texts, rng)
    split = lambda regex: pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    hf_bytes("tekken", ranks, split(pattern), texts, True, "tekken")
    hf_bytes("Llama 3", ranks, split(LLAMA3), texts)
    hf_bytes("Llama 3, merges ignored", ranks, split(LLAMA3), texts, True,
             "llama-bpe")
    hf_bytes("GPT-2", ranks, pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=True), texts, of="gpt-2")
    hf_bytes("SmolLM", ranks, pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]),
        texts, of="smollm")
    hf_chars(texts)
    gguf_spm("tokenizer.model.v1", texts)
    done()


main()

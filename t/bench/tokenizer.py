"""MB/s of text to token ids, one thread each, the same texts: ours beside
sentencepiece, tiktoken and tokenizers, of whose ways to encode a text the
faster one counts.  Medians of 5, alternating."""

import base64
import glob
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import sentencepiece
import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

BUILD = os.environ.get("BUILD", "build")
FILES = BUILD + "/tokenizers/"
SMOL = BUILD + "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
RUNS = 5
LENGTH = 2000000                                       # bytes, at least

FOREIGN = ("Вчера вечером мы долго говорили о погоде. 昨日の夜、私たちは長い間天気"
           "について話しました。 नमस्ते, आप कैसे हैं? Où est la bibliothèque, s'il vous "
           "plaît? ")


def mixed(n):
    """words of the paragraph in an order of their own"""
    rnd = random.Random(n)
    words = FOREIGN.split()
    return " ".join(rnd.choices(words, k=n))


def once():
    """no word twice: all those of Python's library, and as many that nobody
    ever wrote, of the other scripts' letters"""
    rnd = random.Random(1)
    seen = set()
    for f in sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py")):
        with open(f, errors="replace") as src:
            seen.update(re.findall(r"[A-Za-z]{3,}", src.read()))
    runs = [re.findall(r"[\u0400-\u04ff]", FOREIGN),
            re.findall(r"[\u3040-\u9fff]", FOREIGN),
            re.findall(r"[\u0900-\u097f]", FOREIGN)]
    for _ in range(len(seen)):
        seen.add("".join(rnd.choices(rnd.choice(runs), k=rnd.randint(2, 9))))
    words = sorted(seen)
    rnd.shuffle(words)
    return " ".join(words)


def texts():
    """Prose and code of this tree, other scripts, and what no cache helps."""
    docs = [open(f).read() for f in sorted(glob.glob("docs/*.md"))]
    code = [open(f).read() for f in sorted(glob.glob("src/engine/*.c"))]
    return {"prose": docs, "code": code, "scripts": [mixed(10000)],
            "once": [once()]}


def ours(kind, path, data, repeat):
    out = subprocess.run([BUILD + "/t/tokenize", kind, path, str(repeat)],
                         input=json.dumps(data), capture_output=True,
                         text=True, check=True)
    return float(out.stdout)


def timed(encode, data, repeat):
    start = time.perf_counter()
    for _ in range(repeat):
        for t in data:
            encode(t)
    return time.perf_counter() - start


def tekken():
    """ranks by bytes, and tiktoken with them"""
    with open(FILES + "tekken_240718.json") as f:
        d = json.load(f)
    c = d["config"]
    n = c["default_vocab_size"] - c["default_num_special_tokens"]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"]
             for t in d["vocab"][:n]}
    return ranks, tiktoken.Encoding(name="t", pat_str=c["pattern"],
                                    mergeable_ranks=ranks, special_tokens={})


def letters():
    """GPT-2's alphabet"""
    keep = list(range(33, 127)) + list(range(161, 173)) \
        + list(range(174, 256))
    table, n = {}, 0
    for b in range(256):
        table[b] = chr(b) if b in keep else chr(256 + n)
        n += b not in keep
    return table


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def llama(ranks, path):
    """a tokenizer.json as Llama 3's, of the ranks of another vocabulary:
    merges as conversions list them, and not needed for whole tokens"""
    table = letters()
    spell = lambda t: "".join(table[b] for b in t)
    merges = sorted((r, ranks[t[:i]], ranks[t[i:]], spell(t[:i]),
                     spell(t[i:])) for t, r in ranks.items()
                    for i in range(1, len(t))
                    if t[:i] in ranks and t[i:] in ranks)
    t = Tokenizer(models.BPE(vocab={spell(k): v for k, v in ranks.items()},
                             merges=[m[3:] for m in merges],
                             ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.save(path)
    return t


def strings(path, *keys):
    """arrays of strings out of a GGUF file's metadata"""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8,
             12: 8}
    found = {}

    with open(path, "rb") as f:
        number = lambda form: struct.unpack(form, f.read(
            struct.calcsize(form)))[0]
        string = lambda: f.read(number("<Q")).decode()

        def value(kind):
            if kind == 8:
                return string()
            if kind == 9:
                kind = number("<I")
                return [value(kind) for _ in range(number("<Q"))]
            return f.read(sizes[kind])

        f.seek(16)
        for _ in range(number("<Q")):
            key = string()
            found[key] = value(number("<I"))

    return [found[k] for k in keys]


def smollm(path):
    tokens, merges = strings(path, "tokenizer.ggml.tokens",
                             "tokenizer.ggml.merges")
    t = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(tokens)},
                             merges=[tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    return t


def faster(t):
    """the ways that tokenizers has to encode one text"""
    return (lambda s: t.encode(s, add_special_tokens=False),
            lambda s: t.encode_batch_fast([s], add_special_tokens=False))


def main():
    sp = sentencepiece.SentencePieceProcessor(
        model_file=FILES + "mistral_instruct_tokenizer_240323.model.v3")
    ranks, enc = tekken()
    own = tempfile.TemporaryDirectory()
    path = own.name + "/tokenizer.json"
    hf = llama(ranks, path)

    cases = [
        ("spm v3", "spm", FILES + "mistral_instruct_tokenizer_240323.model.v3",
         "sentencepiece", (sp.encode,)),
        ("tekken", "tekken", FILES + "tekken_240718.json", "tiktoken",
         (enc.encode_ordinary,)),
        ("llama-3", "hf", path, "tokenizers", faster(hf)),
        ("smollm2", "gguf", SMOL, "tokenizers", faster(smollm(SMOL)))]

    print("%-8s %-8s %10s  %-14s %10s %7s" % ("kind", "texts", "ours MB/s",
                                              "peer", "MB/s", "ratio"))
    for name, kind, path, peer, ways in cases:
        for label, data in texts().items():
            size = sum(len(t.encode()) for t in data)
            repeat = max(1, LENGTH // size)
            a, b = [], []
            for _ in range(RUNS):
                a.append(size * repeat / ours(kind, path, data, repeat) / 1e6)
                b.append(size * repeat / min(timed(encode, data, repeat)
                                             for encode in ways) / 1e6)
            a, b = statistics.median(a), statistics.median(b)
            print("%-8s %-8s %10.1f  %-14s %10.1f %6.1fx"
                  % (name, label, a, peer, b, a / b))


main()

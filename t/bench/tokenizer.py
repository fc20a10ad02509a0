"""MB/s of text to token ids, one thread each, the same texts: ours beside
sentencepiece, tiktoken and tokenizers.  Medians of 5, alternating."""

import base64
import glob
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import sentencepiece
import tiktoken
from tokenizers import Tokenizer, models, pre_tokenizers

BUILD = os.environ.get("BUILD", "build")
FILES = BUILD + "/tokenizers/"
RUNS = 5

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


def bytes_of(ranks, path):
    """a tokenizer.json as SmolLM2's, of the first 40000 ranks"""
    keep = list(range(33, 127)) + list(range(161, 173)) \
        + list(range(174, 256))
    table, n = {}, 0
    for b in range(256):
        table[b] = chr(b) if b in keep else chr(256 + n)
        n += b not in keep
    small = {t: r for t, r in ranks.items() if r < 40000}
    spell = lambda t: "".join(table[b] for b in t)
    merges = sorted((r, small[t[:i]], small[t[i:]], spell(t[:i]),
                     spell(t[i:])) for t, r in small.items()
                    for i in range(1, len(t))
                    if t[:i] in small and t[i:] in small)
    t = Tokenizer(models.BPE(vocab={spell(k): v for k, v in small.items()},
                             merges=[m[3:] for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.save(path)
    return t


def main():
    sp = sentencepiece.SentencePieceProcessor(
        model_file=FILES + "mistral_instruct_tokenizer_240323.model.v3")
    ranks, enc = tekken()
    own = tempfile.TemporaryDirectory()
    path = own.name + "/tokenizer.json"
    hf = bytes_of(ranks, path)

    cases = [
        ("spm v3", "spm", FILES + "mistral_instruct_tokenizer_240323.model.v3",
         "sentencepiece", sp.encode),
        ("tekken", "tekken", FILES + "tekken_240718.json", "tiktoken",
         enc.encode_ordinary),
        ("bytes", "hf", path, "tokenizers",
         lambda s: hf.encode(s, add_special_tokens=False))]

    print("%-8s %-8s %10s  %-14s %10s %7s" % ("kind", "texts", "ours MB/s",
                                              "peer", "MB/s", "ratio"))
    for name, kind, path, peer, encode in cases:
        for label, data in texts().items():
            size = sum(len(t.encode()) for t in data)
            repeat = max(1, 4000000 // size)
            a, b = [], []
            for _ in range(RUNS):
                a.append(size * repeat / ours(kind, path, data, repeat) / 1e6)
                b.append(size * repeat / timed(encode, data, repeat) / 1e6)
            a, b = statistics.median(a), statistics.median(b)
            print("%-8s %-8s %10.1f  %-14s %10.1f %6.1fx"
                  % (name, label, a, peer, b, a / b))


main()

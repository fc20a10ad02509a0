"""MB/s of text to token ids, one thread each, the same texts: ours beside
sentencepiece, tiktoken and tokenizers.  Medians of 5, alternating."""

import base64
import glob
import json
import os
import statistics
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
RUNS = 5

FOREIGN = ("Вчера вечером мы долго говорили о погоде. 昨日の夜、私たちは長い間天気"
           "について話しました。 नमस्ते, आप कैसे हैं? Où est la bibliothèque, s'il vous "
           "plaît? ") * 200


def texts():
    """Prose and code of this tree, and other scripts."""
    docs = [open(f).read() for f in sorted(glob.glob("docs/*.md"))]
    code = [open(f).read() for f in sorted(glob.glob("src/engine/*.c"))]
    return {"prose": docs, "code": code, "scripts": [FOREIGN] * 4}


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
    with open(FILES + "tekken_240718.json") as f:
        d = json.load(f)
    c = d["config"]
    n = c["default_vocab_size"] - c["default_num_special_tokens"]
    ranks = {base64.b64decode(t["token_bytes"]): t["rank"]
             for t in d["vocab"][:n]}
    return tiktoken.Encoding(name="t", pat_str=c["pattern"],
                             mergeable_ranks=ranks, special_tokens={})


def main():
    sp = sentencepiece.SentencePieceProcessor(
        model_file=FILES + "mistral_instruct_tokenizer_240323.model.v3")
    enc = tekken()

    cases = [
        ("spm v3", "spm", FILES + "mistral_instruct_tokenizer_240323.model.v3",
         "sentencepiece", sp.encode),
        ("tekken", "tekken", FILES + "tekken_240718.json", "tiktoken",
         enc.encode_ordinary)]

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

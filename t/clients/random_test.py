"""A client that sends anything: every parameter random, valid or not, over
several connections, streamed or not, some left in the middle.  The null model
answers, so that most answers can be told beforehand.  Prints TAP.

    RANDOM_SEED=N    another seed than the usual one; "new" draws one
    RANDOM_TIME=N    seconds, 20 by default"""

import json
import os
import random
import sys
import threading
import time

sys.dont_write_bytecode = True

from harness import FOX, Response, Server, done, ok, post, same, seed, \
    wait_until

SEED = seed()
TIME = float(os.environ.get("RANDOM_TIME", 20))
THREADS = 6
CONTEXT = 1024

HTTP = """
    mistral_model null { path null:; context 1024; }
    mistral_model slow { path null:rate=400; context 1024; max_batch 4; }

    server {
        listen  127.0.0.1:PORT;

        client_max_body_size     1m;
        client_body_buffer_size  1k;
        keepalive_requests       100000;

        location /v1/ { mistral_pass null; }

        location /slow/ {
            mistral_pass   slow;
            mistral_queue  2 timeout=100ms;
        }

        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""

CHAT = "/chat/completions"
TEXT = "/completions"
LONG = FOX * 40


class Wrong(Exception):
    pass


def check(good, what, *about):
    if not good:
        raise Wrong(what, *about)


def word(r):
    return "".join(r.choice("abz Tq\u00e9\u4e16\U0001f98a\x00\"\\\n<|")
                   for _ in range(r.randrange(1, 20)))


def part(r):
    """a piece of what the null model says"""
    i = r.randrange(60)
    return LONG[i:i + r.randrange(1, 6)]


def ids(r, n=8):
    return [r.randrange(256) for _ in range(r.randrange(1, n))]


def message(r):
    role = r.choice(["user", "system", "developer", "assistant", "tool"])
    content = word(r) if r.random() < 0.7 else \
        [dict(type="text", text=word(r)) for _ in range(r.randrange(1, 3))]
    return dict(role=role, content=content)


def number(low, high, r):
    return r.choice([low, high, r.uniform(low, high)])


WRONG_NUMBER = ["1", [], {}, True, 1e300, -1e300]
WRONG_COUNT = WRONG_NUMBER + [-7, 1.5, 1 << 40]
WRONG_FLAG = [0, 1, "true", [], {}]

# name: APIs, a legal value, illegal ones
FIELDS = {
    "temperature": ("ct", lambda r: r.choice([0, number(0, 2, r)]),
                    WRONG_NUMBER + [2.01, -0.1]),
    "top_p": ("ct", lambda r: r.uniform(0.01, 1), WRONG_NUMBER + [0, 1.01]),
    "top_k": ("ct", lambda r: r.choice([-1, 0, 1, 50]), WRONG_COUNT),
    "min_p": ("ct", lambda r: number(0, 1, r), WRONG_NUMBER + [1.5]),
    "frequency_penalty": ("ct", lambda r: number(-2, 2, r),
                          WRONG_NUMBER + [2.5]),
    "presence_penalty": ("ct", lambda r: number(-2, 2, r),
                         WRONG_NUMBER + [-2.5]),
    "repetition_penalty": ("ct", lambda r: number(0.01, 100, r),
                           WRONG_NUMBER + [0]),
    "max_tokens": ("ct", lambda r: r.choice([1, 2, r.randrange(1, 200)]),
                   WRONG_COUNT),
    "max_completion_tokens": ("ct", lambda r: r.randrange(1, 200),
                              WRONG_COUNT),
    "max_new_tokens": ("ct", lambda r: r.randrange(1, 100),
                       WRONG_COUNT + [0]),
    "hard_max_new_tokens": ("ct", lambda r: r.randrange(100, 200),
                            WRONG_COUNT + [0]),
    "n": ("ct", lambda r: r.choice([1, 2, 3, 3, r.randrange(1, 129)]),
          WRONG_COUNT + [0, 129]),
    "seed": ("ct", lambda r: r.randrange(-1 << 63, 1 << 63),
             ["1", 1.5, [], True]),
    "random_seed": ("ct", lambda r: r.randrange(1 << 32), ["1", 1.5, {}]),
    "stop": ("ct", lambda r: r.choice([part(r), [part(r), part(r)], [],
                                       word(r)]),
             [1, {}, "", [1], [""], ["x"] * 17, "x" * 257]),
    "stop_token_ids": ("ct", lambda r: ids(r) if r.random() < 0.5 else [],
                       [1, "1", [256], [-1], ["a"], {}, [1.5],
                        list(range(40))]),
    "ignore_eos": ("ct", lambda r: r.random() < 0.5, WRONG_FLAG),
    "logit_bias": ("ct", lambda r: {str(i): number(-100, 100, r)
                                    for i in ids(r)},
                   [[], 1, "x", {"256": 1}, {"01": 1}, {"1": 101},
                    {"1": "x"}, {"": 0}]),
    "user": ("ct", word, [1, [], True]),
    "metadata": ("ct", lambda r: {part(r): word(r)}, [1, "x", []]),
    "stream": ("ct", lambda r: r.random() < 0.5, WRONG_FLAG),
    "logprobs": ("c", lambda r: r.random() < 0.5, [0, 1, "true", {}]),
    "echo": ("t", lambda r: r.random() < 0.5, WRONG_FLAG),
    "best_of": ("t", lambda r: 3, WRONG_COUNT + [0]),
    "suffix": ("t", lambda r: "", ["x", 1]),
    "tools": ("c", lambda r: [], [[{"type": "function"}], "x"]),
    "response_format": ("ct", lambda r: {"type": "text"},
                        [{"type": "json_object"}, "text"]),
    "add_generation_prompt": ("c", lambda r: True, WRONG_FLAG),
    "continue_final_message": ("c", lambda r: False, WRONG_FLAG),
    "safe_prompt": ("c", lambda r: r.random() < 0.5, WRONG_FLAG),
    "nobody_knows": ("ct", word, []),
}


def question(r, api):
    """a body, and the names of what is wrong in it"""
    body, wrong = {}, set()
    bad = r.random() < 0.3

    for name, (apis, legal, illegal) in FIELDS.items():
        if api not in apis or r.random() > 0.2:
            continue
        if r.random() < 0.1:
            body[name] = None
        elif bad and illegal and r.random() < 0.3:
            body[name] = r.choice(illegal)
            wrong.add(name)
        else:
            body[name] = legal(r)

    if api == "c":
        body["messages"] = [message(r) for _ in range(r.randrange(1, 4))]
        if bad and r.random() < 0.1:
            body["messages"] = r.choice([[], "x", [1], [{"role": "king"}]])
            wrong.add("messages")
    else:
        body["prompt"] = r.choice([word(r), ids(r), [word(r), word(r)],
                                   [ids(r), word(r)]])
        if bad and r.random() < 0.1:
            body["prompt"] = r.choice([1, {}, "", [], [[]], [256], [1, "a"],
                                       "x" * CONTEXT])
            wrong.add("prompt")

    # what only some values of others allow

    if body.get("stream") is True and "stream" not in wrong \
            and r.random() < 0.5:
        body["stream_options"] = {"include_usage": r.random() < 0.7}
    elif bad and not body.get("stream") and r.random() < 0.1:
        body["stream_options"] = r.choice([{"include_usage": True}, 1])
        wrong.add("stream_options")

    if api == "c" and body.get("logprobs") is True and r.random() < 0.5:
        body["top_logprobs"] = r.randrange(21)
    elif api == "c" and bad and r.random() < 0.1:
        body["top_logprobs"] = r.choice([21, -1, "x", 1.5])
        wrong.add("top_logprobs")

    if api == "t" and r.random() < 0.2:
        body["logprobs"] = r.randrange(21)

    if "best_of" in body and "best_of" not in wrong:
        if body["best_of"] is not None and body.get("n") != 3 \
                and "n" not in wrong:
            wrong.add("best_of")

    if api == "c" and "messages" not in wrong and r.random() < 0.1:
        last = dict(role="assistant", content=part(r))
        body["messages"].append(last)
        if r.random() < 0.5:
            last["prefix"] = True
        elif not {"continue_final_message", "add_generation_prompt"} & wrong:
            body["continue_final_message"] = True
            body["add_generation_prompt"] = False

    if api == "t" and body.get("echo") is True and r.random() < 0.3 \
            and not set(body) & {"max_completion_tokens"}:
        body["max_tokens"] = 0
        wrong.discard("max_tokens")

    if r.random() < 0.1 and body.get("max_tokens") \
            and type(body["max_tokens"]) is int \
            and "max_completion_tokens" not in body \
            and "max_tokens" not in wrong:
        body["min_tokens"] = r.randrange(0, body["max_tokens"] + 3)
        if body["min_tokens"] > body["max_tokens"]:
            wrong.add("min_tokens")

    return body, wrong


def size(prompt):
    return len(prompt.encode()) if isinstance(prompt, str) else len(prompt)


def prompts(body):
    """the list of prompts of a text completion"""
    prompt = body["prompt"]
    if isinstance(prompt, str) or isinstance(prompt[0], int):
        return [prompt]
    return prompt


def at_once(body, api):
    """places: equal answers are computed once"""
    n = 1 if body.get("temperature") == 0 else body.get("n") or 1
    return n * (len(prompts(body)) if api == "t" else 1)


def answer(body, n_prompt, api):
    """what the model says: text, tokens, finish_reason"""
    if body.get("max_tokens") == 0:
        return "", 0, "length"

    soft = body.get("max_new_tokens")
    limits = [body.get("max_completion_tokens") or body.get("max_tokens"),
              body.get("hard_max_new_tokens") or (soft and 1024)]
    limit = min([n for n in limits if n] or [16 if api == "t" else CONTEXT])
    limit = min(limit, CONTEXT - n_prompt)
    least = body.get("min_tokens") or 0
    stop_ids = body.get("stop_token_ids") or []
    stops = body.get("stop") or []
    stops = [stops] if isinstance(stops, str) else stops
    text, later = "", 0                # where the text behind "least" begins

    for k in range(1, limit + 1):
        byte = LONG[k - 1]
        if ord(byte) in stop_ids:
            if k > least:
                return text, k, "stop"
            continue
        text += byte
        if k <= least:
            later = len(text)
        hits = [s for s in stops if text[later:].endswith(s)]
        if hits:
            return text[:-max(map(len, hits))], k, "stop"

    return text, limit, "length"


def check_usage(usage):
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    check(usage["total_tokens"] == usage["prompt_tokens"]
          + usage["completion_tokens"], "the sum of the usage", usage)
    check(0 <= cached <= usage["prompt_tokens"], "cached tokens", usage)


def spelled(token):
    """the bytes of a token, which is spelled where it is no text"""
    return bytes.fromhex(token[6:].replace("\\x", "")) \
        if token.startswith("bytes:") else token.encode()


def check_logprobs(c, body, api):
    """iff asked for; together they are the text of the choice"""
    lp = c["logprobs"]
    asked = body.get("logprobs") if api == "c" \
        else body.get("logprobs") is not None
    check((lp is not None) == bool(asked), "logprobs iff asked for", c)
    if lp is None:
        return
    text = c["message"]["content"][len(prefix(body, api)):] if api == "c" \
        else c["text"]
    tokens = [t["token"] for t in lp["content"]] if api == "c" \
        else lp["tokens"]
    check(body.get("stop") or body.get("stop_token_ids")
          or b"".join(map(spelled, tokens)).decode("utf-8", "replace")
          == text, "logprobs of the text", c)
    if api == "c":
        return
    check(len(lp["token_logprobs"]) == len(tokens) == len(lp["text_offset"])
          == len(lp["top_logprobs"]), "lists of one length", c)
    check([i for i, x in enumerate(lp["token_logprobs"]) if x is None]
          == ([0] if body.get("echo") else []), "nothing before the echo", c)
    check(lp["text_offset"] == sorted(lp["text_offset"])
          and (body.get("stop") or lp["text_offset"][-1] <= len(text)),
          "offsets", c)


def read_whole(r, api, body):
    """a whole answer: texts and reasons by index, the usage"""
    check(r.headers["content-type"] == "application/json", "content type")
    got = r.json()
    check(got["object"] == ("chat.completion" if api == "c"
                            else "text_completion"), "object", got)
    check(got["id"] == r.headers["x-request-id"], "id", got)
    texts, reasons = {}, {}
    for c in got["choices"]:
        check(c["index"] not in texts, "an index once", got)
        texts[c["index"]] = c["message"]["content"] if api == "c" \
            else c["text"]
        reasons[c["index"]] = c["finish_reason"]
        check_logprobs(c, body, api)
    check_usage(got["usage"])
    return texts, reasons, got["usage"]


def late(raw):
    """a choice waited too long while another one was already sent: the last
    event is the error, and there is no [DONE]"""
    check(raw.endswith("\n\n"), "the end of an event", raw[-200:])
    last = raw[:-2].split("\n\n")[-1]
    check(last.startswith("data: {"), "the last event", last)
    error = json.loads(last[6:]).get("error") or {}
    check(error.get("code") == "deadline", "the last event", last)
    check("[DONE]" not in raw, "no [DONE] after an error")


def read_stream(r, api, body, n):
    check(r.headers["content-type"] == "text/event-stream", "content type")
    raw = r.body().decode()
    if not r.complete and r.headers["x-mistral-model"] == "slow" and n > 1:
        late(raw)
        return None
    check(r.complete, "the last chunk of a stream")
    check(raw.endswith("\n\n"), "the end of an event", raw[-200:])
    parts = raw[:-2].split("\n\n")
    check(parts[-1] == "data: [DONE]", "[DONE] is last", parts[-3:])
    texts, reasons, usage = {}, {}, None

    for event in parts[:-1]:
        check(event.startswith("data: {") and "\n" not in event,
              "an event is one line", event)
        e = json.loads(event[6:])
        check(e["object"] == ("chat.completion.chunk" if api == "c"
                              else "text_completion"), "object", e)
        check(e["id"] == r.headers["x-request-id"], "id", e)
        check(usage is None, "nothing after the usage", e)
        usage = e.get("usage")
        check(usage is None or e["choices"] == [], "usage alone", e)
        for c in e["choices"]:
            i = c["index"]
            check(i not in reasons, "nothing after finish_reason", e)
            check(api == "t" or (i in texts) != ("role" in c["delta"]),
                  "the role comes first and once", e)
            texts[i] = texts.get(i, "") + (
                c["delta"].get("content", "") if api == "c" else c["text"])
            if c["finish_reason"] is not None:
                reasons[i] = c["finish_reason"]

    asked = (body.get("stream_options") or {}).get("include_usage", False)
    check((usage is not None) == asked, "usage iff asked for", usage)
    if usage:
        check_usage(usage)
    return texts, reasons, usage


def prefix(body, api):
    """what the answer of a chat begins with"""
    last = body["messages"][-1] if api == "c" else {}
    return last["content"] if last.get("prefix") else ""


def check_answer(got, body, api):
    texts, reasons, usage = got
    n = body.get("n") or 1
    inputs = prompts(body) if api == "t" else [None]
    check(sorted(texts) == sorted(reasons) == list(range(n * len(inputs))),
          "every choice has its end", reasons)

    if api == "t" and usage:
        check(usage["prompt_tokens"] == sum(map(size, inputs)),
              "prompt tokens", usage)
    if api == "c" and not usage:
        for i in texts:
            check(reasons[i] in ("stop", "length"), "reason", reasons)
            start = prefix(body, api)
            check(texts[i].startswith(start), "prefix", texts[i])
            check(body.get("stop_token_ids")
                  or LONG.startswith(texts[i][len(start):]),
                  "text", texts[i])
        return

    tokens = 0
    for i in texts:
        prompt = inputs[i // n]
        text, count, reason = answer(body, usage["prompt_tokens"]
                                     if api == "c" else size(prompt), api)
        if body.get("echo") and isinstance(prompt, str):
            text = prompt + text
        text = prefix(body, api) + text
        if not (body.get("echo") and isinstance(prompt, list)):
            check(texts[i] == text, "text", i, texts[i], text)
        check(reasons[i] == reason, "finish_reason", i, reasons[i], reason)
        if i % n == 0 or body.get("temperature") != 0:
            tokens += count
    check(usage is None or usage["completion_tokens"] == tokens,
          "completion tokens", usage, tokens)


def check_error(r, statuses):
    error = r.json()["error"]
    check(r.status in statuses, "status", r.status, error)
    check(set(error) == {"message", "type", "param", "code"}
          and error["message"] and error["code"], "an error's body", error)
    kind = "server_error" if r.status >= 500 else "invalid_request_error"
    check(error["type"] == kind, "an error's type", error)
    if r.status == 503:
        check(error["code"] in ("queue_full", "deadline"), "code", error)
        check("retry-after" in r.headers
              and r.headers["x-mistral-shed-reason"] == error["code"],
              "headers of a 503", r.headers)
    return error


class Client(threading.Thread):
    def __init__(self, server, index, end):
        super().__init__(daemon=True)
        self.r = random.Random("%d %d" % (SEED, index))
        self.server = server
        self.end = end
        self.sock = None
        self.seen = {}
        self.wrong = None
        self.last = None

    def run(self):
        try:
            while time.time() < self.end:
                self.turn()
        except Exception as e:
            self.wrong = (repr(e)[:1500], repr(self.last)[:1500])
        if self.sock:
            self.sock.close()

    def close(self):
        self.sock.close()
        self.sock = None

    def count(self, what):
        self.seen[what] = self.seen.get(what, 0) + 1

    def turn(self):
        r = self.r
        if self.sock is None:
            self.sock = self.server.connect()
        api = r.choice("ct")
        base = r.choice(["/v1", "/v1", "/v1", "/slow"])
        path = base + (CHAT if api == "c" else TEXT)
        body, wrong = question(r, api)
        if base == "/slow" and not set(body) & {"max_tokens"}:
            body["max_tokens"] = r.randrange(1, 60)
        if base == "/slow" and not {"n", "prompt", "temperature"} & wrong \
                and at_once(body, api) > 6:
            wrong.add("prompt" if api == "t" and len(prompts(body)) > 1
                      else "n")
        self.last = path, body, sorted(wrong)

        dice = r.random()
        if dice < 0.05:
            self.broken(path, body)
        elif dice < 0.1:
            self.leave(path, body)
        elif dice < 0.15:
            self.other(base, body)
        elif dice < 0.2:
            self.ids(base)
        else:
            self.ask(path, body, wrong, api)
        if self.sock and r.random() < 0.05:
            self.close()

    def send(self, path, body):
        """whole, in pieces, or chunked"""
        data = post(path, body)
        if self.r.random() < 0.6:
            self.sock.sendall(data)
            return
        head, body = data.split(b"\r\n\r\n", 1)
        chunked = self.r.random() < 0.5
        if chunked:
            head = b"\r\n".join(h for h in head.split(b"\r\n")
                                if not h.startswith(b"Content-Length")) \
                + b"\r\nTransfer-Encoding: chunked"
        self.sock.sendall(head + b"\r\n\r\n")
        while body:
            n = self.r.randrange(1, 500)
            piece, body = body[:n], body[n:]
            if chunked:
                piece = b"%x\r\n%s\r\n" % (len(piece), piece)
            self.sock.sendall(piece)
        if chunked:
            self.sock.sendall(b"0\r\n\r\n")

    def ask(self, path, body, wrong, api):
        self.send(path, body)
        r = Response(self.sock)
        self.count(r.status)
        if r.status != 200:
            error = check_error(r, (400,) if wrong else (503,))
            if r.status == 400:
                param = (error["param"] or "").split("[")[0].split(".")[0]
                check(param in wrong, "the field that is wrong", error)
            return
        check(not wrong, "200 for what is wrong")
        check(r.headers["x-mistral-model"] == ("slow" if "/slow" in path
                                               else "null"), "model")
        if body.get("stream"):
            n = (body.get("n") or 1) * (len(prompts(body)) if api == "t"
                                        else 1)
            got = read_stream(r, api, body, n)
            if got is None:
                self.count("late")
                self.close()
                return
        else:
            got = read_whole(r, api, body)
        check_answer(got, body, api)

    def broken(self, path, body):
        """a body with bytes changed or lost: an answer of some kind"""
        data = bytearray(json.dumps(body).encode())
        for _ in range(self.r.randrange(1, 4)):
            at = self.r.randrange(len(data))
            if self.r.random() < 0.3:
                del data[at:]
                data += b"{"
            else:
                data[at] = self.r.randrange(256)
        self.last = path, bytes(data)
        self.sock.sendall(post(path, bytes(data)))
        r = Response(self.sock)
        self.count(r.status)
        if r.status != 200:
            check_error(r, (400, 404, 503))
        elif r.headers["content-type"] == "text/event-stream":
            raw = r.body().decode()
            if r.complete:
                check(raw.endswith("data: [DONE]\n\n"), "[DONE]")
            else:
                late(raw)
                self.close()
        else:
            check_usage(r.json()["usage"])

    def leave(self, path, body):
        """gone at any time: in the request, before or in the answer"""
        data = post(path, body)
        self.sock.sendall(data[:self.r.choice([len(data), len(data),
                                               self.r.randrange(len(data))])])
        if self.r.random() < 0.5:
            self.sock.settimeout(self.r.uniform(0.001, 0.03))
            try:
                self.sock.recv(self.r.randrange(1, 2000))
            except OSError:
                pass
        self.count("left")
        self.close()

    def ids(self, base):
        """text to ids and back"""
        text = word(self.r)
        self.last = base, text
        self.sock.sendall(post(base + "/tokenize", dict(prompt=text)))
        got = Response(self.sock).json()
        check(got["tokens"] == list(text.encode())
              and got["count"] == len(got["tokens"]), "tokenize", got)
        self.sock.sendall(post(base + "/detokenize",
                               dict(tokens=got["tokens"])))
        got = Response(self.sock).json()
        check(got == dict(prompt=text), "detokenize", got)

    def other(self, base, body):
        """no such method, path, model, or media type"""
        r = self.r
        data, status = r.choice([
            (post(base + TEXT, body).replace(b"POST", b"PUT", 1), 405),
            (post(base + "/zebra", body), 404),
            (post(base + TEXT, dict(prompt="a", model="zebra")), 404),
            (post(base + TEXT, body).replace(b"application/json",
                                             b"text/plain", 1), 415),
            (post(base + TEXT, body, "Content-Encoding: gzip"), 415)])
        self.sock.sendall(data)
        answer = Response(self.sock)
        self.count(answer.status)
        check_error(answer, (status,))


def main():
    server = Server(HTTP, workers=2)
    if server.up:
        end = time.time() + TIME
        clients = [Client(server, i, end) for i in range(THREADS)]
        for c in clients:
            c.start()
        for c in clients:
            c.join(TIME + 30)
            ok(not c.is_alive() and c.wrong is None, "a client finds no fault",
               c.wrong or c.last)

        seen = {}
        for c in clients:
            for k, v in c.seen.items():
                seen[k] = seen.get(k, 0) + v
        print("# " + ", ".join("%s: %d" % (k, seen[k])
                               for k in sorted(seen, key=str)))
        for k in (200, 400, 404, 405, 415, 503, "left"):
            ok(seen.get(k, 0) > 0, "some were %s" % k)

        for name in "null", "slow":
            ok(wait_until(lambda: server.idle(name)), "no place is kept",
               server.model(name))
            m = server.model(name)
            same((m["kv_blocks_used"], m["restarts"], m["slots_reclaimed"],
                  m["bad_records"]), (0, 0, 0, 0),
                 "nor a block, and the engine never ended")
    server.stop()
    done()


main()

"""The real openai client against nginx with the real model and a null one.

Prints TAP.  Needs build/ngx_http_mistral_module.so, build/mistral, the model
and the client in build/venv.
"""

import json
import sys
import threading

import openai

sys.dont_write_bytecode = True

from harness import FOX, Server, done, ok, same, wait_until

GOLDEN = "t/data/golden/smollm2_greedy.jsonl"

HTTP = """
    mistral_model smollm2 {
        path     MODEL;
        context  2048;
        alias    gpt-4o-mini;
    }

    mistral_model null {
        path  null:rate=200;
    }

    map $mistral_model $pass {
        default  smollm2;
        null     null;
    }

    server {
        listen  127.0.0.1:PORT;

        location /v1/ {
            mistral_pass  $pass;
            mistral_queue 128 timeout=300s;
        }

        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""


def test_models(client):
    same(sorted(m.id for m in client.models.list()),
         ["gpt-4o-mini", "null", "smollm2"], "models.list")
    same(client.models.retrieve("null").id, "null", "models.retrieve")

    try:
        client.models.retrieve("other")
        ok(False, "an unknown model is NotFoundError")
    except openai.NotFoundError as e:
        same(e.code, "model_not_found", "an unknown model is NotFoundError")


def test_golden(client):
    for line in list(open(GOLDEN))[:4]:
        g = json.loads(line)
        what = g["messages"][-1]["content"][:40]
        args = dict(model="gpt-4o-mini", messages=g["messages"], temperature=0,
                    max_tokens=len(g["greedy_ids"]))

        r = client.chat.completions.create(logprobs=True, top_logprobs=3,
                                           **args)
        same(r.choices[0].message.content, g["greedy_text"],
             "chat: " + what)
        same(r.model, "gpt-4o-mini", "the answer has the client's name")
        same((r.usage.prompt_tokens, r.usage.completion_tokens),
             (len(g["prompt_ids"]), len(g["greedy_ids"])), "usage is exact")

        lp = r.choices[0].logprobs.content
        worst = max(abs(a.logprob - b)
                    for a, b in zip(lp, g["greedy_logprobs"]))
        ok(len(lp) == len(g["greedy_ids"]) and worst < 2e-3,
           "logprobs are the reference's", (len(lp), worst))
        ok(all(len(t.top_logprobs) == 3
               and t.top_logprobs[0].logprob >= t.top_logprobs[2].logprob
               for t in lp), "three alternatives each, best first")

        stream = client.chat.completions.create(
            stream=True, stream_options={"include_usage": True}, **args)
        chunks = list(stream)
        text = "".join(c.choices[0].delta.content or ""
                       for c in chunks if c.choices)
        same(text, g["greedy_text"], "the stream says the same")
        same(chunks[0].choices[0].delta.role, "assistant",
             "the role comes first")
        same([c.choices[0].finish_reason for c in chunks if c.choices][-1],
             r.choices[0].finish_reason, "and ends for the same reason")
        same(chunks[-1].usage.completion_tokens, len(g["greedy_ids"]),
             "the last chunk has the usage")

        r = client.completions.create(model="smollm2", temperature=0,
                                      prompt=g["prompt_ids"],
                                      max_tokens=len(g["greedy_ids"]))
        same(r.choices[0].text, g["greedy_text"], "completion of the ids")

    ids = g["prompt_ids"] + g["greedy_ids"]
    r = client.completions.create(model="smollm2", prompt=ids, echo=True,
                                  max_tokens=0, logprobs=2)
    lp = r.choices[0].logprobs
    n = len(g["greedy_ids"])
    worst = max(abs(a - b) for a, b in zip(lp.token_logprobs[-n:],
                                           g["greedy_logprobs"]))
    ok(len(lp.tokens) == len(ids) and lp.token_logprobs[0] is None
       and worst < 2e-3, "an echo's logprobs are the reference's",
       (len(lp.tokens), len(ids), worst))
    ok(all(max(t.values()) >= a for t, a in
           zip(lp.top_logprobs[1:], lp.token_logprobs[1:])),
       "beside the best alternatives")


def test_sampling(client):
    """each parameter reaches the sampler and does what it says"""
    g = json.loads(open(GOLDEN).readline())
    n = 8

    def text(**kw):
        kw.setdefault("temperature", 0)
        extra = {k: kw.pop(k) for k in list(kw) if k in
                 ("top_k", "min_p", "repetition_penalty", "ignore_eos",
                  "min_tokens", "stop_token_ids")}
        r = client.completions.create(model="smollm2", prompt=g["prompt_ids"],
                                      max_tokens=kw.pop("max_tokens", n),
                                      extra_body=extra, **kw)
        return r.choices[0]

    ids = g["greedy_ids"]
    greedy = text().text
    chance = dict(temperature=2, seed=11, max_tokens=n)

    same(text(top_k=1, **chance).text, greedy, "top_k 1 leaves the best one")
    same(text(min_p=1, **chance).text, greedy, "and min_p 1")
    same(text(top_p=1e-9, **chance).text, greedy, "and a small top_p")
    ok(text(**chance).text != greedy, "temperature 2 does not")

    same(text(**chance).text, text(**chance).text, "one seed, one answer")
    ok(len({text(**dict(chance, seed=i)).text for i in range(4)}) > 1,
       "others have others")

    same(text(logit_bias={str(ids[3]): 100}, logprobs=0).logprobs.tokens,
         text(logit_bias={str(ids[3]): 100}, max_tokens=1,
              logprobs=0).logprobs.tokens * n,
         "a bias of 100 is the only word")
    ok(text(logit_bias={str(ids[0]): -100}).text != greedy,
       "one of -100 is never said")

    twice = {str(ids[3]): 100, str(ids[4]): 99}
    for name in ("frequency_penalty", "presence_penalty"):
        lp = text(logit_bias=twice, logprobs=0, max_tokens=2,
                  **{name: 2}).logprobs.tokens
        ok(lp[0] != lp[1], name + " turns from what was said", lp)
    ok(text(repetition_penalty=100).text != greedy,
       "repetition_penalty from what was asked, too")

    same(text(stop_token_ids=[ids[2]]).finish_reason, "stop",
         "a stop id ends it")
    c = text(logit_bias={"2": 100})
    same((c.text, c.finish_reason), ("", "stop"), "its own end, at once")
    c = text(logit_bias={"2": 100}, ignore_eos=True)
    same((c.text, c.finish_reason), ("", "length"), "which may be ignored")
    c = text(logit_bias={"2": 100}, min_tokens=3, logprobs=0)
    same((len(c.logprobs.tokens), c.finish_reason), (4, "stop"),
         "and does not come before min_tokens")


def test_null(client):
    r = client.completions.create(model="null", prompt="x", max_tokens=19)
    same((r.choices[0].text, r.choices[0].finish_reason),
         (FOX[:19], "length"), "completion: cut at max_tokens")

    r = client.completions.create(model="null", prompt="x", max_tokens=40,
                                  stop=["brown fox", "zzz"])
    same((r.choices[0].text, r.choices[0].finish_reason),
         ("The quick ", "stop"), "completion: a stop string")
    c = client.completions.create(model="null", prompt="x", max_tokens=40,
                                  stop="brown", logprobs=0)
    same((c.choices[0].text, "".join(c.choices[0].logprobs.tokens),
          c.usage.completion_tokens), ("The quick ", "The quick brown", 15),
         "whose tokens are counted, and have their log-probabilities")
    ok(19 <= r.usage.completion_tokens <= 40,
       "the stop string's tokens are counted", r.usage)

    r = client.chat.completions.create(
        model="null", messages=[{"role": "user", "content": "x"}],
        max_completion_tokens=9, n=3)
    same([(c.index, c.message.content) for c in r.choices],
         [(i, FOX[:9]) for i in range(3)], "three answers")
    same(r.usage.completion_tokens, 27, "whose tokens are added up")

    r = client.chat.completions.create(
        model="null", messages=[{"role": "developer", "content": "x"}],
        max_tokens=4, n=5, temperature=0)
    same(([c.message.content for c in r.choices],
          r.usage.completion_tokens), (["The "] * 5, 4),
         "at temperature 0 five answers cost one")

    r = client.completions.create(model="null", prompt=["ab", "c"], n=2,
                                  max_tokens=3, echo=True)
    same([(c.index, c.text) for c in r.choices],
         [(0, "abThe"), (1, "abThe"), (2, "cThe"), (3, "cThe")],
         "a list of prompts, echoed")

    r = client.completions.create(model="null", prompt=[[97], [98, 99]],
                                  max_tokens=0, echo=True)
    same([c.text for c in r.choices], ["a", "bc"], "the prompts alone")

    got = {}
    for chunk in client.completions.create(model="null", stream=True,
                                           prompt=["a", "b", "c"],
                                           max_tokens=9):
        for c in chunk.choices:
            got[c.index] = got.get(c.index, "") + c.text
    same(got, {i: FOX[:9] for i in range(3)}, "three prompts in one stream")

    r = client.completions.create(model="null", prompt="x", max_tokens=2,
                                  logprobs=2)
    same((r.choices[0].logprobs.tokens, r.choices[0].logprobs.text_offset),
         (["T", "h"], [0, 1]), "logprobs of a completion")

    r = client.chat.completions.create(
        model="null", messages=[{"role": "user", "content": "x"}],
        max_tokens=2, logprobs=True, top_logprobs=1, user="ann",
        metadata={"a": "b"}, seed=1, logit_bias={"122": -100},
        frequency_penalty=0.5, presence_penalty=0.5)
    same([t.bytes for t in r.choices[0].logprobs.content], [[84], [104]],
         "logprobs of a chat have bytes")


def test_errors(client):
    msg = [{"role": "user", "content": "x"}]

    def fails(kind, name, code, param=None, **kw):
        try:
            client.chat.completions.create(**kw)
            ok(False, name)
        except kind as e:
            ok(e.code == code and (param is None or e.param == param), name,
               (e.code, e.param, str(e)))

    fails(openai.NotFoundError, "unknown model", "model_not_found", "model",
          model="zzz", messages=msg)
    fails(openai.BadRequestError, "temperature 3", "invalid_value",
          "temperature", model="null", messages=msg, temperature=3)
    fails(openai.BadRequestError, "tools are refused", "unsupported", "tools",
          model="null", messages=msg,
          tools=[{"type": "function", "function": {"name": "f"}}])
    fails(openai.BadRequestError, "too long", "context_length_exceeded", None,
          model="smollm2",
          messages=[{"role": "user", "content": "word " * 3000}])


def test_abort(client, server):
    stream = client.chat.completions.create(
        model="null", messages=[{"role": "user", "content": "x"}],
        stream=True, max_tokens=100000)

    got = ""
    for chunk in stream:
        got += chunk.choices[0].delta.content or ""
        if len(got) >= 10:
            break

    ok(not server.idle("null"), "a stream runs")
    stream.close()
    ok(wait_until(lambda: server.idle("null")),
       "closed: its places are free")


def test_parallel(client):
    out = [None] * 24

    def one(i):
        stream = client.chat.completions.create(
            model="null", messages=[{"role": "user", "content": str(i)}],
            stream=True, max_tokens=30 + i)
        out[i] = "".join(c.choices[0].delta.content or "" for c in stream)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    same(out, [(FOX * 2)[:30 + i] for i in range(24)], "24 streams at once")


def main():
    server = Server(HTTP)

    if server.up:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="-",
                               max_retries=0, timeout=120)
        test_models(client)
        test_golden(client)
        test_sampling(client)
        test_null(client)
        test_errors(client)
        test_abort(client, server)
        test_parallel(client)

    server.stop()
    done()


main()

"""The real openai and mistralai clients in conversations with two tools.

The model is the null one with real vocabularies, whose script is what a
model of each of Mistral's versions would write; and with one of bytes and
templates whose text names the calls of Hermes and of Llama 3.  Prints TAP.
"""

import base64
import json
import os
import re
import sys
import tempfile

import openai
import sentencepiece
import tiktoken
from mistralai.client import Mistral

sys.dont_write_bytecode = True

from harness import BUILD, Response, Server, done, ok, post, same

FILES = BUILD + "/tokenizers/"
CALLS = [("get_weather", {"city": 'Z\u00fcrich "Nord"', "days": [1, 2]}),
         ("get_time", {"tz": "Europe/Zurich"})]
LATER = ("get_time", {"tz": "UTC"})
THOUGHT = "Both are known now."
ANSWER = "It is 21 \u00b0C at 9:41."
TOOLS = [{"type": "function",
          "function": {"name": n, "description": "d",
                       "parameters": {"type": "object", "properties": {}}}}
         for n, _ in CALLS]
BROKEN = '[{"name": "get_time", "arguments": {"tz": oh no}}]'

# what shows tools and calls, as their models' templates do

HERMES = """{% for t in tools or [] %}{{ t | tojson }}
{% endfor %}<tools> {"name": NAME, "arguments": OBJECT} in <tool_call></tool_call>
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments
| tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
LLAMA = """{% for t in tools or [] %}{{ t | tojson }}
{% endfor %}Respond in the format {"name": function name, "parameters": dictionary}.
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}
{{ '{"name": "' + c.function.name + '", "parameters": ' }}{{
c.function.arguments | tojson }}}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

MODEL = """
    mistral_model %(name)s {
        path       null:rate=%(rate)d,tokenizer=%(file)s,text=%(script)s;
        max_batch  8;
        context    8192;
    }
"""

HTTP = """
    %(models)s
    map $mistral_model $pass {
        default  $mistral_model;
    }

    server {
        listen  127.0.0.1:PORT;

        location /v1/ { mistral_pass $pass; }
        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""


class Spm:
    """a SentencePiece file: text behind a control token begins with a space
    of its own"""

    eos = 2

    def __init__(self, file):
        self.file = FILES + file
        self.sp = sentencepiece.SentencePieceProcessor(model_file=self.file)

    def text(self, s):
        return self.sp.encode(s)

    def mark(self, s):
        i = self.sp.piece_to_id(s)
        assert i > 0, s
        return i


class Tekken:
    """tekken.json; "names" are control tokens that a later version has"""

    eos = 2

    def __init__(self, directory, version=None, names=()):
        self.file = FILES + "tekken_240718.json"
        t = json.load(open(self.file))
        n = t["config"]["default_num_special_tokens"]
        size = t["config"]["default_vocab_size"] - n
        self.marks = {"[TOOL_CALLS]": 9}
        self.marks.update(names)

        if version:
            t["config"]["version"] = "v%d" % version
            old = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]",
                   "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
                   "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]",
                   "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]",
                   "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
                   "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
            every = {i: s for i, s in enumerate(old)}
            every.update((i, s) for s, i in names)
            t["special_tokens"] = [
                {"rank": i, "token_str": every.get(i, "<SPECIAL_%d>" % i),
                 "is_control": True} for i in range(n)]
            t.pop("multimodal", None)
            if version >= 15:
                t["model_settings_builder"] = {"reasoning_effort": {
                    "type": "enum", "values": ["none", "high"],
                    "accepts_none": True, "default": "none"}}
            self.file = "%s/tekken_v%d.json" % (directory, version)
            json.dump(t, open(self.file, "w"))

        self.n = n
        self.enc = tiktoken.Encoding(
            "tekken", pat_str=t["config"]["pattern"], special_tokens={},
            mergeable_ranks={base64.b64decode(v["token_bytes"]): v["rank"]
                             for v in t["vocab"][:size]})

    def text(self, s):
        return [i + self.n for i in self.enc.encode_ordinary(s)]

    def mark(self, s):
        return self.marks[s]


class Bytes:
    """a directory with a vocabulary of bytes and a chat template"""

    names = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|python_tag|>"]
    eos = 301

    def __init__(self, directory, name, template, names=4):
        self.file = "%s/%s" % (directory, name)
        os.mkdir(self.file, 0o755)

        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        other = [b for b in range(256) if b not in plain]
        letters = {b: b for b in plain}
        letters.update((b, 256 + i) for i, b in enumerate(other))
        vocab = {chr(letters[b]): b for b in range(256)}
        vocab.update(("t%d" % i, i) for i in range(256, 300))

        self.write("tokenizer.json", {
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                              "use_regex": True},
            "added_tokens": [{"id": 300 + i, "content": s, "special": True}
                             for i, s in enumerate(self.names[:names])],
            "model": {"type": "BPE", "vocab": vocab, "merges": []}})
        self.write("tokenizer_config.json", {
            "bos_token": "<s>", "eos_token": "</s>",
            "chat_template": template})

    def write(self, file, data):
        with open("%s/%s" % (self.file, file), "w") as f:
            json.dump(data, f)

    def text(self, s):
        return list(s.encode())

    def mark(self, s):
        return 300 + self.names.index(s)


def as_list(v, calls):
    """[TOOL_CALLS] and a JSON list: v2, v3, v7"""
    return [v.mark("[TOOL_CALLS]")] + v.text(json.dumps(
        [{"name": n, "arguments": a} for n, a in calls], ensure_ascii=False))


def as_named(ids):
    """[TOOL_CALLS] name [ARGS]: from v11 on, there with ids"""
    def write(v, calls):
        out = []
        for i, (n, a) in enumerate(calls):
            out += [v.mark("[TOOL_CALLS]")] + v.text(n)
            if ids:
                out += [v.mark("[CALL_ID]")] + v.text("theirs%03d" % i)
            out += [v.mark("[ARGS]")] + v.text(
                json.dumps(a, ensure_ascii=False))
        return out
    return write


def as_tags(v, calls):
    """<tool_call> and an object"""
    return v.text("\n".join("<tool_call>\n%s\n</tool_call>" % json.dumps(
        {"name": n, "arguments": a}) for n, a in calls))


def objects(calls):
    return "; ".join(json.dumps({"name": n, "parameters": a})
                     for n, a in calls)


def as_objects(v, calls):
    """objects alone"""
    return v.text(objects(calls))


def as_python(v, calls):
    return [v.mark("<|python_tag|>")] + v.text(objects(calls))


class Case:
    rate = 400

    def __init__(self, name, vocab, write, text=True, ids=False, think=False,
                 calls=CALLS):
        self.name, self.vocab, self.ids, self.calls = name, vocab, ids, calls
        self.before = "I look that up." if text else None
        self.think = THOUGHT if think else None
        self.broken = BROKEN

        v = vocab
        first = v.text(self.before) if text else []
        last = ([v.mark("[THINK]")] + v.text(THOUGHT) + [v.mark("[/THINK]")]
                if think else [])
        self.script = [first + write(v, calls) + [v.eos],
                       write(v, [LATER]) + [v.eos],
                       last + v.text(ANSWER) + [v.eos],
                       [v.mark("[TOOL_CALLS]")] + v.text(BROKEN) + [v.eos],

                       # behind what is forced: by name, and any
                       v.text(json.dumps(LATER[1])
                              + ("}]" if write is as_list else "")) + [v.eos],
                       write(v, [LATER])[1:] + [v.eos]]

    def model(self, directory):
        script = "%s/%s.json" % (directory, self.name)
        json.dump(self.script, open(script, "w"))
        os.chmod(script, 0o644)
        return MODEL % dict(name=self.name, file=self.vocab.file,
                            rate=self.rate, script=script)


class Template(Case):
    """broken: one that is malformed; forced: two answers, behind what is
    forced by name, and for any"""

    ids, think, calls, rate = False, None, CALLS, 2000

    def __init__(self, name, vocab, write, before, broken, forced):
        v = self.vocab = vocab
        self.name, self.before, self.broken = name, before, broken

        mark = write(v, [])[:1] if write is as_python else []
        self.script = [ids + [v.eos] for ids in (
            v.text(before or "") + write(v, CALLS), write(v, [LATER]),
            v.text(ANSWER), mark + v.text(broken),
            v.text(forced[0]), v.text(forced[1]))]


def openai_turn(client, case, messages, stream, **more):
    """content, thought, calls as (id, name, arguments), reason, usage"""
    args = dict(model=case.name, messages=messages, tools=TOOLS,
                temperature=0, **more)

    if not stream:
        r = client.chat.completions.create(**args)
        c = r.choices[0]
        return (c.message.content,
                getattr(c.message, "reasoning_content", None),
                [(t.id, t.function.name, t.function.arguments)
                 for t in c.message.tool_calls or []], c.finish_reason,
                r.usage.completion_tokens, c.message)

    content, thought, calls, reason, usage = "", "", [], None, 0
    for chunk in client.chat.completions.create(
            stream=True, stream_options={"include_usage": True}, **args):
        for c in chunk.choices:
            content += c.delta.content or ""
            thought += getattr(c.delta, "reasoning_content", None) or ""
            reason = c.finish_reason or reason
            for t in c.delta.tool_calls or []:
                if t.id is not None:
                    ok(t.index == len(calls) and t.type == "function"
                       and t.function.name, case.name + ": a call begins",
                       t)
                    calls.append([t.id, t.function.name, ""])
                elif t.function.name:
                    ok(False, case.name + ": the name comes once", t)
                calls[t.index][2] += t.function.arguments
        if chunk.usage:
            usage = chunk.usage.completion_tokens

    calls = [tuple(c) for c in calls]
    message = {"role": "assistant", "content": content or None}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function",
             "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return content or None, thought or None, calls, reason, usage, message


def mistral_turn(client, case, messages, stream, **more):
    args = dict(model=case.name, messages=messages, tools=TOOLS,
                temperature=0, **more)

    if not stream:
        r = client.chat.complete(**args)
        c = r.choices[0]
        return (c.message.content or None, None,
                [(t.id, t.function.name, t.function.arguments)
                 for t in c.message.tool_calls or []], c.finish_reason,
                r.usage.completion_tokens, c.message)

    content, calls, reason, usage = "", [], None, 0
    for event in client.chat.stream(**args):
        for c in event.data.choices:
            content += c.delta.content or ""
            reason = c.finish_reason or reason
            for t in c.delta.tool_calls or []:
                if t.index == len(calls):
                    calls.append([t.id, "", ""])
                calls[t.index][1] += t.function.name
                calls[t.index][2] += t.function.arguments
    calls = [tuple(c) for c in calls]
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function",
             "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return content or None, None, calls, reason, None, message


def conversation(case, turn, client, stream, who):
    name = "%s, %s%s: " % (case.name, who, ", stream" if stream else "")
    messages = [{"role": "user", "content": "Weather and time?"}]
    seen = []

    for k, want in enumerate((case.calls, [LATER])):
        content, _, calls, reason, usage, message = turn(
            client, case, messages, stream)

        same([(n, json.loads(a)) for _, n, a in calls], want,
             name + "the calls of answer %d" % k)
        same((content, reason), (None if k else case.before, "tool_calls"),
             name + "beside them")
        if usage is not None:
            same(usage, len(case.script[k]), name + "usage")
        ok(all(re.match("^[a-zA-Z0-9]{9}$", i) for i, _, _ in calls),
           name + "ids of 9 characters", calls)
        if case.ids:
            same([i for i, _, _ in calls],
                 ["theirs%03d" % i for i in range(len(calls))],
                 name + "the model's own ids")
        else:
            seen += [i for i, _, _ in calls]

        messages.append(message)
        for i, n, _ in calls:
            messages.append({"role": "tool", "tool_call_id": i, "name": n,
                             "content": '{"value": 21}'})

    ok(len(set(seen)) == len(seen), name + "ids differ", seen)

    content, thought, calls, reason, usage, _ = turn(client, case, messages,
                                                     stream)
    same((content, calls, reason), (ANSWER, [], "stop"), name + "the answer")
    if who == "openai":
        same(thought, case.think, name + "the thought")

    messages += [{"role": "assistant", "content": ANSWER},
                 {"role": "user", "content": "Again?"}]
    content, _, calls, reason, usage, _ = turn(client, case, messages, stream)

    if stream and content != case.broken:

        # it had begun: the rest is text

        same([(n, a) for _, n, a in calls], [("get_time", '{"tz": ')],
             name + "a malformed call")
        same((content, reason),
             (case.broken[case.broken.index("oh no"):], "stop"),
             name + "is text")
    else:
        same((content, calls, reason), (case.broken, [], "stop"),
             name + "a malformed call is text")


def choices(case, client):
    """tool_choice and parallel_tool_calls"""
    def ask(stream=False, **more):
        return openai_turn(client, case,
                           [{"role": "user", "content": "x"}], stream, **more)

    plain = ask()
    none = ask(tool_choice="none")
    same((none[2], none[3]), ([], "stop"), case.name + ": tool_choice none")
    ok("get_weather" in none[0], case.name + ": what comes then is text",
       none)

    for stream in (False, True):
        got = ask(stream, parallel_tool_calls=False)
        same([(n, json.loads(a)) for _, n, a in got[2]], CALLS[:1],
             case.name + ": one call only")
        same((got[0], got[3]), (case.before, "tool_calls"),
             case.name + ": and its reason")
        ok(got[4] < len(case.script[0]), case.name + ": what follows is cut",
           got[4])

    same(ask(tool_choice="auto", stop=["look"])[:4:3],
         ("I ", "stop") if case.before else (None, "tool_calls"),
         case.name + ": a stop string is looked for in the text")
    ok(plain[2], case.name + ": calls", plain)


def forced(server, case):
    """the prompt ends with what the answer begins with: the script goes on
    from there"""
    def ask(turn, **more):
        messages = [{"role": "user", "content": "x"}]
        for _ in range(turn):
            messages += [{"role": "assistant", "content": "y"},
                         {"role": "user", "content": "x"}]
        s = server.connect()
        s.sendall(post("/v1/chat/completions", dict(
            model=case.name, tools=TOOLS, messages=messages, **more),
            "Connection: close"))
        r = Response(s).json()
        s.close()
        return r["choices"][0], r["usage"]["prompt_tokens"]

    name = dict(type="function", function=dict(name="get_time"))

    for turn, choice in ((4, name), (5, "required"), (5, "any")):
        _, base = ask(turn)
        c, n = ask(turn, tool_choice=choice)
        same([(t["function"]["name"], json.loads(t["function"]["arguments"]))
              for t in c["message"].get("tool_calls", [])], [LATER],
             "%s: tool_choice %s" % (case.name, choice))
        same(c["finish_reason"], "tool_calls", case.name + ": and its reason")
        ok(n > base, case.name + ": what is forced belongs to the prompt",
           (base, n))


def main():
    directory = tempfile.mkdtemp(prefix="mistral-tools-")
    os.chmod(directory, 0o755)

    v3 = Tekken(directory)
    v11 = Tekken(directory, 11, [("[ARGS]", 32), ("[CALL_ID]", 33)])
    v7 = Tekken(directory, 7)
    thinks = [("[ARGS]", 32), ("[CALL_ID]", 33), ("[THINK]", 34),
              ("[/THINK]", 35)]
    v13 = Tekken(directory, 13, thinks)
    v15 = Tekken(directory, 15, thinks + [("[MODEL_SETTINGS]", 37),
                                          ("[/MODEL_SETTINGS]", 38)])
    spm = "mistral_instruct_tokenizer_"

    cases = [
        # this version has room for one result

        Case("v2", Spm(spm + "240216.model.v2"), as_list, text=False,
             calls=CALLS[:1]),
        Case("v3", Spm(spm + "240323.model.v3"), as_list, text=False),
        Case("v7", Spm(spm + "241114.model.v7"), as_list),
        Case("v3-tekken", v3, as_list, text=False),
        Case("v7-tekken", v7, as_list),
        Case("v11", v11, as_named(True), ids=True),
        Case("v13", v13, as_named(False), think=True),
        Case("v15", v15, as_named(False), think=True)]

    tz = json.dumps(LATER[1])
    tags = '<tool_call>\n{"name": "get_time", "arguments": {"tz": oh no}}\n' \
           "</tool_call>"
    bare = '{"name": "get_time", "parameters": {"tz": oh no}}'
    rest = (" %s}" % tz, 'get_time", "parameters": %s}' % tz)

    cases += [
        Template("hermes", Bytes(directory, "h", HERMES), as_tags,
                 "I look that up.\n", tags,
                 (" %s}\n</tool_call>" % tz,
                  '{"name": "get_time", "arguments": %s}\n</tool_call>' % tz)),
        Template("llama", Bytes(directory, "l", LLAMA), as_objects,
                 "I look that up.\n", bare, rest),
        Template("python", Bytes(directory, "p", LLAMA, 5), as_python,
                 "I look that up.", bare, rest)]

    server = Server(HTTP % dict(models="".join(
        c.model(directory) for c in cases)))

    if server.up:
        o = openai.OpenAI(api_key="-", base_url=server.url + "/v1",
                          max_retries=0)
        m = Mistral(api_key="-", server_url=server.url)

        for case in cases:
            for stream in (False, True):
                conversation(case, openai_turn, o, stream, "openai")
                conversation(case, mistral_turn, m, stream, "mistralai")

        for case in cases[2:]:
            choices(case, o)
            forced(server, case)

        ok("is given as text: its arguments are no JSON" in server.log(),
           "the log says why")

    server.stop()
    done()


if __name__ == "__main__":
    main()

"""Mistral's formats beside mistral-common: the same ids for random chats of
every version, or both refuse, in the same words.  Versions that the wheel has
no file of are built from its tekken.json and a list of control tokens.
Prints TAP.  RANDOM_SEED=N: see harness.seed()."""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
warnings.simplefilter("ignore")

from harness import done, ok, seed

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.fim.request import FIMRequest
from mistral_common.protocol.instruct.normalize import get_normalizer
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import (ValidationMode,
                                                        get_validator)
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from mistral_common.tokens.tokenizers.instruct import (
    InstructTokenizerV1, InstructTokenizerV2, InstructTokenizerV3,
    InstructTokenizerV7, InstructTokenizerV11, InstructTokenizerV13,
    InstructTokenizerV15)
from mistral_common.tokens.tokenizers.sentencepiece import \
    SentencePieceTokenizer
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

BUILD = os.environ.get("BUILD", "build")
FILES = f"{BUILD}/tokenizers"
OWN = tempfile.TemporaryDirectory()
SEED = seed()
CHATS = 250

SPECIAL = {
    0: "<unk>", 1: "<s>", 2: "</s>", 3: "[INST]", 4: "[/INST]",
    5: "[AVAILABLE_TOOLS]", 6: "[/AVAILABLE_TOOLS]", 7: "[TOOL_RESULTS]",
    8: "[/TOOL_RESULTS]", 9: "[TOOL_CALLS]", 10: "[IMG]", 11: "<pad>",
    12: "[IMG_BREAK]", 13: "[IMG_END]", 14: "[PREFIX]", 15: "[MIDDLE]",
    16: "[SUFFIX]", 17: "[SYSTEM_PROMPT]", 18: "[/SYSTEM_PROMPT]",
    19: "[TOOL_CONTENT]", 24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 32: "[ARGS]",
    33: "[CALL_ID]", 35: "[THINK]", 36: "[/THINK]", 37: "[MODEL_SETTINGS]",
    38: "[/MODEL_SETTINGS]",
}
SETTINGS = {"reasoning_effort": {"type": "enum", "values": ["none", "high"],
                                 "accepts_none": True, "default": "none"}}

CLASSES = {1: InstructTokenizerV1, 2: InstructTokenizerV2,
           3: InstructTokenizerV3, 7: InstructTokenizerV7,
           11: InstructTokenizerV11, 13: InstructTokenizerV13,
           15: InstructTokenizerV15}


def built(version):
    """a tekken.json of this version"""
    path = f"{OWN.name}/tekken_v{version}.json"
    with open(f"{FILES}/tekken_240718.json") as f:
        data = json.load(f)
    data["config"]["version"] = f"v{version}"
    data["special_tokens"] = [
        {"rank": i, "token_str": SPECIAL.get(i, f"<SPECIAL_{i}>"),
         "is_control": True} for i in range(1000)]
    if version >= 15:
        data["model_settings_builder"] = SETTINGS
    with open(path, "w") as f:
        json.dump(data, f)
    return path


class Format:
    def __init__(self, version, path):
        self.version, self.path = version, path
        self.name = f"v{version} {'tekken' if 'tekken' in path else 'spm'}"
        tokenizer = Tekkenizer.from_file(path) if "tekken" in path \
            else SentencePieceTokenizer(path)
        self.encoder = CLASSES[version](tokenizer)
        number = TokenizerVersion(f"v{version}")
        self.validator = get_validator(number, ValidationMode.serving)
        builder = tokenizer.model_settings_builder if version >= 15 else None
        self.normalizer = get_normalizer(number, builder)

    def ids(self, body):
        request = ChatCompletionRequest.model_validate(
            {**shortened(body, self.version), "model": "m"})
        request = self.validator.validate_request(request)
        instruct = self.normalizer.from_chat_completion_request(request)
        return self.encoder.encode_instruct(instruct).tokens

    def fim(self, prompt, suffix):
        return self.encoder.encode_fim(FIMRequest(prompt=prompt,
                                                  suffix=suffix)).tokens


def shortened(body, version):
    """ids of OpenAI are longer than Mistral's: the server takes their ends;
    thoughts beside the content become the library's chunks"""
    body = json.loads(json.dumps(body))
    for m in body["messages"]:
        thought, said = m.pop("reasoning_content", ""), m.get("content")
        if not thought or version < 13:
            continue
        said = said if isinstance(said, list) else \
            [{"type": "text", "text": said}] if said else []
        if not any(p["type"] == "thinking" for p in said):
            m["content"] = [{"type": "thinking", "thinking": thought}] + said
    for m in body["messages"] if version < 13 else []:
        if m.get("tool_call_id"):
            m["tool_call_id"] = m["tool_call_id"][-9:]
        for c in m.get("tool_calls") or []:
            if c.get("id"):
                c["id"] = c["id"][-9:]
    return body


class Engine:
    def __init__(self):
        self.pipe = subprocess.Popen([f"{BUILD}/t/mistral_render"],
                                     stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)

    def render(self, form, body):
        line = json.dumps({"file": form.path, "version": form.version,
                           "body": body})
        self.pipe.stdin.write(line.encode() + b"\n")
        self.pipe.stdin.flush()
        answer = self.pipe.stdout.readline()
        if not answer:
            raise SystemExit(f"# the program died of {line[:2000]}")
        return json.loads(answer)

    def close(self):
        self.pipe.stdin.close()
        return self.pipe.wait()


WORDS = ["a", "Hi", " ", "  x ", "\n", "\n\n", "Z\u00fcrich", "\u4e16\u754c",
         "\U0001f98a", "[INST]", "</s>", "[/INST] ", "[REF]", "2+2", "1.50",
         "\u2581", "\t", "e\u0301", "don't", "\u3000", "\u2028", "\\", "\"q\"",
         "The quick brown fox", "{\"a\": 1}", "\u0000", "null", "[1,2]"]
JSONS = ['{"temp":22.50,"ok":true}', "22", "", "{}", '"s"', "not json",
         '{"a":1,"a":2}', "1e5", "1E-7", "12345678901234567890", "-0", "NaN",
         '{"z":[1.0,{"\\u00fc":null}]}', "[]", " [1 , 2] ", "{\"a\":\"\\/\"}",
         "01", "1e400", "truth", '"\\ud83e\\udd8a"']
IDS = ["aaaaaaaaa", "bbbbbbbbb", "ccccccccc", "call_0123456789abcdef"]
NAMES = ["f", "get_weather", "a-b_1"]


def text(r):
    return "".join(r.choice(WORDS) for _ in range(r.randrange(4)))


def content(r, role):
    if r.random() < 0.75:
        return text(r)
    parts = [{"type": "text", "text": text(r)}
             for _ in range(r.randrange(1, 4))]
    if role in ("assistant", "system") and r.random() < 0.3:
        thought = {"type": "thinking", "thinking": text(r)}
        if r.random() < 0.3:
            thought["closed"] = r.random() < 0.5
        parts.insert(0 if role == "assistant" else r.randrange(2), thought)
    return parts


def tool(r):
    function = {"name": r.choice(NAMES), "parameters": r.choice([
        {}, {"type": "object", "properties": {
            "city": {"type": "string", "description": text(r)},
            "n": {"type": "number", "default": r.choice([1, 1.0, 1e16, 0.1,
                                                         -3, 1e-7])}},
             "required": ["city"]}])}
    if r.random() < 0.7:
        function["description"] = text(r)
    return {"type": "function", "function": function}


def chat(r):
    """mostly a chat that makes sense"""
    messages = []
    if r.random() < 0.4:
        messages.append({"role": "system", "content": content(r, "system")})
    for _ in range(r.randrange(1, 5)):
        kind = r.random()
        if kind < 0.45 or not messages:
            messages.append({"role": "user", "content": content(r, "user")})
        elif kind < 0.65:
            messages.append({"role": "assistant",
                             "content": content(r, "assistant")})
            if r.random() < 0.2:
                messages[-1]["reasoning_content"] = text(r)
        elif kind < 0.75:
            messages.append({"role": "system",
                             "content": content(r, "system")})
        else:
            ids = r.sample(IDS, r.randrange(1, 3))
            calls = [{"id": i, "type": "function", "function": {
                "name": r.choice(NAMES), "arguments": r.choice(JSONS)}}
                for i in ids]
            messages.append({"role": "assistant", "tool_calls": calls,
                             "content": text(r) if r.random() < 0.2 else ""})
            r.shuffle(ids)
            for i in ids if r.random() < 0.9 else ids[1:]:
                messages.append({"role": "tool", "tool_call_id": i,
                                 "content": r.choice(JSONS + [text(r)])})
                if r.random() < 0.5:
                    messages[-1]["name"] = r.choice(NAMES)
    end = r.random()
    if end < 0.6:
        messages.append({"role": "user", "content": content(r, "user")})
    elif end < 0.75:
        messages.append({"role": "assistant", "prefix": True,
                         "content": text(r) or "x"})
    body = {"messages": messages}
    if r.random() < 0.4:
        body["tools"] = [tool(r) for _ in range(r.randrange(1, 3))]
    if r.random() < 0.1:
        body["reasoning_effort"] = r.choice(["none", "high"])
    return body


def plain(message):
    """what both must say: where the library's words are Python's own there
    is nothing to compare"""
    return not re.search(r"validation error|reasoning_effort|Invalid "
                         r"assistant message|^$|chunk types|Think|// None",
                         message)


def compare(engine, form, body):
    try:
        ids, error = form.ids(body), None
    except MistralCommonException as e:
        ids, error = None, str(e)
    except (AssertionError, ValueError, TypeError, NotImplementedError) as e:
        ids, error = None, ""
    answer = engine.render(form, body)
    if ids is not None:
        if answer.get("ids") == ids:
            return None, 0
    elif "error" in answer and (answer["error"] == error or not plain(error)):
        return None, 1
    elif form.version < 15 and body.get("reasoning_effort") == "none":
        return None, 1          # what asks for nothing is no error here
    return dict(format=form.name, body=body, common=ids or error,
                engine=answer), 0


def main():
    r = random.Random(SEED)
    engine = Engine()
    forms = [Format(1, f"{FILES}/tokenizer.model.v1")]
    for version, date in ((2, "240216"), (3, "240323"), (7, "241114")):
        forms.append(Format(version, f"{FILES}/mistral_instruct_tokenizer_"
                                     f"{date}.model.v{version}"))
    forms.append(Format(3, f"{FILES}/tekken_240718.json"))
    forms += [Format(v, built(v)) for v in (7, 11, 13, 15)]

    for form in forms:
        wrong, refused = [], 0
        for _ in range(CHATS):
            bad, no = compare(engine, form, chat(r))
            refused += no
            if bad:
                wrong.append(bad)
        ok(not wrong, f"{form.name}: {CHATS} chats, {refused} refused, "
           f"RANDOM_SEED={SEED}", wrong[:2])
        ok(refused < CHATS * 4 // 5, f"{form.name}: most are accepted",
           refused)

    for form in forms:
        if form.version < 3:
            continue
        wrong = []
        for _ in range(60):
            prompt, suffix = text(r) or "x", text(r)
            ids = form.fim(prompt, suffix)
            answer = engine.render(form, {"prompt": prompt, "suffix": suffix})
            if answer.get("ids") != ids:
                wrong.append((prompt, suffix, ids, answer))
        ok(not wrong, f"{form.name}: filling in the middle", wrong[:2])

    ok(engine.close() == 0, "the program ends well")
    done()


main()

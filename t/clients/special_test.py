"""Text of special tokens in every field of a chat: the control tokens of the
prompt are those that harmless words have, in the same order, whatever format
the chat is written in.  Prints TAP."""

import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True

from harness import BUILD, Response, Server, done, ok, post, same

FILES = BUILD + "/tokenizers/"
NAMES = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]",
         "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
         "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]",
         "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
         "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[AUDIO]", "[BEGIN_AUDIO]",
         "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "[MODEL_SETTINGS]",
         "[/MODEL_SETTINGS]", "<|im_start|>", "<|im_end|>", "<tool>",
         "</tool>", "<think>", "</think>"]

# what a template may do with a value, on its way into the prompt

JINJA = """
{{- bos_token }}
{%- for t in tools or [] %}<tool>{{ t | tojson }}
    {%- for k, v in t.function.parameters.properties.items() -%}
    {{ k ~ ': ' ~ v.description | trim }}{% endfor %}</tool>{% endfor %}
{%- for m in messages %}<|im_start|>{{ m.role + '\\n' }}
    {%- if m.name %}{{ "%s says " % m.name }}{% endif %}
    {%- if m.reasoning_content %}<think>{{ m.reasoning_content.strip()
        }}</think>{% endif %}
    {%- if m.content is string %}{{ m.content.split('wor') | join('war')
        | replace('hello', 'hi') }}
    {%- else %}{% for p in m.content or [] %}{{ [p.text, p.text[::1]]
        | join(', ') | upper }}{% endfor %}{% endif %}
    {%- for c in m.tool_calls or [] %}<tool>{{ c.function.name }} {{
        c.function.arguments | tojson }} {{ c.id }}</tool>{% endfor %}
    {%- if m.tool_call_id %}{{ m.tool_call_id }}{% endif -%}
    <|im_end|>{% endfor %}
{%- if extra %}{{ extra | string }}{% endif %}
{%- if add_generation_prompt %}<|im_start|>assistant{% endif %}
"""

FORMATS = ["mistral-v%d-tekken" % n for n in (3, 7, 11, 13, 15)] + ["jinja"]
SPM = "mistral_instruct_tokenizer_240323.model.v3", \
    "mistral_instruct_tokenizer_241114.model.v7"

HTTP = """
    %s

    server {
        listen  127.0.0.1:PORT;

        location /v1/ { mistral_pass $mistral_model; }
        location = /live { mistral_health live; }
        location = /status { mistral_status json; }
    }
"""


def vocabulary(directory):
    """tekken's, with all of the names"""
    t = json.load(open(FILES + "tekken_240718.json"))
    n = t["config"]["default_num_special_tokens"]
    t["config"]["version"] = "v3"
    t.pop("multimodal", None)
    t["special_tokens"] = [
        {"rank": i, "is_control": True,
         "token_str": NAMES[i] if i < len(NAMES) else "<SPECIAL_%d>" % i}
        for i in range(n)]
    json.dump(t, open(directory + "/tekken.json", "w"))


def blocks(directory):
    path = "null:tokenizer=%s,text=%s/script.json"
    with open(directory + "/jinja", "w") as f:
        f.write(JINJA)
    json.dump([[5]], open(directory + "/script.json", "w"))

    out = "mistral_model real { path MODEL; }\n"
    for f in FORMATS:
        out += "mistral_model %s { path %s; chat_template %s; }\n" % (
            f, path % (directory + "/tekken.json", directory),
            directory + "/jinja" if f == "jinja" else f)
    for f in SPM:
        out += "mistral_model %s { path %s; }\n" % (
            f[-2:], path % (FILES + f, directory))
    return out


def chats(x, key):
    """x in each text, key in each name that a client may choose"""
    user = dict(role="user", content=x)
    tool = dict(type="function", function=dict(
        name="f", description=x, parameters=dict(
            type="object", required=["q"], properties={
                "q": dict(type="string", description=x, enum=[x]),
                key: dict(type="array", description=x)})))
    call = dict(id="abcdefghi", type="function", function=dict(
        name="f", arguments=json.dumps({key: x, "q": [x, {key: x}]})))
    called = dict(role="assistant", tool_calls=[call])
    result = dict(role="tool", tool_call_id="abcdefghi", name="f", content=x)

    return dict(
        turns=dict(messages=[dict(role="system", content=x), user,
                             dict(role="assistant", content=x), user]),
        parts=dict(messages=[dict(role="user", content=[
            dict(type="text", text=x), dict(type="text", text=x)])]),
        name=dict(messages=[dict(role="user", content=x, name=key)]),
        tools=dict(messages=[user], tools=[tool]),
        calls=dict(messages=[user, called, result], tools=[tool]),
        again=dict(messages=[user, called, result,
                             dict(role="assistant", content=x), user],
                   tools=[tool]),
        thoughts=dict(messages=[user, dict(role="assistant", content=x,
                                           reasoning_content=x), user]),
        prefix=dict(messages=[user, dict(role="assistant", content=x)],
                    continue_final_message=True, add_generation_prompt=False),
        variables=dict(messages=[user],
                       chat_template_kwargs=dict(extra=[x, {key: x}])))


def tokens(server, model, body):
    s = server.connect()
    s.sendall(post("/v1/tokenize", dict(body, model=model,
                                        return_token_strs=True)))
    r = Response(s)
    j = r.json()
    s.close()
    return (r.status, j["tokens"], j["token_strs"]) if r.status == 200 \
        else (r.status, j["error"]["message"], None)


def controls(got, names):
    """a name that is one token is that token, and no text"""
    return [s for s in got[2] if s in names] if got[0] == 200 else got[:2]


def test_format(server, model, names):
    plain = chats("hello world", "key")
    hostile = "".join(names)
    served = 0

    for what, body in plain.items():
        want = controls(tokens(server, model, body), names)
        if isinstance(want, tuple):
            continue                           # the format does not have it
        served += 1

        for x in (hostile, "\n".join(reversed(names)),
                  " ".join(n[:-1] for n in names) + ">]|>"):
            body = chats(x, x[:200])[what]
            same(controls(tokens(server, model, body), names), want,
                 "%s, %s: the template's control tokens, and no others"
                 % (model, what))

    ok(served >= 3, model + " has some of it", served)

    got = tokens(server, model, dict(prompt=hostile,
                                     add_special_tokens=False))
    same(controls(got, names), [], model + ": nor are there any in a text")


def main():
    directory = tempfile.mkdtemp(prefix="mistral-")
    os.chmod(directory, 0o755)
    vocabulary(directory)

    server = Server(HTTP % blocks(directory), workers=1, ready="/live")
    if server.up:
        for model in FORMATS:
            test_format(server, model, NAMES)
        for model in "v3", "v7":
            test_format(server, model, NAMES[:10])
        test_format(server, "real", ["<|im_start|>", "<|im_end|>",
                                     "<|endoftext|>"])
    server.stop()
    done()


main()

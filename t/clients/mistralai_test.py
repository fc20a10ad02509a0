"""The mistralai client: another reader of the same API.  Prints TAP."""

import asyncio
import sys

from mistralai.client import Mistral

sys.dont_write_bytecode = True

from harness import FOX, Server, done, ok, same

HTTP = """
    mistral_model null {
        path     null:rate=1000;
        alias    mistral-small-latest;
        context  8192;
    }

    server {
        listen  127.0.0.1:PORT;

        location /v1/ { mistral_pass null; }
        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""

MSG = [{"role": "user", "content": "hi"}]


def main():
    server = Server(HTTP)

    if server.up:
        client = Mistral(api_key="-", server_url=server.url)

        r = client.chat.complete(model="mistral-small-latest", messages=MSG,
                                 max_tokens=19, random_seed=7)
        same((r.choices[0].message.content, r.choices[0].finish_reason,
              r.model, r.usage.completion_tokens),
             (FOX[:19], "length", "mistral-small-latest", 19), "chat.complete")

        text, last = "", None
        for event in client.chat.stream(model="null", messages=MSG,
                                        max_tokens=12, stop=["zebra"]):
            for c in event.data.choices:
                text += c.delta.content or ""
                last = c.finish_reason or last
        same((text, last), (FOX[:12], "length"), "chat.stream")

        same([(m.id, type(m).__name__, m.max_context_length)
              for m in client.models.list().data],
             [("null", "BaseModelCard", 8192),
              ("mistral-small-latest", "BaseModelCard", 8192)], "models.list")

        m = client.models.retrieve(model_id="null")
        ok(m.capabilities.completion_chat, "models.retrieve", m)

        start = {"role": "assistant", "content": "Well, ", "prefix": True}
        r = client.chat.complete(model="null", messages=MSG + [start],
                                 max_tokens=9, safe_prompt=True)
        same(r.choices[0].message.content, "Well, " + FOX[:9],
             "an answer that begins with its prefix")
        ok(r.usage.prompt_tokens > 200, "under a safe prompt", r.usage)

        async def both():
            r = await client.chat.complete_async(model="null", messages=MSG,
                                                 max_tokens=9)
            s = await client.chat.stream_async(model="null", messages=MSG,
                                               max_tokens=9)
            return (r.choices[0].message.content,
                    "".join([e.data.choices[0].delta.content or ""
                             async for e in s]))

        same(asyncio.run(both()), (FOX[:9], FOX[:9]),
             "complete_async, stream_async")

        r = client.chat.complete(
            model="null", max_tokens=3, n=2, temperature=0.7, top_p=0.9,
            presence_penalty=0.1, frequency_penalty=0.1,
            messages=[{"role": "system", "content": "a"},
                      {"role": "user",
                       "content": [{"type": "text", "text": "b"}]},
                      {"role": "assistant", "content": "c"},
                      {"role": "user", "content": "d"}])
        same(([c.message.content for c in r.choices], r.usage.prompt_tokens),
             (["The"] * 2, 50), "a history, two answers")

        for name, call, status, code in (
                ("tools", lambda: client.chat.complete(
                    model="null", messages=MSG,
                    tools=[{"type": "function",
                            "function": {"name": "f", "parameters": {}}}]),
                 400, "unsupported"),
                ("fim", lambda: client.fim.complete(model="null", prompt="a"),
                 400, "unsupported"),
                ("embeddings", lambda: client.embeddings.create(
                    model="null", inputs=["a"]), 404, "unknown_url")):
            try:
                call()
                ok(False, name + " are not there")
            except Exception as e:
                ok(getattr(e, "status_code", 0) == status and code in e.body,
                   name + " are not there", repr(e))

        try:
            client.chat.complete(model="zebra", messages=MSG)
            ok(False, "an unknown model")
        except Exception as e:
            ok(getattr(e, "status_code", 0) == 404
               and "model_not_found" in e.body, "an unknown model", repr(e))

    server.stop()
    done()


main()

"""The mistralai client: another reader of the same API.  Prints TAP."""

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

        try:
            client.chat.complete(model="zebra", messages=MSG)
            ok(False, "an unknown model")
        except Exception as e:
            ok(getattr(e, "status_code", 0) == 404
               and "model_not_found" in e.body, "an unknown model", repr(e))

    server.stop()
    done()


main()

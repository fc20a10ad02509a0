"""LiteLLM, as a client of OpenAI's and of Mistral's API.  Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "clients"))
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

litellm.suppress_debug_info = True

from harness import FOX, Server, done, ok, same

HTTP = """
    mistral_model null { path null:rate=1000; context 8192; }

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
        args = dict(api_base=server.url + "/v1", api_key="-", num_retries=0)

        for model in ("openai/null", "mistral/null"):
            r = litellm.completion(model=model, messages=MSG, max_tokens=19,
                                   **args)
            same((r.choices[0].message.content, r.choices[0].finish_reason,
                  r.usage.completion_tokens), (FOX[:19], "length", 19),
                 model + ": completion")
            parts = [c.choices[0].delta.content or "" for c in
                     litellm.completion(model=model, messages=MSG,
                                        max_tokens=19, stream=True, **args)]
            same("".join(parts), FOX[:19], model + ": stream")

        r = litellm.text_completion(model="text-completion-openai/null",
                                    prompt=["a", "b"], max_tokens=9, **args)
        same([c.text for c in r.choices], [FOX[:9]] * 2,
             "text_completion of two prompts")

        try:
            litellm.completion(model="openai/null", messages=MSG,
                               max_tokens=10, temperature=3, **args)
            ok(False, "temperature 3")
        except litellm.BadRequestError as e:
            ok("temperature is 3" in str(e), "temperature 3", repr(e))

        try:
            litellm.completion(model="openai/null", max_tokens=10,
                               messages=[{"role": "user",
                                          "content": "word " * 3000}], **args)
            ok(False, "too long")
        except litellm.ContextWindowExceededError:
            ok(True, "too long is ContextWindowExceededError")
        except Exception as e:
            ok(False, "too long is ContextWindowExceededError", repr(e))

    server.stop()
    done()


main()

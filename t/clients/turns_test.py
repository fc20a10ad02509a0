"""Bodies of 4 MiB: they are read, and their text encoded, in turns of the
event loop, of which the worker's other requests have many meanwhile.  Nothing
here is timed.  Prints TAP."""

import signal
import socket
import struct
import sys
import threading

sys.dont_write_bytecode = True

from harness import Response, Server, done, ok, post, same, wait_until

HTTP = """
    log_format  turns  '$request_uri $status $mistral_turns';

    mistral_model null { path null:; context 1000000; }

    server {
        listen      127.0.0.1:PORT;
        access_log  access.log turns;

        client_max_body_size  8m;

        location /v1/ {
            mistral_pass   null;
            mistral_queue  8 tokens=8m;
        }

        location /memory/ {
            mistral_pass             null;
            client_body_buffer_size  8m;
        }

        location /early/ {
            mistral_preread  on;
            mistral_pass     null;
            mistral_queue    8 tokens=8m;
            add_header       X-Told $mistral_model:$mistral_messages;
        }

        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""

CHAT = "v1/chat/completions"
SIZE = 4 << 20
COUNT = 0


def long(unit, size=SIZE, end="}"):
    """a chat with one message of so many bytes, as text of JSON"""
    return '{"max_tokens":3,"messages":[{"role":"user","content":"%s"}]%s' \
        % (unit * (size // len(unit.encode())), end)


def ask(server, body, where="/"):
    """the answer, and how many turns it took"""
    global COUNT
    COUNT += 1
    uri = "%s%s?%d" % (where, CHAT, COUNT)
    with server.connect() as s:
        s.sendall(post(uri, body))
        r = Response(s)
        r.text = r.body().decode()
    lines = []

    def logged():
        lines[:] = [l.split() for l in server.log("access.log").split("\n")
                    if l.startswith(uri + " ")]
        return lines

    wait_until(logged)
    return r, int(lines[0][2])


def test_turns(server):
    r, turns = ask(server, long("a", 30000))
    same((r.status, turns), (200, 0), "a short body is read at once")

    for where in "/", "/memory/", "/early/":
        r, turns = ask(server, long("a", 700000, ',"model":"null"}'), where)
        ok(r.status == 200 and turns >= 3 and "700018" in r.text,
           "%s: 700,000 letters, in turns" % where,
           (r.status, turns, r.text[:200]))
        if where == "/early/":
            same(r.headers.get("x-told"), "null:1", "which others could see")

    for name, unit, ids in (("one letter", "a", 4194322),
                            ("spaces", " ", 4194322),
                            ("scripts", "\u0434\u65e5n\u0430", 4194322),
                            ("escapes", "\\n", 2097170)):
        r, turns = ask(server, long(unit))
        ok(r.status == 400 and turns >= 3 and "prompt has %d " % ids in r.text,
           name + ": counted, in turns", (r.status, turns, r.text[:200]))

    with server.connect() as s:
        s.sendall(post("/v1/tokenize", dict(prompt="ab" * 500000,
                                            return_token_strs=True)))
        j = Response(s).json()
    same((j["count"], j["tokens"] == [97, 98] * 500000,
          j["token_strs"] == ["a", "b"] * 500000), (1000000, True, True),
         "a million tokens, and how they are spelled")

    for where in "/", "/early/":
        r, turns = ask(server, long("a", end="]"), where)
        ok(r.status == 400 and turns >= 1 and "at byte 41943" in r.text,
           where + ": what is wrong with the end", (turns, r.text[:200]))

        r, turns = ask(server, long("a", end=',"max_tokens":"many"}'), where)
        ok(r.status == 400 and turns >= 2 and "max_tokens" in r.text,
           where + ": what is wrong with a field", (turns, r.text[:200]))


def test_beside(server):
    """one worker: while long bodies are worked on, four at a time, short
    requests of another connection are answered, many more of them than bodies:
    one at most for each, if each were worked on in one go"""
    body = long("\\n ", 3 << 20)
    left = []
    answered = 0

    def enough():
        n = len(left)
        return n >= 40 or n >= 8 and answered > 2 * n + 4

    def run():
        while not enough():
            left.append(ask(server, body)[0].status)

    threads = [threading.Thread(target=run) for i in range(4)]
    for t in threads:
        t.start()

    with server.connect() as s:
        while not enough():
            s.sendall(post("/v1/completions", dict(prompt="a", max_tokens=2)))
            answered += Response(s).status == 200
    seen = len(left), answered
    for t in threads:
        t.join()

    same(set(left), {400}, "long bodies are read")
    ok(seen[1] > 2 * seen[0] + 4, "short requests are answered meanwhile", seen)


def test_leaving(server):
    """clients that go in the middle of it"""
    body = long("\\n")
    for where in "/", "/early/":
        for i in range(5):
            s = server.connect()
            s.sendall(post(where + CHAT, body))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                         struct.pack("ii", 1, 0))
            s.close()

    r, _ = ask(server, long("a", 100))
    same(r.status, 200, "clients that left hurt nobody")
    ok(wait_until(lambda: server.idle("null")), "nothing is left of them")


def test_reload(server):
    """a worker that shall exit reads on"""
    s = server.connect()
    data = post("/" + CHAT, long("\\n"))
    s.sendall(data)
    server.nginx.send_signal(signal.SIGHUP)
    same(Response(s).status, 400, "a body is read through a reload")
    s.close()


def main():
    server = Server(HTTP, workers=1)
    if ok(wait_until(lambda: server.model("null")["state"] == "ready", 20),
          "the null engine is up"):
        test_turns(server)
        test_beside(server)
        test_leaving(server)
        test_reload(server)
    server.stop()
    done()


main()

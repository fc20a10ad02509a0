"""Clients that mean no good, many at once: gone at every stage, idle by the
thousand, a byte at a time, less than they said, more than they read.  Nothing
of theirs is kept and others are served meanwhile.  Prints TAP.

    RANDOM_SEED=N    another seed than the usual one; "new" draws one"""

import os
import random
import resource
import socket
import struct
import sys
import threading
import time

sys.dont_write_bytecode = True

from harness import FOX, Response, Server, done, ok, post, same, seed, \
    text_of, wait_until

SEED = seed()
ABORTS = 1000
IDLE = 10000
THREADS = 4

MAIN = """
worker_rlimit_nofile  %d;
"""

HTTP = """
    mistral_model null { path null:; context 100000; }
    mistral_model slow { path null:rate=200,delay=30; context 4096; }
    mistral_model full { path null:rate=5; max_batch 1; context 4096; }
    mistral_model real { path MODEL; context 512; max_batch 4; prefill_chunk 32; }

    client_max_body_size   2m;
    keepalive_timeout      600s;
    client_header_timeout  600s;

    server {
        listen  127.0.0.1:PORT backlog=2048;

        location /null/ { mistral_pass null; }
        location /slow/ { mistral_pass slow; }
        location /full/ { mistral_pass full; mistral_queue 256; }
        location /real/ { mistral_pass real; }

        location = /live { mistral_health live; }
        location = /status { mistral_status json; }
        location /control/ { mistral_control; }
    }

    server {
        listen  127.0.0.1:POR2;

        client_header_timeout  1s;
        client_body_timeout    1s;

        location / { mistral_pass null; }
    }
"""

CHAT = "/v1/chat/completions"
MSG = [{"role": "user", "content": "hi"}]
ALL = "null", "slow", "full", "real"


def ask(path, **body):
    body.setdefault("messages", MSG)
    return post("/" + path + CHAT, body)


def stream(path, **body):
    return ask(path, stream=True, max_tokens=3000, **body)


# stages: what a client does before it leaves

def silent(s, r):
    pass


def head(s, r):
    data = stream("null")
    s.sendall(data[:r.randrange(1, data.index(b"\r\n\r\n") + 3)])


def body(s, r):
    data = stream("null")
    s.sendall(data[:r.randrange(data.index(b"\r\n\r\n") + 4, len(data))])


def chunked(s, r):
    data = b"POST /null" + CHAT.encode() + b" HTTP/1.1\r\nHost: t\r\n" \
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n" \
        b"\r\n5\r\n{\"mes\r\n8\r\nsages\": "
    s.sendall(data[:-r.randrange(12)])


def spilled(s, r):
    """a body that is in a temporary file already"""
    data = ask("null", messages=[dict(role="user", content="x" * 300000)])
    s.sendall(data[:200000])


def encoding(s, r):
    """60,000 tokens, tokenised in slices"""
    s.sendall(stream("null", messages=[dict(role="user",
                                            content="x" * 60000)]))


def last_byte(s, r):
    s.sendall(stream(r.choice(["null", "slow", "full"])))


def queued(s, r):
    s.sendall(stream("full"))
    time.sleep(r.uniform(0, 0.02))


def starting(s, r):
    """admitted, but there is no token for 30 ms"""
    s.sendall(stream("slow"))
    time.sleep(r.uniform(0, 0.03))


def some(s, r):
    """the header, some events"""
    s.sendall(stream("slow"))
    s.recv(1)
    time.sleep(r.uniform(0, 0.05))


def choices(s, r):
    s.sendall(stream("slow", n=5, temperature=1, stop=["dog. The"]))
    got = 0
    while got < 4000:
        got += len(s.recv(r.randrange(1, 3000)))


def fast(s, r):
    """more is on its way than anybody will read"""
    s.sendall(stream("null", logprobs=True))
    s.recv(r.randrange(1, 5000))


def whole(s, r):
    s.sendall(ask("slow", max_tokens=1000))
    time.sleep(r.uniform(0, 0.06))


def ending(s, r):
    """the answer ends while the client leaves"""
    s.sendall(ask("slow", stream=True, max_tokens=r.randrange(1, 6)))
    time.sleep(r.uniform(0.02, 0.07))


def pipelined(s, r):
    s.sendall(ask("null", max_tokens=3) + stream("slow") + stream("null"))
    s.recv(r.randrange(1, 3000))


def prefill(s, r):
    """a model that computes"""
    s.sendall(stream("real", messages=[dict(role="user",
                                            content="a word " * 200)]))
    time.sleep(r.uniform(0, 0.3))


STAGES = (silent, head, body, chunked, spilled, encoding, last_byte, queued,
          starting, some, choices, fast, whole, ending, pipelined)


def close(s):
    pass


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half(s):
    """nothing more comes, but does it read?  It leaves a little later"""
    try:
        s.shutdown(socket.SHUT_WR)
        time.sleep(0.005)
    except OSError:
        pass


def abort(server, stage, r):
    s = server.connect()
    try:
        stage(s, r)
    except (ConnectionResetError, BrokenPipeError):
        pass
    r.choice((close, reset, half))(s)
    s.close()


def aborts(server, stages, n, name):
    """n of them, by some threads"""
    lock = threading.Lock()
    counts, faults = {}, []

    def run(seed):
        r = random.Random(seed)
        while not faults:
            with lock:
                k = sum(counts.values())
                if k >= n:
                    return
                stage = stages[k % len(stages)]
                counts[stage] = counts.get(stage, 0) + 1
            try:
                abort(server, stage, r)
            except Exception as e:
                faults.append((stage.__name__, repr(e)))

    threads = [threading.Thread(target=run, args=("%d %s %d"
                                                  % (SEED, name, i),))
               for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    ok(not faults, "%d clients leave: %s" % (n, name), faults)


def free(server, name):
    m = server.model(name)
    return m["kv_blocks_total"] - m["kv_blocks_used"] - m["kv_blocks_cached"]


def flush(server, name):
    """what the prefix cache alone holds"""
    s = server.connect()
    s.sendall(post("/control/flush_prefix?model=" + name, b""))
    same_quiet(Response(s).status, 200)
    s.close()


def nothing_kept(server, names, before):
    for name in names:
        ok(wait_until(lambda: server.idle(name), 180),
           name + ": no place is kept", server.model(name))
        flush(server, name)
        ok(wait_until(lambda: free(server, name) == before[name]),
           name + ": all blocks are free again",
           (free(server, name), before[name]))
        m = server.model(name)
        same((m["kv_blocks_used"], m["restarts"], m["slots_reclaimed"],
              m["bad_records"]), (0, 0, 0, 0), name + ": no process ended")


def test_aborts(server, before):
    # one stream has "full" for itself: others wait behind it

    s = server.connect()
    s.sendall(stream("full"))
    r = Response(s)
    r.until(b"data")

    aborts(server, STAGES, ABORTS, "at any stage")
    s.close()
    nothing_kept(server, ("null", "slow", "full"), before)

    # in prefill, of a model that takes its time

    aborts(server, (prefill,), 40, "in prefill")
    nothing_kept(server, ("real",), before)


def answered(server, name):
    s = server.connect()
    s.sendall(ask("null", stream=True, max_tokens=9))
    r = Response(s)
    same((r.status, text_of(r.events())), (200, FOX[:9]), name)
    s.close()


def test_idle(server):
    """as many as we may have descriptors for, if less"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(IDLE, hard - 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, n + 100), hard))

    socks = []
    for i in range(n):
        s = server.connect()
        if i % 2:
            s.sendall(ask("null", max_tokens=1))
        if i % 4 == 1:
            same_quiet(Response(s).json()["choices"][0]["finish_reason"],
                       "length")
        socks.append(s)

    ok(n >= 1000, "%d connections that do nothing" % n, hard)
    answered(server, "others are served meanwhile")

    # every second had asked; half of those read it only now

    good = 0
    for i in range(3, n, 4):
        good += Response(socks[i]).json()["usage"]["completion_tokens"]
    same(good, len(range(3, n, 4)), "those who asked have their answers")

    good = 0
    for i in range(0, n, 97):
        socks[i].sendall(ask("null", max_tokens=1))
        good += Response(socks[i]).status == 200
    same(good, len(range(0, n, 97)), "and none is lost")

    for s in socks:
        s.close()


def same_quiet(got, expected):
    if got != expected:
        same(got, expected, "an answer")


def test_slowloris(server):
    """a byte now and then, of heads and of bodies"""
    requests = server.model("null")["prompt_tokens"]
    data = ask("null", max_tokens=1)
    start = data.index(b"\r\n\r\n") + 4
    loris = []

    for i in range(200):
        s = socket.create_connection(("127.0.0.1", server.port2), 20)
        s.sendall(data[:start if i % 2 else 10])
        loris.append(s)

    end = time.time() + 2
    k = start

    while time.time() < end:
        for i, s in enumerate(loris):
            try:
                if i % 4 < 2:
                    s.sendall(data[k:k + 1] if i % 2 else b"a")
            except OSError:
                pass
        k += 1
        time.sleep(0.1)
        same_quiet(server.model("null")["queue_places"], 0)

    answered(server, "slowloris: others are served")
    statuses = {}

    for i, s in enumerate(loris):
        if i % 4 == 1:                         # its body has come so far
            s.close()
            continue
        try:
            r = Response(s)
            key = r.status, r.json()["error"]["code"]
        except (EOFError, OSError):
            key = "closed"
        statuses[key] = statuses.get(key, 0) + 1
        s.close()

    # nginx ends a head that is late without a word; a body is a request

    same(statuses, {(408, "request_timeout"): 50, "closed": 100},
         "slowloris: late ones are sent away")
    same(server.model("null")["prompt_tokens"] - requests,
         len("user: hi\nassistant: ") * 1,
         "slowloris: and the engine heard of none")


def test_short_bodies(server):
    """less than was said, then the end"""
    before = server.model("null")["prompt_tokens"]

    for how in "FIN", "reset":
        for data in (post("/null" + CHAT, b"{}").replace(b"Length: 2",
                                                         b"Length: 100"),
                     stream("null")[:-5],
                     b"POST /null" + CHAT.encode() + b" HTTP/1.1\r\n"
                     b"Host: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"ff\r\n{\"messages\":"):
            s = server.connect()
            s.sendall(data)
            if how == "FIN":
                s.shutdown(socket.SHUT_WR)
                rest = s.recv(4096)
                ok(rest == b"" or b" 400 " in rest.split(b"\r\n")[0],
                   "a body that ends too early", rest)
            else:
                reset(s)
            s.close()

    # more than was said is the next request

    s = server.connect()
    s.sendall(ask("null", max_tokens=1) + b"\x00\x01garbage\r\n\r\n")
    r = Response(s)
    r.json()
    same((r.status, Response(s, r.buf).status), (200, 400),
         "a body that goes on after its end")
    s.close()

    same(server.model("null")["prompt_tokens"] - before,
         len("user: hi\nassistant: "), "the engine heard of one")


def test_pipeline(server):
    """500 requests in one write, answers read late, in order"""
    s = server.connect(rcvbuf=4096)
    data = b"".join(ask("null", max_tokens=i % 50 + 1, stream=i % 3 == 0)
                    for i in range(500))
    t = threading.Thread(target=s.sendall, args=(data,))
    t.start()
    answered(server, "pipelined: others are served")
    rest, wrong = b"", []

    for i in range(500):
        r = Response(s, rest)
        text = text_of(r.events()) if i % 3 == 0 else \
            r.json()["choices"][0]["message"]["content"]
        if text != FOX[:i % 50 + 1] and text != (FOX * 2)[:i % 50 + 1]:
            wrong.append((i, text))
        rest = r.buf
    t.join()
    same((wrong, rest), ([], b""), "pipelined: 500 answers in order")
    s.close()


def main():
    server = Server(HTTP, workers=2, ready="/live", main=MAIN % 12000,
                    connections=12000)
    up = wait_until(lambda: all(server.model(m)["state"] == "ready"
                                for m in ALL), 60)
    if ok(up, "the engines are up"):
        before = {name: free(server, name) for name in ALL}
        test_aborts(server, before)
        test_slowloris(server)
        test_short_bodies(server)
        test_pipeline(server)
        test_idle(server)
        nothing_kept(server, ALL, before)
    server.stop()
    done()


main()

"""The API on the wire: HTTP/2, gzip, keepalive after errors, bodies in parts,
a preflight.  Prints TAP."""

import gzip
import json
import re
import socket
import struct
import subprocess
import sys
import time
import zlib

sys.dont_write_bytecode = True

from harness import FOX, Response, Server, done, ok, post, same, text_of, \
    wait_until

HTTP = """
    mistral_model null { path null:rate=50; context 200000; max_batch 200; }
    mistral_model fast { path null:; context 200000; }

    server {
        listen  127.0.0.1:PORT;
        listen  127.0.0.1:POR2 http2;

        http2_max_concurrent_streams  256;
        client_max_body_size          2m;
        client_body_buffer_size       1k;
        client_body_timeout           500ms;
        keepalive_requests            10000;

        location /v1/ {
            mistral_pass  fast;
            add_header    Access-Control-Allow-Origin $http_origin always;
        }

        location /slow/ {
            mistral_pass   null;
            mistral_queue  200;
        }

        location /zip/ {
            mistral_pass     null;
            gzip             on;
            gzip_types       text/event-stream application/json;
            gzip_min_length  1;
        }

        location /deny/ { mistral_pass fast; deny all; }

        location = /healthz { mistral_health ready; }
        location = /status { mistral_status json; }
    }
"""

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MSG = [{"role": "user", "content": "hi"}]


def test_keepalive(server):
    """an error of each kind, and the connection goes on"""
    good = post(TEXT, dict(prompt="a", max_tokens=3))
    s = server.connect()
    rest = b""

    for status, code, data in (
            (400, "invalid_json", post(TEXT, "{")),
            (400, "invalid_value", post(TEXT, dict(prompt="a", n=0))),
            (400, "unsupported", post(TEXT, dict(prompt="a", suffix="x"))),
            (400, "context_length_exceeded",
             post(TEXT, dict(prompt="x" * 200001))),
            (403, "forbidden", post("/deny/v1/completions", "x" * 5000)),
            (404, "model_not_found", post(TEXT, dict(prompt="a",
                                                     model="z"))),
            (404, "unknown_url", post("/v1/zzz", "x" * 5000)),
            (405, "method_not_allowed",
             post(TEXT, "x" * 5000).replace(b"POST", b"PUT", 1)),
            (415, "unsupported_media_type",
             post(TEXT, "x" * 5000).replace(b"application/json", b"a/b")),
            (415, "unsupported_media_type",
             post(TEXT, "x" * 500, "Content-Encoding: gzip")),
            (204, None, b"OPTIONS /v1/models HTTP/1.1\r\nHost: t\r\n\r\n")):
        s.sendall(data)
        r = Response(s, rest)
        body = b"" if status == 204 else r.body()
        got = json.loads(body)["error"]["code"] if body else None
        same((r.status, got), (status, code), "%d %s" % (status, code))
        s.sendall(good)
        r = Response(s, r.buf)
        ok(r.status == 200 and r.json()["choices"][0]["text"] == "The",
           "and the connection goes on")
        rest = r.buf
    s.close()


def test_bodies(server):
    s = server.connect()
    body = json.dumps(dict(prompt="y" * 150000, max_tokens=3)).encode()

    s.sendall(post(TEXT, body))
    r = Response(s)
    same(r.json()["usage"]["prompt_tokens"], 150000,
         "a body in a temporary file")

    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\n"
              b"Transfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(body), 7777):
        part = body[i:i + 7777]
        s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    s.sendall(b"0\r\n\r\n")
    r = Response(s, r.buf)
    same(r.json()["usage"]["prompt_tokens"], 150000, "in chunks, too")
    s.close()

    s = server.connect()
    s.sendall(post(TEXT, "x" * (2 << 20) + "x"))
    r = Response(s)
    same((r.status, r.json()["error"]["code"]), (413, "request_too_large"),
         "a body above client_max_body_size")
    s.close()

    s = server.connect()
    s.sendall(post(TEXT, body)[:1000])
    start = time.time()
    r = Response(s)
    same((r.status, r.json()["error"]["code"], r.headers["connection"]),
         (408, "request_timeout", "close"), "a body that never ends")
    ok(0.3 < time.time() - start < 3, "after client_body_timeout")
    s.close()


def test_preflight(server):
    s = server.connect()
    s.sendall(b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: t\r\n"
              b"Origin: http://a.b\r\n"
              b"Access-Control-Request-Method: POST\r\n\r\n")
    r = Response(s)
    same((r.status, r.headers["allow"],
          r.headers["access-control-allow-origin"]),
         (204, "POST, OPTIONS", "http://a.b"), "a preflight")
    s.sendall(post(CHAT, "{}", "Origin: http://a.b"))
    r = Response(s, r.buf)
    same((r.status, r.headers["access-control-allow-origin"]),
         (400, "http://a.b"), "and the headers of an error")
    s.close()


def test_gzip(server):
    """each token arrives when it was sampled, compressed as it is"""
    s = server.connect()
    s.sendall(post("/zip" + CHAT, dict(messages=MSG, stream=True,
                                       max_tokens=25),
                   "Accept-Encoding: gzip"))
    r = Response(s)
    same(r.headers.get("content-encoding"), "gzip", "a compressed stream")
    z = zlib.decompressobj(16 + zlib.MAX_WBITS)
    text, times = "", []
    for part in r.pieces():
        more = z.decompress(part).decode()
        text += more
        times += [time.time()] * more.count('"content":"')
    events = [json.loads(e[6:]) for e in text.split("\n\n")
              if e.startswith("data: {")]
    same((text_of(events), "[DONE]" in text), (FOX[:25], True),
         "which is whole")
    gaps = [b - a for a, b in zip(times, times[1:])]
    ok(len(times) >= 20 and times[-1] - times[0] > 0.35
       and sum(g > 0.005 for g in gaps) >= 15,
       "and comes token by token", gaps)
    s.close()

    s = server.connect()
    s.sendall(post("/zip" + TEXT, dict(prompt="a", max_tokens=3),
                   "Accept-Encoding: gzip"))
    r = Response(s)
    j = json.loads(gzip.decompress(r.body()))
    same((j["choices"][0]["text"], r.headers["content-encoding"]),
         ("The", "gzip"), "a compressed answer")
    s.close()


def curl(*args):
    return subprocess.run(
        ["curl", "-sN", "--http2-prior-knowledge", "--max-time", "30",
         "-H", "Content-Type: application/json", *args],
        capture_output=True, timeout=60).stdout.decode()


def frame(kind, flags, stream, data=b""):
    return struct.pack(">HBBBI", len(data) >> 8, len(data) & 255, kind, flags,
                       stream) + data


def literal(name, value):
    """a header that no table knows"""
    return b"\0" + b"".join(bytes([len(s)]) + s.encode()
                            for s in (name, value))


def h2_posts(port, path, bodies, length=0):
    """all bodies at once on one connection: status byte and data of each;
    length: they claim to be so long and never end"""
    s = socket.create_connection(("127.0.0.1", port), 20)
    out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    out += frame(4, 0, 0, struct.pack(">HI", 4, 2 ** 31 - 1))
    out += frame(8, 0, 0, struct.pack(">I", 2 ** 30))
    for i, body in enumerate(bodies):
        head = literal(":method", "POST") + literal(":scheme", "http") \
            + literal(":path", path) + literal(":authority", "t") \
            + literal("content-type", "application/json") \
            + literal("content-length", str(length or len(body)))
        out += frame(1, 4, 2 * i + 1, head) \
            + frame(0, 0 if length else 1, 2 * i + 1, body)
    s.sendall(out)

    buf, got, ends, order = b"", {}, set(), []
    while len(ends) < len(bodies):
        more = s.recv(65536)
        if not more:
            break
        buf += more
        while len(buf) >= 9:
            high, low, kind, flags, stream = struct.unpack(">HBBBI", buf[:9])
            n = high << 8 | low
            if len(buf) < 9 + n:
                break
            data, buf = buf[9:9 + n], buf[9 + n:]
            if kind == 1:
                got[stream] = [data[0], b""]
            elif kind == 0:
                got[stream][1] += data
                order.append(stream)
            if kind in (0, 1) and flags & 1:
                ends.add(stream)
    s.close()
    return [got.get(2 * i + 1) for i in range(len(bodies))], order


def test_http2(server):
    url = "http://127.0.0.1:%d" % server.port2
    n = 100
    body = json.dumps(dict(messages=MSG, stream=True, max_tokens=20)).encode()
    bad = json.dumps(dict(messages=MSG, n=0)).encode()
    start = time.time()
    got, order = h2_posts(server.port2, "/slow" + CHAT, [body, bad] * n)
    took = time.time() - start
    texts = []
    for status, data in got[::2]:
        data = data.decode()
        texts.append((status, text_of([json.loads(e[6:])
                                       for e in data.split("\n\n")
                                       if e.startswith("data: {")]),
                      data.endswith("[DONE]\n\n")))
    same(texts, [(0x88, FOX[:20], True)] * n,
         "HTTP/2: %d streams on one connection" % n)
    same([(g[0], json.loads(g[1])["error"]["param"]) for g in got[1::2]],
         [(0x8c, "n")] * n, "and as many refusals between them")
    ok(len(set(order[-n:])) > n / 2, "side by side")
    ok(took < 15, "at their own pace", took)
    ok(wait_until(lambda: server.idle("null")), "and all end")

    for path, length, code in (("/deny/v1/models", 0, "forbidden"),
                               ("/v1/zebra", 0, "unknown_url"),
                               (TEXT, 3000000, "request_too_large"),
                               (TEXT, 100, "request_timeout")):
        got, _ = h2_posts(server.port2, path, [b"{}"], length)
        ok(got[0] and json.loads(got[0][1])["error"]["code"] == code,
           "HTTP/2: " + code, got)

    out = curl("-X", "OPTIONS", "-i", url + CHAT)
    ok(re.match(r"HTTP/2 204\b", out) and "allow: POST, OPTIONS" in out,
       "HTTP/2: OPTIONS", out)
    out = curl("-I", url + "/v1/models")
    ok(re.match(r"HTTP/2 200\b", out), "HTTP/2: HEAD", out)


def main():
    server = Server(HTTP, workers=1)
    if server.up:
        test_keepalive(server)
        test_bodies(server)
        test_preflight(server)
        test_gzip(server)
        test_http2(server)
    server.stop(allowed=["too large body", "access forbidden by rule"])
    done()


main()

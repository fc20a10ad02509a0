"""TAP, and an nginx of our own on a free port, for the Python tests."""

import atexit
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
NGINX = os.environ.get("TEST_NGINX_BINARY", "/usr/sbin/nginx")
MODEL = BUILD + "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
FOX = "The quick brown fox jumps over the lazy dog. "


def seed():
    """of a random test: always the same, so that a change is judged by itself
    and not by luck; RANDOM_SEED=N for that one, =new for one never seen"""
    given = os.environ.get("RANDOM_SEED", "1")
    value = random.SystemRandom().randrange(1 << 31) if given == "new" \
        else int(given)
    print("# RANDOM_SEED=%d" % value, flush=True)
    return value


CONF = """
load_module %(build)s/ngx_http_mistral_module.so;
pid         nginx.pid;
error_log   %(prefix)s/error.log info;

worker_processes  %(workers)d;
worker_shutdown_timeout  10s;
%(main)s

events { worker_connections %(connections)d; }

http {
    access_log               off;
    client_body_temp_path    temp;
    proxy_temp_path          temp;
    fastcgi_temp_path        temp;
    uwsgi_temp_path          temp;
    scgi_temp_path           temp;
%(http)s
}
"""

count = 0
failed = 0


def ok(good, name, why=None):
    global count, failed
    count += 1
    print("%s %d - %s" % ("ok" if good else "not ok", count, name), flush=True)
    if not good:
        failed += 1
        if why is not None:
            print("#   " + repr(why)[:2000], flush=True)
    return good


def same(got, expected, name):
    return ok(got == expected, name, dict(got=got, expected=expected))


def wait_until(check, seconds=10):
    end = time.time() + seconds
    while time.time() < end:
        try:
            if check():
                return True
        except OSError:
            pass
        time.sleep(0.02)
    return False


def done():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


def ports():
    """ten at a time, that no other test of this machine gets while this
    process lives (t/lib/MistralPort.pm)"""

    where = os.path.join(tempfile.gettempdir(),
                         "mistral-ports-%d" % os.geteuid())
    os.makedirs(where, exist_ok=True)
    locks = []

    for i in range(2000):
        n = (os.getpid() * 31 + i) % 2000
        lock = open(os.path.join(where, str(n)), "a")

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue

        locks.append(lock)
        yield from range(10000 + 10 * n, 10000 + 10 * n + 10)


PORTS = ports()


def free_port():
    for port in PORTS:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Server:
    """nginx with the given http block; PORT and POR2 stand for its
    ports."""

    def __init__(self, http, workers=2, ready="/healthz", main="",
                 connections=512):
        self.prefix = tempfile.mkdtemp(prefix="mistral-")
        os.chmod(self.prefix, 0o755)

        self.port = free_port()
        self.port2 = free_port()
        self.url = "http://127.0.0.1:%d" % self.port

        with open(self.prefix + "/nginx.conf", "w") as f:
            f.write(CONF % dict(build=BUILD, prefix=self.prefix,
                                workers=workers, main=main,
                                connections=connections,
                                http=http.replace("PORT", str(self.port))
                                         .replace("POR2", str(self.port2))
                                         .replace("MODEL", MODEL)))

        self.nginx = subprocess.Popen(
            [NGINX, "-p", self.prefix, "-c", "nginx.conf", "-e",
             self.prefix + "/error.log", "-g", "daemon off;"])
        atexit.register(self.kill)
        self.up = wait_until(lambda: self.get(ready) is not None, 60)
        ok(self.up, "nginx and its engines are up")

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=5) as r:
            return json.load(r)

    def model(self, name):
        return [m for m in self.get("/status")["models"]
                if m["model"] == name][0]

    def idle(self, name):
        m = self.model(name)
        return m["running"] == 0 and m["waiting"] == 0 \
            and m["queue_places"] == 0

    def log(self, name="error.log"):
        with open(self.prefix + "/" + name) as f:
            return f.read()

    def connect(self, rcvbuf=None):
        s = socket.socket()
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.settimeout(20)
        s.connect(("127.0.0.1", self.port))
        return s

    def kill(self):
        """a test that dies leaves no server behind"""
        if self.nginx.poll() is None:
            self.nginx.terminate()
            self.nginx.wait()

    def stop(self, allowed=()):
        """allowed: parts of error lines that the tests provoked"""
        self.nginx.send_signal(signal.SIGQUIT)
        try:
            self.nginx.wait(20)
            ok(self.nginx.returncode == 0, "nginx ends by itself")
        except subprocess.TimeoutExpired:
            ok(False, "nginx ends by itself")
            self.kill()

        bad = [line for line in self.log().splitlines()
               if any(l in line for l in ("[alert]", "[emerg]", "[crit]",
                                          "[error]", "AddressSan",
                                          "runtime error:"))
               and not any(a in line for a in allowed)]
        same(bad, [], "nothing bad in the error log")

        if not failed:
            shutil.rmtree(self.prefix)
        else:
            print("# logs: " + self.prefix)


def post(path, body, *headers):
    """the bytes of a request"""
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    head = ["POST %s HTTP/1.1" % path, "Host: t",
            "Content-Type: application/json",
            "Content-Length: %d" % len(body)]
    return "\r\n".join(head + list(headers) + ["", ""]).encode() + body


class Response:
    """one response from a socket, read as it comes"""

    def __init__(self, sock, rest=b""):
        self.sock = sock
        self.buf = rest
        head = self.until(b"\r\n\r\n").decode("latin1").split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = dict((k.lower(), v) for k, v in
                            (l.split(": ", 1) for l in head[1:] if l))
        self.complete = False

    def more(self):
        data = self.sock.recv(65536)
        self.buf += data
        return data

    def until(self, end):
        while end not in self.buf:
            if not self.more():
                raise EOFError(self.buf)
        head, self.buf = self.buf.split(end, 1)
        return head

    def pieces(self):
        """the body in parts; complete says whether its end was seen"""
        if "content-length" in self.headers:
            n = int(self.headers["content-length"])
            while len(self.buf) < n and self.more():
                pass
            self.complete = len(self.buf) >= n
            part, self.buf = self.buf[:n], self.buf[n:]
            yield part
            return
        if self.headers.get("transfer-encoding") != "chunked":
            while True:
                if self.buf:
                    part, self.buf = self.buf, b""
                    yield part
                if not self.more():
                    self.complete = True
                    return
        try:
            while True:
                n = int(self.until(b"\r\n"), 16)
                while len(self.buf) < n + 2:
                    if not self.more():
                        return
                part, self.buf = self.buf[:n], self.buf[n + 2:]
                if n == 0:
                    self.complete = True
                    return
                yield part
        except (EOFError, ConnectionResetError):
            return

    def body(self):
        return b"".join(self.pieces())

    def json(self):
        return json.loads(self.body())

    def events(self):
        """the data of a whole stream: objects, and "[DONE]" as it is"""
        out = []
        for part in self.body().decode().split("\n\n"):
            if part.startswith("data: "):
                part = part[6:]
                out.append(part if part == "[DONE]" else json.loads(part))
        return out


def text_of(events):
    out = ""
    for e in events:
        if e == "[DONE]":
            continue
        for c in e.get("choices", []):
            out += c.get("text") or c.get("delta", {}).get("content") or ""
    return out

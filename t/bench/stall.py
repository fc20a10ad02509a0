#!/usr/bin/env python3

"""How long a worker's streams wait while another client sends 4 MiB of the
worst text: one letter, spaces, scripts in turn, digits, escapes, to each API,
with each kind of tokenizer.  One worker streams paced tokens meanwhile.

    t/bench/stall.py [--json FILE] [--only spm,tekken,bytes]

Shown is the longest CPU time of the worker between two looks for events, as
t/bench/turns.c counts it; "all" is its CPU time for one request, "gap" the
longest time between two of the paced tokens at their client, which counts what
else the machine does, too.  Of three requests the worst one.  A prompt of more
tokens than the context has is a 400, after it was encoded.

Needs build/mistral, the module, nginx, build/t/bench/turns.so, the demo model
and build/tokenizers; BUILD names another folder.  Exits with 1 if something
failed, never because a goal was missed.
"""

import json
import mmap
import os
import signal
import socket
import struct
import threading
import time

import common

SIZE = 4 << 20
TURN = 5                                               # ms
ALL = 0.2                                              # s

KINDS = {
    'spm': common.BUILD + '/tokenizers/tokenizer.model.v1',
    'tekken': common.BUILD + '/tokenizers/tekken_240718.json',
    'bytes': common.SMOL,
}

TEXTS = {
    'letter': 'a',
    'spaces': ' ',
    'scripts': 'a\u044f\u65e5\u0928 ',
    'digits': '7',
    'escapes': '"\\\n',
}

PACED = """
    mistral_model paced {
        path       null:rate=500;
        max_batch  4;
        context    1048576;
    }
"""

MODEL = """
    mistral_model %(name)s {
        path       null:tokenizer=%(path)s,text=%(script)s;
        max_batch  2;
        context    %(context)d;
    }
"""

CONF = common.LOAD + common.HEAD + PACED + """
    %(models)s

    server {
        listen  127.0.0.1:%(port)d;

        client_max_body_size  64m;

        location /paced/ { mistral_pass paced; }
        location = /healthz { mistral_health ready; }

        %(locations)s
    }
}
"""


def body(api, text):
    """of about SIZE bytes"""

    text *= SIZE // len(json.dumps(text, ensure_ascii=False).encode()[1:-1])

    if api == 'chat':
        fields = dict(messages=[dict(role='user', content=text)])
    else:
        fields = dict(prompt=text)

    if api != 'tokenize':
        fields['max_tokens'] = 1

    return json.dumps(fields, ensure_ascii=False).encode()


class Paced(threading.Thread):
    """reads paced tokens; gap() is the longest time between two of them since
    it was asked last"""

    def __init__(self, port):
        super().__init__(daemon=True)
        data = json.dumps(dict(prompt='x', max_tokens=1 << 19, stream=True,
                               ignore_eos=True)).encode()
        self.longest = 0
        self.n = 0
        self.sock = socket.create_connection(('127.0.0.1', port))
        self.sock.sendall(b'POST /paced/completions HTTP/1.1\r\n'
                          b'Host: x\r\nContent-Type: application/json\r\n'
                          b'Content-Length: %d\r\n\r\n' % len(data) + data)

    def run(self):
        last = time.monotonic()

        while self.sock.recv(65536):
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            self.n += 1
            last = now

    def gap(self):
        longest, self.longest = self.longest, 0
        return longest


class Turns:
    """what t/bench/turns.c counts"""

    def __init__(self, path):
        with open(path, 'wb') as f:
            f.write(bytes(24))
        os.chmod(path, 0o666)
        with open(path, 'r+b') as f:
            self.map = mmap.mmap(f.fileno(), 24)

    def reset(self):
        self.map[:] = bytes(24)

    def get(self):
        """ms, turns above 5 ms, turns"""

        longest, n_long, n = struct.unpack('3Q', self.map[:])

        return longest / 1e6, n_long, n


class Bench(common.Bench):

    def start(self):
        script = self.root + '/script.json'

        with open(script, 'w') as f:
            f.write('[[100]]')

        os.chmod(script, 0o644)
        names = common.chosen(self.args.only, list(KINDS))
        self.turns = Turns(self.root + '/turns')
        self.nginx = common.Nginx(
            CONF, self.root,
            models=''.join(MODEL % dict(name=n, path=KINDS[n], script=script,
                                        context=1 << 20) for n in names),
            locations=''.join('location /%s/ { mistral_pass %s; }\n' % (n, n)
                              for n in names))
        self.nginx.run(env=dict(os.environ, TURNS=self.root + '/turns',
                                LD_PRELOAD=common.BUILD
                                + '/t/bench/turns.so'))
        self.nginx.wait()
        self.paced = Paced(self.nginx.port)
        self.paced.start()

        if common.until(lambda: self.paced.n > 10, 10, 0.1) is None:
            raise RuntimeError('no paced tokens')

    def stop(self):
        self.nginx.stop(signal.SIGTERM)

    def send(self, path, data):
        """the answer's status; its body is thrown away"""

        end = b'POST %s HTTP/1.0\r\nContent-Type: application/json\r\n' \
              b'Content-Length: %d\r\n\r\n' % (path.encode(), len(data))

        with socket.create_connection(('127.0.0.1', self.nginx.port)) as s:
            s.settimeout(60)
            s.sendall(end + data)
            answer = s.recv(65536)
            status = int(answer.split()[1])

            while s.recv(1 << 20):
                pass

        return status

    def one(self, kind, api, name):
        data = body(api, TEXTS[name])
        path = '/%s/%s' % (kind, {'chat': 'chat/completions',
                                  'text': 'completions',
                                  'tokenize': 'tokenize'}[api])
        pid = self.nginx.worker()
        worst = (0, 0, 0)
        longer = 0

        for _ in range(3):
            time.sleep(0.2)
            self.paced.gap()
            self.turns.reset()
            before = common.cpu(pid)
            status = self.send(path, data)
            used = common.cpu(pid) - before
            turn, n_long, n = self.turns.get()
            gap = self.paced.gap() * 1000

            if status != 200 and (status != 400 or api == 'tokenize'):
                raise RuntimeError('%s: %d' % (path, status))

            if n == 0:
                raise RuntimeError('no turns are counted')

            worst = [max(pair) for pair in zip(worst, (turn, used, gap))]
            longer += n_long

        turn, used, gap = worst

        self.row('%s %s %s' % (kind, api, name), turn, 'ms', TURN,
                 turn <= TURN and used < ALL, all_s=used, gap_ms=gap,
                 longer=longer, status=status)

    def measure(self, names):
        for kind in names:
            for api in ('chat', 'text', 'tokenize'):
                for name in TEXTS:
                    self.one(kind, api, name)


if __name__ == '__main__':
    common.main(Bench, list(KINDS), 0)

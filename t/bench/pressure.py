#!/usr/bin/env python3

"""What happens under pressure, with the real model on all cores: how soon a
refusal is there while the engine is saturated, and how many of those that
mistral_deadline lets in have their first token in time.

    t/bench/pressure.py [--json FILE] [--only LIST] [--seconds S]

Needs build/mistral, the module, the demo's model and nginx; BUILD names
another folder.  Exits with 1 if something failed, never because a goal was
missed.
"""

import asyncio
import json
import os
import random
import signal
import statistics
import time

import common

TTFT = 1000                                            # ms

CONF = common.LOAD + common.HEAD_MANY + """
    mistral_model demo {
        path       %(model)s;
        context    2048;
        max_batch  8;
    }

    server {
        listen  127.0.0.1:%(port)d backlog=4096;

        location = /healthz {
            mistral_health  ready;
        }

        location = /status {
            mistral_status  json;
        }

        location /full/ {
            mistral_queue  8;
            mistral_pass   demo;
        }

        location /dated/ {
            mistral_queue     256;
            mistral_deadline  ttft=%(ttft)dms;
            mistral_pass      demo;
        }
    }
}
"""


class Answer:
    """(status, reason, ms to the head or first text, ms to the end)"""

    def __init__(self):
        self.status = 0
        self.shed = None
        self.first = None


async def ask(port, path, prompt, tokens):
    """first: ms from the request to its first text, or to the refusal's
    end"""

    a = Answer()
    body = json.dumps(dict(prompt=prompt, max_tokens=tokens, stream=True,
                           ignore_eos=True)).encode()
    start = time.monotonic()
    r, w = await asyncio.open_connection('127.0.0.1', port)

    try:
        w.write(b'POST %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n'
                b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n'
                % (path.encode(), len(body)) + body)

        head = await r.readuntil(b'\r\n\r\n')
        a.status = int(head.split(None, 2)[1])

        for line in head.split(b'\r\n'):
            if line.lower().startswith(b'x-mistral-shed-reason:'):
                a.shed = line.split(b':')[1].strip().decode()

        if a.status == 200:
            await r.readuntil(b'data: ')
            a.first = (time.monotonic() - start) * 1e3
            await r.read(-1)

        else:
            await r.read(-1)
            a.first = (time.monotonic() - start) * 1e3

    finally:
        w.close()

    return a


async def full(port, seconds):
    """as many long answers as run and wait, all the time; and one client
    after the other that is turned away"""

    stop = False
    shed = []
    held = []

    async def hold():
        while not stop:
            a = await ask(port, '/full/completions', common.words(200), 400)
            held.append(a.status)

            if a.status != 200:
                await asyncio.sleep(0.05)

    clients = [asyncio.create_task(hold()) for _ in range(24)]
    await asyncio.sleep(2)
    end = time.monotonic() + seconds

    while time.monotonic() < end:
        a = await ask(port, '/full/completions', common.words(200), 400)

        if a.shed == 'queue_full':
            shed.append(a.first)

        await asyncio.sleep(random.uniform(0.01, 0.05))

    stop = True

    for c in clients:
        c.cancel()

    await asyncio.gather(*clients, return_exceptions=True)

    return shed


async def dated(port, seconds, rate):
    """clients that come at random times, twice as many as can be served"""

    tasks = []
    end = time.monotonic() + seconds

    while time.monotonic() < end:
        tasks.append(asyncio.create_task(
            ask(port, '/dated/completions', common.words(150), 24)))
        await asyncio.sleep(random.expovariate(rate))

    return await asyncio.gather(*tasks)


async def capacity(port, seconds):
    """answers per second, closed loop"""

    end = time.monotonic() + seconds
    n = 0

    async def client():
        nonlocal n

        while time.monotonic() < end:
            a = await ask(port, '/full/completions', common.words(150), 24)
            n += a.status == 200

    start = time.monotonic()
    await asyncio.gather(*(client() for _ in range(8)))

    return n / (time.monotonic() - start)


def first():
    """the client, whose own turns are no part of what is measured, comes
    before the engine's threads where we may say so"""

    try:
        os.nice(-10)
    except OSError:
        print('no root: the times hold those of the client, too')


def rank(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


class Bench(common.Bench):

    def __init__(self, args, root):
        super().__init__(args, root)
        self.server = common.Nginx(CONF, root, ttft=TTFT, model=common.SMOL)
        self.server.run()

    def start(self):
        self.server.wait()
        first()

    def stop(self):
        self.server.stop(signal.SIGTERM)

    def full(self):
        ms = asyncio.run(full(self.server.port, self.args.seconds))

        self.row('refused, queue_full', rank(ms, 95), 'ms', '<= 5',
                 rank(ms, 95) <= 5, refusals=len(ms), p50=rank(ms, 50),
                 p99=rank(ms, 99), most=max(ms))

    def dated(self):
        per_s = asyncio.run(capacity(self.server.port, 6))
        answers = asyncio.run(dated(self.server.port, self.args.seconds,
                                    2 * per_s))
        good = [a.first for a in answers if a.status == 200]
        shed = [a for a in answers if a.shed == 'deadline']
        other = len(answers) - len(good) - len(shed)
        in_time = sum(t <= TTFT for t in good) / max(len(good), 1) * 100
        early = sum(a.first < TTFT / 2 for a in shed)

        self.row('in time, ttft=%dms' % TTFT, in_time, '%', '>= 99',
                 in_time >= 99, accepted=len(good), refused=len(shed),
                 refused_in_half_of_it=early, others=other,
                 median_ms=statistics.median(good or [0]),
                 worst_ms=max(good or [0]), capacity_per_s=per_s,
                 accepted_per_s=len(good) / self.args.seconds)


if __name__ == '__main__':
    common.main(Bench, ('full', 'dated'), 30)

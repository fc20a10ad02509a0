#!/usr/bin/env python3

"""The whole path with a model on a device: nginx, module, engine.  Numbers of
"mistral bench URL" for 1, 64 and 256 clients, and what must hold besides: a
chat, a stream, reloads under load that load no weights and cut no stream, the
engine's death, clients that leave, a KV pool that is too small.

    t/bench/device.py --model PATH [--device NAME] [--only LIST] [--lines TEXT]
                      [--json FILE]

LIST is of start, chat, one, 64, 256, reload, cancel, thermal, kill, pool and
engine.  TEXT is put into the mistral_model block.  PATH needs a tokenizer, or
is "null:...".  Needs build/mistral, the module, build/libmst_cuda.so for
"cuda:N", nginx and curl; BUILD names another folder.  Exits with 1 if
something failed, never because of a time.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import common

CONF = common.LOAD + common.HEAD_MANY + """
    mistral_model m {
        path     %(model)s;
        device   %(device)s;
        context  4096;
        %(lines)s
    }

    server {
        listen  127.0.0.1:%(port)d backlog=4096;

        client_max_body_size  8m;

        location /v1/ {
            mistral_pass   m;
            mistral_queue  512;
        }

        location = /status {
            mistral_status  json;
        }

        location = /healthz {
            mistral_health  ready;
        }
    }
}
"""

failures = []
results = {}


def check(ok, what):
    if not ok:
        failures.append(what)
        print('FAILED:', what, flush=True)


def say(name, value, unit=''):
    results[name] = value
    shown = f'{value:.3f}' if isinstance(value, float) else value
    print(f'{name:<36} {shown} {unit}', flush=True)


def device_memory():
    """MiB in use; -1: nobody can say"""

    try:
        out = subprocess.run(['nvidia-smi', '--query-gpu=memory.used',
                              '--format=csv,noheader,nounits'],
                             capture_output=True, text=True, timeout=20)
        return int(out.stdout.split()[0])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return -1


class Nginx(common.Nginx):
    """one of its own, with a master"""

    def __init__(self, args, lines=''):
        self.args = args
        self.killed = False
        super().__init__(CONF, nginx=args.nginx, **self.values(lines))
        self.run()

    def values(self, lines):
        a = self.args

        return dict(model=a.model if a.model.startswith('null:')
                          else os.path.abspath(a.model),
                    device=a.device, workers=a.workers, files=8192,
                    lines=a.lines + ' ' + lines, user=common.user(a.user))

    def conf(self, lines):
        self.configure(CONF, **self.values(lines))

    def status(self):
        return self.get('/status')['models'][0]

    def ask(self):
        """the status of an answer of one token; 0: there is none"""

        q = urllib.request.Request(self.url('/v1/completions'),
                                   b'{"prompt": "Hello", "max_tokens": 1}',
                                   {'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(q, timeout=60) as r:
                return r.status
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return 0

    def ready(self, timeout=180):
        """seconds until the engine is ready"""

        took = common.until(self.healthy, timeout, 0.005, self.process)

        if took is not None:
            return took

        self.log('')
        raise RuntimeError('the engine is not ready')

    def idle(self, timeout=20):
        start = time.monotonic()

        while time.monotonic() - start < timeout:
            s = self.status()

            if s['running'] == 0 and s['kv_blocks_used'] == 0:
                return s

            time.sleep(0.01)

        return s

    def log(self, word):
        with open(self.prefix + '/error.log', errors='replace') as f:
            for line in f:
                if word in line:
                    print('  log:', line.rstrip()[:300])

    def hup(self):
        self.process.send_signal(signal.SIGHUP)

    def end(self):
        engine = f'/proc/{self.status()["engine_pid"]}'
        self.process.send_signal(signal.SIGQUIT)

        try:
            self.process.wait(60)

            # the next one wants the device's memory

            start = time.monotonic()

            while os.path.exists(engine) and time.monotonic() - start < 60:
                time.sleep(0.01)

        except subprocess.TimeoutExpired:
            self.process.kill()
            check(False, 'nginx did not end')

        check(not self.bad_log(), 'an alert or an error in the log')
        shutil.rmtree(self.prefix, ignore_errors=True)

    def bad_log(self):
        bad = False

        with open(self.prefix + '/error.log', errors='replace') as f:
            for line in f:
                if ('[emerg]' in line or '[alert]' in line
                        or '[error]' in line) and not (
                        self.killed and (' lost after ' in line
                                         or 'exited on signal 9' in line)):
                    print('  log:', line.rstrip()[:300])
                    bad = True

        return bad


def bench_start(n, clients, requests, prompt=512, tokens=128, warmup=2):
    return subprocess.Popen(
        [common.BUILD + '/mistral', 'bench', n.url('/v1/completions'),
         '--concurrency', str(clients), '--requests', str(requests),
         '--prompt-tokens', str(prompt), '--max-tokens', str(tokens),
         '--warmup', str(warmup), '--ignore-eos', '--json', '-'],
        stdout=subprocess.PIPE, text=True)


def bench_end(p):
    out = p.communicate(timeout=300)[0]

    try:
        r = json.loads(out)
    except ValueError:
        return {'failed': -1, 'errors': 'no report', 'done': 0}

    return r


def bench(n, name, *args, **more):
    r = bench_end(bench_start(n, *args, **more))

    check(r['failed'] == 0, f'{name}: {r["failed"]} failed, {r["errors"]}, '
          f'{r.get("first_error")}')

    if r['done']:
        say(name + ' prompt tokens', r['prompt_tokens'] // r['done'])
        say(name + ' out', r['completion_tokens_per_second'], 'tokens/s')

        for key in ('ttft_ms', 'inter_token_ms', 'per_token_ms'):
            for p in ('p50', 'p90', 'p99', 'max'):
                results[f'{name} {key} {p}'] = r[key][p]

            print(f'{name + " " + key:<36}', '  '.join(
                f'{p} {r[key][p]:.3f}' for p in ('p50', 'p90', 'p99', 'max')),
                flush=True)

    return r


def case_start(n, args):
    say('load', n.status()['load_ns'] / 1e9, 's')
    say('backend', n.status()['backend'])
    say('KV blocks', n.status()['kv_blocks_total'])
    say('device memory', device_memory(), 'MiB')
    time.sleep(1)
    s = n.status()
    say('temperature', s['device_celsius'], 'C')
    say('power', s['device_milliwatts'] / 1000, 'W')
    n.log('mistral')


def case_chat(n, args):
    body = {'messages': [{'role': 'user', 'content': 'Hello'}],
            'max_tokens': 16, 'ignore_eos': True}

    for stream in (False, True):
        body['stream'] = stream
        out = subprocess.run(
            ['curl', '-sSN', '-m', '60', '-w', '\n%{http_code}', '-H',
             'Content-Type: application/json', '-d', json.dumps(body),
             n.url('/v1/chat/completions')], capture_output=True, text=True)

        check(out.stdout.endswith('\n200'), 'chat: ' + out.stdout[-300:])

        if stream:
            check('data: [DONE]' in out.stdout, 'the stream has no end')
            check(out.stdout.count('"delta"') > 2, 'the stream has no text')

        else:
            a = json.loads(out.stdout.rsplit('\n', 1)[0])
            check(a['usage']['completion_tokens'] == 16, 'usage is wrong')
            print('  it says:', repr(a['choices'][0]['message']['content']))


def case_one(n, args):
    bench(n, '1 client', 1, 6, warmup=1)


def case_64(n, args):
    bench(n, '64 clients', 64 // args.divide, 192 // args.divide)


def case_256(n, args):
    bench(n, '256 clients', 256 // args.divide, 512 // args.divide)


def case_reload(n, args):
    before = n.status()
    p = bench_start(n, 64 // args.divide, 192 // args.divide)

    for _ in range(3):
        time.sleep(0.8)
        n.hup()

    r = bench_end(p)
    after = n.status()

    check(r['failed'] == 0, f'reload: {r["failed"]} failed, {r["errors"]}')
    check(after['engine_pid'] == before['engine_pid'], 'another engine')
    check(after['load_ns'] == before['load_ns'], 'weights loaded again')
    check(after['restarts'] == before['restarts'], 'the engine restarted')
    say('reloads under load: answers whole', r['done'])


def case_thermal(n, args):
    """a limit that every device is above"""

    before = n.status()

    for lines, want in (('thermal_limit 1;', 503), ('', 200)):
        n.conf(lines)
        n.hup()
        start = time.monotonic()
        got = 0

        while got != want and time.monotonic() - start < 20:
            time.sleep(0.05)
            got = n.ask()

        check(got == want, f'{lines} {got} instead of {want}')

    check(n.status()['engine_pid'] == before['engine_pid'], 'another engine')


def case_kill(n, args):
    before = n.status()
    used = device_memory()
    p = bench_start(n, 32 // args.divide, 64 // args.divide)
    time.sleep(1)

    start = time.monotonic()
    n.killed = True
    os.kill(before['engine_pid'], signal.SIGKILL)

    first = None

    while first is None and time.monotonic() - start < 180:
        if n.ask() == 200:
            first = time.monotonic() - start
        else:
            time.sleep(0.005)

    r = bench_end(p)
    after = n.status()

    check(first is not None, 'no answer after the engine was killed')
    say('kill -9 to the next answer', first or 0.0, 's')
    say('load after it', after['load_ns'] / 1e9, 's')
    say('device memory before, after', f'{used} {device_memory()}', 'MiB')
    say('errors of the streams', r['errors'])
    check(after['engine_pid'] != before['engine_pid'], 'the same engine')
    check(after['kv_blocks_total'] >= before['kv_blocks_total'] * 0.98,
          f'{after["kv_blocks_total"]} KV blocks after, '
          f'{before["kv_blocks_total"]} before')


async def leave(port, n):
    """n streams at once, each left after a while"""

    async def one():
        body = json.dumps(dict(prompt=common.words(300), max_tokens=1000,
                               stream=True, ignore_eos=True)).encode()
        r, w = await asyncio.open_connection('127.0.0.1', port)

        w.write(b'POST /v1/completions HTTP/1.1\r\nHost: t\r\n'
                b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n'
                % len(body) + body)
        try:
            await asyncio.wait_for(r.read(1), random.uniform(0.001, 1.5))
            await asyncio.sleep(random.uniform(0, 0.5))
        except asyncio.TimeoutError:
            pass
        w.transport.abort()

    await asyncio.gather(*(one() for _ in range(n)))


def case_cancel(n, args):
    before = n.idle()

    for _ in range(4):
        asyncio.run(leave(n.port, 256 // args.divide))

    start = time.monotonic()
    s = n.idle()
    check(s['running'] == 0 and s['kv_blocks_used'] == 0,
          f'{s["running"]} run, {s["kv_blocks_used"]} blocks are held')
    check(s['engine_pid'] == before['engine_pid'], 'another engine')
    say('all left: idle again after', time.monotonic() - start, 's')
    say('cancelled', s['cancelled'] - before['cancelled'])
    r = bench_end(bench_start(n, 8, 16))
    check(r['failed'] == 0, 'after clients left: ' + str(r['errors']))


async def greedy(port, prompt, tokens):
    body = json.dumps(dict(prompt=prompt, max_tokens=tokens, temperature=0,
                           ignore_eos=True, logprobs=2)).encode()
    r, w = await asyncio.open_connection('127.0.0.1', port)

    w.write(b'POST /v1/completions HTTP/1.1\r\nHost: t\r\nConnection: close'
            b'\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n'
            % len(body) + body)
    data = await r.read(-1)
    w.close()
    head, _, body = data.partition(b'\r\n\r\n')

    if b' 200 ' not in head[:20]:
        raise RuntimeError(body[:300])

    while b'transfer-encoding: chunked' in head.lower():
        parts = []
        while body:
            size, _, body = body.partition(b'\r\n')
            parts.append(body[:int(size, 16)])
            body = body[int(size, 16) + 2:]
        body = b''.join(parts)
        break

    return json.loads(body)['choices'][0]['logprobs']


def margin(logprobs, i):
    top = sorted(logprobs['top_logprobs'][i].values(), reverse=True)
    return top[0] - top[1] if len(top) > 1 else 0


def case_pool(n, args):
    """32 answers of 600 tokens of context where a quarter of them fits; the
    same ones alone.  Where they part, the two likeliest were near."""

    n.ready()
    print('  KV blocks', n.status()['kv_blocks_total'])
    prompts = [common.words(200) for _ in range(32)]

    async def all_at_once():
        return await asyncio.gather(*(greedy(n.port, p, 400)
                                      for p in prompts))

    start = time.monotonic()
    crowd = asyncio.run(all_at_once())
    s = n.idle()
    say('pool too small: time', time.monotonic() - start, 's')
    say('pool too small: preemptions', s['preemptions'])
    check(s['preemptions'] > 0, 'nobody was preempted')
    check(s['kv_blocks_used'] == 0, 'blocks are lost')

    equal = 0
    worst = 0.0

    for prompt, there in list(zip(prompts, crowd))[:args.alone]:
        alone = asyncio.run(greedy(n.port, prompt, 400))
        parted = [i for i, (a, b) in enumerate(zip(alone['tokens'],
                                                   there['tokens']))
                  if a != b]
        equal += not parted
        check(len(there['tokens']) == len(alone['tokens']) == 400,
              'an answer of another length')

        if parted:
            i = parted[0]
            worst = max(worst, min(margin(alone, i), margin(there, i)))

    say('answers equal to those alone', f'{equal} of {args.alone}')
    say('margin where others part, at most', worst)
    check(worst < args.margin, 'answers part by more than the tolerance')


def case_engine(args):
    out = subprocess.run(
        [common.BUILD + '/mistral', 'bench', '--engine', '--model',
         args.model, '--cases', 'decode_1,decode_64,prefill_512',
         '--repeat', '3', '--device', args.device],
        capture_output=True, text=True, timeout=300)
    print(out.stdout + out.stderr, end='', flush=True)


CASES = {'start': case_start, 'chat': case_chat, 'one': case_one,
         '64': case_64, '256': case_256, 'reload': case_reload,
         'cancel': case_cancel, 'thermal': case_thermal, 'kill': case_kill}


def main():
    p = common.options([], description=__doc__.split('\n')[0])
    p.add_argument('--model', required=True)
    p.add_argument('--device', default='cuda:0')
    p.add_argument('--nginx', default='nginx')
    p.add_argument('--user', default='www-data')
    p.add_argument('--workers', type=int, default=4)
    p.add_argument('--lines', default='')
    p.add_argument('--alone', type=int, default=4)
    p.add_argument('--margin', type=float, default=0.3)
    p.add_argument('--pool', default='kv_cache auto size=640m;')
    p.add_argument('--divide', type=int, default=1,
                   help='clients and requests by this, for a slow device')
    args = p.parse_args()

    random.seed(7)
    only = args.only.split(',') if args.only else list(CASES) + ['pool',
                                                                 'engine']

    n = None

    try:
        if [c for c in CASES if c in only]:
            n = Nginx(args)
            say('start to ready', n.ready(), 's')

            for c in CASES:
                if c in only:
                    print('--', c, flush=True)

                    try:
                        CASES[c](n, args)
                    except (OSError, ValueError, RuntimeError) as e:
                        check(False, f'{c}: {e!r}')

            n.end()

        if 'pool' in only:
            print('-- pool', flush=True)
            n = Nginx(args, args.pool)
            case_pool(n, args)
            n.end()

        if 'engine' in only:
            print('-- engine', flush=True)
            case_engine(args)

    finally:
        if n and n.process.poll() is None:
            n.log('')
            n.process.send_signal(signal.SIGTERM)
            n.process.wait(60)

        common.save(args.json, results, 1)

    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3

"""nginx with a model on a device, measured: "mistral bench URL" for 1, 64 and
256 clients, and the engine alone beside it.  What must hold there is
t/cuda/path_test.py's.

    t/bench/device.py --model PATH [--device NAME] [--only LIST] [--lines TEXT]
                      [--json FILE]
    t/bench/device.py --make DIR [--config FILE] [--tokenizer FILE]

LIST is of start, one, 64, 256 and engine.  TEXT is put into the mistral_model
block.  PATH needs a tokenizer, or is "null:...".  Needs build/mistral, the
module, build/libmst_cuda.so for "cuda:N" and nginx; BUILD names another
folder.  Exits with 1 if something failed, never because of a time.

--make writes a random model, by default of Mistral-7B's shape and with its
tokenizer of "make tokenizers".  Tokens that are no text on their own (control
tokens, single bytes) have no weights in its head, so that greedy answers have
an event for each token.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import time

import common

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'cuda'))

import path_rig as rig

SHAPE = rig.shape(4096, 14336, 32, 32, 8, 32768)      # Mistral-7B's
SILENT = 3 + 768 + 256             # of that tokenizer: its first ids

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


# a model

def make(args):
    config = SHAPE

    if args.config:
        with open(args.config) as f:
            config = json.load(f)

    os.makedirs(args.make)
    path = args.make + '/shape.json'

    with open(path, 'w') as f:
        json.dump(config, f)

    start = time.monotonic()
    subprocess.run([common.BUILD + '/mistral', 'inspect', args.make,
                    '--make-random', path, '--format', 'safetensors'],
                   check=True, stdout=subprocess.DEVNULL)
    os.unlink(path)
    shutil.copy(args.tokenizer, args.make)
    silence(args.make, config['hidden_size'])
    print(f'{args.make} after {time.monotonic() - start:.1f} s', flush=True)


def silence(folder, width):
    for name in os.listdir(folder):
        if not name.endswith('.safetensors'):
            continue

        with open(f'{folder}/{name}', 'r+b') as f:
            size = struct.unpack('<Q', f.read(8))[0]
            head = json.loads(f.read(size)).get('lm_head.weight')

            if head:
                f.seek(8 + size + head['data_offsets'][0])
                f.write(bytes(2 * width * SILENT))


# the engine's state while something runs

class Watch(threading.Thread):
    def __init__(self, n):
        super().__init__(daemon=True)
        self.n = n
        self.over = threading.Event()
        self.seen = []
        self.start()

    def run(self):
        while not self.over.wait(0.25):
            try:
                s = self.n.status()
            except (OSError, ValueError):
                continue

            if s['running']:
                self.seen.append(s)

    def end(self, name):
        self.over.set()
        self.join()

        for key, unit, by in (('device_milliwatts', 'W', 1000),
                              ('device_mhz', 'MHz', 1),
                              ('device_celsius', 'C', 1),
                              ('running', '', 1)):
            values = sorted(s[key] / by for s in self.seen if s[key])

            if values:
                print(f'{name + " " + key:<36} '
                      f'{values[0]:.0f} .. {values[-1]:.0f} {unit}, '
                      f'median {values[len(values) // 2]:.0f}', flush=True)


def bench(n, name, clients, requests, warmup=2):
    before = n.idle()
    watch = Watch(n)
    out = subprocess.run(
        [common.BUILD + '/mistral', 'bench', n.url('/v1/completions'),
         '--concurrency', str(clients), '--requests', str(requests),
         '--prompt-tokens', '512', '--max-tokens', '128',
         '--warmup', str(warmup), '--ignore-eos', '--json', '-'],
        stdout=subprocess.PIPE, text=True, timeout=600).stdout
    watch.end(name)

    try:
        r = json.loads(out)
    except ValueError:
        check(False, f'{name}: no report')
        return

    check(r['failed'] == 0, f'{name}: {r["failed"]} failed, {r["errors"]}, '
          f'{r.get("first_error")}')

    if not r['done']:
        return

    after = n.idle()
    steps = after['total_steps'] - before['total_steps']
    tokens = sum(after[k] - before[k] for k in ('prompt_tokens',
                                                'completion_tokens'))

    say(name + ' prompt tokens', r['prompt_tokens'] // r['done'])
    say(name + ' tokens of a step', tokens / max(steps, 1))
    say(name + ' out', r['completion_tokens_per_second'], 'tokens/s')

    for key in ('ttft_ms', 'inter_token_ms', 'per_token_ms'):
        for p in ('p50', 'p90', 'p99', 'max'):
            results[f'{name} {key} {p}'] = r[key][p]

        print(f'{name + " " + key:<36}', '  '.join(
            f'{p} {r[key][p]:.3f}' for p in ('p50', 'p90', 'p99', 'max')),
            flush=True)


def case_start(n, args):
    s = n.status()

    say('load', s['load_ns'] / 1e9, 's')
    say('backend', s['backend'])
    say('KV blocks', s['kv_blocks_total'])
    say('device memory', rig.device_memory(), 'MiB')

    for line in n.log_lines('mistral'):
        print('  log:', line[:300])


def case_one(n, args):
    bench(n, '1 client', 1, 6, warmup=1)


def case_64(n, args):
    bench(n, '64 clients', 64 // args.divide, 192 // args.divide)


def case_256(n, args):
    bench(n, '256 clients', 256 // args.divide, 512 // args.divide)


def case_engine(args):
    """one sequence of 512 to 640 tokens, as one client has it"""

    more = [f for word, flags in (
        ('dtype fp8', ['--dtype', 'fp8']), ('dtype int4', ['--dtype', 'int4']),
        ('weight_layouts 1', ['--weight-layouts', '1'])) if word in args.lines
        for f in flags]
    out = subprocess.run(
        [common.BUILD + '/mistral', 'bench', '--engine', '--model',
         args.model, '--cases', 'decode_1', '--prompt-tokens', '512',
         '--repeat', '3', '--device', args.device, *more],
        capture_output=True, text=True, timeout=300)
    print(out.stdout + out.stderr, end='', flush=True)
    check(out.returncode == 0, 'the engine alone')


CASES = {'start': case_start, 'one': case_one, '64': case_64,
         '256': case_256}


def measure(args, only):
    cases = [c for c in CASES if c in only]

    if cases:
        n = rig.Nginx([rig.Model(args.model, args.device, args.lines)],
                      args.nginx, args.user, args.workers)

        try:
            say('start to ready', n.ready(), 's')

            for c in cases:
                CASES[c](n, args)

            bad = n.log_lines('[error]', '[alert]', '[emerg]')
            check(not bad, 'an alert or an error in the log: '
                  + '\n'.join(bad[:5]))
            check(n.end(), 'nginx did not end')

        finally:
            if n.process.poll() is None:
                print(n.log_text()[-3000:])
                n.process.terminate()
                n.process.wait(60)

    if 'engine' in only:
        case_engine(args)


def main():
    p = common.options([*CASES, 'engine'],
                       description=__doc__.split('\n')[0])
    p.add_argument('--model')
    p.add_argument('--make')
    p.add_argument('--config')
    p.add_argument('--tokenizer', default=rig.TOKENIZER)
    p.add_argument('--device', default='cuda:0')
    p.add_argument('--nginx', default='nginx')
    p.add_argument('--user', default='www-data')
    p.add_argument('--workers', type=int, default=4)
    p.add_argument('--lines', default='')
    p.add_argument('--divide', type=int, default=1,
                   help='clients and requests by this, for a slow device')
    args = p.parse_args()

    if args.make:
        make(args)
        return 0

    if not args.model:
        p.error('--model or --make')

    try:
        measure(args, args.only.split(','))
    finally:
        common.save(args.json, results, 1)

    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())

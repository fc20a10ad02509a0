#!/usr/bin/env python3

"""The whole path with models on a device: Debian's nginx, the module, the
engine.  Speaks TAP, and passes by with a reason where there is no device, as
t/cuda/run.sh wants it.

    path_test.py [LIBRARY] [--model PATH] [--only LIST] [--device NAME] ...

LIST is of text, types, made, load, reload, engine, worker, cancel, thermal and
pool.  The first two and the last are about the demo's model, the others about
PATH, or about a random model that is made for them.  Needs build/mistral, the
module, build/libmst_cuda.so, nginx and curl; BUILD names another folder.  Fails
never because of a time: t/bench/device.py measures.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import path_rig as rig
import common

# what is made: large enough for each kernel, small enough for each device

SHAPE = rig.shape(2048, 5632, 8, 16, 4, 8192)

# How near two tokens are, in logarithms, of which an answer may have either
# where it was computed in another batch; 0: it has the same bits.  FAR is what
# cuda_rig.h allows a logit of the demo's model, 0.06 of the largest, which is
# 34.  bf16 alone, computed in double with a device's roundings, moves the
# margin of its two likeliest tokens by up to 2.0 within 400 tokens, by 0.05
# mostly.

EXACT, NEAR, FAR = 0, 0.3, 2.0

TYPES = {'auto': ('', FAR),
         'bf16': ('dtype bf16;', FAR),
         'fp8': ('dtype fp8;', FAR),
         'int4': ('dtype int4;', FAR),
         'invariant': ('batch_invariant on;', EXACT),
         'kv8': ('kv_cache fp8 size=512m;', FAR),
         'once': ('weight_layouts 1;', FAR)}

CPU_TYPES = {'auto': ('', EXACT),
             'kv16': ('kv_cache f16 size=512m;', EXACT),
             'invariant': ('batch_invariant on;', EXACT)}

# what the log may say when a process was killed, and nothing else

KILLED = (' lost after ', 'exited on signal 9')


class Tap:
    def __init__(self):
        self.n = 0
        self.bad = 0

    def ok(self, good, what, *why):
        self.n += 1
        self.bad += not good
        print(f'{"ok" if good else "not ok"} {self.n} - {what}', flush=True)

        if not good:
            for line in why:
                self.say(line)

        return good

    def skip(self, what, why):
        self.n += 1
        print(f'ok {self.n} - {what} # SKIP {why}', flush=True)

    def say(self, *what):
        for line in ' '.join(str(w) for w in what).split('\n'):
            print('# ' + line[:400], flush=True)


tap = Tap()


class Crowd(threading.Thread):
    """streams beside what the test does; the answers are there after end()"""

    def __init__(self, port, bodies):
        super().__init__()
        self.port = port
        self.bodies = bodies
        self.started = 0
        self.answers = []
        self.start()

    def run(self):
        async def all_of_them():
            return await rig.asyncio.gather(*(
                rig.request(self.port, b, started=self.begun)
                for b in self.bodies))

        self.answers = rig.asyncio.run(all_of_them())

    def begun(self):
        self.started += 1

    def under_way(self):
        return common.until(lambda: self.started == len(self.bodies)
                            or not self.is_alive(), 120, 0.005) is not None

    def end(self):
        self.join()
        return self.answers


def served(args, models, killed=False):
    """a context: an nginx that is ready, and whose log is clean at its end"""

    class Served:
        def __enter__(self):
            self.nginx = rig.Nginx(models, args.nginx, args.user,
                                   args.workers)
            self.nginx.killed = killed

            try:
                tap.say('ready after', f'{self.nginx.ready():.2f} s')
            except RuntimeError:
                self.nginx.process.kill()
                raise

            for line in self.nginx.log_lines('ready: '):
                tap.say(line.split('#', 1)[1])

            return self.nginx

        def __exit__(self, *error):
            n = self.nginx

            if error[0]:
                tap.say(n.log_text()[-3000:])
                n.process.send_signal(signal.SIGTERM)
                n.process.wait(60)
                return

            bad = [line for line in n.log_lines('[error]', '[alert]', '[emerg]')
                   if not (n.killed and any(w in line for w in KILLED))]

            tap.ok(not bad, 'no error in the log', *bad[:10])
            tap.ok(n.end(), 'nginx ends')

    return Served()


def curl(n, path, body):
    out = subprocess.run(
        ['curl', '-sSN', '-m', '120', '-w', '\n%{http_code}', '-H',
         'Content-Type: application/json', '-d', json.dumps(body),
         n.url(path)], capture_output=True, text=True)
    body, _, status = out.stdout.rpartition('\n')

    return status, body, out.stderr


# a chat with a real model: what it says here, and what it says on the CPU

QUESTIONS = ('What is the capital of France?', 'Name three colours.',
             'Write one sentence about the sea.')


def ask(n, path, question, tokens=40):
    """a whole answer with what was likely at each of its tokens"""

    status, body, err = curl(n, path + '/v1/chat/completions', {
        'messages': [{'role': 'user', 'content': question}],
        'max_tokens': tokens, 'temperature': 0, 'logprobs': True,
        'top_logprobs': 2})

    if status != '200':
        raise RuntimeError(f'{status} {body[:300]} {err}')

    choice = json.loads(body)['choices'][0]
    content = choice['logprobs']['content']

    return choice['message']['content'], {
        'tokens': [c['token'] for c in content],
        'logprob': [c['logprob'] for c in content],
        'top_logprobs': [{t['token']: t['logprob']
                          for t in c['top_logprobs']} for c in content]}


def same(what, a, b, far):
    """two answers: equal, or parting where the two likeliest were near"""

    at, near = rig.parting(a, b)
    off = max([abs(x - y) for x, y in zip(a['logprob'][:at],
                                          b['logprob'][:at])], default=0)

    if far == EXACT:
        return tap.ok(at is None and off == 0, f'{what}: the same bits',
                      f'they part at {at}, {off} before it')

    if at is not None:
        tap.say(f'they part at {at}, margin {near:.3f}; before it '
                f'log-probabilities are up to {off:.3f} apart')

    return tap.ok(at is None or near < far,
                  f'{what}: the same, or parting where two tokens are near')


def case_text(args):
    models = [rig.Model(args.smol, args.device, args.small, 'here'),
              rig.Model(args.smol, 'cpu', args.small, 'cpu')]

    with served(args, models) as n:
        for question in QUESTIONS:
            here, a = ask(n, '/here', question)
            cpu, b = ask(n, '/cpu', question)

            tap.say('Q', question)
            tap.say(n.status()['backend'], repr(here))
            tap.say('cpu   ', repr(cpu))
            same('on the device and on the CPU', a, b, FAR)

        tap.ok('Paris' in ask(n, '/here', QUESTIONS[0])[0],
               'it knows a capital')

        # the same as a stream, by curl

        status, body, _ = curl(n, '/here/v1/chat/completions', {
            'messages': [{'role': 'user', 'content': QUESTIONS[0]}],
            'max_tokens': 40, 'temperature': 0, 'stream': True})
        events = [line[6:] for line in body.split('\n')
                  if line.startswith('data: ')]
        text = ''.join(c['delta'].get('content') or ''
                       for e in events[:-1] for c in json.loads(e)['choices'])

        tap.ok(status == '200' and events[-1:] == ['[DONE]'],
               'a stream by curl has an end', body[-300:])
        tap.ok(text == ask(n, '/here', QUESTIONS[0])[0],
               'and the text of the whole answer', text)


# types of weights and of the KV cache, each an engine of one nginx

def variants(args, path, types):
    lines = {name: line if 'kv_cache' in line
             else line + ' ' + args.small for name, (line, _) in types.items()}

    return [rig.Model(path, args.device, lines[name], name)
            for name in types]


def crowd_and_alone(args, n, path, name, far, words=60, tokens=64):
    """answers beside others are those alone"""

    bodies = [rig.prompt(words, tokens, False, logprobs=2)
              for _ in range(16)]
    crowd = rig.together(n.port, bodies, path)

    tap.ok(all(a.status == 200 and a.tokens() == tokens for a in crowd),
           f'{name}: 16 answers at once', *(a.body for a in crowd[:1]))

    for i, (body, there) in enumerate(list(zip(bodies, crowd))[:args.alone]):
        alone = rig.together(n.port, [body], path)[0]

        if alone.logprobs and there.logprobs:
            same(f'{name}: alone and beside others, {i + 1}',
                 logprobs_of(alone), logprobs_of(there), far)

        else:
            tap.ok(False, f'{name}: an answer', alone.body, there.body)


def logprobs_of(a):
    return dict(a.logprobs, logprob=a.logprobs['token_logprobs'])


def case_types(args):
    types = TYPES if args.device != 'cpu' else CPU_TYPES

    with served(args, variants(args, args.smol, types)) as n:
        for i, (name, (_, far)) in enumerate(types.items()):
            text, _ = ask(n, '/' + name, QUESTIONS[0], 24)
            tap.say(f'{name:10}', repr(text))
            tap.ok('Paris' in text, f'{name}: it knows a capital')
            crowd_and_alone(args, n, f'/{name}/v1/completions', name, far)
            tap.ok(n.status(i)['kv_blocks_used'] == 0,
                   f'{name}: no block is held')


def case_made(args):
    types = TYPES if args.device != 'cpu' else CPU_TYPES
    types = {name: types[name] for name in ('auto', 'fp8', 'int4', 'invariant')
             if name in types}

    with served(args, variants(args, args.made(), types)) as n:
        for name, (_, far) in types.items():
            crowd_and_alone(args, n, f'/{name}/v1/completions', name,
                            min(far, NEAR), words=300)


# many streams, exact counts

def counted(n, before, answers, what):
    """the engine has counted what the answers say"""

    s = n.idle()

    for key in ('prompt_tokens', 'completion_tokens'):
        told = sum(a.usage[key] for a in answers if a.usage)
        tap.ok(s[key] - before[key] == told, f'{what}: {key} are exact',
               f'{s[key] - before[key]} in the engine, {told} were told')

    tap.ok(s['kv_blocks_used'] == 0, f'{what}: no block is held')


def case_load(args, n):
    for many in (64, 256):
        many //= args.divide
        before = n.idle()
        answers = rig.together(n.port, [rig.prompt(random.randint(20, 500), 64)
                                        for _ in range(many)])
        bad = [a for a in answers if not a.good(64)]

        tap.ok(not bad, f'{many} streams at once: all whole',
               *(f'{a.status} {a.error} {a.body[-200:]}' for a in bad[:3]))
        counted(n, before, answers, f'{many} streams')


def case_reload(args, n):
    before = n.status()
    crowd = Crowd(n.port, [rig.prompt(100, args.long)
                           for _ in range(64 // args.divide)])
    tap.ok(crowd.under_way(), 'reload: streams are under way')
    old = set(n.workers())

    for _ in range(3):
        n.hup()
        common.until(lambda: old.isdisjoint(n.workers()[-1:]), 10, 0.02)
        time.sleep(0.3)

    # a request to the new workers beside the old streams

    tap.ok(n.ask() == 200, 'reload: a new worker answers')
    running = n.status()['running']
    answers = crowd.end()
    bad = [a for a in answers if not a.good(args.long)]
    after = n.idle()

    tap.say(f'{running} streams were still running after three reloads')
    tap.ok(not bad, f'reload: all {len(answers)} streams are whole',
           *(f'{a.status} {a.error} {a.body[-200:]}' for a in bad[:3]))
    tap.ok(after['engine_pid'] == before['engine_pid'], 'reload: the same '
           'engine')
    tap.ok(after['load_ns'] == before['load_ns']
           and len(n.log_lines('ready: ')) == 1,
           'reload: weights were loaded once', *n.log_lines('ready: '))
    tap.ok(after['restarts'] == before['restarts']
           and len(n.log_lines('start supervisor')) == 1,
           'reload: nothing was started again')
    tap.ok(common.until(lambda: old.isdisjoint(n.workers())
                        and len(n.workers()) == args.workers, 60, 0.05) is not None,
           'reload: the old workers have left')


def case_engine(args, n):
    """kill -9 of it"""

    n.ask()
    before = n.idle()
    used = rig.device_memory()
    crowd = Crowd(n.port, [rig.prompt(100, args.long * 4)
                           for _ in range(32 // args.divide)])
    tap.ok(crowd.under_way(), 'engine: streams are under way')
    time.sleep(0.2)

    start = time.monotonic()
    n.killed = True
    os.kill(before['engine_pid'], signal.SIGKILL)
    first = common.until(lambda: n.ask() == 200, 300, 0.01)
    took = time.monotonic() - start
    answers = crowd.end()
    after = n.idle()

    tap.ok(first is not None, 'engine: it answers again after kill -9')
    tap.say(f'kill -9 to the next answer {took:.2f} s, '
            f'{after["load_ns"] / 1e9:.2f} of them loading')
    tap.ok(all(a.visibly_cut() for a in answers),
           'engine: no stream claims to be whole',
           *[a.body[-200:] for a in answers if not a.visibly_cut()][:3])
    tap.ok(all(a.refused for a in answers if a.status == 200),
           'engine: each says that something went wrong',
           *[f'{a.error} {a.body[-200:]}' for a in answers if not a.refused][:3])
    tap.ok(after['engine_pid'] != before['engine_pid'], 'engine: another one')
    tap.ok(after['kv_blocks_total'] >= before['kv_blocks_total'] * 0.98,
           'engine: its KV cache is as large as before',
           f'{after["kv_blocks_total"]}, was {before["kv_blocks_total"]}')

    if used >= 0 and args.device != 'cpu':
        now = rig.device_memory()
        tap.ok(now <= used + 256, 'engine: the device\'s memory came back',
               f'{now} MiB, was {used}')
        tap.say(f'device memory {used} MiB before, {now} after')

    again = rig.together(n.port, [rig.prompt(50, 32)] * 8)
    tap.ok(all(a.good(32) for a in again), 'engine: streams after it')


def case_worker(args, n):
    """kill -9 of the worker with most streams"""

    n.ask()
    before = n.idle()
    crowd = Crowd(n.port, [rig.prompt(50, args.long)
                           for _ in range(32 // args.divide)])
    tap.ok(crowd.under_way(), 'worker: streams are under way')
    victim = n.busiest()
    n.killed = True
    os.kill(victim, signal.SIGKILL)
    answers = crowd.end()
    whole = [a for a in answers if a.good(args.long)]
    cut = [a for a in answers if a.visibly_cut()]
    after = n.idle()

    tap.say(f'{len(cut)} streams were cut, {len(whole)} went on')
    tap.ok(cut and len(whole) + len(cut) == len(answers),
           'worker: its streams are cut, the others whole')
    tap.ok(after['running'] == 0 and after['kv_blocks_used'] == 0
           and after['queue_places'] == 0,
           'worker: what it held is given back')
    tap.ok(after['engine_pid'] == before['engine_pid'],
           'worker: the same engine')
    tap.ok(common.until(lambda: len(n.workers()) == args.workers
                        and victim not in n.workers(), 30, 0.05) is not None
           and n.ask() == 200, 'worker: another one')


def case_cancel(args, n):
    """clients that leave, at any time"""

    n.ask()
    before = n.idle()
    lines = len(n.costs())
    many = 256 // args.divide
    asked = 0

    async def storm():
        return await rig.asyncio.gather(*(
            rig.request(n.port, rig.prompt(random.randint(5, 300), 1000),
                        leave=random.uniform(0.001, 1.5)) for _ in range(many)))

    for _ in range(1 + 3 // args.divide):
        rig.asyncio.run(storm())
        asked += many

    start = time.monotonic()
    s = n.idle()
    tap.say(f'idle {time.monotonic() - start:.3f} s after the last one left')
    tap.ok(s['running'] == 0 and s['waiting'] == 0
           and s['kv_blocks_used'] == 0 and s['queue_places'] == 0,
           'cancel: nothing is held')
    tap.ok(s['engine_pid'] == before['engine_pid'], 'cancel: the same engine')
    tap.ok(s['cancelled'] > before['cancelled'], 'cancel: some were cancelled')

    # who left before his request was read has no line with tokens

    common.until(lambda: len(n.costs()) - lines >= asked, 5, 0.1)
    costs = n.costs()[lines:]
    number = {key: sum(int(c[key]) for c in costs if c[key].isdigit())
              for key in ('completion', 'delivered', 'wasted')}
    told = s['completion_tokens'] - before['completion_tokens']

    tap.say(len(costs), 'lines,', {
        key: sum(c['phase'] == key for c in costs)
        for key in ('queue', 'prefill', 'decode')}, number)
    tap.ok(number['completion'] == told,
           'cancel: the log has each token that was sampled',
           f'{number["completion"]}, the engine counts {told}')
    tap.ok(number['completion'] == number['delivered'] + number['wasted'],
           'cancel: delivered or wasted')
    tap.ok(all(a.good(16) for a in rig.together(
        n.port, [rig.prompt(50, 16) for _ in range(16)])),
        'cancel: streams after it')


def case_thermal(args, n):
    """a limit that every device is above"""

    if args.device == 'cpu' and 'celsius' not in n.models[0].path:
        tap.skip('thermal', 'the CPU has no temperature')
        return

    before = n.status()
    model = n.models[0]
    lines = model.lines

    for line, want in (('thermal_limit 1;', 503), ('', 200)):
        model.lines = lines + line
        n.conf()
        n.hup()
        tap.ok(common.until(lambda: n.ask() == want, 30, 0.05) is not None,
               f'thermal: {want} with "{line}"')

    tap.ok(n.status()['engine_pid'] == before['engine_pid'],
           'thermal: the same engine')


# a KV cache that is too small

def case_pool(args):
    """32 answers of 600 tokens of context where a quarter of them fits"""

    for name, line, far in (
            ('pool', '', EXACT if args.device == 'cpu' else FAR),
            ('pool, invariant', 'batch_invariant on;', EXACT)):
        tokens = 400 // args.divide
        model = rig.Model(args.smol, args.device,
                          f'kv_cache auto size={args.pool}; {line}')
        bodies = [rig.prompt(200, tokens, False, logprobs=2)
                  for _ in range(32)]

        with served(args, [model]) as n:
            before = n.idle()
            crowd = rig.together(n.port, bodies)
            s = n.idle()
            preempted = s['preemptions'] - before['preemptions']

            tap.say(f'{s["kv_blocks_total"]} blocks of '
                    f'{s["kv_block_tokens"]} tokens, {preempted} preemptions')
            tap.ok(preempted > 0, f'{name}: some gave way')
            tap.ok(all(a.status == 200 and a.tokens() == tokens
                       for a in crowd), f'{name}: all are whole',
                   *[a.body[:300] for a in crowd if a.status != 200][:3])
            tap.ok(s['kv_blocks_used'] == 0, f'{name}: no block is lost')
            equal = 0

            for i, (body, there) in enumerate(zip(bodies[:args.alone * 2],
                                                  crowd)):
                alone = rig.together(n.port, [body])[0]
                a, b = logprobs_of(alone), logprobs_of(there)
                equal += rig.parting(a, b)[0] is None
                same(f'{name}: alone and preempted, {i + 1}', a, b, far)

            tap.say(f'{equal} of {args.alone * 2} are equal to the last token')


ALONE = {'text': case_text, 'types': case_types, 'made': case_made,
         'pool': case_pool}

# of one nginx

SHARED = {'load': case_load, 'reload': case_reload, 'worker': case_worker,
          'cancel': case_cancel, 'thermal': case_thermal,
          'engine': case_engine}


def make_model(args):
    """of SHAPE, with a real tokenizer"""

    if not args.path:
        args.path = args.temp + '/made'
        config = args.temp + '/config.json'
        os.mkdir(args.path)

        with open(config, 'w') as f:
            json.dump(dict(SHAPE, num_hidden_layers=args.layers), f)

        subprocess.run([common.BUILD + '/mistral', 'inspect', args.path,
                        '--make-random', config, '--format', 'safetensors'],
                       check=True, stdout=subprocess.DEVNULL)
        shutil.copy(rig.TOKENIZER, args.path)

    return args.path


def lacks(args, only):
    """why nothing can be tested here"""

    if args.device != 'cpu' and not os.path.exists('/dev/nvidiactl'):
        return 'no device: there is no /dev/nvidiactl'

    for path in ('mistral', 'ngx_http_mistral_module.so') + (
            ('libmst_cuda.so',) if args.device != 'cpu' else ()):
        if not os.path.exists(f'{common.BUILD}/{path}'):
            return f'no {common.BUILD}/{path}'

    for program in (args.nginx, 'curl'):
        if not shutil.which(program):
            return f'no {program}'

    return None


def run(args, only):
    for name, case in ALONE.items():
        if name not in only:
            continue

        if name != 'made' and not os.path.exists(args.smol):
            tap.skip(name, f'no {args.smol}: make model')

        elif name == 'made' and not args.path \
                and not os.path.exists(rig.TOKENIZER):
            tap.skip(name, f'no {rig.TOKENIZER}: make tokenizers')

        else:
            tap.say('--', name)
            tried(name, case, args)

    names = [name for name in SHARED if name in only]

    if not names:
        return

    if not args.path and not os.path.exists(rig.TOKENIZER):
        for name in names:
            tap.skip(name, f'no {rig.TOKENIZER}: make tokenizers')
        return

    def all_of_them():
        with served(args, [rig.Model(args.made(), args.device,
                                     args.lines)]) as n:
            for name in names:
                tap.say('--', name)
                tried(name, SHARED[name], args, n)

    tried('an nginx', all_of_them)


def tried(name, case, *args):
    start = time.monotonic()

    try:
        case(*args)
        tap.say(f'{name}: {time.monotonic() - start:.1f} s')

    except (OSError, ValueError, RuntimeError, KeyError, TypeError,
            subprocess.SubprocessError) as e:
        tap.ok(False, f'{name}: {e!r}')


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('library', nargs='?', help='of the device, unused: the '
                   'engine takes what lies beside it')
    p.add_argument('more', nargs='*', help='further models, unused')
    p.add_argument('--model', dest='path')
    p.add_argument('--smol', default=common.SMOL)
    p.add_argument('--device', default='cuda:0')
    p.add_argument('--nginx', default='nginx')
    p.add_argument('--user', default='www-data')
    p.add_argument('--workers', type=int, default=4)
    p.add_argument('--lines', default='')
    p.add_argument('--small', default='kv_cache auto size=512m;',
                   help='lines of models that have others beside them')
    p.add_argument('--pool', default='115m')
    p.add_argument('--layers', type=int, default=SHAPE['num_hidden_layers'])
    p.add_argument('--long', type=int, default=600)
    p.add_argument('--alone', type=int, default=4)
    p.add_argument('--divide', type=int, default=1,
                   help='how many at once, by this, for a slow device')
    p.add_argument('--only', default=','.join([*ALONE, *SHARED]))
    args = p.parse_args()

    args.temp = tempfile.mkdtemp(prefix='mistral_path.')
    os.chmod(args.temp, 0o755)
    args.made = lambda: make_model(args)
    only = args.only.split(',')
    why = lacks(args, only)

    random.seed(7)

    if why:
        print(f'1..0 # SKIP {why}')
        return 0

    try:
        run(args, only)
    finally:
        shutil.rmtree(args.temp, ignore_errors=True)

    print(f'1..{tap.n}')

    return 1 if tap.bad else 0


if __name__ == '__main__':
    sys.exit(main())

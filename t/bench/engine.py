"""The engine beside llama.cpp: the same model file, the same two cores, in
turn, medians.

    make bench-peer                     # compiles llama.cpp, once
    make bench JSON=FILE ONLY=decode_1,http_8 ROUNDS=5
    make bench ISA=avx2 ONLY=decode_1,decode_8,prefill_512

With ISA=avx2 or c neither uses AVX-512: ours by "--isa", the peer as it is
compiled for AVX2; of the engine alone, since nginx has no such switch.
Without the peer it measures ours alone.  One round runs each case with ours
and then with the peer.

    decode_N    tokens/s of N answers, from 128 to 256 tokens of context
    prefill_N   tokens/s of a prompt of N tokens
    http_8      tokens/s out, 8 clients, 128 words in, 128 tokens out
    http_8_ttft ms to the first token, the 99th percentile of the same
    prefix_8    ms to the first token, median, 8 clients at once with prompts
                of 1,024 tokens that are the same and 32 that are not; one
                request with that prefix came before
    start       ms from exec to ready
    memory      MiB of all the processes (their proportional share) after
                http_8, with KV caches of as many bytes
    overhead    tokens/s of 1 and 8 streams through nginx beside the engine
                without it ("peer"), of the same prompts, so that both compute
                the same text: both are means of the time in which all streams
                run, until the first of them has its 128 tokens; in turn, PAIRS
                times in each round, with the same nginx; the worse of the two

JSON: {"key": {"ours": N, "peer": N, "ratio": N, "unit": "tok/s"}}; ratio is
ours / peer, of times and memory too; of overhead it is the median of the
ratios of all pairs.
"""

import http.client
import json
import operator
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import common

MODEL = common.SMOL
MISTRAL = common.BUILD + '/mistral'
NGINX = os.environ.get('TEST_NGINX_BINARY', '/usr/sbin/nginx')

AUTOGROUP = '/proc/%s/autogroup'
LOOK = 0.004                    # seconds from one look for "ready" to the next

STREAMS = 8
CONTEXT = 2048                  # of a stream
KV_TOKEN = 30 * 3 * 64 * 2      # numbers of a token's keys and values
PREFIX, SUFFIX, IDS = 1024, 32, 40000
PAIRS = 4

CONF = common.LOAD + common.HEAD + """
    mistral_model m {
        path      %(model)s;
        context   %(context)d;
        kv_cache  f32 size=%(kv)d;
        device    cpu threads=2;
    }

    server {
        listen  127.0.0.1:%(port)d;

        location /v1/ { mistral_pass m; }
        location = /health { mistral_health ready; }
        location = /status { mistral_status json; }
    }
}
"""

UNITS = {'decode_1': 'tok/s', 'decode_8': 'tok/s', 'decode_16': 'tok/s',
         'prefill_512': 'tok/s', 'prefill_2048': 'tok/s', 'http_8': 'tok/s',
         'http_8_ttft': 'ms', 'prefix_8': 'ms', 'start': 'ms',
         'memory': 'MiB', 'overhead': 'tok/s', 'overhead_1': 'tok/s',
         'overhead_8': 'tok/s'}


def output(command, library=None):
    """library: a folder that programs look into first"""
    env = dict(os.environ, LD_LIBRARY_PATH=library) if library else None

    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=600,
                          env=env).stdout


def processes(root):
    """a process and what descends from it"""
    parents = common.parents()
    found = [root]

    for p in found:
        found += [c for c, parent in parents.items() if parent == p]

    return found


def weight():
    """of our session among those that Linux weighs against each other, which
    is the peer's too; 0: the usual one, or there are none"""
    try:
        with open(AUTOGROUP % 'self') as f:
            return int(f.read().rpartition(' ')[2])
    except (OSError, ValueError):       # not there, or there and empty
        return 0


def weigh(pid):
    """the engine has a session of its own: where ours has not the usual weight
    it gets the same"""
    nice = weight()
    try:
        if nice != 0:
            with open(AUTOGROUP % pid, 'w') as f:
                f.write(str(nice))
    except OSError:
        pass


def memory(pids):
    return sum(common.memory(p)[1] for p in pids) / 1024 ** 2


class Server:
    """what both servers have"""

    def begin(self, command):
        self.log = tempfile.TemporaryFile()
        start = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self.log,
                                        stderr=self.log)

        if common.until(self.ready, 120, LOOK, self.process) is None:
            raise RuntimeError('%s does not start' % command[0])

        self.start = (time.monotonic() - start) * 1000

    def ready(self):
        """with little work, of the server too: it wants both cores"""
        try:
            with socket.create_connection(('127.0.0.1', self.port), 60) as s:
                s.sendall(b'GET /health HTTP/1.0\r\n\r\n')
                return s.recv(4096).split()[1:2] == [b'200']
        except OSError:
            return False

    def bench(self, clients, requests, profile=None):
        what = (['--profile', profile] if profile else
                ['--prompt-tokens', '128', '--max-tokens', '128'])

        return json.loads(output(
            [MISTRAL, 'bench', 'http://127.0.0.1:%d' % self.port,
             '--concurrency', str(clients), '--requests', str(requests),
             '--ignore-eos', '--warmup', '1', '--json', '-', *what]))

    def first_token(self, ids):
        """ms until it comes"""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=600)
        c.connect()
        start = time.monotonic()
        c.request('POST', '/v1/completions', json.dumps(
            {'prompt': ids, 'max_tokens': 16, 'stream': True,
             'temperature': 0, 'ignore_eos': True}),
            {'Content-Type': 'application/json'})
        r = c.getresponse()
        took = None

        if r.status != 200:
            raise RuntimeError('status %d: %s' % (r.status, r.read()[:200]))

        for line in r:
            if took is None and line.startswith(b'data: {'):
                took = (time.monotonic() - start) * 1000

        c.close()

        if took is None:
            raise RuntimeError('an answer without a token')

        return took

    def shared_prefix(self, seed):
        draw = random.Random(seed)
        prompt = [draw.randrange(1000, IDS) for _ in range(PREFIX)]
        times = []

        def client(ids):
            times.append(self.first_token(ids))

        self.first_token(prompt + [draw.randrange(1000, IDS)])
        threads = [threading.Thread(target=client, args=(
                       prompt + [draw.randrange(1000, IDS)
                                 for _ in range(SUFFIX)],))
                   for _ in range(STREAMS)]

        for t in threads:
            t.start()

        for t in threads:
            t.join()

        if len(times) != STREAMS:
            raise RuntimeError('prefix_8: a request failed')

        return statistics.median(times)


class Ours(Server, common.Nginx):
    def __init__(self):
        common.Nginx.__init__(self, CONF, nginx=NGINX, model=MODEL,
                              context=CONTEXT, user=common.user(),
                              kv=STREAMS * CONTEXT * KV_TOKEN * 2)
        self.weighed = weight() == 0
        self.begin(self.command)

    def ready(self):
        try:
            if not self.weighed:
                engine = self.engine()
                weigh(engine)
                self.weighed = engine != 0
        except (OSError, KeyError, ValueError):
            return False

        return super().ready()

    def tokens(self, text):
        """ids of a user's message, as the model gets them"""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        c.request('POST', '/v1/tokenize', json.dumps(
            {'messages': [{'role': 'user', 'content': text}]}),
            {'Content-Type': 'application/json'})
        ids = json.load(c.getresponse())['tokens']
        c.close()
        return ids

    def engine(self):
        return self.get('/status')['models'][0]['engine_pid'] or 0

    def memory(self):
        """nginx, the supervisor and the engine, which are no children of
        nginx"""
        supervisor = common.parent(self.engine())

        return memory(processes(self.process.pid) + processes(supervisor))


class Peer(Server):
    def __init__(self, folder):
        self.port = common.free_port()

        # KV in f16, its default: twice the tokens are as many bytes

        self.begin([folder + '/bin/llama-server', '--model', MODEL, '--host',
                    '127.0.0.1', '--port', str(self.port), '--threads', '2',
                    '--parallel', str(STREAMS), '--ctx-size',
                    str(2 * STREAMS * CONTEXT)])

    def memory(self):
        return memory(processes(self.process.pid))

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def engine_ours(keys, options=()):
    with tempfile.NamedTemporaryFile() as f:
        output([MISTRAL, 'bench', '--engine', '--model', MODEL, '--threads',
                '2', '--repeat', '1', '--cases', ','.join(keys), '--json',
                f.name, *options])
        return {k: v for k, v in json.load(f).items() if k in keys}


def engine_peer(folder, keys, library=None):
    """each program runs something unmeasured first"""
    found = {}
    bench = [folder + '/bin/llama-bench', '-m', MODEL, '-t', '2', '-r', '1',
             '-o', 'jsonl', '--no-warmup']
    prefill = [k.split('_')[1] for k in keys if k.startswith('prefill')]
    batches = [k.split('_')[1] for k in keys
               if k.startswith('decode') and k != 'decode_1']

    if prefill:
        lines = output(bench + ['-n', '0', '-p', ','.join(['512'] + prefill)],
                       library)
        for line in lines.splitlines()[1:]:
            r = json.loads(line)
            found['prefill_%d' % r['n_prompt']] = r['avg_ts']

    if 'decode_1' in keys:
        lines = output(bench + ['-p', '0', '-d', '128', '-n', '16,128'],
                       library)
        found['decode_1'] = json.loads(lines.splitlines()[-1])['avg_ts']

    if batches:
        lines = output([folder + '/bin/llama-batched-bench', '-m', MODEL,
                        '-t', '2', '-c', '8192', '-npp', '128', '-ntg', '128',
                        '-npl', ','.join(batches), '--output-format',
                        'jsonl'], library)
        for line in lines.splitlines():
            if line.startswith(b'{'):
                r = json.loads(line)
                found['decode_%d' % r['pl']] = r['speed_tg']

    return found


def server(make, keys, seed):
    found = {}
    s = make()

    try:
        found['start'] = s.start

        if {'http_8', 'http_8_ttft', 'memory'} & keys:
            r = s.bench(STREAMS, 3 * STREAMS)

            if r['failed']:
                raise RuntimeError('errors: %s' % r['errors'])

            found['http_8'] = r['completion_tokens_per_second']
            found['http_8_ttft'] = r['ttft_ms']['p99']
            found['memory'] = s.memory()

        if 'prefix_8' in keys:
            found['prefix_8'] = s.shared_prefix(seed)
    finally:
        s.stop()

    return found


def overhead(n, s):
    """tokens/s of n streams together: (through nginx, without it)"""

    # some steps of a text need more than others (docs/bench.md)

    texts = [' '.join(random.choice(common.WORDS) for _ in range(128))
             for _ in range(n)]
    requests = 2 if n == 1 else n
    prompts = [s.tokens(t) for t in texts]

    with tempfile.NamedTemporaryFile('w') as f:
        json.dump([{'weight': 1, 'prompt': t, 'max_tokens': 128}
                   for t in texts], f)
        f.flush()
        r = s.bench(n, requests, f.name)

    if r['failed'] or not r['together_ms']:
        raise RuntimeError('overhead_%d: %s' % (n, r['errors']))

    if r['prompt_tokens'] * n != sum(map(len, prompts)) * requests:
        raise RuntimeError('overhead_%d: %d tokens' % (n, r['prompt_tokens']))

    with tempfile.NamedTemporaryFile('w') as f:
        json.dump(prompts, f)
        f.flush()
        alone = engine_ours(['decode_%d' % n], ['--prompts', f.name])

    return n * 1000 / r['together_ms'], alone['decode_%d' % n]


def overheads():
    """[(key, (ours, the peer's))], alternating"""

    s = Ours()

    try:
        return [('overhead_%d' % n, overhead(n, s))
                for _ in range(PAIRS) for n in (1, STREAMS)]
    finally:
        s.stop()


ENGINE = ['decode_1', 'decode_8', 'decode_16', 'prefill_512', 'prefill_2048']
SERVER = ['http_8', 'http_8_ttft', 'prefix_8', 'start', 'memory']
ALL = ENGINE + SERVER + ['overhead']


def measure(keys, folder, rounds, isa, options):
    """{key: ([ours], [peer's])}"""
    found = {}
    library = folder + '/avx2' if folder and isa else None
    options = options + (['--isa', isa] if isa else [])

    def add(values, side):
        for k, v in values.items():
            if k in keys:
                found.setdefault(k, ([], []))[side].append(v)

    for i in range(rounds):
        print('round %d of %d' % (i + 1, rounds), flush=True)

        for k in [k for k in ENGINE if k in keys]:
            add(engine_ours([k], options), 0)
            add(engine_peer(folder, [k], library) if folder else {}, 1)

        if keys & set(SERVER):
            seed = random.getrandbits(32)
            add(server(Ours, keys, seed), 0)
            add(server(lambda: Peer(folder), keys, seed) if folder else {}, 1)

        for k, pair in overheads() if 'overhead' in keys else []:
            for side in 0, 1:
                found.setdefault(k, ([], []))[side].append(pair[side])

    return found


def summary(found):
    report = {}

    for k, (ours, peer) in found.items():
        report[k] = {'ours': statistics.median(ours), 'unit': UNITS[k],
                     'peer': None, 'ratio': None}

        if peer:
            report[k]['peer'] = statistics.median(peer)
            report[k]['ratio'] = report[k]['ours'] / report[k]['peer']

        if k.startswith('overhead'):
            report[k]['ratio'] = statistics.median(map(operator.truediv, ours,
                                                       peer))

    if 'overhead_1' in report:
        report['overhead'] = min(report['overhead_1'],
                                 report['overhead_%d' % STREAMS],
                                 key=lambda r: r['ratio'])

    return report


def peer_folder(path):
    if os.path.exists(path + '/bin/llama-server'):
        return path

    print('The peer is not built ("make bench-peer" does it, in ten minutes): '
          'ours alone.')
    return None


def main():
    parser = common.options(ALL)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--peer', default='')
    parser.add_argument('--isa', choices=['avx2', 'c'])
    parser.add_argument('--activations', choices=['16', '22'])
    args = parser.parse_args()

    keys = set(args.only.split(','))

    if keys - set(ALL):
        parser.error('no such case: ' + ', '.join(keys - set(ALL)))

    options = ['--activations', args.activations] if args.activations else []

    if (args.isa or options) and keys - set(ENGINE):
        parser.error('--isa and --activations are of ' + ', '.join(ENGINE))

    # the same two cores for all

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    load = common.load()
    folder = peer_folder(args.peer)
    print('%s, %s, load %.2f before' % (time.strftime('%Y-%m-%d %H:%M'),
                                        platform.machine(), load))
    report = summary(measure(keys, folder, args.rounds, args.isa, options))
    print('%-14s %10s %10s %8s' % ('', 'ours', 'peer', 'ratio'))

    for k, r in report.items():
        print('%-14s %10.1f %10s %8s %s' % (
            k, r['ours'], '-' if r['peer'] is None else '%.1f' % r['peer'],
            '-' if r['ratio'] is None else '%.2f' % r['ratio'], r['unit']))

    common.save(args.json, report, 2)


if __name__ == '__main__':
    try:
        main()
    except (OSError, RuntimeError, subprocess.SubprocessError) as e:
        sys.exit(f'engine.py: {e}')

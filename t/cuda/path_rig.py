"""An nginx with models on a device, and clients of it: what the test of the
whole path (path_test.py) and its benchmark (t/bench/device.py) have in common.
No program.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'bench'))

import common

TOKENIZER = (common.BUILD
             + '/tokenizers/mistral_instruct_tokenizer_240323.model.v3')


def shape(hidden, feed, layers, heads, kv_heads, context):
    """config.json of a model of Mistral's kind that TOKENIZER fits"""

    return {'architectures': ['MistralForCausalLM'], 'model_type': 'mistral',
            'hidden_size': hidden, 'intermediate_size': feed,
            'num_hidden_layers': layers, 'num_attention_heads': heads,
            'num_key_value_heads': kv_heads, 'vocab_size': 32768,
            'max_position_embeddings': context, 'rms_norm_eps': 1e-5,
            'rope_theta': 1000000.0, 'sliding_window': None,
            'tie_word_embeddings': False, 'torch_dtype': 'bfloat16',
            'bos_token_id': 1, 'eos_token_id': 2}


CONF = common.LOAD + common.HEAD_MANY + """
    log_format  cost  "$status $mistral_finish_reason $mistral_abort_phase "
                      "$mistral_prompt_tokens $mistral_completion_tokens "
                      "$mistral_delivered_tokens $mistral_wasted_tokens";

    %(models)s

    server {
        listen  127.0.0.1:%(port)d backlog=4096;

        client_max_body_size  8m;

        %(locations)s

        location = /status {
            mistral_status  json;
        }

        location = /healthz {
            mistral_health  ready;
        }
    }
}
"""

MODEL = """
    mistral_model %(name)s {
        path     %(path)s;
        device   %(device)s;
        context  %(context)d;
        %(lines)s
    }
"""

LOCATION = """
        location %(prefix)s/v1/ {
            mistral_pass   %(name)s;
            mistral_queue  1024 timeout=10m;
            access_log     cost.log cost;
        }
"""


class Model:
    """a block, and lines of it"""

    def __init__(self, path, device, lines='', name='m', context=4096):
        self.path = path if path.startswith('null:') else os.path.abspath(path)
        self.device = device
        self.lines = lines
        self.name = name
        self.context = context


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
    """one with a master, in the foreground; the first model answers at /v1/,
    each of them at /NAME/v1/"""

    def __init__(self, models, nginx='nginx', user='www-data', workers=4):
        self.models = models
        self.values = dict(workers=workers, files=8192,
                           user=common.user(user))
        self.log_at = 0
        super().__init__(CONF, nginx=nginx, **self.all())
        self.run()

    def all(self):
        first = [dict(prefix='', name=self.models[0].name)]

        return dict(self.values,
                    models=''.join(MODEL % vars(m) for m in self.models),
                    locations=''.join(LOCATION % v for v in first + [
                        dict(prefix='/' + m.name, name=m.name)
                        for m in self.models]))

    def conf(self):
        self.configure(CONF, **self.all())

    def status(self, i=0):
        return self.get('/status')['models'][i]

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

    def ready(self, timeout=300):
        """seconds until the engines are ready"""

        took = common.until(self.healthy, timeout, 0.005, self.process)

        if took is not None:
            return took

        print(self.log_text())
        raise RuntimeError('the engine is not ready')

    def idle(self, timeout=30):
        """the status when nothing runs, or after too long a time"""

        start = time.monotonic()

        while time.monotonic() - start < timeout:
            s = self.status()

            if (s['running'] == 0 and s['kv_blocks_used'] == 0
                    and s['queue_places'] == 0):
                return s

            time.sleep(0.01)

        return s

    def log_text(self):
        with open(self.prefix + '/error.log', errors='replace') as f:
            return f.read()

    def log_lines(self, *words):
        return [line for line in self.log_text().split('\n')
                if any(w in line for w in words)]

    def costs(self):
        """the access log: a dict for each request"""

        names = ('status', 'finish', 'phase', 'prompt', 'completion',
                 'delivered', 'wasted')

        try:
            with open(self.prefix + '/cost.log') as f:
                return [dict(zip(names, line.split())) for line in f]
        except FileNotFoundError:
            return []

    def workers(self):
        found = []

        for pid in common.children(self.process.pid):
            try:
                if 'worker process' in common.read(f'/proc/{pid}/cmdline'):
                    found.append(pid)
            except OSError:
                pass

        return found

    def busiest(self):
        """the worker with most sockets"""

        def sockets(pid):
            n = 0
            for fd in os.listdir(f'/proc/{pid}/fd'):
                try:
                    n += os.readlink(f'/proc/{pid}/fd/{fd}')[:7] == 'socket:'
                except OSError:
                    pass
            return n

        return max(self.workers(), key=sockets)

    def hup(self):
        self.process.send_signal(signal.SIGHUP)

    def end(self):
        """False: it has to be killed"""

        engines = [f'/proc/{s["engine_pid"]}'
                   for s in self.get('/status')['models']]
        ended = True
        self.process.send_signal(signal.SIGQUIT)

        try:
            self.process.wait(60)

            # the next one wants the device's memory

            start = time.monotonic()

            while (any(os.path.exists(e) for e in engines)
                   and time.monotonic() - start < 60):
                time.sleep(0.01)

        except subprocess.TimeoutExpired:
            self.process.kill()
            ended = False

        shutil.rmtree(self.prefix, ignore_errors=True)
        return ended


# clients

def dechunk(data):
    """(the body so far, whether its last chunk has come)"""

    out = b''

    while True:
        size, sep, rest = data.partition(b'\r\n')

        if not sep:
            return out, False

        n = int(size, 16)

        if n == 0:
            return out, True

        out += rest[:n]

        if len(rest) < n + 2:
            return out, False

        data = rest[n + 2:]


class Answer:
    """what came of a request"""

    def __init__(self, data, times, error):
        head, _, body = data.partition(b'\r\n\r\n')
        self.status = int(head[9:12]) if head[:5] == b'HTTP/' else 0
        self.whole = True
        self.error = error
        self.gaps = [b - a for a, b in zip(times, times[1:])]

        if b'transfer-encoding: chunked' in head.lower():
            body, self.whole = dechunk(body)

        self.body = body.decode(errors='replace')
        self.events = [line[6:] for line in self.body.split('\n')
                       if line.startswith('data: ')]
        self.done = '[DONE]' in self.events
        self.refused = '"error"' in self.body
        self.usage = None
        self.text = ''
        self.logprobs = None

        for event in self.events or [self.body]:
            try:
                self.take(json.loads(event))
            except ValueError:
                pass

    def take(self, a):
        if not isinstance(a, dict):
            return

        self.usage = a.get('usage') or self.usage

        for choice in a.get('choices', []):
            part = (choice.get('delta') or choice.get('message')
                    or choice)
            self.text += part.get('content') or choice.get('text') or ''
            self.logprobs = choice.get('logprobs') or self.logprobs

    def tokens(self):
        return self.usage['completion_tokens'] if self.usage else -1

    def good(self, tokens):
        """a stream that is there to its end"""

        return (self.status == 200 and self.done and self.whole
                and not self.refused and self.tokens() == tokens)

    def visibly_cut(self):
        """no answer, but nothing that says it was one"""

        return not self.done and (self.refused or not self.whole
                                  or self.status != 200)


async def request(port, body, path='/v1/completions', leave=None, started=None):
    """leave: seconds until the client does; started: called at the first
    event"""

    data = json.dumps(body).encode()
    got = b''
    times = []
    error = None
    w = None

    async def read():
        nonlocal got, w
        r, w = await asyncio.open_connection('127.0.0.1', port)
        w.write(b'POST %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n'
                b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n'
                % (path.encode(), len(data)) + data)

        while True:
            more = await r.read(65536)

            if not more:
                return

            if b'data: ' in more:
                times.append(time.monotonic())

                if len(times) == 1 and started:
                    started()

            got += more

    try:
        await asyncio.wait_for(read(), leave or 300)
    except (OSError, asyncio.TimeoutError) as e:
        error = repr(e)

    if w:
        w.transport.abort()

    return Answer(got, times, error)


def prompt(words, tokens, stream=True, **more):
    """the body of a greedy completion"""

    body = dict(prompt=common.words(words) if isinstance(words, int) else words,
                max_tokens=tokens, temperature=0, ignore_eos=True,
                stream=stream, **more)

    if stream:
        body['stream_options'] = {'include_usage': True}

    return body


def together(port, bodies, path='/v1/completions'):
    async def all_of_them():
        return await asyncio.gather(*(request(port, b, path) for b in bodies))

    return asyncio.run(all_of_them())


# answers beside others

def margin(logprobs, i):
    top = sorted(logprobs['top_logprobs'][i].values(), reverse=True)
    return top[0] - top[1] if len(top) > 1 else 0


def parting(a, b):
    """(where two answers part, None: nowhere; how near the two likeliest
    tokens were there)"""

    for i, (x, y) in enumerate(zip(a['tokens'], b['tokens'])):
        if x != y:
            return i, min(margin(a, i), margin(b, i))

    return None, 0.0

#!/usr/bin/env python3

"""How long a death is felt: kill -9 of the engine, of its supervisor, of both
and of the only worker, each in a fresh nginx; from the kill to the end of the
next answer of status 200, asked for after the kill, again and again.

    t/bench/restart.py [--json FILE] [--repeat N] [--only LIST]

With the null model, and with build/models/SmolLM2-135M-Instruct.Q4_1.gguf
(whose weights are loaded again) if it is there.  Needs build/mistral, the
module and nginx; BUILD names another folder.  Exits with 1 if something
failed, never because of a time.
"""

import http.client
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time

import common

VICTIMS = ['engine', 'supervisor', 'both', 'worker']
BODY = json.dumps({'prompt': 'Hello', 'max_tokens': 1})

CONF = common.LOAD + common.HEAD + """
    mistral_model m { %(model)s }

    server {
        listen  127.0.0.1:%(port)d;

        location /v1/ { mistral_pass m; }
        location = /status { mistral_status json; }
    }
}
"""


class Nginx(common.Nginx):
    """with one worker"""

    def __init__(self, model):
        super().__init__(CONF, model=model, user=common.user())
        self.run(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until_200(120)

    def ask(self, method, uri, body=None):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        try:
            c.request(method, uri, body,
                      {'Content-Type': 'application/json'})
            r = c.getresponse()
            return r.status, r.read()
        except (OSError, http.client.HTTPException):
            return 0, b''
        finally:
            c.close()

    def until_200(self, timeout):
        took = common.until(
            lambda: self.ask('POST', '/v1/completions', BODY)[0] == 200,
            timeout, 0.0005)

        if took is not None:
            return took

        raise RuntimeError('no answer, see ' + self.prefix + '/error.log')

    def victims(self, name):
        if name == 'worker':
            return common.children(self.process.pid)

        status = json.loads(self.ask('GET', '/status')[1])
        engine = status['models'][0]['engine_pid']
        supervisor = common.parent(engine)

        return {'engine': [engine], 'supervisor': [supervisor],
                'both': [supervisor, engine]}[name]

    def felt(self, name):
        pids = self.victims(name)

        # neither shall see the other's death

        if name == 'both':
            os.kill(pids[0], signal.SIGSTOP)

        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)

        return self.until_200(120) * 1000


def measure(model, name, repeat):
    times = []

    for _ in range(repeat):
        nginx = Nginx(model)
        try:
            times.append(nginx.felt(name))
        finally:
            nginx.stop()

    return {'median_ms': statistics.median(times), 'max_ms': max(times),
            'min_ms': min(times), 'n': len(times)}


def main():
    parser = common.options(VICTIMS)
    parser.add_argument('--repeat', type=int, default=20)
    args = parser.parse_args()

    models = {'null': 'path null:;'}

    if os.path.exists(common.SMOL):
        models['SmolLM2'] = f'path {common.SMOL}; context 2048;'

    report = {'when': time.strftime('%Y-%m-%d %H:%M:%S'),
              'machine': platform.platform(), 'load': os.getloadavg(),
              'cpus': os.cpu_count(), 'results': {}}

    print('load %.2f, %d cores, %d times each; kill -9, then ms to the next '
          '200' % (report['load'][0], report['cpus'], args.repeat))
    print('%-10s %-12s %10s %10s' % ('model', 'killed', 'median', 'max'))

    for label, model in models.items():
        for name in args.only.split(','):
            r = measure(model, name, args.repeat)
            report['results'][f'{label}/{name}'] = r
            print('%-10s %-12s %10.1f %10.1f'
                  % (label, name, r['median_ms'], r['max_ms']), flush=True)

    common.save(args.json, report, 2)


if __name__ == '__main__':
    try:
        main()
    except (OSError, RuntimeError, subprocess.SubprocessError) as e:
        sys.exit(f'restart.py: {e}')

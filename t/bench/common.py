"""What the benchmarks of this folder have in common: their options, the line
about the machine, rows and JSON; one nginx below its own prefix and the head
of its configuration; what /proc says of processes; and wrk.  No program.

BUILD, a variable of the environment, names another folder than "build".
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BUILD = os.path.abspath(os.environ.get('BUILD', 'build'))
SMOL = BUILD + '/models/SmolLM2-135M-Instruct.Q4_1.gguf'
TICK = os.sysconf('SC_CLK_TCK')

WORDS = ('time year people way day man thing woman life child world school '
         'state family student group country problem hand part place case '
         'week company system program question work number night').split()

# a configuration begins with LOAD, if it wants the module, and with a HEAD

LOAD = 'load_module  %(build)s/ngx_http_mistral_module.so;'

MAIN = """
daemon            off;
worker_processes  %(workers)d;
error_log         error.log notice;
pid               nginx.pid;
%(user)s
"""

TEMP = """
    access_log             off;
    client_body_temp_path  temp;
    proxy_temp_path        temp;
    fastcgi_temp_path      temp;
    uwsgi_temp_path        temp;
    scgi_temp_path         temp;
"""

HEAD = MAIN + 'events {}\n\nhttp {' + TEMP

# the same for many clients

HEAD_MANY = MAIN + """
worker_rlimit_nofile  %(files)d;

events {
    worker_connections  %(connections)d;
}

http {
    keepalive_requests  1000000;
""" + TEMP

WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
%swrk.body = '{"messages":[{"role":"user","content":"Hello"}],' ..
           '"max_tokens":%d}'

done = function(summary, latency, requests)
    local e = summary.errors
    io.write(string.format("RESULT %%d %%d %%d\\n", summary.requests,
             summary.duration, e.connect + e.read + e.write + e.status
                               + e.timeout))
end
"""


def read(path):
    with open(path) as f:
        return f.read()


def save(path, report, indent, end=''):
    """as JSON, if there is a path"""

    if path:
        with open(path, 'w') as f:
            json.dump(report, f, indent=indent)
            f.write(end)


def temp(folder=None):
    """a folder that a worker of another user may enter"""

    path = tempfile.mkdtemp(prefix='mistral_bench.', dir=folder)
    os.chmod(path, 0o755)

    return path


def words(n):
    return ' '.join(random.choice(WORDS) for _ in range(n))


# processes

def stat(pid):
    """the fields behind the name: state, parent, ..."""

    return read('/proc/%d/stat' % pid).rpartition(')')[2].split()


def parent(pid):
    return int(stat(pid)[1])


def parents():
    """{process: its parent}, of all"""

    found = {}

    for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
        try:
            found[pid] = parent(pid)
        except OSError:
            pass

    return found


def children(pid):
    return [p for p, parent in parents().items() if parent == pid]


def cpu(pid):
    """seconds of CPU that a process used; schedstat is the finer clock"""

    try:
        total = 0
        for task in os.listdir('/proc/%d/task' % pid):
            total += int(read('/proc/%d/task/%s/schedstat'
                              % (pid, task)).split()[0])
        if total:
            return total / 1e9
    except (OSError, ValueError, IndexError):
        pass

    fields = stat(pid)

    return (int(fields[11]) + int(fields[12])) / TICK


def memory(pid):
    """bytes: (resident, private and its share of what is shared)"""

    values = {}

    for line in read('/proc/%d/smaps_rollup' % pid).splitlines()[1:]:
        name, value = line.split(':')
        values[name] = int(value.split()[0]) * 1024

    return values['Rss'], values['Pss']


def pin(pid, cpus):
    for task in os.listdir('/proc/%d/task' % pid):
        os.sched_setaffinity(int(task), cpus)


def load():
    return os.getloadavg()[0]


# servers and clients

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def until(answers, timeout, pause, process=None):
    """seconds until it does; None: too late, or the process has ended"""

    start = time.monotonic()

    while time.monotonic() - start < timeout:
        if answers():
            return time.monotonic() - start

        if process and process.poll() is not None:
            break

        time.sleep(pause)

    return None


def user(name='www-data'):
    """what says so in a configuration: for root alone"""

    return 'user %s;' % name if os.geteuid() == 0 else ''


class Nginx:
    """one nginx below its own prefix, in the foreground"""

    def __init__(self, conf, folder=None, nginx='nginx', **values):
        self.prefix = temp(folder)
        self.port = free_port()
        self.command = [nginx, '-p', self.prefix, '-c',
                        self.prefix + '/nginx.conf', '-e',
                        self.prefix + '/error.log']
        self.configure(conf, **values)

    def configure(self, conf, **values):
        values = dict(dict(build=BUILD, port=self.port, workers=1, user='',
                           files=4096, connections=4096), **values)

        with open(self.prefix + '/nginx.conf', 'w') as f:
            f.write(conf % values)

    def run(self, **options):
        self.process = subprocess.Popen(self.command,
                                        stdin=subprocess.DEVNULL, **options)

    def worker(self):
        """the pid of its only worker"""

        for pid in children(self.process.pid):
            if 'worker' in read('/proc/%d/cmdline' % pid):
                return pid

        raise RuntimeError('no worker below ' + self.prefix)

    def url(self, path=''):
        return 'http://127.0.0.1:%d%s' % (self.port, path)

    def get(self, path):
        with urllib.request.urlopen(self.url(path), timeout=30) as r:
            return json.load(r)

    def healthy(self):
        try:
            self.get('/healthz')
            return True
        except OSError:
            return False

    def wait(self):
        if until(self.healthy, 10, 0.1, self.process) is None:
            sys.stderr.write(read(self.prefix + '/error.log'))
            raise RuntimeError('nginx does not answer')

    def stop(self, by=signal.SIGQUIT, timeout=60):
        self.process.send_signal(by)
        self.process.wait(timeout)
        shutil.rmtree(self.prefix, ignore_errors=True)


def wrk(root, url, n, seconds, headers={}):
    """requests per second at 64 connections, and how many they were"""

    script = os.path.join(root, 'post.lua')

    with open(script, 'w') as f:
        f.write(WRK % (''.join('wrk.headers["%s"] = "%s"\n' % h
                               for h in headers.items()), n))

    out = subprocess.run(['wrk', '-t1', '-c64', '-d%ds' % seconds, '-s',
                          script, url + 'chat/completions'],
                         check=True, capture_output=True, text=True).stdout

    for line in out.splitlines():
        if line.startswith('RESULT'):
            done, us, errors = map(int, line.split()[1:])

            if errors or not done:
                raise RuntimeError('%d requests, %d failed: %s'
                                   % (done, errors, url))

            return done / (us / 1e6), done

    raise RuntimeError('wrk: ' + out)


# the programs

def options(names, **more):
    """a parser of --json and --only"""

    parser = argparse.ArgumentParser(**more)
    parser.add_argument('--json')
    parser.add_argument('--only', default=','.join(names))

    return parser


def chosen(only, names):
    """those of --only, in our order"""

    only = only.split(',')

    for name in only:
        if name not in names:
            sys.exit('no measurement "%s": %s' % (name, ', '.join(names)))

    return [name for name in names if name in only]


def show(v):
    if isinstance(v, float):
        return '%.0f' % v if v >= 1000 else '%.3g' % v

    return str(v)


def machine():
    for line in read('/proc/cpuinfo').splitlines():
        if line.startswith('model name'):
            return '%s, %d cores' % (line.split(':')[1].strip(),
                                     os.cpu_count())

    return platform.processor()


class Bench:
    """rows with goals; a measurement is a method of its name"""

    UNIT = 8                                           # columns

    def __init__(self, args, root):
        self.args = args
        self.root = root
        self.rows = []

    def start(self):
        pass

    def stop(self):
        pass

    def measure(self, names):
        for name in names:
            getattr(self, name)()

    def row(self, name, value, unit, goal, met, **more):
        self.rows.append(dict(name=name, value=value, unit=unit, goal=goal,
                              met=met, load=round(load(), 2), **more))

        detail = ', '.join('%s %s' % (k.replace('_', ' '), show(v))
                           for k, v in more.items())

        print('%-22s %10s %-*s goal %-8s %-6s %s'
              % (name, show(value), self.UNIT, unit, goal or '-',
                 '' if met is None else 'met' if met else 'MISSED', detail),
              flush=True)


def main(make, names, seconds):
    """of a program whose Bench this is"""

    parser = options(names)
    parser.add_argument('--seconds', type=int, default=seconds)
    args = parser.parse_args()
    names = chosen(args.only, names)

    root = temp()
    bench = make(args, root)
    about = dict(machine=machine(), kernel=platform.release(),
                 date=time.strftime('%Y-%m-%d'), load_before=load())

    print('%(machine)s, %(date)s, load %(load_before).2f' % about, flush=True)

    try:
        bench.start()
        bench.measure(names)

    finally:
        bench.stop()
        shutil.rmtree(root, ignore_errors=True)

    about['load_after'] = load()
    print('load %.2f' % about['load_after'])

    save(args.json, dict(about, rows=bench.rows), 4, '\n')

#!/usr/bin/env python3

"""What nginx costs: the null model answered by the worker itself ("direct"),
beside a worker that proxies to it ("proxied": HTTP/1.1, 64 connections kept,
no buffering).  Both sides run at the same time, one worker each, and are
measured in turn, three times; the median is shown.

    t/bench/gateway.py [--json FILE] [--only LIST] [--seconds S]

Needs build/mistral, the module, nginx and wrk; BUILD names another folder.
Exits with 1 if something failed, never because a goal was missed.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BUILD = os.path.abspath(os.environ.get('BUILD', 'build'))
REPEAT = 3
TICK = os.sysconf('SC_CLK_TCK')

# models whose engines sleep while others are measured

NULL = """
    mistral_model fast {
        path       null:;
        max_batch  256;
        context    16384;
    }

    mistral_model rate50 {
        path       null:rate=50;
        max_batch  256;
        context    16384;
    }

    mistral_model slow {
        path       null:rate=1;
        max_batch  16384;
        context    65536;
    }
"""

HEAD = """
daemon                off;
worker_processes      1;
worker_rlimit_nofile  %(files)d;
error_log             error.log notice;
pid                   nginx.pid;

events {
    worker_connections  %(files)d;
}
"""

COMMON = """
    access_log          off;
    keepalive_requests  1000000;

    client_body_temp_path  temp;
    proxy_temp_path        temp;
    fastcgi_temp_path      temp;
    uwsgi_temp_path        temp;
    scgi_temp_path         temp;
"""

DIRECT = 'load_module  %(build)s/ngx_http_mistral_module.so;' + HEAD + """
http {
""" + COMMON + NULL + """
    server {
        listen  127.0.0.1:%(port)d backlog=4096;

        location /fast/ {
            mistral_pass  fast;
        }

        location /rate50/ {
            mistral_pass  rate50;
        }

        location /slow/ {
            mistral_pass  slow;
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

PROXY = HEAD + """
http {
""" + COMMON + """
    upstream direct {
        server              127.0.0.1:%(direct)d;
        keepalive           64;
        keepalive_requests  1000000;
    }

    server {
        listen  127.0.0.1:%(port)d backlog=4096;

        location / {
            proxy_pass          http://direct;
            proxy_http_version  1.1;
            proxy_set_header    Connection "";
            proxy_buffering     off;
        }
    }
}
"""

WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"messages":[{"role":"user","content":"Hello"}],' ..
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


def children(pid):
    """of a process"""

    found = []

    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            stat = read('/proc/%s/stat' % name).rpartition(')')[2].split()
        except OSError:
            continue

        if int(stat[1]) == pid:
            found.append(int(name))

    return found


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

    stat = read('/proc/%d/stat' % pid).rpartition(')')[2].split()

    return (int(stat[11]) + int(stat[12])) / TICK


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


class Nginx:
    """one nginx below its own prefix, in the foreground"""

    def __init__(self, name, root, conf, **values):
        self.prefix = os.path.join(root, name)
        self.port = free_port()

        os.mkdir(self.prefix)
        os.chmod(self.prefix, 0o755)

        values.update(port=self.port, build=BUILD)

        with open(os.path.join(self.prefix, 'nginx.conf'), 'w') as f:
            f.write(conf % values)

        self.process = subprocess.Popen(
            ['nginx', '-p', self.prefix + '/', '-c', 'nginx.conf',
             '-e', 'error.log'], stdin=subprocess.DEVNULL)

    def worker(self):
        """the pid of its only worker"""

        for pid in children(self.process.pid):
            if 'worker' in read('/proc/%d/cmdline' % pid):
                return pid

        raise RuntimeError('no worker below ' + self.prefix)

    def url(self, path):
        return 'http://127.0.0.1:%d%s' % (self.port, path)

    def get(self, path):
        with urllib.request.urlopen(self.url(path), timeout=30) as r:
            return json.load(r)

    def wait(self):
        for _ in range(100):
            if self.process.poll() is not None:
                break

            try:
                return self.get('/healthz')
            except OSError:
                time.sleep(0.1)

        sys.stderr.write(read(os.path.join(self.prefix, 'error.log')))
        raise RuntimeError('nginx does not answer')

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def parent(pid):
    return int(read('/proc/%d/stat' % pid).rpartition(')')[2].split()[1])


def wrk(root, url, n, seconds):
    """requests per second at 64 connections"""

    script = os.path.join(root, 'post.lua')

    with open(script, 'w') as f:
        f.write(WRK % n)

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


def bench_start(url, report, *options):
    return subprocess.Popen([os.path.join(BUILD, 'mistral'), 'bench', url,
                             '--ignore-eos', '--json', report,
                             *map(str, options)],
                            stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def bench_end(process, report):
    if process.wait():
        raise RuntimeError('mistral bench failed')

    with open(report) as f:
        return json.load(f)


class Bench:

    def __init__(self, args, root):
        self.args = args
        self.root = root
        self.report = os.path.join(root, 'report.json')
        self.rows = []
        self.cpus = sorted(os.sched_getaffinity(0))

    def start(self, files):
        self.direct = Nginx('direct', self.root, DIRECT, files=files)
        self.direct.wait()
        self.proxy = Nginx('proxy', self.root, PROXY, files=files,
                           direct=self.direct.port)
        self.proxy.wait()

    def stop(self):
        for name in ('proxy', 'direct'):
            if hasattr(self, name):
                getattr(self, name).stop()

    def row(self, name, value, unit, goal, met, **more):
        row = dict(name=name, value=value, unit=unit, goal=goal, met=met,
                   load=round(load(), 2), **more)
        self.rows.append(row)

        detail = ', '.join('%s %s' % (k.replace('_', ' '), show(v))
                           for k, v in more.items())

        print('%-22s %10s %-8s goal %-8s %-6s %s'
              % (name, show(value), unit, goal or '-',
                 '' if met is None else 'met' if met else 'MISSED', detail),
              flush=True)

    def stream(self, server, model, *options):
        """one run of streams: tokens, and seconds of CPU that the workers
        (direct, proxy) used meanwhile"""

        workers = self.direct.worker(), self.proxy.worker()
        before = [cpu(pid) for pid in workers]

        p = bench_start(server.url('/%s/v1' % model), self.report, *options)
        r = bench_end(p, self.report)

        used = [cpu(pid) - b for pid, b in zip(workers, before)]

        if any(r['errors'].values()):
            raise RuntimeError('errors: %s' % r['errors'])

        return r['completion_tokens'], used

    def processes(self):
        """all of both sides but the masters"""

        pids = [self.direct.worker(), self.proxy.worker()]

        for m in self.direct.get('/status')['models']:
            pids += [m['engine_pid'], parent(m['engine_pid'])]

        return pids

    def apart(self, worker):
        """a core of its own for a worker; its peers and the client, which
        inherits it from us, share the others; None: as the kernel likes"""

        if len(self.cpus) < 2:
            return

        for pid in self.processes() + [os.getpid()]:
            pin(pid, self.cpus if worker is None
                else self.cpus[:1] if pid == worker else self.cpus[1:])

    # the measurements

    def requests(self):
        for n in (1, 16):
            direct, proxied, costs, relays = [], [], [], []

            for _ in range(REPEAT):
                before = cpu(self.direct.worker())
                rate, done = wrk(self.root, self.direct.url('/fast/'), n,
                                 self.args.seconds)
                direct.append(rate)
                costs.append((cpu(self.direct.worker()) - before) / done)

                before = cpu(self.proxy.worker())
                rate, done = wrk(self.root, self.proxy.url('/fast/'), n,
                                 self.args.seconds)
                proxied.append(rate)
                relays.append((cpu(self.proxy.worker()) - before) / done)

            d, p = statistics.median(direct), statistics.median(proxied)

            self.row('requests, %d tokens' % n if n > 1
                     else 'requests, 1 token',
                     d / p, 'x', '>= 1.35', d / p >= 1.35,
                     direct_per_s=d, proxied_per_s=p,
                     us_per_request=statistics.median(costs) * 1e6,
                     proxying_us=statistics.median(relays) * 1e6)

    def tokens(self):
        """as fast as the client reads: one after the other, in rounds"""

        options = ('--concurrency', 16, '--max-tokens', 8192,
                   '--prompt-tokens', 4, '--requests', 128, '--warmup', 16)
        direct, proxied = [], []

        for _ in range(REPEAT):
            n, used = self.stream(self.direct, 'fast', *options)
            direct.append(used[0] / n * 1e6)

            n, used = self.stream(self.proxy, 'fast', *options)
            proxied.append(used[1] / n * 1e6)

        d = statistics.median(direct)

        self.row('CPU per token, fast', d, 'us', '<= 2', d <= 2,
                 proxying_us=statistics.median(proxied))

    def paced_once(self, options, own):
        """CPU per token of the worker, of the proxying one, and of both
        where one proxies: medians"""

        servers = self.direct, self.proxy
        found = [], [], []

        for _ in range(REPEAT):
            for i, server in enumerate(servers):
                self.apart(server.worker() if own else None)
                n, used = self.stream(server, 'rate50', *options)
                found[i].append(used[i] / n * 1e6)

            found[2].append(sum(used) / n * 1e6)

        self.apart(None)

        return [statistics.median(f) for f in found]

    def paced(self):
        """64 streams of 50 tokens per second.  Where the worker shares its
        core with the client that it wakes, the kernel charges it less or
        more as that goes: shown as well, but it is no measure of nginx"""

        options = ('--concurrency', 64, '--max-tokens', 300,
                   '--prompt-tokens', 4, '--requests', 64)

        direct, proxied, both = self.paced_once(options, True)
        shared = self.paced_once(options, False)

        self.row('CPU at 50 tok/s, 64', direct / proxied, 'x', '<= 0.7',
                 direct / proxied <= 0.7, direct_us_per_token=direct,
                 proxying_us_per_token=proxied, both_workers_us=both,
                 cores_shared_x=shared[0] / shared[1],
                 cores_shared_us='%.1f, %.1f, both %.1f' % tuple(shared))

    def held(self, server, streams, tokens):
        """slow streams, all open at once: memory before and at the peak"""

        pid = server.worker()
        before = memory(pid)
        used = cpu(pid)

        p = bench_start(server.url('/slow/v1'), self.report, '--concurrency',
                        streams, '--requests', streams, '--max-tokens',
                        tokens, '--prompt-tokens', 4)
        most, during = 0, before

        try:
            while p.poll() is None:
                s = self.direct.get('/status')
                n = running(s, 'slow')
                if n >= most:
                    most, during = n, memory(pid)
                time.sleep(0.5)
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()

        r = bench_end(p, self.report)

        return r, most, [(b - a) / max(most, 1) / 1024
                         for a, b in zip(before, during)], cpu(pid) - used

    def streams(self):
        """on workers that did nothing before: memory is not given back"""

        r, most, (rss, pss), _ = self.held(self.direct, 1000, 15)
        _, _, (prss, ppss), _ = self.held(self.proxy, 1000, 15)

        self.row('memory per stream', max(rss, pss), 'KiB', '<= 48',
                 most == 1000 and max(rss, pss) <= 48, open_at_once=most,
                 rss_KiB=rss, pss_KiB=pss, proxying_rss_KiB=prss)

    def many(self):
        n = 10000
        r, most, (rss, _), used = self.held(self.direct, n, 40)
        lost = n - r['done']
        short = n * 40 - r['completion_tokens']

        self.row('streams at once', most, '', '10000',
                 most == n and lost == 0 and short == 0, lost=lost,
                 tokens_lost=short, seconds=r['seconds'], rss_KiB=rss,
                 us_per_token=used / (n * 40) * 1e6)

    def idle(self):
        """nginx with three models' engines, supervisors included"""

        pids = [self.direct.process.pid] + self.processes()
        pids.remove(self.proxy.worker())

        time.sleep(2)
        before, start = [cpu(p) for p in pids], time.monotonic()
        time.sleep(10)
        used = [cpu(p) - b for p, b in zip(pids, before)]
        seconds = time.monotonic() - start
        percent = sum(used) / seconds * 100

        self.row('idle CPU', percent, '%', '<= 0.5', percent <= 0.5,
                 processes=len(pids),
                 busiest_percent=max(used) / seconds * 100)


def running(status, name):
    return next(m['running'] for m in status['models'] if m['model'] == name)


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


def main():
    # "streams" first: a worker's memory only grows

    names = ('idle', 'streams', 'requests', 'tokens', 'paced', 'many')

    a = argparse.ArgumentParser()
    a.add_argument('--json')
    a.add_argument('--only', default=','.join(names))
    a.add_argument('--seconds', type=int, default=5)
    args = a.parse_args()

    only = args.only.split(',')

    for name in only:
        if name not in names:
            sys.exit('no measurement "%s": %s' % (name, ', '.join(names)))

    root = tempfile.mkdtemp(prefix='mistral-bench-')
    os.chmod(root, 0o755)

    bench = Bench(args, root)
    about = dict(machine=machine(), kernel=platform.release(),
                 date=time.strftime('%Y-%m-%d'), load_before=load())

    print('%(machine)s, %(date)s, load %(load_before).2f' % about, flush=True)

    try:
        bench.start(16384)

        for name in names:
            if name in only:
                getattr(bench, name)()

    finally:
        bench.stop()
        shutil.rmtree(root, ignore_errors=True)

    about['load_after'] = load()
    print('load %.2f' % about['load_after'])

    if args.json:
        with open(args.json, 'w') as f:
            json.dump(dict(about, rows=bench.rows), f, indent=4)
            f.write('\n')


if __name__ == '__main__':
    main()

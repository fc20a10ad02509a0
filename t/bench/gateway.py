#!/usr/bin/env python3

"""What nginx costs: the null model answered by the worker itself ("direct"),
beside a worker that proxies to it ("proxied": HTTP/1.1, 64 connections kept,
no buffering).  Both sides run at the same time, one worker each, and are
measured in turn, three times; the median is shown.

    t/bench/gateway.py [--json FILE] [--only LIST] [--seconds S]

Needs build/mistral, the module, nginx and wrk; BUILD names another folder.
Exits with 1 if something failed, never because a goal was missed.
"""

import json
import os
import signal
import statistics
import subprocess
import time

import common

REPEAT = 3

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

DIRECT = common.LOAD + common.HEAD_MANY + NULL + """
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

PROXY = common.HEAD_MANY + """
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

def bench_start(url, report, *options):
    return subprocess.Popen([common.BUILD + '/mistral', 'bench', url,
                             '--ignore-eos', '--json', report,
                             *map(str, options)],
                            stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def bench_end(process, report):
    if process.wait():
        raise RuntimeError('mistral bench failed')

    return json.loads(common.read(report))


class Bench(common.Bench):

    def __init__(self, args, root):
        super().__init__(args, root)
        self.report = os.path.join(root, 'report.json')
        self.servers = []
        self.cpus = sorted(os.sched_getaffinity(0))

    def start(self):
        self.direct = self.server(DIRECT)
        self.direct.wait()
        self.proxy = self.server(PROXY, direct=self.direct.port)
        self.proxy.wait()

    def server(self, conf, **values):
        s = common.Nginx(conf, self.root, files=16384, connections=16384,
                         **values)
        s.run()
        self.servers.append(s)

        return s

    def stop(self):
        for s in reversed(self.servers):
            s.stop(signal.SIGTERM)

    def stream(self, server, model, *options):
        """one run of streams: tokens, and seconds of CPU that the workers
        (direct, proxy) used meanwhile"""

        workers = self.direct.worker(), self.proxy.worker()
        before = [common.cpu(pid) for pid in workers]

        p = bench_start(server.url('/%s/v1' % model), self.report, *options)
        r = bench_end(p, self.report)

        used = [common.cpu(pid) - b for pid, b in zip(workers, before)]

        if any(r['errors'].values()):
            raise RuntimeError('errors: %s' % r['errors'])

        return r['completion_tokens'], used

    def processes(self):
        """all of both sides but the masters"""

        pids = [self.direct.worker(), self.proxy.worker()]

        for m in self.direct.get('/status')['models']:
            pids += [m['engine_pid'], common.parent(m['engine_pid'])]

        return pids

    def apart(self, worker):
        """a core of its own for a worker; its peers and the client, which
        inherits it from us, share the others; None: as the kernel likes"""

        if len(self.cpus) < 2:
            return

        for pid in self.processes() + [os.getpid()]:
            common.pin(pid, self.cpus if worker is None
                else self.cpus[:1] if pid == worker else self.cpus[1:])

    # the measurements

    def requests(self):
        for n in (1, 16):
            direct, proxied, costs, relays = [], [], [], []

            for _ in range(REPEAT):
                before = common.cpu(self.direct.worker())
                rate, done = common.wrk(self.root, self.direct.url('/fast/'),
                                        n, self.args.seconds)
                direct.append(rate)
                costs.append((common.cpu(self.direct.worker()) - before)
                             / done)

                before = common.cpu(self.proxy.worker())
                rate, done = common.wrk(self.root, self.proxy.url('/fast/'),
                                        n, self.args.seconds)
                proxied.append(rate)
                relays.append((common.cpu(self.proxy.worker()) - before)
                              / done)

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
        before = common.memory(pid)
        used = common.cpu(pid)

        p = bench_start(server.url('/slow/v1'), self.report, '--concurrency',
                        streams, '--requests', streams, '--max-tokens',
                        tokens, '--prompt-tokens', 4)
        most, during = 0, before

        try:
            while p.poll() is None:
                s = self.direct.get('/status')
                n = running(s, 'slow')
                if n >= most:
                    most, during = n, common.memory(pid)
                time.sleep(0.5)
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()

        r = bench_end(p, self.report)

        used = common.cpu(pid) - used

        return r, most, [(b - a) / max(most, 1) / 1024
                         for a, b in zip(before, during)], used

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
        before, start = [common.cpu(p) for p in pids], time.monotonic()
        time.sleep(10)
        used = [common.cpu(p) - b for p, b in zip(pids, before)]
        seconds = time.monotonic() - start
        percent = sum(used) / seconds * 100

        self.row('idle CPU', percent, '%', '<= 0.5', percent <= 0.5,
                 processes=len(pids),
                 busiest_percent=max(used) / seconds * 100)


def running(status, name):
    return next(m['running'] for m in status['models'] if m['model'] == name)


def main():
    # "streams" first: a worker's memory only grows

    names = ('idle', 'streams', 'requests', 'tokens', 'paced', 'many')

    common.main(Bench, names, 5)


if __name__ == '__main__':
    main()

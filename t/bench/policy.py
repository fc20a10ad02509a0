#!/usr/bin/env python3

"""What policies cost: requests per second of the null model (one token) in a
location with each policy, beside the same location without.  One worker with
a core of its own where there are two; the locations are measured in turn,
several times, each round against its own "off", and the median is shown.  A
worker that is always busy answers as many requests as its CPU time allows:
the cost is computed from that, since other processes take time from rates.

    t/bench/policy.py [--json FILE] [--only LIST] [--seconds S]

Needs build/mistral, the module, build/t/bench/jwt_bench, nginx, openssl and
wrk; BUILD names another folder.  Exits with 1 if something failed, never
because a goal was missed.
"""

import base64
import hashlib
import json
import os
import signal
import statistics
import subprocess
import time

import common

REPEAT = 5
KEY = 'sk-bench'

# A policy: what stands in http {} and in its location.  A new one is a line
# here; those of "all" are on together.  %(root)s holds the files of files().

POLICIES = {
    'key': ('', """
            mistral_auth_key           bench;
            mistral_auth_key_file      %(root)s/keys;
"""),
    'jwt': ('', """
            mistral_auth_jwt           bench iss=https://id.example.com/
                                       aud=llm token=$http_x_token;
            mistral_auth_jwt_key_file  %(root)s/jwt.pem;
"""),
    'limit': ("""
    mistral_limit_zone  $http_x_team zone=tokens:1m rate=1000mt/s;
""", """
            mistral_limit              zone=tokens;
"""),
    'quota': ("""
    mistral_quota_zone  $http_x_team zone=budget:1m quota=1000000m window=1d
                        align=calendar;
""", """
            mistral_quota              zone=budget;
"""),
    'limit_req': ("""
    limit_req_zone  $mistral_consumer zone=requests:1m rate=1000000r/s;
""", """
            limit_req                  zone=requests burst=1000000 nodelay;
"""),
    'tenant': ('', """
            mistral_cache_salt          $remote_addr;
            mistral_max_tokens          1000;
            mistral_default_max_tokens  100;
"""),
    'task': ("""
    mistral_task short { system_prompt "Be brief."; temperature 0; }
""", """
            mistral_system_prompt      "You help students.";
            mistral_task               short;
"""),
    'route': ("""
    mistral_model second { path null:; max_batch 256; }
""", """
            mistral_allow_models  null second;
            mistral_canary        second 50%% key=$connection
                                  max_errors=5%%;
            mistral_breaker;
            mistral_fallback      second;
"""),
    'deny': ('', """
            mistral_prompt_deny  "~*\\bsalary\\b" "\\b\\d{4}-\\d{4}\\b" secret;
"""),
}

# name: its policies
CASES = {
    'key': ['key'],
    'jwt': ['jwt'],
    'tenant': ['tenant'],
    'task': ['task'],
    'deny': ['deny'],
    'limit': ['limit', 'quota'],
    'route': ['route'],
    'usual': ['jwt', 'limit', 'route'],
    'all': ['jwt', 'limit_req', 'limit', 'quota', 'route'],
}

LOCATION = """
        location /%s/ {
%s
            mistral_pass  null;
        }
"""

CONF = common.LOAD + common.HEAD_MANY + """
    mistral_model null {
        path       null:;
        max_batch  256;
    }

    %(http)s

    server {
        listen  127.0.0.1:%(port)d backlog=4096;

        location = /healthz {
            mistral_health  ready;
        }

        %(locations)s
    }
}
"""


def files(root):
    """a key of 10,000, and a token; returns the headers that show them"""

    with open(root + '/keys', 'w') as f:
        for i in range(10000):
            key = KEY if i == 5000 else 'sk-%d' % i
            f.write('user%d:{SHA256}%s:gold\n'
                    % (i, hashlib.sha256(key.encode()).hexdigest()))

    run('openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out '
        + root + '/jwt.key')
    run('openssl pkey -pubout -in %s/jwt.key -out %s/jwt.pem' % (root, root))

    claims = dict(iss='https://id.example.com/', aud=['llm', 'account'],
                  sub='6c1d8bd2-6f0f-4ff7-8c7e-3a8a2f0b9a55',
                  exp=int(time.time()) + 86400, scope='openid email',
                  realm_access=dict(roles=['llm', 'offline_access', 'user']),
                  email='someone@example.com', name='Some One')
    text = (b64(json.dumps(dict(alg='RS256', typ='JWT')).encode()) + '.'
            + b64(json.dumps(claims).encode()))

    with open(root + '/input', 'w') as f:
        f.write(text)

    run('openssl dgst -sha256 -sign %s/jwt.key -out %s/output %s/input'
        % (root, root, root))

    with open(root + '/output', 'rb') as f:
        token = text + '.' + b64(f.read())

    return {'Authorization': 'Bearer ' + KEY, 'X-Token': token,
            'X-Team': 'bench'}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def run(command):
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def conf(root, names):
    """without and with each; what belongs to http {} once"""

    http, locations = {}, LOCATION % ('off', '')

    for name in names:
        for policy in CASES[name]:
            http[policy] = POLICIES[policy][0]

        locations += LOCATION % (name, ''.join(POLICIES[p][1]
                                               for p in CASES[name]))

    values = dict(root=root)

    return dict(http=''.join(http.values()) % values,
                locations=locations % values)


class Bench(common.Bench):

    UNIT = 4

    def measure(self, names):
        if 'calls' in names:
            self.calls()

        names = [n for n in names if n != 'calls']

        if names:
            self.requests(names)

    def calls(self):
        out = subprocess.run([common.BUILD + '/t/bench/jwt_bench'],
                             check=True, capture_output=True, text=True)
        ns = json.loads(out.stdout)

        self.row('JWT verify, cached', ns['cached'] / 1e3, 'us', '<= 2',
                 ns['cached'] <= 2000, bytes_of_token=ns['bytes'],
                 first_time_RS256_us=ns['RS256'] / 1e3,
                 PS256_us=ns['PS256'] / 1e3, ES256_us=ns['ES256'] / 1e3,
                 EdDSA_us=ns['EdDSA'] / 1e3)
        self.row('API key of 10,000', ns['key'] / 1e3, 'us', None, None)

    def requests(self, names):
        headers = files(self.root)

        # the headers are read in all locations: off is off for policies only

        server = common.Nginx(CONF, self.root, **conf(self.root, names))
        server.run()
        rates = {name: [] for name in ['off'] + names}
        costs = {name: [] for name in ['off'] + names}

        try:
            server.wait()
            self.apart(server)

            for _ in range(REPEAT):
                for name in rates:
                    before = common.cpu(server.worker())
                    rate, done = common.wrk(self.root,
                                            server.url('/%s/' % name), 1,
                                            self.args.seconds, headers)
                    used = common.cpu(server.worker()) - before
                    rates[name].append(rate)
                    costs[name].append(used / done * 1e6)
        finally:
            server.stop(signal.SIGTERM)

        for name in names:
            cost = statistics.median((1 - b / a) * 100 for a, b
                                     in zip(costs[name], costs['off']))

            self.row('requests, ' + name, cost, '%', '<= 10', cost <= 10,
                     policies=' + '.join(CASES[name]),
                     per_s=statistics.median(rates[name]),
                     off_per_s=statistics.median(rates['off']),
                     us_of_CPU=statistics.median(costs[name]),
                     off_us=statistics.median(costs['off']))

    def apart(self, server):
        """the worker has a core of its own, the others share the rest"""

        cpus = sorted(os.sched_getaffinity(0))

        if len(cpus) < 2:
            return

        common.pin(server.worker(), cpus[:1])
        common.pin(os.getpid(), cpus[1:])


def main():
    common.main(Bench, ['calls'] + list(CASES), 4)


if __name__ == '__main__':
    main()

#!/usr/bin/perl

# What "nginx -t" says of mistral_* directives in locations and at http: every
# refusal is one sentence that names the value, and what is right passes.  The
# model's block: directives.t.

use warnings;
use strict;

use lib 't/lib';
use MistralCheck;
use POSIX ();
use Test::More;

my $null = 'mistral_model n { path null:; }';

mkdir "$prefix/dir";
write_file("$prefix/plain", "plain\n");
POSIX::mkfifo("$prefix/fifo", 0600);

# what docs/directives.md gives as a default may be written

my $docs = do { local (@ARGV, $/) = 'docs/directives.md'; <> };
my (@http, @location);

while ($docs =~ /^    Default:  (mistral_.*;)\n    Context:  (.*)$/mg) {
    push @{ $2 eq 'http' ? \@http : \@location }, $1;
}

cmp_ok(scalar(@location), '>', 20, 'there are defaults');
passes("$null @http server { location / { mistral_pass n; @location } }",
       'the documented defaults');

# locations

my $d = 'server { location /';

passes("$null $d { mistral_pass n; } }", 'mistral_pass');
passes("$d { mistral_pass n; } } $null", 'a block behind its location');
passes("mistral_model o { path null:; alias a/b; } $d { mistral_pass a/b; } }",
       'mistral_pass ALIAS');
passes("$null $d { mistral_pass \$arg_m; } }", 'mistral_pass $variable');
passes("$null $d { if (\$arg_a) { mistral_pass n; } } }",
       'mistral_pass in if');
passes("$null $d { mistral_pass n; if (\$arg_a) { set \$x 1; } } }",
       'if beside mistral_pass');
passes("$null $d { mistral_pass n; limit_except POST { deny all; } } }",
       'limit_except beside mistral_pass');
passes("$d { mistral_health live; } }", 'mistral_health live, no model');
passes("$null $d { mistral_health ready; } }", 'mistral_health ready');
passes("$null $d { mistral_status json; } }", 'mistral_status json');
passes("$null $d { mistral_status prometheus; } }",
       'mistral_status prometheus');
passes("$null $d { mistral_status prometheus vllm; } }",
       'mistral_status prometheus vllm');
passes("$d { mistral_status prometheus vllm; } }",
       'mistral_status prometheus, no model');
passes("$null $d { mistral_health decode; } }", 'mistral_health decode');
passes("$null mistral_queue 4; server { mistral_queue 5 timeout=1s;
        location / { mistral_queue 0; mistral_pass n; }
        location /t { mistral_queue 1 tokens=200k timeout=2s; }
        location /m { mistral_queue 1 timeout=2s tokens=1m; } }",
       'mistral_queue at each level');

for my $t (
    [ 'mistral_pass x;', 'unknown mistral_model "x" in ' ],
    [ 'mistral_pass "";', 'invalid value ""' ],
    [ 'mistral_pass;', 'invalid number of arguments' ],
    [ 'mistral_pass $nothing;', 'unknown "nothing" variable' ],
    [ 'mistral_pass n; mistral_pass n;',
      '"mistral_pass" directive is duplicate' ],
    [ 'mistral_pass n; mistral_health live;',
      '"mistral_health" cannot be used in a location that has another' ],
    [ 'mistral_status json; mistral_pass n;',
      '"mistral_pass" cannot be used in a location that has another' ],
    [ 'proxy_pass http://127.0.0.1:1; mistral_pass n;',
      '"mistral_pass" cannot be used in a location that has another' ],
    [ 'mistral_pass n; proxy_pass http://127.0.0.1:1;',
      '"mistral_pass" cannot be used in a location that has another' ],
    [ 'mistral_health live; stub_status;',
      '"mistral_health" cannot be used in a location that has another' ],
    [ 'mistral_health;', 'invalid number of arguments' ],
    [ 'mistral_health x;', 'it must be "live", "ready" or "decode"' ],
    [ 'mistral_health live; mistral_health ready;',
      '"mistral_health" directive is duplicate' ],
    [ 'mistral_status;', 'invalid number of arguments' ],
    [ 'mistral_status xml;', 'it must be "json" or "prometheus"' ],
    [ 'mistral_status json vllm;', 'invalid parameter "vllm"' ],
    [ 'mistral_status prometheus x;', 'invalid parameter "x"' ],
    [ 'mistral_status prometheus vllm vllm;', 'invalid parameter "vllm"' ],
    [ 'mistral_status json; mistral_status json;',
      '"mistral_status" directive is duplicate' ],
    [ 'mistral_queue;', 'invalid number of arguments' ],
    [ 'mistral_queue x;', 'invalid queue size "x"' ],
    [ 'mistral_queue -1;', 'invalid queue size "-1"' ],
    [ 'mistral_queue 1000001;', 'a number from 0 to 1000000' ],
    [ 'mistral_queue 1 timeout=x;',
      'invalid value "timeout=x" in "mistral_queue" directive, it must be a '
      . 'time' ],
    [ 'mistral_queue 1 timeout=0;', 'invalid value "timeout=0"' ],
    [ 'mistral_queue 1 timeout=1s timeout=2s;', 'duplicate parameter' ],
    [ 'mistral_queue 1 tokens=;', 'invalid value "tokens="' ],
    [ 'mistral_queue 1 tokens=0;',
      'invalid value "tokens=0" in "mistral_queue" directive, it must be a '
      . 'number of tokens' ],
    [ 'mistral_queue 1 tokens=k;', 'invalid value "tokens=k"' ],
    [ 'mistral_queue 1 tokens=-1;', 'invalid value "tokens=-1"' ],
    [ 'mistral_queue 1 tokens=1g;', 'invalid value "tokens=1g"' ],
    [ 'mistral_queue 1 tokens=10000000000;',
      'invalid value "tokens=10000000000"' ],
    [ 'mistral_queue 1 tokens=1 tokens=2;', 'duplicate parameter' ],
    [ 'mistral_queue 1 x=1;',
      'invalid parameter "x=1" in "mistral_queue" directive, it must be' ],
    [ 'mistral_preread maybe;',
      'invalid value "maybe" in "mistral_preread" directive, it must be "off", '
      . '"on" or "auth"' ],
    [ 'mistral_preread on; mistral_preread on;', 'is duplicate' ],
    [ 'mistral_queue 1; mistral_queue 2;',
      '"mistral_queue" directive is duplicate' ])
{
    fails("$null $d { $t->[0] } }", $t->[1]);
}

fails("server { mistral_pass n; }", 'directive is not allowed here');

# pressure and streams

passes("$null mistral_kv_reserve full; mistral_priority 7 preempt;
        mistral_fair \$remote_addr weight=5; mistral_deadline ttft=2s;
        mistral_retry_after auto; mistral_shed_status 429;
        mistral_sse_keepalive 5s; mistral_slow_client buffer=512k;
        mistral_first_token_timeout 1m; mistral_token_timeout 500ms;
        mistral_max_duration 1h; mistral_ignore_client_abort on;
        server { mistral_kv_reserve prompt; mistral_priority \$arg_p;
        mistral_fair off; mistral_deadline off; mistral_retry_after off;
        mistral_sse_keepalive off; mistral_slow_client pause;
        mistral_first_token_timeout off; mistral_token_timeout off;
        mistral_max_duration off; mistral_ignore_client_abort off;
        location / { mistral_kv_reserve 0%; mistral_priority -8;
        mistral_fair \$arg_k weight=\$arg_w; mistral_retry_after 10s;
        mistral_deadline ttft=\${arg_t}ms; mistral_slow_client close;
        mistral_pass n; } }", 'pressure and streams at each level');

for my $t (
    [ 'mistral_kv_reserve 101%;', 'invalid value "101%" in "mistral_kv_reserve"' ],
    [ 'mistral_kv_reserve 50;', 'it must be "prompt", "full" or a part' ],
    [ 'mistral_kv_reserve %;', 'invalid value "%"' ],
    [ 'mistral_kv_reserve;', 'invalid number of arguments' ],
    [ 'mistral_kv_reserve full; mistral_kv_reserve full;', 'is duplicate' ],
    [ 'mistral_priority 8;', 'invalid class "8"' ],
    [ 'mistral_priority -9;', 'it must be from -8 to 7 or a variable' ],
    [ 'mistral_priority 1 always;', 'invalid parameter "always"' ],
    [ 'mistral_priority "";', 'invalid value ""' ],
    [ 'mistral_priority $nothing;', 'unknown "nothing" variable' ],
    [ 'mistral_priority 1; mistral_priority 2;', 'is duplicate' ],
    [ 'mistral_fair $remote_addr weight=0;', 'invalid weight "0"' ],
    [ 'mistral_fair $remote_addr weight=1001;', 'from 1 to 1000' ],
    [ 'mistral_fair $remote_addr 5;', 'invalid parameter "5"' ],
    [ 'mistral_fair "";', 'invalid value ""' ],
    [ 'mistral_fair a; mistral_fair b;', 'is duplicate' ],
    [ 'mistral_deadline 2s;',
      'invalid parameter "2s" in "mistral_deadline" directive, it must be '
      . '"ttft=time", "ttft=$variable" or "off"' ],
    [ 'mistral_deadline ttft=soon;', 'invalid time "soon"' ],
    [ 'mistral_deadline ttft=0;', 'invalid time "0"' ],
    [ 'mistral_deadline ttft=;', 'invalid value ""' ],
    [ 'mistral_deadline off; mistral_deadline off;', 'is duplicate' ],
    [ 'mistral_retry_after 0;', 'invalid value "0" in "mistral_retry_after"' ],
    [ 'mistral_retry_after 500ms;', 'a time from a second to a day' ],
    [ 'mistral_retry_after 1000d;', 'a time from a second to a day' ],
    [ 'mistral_retry_after 1; mistral_retry_after 1;', 'is duplicate' ],
    [ 'mistral_shed_status 200;', 'invalid status "200"' ],
    [ 'mistral_shed_status 444;', 'from 400 to 599, but not 444, which '
                                  . 'sends no answer, nor 499 in ' ],
    [ 'mistral_shed_status 499;', 'from 400 to 599' ],
    [ 'mistral_shed_status 503; mistral_shed_status 503;', 'is duplicate' ],
    [ 'mistral_sse_keepalive 0;', 'invalid value "0" in "mistral_sse_keepalive"' ],
    [ 'mistral_token_timeout never;', 'it must be a time or "off"' ],
    [ 'mistral_first_token_timeout 1000000h;', 'invalid value "1000000h"' ],
    [ 'mistral_max_duration 1s; mistral_max_duration off;', 'is duplicate' ],
    [ 'mistral_slow_client buffer=0;', 'invalid parameter "buffer=0"' ],
    [ 'mistral_slow_client buffer=1m;', 'of at most 512k' ],
    [ 'mistral_slow_client wait;', 'it must be "pause", "close" or' ],
    [ 'mistral_slow_client pause; mistral_slow_client pause;', 'is duplicate' ],
    [ 'mistral_ignore_client_abort 1;', 'it must be "on" or "off"' ])
{
    fails("$null server { location / { $t->[0] } }", $t->[1]);
}

# limits and quotas

my $z = 'mistral_limit_zone $arg_k zone=z:1m rate=10t/s;';
my $q = 'mistral_quota_zone $arg_k zone=q:1m quota=5k window=1d;';

for my $ok ('mistral_limit_zone $arg_k zone=z:32k rate=500t/s;',
            'mistral_limit_zone $arg_k zone=z:10m rate=20kt/m burst=1m;',
            'mistral_limit_zone $arg_k rate=1mt/h zone=z:1m;',
            'mistral_limit_zone $arg_k$arg_l zone=z:1m rate=$arg_r;',
            'mistral_limit_zone $arg_k zone=z:1m rate=${arg_r}t/m burst=$arg_b;',
            'map $arg_t $tpm { gold 200k; internal ""; default 20k; }
             map $arg_t $rate { internal ""; default "${tpm}t/m"; }
             mistral_limit_zone $arg_k zone=z:1m rate=$rate burst=30k;',
            'mistral_quota_zone $arg_k zone=q:1m quota=$arg_q window=1s;',
            'mistral_quota_zone $arg_k zone=q:1m quota=1 window=month;',
            'mistral_quota_zone $arg_k zone=q:1m quota=5k window=1h
                                align=calendar state=logs/state;',
            'mistral_quota_zone $arg_k zone=q:1m quota=5k window=30d;',
            "$z $q mistral_limit zone=z; mistral_quota zone=q;",
            'mistral_limit zone=z; ' . $z,
            "$z mistral_limit zone=z count=uncached reserve=max_tokens;",
            "$z mistral_limit zone=z count=completion reserve=prompt;",
            "$z mistral_limit zone=z reserve=20k overrun=finish;",
            "$z mistral_limit zone=z reserve=0 overrun=pace;",
            "$z mistral_limit zone=z reserve=prompt overrun=stop;",
            "$q mistral_quota zone=q reserve=5 overrun=stop;",
            'mistral_limit_zone $arg_k zone=z:1m rate=1t/s;
             mistral_limit_zone $arg_k zone=y:1m rate=1t/s;
             mistral_limit zone=z; mistral_limit zone=y;',
            'mistral_limit_status 503; mistral_limit_dry_run on;')
{
    passes("$null $ok $d { mistral_pass n; } }", $ok);
}

for my $t (
    [ 'mistral_limit_zone $arg_k zone=z:1m;', 'invalid number of arguments' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m burst=5;',
      '"mistral_limit_zone" directive has no "rate" parameter' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m burst=5 burst=6;',
      'duplicate parameter "burst=6"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1t/s x=1;',
      'invalid parameter "x=1"' ],
    [ 'mistral_limit_zone $arg_k rate=1t/s burst=5;',
      'invalid value "zone=", it must be NAME:SIZE' ],
    [ 'mistral_limit_zone $arg_k zone=z rate=1t/s;',
      'invalid value "zone=z", it must be NAME:SIZE' ],
    [ 'mistral_limit_zone $arg_k zone=:1m rate=1t/s;', 'invalid value "zone=:1m"' ],
    [ 'mistral_limit_zone $arg_k zone=z:x rate=1t/s;', 'the size is none' ],
    [ 'mistral_limit_zone $arg_k zone=z:31k rate=1t/s;',
      'the zone is too small' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1r/s;',
      'invalid value "rate=1r/s", it must be like "500t/s"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=0t/s;', '"rate=0t/s"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=-1t/s;', '"rate=-1t/s"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=5;', '"rate=5"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1t/s burst=0;',
      'invalid value "burst=0", it must be a number of tokens' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1t/s burst=1g;', '"burst=1g"' ],
    [ 'mistral_limit_zone $nothing zone=z:1m rate=1t/s;',
      'unknown "nothing" variable' ],
    [ "$z $z", 'zone "z" is already bound to a key' ],
    [ "$z mistral_quota_zone \$arg_k zone=z:1m quota=1 window=1h;",
      'zone "z" is already bound to a key' ],
    [ 'limit_req_zone $arg_k zone=z:1m rate=1r/s; ' . $z,
      'is already declared for a different use' ],

    [ 'mistral_quota_zone $arg_k;', 'invalid number of arguments' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m window=1h;',
      '"mistral_quota_zone" directive has no "quota" parameter' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1;',
      '"mistral_quota_zone" directive has no "window" parameter' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=0 window=1h;', '"quota=0"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=x window=1h;', '"quota=x"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1y;',
      'invalid value "window=1y", it must be "month" or a time' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=367d;', '"window=367d"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=30d align=calendar;',
      'invalid value "window=30d", no calendar has it' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h align=x;',
      'invalid value "align=x", it must be "calendar"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=;',
      'invalid value "state=", it must be the name of a file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=logs/;',
      'it must be the name of a file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=logs/x;
       mistral_quota_zone $arg_k zone=r:1m quota=1 window=1h state=logs/x;',
      'invalid value "state=logs/x", it is the state of another zone' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=dir;',
      "\"$prefix/dir\", the state of mistral_quota_zone \"q\", is no regular"
      . ' file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=fifo;',
      "\"$prefix/fifo\", the state of mistral_quota_zone \"q\", is no regular"
      . ' file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=plain/x;',
      "\"$prefix/plain\" of mistral_quota_zone \"q\" is no directory" ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h
       state=no/where/x;', "cannot create directory \"$prefix/no/where\"" ],

    [ 'mistral_limit;', 'invalid number of arguments' ],
    [ 'mistral_limit count=total;', '"mistral_limit" must have a "zone"' ],
    [ 'mistral_limit zone=;', '"mistral_limit" must have a "zone"' ],
    [ 'mistral_limit zone=x;', 'unknown mistral_limit_zone "x" in ' ],
    [ "$q mistral_limit zone=q;", 'unknown mistral_limit_zone "q" in ' ],
    [ "$z mistral_quota zone=z;", 'unknown mistral_quota_zone "z" in ' ],
    [ "$z mistral_limit zone=z; mistral_limit zone=z;",
      '"mistral_limit" with "zone=z" is duplicate' ],
    [ "$z mistral_limit zone=z burst=5;",
      'invalid parameter "burst=5" in "mistral_limit" directive, it belongs to '
      . '"mistral_limit_zone"' ],
    [ "$q mistral_quota zone=q state=x;",
      'it belongs to "mistral_quota_zone"' ],
    [ "$q mistral_quota zone=q x=5;",
      'invalid parameter "x=5" in "mistral_quota" directive in' ],
    [ "$z mistral_limit zone=z count=x;", 'invalid value "count=x"' ],
    [ "$z mistral_limit zone=z reserve=x;", 'invalid value "reserve=x"' ],
    [ "$z mistral_limit zone=z reserve=10000m;", '"reserve=10000m"' ],
    [ "$z mistral_limit zone=z reserve=0 overrun=x;",
      'invalid value "overrun=x"' ],
    [ "$z mistral_limit zone=z overrun=stop;",
      'invalid value "overrun=stop", an answer overruns' ],
    [ "$z mistral_limit zone=z count=prompt reserve=5;",
      'invalid value "count=prompt", of a prompt nothing is reserved' ],
    [ "$q mistral_quota zone=q reserve=0 overrun=pace;",
      'invalid value "overrun=pace", a quota has no rate' ],
    [ 'mistral_limit_status 200;', 'value must be between 400 and 599' ],
    [ 'mistral_limit_dry_run x;', 'it must be "on" or "off"' ])
{
    fails("$null $t->[0] $d { mistral_pass n; } }", $t->[1]);
}

done_testing();

#!/usr/bin/perl

# docker/alerts.yml and docker/dashboard.json in a real Prometheus that
# scrapes a real nginx: the rules are rules and one of them fires and calms
# down, every query of the dashboard has an answer.

use warnings;
use strict;

use lib 't/lib';
use Cwd qw/ abs_path /;
use IO::Socket::INET;
use JSON::PP;
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my ($prometheus, $promtool) = map { my $n = $_;
                                    (grep { -x } map { "$_/$n" }
                                     split /:/, $ENV{PATH})[0] }
                              qw/ prometheus promtool /;

plan skip_all => 'no prometheus (apt-get install prometheus)'
    if !$prometheus || !$promtool;

time_out(180);

my $S = server();
my $dir = "$S->{prefix}/prometheus";
my $port = free_port();
my $child;

mkdir $dir or die $!;

# the rules by themselves, and on made-up numbers: each is tested there

like(tool('check config docker/prometheus.yml'), qr/SUCCESS/, 'prometheus.yml');
like(tool('test rules t/data/alerts_test.yml'), qr/SUCCESS/, 'alerts');

my $rules = slurp('docker/alerts.yml');
my $tests = slurp('t/data/alerts_test.yml');

for my $alert ($rules =~ /^ +- alert: (\w+)$/mg) {
    like($tests, qr/alertname: $alert$/m, "$alert has a test");
}

# every metric that a rule or a panel names is one of ours

my $documented = slurp('docs/metrics.md');
my $dashboard = decode_json(slurp('docker/dashboard.json'));
my %queries;

for my $panel (@{$dashboard->{panels}}) {
    $queries{"$panel->{title} $_->{refId}"} = $_->{expr}
        for @{$panel->{targets}};
}

cmp_ok(scalar(keys %queries), '>', 30, 'the panels were found');

my %metric = map { s/_(?:bucket|sum|count)$//r => 1 }
             join(' ', $rules =~ s/^ +(?:summary|description): .*$//gmr,
                       values %queries)
             =~ /\b(mistral_[a-z]\w+)/g;

like($documented, qr/`$_`/, "$_ exists") for sort keys %metric;

# nginx, with requests of all kinds behind it

conf(workers => 2,
     model => 'path null:rate=50; max_batch 2; context 2048;'
              . ' engine_timeout 2s;',
     http => 'mistral_metrics_labels model consumer;',
     locations => 'location /who/ { mistral_consumer $arg_who;
                                    mistral_pass m; }
                   location /tight/ { mistral_pass m; mistral_queue 0; }
                   location = /metrics { mistral_status prometheus; }');

is(nginx(), 0, 'nginx starts');
ok(ready(), 'ready');

for (1 .. 5) {
    fetch("POST /who/completions?who=c$_", '{"prompt":"' . 'x' x 100
                                           . '","max_tokens":10}');
}

# Prometheus: what waits minutes waits seconds here

$rules =~ s/^( +for:) \w+$/$1 1s/mg;
write_file("$dir/alerts.yml", $rules);

my $config = slurp('docker/prometheus.yml');

$config =~ s/interval: 15s/interval: 1s/g;
$config =~ s/127\.0\.0\.1:9145/127.0.0.1:$S->{port}/;
write_file("$dir/prometheus.yml", $config);

start_prometheus();
ok(wait_for(sub { (api('-/ready'))[0] == 200 }, 30), 'Prometheus is ready')
    or diag slurp("$dir/log");

# aborts, refusals, more tokens while it looks on

my @streams = map { stream_of('POST /who/completions?who=s',
                              '{"prompt":"x","max_tokens":1500,"stream":true}') }
              1 .. 2;
is((fetch('POST /tight/completions', '{"prompt":"x"}'))[0], 503, 'one is shed');
ok(wait_for(sub { value('count_over_time(up{job="mistral"}[1m])') >= 2 }),
   'two scrapes');
is(value('min_over_time(up{job="mistral"}[1m])'), 1, 'each with an answer');
close $_->{sock} for @streams;
ok(wait_for(sub { value('sum(mistral_client_aborts_total{phase="decode"})')
                  == 2 }), 'two clients left, and it knows');
is(value('mistral_shed_total{reason="queue_full"}'), 1, 'and of the other');

# every query of the dashboard, as Grafana asks it

for my $name (sort keys %queries) {
    my $query = $queries{$name};

    $query =~ s/\$__rate_interval/30s/g;
    $query =~ s/\$(?:instance|model)\b/.*/g;

    my @found = query($query);

    ok(scalar @found, "$name has an answer") or diag $query;
}

for my $v (@{$dashboard->{templating}{list}}) {
    next if $v->{type} ne 'query';
    my ($selector, $label) = $v->{query} =~ /^label_values\((.*), (\w+)\)$/;
    my @found = query("count by ($label) ($selector)");

    ok(@found && $found[0]{metric}{$label}, "variable $v->{name} has values");
}

# the engine hangs: the alert fires, and calms down when it is back

is_deeply([ grep { /NotReady|Down/ } firing() ], [], 'all is well');

my @stopped = (supervisor(), engine());

kill 'STOP', @stopped;
ok(wait_for(sub { grep { $_ eq 'MistralNotReady' } firing() }, 60),
   'MistralNotReady fires') or diag join ' ', firing();
kill 'CONT', @stopped;
ok(wait_for(sub { !grep { $_ eq 'MistralNotReady' } firing() }, 60),
   'and ends');

stop_prometheus();
stop_nginx();
nothing_left();
done_testing();


sub tool {
    my ($args) = @_;

    my $out = `$promtool $args 2>&1`;
    diag $out if $?;
    return $? ? '' : $out;
}

sub start_prometheus {
    $child = fork() // die $!;

    return if $child;

    open STDOUT, '>', "$dir/log";
    open STDERR, '>&', \*STDOUT;
    chdir $dir;
    { no warnings 'exec'; exec $prometheus, '--config.file=prometheus.yml',
         "--web.listen-address=127.0.0.1:$port", "--storage.tsdb.path=$dir/db",
         '--log.level=warn'; }
    POSIX::_exit(127);
}

sub stop_prometheus {
    return if !$child;

    kill 'TERM', $child;
    waitpid $child, 0;
    undef $child;
}

sub api {
    my ($path) = @_;
    my $sock = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port",
                                     Timeout => 5) or return (0, '');

    print $sock "GET /$path HTTP/1.0\r\nHost: p\r\n\r\n";

    my ($head, $body) = split /\r\n\r\n/, read_all($sock, 20), 2;

    return (($head // '') =~ m{^HTTP/1\.\d (\d+)} ? $1 : 0, $body // '');
}

sub query {
    my ($expr) = @_;

    $expr =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02X', ord $1/ge;

    my ($status, $body) = api("api/v1/query?query=$expr");

    diag "$status $body" if $status != 200;

    return $status == 200 ? @{decode_json($body)->{data}{result}} : ();
}

sub value {
    my @found = query($_[0]);
    return @found ? $found[0]{value}[1] : -1;
}

sub firing {
    my ($status, $body) = api('api/v1/alerts');

    return if $status != 200;
    return map { $_->{labels}{alertname} } grep { $_->{state} eq 'firing' }
           @{decode_json($body)->{data}{alerts}};
}

END {
    my $status = $?;

    kill 'CONT', @stopped if @stopped;
    stop_prometheus();
    $? = $status;
}

#!/usr/bin/perl

# mistral_control over several workers, over a reload and over engines: what
# one worker is told, all do.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;

time_out(120);

my $S = server();
my $pause = 'path null:rate=20; context 4096; max_batch 4;';

sub configure {
    my (%o) = @_;

    conf(workers => 3, model => $o{model} // $pause,
         http => 'log_format f "$status $mistral_request_id '
                 . '$mistral_finish_reason $mistral_completion_tokens";',
         server => 'access_log logs/access.log f;',
         locations => 'location /control/ { access_log off; mistral_control; }');
}

configure();
is(nginx(), 0, 'nginx starts');
ok(ready(), 'ready');

# a stream of each worker, and one that is no stream, by their ids

my @streams = map { stream(4000) } 1 .. 4;
my @ids = map { $_->{buf} =~ /"id":"(chatcmpl-\w+)"/ } @streams;

is(scalar @ids, 4, 'four streams run');
is(status('running'), 4, 'in the engine, too');

my ($code, undef, $body) = cancel($ids[1]);

is($code, 200, 'one is cancelled');
is($body, qq({"id":"$ids[1]","cancelled":true}\n), 'and that is said');

finish($streams[1]);
like($streams[1]{buf}, qr/"code":"cancelled"/, 'its client sees an error');
unlike($streams[1]{buf}, qr/\[DONE\]/, 'and no end');
ok(wait_for(sub { status('running') == 3 }), 'three run');
like(slurp("$S->{prefix}/logs/access.log"), qr/^410 $ids[1] error \d+$/m,
     'its line in the log');

# two that wait for a place are served when there is one

my @waiting = (stream(4000), map { request('POST /v1/completions',
                                           '{"prompt":"x","max_tokens":9}') }
                             1 .. 2);
ok(wait_for(sub { status('waiting') == 2 }), 'two wait');
is((cancel($ids[1]))[0], 404, 'the one that was cancelled is gone');

for my $n (0, 2, 3) {
    is((cancel($ids[$n]))[0], 200, "stream $n is cancelled");
    finish($streams[$n]);
    like($streams[$n]{buf}, qr/"code":"cancelled"/, 'and learns it');
}

like(read_all($_, 20), qr/^HTTP\/1.1 200 .*"length"/s, 'who waited is served')
    for @waiting[1, 2];
close $waiting[0]{sock};
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'nothing is held');

# many at once: each order finds its own, none another

@streams = map { stream(4000) } 1 .. 4;
@ids = map { $_->{buf} =~ /"id":"(chatcmpl-\w+)"/ } @streams;

my @orders = map { request("POST /control/cancel?id=$_") } @ids,
                 map { sprintf 'cmpl-%032x', $_ } 1 .. 60;
my @answers = map { read_all($_, 20) } @orders;

is(scalar(grep { /"cancelled":true/ } @answers), 4, 'four of 64 are found');
is(scalar(grep { /request_not_found/ } @answers), 60, 'sixty are not');
finish($_) for @streams;

# drain is for all workers, and stays over a reload

my $s = stream(60);

is((fetch('POST /control/drain'))[0], 200, 'drain');

my %codes;

$codes{(post(1))[0]}++ for 1 .. 20;
is_deeply(\%codes, { 503 => 20 }, 'every worker refuses');
is((get('/healthz'))[0], 503, 'health is false');

ok(reload(), 'reload');
$codes{(post(1))[0]}++ for 1 .. 20;
is_deeply(\%codes, { 503 => 40 }, 'new workers refuse, too');
finish($s);
like($s->{buf}, qr/\[DONE\]/, 'the stream came to its end');

# another engine is drained as well: the order is for the model

my $engine = engine();

configure(model => $pause . ' prefill_chunk 256;');
ok(reload(), 'reload with another engine');
ok(wait_for(sub { my $e = engine(); $e && $e != $engine }), 'it is there');
is((post(1))[0], 503, 'and takes nothing');

is((fetch('POST /control/resume'))[0], 200, 'resume');
ok(ready(), 'ready');
is(answer(2), 'Th', 'it answers');

# a stream of an old worker with an old engine is found, a second later

$s = stream(4000);
my ($id) = $s->{buf} =~ /"id":"(chatcmpl-\w+)"/;

configure();
ok(reload_slowly(), 'a reload with the first engine again');
ok(wait_for(sub { (get('/healthz'))[0] == 200 }), 'ready');
is((cancel($id))[0], 200, 'an old stream is cancelled');
finish($s);
like($s->{buf}, qr/"code":"cancelled"/, 'and learns it');

# the engine is dead: its requests are lost already, orders are not

kill 'KILL', engine();
is((fetch('POST /control/flush_prefix'))[0], 200, 'flush without an engine');
ok(ready(), 'the next engine');

kill 'KILL', $_ for workers();
ok(wait_for(sub { workers() == 3 }), 'new workers');
ok(ready(), 'ready');

no_alerts('control', qr/exited on signal 9/);
stop_nginx();
nothing_left();
done_testing();


sub cancel { return fetch("POST /control/cancel?id=$_[0]") }

sub reload_slowly {
    my %old = map { $_ => 1 } workers();

    return nginx('-s', 'reload') == 0
           && wait_for(sub { grep { !$old{$_} } workers() });
}

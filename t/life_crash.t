#!/usr/bin/perl

# kill -9 of each process: the others go on, and what was killed comes back.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
time_out(160);

conf();
run_nginx();
ok(ready(), 'ready');

my ($engine, $supervisor) = (engine(), supervisor());
my @all;

# the engine dies

my $s = stream(1000);
signal 'KILL', $engine;

my $ended = finish($s);
ok(length $ended < 1000 && $s->{buf} !~ /\[DONE\]/,
   'a dead engine ends the stream');
like($s->{buf}, qr/"error"/, 'visibly');

my ($status, $headers) = post(4);
ok($status == 200 || $status == 503, 'meanwhile 503, or it is back already');
like($headers, qr/^Retry-After: \d+/m, 'with Retry-After') if $status == 503;

ok(ready(), 'it comes back');
isnt(engine(), $engine, 'another process');
is(supervisor(), $supervisor, 'of the same supervisor');
is(status('restarts'), 1, 'counted once');
is(answer(30), text(30), 'and it answers, from a 0700 directory');
is(status('queue_places'), 0, 'no queue place is lost');

$engine = engine();

like(log_since(),
     qr/\[(error|alert|crit)\] [^\n]*mistral model "m": [^\n]*engine/,
     'the log tells');
mark();

# by signals of its own faults, too: the next one starts, after a pause

for my $name (qw/ SEGV ABRT BUS TERM /) {
    signal $name, $engine;
    ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine
                      && ready(0.1) }), "SIG$name: it comes back");
    $engine = engine();
    is(parent($engine), $supervisor, 'of the same supervisor');
    is(answer(4), text(4), 'it answers');
}

is(status('restarts'), 5, 'each is counted');
my $line = qr/engine process \d+ exited on signal \d+, the next one starts/;
is(scalar(() = log_since() =~ /$line in \d+ ms/g), 4, 'and has one line');
no_alerts('signals', qr/exited on signal (?:6|7|11|15), the next one/);

# a worker dies

my $mate = stream(60);
$s = stream(1000);
my ($victim) = grep { has_peer($_, $s) } workers();
ok($victim, 'a worker has the stream');

my @places = map { has_peer($victim, $_) } $mate, $s;
signal 'KILL', $victim if $victim;

finish($s);
ok($s->{buf} !~ /\[DONE\]/, 'kill -9 of its worker ends it');
finish($mate) if $places[0];
is(finish($mate), text(60), 'the other worker goes on')
    if !$places[0];
ok(wait_for(sub { status('slots_reclaimed') >= 1 }),
   'the engine takes the slot back');
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'and what it held');
is(engine(), $engine, 'the engine is the same');
is(answer(4), text(4), 'the new worker has it');
no_alerts('worker killed', qr/exited on signal 9/);

# an engine whose usage is not what came: nobody is billed by it

SKIP: {
    skip 'not root', 5 if $> != 0;

    $s = stream(37);
    my ($reader) = grep { has_peer($_, $s) } workers();
    signal 'STOP', $reader;
    ok(wait_for(sub { change_done($engine) }), 'DONE is in the ring, changed');
    signal 'CONT', $reader;
    finish($s);
    like($s->{buf}, qr/data: \{"error":/, 'a wrong usage is an error');
    unlike($s->{buf}, qr/\[DONE\]/, 'and no end');
    like(log_since(), qr/\[alert\] [^\n]*the engine of model "m" counts \d+ \+ 38 /, 'the log tells');
    is(answer(4), text(4), 'the next answer is right');
    no_alerts('a wrong usage', qr/the engine of model "m" counts/);
}

# an engine that writes nonsense: under the worker's feet, while it stands

SKIP: {
    skip 'not root', 8 if $> != 0;

    $s = stream(400);
    ($victim) = grep { has_peer($_, $s) } workers();
    signal 'STOP', $victim;
    sleep 0.2;
    spoil_rings($engine);
    signal 'CONT', $victim;
    finish($s);
    ok($s->{buf} !~ /\[DONE\]/, 'nonsense in the ring ends the stream');
    my @told = log_since()
               =~ /\[alert\] ([^\n]*broken record from the engine)/g;
    is(scalar(@told), 1, 'the log tells once');
    ok(alive($victim), 'the worker lives');
    ok(wait_for(sub { grep { (get('/healthz'))[0] == 503 } 1 .. 8 }),
       'to it the engine is down');

    signal 'KILL', $engine;
    ok(wait_for(sub { engine() != $engine
                      && !grep { (get('/healthz'))[0] != 200 } 1 .. 8 }),
       'until there is another one');
    isnt(engine(), $engine, 'which is another process');
    ok(!(grep { answer(4) ne text(4) } 1 .. 16),
       'then all workers answer');
    no_alerts('broken records', qr/broken record|on signal|died/);
}

$engine = engine();
$supervisor = parent($engine);

# the supervisor dies: its engine brings another one

$s = stream(150);
$mate = stream(40);
@all = ();

for my $i (1 .. 3) {
    $supervisor = another_supervisor($supervisor);
    ok($supervisor, "kill -9 of the supervisor, $i: there is another one");
    push @all, $supervisor if $i < 3;
    is(engine(), $engine, 'the engine is the same');
    is((get('/healthz'))[0], 200, 'and ready');
    is(answer(4), text(4), 'it answers');
}

is(finish($mate), text(40), 'a stream over it is complete');
is(finish($s), text(150), 'and one over all of them');
ok($s->{buf} =~ /data: \[DONE\]/, 'with its end');
is_deeply([ programs() ], [ sort { $a <=> $b } $engine, $supervisor ],
          'one supervisor, one engine');
ok(!(grep { -e "/proc/$_" } @all), 'no zombie');
is(field($supervisor, 'NoNewPrivs'), '1', 'it can gain no privilege');
is_deeply(foreign_fds($supervisor), [], 'and has no other descriptor');

SKIP: {
    skip 'not root', 2 if $> != 0;

    my $uid = getpwnam user();

    is(field($supervisor, 'Uid'), "$uid\t$uid\t$uid\t$uid", 'its uid');
    is((stat "/proc/$supervisor/fd")[4], 0, 'nobody of that user traces it');
}

ok(reload(), 'a reload');
is(engine(), $engine, 'keeps the engine');
ok(alive($supervisor), 'and the supervisor');
no_alerts('supervisor killed');

my $restarts = status('restarts');
signal 'KILL', $engine;
ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine && ready(0.1) }),
   'an engine that dies under the new supervisor comes back');
$engine = engine();
is(parent($engine), $supervisor, 'as its child');
is(status('restarts'), $restarts + 1, 'counted once');
is(answer(4), text(4), 'it answers');
no_alerts('engine killed after its supervisor', qr/engine process \d+ died/);

stop_nginx();
nothing_left();
done_testing();


# where the slots' rings begin, and their sizes; the head of the segment tells

sub segment {
    my ($pid) = @_;

    open my $fh, '+<:raw', "/proc/$pid/fd/3" or die "segment: $!";
    sysread $fh, my $head, 48;

    my ($size, $n, $req, $rsp) = (unpack 'Q4 L4', $head)[2, 4, 5, 6];

    return ($fh, $size - $n * ($req + $rsp), $req, $rsp);
}


# one token more in the DONE records of 37: [len, type 6, 0, id, epochs,
# finish, 0, prompt, cached, completion]

sub change_done {
    my ($pid) = @_;
    my ($fh, $at, $req, $rsp) = segment($pid);
    my $found = 0;

    for my $i (0 .. 7) {
        my $ring = $at + $i * ($req + $rsp) + $req;

        my $bytes = '';

        sysseek $fh, $ring, 0;
        sysread $fh, $bytes, $rsp;

        while ($bytes =~ /\x48\0\0\0\x06\0\0\0/g) {
            my $p = pos($bytes) - 8;

            next if $p % 8 || (unpack 'x40 L', substr $bytes, $p, 44) != 37;

            sysseek $fh, $ring + $p + 40, 0;
            syswrite $fh, pack 'L', 38;
            $found++;
        }
    }

    return $found;
}


# all bytes of all rings

sub spoil_rings {
    my ($fh, $at, $req, $rsp) = segment(@_);

    # slots are claimed from the first on: enough for all our workers

    for my $i (0 .. 7) {
        sysseek $fh, $at + $i * ($req + $rsp) + $req, 0;
        syswrite $fh, "\377" x $rsp;
    }
}

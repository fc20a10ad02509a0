#!/usr/bin/perl

# Engine and supervisor die together, so that none brings the other back: a
# worker does.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;

my $S = server();
time_out(160);

conf(main => 'worker_cpu_affinity 01 01;');
run_nginx();
ok(ready(), 'ready');

my ($engine, $supervisor) = (engine(), supervisor());
my ($s, $status, $headers);
my %fds = map { $_ => fds($_) } workers();

mark();

$s = stream(150);
signal 'STOP', $supervisor;
signal 'KILL', $engine, $supervisor;
ok(gone($supervisor, $engine), 'engine and supervisor are killed');
finish($s);
ok($s->{buf} =~ /"error"/ && $s->{buf} !~ /\[DONE\]/,
   'the stream ends visibly');
($status, $headers) = post(4);
ok($status == 200 || $status == 503, 'meanwhile 503, or it is back already');
like($headers, qr/^Retry-After: \d+/m, 'with Retry-After') if $status == 503;
ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine && ready(0.1) }),
   'it comes back without a reload');
like(log_since(), qr/the engine and its supervisor are gone/, 'the log tells');
is(scalar(() = log_since() =~ /start supervisor of mistral model "m": ok/g),
   1, 'one worker did it');
$engine = engine();
$supervisor = supervisor();
is(scalar(programs()), 2, 'one supervisor, one engine');
ok(!(grep { answer(4) ne text(4) } 1 .. 16), 'all workers answer');
is(status('queue_places'), 0, 'no queue place is lost');
is_deeply(foreign_fds($engine), [], 'the engine has no other descriptor');
is_deeply(foreign_fds($supervisor), [], 'nor has the supervisor');
is(field($engine, 'NoNewPrivs'), '1', 'nor a privilege');
isnt(field((workers())[0], 'Cpus_allowed'), field(master(), 'Cpus_allowed'),
     'the workers are bound to a core') if `nproc` > 1;
is(field($engine, 'Cpus_allowed'), field(master(), 'Cpus_allowed'),
   'the engine is not');

ok(wait_for(sub { !grep { fds($_) != $fds{$_} } keys %fds }),
   'the workers have as many descriptors as before');

ok(reload(), 'a reload');
is(engine(), $engine, 'keeps the engine');
no_alerts('both killed');

# once more, within 5 s: then the next attempt is 5 s after the last one.  A
# reload need not wait for it.

signal 'STOP', $supervisor;
signal 'KILL', $engine, $supervisor;
ok(gone($supervisor, $engine), 'killed again');
ok(reload(), 'a reload');
ok(ready(), 'brings it back, too');
isnt(engine(), $engine, 'another engine');
is(scalar(programs()), 2, 'one supervisor, one engine');
is(answer(30), text(30), 'it answers');
no_alerts('both killed');

# the program cannot be run: 503, one line with the reason at each attempt

chmod 0, $S->{program};
signal 'STOP', $supervisor = supervisor();
signal 'KILL', $engine = engine(), $supervisor;
ok(wait_for(sub { (post(4))[0] == 503 }), 'a program that cannot be run: 503');
($status, $headers) = post(4);
like($headers, qr/^Retry-After: \d+/m, 'with Retry-After');
ok(!(grep { (get('/healthz'))[0] == 200 } 1 .. 200), 'never ready');
ok(wait_for(sub { log_since() =~ /cannot run the engine program "\S+" \(13:/ }),
   'the log tells why');

# it comes up when that is mended, without a reload; and though there is
# another program on the disk now, what runs is the old image

rename $S->{program}, "$S->{closed}/old" or die $!;
write_file($S->{program}, "#!/bin/sh\necho wrong >&2\n");
chmod 0755, $S->{program}, "$S->{closed}/old";
ok(wait_for(sub { (get('/healthz'))[0] == 200
                      && (engine() || $engine) != $engine }),
   'another engine comes when that is mended');
like(readlink '/proc/' . engine() . '/exe', qr{/old$}, 'of the old image')
    if $> == 0;
is(answer(4), text(4), 'it answers');
rename "$S->{closed}/old", $S->{program} or die $!;
no_alerts('a program without permission');

# an engine that stands still while its supervisor is killed: the first one's
# death wakes it, later ones are its children, whose death does not

conf(model => 'path null:text=closed/answer,rate=50; engine_timeout 2s;');
ok(reload(), 'reload with a short engine_timeout');
($engine, $supervisor) = (engine(), supervisor());
signal 'STOP', $engine;
ok(wait_for(sub { field($engine, 'State') =~ /^T/ }), 'the engine is stopped');
$supervisor = another_supervisor($supervisor);
ok($supervisor, 'kill -9 of the supervisor: there is another one');
is(engine(), $engine, 'the engine goes on');
is(answer(4), text(4), 'it answers');

signal 'STOP', $engine;
ok(wait_for(sub { field($engine, 'State') =~ /^T/ }), 'stopped again');
signal 'KILL', $supervisor;
ok(wait_for(sub { (get('/healthz'))[0] == 200 && !alive($engine) }),
   'one that stands still without a supervisor is killed');
like(log_since(), qr/engine process $engine stands still and has no supervisor/,
     'the log tells');
ok(!(grep { answer(4) ne text(4) } 1 .. 8), 'another one answers');
is(scalar(programs()), 2, 'one supervisor, one engine');
no_alerts('a stopped engine', qr/stands still/);

stop_nginx();
nothing_left();
done_testing();

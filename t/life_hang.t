#!/usr/bin/perl

# An engine that hangs (SIGSTOP): health and requests tell, and its supervisor
# kills and restarts it.  A request ring that is full.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
time_out(120);

my ($supervisor, $engine);

# an engine that hangs

conf();
run_nginx();
ok(ready(), 'ready');
($engine, $supervisor) = (engine(), supervisor());

conf(model => 'path null:text=closed/answer,rate=50; engine_timeout 2s;');
ok(reload(), 'reload with another engine_timeout');
is(engine(), $engine, 'which is no reason for another engine');

like(told($engine), qr/^state +ready$/m, 'mistral metrics before');

my $s = stream(1000);
signal 'STOP', $supervisor;
signal 'STOP', $engine;
my $began = time;
finish($s);
ok($s->{buf} !~ /\[DONE\]/, 'an engine that hangs ends the stream');
cmp_ok(time - $began, '<', 15, 'soon after engine_timeout, not ten times it');
is((get('/healthz'))[0], 503, 'health tells');
is((post(4))[0], 503, 'requests get 503');
like(log_since(), qr/\[error\] [^\n]*the engine hangs/, 'the log, too');
is(engine(), $engine, 'it is still that engine');
like(told($engine), qr/^state +down$/m, 'mistral metrics tells');
my $restarts = status('restarts');
signal 'CONT', $supervisor;
ok(ready(), 'its supervisor brings another one');
ok(!alive($engine), 'the hung one was killed');
isnt(engine(), $engine, 'this is another process');
is(supervisor(), $supervisor, 'of the same supervisor');
is(status('restarts'), $restarts + 1, 'counted once');
is(answer(4), text(4), 'it answers');
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'and no queue place is lost');

my @hung = log_since() =~ /\[alert\] ([^\n]*engine process \d+[^\n]*)/g;
is(scalar(@hung), 1, 'one line of the supervisor');
like($hung[0], qr/hung, its last heartbeat was \d+ ms old .*killed/,
     'says why');
no_alerts('hung engine', qr/engine process \d+ hung/);

$engine = engine();
signal 'STOP', $engine;
$began = time;
ok(wait_for(sub { !alive($engine) }), 'an idle engine that hangs is killed');
cmp_ok(time - $began, '>', 1.5, 'not before engine_timeout');
ok(ready(), 'and comes back');
is(answer(4), text(4), 'it answers');
no_alerts('hung idle engine', qr/engine process \d+ hung/);

$engine = engine();
$supervisor = parent($engine);

# a request ring that is full: who has a place waits, whoever leaves does so

$engine = engine();
signal 'STOP', $engine;

my @clients = map { request('POST /v1/chat/completions',
                            chat(20, 1, 'x' x 25000)) } 1 .. 24;
my @told = IO::Select->new(@clients)->can_read(1);

is(scalar @told, 0, 'what finds no room in the ring is not refused');
close $_ for splice @clients, 0, 8;
close $_ for splice @clients, -8;
sleep 0.5;
signal 'CONT', $engine;

my @whole = grep { join('', read_all($_, 20)) =~ /\[DONE\]/ } @clients;

is(scalar @whole, 8, 'those that stayed get their answer');
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'CANCELs that found no room are sent later');
is(answer(30), text(30), 'and the engine answers');
no_alerts('full ring');

stop_nginx();

# a program that does not answer the question

unlink $S->{program};
write_file($S->{program}, "#!/bin/sh\nexec sleep 50\n");
chmod 0755, $S->{program};
$S->{quiet} = 1;
isnt(nginx('-t'), 0, 'a program that hangs: nginx -t fails');
like($S->{out}, qr/the engine program "\S+" failed: no answer in 5 s, killed/,
     'and says why');

nothing_left();
done_testing();


# what the program says of an engine

sub told {
    my ($pid) = @_;

    return qx{$Build/mistral metrics --pid $pid 2>&1};
}

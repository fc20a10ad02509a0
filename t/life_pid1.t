#!/usr/bin/perl

# nginx as PID 1 of its own pid namespace, as in a container without an init:
# supervisors become its children, which it must reap and not count, and all
# ends with it.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use POSIX qw/ :sys_wait_h /;
use Test::More;
use Time::HiRes qw/ sleep time /;

my @unshare = qw/ unshare --pid --fork --mount-proc /;

plan skip_all => "unshare --pid is not permitted here"
    if system("@unshare true 2>/dev/null") != 0;

my $S = server();
time_out(120);

conf(main => 'daemon off;');

for my $end (qw/ QUIT TERM KILL /) {
    my $outer = run_nginx(1, @unshare);
    my $nginx;

    ok(wait_for(sub { ($nginx) = children($outer) }), 'nginx runs');
    ok(ready(), 'ready');
    is(slurp($S->{pid}), "1\n", 'as PID 1');

    my ($super, $engine) = both();

    is(parent($super), $nginx, 'the supervisor is its child');
    is(answer(20), text(20), 'it answers');

    lives($nginx, $super, $engine) if $end eq 'QUIT';

    my @all = (programs(), $nginx, workers($nginx), $outer);
    my $s = stream(40);

    signal $end, $nginx;

    if ($end eq 'QUIT') {
        is(finish($s), text(40), 'QUIT: a stream completes');
    }

    ok(gone_or_reaped($outer), "$end: unshare ends");
    ok(gone(@all), 'nothing is left');
    is_deeply([ programs() ], [], 'no engine');
    unlink $S->{pid};
}

nothing_left();
done_testing();


# reload, and every death

sub lives {
    my ($nginx, $super, $engine) = @_;
    my $s = stream(100);
    my @old = workers($nginx);

    signal 'HUP', $nginx;
    ok(wait_for(sub { 2 == grep { my $w = $_; !grep { $_ == $w } @old }
                           workers($nginx) }), 'reload: new workers');
    is_deeply([ both() ], [ $super, $engine ], 'the same engine');
    is(finish($s), text(100), 'a stream over it is complete');
    ok(wait_for(sub { workers($nginx) == 2 }), 'the old workers leave');

    signal 'KILL', $engine;
    ok(wait_for(sub { my (undef, $e) = both();
                      $e && $e != $engine && ready(0.1) }),
       'kill -9 of the engine: another one');
    (undef, $engine) = both();

    signal 'KILL', $super;
    ok(wait_for(sub { my ($s) = both(); $s && $s != $super }),
       'kill -9 of the supervisor: another one');
    is((both())[1], $engine, 'the engine is the same');
    is(answer(4), text(4), 'it answers');
    ok(wait_for(sub { parent($engine) == $nginx }),
       'now the engine is a child of nginx');

    ($super) = both();
    signal 'STOP', $super;
    signal 'KILL', $engine, $super;
    ok(wait_for(sub { my (undef, $e) = both();
                      $e && $e != $engine && ready(0.1) }),
       'kill -9 of both: a worker brings them back');
    is(answer(4), text(4), 'it answers');

    my ($victim) = workers($nginx);
    signal 'KILL', $victim;
    ok(wait_for(sub { workers($nginx) == 2
                      && !grep { $_ == $victim } workers($nginx) }),
       'kill -9 of a worker: another one');
    is(answer(4), text(4), 'it answers');
    is(scalar(programs()), 2, 'one supervisor, one engine');
    ok(wait_for(sub { !grep { (field($_, 'State') // '') =~ /^Z/ }
                           children($nginx) }), 'no zombie is left');
    no_alerts('PID 1', qr/on signal 9|engine process \d+ died/);
}


# (supervisor, engine): by their command lines, since the numbers in the
# segment are those of the namespace

sub both {
    my @pids = programs();
    my ($engine) = grep { cmdline($_) =~ /--epoch/ } @pids;
    my ($super) = grep { cmdline($_) !~ /--epoch/ } @pids;

    return ($super, $engine);
}


# our own child is a zombie until we wait for it

sub gone_or_reaped {
    my ($pid) = @_;

    return wait_for(sub { waitpid($pid, WNOHANG) != 0 });
}
